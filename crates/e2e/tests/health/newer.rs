//! What a newer version has said in a status, and this one doesn't know, stays when this one writes: after a roll-back, and while two
//! versions run side by side.

use drover_e2e::{Operator, SOON, Sandbox, VCenter, eventually};
use serde_json::{Value, json};

use crate::managers::{get, managers};

/// Each kind with its definition, one of its objects, and a change of the spec that has its status written.
fn kinds(round: u8) -> [(&'static str, &'static str, &'static str, Value); 5] {
    let name = format!("none-{round}");
    [
        ("vg", "vmgroups.vm.codeconnect.vmworld.com", "health", json!({"replicas": 2 + round})),
        ("vc", "vcenters.vm.codeconnect.vmworld.com", "health", json!({"limits": {"operations": 10 + round}})),
        ("ch", "hostinfoes.topology.corinternal.com", "unknown", json!({"hostname": name})),
        ("vi", "vminfoes.topology.corinternal.com", "unknown", json!({"nodename": name})),
        ("myownshell", "myownshells.my-first-operator.jgato.io", "shell", json!({"size": 2 + round})),
    ]
}

pub(crate) fn what_a_newer_version_has_said_stays(
    sandbox: &Sandbox,
    vcenter: &VCenter,
    operator: Operator,
) -> Operator {
    let kubectl = |arguments: &[&str], input: &str| sandbox.kubectl().run_with_input(arguments, input);
    for (_, definition, ..) in kinds(0) {
        let status = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
        let schema = json!({"type": "object", "properties": {"said": {"type": "integer"}}});
        let mut patch = vec![json!({"op": "add", "path": format!("{status}/newer"), "value": schema})];
        if definition.starts_with("vmgroups") {
            let record = format!("{status}/record/properties/newer");
            patch.push(json!({"op": "add", "path": record, "value": {"type": "integer"}}));
        }
        let patch = json!(patch).to_string();
        kubectl(&["patch", "crd", definition, "--type=json", "-p", &patch], "").unwrap_or_else(|it| panic!("{it}"));
    }
    // The one that runs would have watches of the older kinds for a moment.
    drop(operator);
    // As a newer operator writes it: all of the status, by the same manager.
    let say = |kind: &str, name: &str, round: u8| {
        eventually(sandbox, SOON, &format!("more can be said of {kind} {name}"), || {
            let object = get(sandbox, kind, name);
            let mut status = object["status"].clone();
            status["newer"] = json!({"said": round});
            if kind == "vg" {
                status["record"]["newer"] = json!(round);
            }
            let metadata = json!({"name": name, "resourceVersion": object["metadata"]["resourceVersion"]});
            let body = json!({
                "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "status": status,
            });
            let flags = ["--server-side", "--subresource=status", "--field-manager=drover", "--force-conflicts"];
            let arguments = [&["apply", "-n", "health", "-f", "-"][..], &flags].concat();
            kubectl(&arguments, &body.to_string()).map(drop).map_err(|failure| failure.to_string())
        });
    };
    for (kind, _, name, _) in kinds(1) {
        say(kind, name, 1);
    }
    let operator = Operator::start(sandbox, vcenter).unwrap();
    let mut lost = Vec::new();
    for round in [1, 2] {
        for (kind, _, name, change) in kinds(round) {
            if round > 1 {
                say(kind, name, round);
            }
            let before = get(sandbox, kind, name);
            let patch = json!({ "spec": change }).to_string();
            kubectl(&["patch", kind, name, "-n", "health", "--type=merge", "-p", &patch], "").unwrap();
            let after = eventually(sandbox, SOON, &format!("the status of {kind} {name} is written"), || {
                let object = get(sandbox, kind, name);
                let status = &object["status"];
                let is_seen = status["observedGeneration"] == object["metadata"]["generation"];
                let is_grown = || status["phase"] == "RUNNING" && status["readyReplicas"] == change["replicas"];
                if is_seen && (kind != "vg" || is_grown()) { Ok(object) } else { Err(status.to_string()) }
            });
            let (was, is) = (&before["status"], &after["status"]);
            assert_ne!(is["observedGeneration"], was["observedGeneration"], "{kind} {name}");
            assert!(kind != "vg" || is["record"] != was["record"], "{was}, then {is}");
            let is_kept = is["newer"] == json!({"said": round}) && (kind != "vg" || is["record"]["newer"] == round);
            if !is_kept {
                lost.push(format!("{kind} {name}, {round}: {is}"));
            }
            // Of a VCenter, Drover may change the status alone, and not who manages it.
            assert!(kind == "vc" || managers(&after) == ["drover Apply"], "{kind} {name}");
        }
    }
    assert!(lost.is_empty(), "{lost:#?}");
    operator
}
