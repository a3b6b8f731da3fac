//! Changes that reach VMs which don't take them, or can't be reached.

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::{name, nothing_is_made_or_destroyed, sandbox};

#[test]
fn memory_that_a_running_vm_refuses_though_it_takes_memory_reaches_it_by_a_power_cycle() {
    let group = Group::create_apart(sandbox(), "hot-memory", &json!({"memory": 2}));
    let machines = group.runs_with(2);
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    for machine in &machines {
        group.vcenter().govc(&["vm.power", "-off", "-force", machine]).unwrap();
        group.vcenter().govc(&["vm.change", "-vm", machine, "-memory-hot-add-enabled=true"]).unwrap();
    }
    group.patch(&json!({"paused": false})).unwrap();
    group.recovers_to(2, "runtime.powerState", "poweredOn");
    group.settles_with(2, "config.memoryHotAddEnabled", "true");
    group.settles_with(2, "config.hardware.memoryMB", "2048");
    let before = group.identities();
    // Linux with 3 GB or less takes none that would bring it above.
    group.patch(&json!({"memory": 4})).unwrap();
    group.settles_with(2, "config.hardware.memoryMB", "4096");
    group.runs_with(2);
    assert_eq!(group.identities(), before);
    assert_eq!(group.vcenter().calls("PowerOffVM_Task", "drover"), 2, "each was powered off once");
}

#[test]
fn a_rollout_takes_none_of_the_healthy_while_as_many_as_may_be_are_out_of_reach() {
    let spec = json!({"replicas": 3, "lostAfterSeconds": 1, "update": {"maxUnavailable": 1}});
    let group = Group::create_apart(sandbox(), "out-of-reach", &spec);
    let machines = group.runs_with(3);
    let before = group.identities();
    let set = |state: &str| {
        let path = format!("/machines/{}", name(&machines[0]));
        group.vcenter().control("PATCH", &path, &json!({"connectionState": state})).unwrap();
    };
    set("disconnected");
    eventually(sandbox(), SOON, "it is known to be out of reach", || {
        let status = group.status()?;
        if status["readyReplicas"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });
    nothing_is_made_or_destroyed(&group, || {
        group.patch(&json!({"extraConfig": {"guestinfo.a": "b"}})).unwrap();
    });
    assert_eq!(group.identities(), before);
    assert_eq!(group.vcenter().calls("PowerOffVM_Task", "drover"), 0, "none is on its way out, either");
    set("connected");
    group.runs_with(3);
    assert!(group.identities().is_disjoint(&before), "all were replaced");
}
