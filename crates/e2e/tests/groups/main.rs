//! Groups of machines, declared with kubectl and seen with govc.

mod addresses;
mod clones;
mod commands;
mod drift;
mod endings;
mod fields;
mod keys;
mod templates;

use std::{sync::OnceLock, thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::json;

/// One operator for all tests, each in its namespace.
fn sandbox() -> &'static Sandbox {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    let sandbox = Sandbox::shared(&["--clone-delay=300ms"]);
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    sandbox
}

#[test]
fn the_seeds_walk_through_ends_as_it_says() {
    let group = Group::create(sandbox(), "walk-through", &json!({"replicas": 3}));
    let first = group.runs_with(3);
    for machine in &first {
        let letters = machine.strip_prefix(&format!("{}/walk-through-replica-", group.folder())).unwrap();
        assert!(letters.len() == 8 && letters.bytes().all(|letter| letter.is_ascii_lowercase()), "{machine}");
    }
    let table = group.namespace.kubectl(&["get", "vg", "--no-headers"]).unwrap();
    assert!(table.contains("RUNNING") && table.trim_end().ends_with("successfully reconciled VmGroup"), "{table}");
    let made = group.identities();
    group.namespace.kubectl(&["scale", "vg/walk-through", "--replicas=5"]).unwrap();
    group.runs_with(5);
    let more = group.identities();
    assert!(more.is_superset(&made), "growing leaves what is there alone");
    group.namespace.kubectl(&["scale", "vg/walk-through", "--replicas=1"]).unwrap();
    group.runs_with(1);
    assert!(group.identities().is_subset(&more), "shrinking makes none anew");
    group.delete();
    let left = group.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("walk-through"), "{left}");
}

#[test]
fn hardware_changes_in_place_and_a_new_key_by_new_machines() {
    let group = Group::create(sandbox(), "edits", &json!({"replicas": 3}));
    group.runs_with(3);
    let before = group.identities();
    group.patch(&json!({"cpu": 2, "memory": 2})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    group.settles_with(3, "config.hardware.memoryMB", "2048");
    assert_eq!(group.identities(), before, "the machines are the same");
    group.patch(&json!({"extraConfig": {"guestinfo.key": "v"}})).unwrap();
    group.runs_with(3);
    assert!(group.identities().is_disjoint(&before), "the machines are new");
}

#[test]
fn a_wrong_template_is_an_error_that_a_patch_mends_at_once() {
    let group = Group::create(sandbox(), "vg-2", &json!({"template": "vm-operator-temp"}));
    eventually(group.sandbox, SOON, "the error", || {
        let shown = group
            .namespace
            .kubectl(&["get", "vg", group.name(), "--no-headers"])
            .map_err(|failure| failure.to_string())?;
        let expected = r#"spec.template: there is no VirtualMachine "vm-operator-temp" in /DC0"#;
        if shown.contains("ERROR") && shown.contains(expected) { Ok(()) } else { Err(shown) }
    });
    group.patch(&json!({"template": "vm-operator-template"})).unwrap();
    group.runs_with(2);
}

#[test]
fn power_states_are_kept_and_a_paused_group_is_left_alone() {
    let group = Group::create(sandbox(), "power", &json!({"powerState": "Off"}));
    let machines = group.settles_with(2, "runtime.powerState", "poweredOff");
    group.patch(&json!({"powerState": "Suspended"})).unwrap();
    group.settles_with(2, "runtime.powerState", "suspended");
    group.patch(&json!({"powerState": "On"})).unwrap();
    group.runs_with(2);
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused: 2 of 2 VMs available");
    group.vcenter().govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    thread::sleep(Duration::from_secs(2));
    let state = group.vcenter().govc(&["object.collect", "-s", &machines[0], "runtime.powerState"]).unwrap();
    assert_eq!(state.trim(), "poweredOff");
    group.patch(&json!({"paused": false})).unwrap();
    group.runs_with(2);
}

#[test]
fn a_stranger_in_the_folder_outlives_the_group() {
    let group = Group::create(sandbox(), "stranger", &json!({"replicas": 1}));
    group.runs_with(1);
    let vcenter = group.vcenter();
    vcenter
        .govc(&[
            "vm.clone",
            "-vm.ipath",
            "/DC0/vm/vm-operator/vm-operator-template",
            "-folder",
            &group.folder(),
            "-on=false",
            "guest",
        ])
        .unwrap();
    group.delete();
    let left = vcenter.govc(&["find", &group.folder(), "-type", "m"]).unwrap();
    assert_eq!(left.trim(), format!("{}/guest", group.folder()));
}
