//! More than one's share.

use drover_e2e::{SOON, eventually};
use serde_json::{Value, json};

use crate::{group, world};

#[test]
fn nobody_leaves_vms_behind_to_get_more() {
    let Some(world) = world() else { return };
    let red = world.red("red-left");
    let of = |name: &str, more: &Value| {
        let mut spec = json!({"vcenter": "own", "template": "vm-operator-template"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        group(name, &spec)
    };
    let vms = || {
        let all = world.own.machines();
        all.into_iter().filter(|path| path.contains("/red-left.")).collect::<Vec<_>>()
    };
    // One is to be left behind, and the other can't go on by what its own spec says.
    red.apply(&[of("kept", &json!({"deletionPolicy": "Retain"})), of("stuck", &json!({}))]);
    for name in ["kept", "stuck"] {
        red.is_told("vg", name, "Reconciled", "successfully reconciled VmGroup");
    }
    let stuck = json!({"metadata": {"annotations": {"vm.codeconnect.vmworld.com/abandon": "true"}}});
    red.kubectl(&["patch", "vg", "stuck", "--type=merge", "-p", &stuck.to_string()]).unwrap();
    red.kubectl(&["patch", "vg", "stuck", "--type=merge", "-p", r#"{"spec": {"placement": {"folder": "nowhere"}}}"#])
        .unwrap();
    let said = "spec.placement.folder: namespace \"red-left\" may use no folder \"nowhere\" in VCenter \"own\". ";
    red.is_told("vg", "stuck", "NotAllowed", said);
    red.kubectl(&["delete", "vg", "kept", "stuck", "--timeout=60s"]).unwrap();
    assert_eq!(vms().len(), 1, "the one that is abandoned is destroyed all the same: {:?}", vms());
    // What is left behind counts.
    red.apply(&[of("more", &json!({"replicas": 2}))]);
    let said = "1 VM waits for the quota of namespace \"red-left\" in VCenter \"own\": 2 of 2 VMs are used. ";
    red.is_told("vg", "more", "QuotaExceeded", said);
    eventually(world.sandbox, SOON, "there are two VMs", || {
        if vms().len() == 2 { Ok(()) } else { Err(format!("{:?}", vms())) }
    });
    red.kubectl(&["delete", "vg", "more", "--timeout=60s"]).unwrap();
    world.nothing_came_of_it(&red);
}

#[test]
fn shells_stay_within_the_quota_of_their_namespace() {
    let Some(world) = world() else { return };
    let red = world.red("red-pods");
    red.is_forbidden(&["create", "quota", "many", "--hard=pods=100"]);
    red.namespace.kubectl(&["create", "quota", "few", "--hard=pods=2"]).unwrap();
    eventually(world.sandbox, SOON, "the quota counts", || {
        let quota = red.namespace.get("resourcequota", "few").map_err(|failure| failure.to_string())?;
        if quota["status"]["hard"]["pods"] == "2" { Ok(()) } else { Err(quota.to_string()) }
    });
    red.is_forbidden(&["delete", "quota", "few"]);
    let shell = |size: u32| {
        json!({
            "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "shell"},
            "spec": {"size": size},
        })
    };
    let runs = |size: usize| {
        eventually(world.sandbox, SOON, &format!("{size} shells run, and no others are there"), || {
            let shell = red.namespace.get("myownshell", "shell").map_err(|failure| failure.to_string())?;
            let pods = red.namespace.list("pod").map_err(|failure| failure.to_string())?;
            let status = &shell["status"];
            let listed = status["pods"].as_array().map_or(0, Vec::len);
            let is_so = status["readyReplicas"] == size && listed == size && pods.len() == size;
            if is_so { Ok(()) } else { Err(format!("{status} {}", pods.len())) }
        });
    };
    red.apply(&[shell(50)]);
    let message = red.is_told("myownshell", "shell", "PodsRefused", "");
    assert!(message.contains("exceeded quota: few"), "{message}");
    runs(2);
    // Others of the namespace have what it gives up.
    red.apply(&[shell(1)]);
    runs(1);
    world.nothing_came_of_it(&red);
}
