//! Whose VMs a group has: its own, or those of an earlier group of its name.
//!
//! A cluster that is restored from a backup gives every group another UID. The members' names, instance UUIDs and markers follow from
//! the UID that the group had before, so such a group would see none of its VMs and make all of them again beside the old ones. It
//! makes none instead, until a person says which VMs it takes over, or that it takes over none.

use std::collections::BTreeMap;

use drover_api::VmGroup;

/// The annotation that says whose VMs a group takes over: the UID of the earlier group, or `none`.
pub const TAKE_OVER_ANNOTATION: &str = "vm.codeconnect.vmworld.com/take-over";

/// What the annotation says where a group is to have VMs of its own, whatever earlier ones there are.
const NONE: &str = "none";

/// The UID that the names, instance UUIDs and markers of a group's VMs follow from.
#[must_use]
pub fn marker_uid(group: &VmGroup) -> String {
    let taken_over = group.status.as_ref().and_then(|status| status.marker_uid.clone());
    taken_over.or_else(|| group.metadata.uid.clone()).unwrap_or_default()
}

/// What is known of a group that may be the heir of an earlier one.
#[derive(Clone, Copy, Debug)]
pub struct Heir<'a> {
    /// The group's own UID.
    pub uid: &'a str,
    /// The UID whose VMs it has taken over, if it has.
    pub taken_over: Option<&'a str>,
    /// What its annotation says.
    pub asks: Option<&'a str>,
    /// Whether it has VMs, or some may be on their way.
    pub has_members: bool,
    /// How many VMs there are of earlier groups of its namespace and name in its cluster, by the UIDs of those.
    pub earlier: &'a BTreeMap<String, usize>,
    /// How many VMs it declares.
    pub replicas: u32,
}

/// What is to become of the VMs of earlier groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// Nothing: the group goes on with the VMs that it has.
    Settled,
    /// Those of this UID are the group's from now on.
    TakeOver(String),
    /// A person has to say.
    Unclear(String),
}

/// Says what is to become of the VMs of earlier groups of a group's name.
#[must_use]
pub fn inherit(heir: Heir<'_>) -> Inheritance {
    let asks = heir.asks.map(str::trim).filter(|asks| !asks.is_empty());
    let own = heir.taken_over.unwrap_or(heir.uid);
    match asks {
        // From then on it has VMs of its own, whatever the annotation says later.
        Some(NONE) if heir.taken_over.is_none() && !heir.has_members && !heir.earlier.is_empty() => {
            Inheritance::TakeOver(heir.uid.to_owned())
        }
        Some(NONE) => Inheritance::Settled,
        Some(asks) if asks == own => Inheritance::Settled,
        Some(asks) if heir.has_members || heir.taken_over.is_some() => Inheritance::Unclear(format!(
            "the annotation {TAKE_OVER_ANNOTATION} names the UID {asks:?}, but this VmGroup already has VMs (UID {own}): remove the \
             annotation"
        )),
        Some(asks)
            if heir
                .earlier
                .get(asks)
                .is_some_and(|count| u32::try_from(*count).unwrap_or(u32::MAX) > heir.replicas) =>
        {
            Inheritance::Unclear(format!(
                "vCenter has more VMs of the earlier VmGroup{} than spec.replicas ({}) declares: taking them over would destroy VMs. Set \
                 spec.replicas to their number first, and scale in later",
                known(heir.earlier),
                heir.replicas
            ))
        }
        Some(asks) if heir.earlier.contains_key(asks) => Inheritance::TakeOver(asks.to_owned()),
        Some(asks) => Inheritance::Unclear(format!(
            "the annotation {TAKE_OVER_ANNOTATION} names the UID {asks:?}, but vCenter has no VM of a VmGroup with that UID, this \
             namespace, this name and this cluster's id{}",
            known(heir.earlier)
        )),
        None if heir.has_members || heir.taken_over.is_some() || heir.earlier.is_empty() => Inheritance::Settled,
        None => Inheritance::Unclear(format!(
            "vCenter has VMs of an earlier VmGroup with this namespace and name{}. No VM is created until the annotation \
             {TAKE_OVER_ANNOTATION} says what to do: the UID takes those VMs over, {NONE:?} leaves those VMs alone and creates new VMs",
            known(heir.earlier)
        )),
    }
}

fn known(earlier: &BTreeMap<String, usize>) -> String {
    let vms = |count: usize| if count == 1 { "1 VM".to_owned() } else { format!("{count} VMs") };
    let each: Vec<_> = earlier.iter().map(|(uid, count)| format!("{} of UID {uid}", vms(*count))).collect();
    if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inherits(asks: Option<&str>, taken_over: Option<&str>, has_members: bool, earlier: &[&str]) -> Inheritance {
        let earlier = earlier.iter().map(|uid| ((*uid).to_owned(), 3)).collect();
        inherit(Heir { uid: "new", taken_over, asks, has_members, earlier: &earlier, replicas: 3 })
    }

    fn sentence(inheritance: Inheritance) -> String {
        match inheritance {
            Inheritance::Unclear(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_restored_group_makes_nothing_beside_the_vms_of_the_old_one() {
        let why = sentence(inherits(None, None, false, &["old"]));
        assert!(why.contains("(3 VMs of UID old)") && why.contains(TAKE_OVER_ANNOTATION), "{why}");
        assert_eq!(inherits(None, None, false, &[]), Inheritance::Settled, "there is no old one");
        assert_eq!(inherits(None, None, true, &["old"]), Inheritance::Settled, "it has lived beside them all the time");
        let own = Inheritance::TakeOver("new".to_owned());
        assert_eq!(inherits(Some("none"), None, false, &["old"]), own, "a person has said so, which is written down");
        assert_eq!(inherits(Some("none"), Some("new"), false, &["old"]), Inheritance::Settled);
        let late = sentence(inherits(Some("old"), Some("new"), false, &["old"]));
        assert!(late.contains("already has VMs"), "its own may be on their way: {late}");
    }

    #[test]
    fn a_take_over_that_would_destroy_vms_is_refused() {
        let earlier = BTreeMap::from([("old".to_owned(), 5)]);
        let heir = |replicas| Heir {
            uid: "new",
            taken_over: None,
            asks: Some("old"),
            has_members: false,
            earlier: &earlier,
            replicas,
        };
        let why = sentence(inherit(heir(3)));
        assert!(why.contains("(5 VMs of UID old)") && why.contains("spec.replicas"), "{why}");
        assert_eq!(inherit(heir(5)), Inheritance::TakeOver("old".to_owned()));
    }

    #[test]
    fn a_group_takes_over_the_vms_that_its_annotation_names_and_no_others() {
        assert_eq!(inherits(Some(" old "), None, false, &["old", "older"]), Inheritance::TakeOver("old".to_owned()));
        assert_eq!(inherits(Some("old"), Some("old"), true, &[]), Inheritance::Settled, "it has done so");
        assert_eq!(inherits(None, Some("old"), false, &["older"]), Inheritance::Settled, "the annotation may go");
        assert!(
            sentence(inherits(Some("another's"), None, false, &["old"])).contains("no VM of a VmGroup with that UID")
        );
        assert_eq!(inherits(Some("new"), None, false, &["old"]), Inheritance::Settled, "it names itself");
    }

    #[test]
    fn a_group_that_has_vms_takes_over_no_others() {
        for (taken_over, has_members) in [(None, true), (Some("older"), true), (Some("older"), false)] {
            let why = sentence(inherits(Some("old"), taken_over, has_members, &["old"]));
            assert!(why.contains("already has VMs"), "{why}");
        }
    }
}
