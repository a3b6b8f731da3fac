//! What becomes of people's VMs when Drover, or all of Kubernetes around it, is replaced: nothing.

use std::collections::BTreeMap;

use drover_e2e::{Group, VCenter};
use serde_json::Value;

mod before;
mod recovery;

/// Asserts that no operator has changed anything since calls were last counted from 0.
#[track_caller]
fn nothing_was_changed(vcenter: &VCenter) {
    assert_eq!(vcenter.changes(), BTreeMap::new());
}

/// All VMs of a group by name, with what tells each from another, when it was started, and all that its configuration says.
#[track_caller]
fn vms(group: &Group<'_>) -> BTreeMap<String, [String; 3]> {
    let property = |name: &str| group.machines(name).unwrap_or_else(|error| panic!("{error}"));
    let mut vms: BTreeMap<String, [String; 3]> = BTreeMap::new();
    for (place, name) in ["config.instanceUuid", "runtime.bootTime", "config.extraConfig"].into_iter().enumerate() {
        for (vm, value) in property(name) {
            // Not every simulated VM knows when it was started.
            assert!(!value.is_empty() || name == "runtime.bootTime", "{vm} has no {name}");
            vms.entry(vm).or_default()[place] = value;
        }
    }
    vms
}

/// An object as a backup tool restores it: without what the API server has given it.
fn restorable(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().expect("every object has metadata");
    for given in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"] {
        metadata.remove(given);
    }
    object
}
