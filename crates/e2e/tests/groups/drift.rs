//! What somebody changes in vCenter is put right, once, and told.

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::sandbox;

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[test]
fn what_is_changed_in_vcenter_is_put_right_and_told() {
    let group = Group::create(sandbox(), "drift", &json!({"replicas": 3}));
    let machines = group.runs_with(3);
    let made = group.identities();
    let vcenter = group.vcenter();
    vcenter.govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    group.loses(&machines[1]);
    vcenter.govc(&["object.rename", &machines[2], "mine-now"]).unwrap();
    group.are_back(&machines);
    assert_eq!(group.identities().intersection(&made).count(), 2, "only the one that was destroyed is made anew");
    group.tells("Drift", &format!("{} is powered off: putting it right", name(&machines[0])));
    group.tells("Drift", &format!("{} is gone: cloning it again", name(&machines[1])));
    group.tells("Drift", &format!("{} was renamed to mine-now: putting it right", name(&machines[2])));
    // A machine that runs takes more CPUs only if it allows them to be added hot, and that is set while it is off.
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    vcenter.govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    vcenter.govc(&["vm.change", "-vm", &machines[0], "-cpu-hot-add-enabled=true"]).unwrap();
    vcenter.govc(&["vm.power", "-on", &machines[0]]).unwrap();
    group.patch(&json!({"paused": false})).unwrap();
    group.says("RUNNING", "successfully");
    vcenter.govc(&["vm.change", "-vm", &machines[0], "-c", "7"]).unwrap();
    group.recovers_to(3, "config.hardware.numCPU", "1");
    group.tells("Drift", &format!("{} has 7 CPUs", name(&machines[0])));
}

#[test]
fn thirty_machines_that_are_powered_off_at_once_are_a_few_events_and_not_thirty() {
    let group = Group::create(sandbox(), "outage", &json!({"replicas": 30}));
    let machines = group.runs_with(30);
    let paths: Vec<_> = machines.iter().map(String::as_str).collect();
    group.vcenter().govc(&[&["vm.power", "-off", "-force"], &paths[..]].concat()).unwrap();
    group.recovers_to(30, "runtime.powerState", "poweredOn");
    group.tells("Drift", "is powered off: putting it right");
    let shown =
        group.namespace.kubectl(&["get", "events", "--no-headers", "--field-selector=involvedObject.kind=VmGroup"]);
    let shown = shown.unwrap();
    assert!(shown.lines().filter(|line| line.contains("Drift")).count() <= 15, "{shown}");
    assert!(shown.lines().count() <= 20, "{shown}");
    group.delete();
}

#[test]
fn a_machine_that_is_moved_or_unregistered_is_there_again() {
    let group = Group::create(sandbox(), "strayed", &json!({"lostAfterSeconds": 2}));
    let machines = group.runs_with(2);
    let made = group.identities();
    let vcenter = group.vcenter();
    vcenter.govc(&["object.mv", &machines[0], "/DC0/vm"]).unwrap();
    group.tells("Drift", &format!("{} was moved out of the group's folder", name(&machines[0])));
    group.are_back(&machines);
    assert_eq!(group.identities(), made, "none is made anew");
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    vcenter.govc(&["vm.power", "-off", "-force", &machines[1]]).unwrap();
    vcenter.govc(&["vm.unregister", &machines[1]]).unwrap();
    group.patch(&json!({"paused": false})).unwrap();
    group.are_back(&machines);
    let strays = vcenter.govc(&["find", "/DC0/vm", "-maxdepth", "1", "-type", "m"]).unwrap();
    assert!(!strays.contains("replica"), "{strays}");
}

#[test]
fn a_machine_that_is_not_the_groups_is_left_alone_even_if_it_has_its_name() {
    let group = Group::create(sandbox(), "conflict", &json!({"replicas": 1}));
    let machine = group.runs_with(1).remove(0);
    let vcenter = group.vcenter();
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    vcenter.govc(&["vm.destroy", &machine]).unwrap();
    let clone = [
        "vm.clone",
        "-vm.ipath",
        "/DC0/vm/vm-operator/vm-operator-template",
        "-folder",
        &group.folder(),
        "-on=false",
        name(&machine),
    ];
    vcenter.govc(&clone).unwrap();
    group.patch(&json!({"paused": false})).unwrap();
    group.says("ERROR", "a machine that isn't this group's has this name in its folder: rename it, or move it away");
    vcenter.govc(&["object.rename", &machine, "a-guest"]).unwrap();
    eventually(group.sandbox, SOON, "the group's own machine runs beside the guest", || {
        let now = group.machines("runtime.powerState")?;
        let has = |path: &str, power: &str| now.contains(&(path.to_owned(), power.to_owned()));
        let guest = format!("{}/a-guest", group.folder());
        if has(&machine, "poweredOn") && has(&guest, "poweredOff") { Ok(()) } else { Err(format!("{now:?}")) }
    });
    group.says("RUNNING", "successfully");
}
