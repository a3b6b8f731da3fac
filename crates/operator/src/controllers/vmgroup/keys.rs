//! The keys of extraConfig that a group sets: whether it may.

use drover_api::VmGroup;
use drover_core::vmgroup::extra_config;
use kube::ResourceExt;

use crate::controllers::binding::BoundVCenter;

/// What is said of keys that a group may not set.
#[derive(Default)]
pub(super) struct BadKeys {
    /// Why it gets no new VMs.
    pub refused: Option<String>,
    /// What would be refused, if the vCenter's rules were enforced.
    pub tolerated: Option<String>,
}

/// What is wrong with the keys that a group sets.
pub(super) fn judge(bound: &BoundVCenter, group: &VmGroup) -> BadKeys {
    let unwanted = extra_config::unwanted(group.spec.extra_config.keys(), &bound.keys, &extra_config::kept(group));
    BadKeys {
        refused: sentence(bound, group, &unwanted.refused),
        tolerated: would_be(sentence(bound, group, &unwanted.tolerated)),
    }
}

/// What is said of keys that a group may not set, if there are any.
pub(super) fn sentence(bound: &BoundVCenter, group: &VmGroup, keys: &[&str]) -> Option<String> {
    let namespace = group.namespace().unwrap_or_default();
    (!keys.is_empty()).then(|| extra_config::sentence(keys, &bound.live.name, &namespace))
}

/// The same of what is not refused yet.
pub(super) fn would_be(why: Option<String>) -> Option<String> {
    why.map(|why| format!("would be refused: {why}"))
}
