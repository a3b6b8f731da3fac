//! What somebody does to a group's folder costs no machine, but for those that are destroyed with it.

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::json;

use crate::lonely_too;

/// Waits until the status says that the group has so many machines, and then there are no others, wherever they are.
#[track_caller]
fn has(group: &Group, replicas: usize) {
    eventually(group.sandbox, SOON, &format!("{replicas} machines"), || {
        let object = group.get().map_err(|failure| failure.to_string())?;
        let status = &object["status"];
        let is_so = status["phase"] == "RUNNING"
            && status["readyReplicas"] == replicas
            && status["currentReplicas"] == replicas
            && status["observedGeneration"] == object["metadata"]["generation"];
        if is_so { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(group.everywhere().len(), replicas, "{:?}", group.everywhere());
}

/// Has somebody do something to a group's folder, and follows the group to its end: the machines that it has live on, also with
/// the next operator, which finds the folder as it is by then.
#[track_caller]
fn lives_on(sandbox: &Sandbox, name: &str, act: impl Fn(&Group)) {
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, name, &json!({}));
    group.runs_with(2);
    let made = group.identities();
    act(&group);
    group.patch(&json!({"replicas": 3})).unwrap();
    has(&group, 3);
    assert!(group.identities().is_superset(&made));
    let made = group.identities();
    drop(operator);
    let _next = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    group.patch(&json!({"replicas": 4})).unwrap();
    has(&group, 4);
    assert!(group.identities().is_superset(&made), "the next operator knows them too");
    group.delete();
    assert_eq!(group.everywhere(), Vec::<String>::new());
}

#[test]
fn a_folder_that_is_renamed_costs_no_machine() {
    let (sandbox, _turn) = lonely_too();
    lives_on(sandbox, "folder-renamed", |group| {
        group.vcenter().govc(&["object.rename", &group.folder(), "folder-of-mine"]).unwrap();
    });
}

#[test]
fn a_folder_that_is_moved_costs_no_machine() {
    let (sandbox, _turn) = lonely_too();
    lives_on(sandbox, "folder-moved", |group| {
        group.vcenter().govc(&["folder.create", "/DC0/vm/attic"]).unwrap();
        group.vcenter().govc(&["object.mv", &group.folder(), "/DC0/vm/attic"]).unwrap();
    });
}

#[test]
fn a_folder_that_is_destroyed_with_its_machines_is_made_again_with_new_ones() {
    let (sandbox, _turn) = lonely_too();
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    // That they were destroyed is proved, so they are not waited for.
    let group = Group::create(sandbox, "folder-destroyed", &json!({"lostAfterSeconds": 0}));
    let machines = group.runs_with(2);
    let made = group.identities();
    // vCenter destroys no machine that runs.
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    for machine in &machines {
        group.vcenter().govc(&["vm.power", "-off", "-force", machine]).unwrap();
    }
    group.vcenter().govc(&["object.destroy", &group.folder()]).unwrap();
    group.patch(&json!({"paused": false})).unwrap();
    group.runs_with(2);
    assert!(group.identities().is_disjoint(&made));
    assert_eq!(group.everywhere().len(), 2);
    group.delete();
    let left = group.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("folder-destroyed"), "{left}");
}

#[test]
fn an_empty_folder_that_is_destroyed_is_made_again_when_it_is_needed() {
    let (sandbox, _turn) = lonely_too();
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "folder-empty", &json!({"replicas": 1}));
    group.runs_with(1);
    group.patch(&json!({"replicas": 0})).unwrap();
    group.runs_with(0);
    group.vcenter().govc(&["object.destroy", &group.folder()]).unwrap();
    group.patch(&json!({"replicas": 1})).unwrap();
    group.runs_with(1);
    group.delete();
    let left = group.vcenter().govc(&["find", "/DC0/vm", "-type", "f"]).unwrap();
    assert!(!left.contains("folder-empty"), "{left}");
}

#[test]
fn a_clone_on_its_way_when_the_group_is_put_elsewhere_is_not_made_a_second_time_there() {
    let sandbox = &Sandbox::start("slow-clones", &["--clone-delay=12s"]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter();
    let operator = Operator::start(sandbox, vcenter).unwrap();
    let group = Group::create(sandbox, "put-elsewhere", &json!({"replicas": 1}));
    eventually(sandbox, SOON, "it is being cloned", || {
        let counts = vcenter.machine_counts();
        if counts.cloning == 1 { Ok(()) } else { Err(format!("{counts:?}")) }
    });
    drop(operator);
    vcenter.govc(&["folder.create", "/DC0/vm/elsewhere"]).unwrap();
    group.patch(&json!({"placement": {"folder": "elsewhere"}, "update": {"strategy": "OnDelete"}})).unwrap();
    let _next = Operator::start(sandbox, vcenter).unwrap();
    has(&group, 1);
    assert_eq!(vcenter.calls("CloneVM_Task", "drover"), 1, "clones asked for");
    assert!(group.everywhere()[0].contains("/elsewhere/"), "{:?}", group.everywhere());
    group.delete();
    // vCenter destroys the folder from before when the clone into it has ended.
    eventually(sandbox, SOON, "nothing is left of it", || {
        let left = vcenter.govc(&["find", "/DC0/vm"]).map_err(|failure| failure.to_string())?;
        if left.contains("put-elsewhere") { Err(left) } else { Ok(()) }
    });
}
