//! An operator that is killed, wherever it is, loses nothing and doubles nothing.

use std::{thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::{Value, json};

use crate::lonely;

/// All that an operator changes in vCenter.
const CHANGES: &str = "CreateFolder,CloneVM_Task,PowerOnVM_Task,PowerOffVM_Task,ReconfigVM_Task,Destroy_Task";

/// Runs an operator that is killed while it waits for the answer to its n-th change, and then another to the end. Says
/// whether the first got that far.
fn killed_at(sandbox: &Sandbox, n: usize, is_done: &dyn Fn() -> bool) -> bool {
    let vcenter = sandbox.vcenter();
    vcenter.rule(&json!({"method": CHANGES, "client": "drover", "skip": n, "count": 1, "hold": "after"}));
    let operator = Operator::start(sandbox, vcenter).unwrap();
    let is_hit = || vcenter.control("GET", "/rules", &Value::Null).unwrap()[0]["hits"] == 1;
    let is_soon_hit = || {
        thread::sleep(Duration::from_millis(20));
        is_hit()
    };
    while !(0..10).any(|_| is_soon_hit()) && !is_done() {}
    drop(operator);
    let hit = is_hit();
    vcenter.control("DELETE", "/rules", &Value::Null).unwrap();
    hit
}

#[test]
fn an_operator_killed_at_any_change_makes_no_machine_twice_and_leaves_none_behind() {
    let (sandbox, _turn) = lonely();
    let settled = |group: &Group, key: &str| {
        let group = group.get().unwrap();
        let status = &group["status"];
        status["phase"] == "RUNNING"
            && status["updatedReplicas"] == 2
            && group["spec"]["extraConfig"]["key"] == key
            && status["observedGeneration"] == group["metadata"]["generation"]
    };
    for n in 0.. {
        let group = Group::create(sandbox, &format!("killed-{n}"), &json!({"extraConfig": {"key": "old"}}));
        let mut hit = killed_at(sandbox, n, &|| settled(&group, "old"));
        rest_is_done(&group, "old");
        group.patch(&json!({"extraConfig": {"key": "new"}})).unwrap();
        hit |= killed_at(sandbox, n, &|| settled(&group, "new"));
        rest_is_done(&group, "new");
        group.begin_to_delete();
        hit |= killed_at(sandbox, n, &|| group.get().is_err());
        let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
        group.is_gone();
        let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
        assert!(!left.contains("killed-"), "killed at {n}: {left}");
        if !hit {
            assert!(n > 3, "an operator changes more than {n} things");
            return;
        }
    }
}

/// A second operator brings the group to its end: two machines, made from what is declared, and no other anywhere.
fn rest_is_done(group: &Group, key: &str) {
    let _operator = Operator::start(group.sandbox, group.vcenter()).unwrap();
    let machines = group.runs_with(2);
    assert_eq!(group.everywhere().len(), 2);
    for machine in machines {
        let keys = group.vcenter().govc(&["vm.info", "-e", &machine]).unwrap();
        assert!(keys.lines().any(|line| line.contains("key:") && line.contains(key)), "{keys}");
    }
}

#[test]
fn two_operators_at_once_make_each_machine_once() {
    let (sandbox, _turn) = lonely();
    let _operators = [0, 1].map(|_| Operator::start(sandbox, sandbox.vcenter()).unwrap());
    let group = Group::create(sandbox, "two-operators", &json!({"replicas": 6}));
    group.runs_with(6);
    group.patch(&json!({"replicas": 3, "cpu": 2})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    group.patch(&json!({"extraConfig": {"key": "new"}, "update": {"maxUnavailable": 2}})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    assert_eq!(group.everywhere().len(), 3);
    group.delete();
    eventually(sandbox, SOON, "nothing is left", || {
        let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).map_err(|failure| failure.to_string())?;
        if left.contains(group.name()) { Err(left) } else { Ok(()) }
    });
}
