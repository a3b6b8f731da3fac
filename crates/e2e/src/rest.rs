//! What it costs to show all hosts and machines of a vCenter, when nothing happens to them.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use crate::{Namespace, Operator, Sandbox, eventually};

/// Shows all hosts and machines of a vCenter, and asserts what that costs while nothing happens to them: vCenter one long poll,
/// and the API server next to no writes.
pub fn at_rest(hosts: usize, machines: usize, watched_for: Duration) {
    let flags = [format!("--hosts={hosts}"), format!("--machines={machines}")];
    let sandbox = Sandbox::start(&format!("rest-{machines}"), &[&flags[0], &flags[1]]).unwrap();
    sandbox.install_kinds();
    let namespace = sandbox.namespace("rest");
    let vcenter = sandbox.vcenter();
    vcenter.declare(&sandbox, "default", &json!({"default": true, "publish": {"hosts": true, "namespace": "rest"}}));
    let _operator = Operator::start(&sandbox, vcenter).unwrap();
    let items: Vec<_> = (1..=machines).map(machine).collect();
    namespace
        .kubectl_with_input(
            &["create", "-f", "-"],
            &json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
        )
        .unwrap();
    eventually(&sandbox, Duration::from_mins(2), "all hosts and machines are shown", || {
        let shown = (seen(&namespace, "ch")?, seen(&namespace, "vi")?);
        if shown == (hosts, machines) { Ok(()) } else { Err(format!("{shown:?}")) }
    });
    let calls = || vcenter.control("GET", "/calls?client=drover", &Value::Null).unwrap();
    let (writes_before, calls_before) = (writes(&sandbox), calls());
    thread::sleep(watched_for);
    let (writes_after, calls_after) = (writes(&sandbox), calls());
    let seconds = watched_for.as_secs();
    assert!(writes_after - writes_before < 5 * seconds, "{writes_before} writes, then {writes_after}");
    assert_eq!(calls_before["methods"]["CreatePropertyCollector"], 1, "{calls_before}");
    let new = calls_after["total"].as_u64().unwrap() - calls_before["total"].as_u64().unwrap();
    assert!(new <= 1, "the long poll waits: {calls_before}, then {calls_after}");
    assert_eq!(calls_after["methods"]["Login"], 1, "{calls_after}");
}

fn machine(number: usize) -> Value {
    json!({
        "apiVersion": "topology.corinternal.com/v1",
        "kind": "VMInfo",
        "metadata": {"name": format!("machine-{number}")},
        "spec": {"nodename": format!("DC0_C0_RP0_VM{number}")},
    })
}

/// How many objects of a kind are said to be found.
fn seen(namespace: &Namespace, kind: &str) -> Result<usize, String> {
    let path = r#"jsonpath={range .items[*]}{.status.conditions[?(@.type=="Found")].status}{"\n"}{end}"#;
    let shown = namespace.kubectl(&["get", kind, "-o", path]).map_err(|failure| failure.to_string())?;
    Ok(shown.lines().filter(|line| *line == "True").count())
}

/// How often the API server was asked to write an info or an event.
fn writes(sandbox: &Sandbox) -> u64 {
    let metrics = sandbox.kubectl().run(&["get", "--raw", "/metrics"]).unwrap();
    let counts = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let is_about = |line: &&str| {
        ["hostinfoes", "vminfoes", "vcenters", "events"]
            .iter()
            .any(|kind| line.contains(&format!(r#"resource="{kind}""#)))
    };
    let is_write = |line: &&str| {
        ["POST", "PUT", "PATCH", "APPLY", "DELETE"].iter().any(|verb| line.contains(&format!(r#"verb="{verb}""#)))
    };
    counts.filter(is_about).filter(is_write).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}
