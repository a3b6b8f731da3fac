//! The objects that a MyOwnShell is made of, as manifests. What isn't in them is for others to say.

use std::collections::BTreeMap;

use drover_api::myownshell::Amount;
use serde_json::{Value, json};

use super::{API_VERSION, APP, CR_LABEL, Desired, FINALIZER, KIND, hosts};
use crate::names;

/// The container of each shell, named as the seed names it, whatever its image.
const CONTAINER: &str = "busybox";
/// The annotation by which a changed manifest is told from one that stands, also where the change leaves something out. On a pod, it
/// is that of the hosts file that the pod has.
pub const APPLIED: &str = "my-first-operator.jgato.io/applied";
/// `nobody`, in busybox and most images.
const USER: u32 = 65534;
/// The first process of the seed's command takes no signal, so waiting longer for it gives nobody anything.
const GRACE_SECONDS: u32 = 5;

/// The labels of all that belongs to a MyOwnShell, and the selector of its pods.
#[must_use]
pub fn labels(shell: &str) -> BTreeMap<&'static str, String> {
    BTreeMap::from([(APP.0, APP.1.to_owned()), (CR_LABEL, names::label(shell))])
}

/// The name of the ConfigMap with a MyOwnShell's hosts file, and of the Service that its machines are found by. It is the name of
/// a Service for any name of a MyOwnShell, and no other MyOwnShell's.
#[must_use]
pub fn hosts_name(shell: &str) -> String {
    let dashed = format!("hosts-{}", shell.replace('.', "-"));
    // A Service has no dots in its name. By dashes alone, `a.b` would have the name that `a-b` has.
    if shell.contains('.') { names::told_apart(&dashed, names::LONGEST_LABEL, shell) } else { names::label(&dashed) }
}

/// The name that earlier versions gave, where it was another.
#[must_use]
pub fn former_hosts_name(shell: &str) -> Option<String> {
    shell.contains('.').then(|| names::label(&format!("hosts-{}", shell.replace('.', "-"))))
}

/// The Deployment, but for the number of its replicas.
pub(super) fn deployment(desired: &Desired, domain: &str) -> Value {
    let labels = labels(&desired.name);
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "containers": [{
            "name": CONTAINER,
            "image": desired.image,
            "command": desired.command,
            "resources": resources(desired),
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        }],
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": GRACE_SECONDS,
    });
    if desired.group.is_some() {
        let name = &desired.hosts;
        // No subPath: a file mounted by one never changes.
        pod["containers"][0]["volumeMounts"] = json!([{"name": "hosts", "mountPath": hosts::FOLDER, "readOnly": true}]);
        pod["volumes"] = json!([{"name": "hosts", "configMap": {"name": name, "optional": true}}]);
        pod["dnsConfig"] = json!({"searches": [format!("{name}.{}.svc.{domain}", desired.namespace)]});
    }
    let mut manifest = manifest(desired, "apps/v1", "Deployment", &desired.name);
    manifest["metadata"]["finalizers"] = json!([FINALIZER]);
    manifest["spec"] = json!({
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": {"kubectl.kubernetes.io/default-container": CONTAINER}},
            "spec": pod,
        },
    });
    signed(manifest)
}

fn resources(desired: &Desired) -> Value {
    let amounts = |amounts: &BTreeMap<String, Amount>| -> BTreeMap<String, String> {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.text())).collect()
    };
    let resources = &desired.resources;
    let mut manifest = json!({});
    for (name, amounts) in [("requests", amounts(&resources.requests)), ("limits", amounts(&resources.limits))] {
        if !amounts.is_empty() {
            manifest[name] = json!(amounts);
        }
    }
    manifest
}

/// The beginning of each manifest.
pub(super) fn manifest(desired: &Desired, api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": desired.namespace,
            "labels": labels(&desired.name),
            "ownerReferences": [{
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": desired.name,
                "uid": desired.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
    })
}

/// A manifest with a digest of itself.
pub(super) fn signed(mut manifest: Value) -> Value {
    let digest = format!("{:016x}", names::hash(&[&manifest.to_string()]));
    manifest["metadata"]["annotations"] = json!({APPLIED: digest});
    manifest
}
