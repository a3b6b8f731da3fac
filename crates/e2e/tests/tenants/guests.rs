//! What a VM is made to do, and what guests are told.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::{HOME, group, world};

const MARK: &str = "vm.codeconnect.vmworld.com/cloud-init";
/// What only guests are told.
const TOLD: &str = "told-to-guests-and-to-nobody-else";

#[test]
fn keys_that_reach_beyond_a_vm_are_refused() {
    let Some(world) = world() else { return };
    let red = world.red("red-keys");
    // The kind refuses what reaches outside of a VM.
    let outside = "can't be set: they are Drover's own, or reach outside of the VM";
    for (key, words) in [
        ("drover.group", outside),
        ("SET.sched.swap.dir", outside),
        ("serial0.fileName", outside),
        ("sched.swap.dir", "they reach outside of the VM"),
        ("pciPassthru0.present", "they reach outside of the VM"),
        ("RemoteDisplay.vnc.enabled", "they reach outside of the VM"),
        ("guestinfo.userdata", "cloud-init's keys can't be set here: use spec.guest.cloudInit"),
    ] {
        let told = red.refused(&group("key", &json!({"extraConfig": {key: "x"}})));
        assert!(told.contains("spec.extraConfig") && told.contains(words), "{key}: {told}");
    }
    // The operator refuses what nobody has allowed, however it is written.
    let keys = ["isolation.tools.copy.disable", "Isolation.device.edit.disable", "monitor.phys_bits_used", "guestinfo"];
    let named = |(number, key): (usize, &str)| group(&format!("key-{number}"), &json!({"extraConfig": {key: "x"}}));
    red.apply(&keys.into_iter().enumerate().map(named).collect::<Vec<_>>());
    for (number, key) in keys.iter().enumerate() {
        let said = format!(
            "spec.extraConfig: namespace \"red-keys\" may not set {key:?} in VCenter \"shared\". Use keys that begin with guestinfo. To \
             allow them, add to spec.allow of the VCenter: {{"
        );
        red.is_told("vg", &format!("key-{number}"), "NotAllowed", &said);
    }
    world.nothing_came_of_it(&red);
}

fn told_by(secret: &str) -> Value {
    json!({"guest": {"cloudInit": {"userData": {"secretKeyRef": {"name": secret, "key": "token"}}}}})
}

fn secret(name: &str, kind: &str, metadata: &Value) -> Value {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "stringData": {"token": TOLD},
    });
    secret["metadata"]["name"] = name.into();
    secret
}

#[test]
fn a_secret_that_is_not_for_guests_reaches_no_vm() {
    let Some(world) = world() else { return };
    let red = world.red("red-secrets");
    red.kubectl(&["create", "serviceaccount", "robot"]).unwrap();
    let of_robot = json!({"annotations": {"kubernetes.io/service-account.name": "robot"}, "labels": {MARK: "true"}});
    red.apply(&[
        secret("plain", "Opaque", &json!({})),
        secret("robot", "kubernetes.io/service-account-token", &of_robot),
        group("plain", &told_by("plain")),
        group("robot", &told_by("robot")),
        // The operator's own, by its name.
        group("cerulean", &told_by("cerulean")),
    ]);
    let said = format!(
        "spec.guest.cloudInit: the Secret plain is not marked for cloud-init: kubectl label secret plain {MARK}=true"
    );
    assert_eq!(red.is_told("vg", "plain", "NotAllowed", &said), said);
    let said = "spec.guest.cloudInit: the Secret robot is the token of a service account: it is written into no VM";
    assert_eq!(red.is_told("vg", "robot", "NotAllowed", said), said);
    let said = "spec.guest.cloudInit: the Secret cerulean isn't there";
    assert_eq!(red.is_told("vg", "cerulean", "NotFound", said), said);
    let mut elsewhere = group("elsewhere", &told_by("cerulean"));
    elsewhere["spec"]["guest"]["cloudInit"]["userData"]["secretKeyRef"]["namespace"] = HOME.into();
    let told = red.refused(&elsewhere);
    assert!(told.contains("unknown field \"namespace\""), "{told}");
    world.nothing_came_of_it(&red);
}

#[test]
fn what_guests_are_told_is_told_to_nobody_else() {
    let Some(world) = world() else { return };
    let red = world.red("red-guests");
    let mut spec = told_by("boot");
    spec["vcenter"] = "own".into();
    spec["template"] = "vm-operator-template".into();
    red.apply(&[secret("boot", MARK, &json!({})), group("told", &spec)]);
    red.is_told("vg", "told", "Reconciled", "successfully reconciled VmGroup");
    let vm = world.own.machines().into_iter().find(|path| path.contains("/told-replica-")).unwrap();
    let options = world.own.govc(&["vm.info", "-e", &vm]).unwrap();
    assert!(options.contains(&BASE64_STANDARD.encode(TOLD)), "the guest is told: {options}");
    world.sandbox.assert_nothing_tells(&[TOLD]);
    let (_, metrics) = world.operator.ask("GET", "/metrics").unwrap();
    assert!(metrics.contains("drover_") && !metrics.contains("told"), "{metrics}");
    red.kubectl(&["delete", "vg", "told"]).unwrap();
    world.sandbox.assert_nothing_tells(&[TOLD]);
}
