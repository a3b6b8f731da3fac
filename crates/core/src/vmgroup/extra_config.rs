//! Which keys of extraConfig a group may set. Some reach outside of the VM, and nobody has a list of all that do: so a key that is not known
//! to be harmless is refused, unless the VCenter allows it.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
    sync::Arc,
};

use drover_api::{VmGroup, vcenter::Enforce};
use serde_json::json;

use crate::vmgroup::recorded::was_nowhere;

/// Keys that every group may set, beside `guestinfo.*`: in small letters, as vSphere compares them.
const HARMLESS: [&str; 4] = ["disk.enableuuid", "mem.hotadd", "svga.autodetect", "vcpu.hotadd"];

/// Keys that a VCenter allows: a name, or the begin of one and `*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPattern(String);

/// Which keys a namespace may set in a vCenter, beside those that everybody may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    /// What entries of `spec.allow` allow. Many groups share it.
    pub allowed: Vec<Arc<[KeyPattern]>>,
    /// Whether others are refused.
    pub enforce: Enforce,
}

impl fmt::Display for KeyPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeyPattern {
    /// Reads a pattern. Letters count as small.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.to_ascii_lowercase())
    }

    fn matches(&self, key: &str) -> bool {
        self.0.strip_suffix('*').map_or(self.0 == key, |begin| key.starts_with(begin))
    }
}

/// Keys of a group that its namespace may not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwanted<'a> {
    /// Those that are refused.
    pub refused: Vec<&'a str>,
    /// Those that would be, if the vCenter's rules were enforced.
    pub tolerated: Vec<&'a str>,
}

/// Of some keys those that may not be set. `kept` are those that the group had before keys were checked. What no VCenter can allow is refused
/// whether or not rules are enforced.
pub fn unwanted<'a>(keys: impl IntoIterator<Item = &'a String>, allowed: &Keys, kept: &[String]) -> Unwanted<'a> {
    let mut unwanted = Unwanted::default();
    for key in keys {
        let name = key.to_ascii_lowercase();
        let mut patterns = allowed.allowed.iter().flat_map(|entry| entry.iter());
        if kept.iter().any(|kept| kept.eq_ignore_ascii_case(key)) && !was_never_let_in(&name) {
            continue;
        }
        if is_never_allowed(&name) {
            unwanted.refused.push(key);
        } else if !is_harmless(&name) && !patterns.any(|pattern| pattern.matches(&name)) {
            match allowed.enforce {
                Enforce::Enforce => unwanted.refused.push(key),
                Enforce::Warn => unwanted.tolerated.push(key),
            }
        }
    }
    unwanted
}

/// Of the keys of a group those that no VCenter can allow and whose value is not what it was. Who has kept one may go on with it, and not make
/// it reach elsewhere.
#[must_use]
pub fn redirected<'a>(keys: &'a BTreeMap<String, String>, before: &BTreeMap<String, String>) -> Vec<&'a str> {
    let is_other = |(key, value): &(&String, &String)| {
        before.get(*key) != Some(*value) && is_never_allowed(&key.to_ascii_lowercase())
    };
    keys.iter().filter(is_other).map(|(key, _)| key.as_str()).collect()
}

/// Of the keys that a group has had since before keys were checked those that it could not be given now.
pub fn to_keep<'a>(keys: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let refused = unwanted(keys, &Keys::default(), &[]).refused.into_iter();
    refused.filter(|key| !was_never_let_in(&key.to_ascii_lowercase())).map(ToOwned::to_owned).collect()
}

/// What is said of keys that may not be set, with the entry of `spec.allow` that would allow them, where one could.
#[must_use]
pub fn sentence(refused: &[&str], vcenter: &str, namespace: &str) -> String {
    let (never, unlisted): (Vec<&str>, Vec<&str>) =
        refused.iter().partition(|key| is_never_allowed(&key.to_ascii_lowercase()));
    let mut said = "spec.extraConfig: ".to_owned();
    if !never.is_empty() {
        let names = listed(&never);
        let why = "can't be set: such keys reach outside of the VM, or are Drover's or spec.guest.cloudInit's own";
        // Writing to a text can't fail.
        let _ = write!(said, "{names} {why}. Remove them");
    }
    if !unlisted.is_empty() {
        let names = listed(&unlisted);
        let between = if never.is_empty() { "" } else { ". " };
        let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let entry = json!({"namespaces": labels, "extraConfig": unlisted});
        let _ = write!(
            said,
            "{between}namespace {namespace:?} may not set {names} in VCenter {vcenter:?}. Use keys that begin with guestinfo. To allow \
             them, add to spec.allow of the VCenter: {entry}"
        );
    }
    said
}

