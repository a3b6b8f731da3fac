//! Templates that vCenter doesn't let be read, or reads slowly: whose VMs are made from others waits for nothing.

use std::{thread, time::Duration};

use drover_e2e::{Group, Operator};
use serde_json::json;

use crate::lonely;

const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

#[test]
fn a_template_that_cant_be_read_is_said_held_against_nobody_else_and_read_when_it_can_be() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let golden = ["vm.clone", "-vm.ipath", TEMPLATE, "-folder", "/DC0/vm", "-on=false", "unread"];
    vcenter.govc(&golden).unwrap();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let other = Group::create(sandbox, "reads-another", &json!({"replicas": 1}));
    let machine = other.runs_with(1).remove(0);
    let refused = vcenter.rule(&json!({
        "method": "RetrievePropertiesEx", "client": "drover",
        "fault": {"type": "NoPermission", "fields": {"privilegeId": "System.Read"}},
    }));
    let group = Group::create(sandbox, "reads-nothing", &json!({"replicas": 2, "template": "unread"}));
    group.says("ERROR", "System.Read");
    vcenter.govc(&["vm.power", "-off", "-force", &machine]).unwrap();
    other.recovers_to(1, "runtime.powerState", "poweredOn");
    other.patch(&json!({"replicas": 2})).unwrap();
    other.runs_with(2);
    let before = refused.hits();
    thread::sleep(Duration::from_secs(6));
    let hits = refused.hits() - before;
    assert!(hits <= 6, "it is asked ever more seldom, and was {hits} times in 6 s");
    assert_eq!(group.everywhere(), Vec::<String>::new());
    refused.remove();
    group.runs_with(2);
}

#[test]
fn a_template_that_is_read_slowly_keeps_no_group_from_its_repairs() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let golden = ["vm.clone", "-vm.ipath", TEMPLATE, "-folder", "/DC0/vm", "-on=false", "slow"];
    vcenter.govc(&golden).unwrap();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let group = Group::create(sandbox, "reads-slowly", &json!({"replicas": 2}));
    let machines = group.runs_with(2);
    let slow = vcenter.rule(&json!({"method": "RetrievePropertiesEx", "client": "drover", "latency": "10s"}));
    group.patch(&json!({"replicas": 3, "template": "slow", "update": {"strategy": "OnDelete"}})).unwrap();
    vcenter.govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    group.are_back(&machines);
    group.runs_with(3);
    slow.assert_hit();
    slow.remove();
}
