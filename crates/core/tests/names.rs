//! Every name that Drover makes is one that Kubernetes and vCenter take, and no two things have the same.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::{
    info::publication::host_names,
    names::{self, LONGEST, Slot},
    shell::{hosts_name, labels},
};
use proptest::{prelude::*, string::string_regex};

const UID: &str = "c7ff0546-b9f0-49b5-8ea6-748b1f10d039";

/// Whether Kubernetes takes text for the name of an object.
fn is_subdomain(text: &str) -> bool {
    (1..=253).contains(&text.len()) && text.split('.').all(|label| !label.is_empty() && is_dashed(label))
}

/// Whether Kubernetes takes text for the name of a Service.
fn is_service(text: &str) -> bool {
    (1..=63).contains(&text.len()) && text.starts_with(|first: char| first.is_ascii_lowercase()) && is_dashed(text)
}

/// Small letters, digits and dashes, and no dash at either end.
fn is_dashed(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| is_plain(byte) || byte == b'-') && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether Kubernetes takes text for the value of a label.
fn is_label_value(text: &str) -> bool {
    let is_inner = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_end = |letter: char| letter.is_ascii_alphanumeric();
    text.len() <= 63 && text.chars().all(is_inner) && text.starts_with(is_end) && text.ends_with(is_end)
}

/// Whether vCenter takes text for a name as it is, without a letter that it escapes.
fn is_inventory_name(text: &str) -> bool {
    (1..=LONGEST).contains(&text.chars().count()) && !text.contains(['%', '/', '\\'])
}

/// The names that the API server admits for a group, a VCenter or a MyOwnShell, the long ones with dots at all places.
fn object_names() -> impl Strategy<Value = String> {
    let label = "[a-z0-9]([a-z0-9-]{0,70}[a-z0-9])?";
    let short = string_regex("[a-z0-9]([a-z0-9-]{0,4}[a-z0-9])?(\\.[a-z0-9]{1,3}){0,2}").unwrap();
    let long = string_regex(&format!("{label}(\\.{label}){{0,8}}")).unwrap();
    prop_oneof![short, long].prop_map(|name| {
        let cut = &name[..name.len().min(253)];
        cut.trim_end_matches(['.', '-']).to_owned()
    })
}

fn namespaces() -> impl Strategy<Value = String> {
    string_regex("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?").unwrap()
}

/// A name that is another's but for its tail.
fn with_tail(name: &str, cut: usize, tail: &str, longest: usize) -> String {
    let kept = name.len().saturating_sub(cut).min(longest - tail.len());
    format!("{}{tail}", &name[..kept])
}

/// What hosts may be called: anything, and much that looks alike.
fn host_sets() -> impl Strategy<Value = BTreeSet<String>> {
    let alike = string_regex("[aA1][._:-]{0,2}[bB2][._:-]{0,2}(-lab)?").unwrap();
    let address = any::<std::net::Ipv6Addr>().prop_map(|address| address.to_string());
    let any_text = string_regex("\\PC{1,300}").unwrap();
    proptest::collection::btree_set(prop_oneof![4 => alike, 1 => address, 1 => any_text], 0..12)
}

proptest! {
    #[test]
    fn any_text_becomes_the_name_of_an_object(text in "\\PC{0,300}") {
        prop_assert!(is_subdomain(&names::object(&text)), "{}", names::object(&text));
    }

    #[test]
    fn the_name_of_an_object_stays_as_it_is(name in object_names()) {
        prop_assert_eq!(names::object(&name), name);
    }

    #[test]
    fn a_groups_names_are_taken_by_vcenter_and_kubernetes(
        namespace in namespaces(),
        name in object_names(),
        slot in 0_u32..10_000,
    ) {
        let (folder, member) = (names::folder(&namespace, &name), names::member(&name, UID, Slot(slot)));
        prop_assert!(is_inventory_name(&folder), "{folder}");
        prop_assert!(is_inventory_name(&member), "{member}");
        prop_assert!(is_subdomain(&names::object(&member)), "{member}");
        prop_assert!(is_label_value(&names::label(&name)), "{}", names::label(&name));
    }

    #[test]
    fn groups_whose_names_differ_in_their_tails_have_folders_of_their_own(
        (namespace, name) in (namespaces(), object_names()),
        (cut, tail) in (0_usize..6, "[a-z0-9]{1,6}"),
    ) {
        let folder = names::folder(&namespace, &name);
        let (other_namespace, other_name) = (with_tail(&namespace, cut, &tail, 63), with_tail(&name, cut, &tail, 253));
        prop_assume!(other_namespace != namespace && other_name != name);
        prop_assert_ne!(&names::folder(&namespace, &other_name), &folder);
        prop_assert_ne!(&names::folder(&other_namespace, &name), &folder);
        prop_assert_ne!(&names::folder(&other_namespace, &other_name), &folder);
    }

    #[test]
    fn a_shells_names_are_taken_by_kubernetes(name in object_names()) {
        prop_assert!(is_service(&hosts_name(&name)), "{}", hosts_name(&name));
        for value in labels(&name).values() {
            prop_assert!(is_label_value(value), "{value}");
        }
    }

    #[test]
    fn shells_that_differ_by_dots_and_dashes_share_no_name(name in object_names(), changes in any::<u64>()) {
        let change = |(place, letter): (usize, char)| match letter {
            '.' if changes >> (place % 64) & 1 == 1 => '-',
            other => other,
        };
        let other: String = name.chars().enumerate().map(change).collect();
        prop_assume!(other != name);
        prop_assert_ne!(hosts_name(&other), hosts_name(&name));
        prop_assert_ne!(labels(&other), labels(&name));
    }

    #[test]
    fn hosts_are_published_under_names_of_their_own(
        hosts in host_sets(),
        strangers in host_sets(),
        vcenter in object_names(),
    ) {
        let taken: BTreeSet<String> = strangers.iter().map(|stranger| names::object(stranger)).collect();
        let named = host_names(&hosts, &vcenter, &taken, &BTreeMap::new());
        prop_assert_eq!(named.given.len() + named.left_out.len(), hosts.len());
        let used: BTreeSet<_> = named.given.values().collect();
        prop_assert_eq!(used.len(), named.given.len());
        prop_assert!(used.iter().all(|name| is_subdomain(name) && !taken.contains(*name)), "{:?}", used);
        // Nobody's name changes by itself.
        let held = named.given.iter().map(|(host, name)| (name.clone(), host.clone())).collect();
        prop_assert_eq!(host_names(&hosts, &vcenter, &taken, &held), named.clone());
        // Who is alone with a name has it, as ever.
        for (host, name) in &named.given {
            let plain = names::object(host);
            let is_alone = hosts.iter().filter(|other| names::object(other) == plain).count() == 1;
            prop_assert!(!is_alone || taken.contains(&plain) || *name == plain, "{host}: {name}");
        }
    }
}
