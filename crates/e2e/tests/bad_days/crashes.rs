//! An operator that is killed, wherever it is, loses nothing and doubles nothing.

use std::{thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::{Value, json};

use crate::lonely;

/// All that an operator changes in vCenter.
const CHANGES: &str = "CreateFolder,CloneVM_Task,PowerOnVM_Task,PowerOffVM_Task,ReconfigVM_Task,Destroy_Task";

/// An operator that is killed now and then, and another started in its place.
struct Mortal<'a> {
    sandbox: &'a Sandbox,
    operator: Option<Operator>,
}

impl Mortal<'_> {
    /// Kills it while it waits for the answer to the n-th change that it makes for what a user does, and has the next one go on.
    /// Says whether it got that far before it was done.
    fn dies_at(&mut self, n: usize, act: &dyn Fn(), is_done: &dyn Fn() -> bool) -> bool {
        let vcenter = self.sandbox.vcenter();
        vcenter.rule(&json!({"method": CHANGES, "client": "drover", "skip": n, "count": 1, "hold": "after"}));
        act();
        let is_hit = || vcenter.control("GET", "/rules", &Value::Null).unwrap()[0]["hits"] == 1;
        let is_soon_hit = || {
            thread::sleep(Duration::from_millis(20));
            is_hit()
        };
        while !(0..10).any(|_| is_soon_hit()) && !is_done() {}
        self.operator = None;
        let hit = is_hit();
        vcenter.control("DELETE", "/rules", &Value::Null).unwrap();
        self.operator = Some(Operator::start(self.sandbox, vcenter).unwrap());
        hit
    }
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
    let mut operator = Mortal { sandbox, operator: Some(Operator::start(sandbox, sandbox.vcenter()).unwrap()) };
    for n in 0.. {
        let group = Group { namespace: sandbox.namespace(&format!("killed-{n}")), sandbox };
        let declare = |key: &str| group.apply(&json!({"extraConfig": {"key": key}}));
        let mut hit = operator.dies_at(n, &|| declare("old"), &|| settled(&group, "old"));
        is_whole(&group, "old");
        hit |= operator.dies_at(n, &|| declare("new"), &|| settled(&group, "new"));
        is_whole(&group, "new");
        hit |= operator.dies_at(n, &|| group.begin_to_delete(), &|| group.get().is_err());
        group.is_gone();
        let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
        assert!(!left.contains("killed-"), "killed at {n}: {left}");
        if !hit {
            assert!(n > 3, "an operator changes more than {n} things");
            return;
        }
    }
}

/// The next operator brings the group to its end: two machines, made from what is declared, and no other anywhere.
fn is_whole(group: &Group, key: &str) {
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
