//! What it costs to show all hosts and machines of a vCenter, when nothing happens to them.

use std::{collections::BTreeMap, thread, time::Duration};

use serde_json::{Value, json};

use crate::{Namespace, Operator, Sandbox, eventually};

/// Shows all hosts and machines of a vCenter, and asserts that this costs the API server not one write while nothing happens to them.
/// Returns how many calls vCenter had meanwhile.
pub fn at_rest(hosts: usize, machines: usize, watched_for: Duration) -> u64 {
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
    // The first figures come after all else, five objects a second.
    let figures = Duration::from_secs((hosts + machines) as u64 / 5);
    eventually(&sandbox, Duration::from_mins(1) + figures, "all is written that there is to write", || {
        let before = writes(&sandbox);
        thread::sleep(Duration::from_secs(2));
        let after = writes(&sandbox);
        if before == after { Ok(()) } else { Err(format!("{before:?}, then {after:?}")) }
    });
    let calls = || vcenter.control("GET", "/calls?client=drover", &Value::Null).unwrap();
    let (writes_before, calls_before) = (writes(&sandbox), calls());
    thread::sleep(watched_for);
    let (writes_after, calls_after) = (writes(&sandbox), calls());
    assert_eq!(writes_after, writes_before, "nothing happens, and nothing is written");
    assert_eq!(calls_before["methods"]["CreatePropertyCollector"], 1, "{calls_before}");
    let new = calls_after["total"].as_u64().unwrap() - calls_before["total"].as_u64().unwrap();
    assert_eq!(calls_after["methods"]["Login"], 1, "{calls_after}");
    new
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

/// How often the API server was asked to write an info, a VCenter or an event, by all that its metrics say of such requests.
fn writes(sandbox: &Sandbox) -> BTreeMap<String, u64> {
    let metrics = sandbox.kubectl().run(&["get", "--raw", "/metrics"]).unwrap();
    let counts = metrics.lines().filter_map(|line| line.strip_prefix("apiserver_request_total")?.rsplit_once(' '));
    let has = |labels: &str, name: &str, values: &[&str]| {
        values.iter().any(|value| labels.contains(&format!(r#"{name}="{value}""#)))
    };
    let is_write = |labels: &str| {
        has(labels, "resource", &["hostinfoes", "vminfoes", "vcenters", "events"])
            && has(labels, "verb", &["POST", "PUT", "PATCH", "APPLY", "DELETE"])
    };
    let writes = counts.filter(|(labels, _)| is_write(labels));
    writes.filter_map(|(labels, count)| Some((labels.to_owned(), count.parse().ok()?))).collect()
}
