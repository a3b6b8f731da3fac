//! An operator's admission webhook, and the API server that asks it.

use std::net::TcpListener;

use serde_json::json;

use crate::Sandbox;

/// Has the API server ask an operator that runs beside it, in the way that config/webhook has it ask those of the cluster.
pub fn configure(sandbox: &Sandbox, ports: &[u16]) {
    let hook = |port: &u16| {
        let resources = ["vmgroups", "vmgroups/scale"];
        json!({
            "name": format!("vmgroups-{port}.vm.codeconnect.vmworld.com"),
            "clientConfig": {"url": format!("https://127.0.0.1:{port}/validate")},
            "rules": [{
                "apiGroups": ["vm.codeconnect.vmworld.com"], "apiVersions": ["*"], "resources": resources,
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
            "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
        })
    };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "drover", "labels": {"app.kubernetes.io/name": "drover"}},
        "webhooks": ports.iter().map(hook).collect::<Vec<_>>(),
    });
    sandbox
        .kubectl()
        .run_with_input(&["apply", "-f", "-"], &configuration.to_string())
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// A port that nobody listens on.
#[must_use]
pub fn free_port() -> u16 {
    let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    address.expect("this machine has a port left").port()
}

/// Has the API server ask an operator that runs beside it for the namespaces with a label, by the configuration of `config/webhook`, which
/// is applied.
pub fn point(sandbox: &Sandbox, port: u16, label: &str) {
    let patch = json!([
        {"op": "replace", "path": "/webhooks/0/clientConfig", "value": {"url": format!("https://127.0.0.1:{port}/validate")}},
        {"op": "add", "path": "/webhooks/0/namespaceSelector", "value": {"matchLabels": {label: "true"}}},
    ]);
    let name = "drover-validating-webhook-configuration";
    let flags = ["patch", "validatingwebhookconfiguration", name, "--type=json", "-p", &patch.to_string()];
    sandbox.kubectl().run(&flags).unwrap_or_else(|failure| panic!("{failure}"));
}