fn listed(keys: &[&str]) -> String {
    keys.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(", ")
}

fn is_harmless(name: &str) -> bool {
    name.starts_with("guestinfo.") || HARMLESS.contains(&name)
}

/// Whether no VCenter can allow a key.
fn is_never_allowed(name: &str) -> bool {
    was_never_let_in(name)
        || ["workingdir", "sched.swap.dir"].contains(&name)
        || ["pcipassthru", "remotedisplay."].iter().any(|begin| name.starts_with(begin))
        || name.ends_with(".redodir")
        // In a VM's file, these would end the key.
        || name.contains(|letter: char| letter.is_control() || letter.is_whitespace() || letter == '=' || letter == '"')
}

/// Whether the API server has refused a key since before keys were checked here. No group can have had it.
fn was_never_let_in(name: &str) -> bool {
    ["drover.", "run.", "set.", "guestinfo.userdata", "guestinfo.metadata"].iter().any(|begin| name.starts_with(begin))
        || name.ends_with(".filename")
}

/// The keys that a group had before Drover checked them. That is written down with the first status that a version writes which checks them,
/// and for a new group with its vCenter: so a group that is somewhere, and has nothing of that written, is of before.
#[must_use]
pub fn kept(group: &VmGroup) -> Vec<String> {
    match group.status.as_ref().and_then(|status| status.extra_config_kept.clone()) {
        Some(kept) => kept,
        None if was_nowhere(group) => Vec::new(),
        None => to_keep(group.spec.extra_config.keys()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowing(patterns: &[&str]) -> Keys {
        let allowed = vec![patterns.iter().map(|pattern| KeyPattern::new(pattern)).collect()];
        Keys { allowed, ..Keys::default() }
    }

    fn is_refused(key: &str, allowed: &[&str], kept: &[&str]) -> bool {
        let kept: Vec<_> = kept.iter().map(|key| (*key).to_owned()).collect();
        let key = key.to_owned();
        let judged = |enforce| unwanted([&key], &Keys { enforce, ..allowing(allowed) }, &kept);
        let (enforced, warned) = (judged(Enforce::Enforce), judged(Enforce::Warn));
        assert!(enforced.tolerated.is_empty(), "{key}");
        let told = [warned.refused, warned.tolerated].concat();
        assert_eq!(told, enforced.refused, "what would be refused is told");
        !enforced.refused.is_empty()
    }

    /// What reaches outside of the VM since before anybody checked it here.
    const REACHING: [&str; 11] = [
        "workingDir",
        "sched.swap.dir",
        "scsi0:0.redoDir",
        "pciPassthru0.present",
        "pciPassthru.use64bitMMIO",
        "RemoteDisplay.vnc.enabled",
        "RemoteDisplay.vnc.port",
        "guestinfo.a = \"b\"",
        "guestinfo.a\nworkingDir",
        "sched.swap.dir ",
        " drover.group",
    ];
    const OWN: [&str; 8] = [
        "drover.group",
        "Drover.x",
        "RUN.container",
        "SET.guest.ipAddress",
        "scsi0:1.fileName",
        "log.FILENAME",
        "guestinfo.userdata",
        "guestinfo.metadata.encoding",
    ];

    #[test]
    fn a_group_sets_keys_of_its_guest_and_a_few_that_are_harmless() {
        for key in [
            "guestinfo.team",
            "GuestInfo.Team",
            "guestinfo.ключ",
            "guestinfo.vendordata",
            "disk.enableUUID",
            "disk.EnableUUID",
            "mem.hotadd",
            "vcpu.hotadd",
            "svga.autodetect",
        ] {
            assert!(!is_refused(key, &[], &[]), "{key}");
        }
        for key in
            ["isolation.tools.copy.disable", "sched.cpu.units", "company.team", "key", "guestinfo", "x.guestinfo.a", ""]
        {
            assert!(is_refused(key, &[], &[]), "{key}");
        }
    }

    #[test]
    fn a_vcenter_allows_more_but_nothing_that_reaches_outside_of_the_vm() {
        for (pattern, key, is_so) in [
            ("company.team", "Company.Team", true),
            ("company.team", "company.team2", false),
            ("Company.*", "company.team", true),
            ("company.*", "companyteam", false),
            ("isolation.*", "isolation.tools.copy.disable", true),
            ("*", "key", true),
        ] {
            assert_eq!(!is_refused(key, &[pattern], &[]), is_so, "{pattern} and {key}");
        }
        for key in REACHING.iter().chain(&OWN) {
            assert!(is_refused(key, &["*", key], &[]), "{key}");
        }
    }

    #[test]
    fn a_group_keeps_what_it_had_and_gets_no_more() {
        assert!(!is_refused("company.team", &[], &["Company.team"]));
        assert!(is_refused("company.owner", &[], &["company.team"]));
        let had = |keys: &[&str]| to_keep(&keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
        for key in REACHING {
            assert_eq!(had(&[key]), [key]);
            assert!(!is_refused(key, &[], &[key]), "{key}");
        }
        for key in OWN {
            assert!(had(&[key]).is_empty() && is_refused(key, &[], &[key]), "{key}: no version has let it in");
        }
        assert!(had(&["guestinfo.a", "disk.enableUUID"]).is_empty(), "what everybody may set need not be kept");
    }

    #[test]
    fn where_rules_only_warn_nothing_is_refused_but_what_no_vcenter_can_allow() {
        let warns = Keys { enforce: Enforce::Warn, ..allowing(&["company.*"]) };
        let keys = ["company.team", "sched.cpu.units", "guestinfo.a", "workingDir", "drover.x"].map(ToOwned::to_owned);
        let told = unwanted(&keys, &warns, &[]);
        assert_eq!((told.refused, told.tolerated), (vec!["workingDir", "drover.x"], vec!["sched.cpu.units"]));
        for key in REACHING.iter().chain(&OWN) {
            let key = (*key).to_owned();
            assert_eq!(unwanted([&key], &warns, &[]).refused, [key.as_str()]);
        }
    }

    #[test]
    fn what_is_kept_and_reaches_outside_of_the_vm_gets_no_other_value() {
        let map =
            |keys: &[(&str, &str)]| keys.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let before = map(&[("workingDir", "a"), ("company.team", "a"), ("guestinfo.a", "a")]);
        assert!(redirected(&before, &before).is_empty());
        let now = map(&[("workingDir", "b"), ("company.team", "b"), ("guestinfo.a", "b")]);
        assert_eq!(redirected(&now, &before), ["workingDir"]);
        assert_eq!(redirected(&map(&[("sched.swap.dir", "a")]), &before), ["sched.swap.dir"]);
        assert_eq!(
            redirected(&map(&[("WorkingDir", "a")]), &before),
            ["WorkingDir"],
            "it is another key to the API server"
        );
    }

    #[test]
    fn the_line_to_add_allows_what_was_refused() {
        let said = sentence(&["company.team"], "lab", "team-a");
        let begin = r#"spec.extraConfig: namespace "team-a" may not set "company.team" in VCenter "lab". Use keys that begin with guestinfo. "#;
        let (words, entry) = said.split_once("To allow them, add to spec.allow of the VCenter: ").unwrap();
        assert_eq!(words, begin);
        let labels = json!({"matchLabels": {"kubernetes.io/metadata.name": "team-a"}});
        let entry: serde_json::Value = serde_json::from_str(entry).unwrap();
        assert_eq!(entry, json!({"namespaces": labels, "extraConfig": ["company.team"]}));
        let said = sentence(&["workingDir"], "lab", "team-a");
        assert!(said.starts_with(r#"spec.extraConfig: "workingDir" can't be set: "#), "{said}");
        assert!(!said.contains("spec.allow"), "nobody can allow it: {said}");
        let said = sentence(&["a", "workingDir"], "lab", "team-a");
        assert!(said.contains(r#"may not set "a" in"#) && said.contains(r#": "workingDir" can't"#), "{said}");
    }
}
