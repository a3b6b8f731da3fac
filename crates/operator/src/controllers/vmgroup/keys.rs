//! The keys of extraConfig that a group sets: whether it may, and which it has had since before that was asked.

use drover_api::VmGroup;
use drover_core::{events::News, reasons::EventReason, tenancy::keys};
use kube::{Client, ResourceExt};

use super::was_nowhere;
use crate::{controllers::binding::BoundVCenter, kube::events};

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
    let unwanted = keys::unwanted(group.spec.extra_config.keys(), &bound.keys, &kept(group));
    BadKeys {
        refused: sentence(bound, group, &unwanted.refused),
        tolerated: would_be(sentence(bound, group, &unwanted.tolerated)),
    }
}

/// What is said of keys that a group may not set, if there are any.
pub(super) fn sentence(bound: &BoundVCenter, group: &VmGroup, keys: &[&str]) -> Option<String> {
    let namespace = group.namespace().unwrap_or_default();
    (!keys.is_empty()).then(|| keys::sentence(keys, &bound.live.name, &namespace))
}

/// The same of what is not refused yet.
pub(super) fn would_be(why: Option<String>) -> Option<String> {
    why.map(|why| format!("would be refused: {why}"))
}

/// The keys that a group had before Drover checked them. That is written down with the first status that a version writes which checks them,
/// and for a new group with its vCenter: so a group that is somewhere, and has nothing of that written, is of before.
pub(super) fn kept(group: &VmGroup) -> Vec<String> {
    match group.status.as_ref().and_then(|status| status.extra_config_kept.clone()) {
        Some(kept) => kept,
        None if was_nowhere(group) => Vec::new(),
        None => keys::to_keep(group.spec.extra_config.keys()),
    }
}

/// Tells that a group keeps keys, when that has just been written down.
pub(super) fn tell_kept(kube: &Client, group: &VmGroup) {
    let is_written = group.status.as_ref().is_some_and(|status| status.extra_config_kept.is_some());
    let kept = kept(group);
    if is_written || kept.is_empty() {
        return;
    }
    let message = format!(
        "spec.extraConfig: {} stay allowed in this VmGroup, because it had them before Drover checked keys; a new VmGroup may not set them, \
         unless spec.allow of the VCenter lists them",
        kept.join(", ")
    );
    events::tell(kube, group, &[News { is_warning: true, reason: EventReason::KeysKept.word(), message }]);
}
