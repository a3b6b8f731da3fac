//! The vCenter that the operator's environment names, by the rules of a VCenter that has its name.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Group, Operator, Sandbox, eventually};
use serde_json::{Value, json};

use crate::{
    SOON,
    commands::{drover, text},
};

fn manifest(name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": metadata, "spec": spec})
}

/// Waits for a condition of the VCenter `default`.
#[track_caller]
fn says(sandbox: &Sandbox, kind: &str, status: &str, reason: &str, words: &str) {
    eventually(sandbox, SOON, &format!("{kind}={status} {reason}: {words}"), || {
        let vcenter = sandbox.get("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/default");
        let now = vcenter.map_err(|failure| failure.to_string())?["status"].clone();
        let mut conditions = now["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
        let message = found["message"].as_str().unwrap_or_default();
        let is_so = found["status"] == status && found["reason"] == reason && message.contains(words);
        if is_so { Ok(()) } else { Err(now.to_string()) }
    });
}

#[test]
fn the_environments_vcenter_is_restricted_by_a_vcenter_called_default_without_a_server() {
    let sandbox = Sandbox::start("environment", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter();
    let operator = Operator::start(&sandbox, vcenter).unwrap();
    let team = Group::create(&sandbox, "team", &json!({"replicas": 1}));
    let before = team.runs_with(1);
    let logins = || vcenter.calls("Login", "drover");
    let first = logins();

    let limits = json!({"operations": 7});
    let selector = json!({"matchLabels": {"may": "use"}});
    let rules = json!({"namespaces": selector, "limits": limits, "reach": "Restricted"});
    sandbox.declare(&manifest("default", &rules)).unwrap();
    says(&sandbox, "Connected", "True", "Connected", "");
    team.is_not_ready("NoVCenter", "doesn't serve this namespace");
    let other = Group::create(&sandbox, "other", &json!({"replicas": 1}));
    other.is_not_ready("NoVCenter", "no VCenter serves this namespace");
    let named = json!({"replicas": 1, "vcenter": "default"});
    other.patch(&named).unwrap();
    other.is_not_ready("NoVCenter", "there is no VCenter \"default\" that serves this namespace");

    sandbox.kubectl().run(&["label", "namespace", "team", "other", "may=use"]).unwrap();
    other.is_not_ready("NotAllowed", "may use no template");
    assert_eq!(logins(), first, "it is the same session");
    let checked = text(&drover(&sandbox, Some(vcenter), &["check", "-n", "other"]));
    assert!(checked.contains("VCenter default (") && checked.contains("namespace \"other\" may use no"), "{checked}");
    let first = logins();
    let allow = json!([{"templates": ["/**/vm-operator-template"]}]);
    sandbox
        .declare(&manifest("default", &json!({"namespaces": selector, "reach": "Restricted", "allow": allow})))
        .unwrap();
    other.runs_with(1);
    assert_eq!(team.runs_with(1), before, "those that were there are the same");
    assert_eq!(logins(), first, "it is still the same session");

    // What is restricted is so after a start, too, and what the VCenter says of the vCenter is believed.
    operator.terminate();
    drop(operator);
    let _operator = Operator::start(&sandbox, vcenter).unwrap();
    let late = Group::create(&sandbox, "late", &json!({"replicas": 1}));
    late.is_not_ready("NoVCenter", "no VCenter serves this namespace");
    says(&sandbox, "Connected", "True", "Connected", "");
    let first = logins();

    // A pattern that makes no sense is refused by the API server; what is no selector only Drover sees.
    let wrong = json!({"matchExpressions": [{"key": "may", "operator": "Like", "values": ["use"]}]});
    sandbox.declare(&manifest("default", &json!({"namespaces": wrong}))).unwrap();
    says(&sandbox, "Connected", "False", "Invalid", "spec.namespaces: ");
    team.is_not_ready("NoVCenter", "doesn't serve this namespace");
    sandbox.declare(&manifest("default", &json!({"namespaces": selector}))).unwrap();
    says(&sandbox, "Connected", "True", "Connected", "");
    assert_eq!(logins(), first + 1, "it was left, and taken up again");

    // With a server of its own it is another vCenter, and without rules the environment's serves everybody.
    let elsewhere = sandbox.own_vcenter();
    elsewhere.declare(&sandbox, "default", &json!({}));
    team.is_not_ready("VCenterUnreachable", "VCenterMismatch");
    sandbox.kubectl().run(&["delete", "vc", "default"]).unwrap();
    // It may be about to be created anew.
    for group in [&team, &late] {
        group.is_not_ready("NoVCenter", "the vCenter of the operator's environment is not used for 60 seconds");
    }
    late.runs_with(1);
    assert_eq!(team.runs_with(1), before);
    sandbox.assert_nothing_tells(&[]);
}

#[test]
fn the_environments_vcenter_stays_closed_while_its_rules_are_replaced() {
    let sandbox = Sandbox::start("replaced", &[]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter();
    let rules = manifest("default", &json!({"namespaces": {"matchLabels": {"may": "use"}}}));
    sandbox.declare(&rules).unwrap();
    let _operator = Operator::start(&sandbox, vcenter).unwrap();
    says(&sandbox, "Connected", "True", "Connected", "");
    let served = Group::of(sandbox.namespace("served"), &sandbox);
    sandbox.kubectl().run(&["label", "namespace", "served", "may=use"]).unwrap();
    served.apply(&json!({"replicas": 1}));
    let before = served.runs_with(1);
    let other = Group::create(&sandbox, "other", &json!({"replicas": 1}));
    other.is_not_ready("NoVCenter", "no VCenter serves this namespace");
    let clones = || vcenter.calls("CloneVM_Task", "drover");
    let first = clones();

    sandbox.kubectl().run(&["delete", "vc", "default"]).unwrap();
    let deleted = Instant::now();
    other.is_not_ready("NoVCenter", "The VCenter \"default\" was deleted: its rules hold for 60 seconds after that");
    let late = Group::create(&sandbox, "late", &json!({"replicas": 1, "vcenter": "default"}));
    late.is_not_ready("NoVCenter", "there is no VCenter \"default\" that serves this namespace");
    // Whom they serve goes on.
    served.loses(&before[0]);
    served.recovers_to(1, "runtime.powerState", "poweredOn");
    assert_eq!(clones(), first + 1);
    assert!(deleted.elapsed() < Duration::from_secs(50), "too slow to tell anything: {:?}", deleted.elapsed());

    sandbox.declare(&rules).unwrap();
    says(&sandbox, "Connected", "True", "Connected", "");
    // Longer than the rules would have held.
    thread::sleep(Duration::from_secs(65).saturating_sub(deleted.elapsed()));
    for closed in [&other, &late] {
        closed.is_not_ready("NoVCenter", "serves this namespace");
        assert!(!closed.status().unwrap().to_string().contains("was deleted"), "the rules are there again");
    }
    assert_eq!(clones(), first + 1);

    sandbox.kubectl().run(&["delete", "vc", "default"]).unwrap();
    late.runs_with(1);
    other.runs_with(1);
}

#[test]
fn only_the_vcenter_called_default_takes_its_server_from_the_environment() {
    let sandbox = crate::sandbox();
    let secret = json!({"name": "x"});
    for (name, spec, words) in [
        ("lab", json!({}), "only the VCenter default can take the server from the operator's environment"),
        ("default", json!({"server": "vc"}), "give both server and credentialsSecretRef, or none of them"),
        ("default", json!({"credentialsSecretRef": secret}), "give both server and credentialsSecretRef"),
        ("default", json!({"tls": {"insecure": true}}), "tls: where the operator's environment gives the server"),
    ] {
        let manifest = manifest(name, &spec).to_string();
        let refused = sandbox.kubectl().run_with_input(&["apply", "--dry-run=server", "-f", "-"], &manifest);
        let refused = refused.expect_err("the API server takes it").to_string();
        assert!(refused.contains(words), "{name} {spec}: {refused}");
    }
}
