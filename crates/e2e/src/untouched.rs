//! VMs that nobody touches.

use std::collections::BTreeSet;

use crate::Group;

/// What must not change of a group's VMs while Drover goes, and comes again.
#[derive(Debug, PartialEq, Eq)]
pub struct Untouched {
    identities: BTreeSet<String>,
    power: Vec<(String, String)>,
    boots: Vec<(String, String)>,
}

impl Untouched {
    /// As they are now.
    #[must_use]
    #[track_caller]
    pub fn of(group: &Group) -> Self {
        let sorted = |property| {
            let mut all = group.machines(property).unwrap();
            all.sort();
            all
        };
        Self { identities: group.identities(), power: sorted("runtime.powerState"), boots: sorted("runtime.bootTime") }
    }
}
