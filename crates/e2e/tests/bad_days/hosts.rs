//! Hosts that take no VMs, and VMs that don't take what they are given.

use std::{collections::BTreeMap, thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::{Value, json};

use crate::lonely;

/// How many of a group's machines are on each host.
fn by_host(group: &Group) -> BTreeMap<String, usize> {
    let mut hosts = BTreeMap::new();
    for (_, host) in group.machines("runtime.host.value").unwrap() {
        *hosts.entry(host).or_default() += 1;
    }
    hosts
}

/// Has a host enter maintenance mode, and waits until the operator knows: a VM that is cloned to it before can't be powered on there.
fn enter_maintenance(group: &Group, host: &str) {
    group.vcenter().govc(&["host.maintenance.enter", host]).unwrap();
    let name = host.rsplit('/').next().unwrap();
    let info = name.to_lowercase().replace('_', "-");
    let declared = json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": "HostInfo",
        "metadata": {"name": info}, "spec": {"hostname": name},
    });
    group.namespace.declare(&declared).unwrap();
    eventually(group.sandbox, SOON, &format!("{name} is known to be in maintenance"), || {
        let shown = group.namespace.get("ch", &info).map_err(|failure| failure.to_string())?;
        if shown["status"]["inMaintenance"] == true { Ok(()) } else { Err(shown["status"].to_string()) }
    });
}

#[test]
fn clones_are_spread_over_the_hosts_that_take_them_and_where_none_does_each_is_named() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let path = |name: &str| format!("/DC0/host/DC0_C0/{name}");
    let (one, other) = (path("DC0_C0_H1"), path("DC0_C0_H2"));
    let spec = json!({"replicas": 4, "placement": {"hosts": [one, other]}});
    let group = Group::create(sandbox, "spread", &spec);
    group.runs_with(4);
    let hosts = by_host(&group);
    assert!(hosts.len() == 2 && hosts.values().all(|members| *members == 2), "{hosts:?}");

    enter_maintenance(&group, &one);
    group.patch(&json!({"replicas": 6})).unwrap();
    group.runs_with(6);
    let mut counts: Vec<_> = by_host(&group).into_values().collect();
    counts.sort_unstable();
    assert_eq!(counts, [2, 4], "nobody came to the one in maintenance");

    enter_maintenance(&group, &other);
    group.patch(&json!({"replicas": 7})).unwrap();
    group.says("ERROR", "spec.placement: no host takes VMs now: ");
    for name in [&one, &other] {
        group.says("ERROR", &format!("{name} is in maintenance mode"));
    }
    vcenter.govc(&["host.maintenance.exit", &one]).unwrap();
    group.runs_with(7);
    assert!(by_host(&group).into_values().all(|members| members >= 3), "{:?}", by_host(&group));
    vcenter.govc(&["host.maintenance.exit", &other]).unwrap();
    group.delete();
}

#[test]
fn a_machine_that_takes_the_hardware_in_no_state_runs_on_with_what_it_has_until_another_is_declared() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let group = Group::create(sandbox, "too-much", &json!({"shutdown": {"graceSeconds": 0}}));
    let machines = group.runs_with(2);
    vcenter.rule(&json!({"method": "ReconfigVM_Task", "client": "drover", "taskFault": {"type": "InvalidVmConfig"}}));
    vcenter.forget_calls();
    group.patch(&json!({"cpu": 2})).unwrap();
    group.says("ERROR", "reconfiguring");
    eventually(sandbox, SOON, "both were refused, and run", || {
        let asked = vcenter.calls("ReconfigVM_Task", "drover");
        let running = group.machines("runtime.powerState")?;
        let all = running.iter().all(|(_, state)| state == "poweredOn");
        if all && asked >= 2 { Ok(()) } else { Err(format!("{asked} attempts, {running:?}")) }
    });
    let offs = vcenter.calls("PowerOffVM_Task", "drover");
    thread::sleep(Duration::from_secs(5));
    assert_eq!(vcenter.calls("PowerOffVM_Task", "drover"), offs, "nobody is taken down again for nothing");
    group.says("ERROR", "reconfiguring");
    vcenter.control("DELETE", "/rules", &Value::Null).unwrap();
    group.patch(&json!({"cpu": 3})).unwrap();
    assert_eq!(group.settles_with(2, "config.hardware.numCPU", "3"), machines);
    group.runs_with(2);
    group.delete();
}

/// Has a group of two machines whose guests answer.
fn with_tools<'a>(sandbox: &'a Sandbox, name: &str, grace: u32) -> Group<'a> {
    let group = Group::create(sandbox, name, &json!({"shutdown": {"graceSeconds": grace}}));
    for machine in group.runs_with(2) {
        let name = machine.rsplit('/').next().unwrap();
        let running = json!({"tools": "guestToolsRunning"});
        group.vcenter().control("PATCH", &format!("/machines/{name}"), &running).unwrap();
        eventually(sandbox, SOON, "the operator knows", || {
            let info = group.namespace.get("vi", name).map_err(|failure| failure.to_string())?;
            let known = info["status"]["toolsState"] == running["tools"];
            if known { Ok(()) } else { Err(info["status"].to_string()) }
        });
    }
    group
}

#[test]
fn a_guest_that_the_question_never_got_to_is_asked_again_and_not_powered_off() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let group = with_tools(sandbox, "unasked", 600);
    let (asked, offs) = (vcenter.calls("ShutdownGuest", "drover"), vcenter.calls("PowerOffVM_Task", "drover"));
    vcenter.rule(&json!({"method": "ShutdownGuest", "client": "drover", "count": 1, "drop": "before"}));
    group.patch(&json!({"replicas": 1})).unwrap();
    group.runs_with(1);
    assert!(vcenter.calls("ShutdownGuest", "drover") >= asked + 2);
    assert_eq!(vcenter.calls("PowerOffVM_Task", "drover"), offs);
    group.delete();
}

#[test]
fn after_a_cancelled_scale_in_the_guest_is_asked_again_the_next_time() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let group = with_tools(sandbox, "cancelled", 3);
    let before = vcenter.calls("ShutdownGuest", "drover");
    vcenter.rule(&json!({"method": "ShutdownGuest", "client": "drover", "fault": {"type": "ToolsUnavailable"}}));
    let asked = |times: u64| {
        eventually(sandbox, SOON, &format!("asked {times} times"), || {
            let asked = vcenter.calls("ShutdownGuest", "drover") - before;
            if asked >= times { Ok(()) } else { Err(format!("{asked} times")) }
        });
    };
    let offs = vcenter.calls("PowerOffVM_Task", "drover");
    group.patch(&json!({"replicas": 1})).unwrap();
    asked(1);
    group.patch(&json!({"replicas": 2})).unwrap();
    thread::sleep(Duration::from_secs(5));
    group.runs_with(2);
    assert_eq!(vcenter.calls("PowerOffVM_Task", "drover"), offs, "the scale-in was cancelled in time");
    group.patch(&json!({"replicas": 1})).unwrap();
    asked(2);
    group.runs_with(1);
    group.delete();
}
