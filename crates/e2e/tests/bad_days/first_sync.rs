//! VMs that went out of sight while no operator looked are missing, not gone.

use std::{thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, eventually};
use serde_json::json;

use crate::lonely;

/// Waits until the group is stopped, and returns the incident that its status names.
#[track_caller]
fn held(group: &Group) -> String {
    eventually(group.sandbox, SOON, "everything is stopped, and the incident named", || {
        let status = group.status()?;
        let stalled = &status["conditions"][2];
        let incident = status["incident"].as_str().unwrap_or_default();
        let message = stalled["message"].as_str().unwrap_or_default();
        let is_held = stalled["reason"] == "SafetyHold" && stalled["status"] == "True";
        let is_named = !incident.is_empty() && message.contains(incident);
        if is_held && is_named { Ok(incident.to_owned()) } else { Err(status.to_string()) }
    })
}

/// Waits until an operator knows all that is in vCenter.
#[track_caller]
fn has_read_vcenter(operator: &Operator, group: &Group) {
    eventually(group.sandbox, SOON, "vCenter is read", || {
        let log = operator.log();
        if log.contains("vCenter mirrored") { Ok(()) } else { Err(log) }
    });
}

#[test]
fn many_that_are_missing_when_an_operator_starts_stop_it_and_the_next_one_knows_the_incident() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let start = || Operator::start(sandbox, vcenter).unwrap();
    let operator = start();
    let group = Group::create(sandbox, "first-sync", &json!({"replicas": 4, "lostAfterSeconds": 1}));
    let machines = group.runs_with(4);
    let before = group.identities();
    drop(operator);
    let asked = || ["CloneVM_Task", "Destroy_Task", "CreateFolder"].map(|method| vcenter.calls(method, "drover"));
    let calls = asked();
    let hidden: Vec<_> = machines[..2].iter().map(|path| path.rsplit('/').next()).collect();
    vcenter.control("PUT", "/hidden", &json!({"machines": hidden})).unwrap();

    let operator = start();
    let incident = held(&group);
    thread::sleep(Duration::from_secs(4));
    drop(operator);
    let operator = start();
    has_read_vcenter(&operator, &group);
    thread::sleep(Duration::from_secs(4));
    assert_eq!(held(&group), incident, "people were told this one");
    assert_eq!(asked(), calls, "clones, destroys and folders asked for");

    vcenter.control("PUT", "/hidden", &json!({})).unwrap();
    group.runs_with(4);
    assert_eq!(group.identities(), before);
    assert!(group.status().unwrap()["incident"].is_null());
    group.delete();
    assert!(group.everywhere().is_empty());
}
