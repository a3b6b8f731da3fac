//! Not seen is not gone: what can't be read or isn't shown keeps its place.

use std::collections::BTreeSet;

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::{hide, name, nothing_is_made_or_destroyed, sandbox, stalls};

/// Asserts that the group is not as declared while something is so, that nothing is made or destroyed for it, and that it is as declared
/// again with the same VMs when it is over.
#[track_caller]
fn keeps_its_places(group: &Group, replicas: usize, begin: impl FnOnce(), end: impl FnOnce()) {
    let before = group.identities();
    nothing_is_made_or_destroyed(group, || {
        begin();
        eventually(sandbox(), SOON, "the group says that it is not as declared", || {
            let status = group.status()?;
            if status["conditions"][0]["status"] == "False" { Ok(()) } else { Err(status.to_string()) }
        });
    });
    // Not even an administrator is shown the UUID of one whose storage is lost.
    let ids = |identities: &BTreeSet<String>| -> BTreeSet<String> {
        identities.iter().filter_map(|both| both.split(' ').next()).map(ToOwned::to_owned).collect()
    };
    assert_eq!(ids(&group.identities()), ids(&before));
    end();
    group.recovers_to(replicas, "runtime.powerState", "poweredOn");
    assert_eq!(group.identities(), before);
}

#[test]
fn a_vm_without_its_storage_or_its_host_keeps_its_place() {
    let group = Group::create_apart(sandbox(), "unreachable", &json!({"replicas": 3, "lostAfterSeconds": 1}));
    let machines = group.runs_with(3);
    for state in ["inaccessible", "invalid", "orphaned", "disconnected"] {
        let set = |state: &str| {
            let path = format!("/machines/{}", name(&machines[0]));
            group.vcenter().control("PATCH", &path, &json!({"connectionState": state})).unwrap();
        };
        keeps_its_places(&group, 3, || set(state), || set("connected"));
    }
}

#[test]
fn markers_that_may_not_be_read_are_not_gone() {
    let group = Group::create_apart(sandbox(), "unreadable", &json!({"replicas": 2, "lostAfterSeconds": 1}));
    group.runs_with(2);
    let set = |paths: serde_json::Value| {
        group.vcenter().control("PUT", "/unreadable", &paths).unwrap();
    };
    keeps_its_places(&group, 2, || set(json!({"paths": ["config.extraConfig"]})), || set(json!({})));
    keeps_its_places(&group, 2, || set(json!({"paths": ["config"]})), || set(json!({})));
}

#[test]
fn a_hidden_vm_keeps_its_place_until_it_is_lost_and_its_name_keeps_another_out() {
    let group = Group::create_apart(sandbox(), "hidden", &json!({"replicas": 3, "lostAfterSeconds": 0}));
    let machines = group.runs_with(3);
    keeps_its_places(&group, 3, || hide(&group, &[name(&machines[1])]), || hide(&group, &[]));
    let before = group.identities();
    hide(&group, &[name(&machines[1])]);
    group.patch(&json!({"lostAfterSeconds": 1})).unwrap();
    // vCenter lets no other in by its name; that is said, and when it can be seen again it is the member that it was.
    stalls(&group, "TasksFailing", "something that Drover can't see has this name");
    hide(&group, &[]);
    group.recovers_to(3, "runtime.powerState", "poweredOn");
    assert_eq!(group.identities(), before);
}

#[test]
fn a_group_with_a_hidden_vm_is_not_gone_before_that_is() {
    let group = Group::create_apart(sandbox(), "hidden-end", &json!({"replicas": 2}));
    let machines = group.runs_with(2);
    hide(&group, &[name(&machines[0])]);
    eventually(sandbox(), SOON, "it is missed", || {
        let status = group.status()?;
        if status["readyReplicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });
    group.begin_to_delete();
    eventually(sandbox(), SOON, "the other one is gone", || {
        let left = group.everywhere();
        if left == [machines[0].clone()] { Ok(()) } else { Err(format!("{left:?}")) }
    });
    std::thread::sleep(crate::A_WHILE);
    assert!(group.get().is_ok(), "the finalizer stays");
    stalls(&group, "VMsMissing", "is missing, and nothing proves that it was destroyed");
    hide(&group, &[]);
    group.is_gone();
    assert!(group.everywhere().is_empty());
}

#[test]
fn a_group_that_only_lets_go_of_its_vms_does_not_wait_for_those_it_can_not_see() {
    let group = Group::create_apart(sandbox(), "hidden-retain", &json!({"deletionPolicy": "Retain"}));
    let machines = group.runs_with(2);
    hide(&group, &[name(&machines[0])]);
    group.delete();
    assert_eq!(group.everywhere().len(), 2);
}

#[test]
fn a_hidden_folder_is_a_conflict_that_is_told_and_nothing_is_doubled() {
    let group = Group::create_apart(sandbox(), "hidden-folder", &json!({"replicas": 1, "lostAfterSeconds": 1}));
    group.runs_with(1);
    let before = group.identities();
    group.vcenter().control("PUT", "/hidden", &json!({"folders": [group.folder()]})).unwrap();
    stalls(&group, "TasksFailing", "making the group's folder");
    assert_eq!(group.identities(), before);
    hide(&group, &[]);
    group.recovers_to(1, "runtime.powerState", "poweredOn");
    assert_eq!(group.identities(), before);
}

#[test]
fn a_vm_that_was_destroyed_in_vcenter_is_replaced_without_waiting_for_it() {
    let group = Group::create_apart(sandbox(), "proved", &json!({"replicas": 3, "lostAfterSeconds": 0}));
    let machines = group.runs_with(3);
    group.loses(&machines[0]);
    group.recovers_to(3, "runtime.powerState", "poweredOn");
}

#[test]
fn a_vcenter_that_tells_nothing_of_its_recent_tasks_is_worked_with_all_the_same() {
    let group = Group::create_apart(sandbox(), "no-tasks", &json!({"replicas": 0, "lostAfterSeconds": 2}));
    group.settles_with(0, "runtime.powerState", "poweredOn");
    group.vcenter().control("PUT", "/recent-tasks", &json!({"notify": false})).unwrap();
    group.patch(&json!({"replicas": 3})).unwrap();
    let machines = group.runs_with(3);
    group.patch(&json!({"replicas": 2, "cpu": 2})).unwrap();
    group.settles_with(2, "config.hardware.numCPU", "2");
    // That somebody else destroyed it is not told, so it is waited for.
    let left = machines.iter().find(|machine| group.everywhere().contains(machine)).unwrap();
    group.loses(left);
    group.recovers_to(2, "runtime.powerState", "poweredOn");
    group.delete();
    assert!(group.everywhere().is_empty());
}

#[test]
fn what_has_to_be_looked_at_again_and_again_says_why() {
    let group = Group::create_apart(sandbox(), "stubborn", &json!({"replicas": 1}));
    let machines = group.runs_with(1);
    let rule = group.vcenter().rule(&json!({
        "method": "PowerOnVM_Task", "client": "drover",
        "fault": {"type": "TaskInProgress"},
    }));
    group.vcenter().govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    stalls(&group, "TasksFailing", "on: TaskInProgress: another operation is under way");
    assert!(rule.hits() >= 3, "not at the first time: {}", rule.hits());
    rule.remove();
    group.recovers_to(1, "runtime.powerState", "poweredOn");
}
