//! What a person has said to go on after is not said of what comes later.

use std::thread;

use drover_e2e::{Group, Operator, Program, SOON, Sandbox, binary, eventually, vm_group};
use serde_json::json;

use crate::A_WHILE;

const SINGLES: [&str; 3] = ["single-0", "single-1", "single-2"];

/// Waits until the VCenter names an incident, other than this one.
#[track_caller]
fn incident(group: &Group, before: &str) -> String {
    eventually(group.sandbox, SOON, "an incident of the vCenter", || {
        let path = format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{}", group.name());
        let vcenter = group.sandbox.get(&path).map_err(|failure| failure.to_string())?;
        let incident = vcenter["status"]["incident"].as_str().filter(|incident| *incident != before);
        incident.map(ToOwned::to_owned).ok_or_else(|| vcenter["status"].to_string())
    })
}

/// Waits until all groups say that they are as declared.
#[track_caller]
fn all_run(group: &Group) {
    for single in SINGLES {
        eventually(group.sandbox, SOON, &format!("{single} runs"), || {
            let status = group.namespace.get("vg", single).map_err(|failure| failure.to_string())?["status"].clone();
            let is_so = status["phase"] == "RUNNING" && status["readyReplicas"] == 1 && status["incident"].is_null();
            if is_so { Ok(()) } else { Err(status.to_string()) }
        });
    }
}

#[test]
fn an_incident_that_was_released_while_no_operator_ran_says_nothing_of_the_next_one() {
    let sandbox = &Sandbox::start("held", &["--vcenters=2", "--clone-delay=200ms"]).unwrap();
    sandbox.install_kinds();
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let spec = json!({"replicas": 1, "lostAfterSeconds": 1});
    let group = Group::create_apart(sandbox, SINGLES[0], &spec);
    for single in &SINGLES[1..] {
        let mut manifest = vm_group(single, &spec);
        manifest["spec"]["vcenter"] = group.name().into();
        group.namespace.declare(&manifest).unwrap();
    }
    all_run(&group);
    let members: Vec<_> = group.vcenter().machines().into_iter().filter(|path| path.contains("-replica-")).collect();
    let hide = |machines: &[String]| group.vcenter().control("PUT", "/hidden", &json!({"machines": machines})).unwrap();
    hide(&members);
    let first = incident(&group, "");
    drop(operator);
    Program::at(&binary()).with(sandbox.environment()).run(&["release", &first]).unwrap();
    hide(&[]);
    let _next = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    all_run(&group);
    group.vcenter().forget_calls();
    hide(&members);
    incident(&group, &first);
    thread::sleep(A_WHILE);
    assert_eq!(group.vcenter().calls("CloneVM_Task", "drover"), 0, "clones asked for");
    hide(&[]);
    all_run(&group);
}
