//! What a task has done is told after the task's end, or the task has done it and says that it failed.

use drover_e2e::Group;
use serde_json::json;

use crate::{name, sandbox};

/// Asserts that Drover has asked for so many clones in all: one for each VM that was ever declared, so none was doubled.
#[track_caller]
fn clones_are(group: &Group, expected: u64) {
    assert_eq!(group.vcenter().calls("CloneVM_Task", "drover"), expected, "clones asked for");
}

/// Asserts that nothing of the group's is left in vCenter.
#[track_caller]
fn nothing_is_left(group: &Group) {
    let left = group.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains(group.name()), "{left}");
}

#[test]
fn what_is_told_after_its_task_has_ended_is_neither_doubled_nor_missed() {
    let group = Group::create_apart(sandbox(), "told-late", &json!({"replicas": 0}));
    group.settles_with(0, "runtime.powerState", "poweredOn");
    let rule = group.vcenter().rule(&json!({
        "method": "CloneVM_Task,Destroy_Task,PowerOnVM_Task,PowerOffVM_Task,ReconfigVM_Task",
        "client": "drover", "tell": "1500ms", "seed": 7,
    }));
    let mut clones = 0;
    let mut before = 0;
    for replicas in [5, 2, 6] {
        group.patch(&json!({"replicas": replicas})).unwrap();
        group.runs_with(replicas);
        clones += replicas.saturating_sub(before);
        before = replicas;
        clones_are(&group, clones as u64);
    }
    let old = group.identities();
    group.patch(&json!({"extraConfig": {"guestinfo.a": "b"}})).unwrap();
    group.runs_with(6);
    assert!(group.identities().is_disjoint(&old), "all were replaced");
    clones_are(&group, clones as u64 + 6);
    group.patch(&json!({"replicas": 0})).unwrap();
    group.settles_with(0, "runtime.powerState", "poweredOn");
    group.delete();
    nothing_is_left(&group);
    clones_are(&group, clones as u64 + 6);
    rule.assert_hit();
    for reason in ["SafetyHold", "VMsMissing"] {
        assert_eq!(group.namespace.events("VmGroup", reason).unwrap(), Vec::<String>::new());
    }
}

#[test]
fn a_clone_that_was_made_though_its_task_failed_is_the_member() {
    let group = Group::create_apart(sandbox(), "made-anyway", &json!({"replicas": 0}));
    group.settles_with(0, "runtime.powerState", "poweredOn");
    for fault in ["HostCommunication", "SystemError"] {
        let rule = group.vcenter().rule(&json!({
            "method": "CloneVM_Task", "client": "drover", "count": 1,
            "taskFault": {"type": fault, "when": "after"},
        }));
        group.patch(&json!({"replicas": 3})).unwrap();
        group.runs_with(3);
        assert_eq!(rule.remove(), 1);
        assert_eq!(group.everywhere().len(), 3, "no other was made");
        assert_eq!(group.vcenter().calls("Destroy_Task", "drover"), 0, "nor destroyed");
        group.patch(&json!({"replicas": 0})).unwrap();
        group.settles_with(0, "runtime.powerState", "poweredOn");
        group.vcenter().forget_calls();
    }
    group.delete();
    nothing_is_left(&group);
}

#[test]
fn a_vm_that_was_powered_on_though_the_task_failed_is_left_running() {
    let group = Group::create_apart(sandbox(), "on-anyway", &json!({}));
    let machines = group.runs_with(2);
    let before = group.identities();
    for fault in ["HostCommunication", "SystemError"] {
        let rule = group.vcenter().rule(&json!({
            "method": "PowerOnVM_Task", "client": "drover", "count": 1,
            "taskFault": {"type": fault, "when": "after"},
        }));
        group.vcenter().govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
        group.recovers_to(2, "runtime.powerState", "poweredOn");
        assert_eq!(rule.remove(), 1);
    }
    assert_eq!(group.identities(), before);
    assert_eq!(group.vcenter().calls("PowerOffVM_Task", "drover"), 0);
}

#[test]
fn a_vm_that_was_destroyed_though_the_task_failed_holds_up_neither_scaling_nor_deletion() {
    let group = Group::create_apart(sandbox(), "gone-anyway", &json!({"replicas": 3, "lostAfterSeconds": 1}));
    let machines = group.runs_with(3);
    let rule = group.vcenter().rule(&json!({
        "method": "Destroy_Task", "client": "drover", "count": 1,
        "taskFault": {"type": "HostCommunication", "when": "after"},
    }));
    group.patch(&json!({"replicas": 2})).unwrap();
    let left = group.runs_with(2);
    assert_eq!(rule.remove(), 1);
    assert!(left.iter().all(|path| machines.contains(path)), "{:?}", left.iter().map(|path| name(path)));
    clones_are(&group, 3);
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
    clones_are(&group, 4);
    group.delete();
    nothing_is_left(&group);
}
