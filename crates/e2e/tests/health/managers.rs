//! Who has written the statuses: Drover alone, so that nothing stays which Drover no longer says.

use drover_e2e::{Operator, SOON, Sandbox, VCenter, eventually};
use serde_json::{Value, json};

/// The managers of an object's status, each with its way to write.
pub(crate) fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let of_status = entries.filter(|entry| entry["subresource"] == "status");
    of_status.map(|entry| format!("{} {}", entry["manager"], entry["operation"]).replace('"', "")).collect()
}

pub(crate) fn get(sandbox: &Sandbox, kind: &str, name: &str) -> Value {
    let arguments = ["get", kind, name, "-n", "health", "-o", "json", "--show-managed-fields"];
    let object = sandbox.kubectl().run(&arguments).unwrap_or_else(|failure| panic!("{failure}"));
    serde_json::from_str(&object).unwrap()
}

pub(crate) fn one_manager_has_every_status(sandbox: &Sandbox, objects: &[(&str, &str)]) {
    for (kind, name) in objects {
        assert_eq!(managers(&get(sandbox, kind, name)), ["drover Apply"], "{kind} {name}");
    }
}

/// As the version before did, which wrote statuses by merge patches; and as a person might.
pub(crate) fn what_another_has_written_goes_away(sandbox: &Sandbox, vcenter: &VCenter, operator: Operator) -> Operator {
    drop(operator);
    let objects = [("vg", "health"), ("ch", "host"), ("vc", "health")];
    for (kind, name) in objects {
        let mut conditions = get(sandbox, kind, name)["status"]["conditions"].as_array().cloned().unwrap();
        conditions.push(json!({
            "type": "Progressing", "status": "False", "reason": "Settled", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }));
        let status = match kind {
            "vg" => json!({"conditions": conditions, "incident": "vg-old"}),
            _ => json!({"conditions": conditions}),
        };
        for manager in ["drover", "kubectl-edit"] {
            let patch = json!({ "status": status }).to_string();
            let manager = format!("--field-manager={manager}");
            let arguments =
                ["patch", kind, name, "-n", "health", "--subresource=status", "--type=merge", &manager, "-p", &patch];
            sandbox.kubectl().run(&arguments).unwrap_or_else(|failure| panic!("{failure}"));
        }
        assert!(managers(&get(sandbox, kind, name)).len() > 1);
    }
    let operator = Operator::start(sandbox, vcenter).unwrap();
    for (kind, name) in objects {
        eventually(sandbox, SOON, &format!("the status of {kind} {name} is Drover's alone"), || {
            let object = get(sandbox, kind, name);
            let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
            let is_clean = conditions.all(|condition| condition["type"] != "Progressing")
                && object["status"]["incident"].is_null();
            // Of a VCenter, Drover may change the status alone, and not who manages it.
            if is_clean && (kind == "vc" || managers(&object) == ["drover Apply"]) {
                Ok(())
            } else {
                Err(format!("{:?}: {}", managers(&object), object["status"]))
            }
        });
    }
    operator
}
