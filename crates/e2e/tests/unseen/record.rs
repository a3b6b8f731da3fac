//! What can't be written down isn't begun, and the group says why.

use drover_e2e::{Group, SOON, eventually};
use serde_json::{Value, json};

use crate::{nothing_is_made_or_destroyed, sandbox, stalls};

/// A policy that lets no record with clones in it be written in a namespace.
fn policy(name: &str) -> [Value; 2] {
    let (api, meta) = ("admissionregistration.k8s.io/v1", json!({"name": name}));
    let rule = json!({
        "apiGroups": ["vm.codeconnect.vmworld.com"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["vmgroups/status"],
    });
    let admitted =
        "!has(object.status.record) || !has(object.status.record.pending) || size(object.status.record.pending) == 0";
    [
        json!({
            "apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": meta,
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": admitted, "message": "no clones are written down here"}],
            },
        }),
        json!({
            "apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta,
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}},
            },
        }),
    ]
}

#[test]
fn a_group_whose_record_can_not_be_written_says_so_and_begins_nothing() {
    let group = Group::create_apart(sandbox(), "unwritten", &json!({"replicas": 0}));
    group.settles_with(0, "runtime.powerState", "poweredOn");
    let kubectl = sandbox().kubectl();
    for object in policy(group.name()) {
        kubectl.run_with_input(&["apply", "-f", "-"], &object.to_string()).unwrap();
    }
    let pending = json!({"status": {"record": {"pending": ["0@1"]}}}).to_string();
    eventually(sandbox(), SOON, "the policy is in force", || {
        let probe =
            ["patch", "vg", group.name(), "--subresource=status", "--type=merge", "--dry-run=server", "-p", &pending];
        match group.namespace.kubectl(&probe) {
            Err(failure) if failure.stderr.contains("no clones are written down here") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    nothing_is_made_or_destroyed(&group, || {
        group.patch(&json!({"replicas": 2})).unwrap();
        stalls(&group, "Invalid", "no clones are written down here");
    });
    for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
        kubectl.run(&["delete", kind, group.name()]).unwrap();
    }
    group.runs_with(2);
    group.delete();
}
