//! What vCenter knows of a machine's past, a restarted operator knows too.

use std::{thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::{Value, json};

fn sandbox(name: &str) -> Sandbox {
    let sandbox = Sandbox::start(name, &[]).unwrap();
    sandbox.install_kinds();
    sandbox
}

/// An operator that has read vCenter.
fn operator(sandbox: &Sandbox) -> Operator {
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    eventually(sandbox, SOON, "the operator has read vCenter", || {
        let log = operator.log();
        if log.contains("vCenter mirrored") { Ok(()) } else { Err(log) }
    });
    operator
}

/// The name of the machine in a group's first slot.
fn first_slot(group: &Group) -> String {
    let shown = group.vcenter().govc(&["vm.info", "-json", &format!("{}/*", group.folder())]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let is_first = |machine: &&Value| {
        let mut keys = machine["config"]["extraConfig"].as_array().unwrap().iter();
        keys.any(|key| key["key"] == "drover.slot" && key["value"] == "0")
    };
    let machines = shown["virtualMachines"].as_array().unwrap();
    let first = machines.iter().find(is_first).expect("a group has a first slot");
    first["name"].as_str().unwrap().to_owned()
}

#[test]
fn after_a_restart_the_youngest_machine_still_goes_first() {
    let sandbox = sandbox("ages");
    let before = operator(&sandbox);
    let group = Group::create(&sandbox, "ages", &json!({"replicas": 3}));
    let mut machines = group.runs_with(3);
    // The one that would stay, were all of one age: then the last slots go first.
    let youngest = first_slot(&group);
    group.loses(&format!("{}/{youngest}", group.folder()));
    let mut healed = group.recovers_to(3, "runtime.powerState", "poweredOn");
    machines.sort();
    healed.sort();
    assert_eq!(healed, machines, "it is made anew, under its name");
    drop(before);
    let _after = operator(&sandbox);
    group.patch(&json!({"replicas": 2})).unwrap();
    let left = group.runs_with(2);
    assert!(!left.iter().any(|path| path.ends_with(&youngest)), "the youngest, {youngest}, goes first: {left:?}");
}

#[test]
fn after_a_restart_nobody_waits_again_for_what_has_long_been_ready() {
    let sandbox = sandbox("ready");
    let before = operator(&sandbox);
    let group = Group::create(&sandbox, "ready", &json!({"update": {"minReadySeconds": 20}}));
    group.runs_with(2);
    drop(before);
    let _after = operator(&sandbox);
    for _ in 0..20 {
        let status = group.status().unwrap();
        assert_eq!(status["availableReplicas"], 2, "{status}");
        thread::sleep(Duration::from_millis(200));
    }
}
