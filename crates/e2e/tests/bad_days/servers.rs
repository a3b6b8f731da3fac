//! Bad days of the API server, as an operator sees them through a gate.

use std::{thread, time::Duration};

use drover_e2e::{Fate, Gate, GateRule, Group, Operator, Requests, SOON, eventually};
use serde_json::{Value, json};

use crate::lonely_too;

/// Has the API server refuse all writes for a while as groups are made, changed and deleted.
fn storm(status: u16) {
    let (sandbox, _turn) = lonely_too();
    let gate = Gate::open(sandbox);
    let _operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    let begin = || gate.rule(Requests::Writes, Fate::Refused(status), 0, 0);
    let ends = |storm: GateRule| {
        eventually(sandbox, SOON, "the storm is met", || match storm.met() {
            met if met.len() > 2 => Ok(()),
            met => Err(format!("{met:?}")),
        });
        assert!(storm.remove().len() > 2);
    };
    let group = Group::create(sandbox, &format!("storm-{status}"), &json!({"replicas": 1}));
    group.runs_with(1);
    let made = group.identities();
    let first = begin();
    let late = Group::create(sandbox, &format!("storm-{status}-late"), &json!({"replicas": 1}));
    group.patch(&json!({"replicas": 3, "cpu": 2})).unwrap();
    ends(first);
    group.settles_with(3, "config.hardware.numCPU", "2");
    assert!(group.identities().is_superset(&made));
    late.runs_with(1);
    let second = begin();
    group.begin_to_delete();
    late.begin_to_delete();
    ends(second);
    for group in [group, late] {
        group.is_gone();
        assert_eq!(group.everywhere(), Vec::<String>::new());
    }
}

#[test]
fn a_storm_of_conflicts_passes_without_a_trace() {
    storm(409);
}

#[test]
fn a_storm_of_too_many_requests_passes_without_a_trace() {
    storm(429);
}

#[test]
fn a_storm_of_internal_errors_passes_without_a_trace() {
    storm(500);
}

#[test]
fn a_watch_that_has_expired_is_begun_anew_and_nothing_is_missed() {
    let (sandbox, _turn) = lonely_too();
    let gate = Gate::open(sandbox);
    let _operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    let (grows, goes) = (
        Group::create(sandbox, "expired-grows", &json!({})),
        Group::create(sandbox, "expired-goes", &json!({"replicas": 1})),
    );
    grows.runs_with(2);
    goes.runs_with(1);
    let made = grows.identities();
    // What is told while nobody watches, and can't be asked for later.
    gate.shut();
    goes.begin_to_delete();
    grows.patch(&json!({"replicas": 3})).unwrap();
    let expired = gate.rule(Requests::Watches, Fate::Refused(410), 0, 20);
    gate.reopen();
    grows.runs_with(3);
    goes.is_gone();
    let met = expired.remove();
    assert!(met.iter().any(|request| request.contains("/vmgroups")), "{met:?}");
    assert!(grows.identities().is_superset(&made));
    assert_eq!(goes.everywhere(), Vec::<String>::new());
    grows.delete();
}

#[test]
fn an_api_server_that_restarts_costs_a_declared_vcenter_neither_its_session_nor_a_machine() {
    let (sandbox, _turn) = lonely_too();
    let vcenter = sandbox.vcenter();
    vcenter.declare(sandbox, "in-use", &json!({}));
    let gate = Gate::open(sandbox);
    let _operator = Operator::start_behind(&gate, sandbox, vcenter).unwrap();
    let group = Group::create(sandbox, "restarts", &json!({"vcenter": "in-use"}));
    let machines = group.runs_with(2);
    let made = group.identities();
    let logins = vcenter.calls("Login", "drover");
    gate.shut();
    vcenter.govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    thread::sleep(Duration::from_secs(8));
    gate.reopen();
    group.are_back(&machines);
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
    assert!(group.identities().is_superset(&made), "the two are still the same");
    group.delete();
    assert_eq!(group.everywhere(), Vec::<String>::new());
    assert_eq!(vcenter.calls("Login", "drover"), logins, "the session was kept");
    sandbox.kubectl().run(&["delete", "vc", "in-use"]).unwrap();
}

#[test]
fn a_namespace_is_deleted_with_its_groups_and_their_machines() {
    let (sandbox, _turn) = lonely_too();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let settled = Group::create(sandbox, "whole-namespace", &json!({"replicas": 2}));
    settled.runs_with(2);
    // One that is only being made.
    let young = drover_e2e::vm_group("young", &json!({"replicas": 3}));
    settled.namespace.declare(&young).unwrap();
    sandbox.kubectl().run(&["delete", "namespace", "whole-namespace", "--wait=false"]).unwrap();
    eventually(sandbox, SOON, "the namespace is gone", || match sandbox.get("/api/v1/namespaces/whole-namespace") {
        Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
        Ok(namespace) => Err(namespace["status"].to_string()),
        Err(failure) => Err(failure.to_string()),
    });
    let left = vcenter.govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("whole-namespace") && !left.contains("young"), "{left}");
    let said = sandbox.get("/apis/topology.corinternal.com/v1/vminfoes").unwrap();
    let is_left = |info: &&Value| info["metadata"]["namespace"] == "whole-namespace";
    assert_eq!(said["items"].as_array().unwrap().iter().filter(is_left).count(), 0, "{said}");
}
