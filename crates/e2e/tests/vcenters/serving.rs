//! Which vCenter serves whom.

use drover_e2e::{Group, Namespace, Operator, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::json;

use super::{Declared, sandbox};

const ANNOTATION: &str = "vm.codeconnect.vmworld.com/vcenter";

/// Waits until a group's machines run in this vCenter, and in no other of these.
#[track_caller]
fn runs_in(namespace: &Namespace, name: &str, vcenter: &VCenter, not_in: &[&VCenter]) {
    let folder = format!("/{}.{name}/", namespace.name);
    let count = |vcenter: &VCenter| vcenter.machines().iter().filter(|path| path.contains(&folder)).count();
    eventually(sandbox(), SOON, &format!("{name} runs in {}", vcenter.host), || {
        let group = namespace.get("vg", name).map_err(|failure| failure.to_string())?;
        let there = count(vcenter);
        let is_so = group["status"]["phase"] == "RUNNING" && there == 1;
        if is_so { Ok(()) } else { Err(format!("{there} machines, {}", group["status"])) }
    });
    for other in not_in {
        assert_eq!(count(other), 0);
    }
}

fn create(namespace: &Namespace, name: &str, vcenter: Option<&str>) {
    let mut spec = json!({"replicas": 1});
    if let Some(vcenter) = vcenter {
        spec["vcenter"] = json!(vcenter);
    }
    namespace.declare(&vm_group(name, &spec)).unwrap();
}

fn says(namespace: &Namespace, name: &str, reason: &str, words: &str) {
    eventually(sandbox(), SOON, &format!("{name}: {reason} {words}"), || {
        let group = namespace.get("vg", name).map_err(|failure| failure.to_string())?;
        let conditions = group["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let stalled = conditions.iter().find(|condition| condition["type"] == "Stalled").cloned().unwrap_or_default();
        let is_so = stalled["status"] == "True" && stalled["reason"] == reason;
        let message = stalled["message"].as_str().unwrap_or_default();
        if is_so && message.contains(words) { Ok(()) } else { Err(group["status"].to_string()) }
    });
}

#[test]
fn a_group_goes_where_its_spec_its_namespace_or_a_selector_says() {
    let first = Declared::connected("first", &json!({"namespaces": {"matchLabels": {"team": "first"}}}));
    let second = Declared::connected("second", &json!({}));
    let environment = sandbox().vcenter();
    let namespace = sandbox().namespace("serving");
    let kubectl = sandbox().kubectl();

    create(&namespace, "by-environment", None);
    runs_in(&namespace, "by-environment", environment, &[&first.vcenter, &second.vcenter]);
    create(&namespace, "by-spec", Some("second"));
    runs_in(&namespace, "by-spec", &second.vcenter, &[environment, &first.vcenter]);

    // One that doesn't serve the namespace, and one that isn't there: nothing is touched.
    create(&namespace, "refused", Some("first"));
    says(&namespace, "refused", "NoVCenter", "there is no VCenter \"first\" that serves this namespace");
    create(&namespace, "nowhere", Some("third"));
    says(&namespace, "nowhere", "NoVCenter", "there is no VCenter \"third\" that serves this namespace");
    for name in ["refused", "nowhere"] {
        let status = namespace.get("vg", name).unwrap()["status"].to_string();
        let (first, second) = (status.replace("VCenter \\\"first\\\"", ""), &second.name);
        assert!(!first.contains("first") && first.contains(second.as_str()), "{status}");
    }
    for vcenter in [environment, &first.vcenter, &second.vcenter] {
        assert!(!vcenter.machines().iter().any(|path| path.contains("refused") || path.contains("nowhere")));
    }

    kubectl.run(&["label", "namespace", "serving", "team=first"]).unwrap();
    runs_in(&namespace, "refused", &first.vcenter, &[environment, &second.vcenter]);
    create(&namespace, "by-selector", None);
    runs_in(&namespace, "by-selector", &first.vcenter, &[environment, &second.vcenter]);
    kubectl.run(&["annotate", "namespace", "serving", &format!("{ANNOTATION}=second")]).unwrap();
    create(&namespace, "by-annotation", None);
    runs_in(&namespace, "by-annotation", &second.vcenter, &[environment, &first.vcenter]);
    // Those that have machines stay where they are.
    runs_in(&namespace, "by-environment", environment, &[&first.vcenter, &second.vcenter]);
    runs_in(&namespace, "by-selector", &first.vcenter, &[environment, &second.vcenter]);
    let status = namespace.get("vg", "by-selector").unwrap()["status"].clone();
    assert_eq!(status["vcenter"], "first", "{status}");

    // One with machines can't be moved; without, it can, and leaves nothing behind.
    let to_second = r#"{"spec": {"vcenter": "second"}}"#;
    let move_it = || namespace.kubectl(&["patch", "vg", "by-environment", "--type=merge", "-p", to_second]);
    let refused = move_it().unwrap_err();
    assert!(
        refused
            .stderr
            .contains("spec.vcenter: the VmGroup has VMs in another VCenter: scale it to 0 before it is moved"),
        "{refused}"
    );
    namespace.kubectl(&["scale", "vg/by-environment", "--replicas=0"]).unwrap();
    eventually(sandbox(), SOON, "no machines are left", || {
        let group = namespace.get("vg", "by-environment").map_err(|failure| failure.to_string())?;
        let status = &group["status"];
        if status["currentReplicas"] == 0 && status["phase"] == "RUNNING" { Ok(()) } else { Err(status.to_string()) }
    });
    move_it().unwrap();
    namespace.kubectl(&["scale", "vg/by-environment", "--replicas=1"]).unwrap();
    runs_in(&namespace, "by-environment", &second.vcenter, &[environment, &first.vcenter]);
    eventually(sandbox(), SOON, "the folder that it had is gone", || {
        let left = environment.govc(&["find", "/DC0/vm"]).map_err(|failure| failure.to_string())?;
        if left.contains("serving.by-environment") { Err(left) } else { Ok(()) }
    });
    namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap();
    for vcenter in [environment, &first.vcenter, &second.vcenter] {
        assert!(!vcenter.govc(&["find", "/DC0/vm"]).unwrap().contains("serving."));
    }
}

#[test]
fn a_default_serves_those_whom_no_other_does_with_its_own_folder() {
    let usual = Declared::new("usual", &json!({"defaults": {"folder": "teams"}}));
    usual.vcenter.govc(&["folder.create", "/DC0/vm/teams"]).unwrap();
    usual.says("Connected", "True", "Connected", "");
    usual.patch(&json!({"default": true, "namespaces": {"matchLabels": {"of": "usual"}}}));
    let other =
        Declared::connected("other-usual", &json!({"default": true, "namespaces": {"matchLabels": {"of": "usual"}}}));
    let kubectl = sandbox().kubectl();
    let namespace = sandbox().namespace("defaults");
    kubectl.run(&["label", "namespace", "defaults", "of=usual"]).unwrap();
    create(&namespace, "torn", None);
    says(&namespace, "torn", "NoVCenter", "several VCenters are the default (other-usual, usual)");
    other.patch(&json!({"default": false}));
    runs_in(&namespace, "torn", &usual.vcenter, &[&other.vcenter, sandbox().vcenter()]);
    let machines = usual.vcenter.machines();
    assert!(machines.iter().any(|path| path.starts_with("/DC0/vm/teams/defaults.torn/")), "{machines:?}");

    // A VCenter that goes takes nothing with it. Its groups say so, and go on when it is there again.
    kubectl.run(&["delete", "vc", "usual"]).unwrap();
    says(&namespace, "torn", "NoVCenter", "there is no VCenter \"usual\"");
    assert_eq!(usual.vcenter.machines(), machines);
    usual.vcenter.declare(sandbox(), "usual", &json!({"defaults": {"folder": "teams"}}));
    runs_in(&namespace, "torn", &usual.vcenter, &[]);
    assert_eq!(usual.vcenter.machines(), machines);
    namespace.kubectl(&["delete", "vg", "torn", "--timeout=120s"]).unwrap();
    for name in ["usual", "other-usual"] {
        kubectl.run(&["delete", "vc", name]).unwrap();
    }
}

#[test]
fn a_folder_that_another_cluster_uses_is_left_to_it() {
    let ours = Group::create(sandbox(), "shared-folder", &json!({"replicas": 1}));
    let machines = ours.runs_with(1);
    // Another cluster, with an operator of its own on the same vCenter.
    let elsewhere = Sandbox::start("elsewhere", &[]).unwrap();
    elsewhere.install_kinds();
    let _operator = Operator::start(&elsewhere, sandbox().vcenter()).unwrap();
    let theirs = Group::create(&elsewhere, "shared-folder", &json!({"replicas": 2}));
    theirs.says("ERROR", "is that of the group shared-folder/shared-folder of another Kubernetes cluster");
    let conditions = theirs.status().unwrap()["conditions"].clone();
    assert!(
        conditions.as_array().unwrap().iter().any(|condition| condition["reason"] == "FolderConflict"),
        "{conditions}"
    );
    // With a folder of its own it has its machines, and each cluster leaves the other's alone.
    sandbox().vcenter().govc(&["folder.create", "/DC0/vm/elsewhere"]).unwrap();
    theirs.patch(&json!({"placement": {"folder": "elsewhere"}})).unwrap();
    theirs.says("RUNNING", "successfully reconciled");
    theirs.delete();
    assert_eq!(ours.everywhere(), machines);
    ours.delete();
}
