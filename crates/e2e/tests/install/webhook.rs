//! The webhook of the manifests that people get: the API server finds it by its Service, and trusts in the certificates of both replicas.

use std::time::{Duration, Instant};

use drover_e2e::{Group, Page, SOON, Sandbox, eventually};
use serde_json::json;

use crate::{
    installation::Installation,
    page::{APPLY, BUILD},
};

/// How long it is written to the API server while certificates are renewed every 10 seconds.
const LOAD: Duration = Duration::from_secs(40);
const CONFIGURATION: &str = "validatingwebhookconfiguration drover-validating-webhook-configuration";

#[test]
fn certificates_are_renewed_under_load_without_one_failed_request_and_without_the_webhook_all_is_let_in() {
    let Some(sandbox) = Sandbox::start_with_node("webhook", &["--vcenters=2"]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    page.run(BUILD);
    page.run(APPLY);
    let vcenter = sandbox.own_vcenter();
    vcenter.declare_in(&sandbox.existing_namespace("drover-system"), &sandbox, "lab", &json!({}));
    let group = Group::of(sandbox.namespace("lab"), &sandbox).in_vcenter(&vcenter);
    group.apply(&json!({"replicas": 2}));
    here.is_ready();
    group.runs_with(2);
    let terminal = &page.terminal;
    let is_told = |what: &str| {
        eventually(&sandbox, SOON, what, || {
            let said = terminal.run("kubectl -n lab scale vg/lab --replicas=0 --dry-run=server 2>&1");
            if said.contains("Warning: destroys 2 VMs and their disks") { Ok(()) } else { Err(said) }
        });
    };
    is_told("the API server asks through the Service");

    let rotation =
        r#"[{"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--webhook-rotation=10s"}]"#;
    terminal.run(&format!(
        "kubectl -n drover-system patch deployment drover-controller-manager --type=json -p '{rotation}'"
    ));
    terminal.run("kubectl -n drover-system rollout status deployment drover-controller-manager --timeout=120s");
    is_told("the next replicas are asked");
    let policy = |policy: &str| {
        let patch = format!(r#"[{{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "{policy}"}}]"#);
        terminal.run(&format!("kubectl patch {CONFIGURATION} --type=json -p '{patch}'"));
    };
    let bundle =
        || terminal.run(&format!("kubectl get {CONFIGURATION} -o jsonpath='{{.webhooks[0].clientConfig.caBundle}}'"));
    // From now on, what the webhook doesn't answer is refused. That is known to the API server in a moment.
    policy("Fail");
    std::thread::sleep(Duration::from_secs(2));
    let before = bundle();
    let began = Instant::now();
    let mut written = 0;
    while began.elapsed() < LOAD {
        written += 1;
        let labels = json!({"metadata": {"labels": {"round": written.to_string()}}});
        group.namespace.patch("vg", "lab", &labels).unwrap_or_else(|failure| panic!("write {written}: {failure}"));
    }
    assert!(written > 100, "{written} writes");
    assert_ne!(bundle(), before, "certificates were renewed meanwhile");
    here.is_discreet_and_steady();

    // Nobody answers. With Fail nothing is stored, with Ignore, which is what people get, all is.
    terminal.run("kubectl -n drover-system scale deployment drover-controller-manager --replicas=0");
    terminal.run("kubectl -n drover-system wait pod --all --for=delete --timeout=120s");
    let refused = group.patch(&json!({"replicas": 1})).unwrap_err().to_string();
    assert!(refused.contains("failed calling webhook"), "{refused}");
    policy("Ignore");
    eventually(&sandbox, SOON, "it is stored", || {
        group.patch(&json!({"replicas": 1})).map(drop).map_err(|failure| failure.to_string())
    });
    terminal.run("kubectl -n drover-system scale deployment drover-controller-manager --replicas=2");
    group.runs_with(1);
}
