//! Whoever deletes the kind VmGroup removes Drover, and means no VM.

use drover_e2e::{Failure, Group, Operator, SOON, Sandbox, Untouched, eventually};
use serde_json::{Value, json};

const KIND: &str = "crd/vmgroups.vm.codeconnect.vmworld.com";

fn kubectl(sandbox: &Sandbox, arguments: &[&str]) -> Result<String, Failure> {
    sandbox.kubectl().run(arguments)
}

/// Says that the kinds of VmGroups and VCenters are to be deleted, and waits until the API server has begun with the VmGroups.
#[track_caller]
fn kinds_are_deleted(sandbox: &Sandbox, of: &Group) {
    let kinds = [KIND, "crd/vcenters.vm.codeconnect.vmworld.com"];
    kubectl(sandbox, &[&["delete", "--wait=false"], &kinds[..]].concat()).unwrap();
    eventually(sandbox, SOON, "the VmGroups go with their kind", || match of.get() {
        Ok(group) if group["metadata"]["deletionTimestamp"].is_null() => Err(group.to_string()),
        _ => Ok(()),
    });
}

#[track_caller]
fn the_kind_is_gone(sandbox: &Sandbox) {
    kubectl(sandbox, &["wait", "--for=delete", KIND, "--timeout=120s"]).unwrap();
}

fn settled(group: &Group) -> Untouched {
    group.runs_with(2);
    Untouched::of(group)
}

#[test]
fn an_operator_that_runs_while_its_kinds_are_deleted_touches_no_vm() {
    let sandbox = &Sandbox::start("kinds", &["--vcenters=3", "--clone-delay=2s"]).unwrap();
    sandbox.install_kinds();
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let shared = Group::create(sandbox, "shared", &json!({}));
    let apart = Group::create_apart(sandbox, "apart", &json!({}));
    let away = Group::create_apart(sandbox, "away", &json!({}));
    let groups = [&shared, &apart, &away];
    let before = groups.map(settled);
    let growing = Group::create(sandbox, "growing", &json!({"replicas": 1}));
    growing.runs_with(1);
    let first = growing.identities();
    away.vcenter().control("POST", "/outage", &json!({"for": "1h"})).unwrap();
    growing.patch(&json!({"replicas": 4, "template": "vm-operator-template"})).unwrap();
    eventually(sandbox, SOON, "VMs are being cloned", || match sandbox.vcenter().machine_counts().cloning {
        0 => Err("none yet".to_owned()),
        _ => Ok(()),
    });

    kinds_are_deleted(sandbox, &growing);
    the_kind_is_gone(sandbox);
    away.vcenter().control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    assert_eq!(groups.map(Untouched::of), before);
    assert!(growing.identities().is_superset(&first), "{:?}, {first:?}", growing.identities());

    // Those of a new kind are others.
    sandbox.install_kinds();
    let next = Group::create(sandbox, "next", &json!({}));
    next.runs_with(2);
    next.delete();
    assert_eq!(next.everywhere(), Vec::<String>::new());
    assert_eq!(groups.map(Untouched::of), before);
    assert!(growing.identities().is_superset(&first), "{:?}, {first:?}", growing.identities());
}

#[test]
fn vms_of_a_kind_that_was_forced_out_and_installed_again_are_kept() {
    let sandbox = &Sandbox::start("forced", &[]).unwrap();
    sandbox.install_kinds();
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "forced", &json!({}));
    let before = settled(&group);
    drop(operator);
    kinds_are_deleted(sandbox, &group);
    kubectl(sandbox, &["patch", KIND, "--type=merge", "--patch", r#"{"metadata": {"finalizers": null}}"#]).unwrap();
    the_kind_is_gone(sandbox);

    sandbox.install_kinds();
    let left: Value =
        eventually(sandbox, SOON, "the VmGroup was left behind", || group.get().map_err(|failure| failure.to_string()));
    assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    group.is_gone();
    assert_eq!(Untouched::of(&group), before);
    group.tells("VMsKept", "");
}
