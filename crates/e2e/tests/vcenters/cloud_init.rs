//! Which Secrets of its namespace a group may have written into its VMs.

use drover_e2e::{Group, Page, eventually};
use serde_json::{Value, json};

use crate::{
    Declared, SOON,
    commands::{drover, text},
    sandbox,
};

const MARK: &str = "vm.codeconnect.vmworld.com/cloud-init";

/// What a group is that tells its guests what a Secret has.
fn told_by(secret: &str) -> Value {
    json!({"guest": {"cloudInit": {"userData": {"secretKeyRef": {"name": secret, "key": "token"}}}}})
}

fn secret(name: &str, kind: &str, annotations: &Value) -> Value {
    let metadata = json!({"name": name, "annotations": annotations});
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": {"token": "#cloud-config"},
    })
}

/// Waits until a group is refused with these words.
#[track_caller]
fn is_refused(group: &Group<'_>, words: &str) {
    eventually(sandbox(), SOON, &format!("NotAllowed: {words}"), || {
        let status = group.status()?;
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let stalled = conditions.into_iter().find(|condition| condition["type"] == "Stalled").unwrap_or_default();
        let is_so = stalled["status"] == "True" && stalled["reason"] == "NotAllowed";
        let message = stalled["message"].as_str().unwrap_or_default();
        if is_so && message.contains(words) { Ok(()) } else { Err(status.to_string()) }
    });
}

#[test]
fn a_secret_that_is_not_for_cloud_init_reaches_no_vm() {
    let open =
        json!({"reach": "Restricted", "enforce": "Warn", "allow": [{"templates": ["/**/vm-operator-template"]}]});
    let lab = Declared::connected("guests", &open);
    let mut spec = told_by("boot");
    spec["replicas"] = json!(1);
    spec["vcenter"] = json!("guests");
    let group = Group::create(sandbox(), "guests", &spec).in_vcenter(&lab.vcenter);
    group.namespace.declare(&secret("boot", "Opaque", &Value::Null)).unwrap();
    group.runs_with(1);
    // What will be refused, a check says before.
    let checked = text(&drover(sandbox(), None, &["check", "--operator-namespace=default", "-n", "guests"]));
    let words = "spec.guest.cloudInit: the Secret boot is not marked for cloud-init";
    assert!(checked.contains(&format!("ok   cloud-init    would be refused: {words}")), "{checked}");

    lab.patch(&json!({"enforce": "Enforce"}));
    lab.vcenter.forget_calls();
    group.patch(&json!({"replicas": 2})).unwrap();
    is_refused(&group, &format!("{words}: kubectl label secret boot {MARK}=true"));
    assert_eq!(lab.vcenter.calls("CloneVM_Task", "drover"), 0);
    let page = Page::open(sandbox(), "docs/vcenters.md");
    let label = "kubectl -n team-a label secret boot vm.codeconnect.vmworld.com/cloud-init=true";
    page.run_with(label, &[("team-a", "guests")]);
    group.runs_with(2);
    let before = group.identities();
    group.namespace.declare(&secret("typed", MARK, &Value::Null)).unwrap();
    group.patch(&told_by("typed")).unwrap();
    group.runs_with(2);
    assert!(group.identities().is_disjoint(&before), "a Secret of that type needs no label");

    // A token is for no VM, whatever is restricted and however it is labelled.
    group.namespace.kubectl(&["create", "serviceaccount", "robot"]).unwrap();
    let of_robot = json!({"kubernetes.io/service-account.name": "robot"});
    group.namespace.declare(&secret("robot", "kubernetes.io/service-account-token", &of_robot)).unwrap();
    group.namespace.kubectl(&["label", "secret", "robot", &format!("{MARK}=true")]).unwrap();
    lab.vcenter.forget_calls();
    for reach in ["Restricted", "Open"] {
        lab.patch(&json!({"reach": reach}));
        group.patch(&told_by("robot")).unwrap();
        is_refused(&group, "spec.guest.cloudInit: the Secret robot is the token of a service account");
        assert_eq!(lab.vcenter.calls("CloneVM_Task", "drover"), 0);
    }
    group.delete();
}
