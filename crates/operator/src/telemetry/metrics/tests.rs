//! What is told is shown, what is shown is told of in the docs, and what the alerts and the dashboard ask for is there.

use std::{fs, path::PathBuf};

use serde_json::{Value, json};

use super::*;

fn names(vcenters: &[&str]) -> BTreeSet<String> {
    vcenters.iter().map(ToString::to_string).collect()
}

fn group(status: &Value) -> VmGroup {
    serde_json::from_value(json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": {"name": "web"},
        "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": status,
    }))
    .unwrap()
}

/// With something in each metric, of vCenters of these names.
fn busy(vcenters: &[&str]) -> Metrics {
    let metrics = Metrics::new();
    metrics.reconciled("VmGroup", Outcome::Success, Duration::from_millis(3));
    metrics.reconciled("VmGroup", Outcome::Error, Duration::from_millis(30));
    metrics.planned("settled");
    metrics.set_leader(true);
    metrics.set_leases([("drover".to_owned(), true), ("vcenter.b".to_owned(), false)]);
    for vcenter in vcenters {
        for method in ["CloneVM_Task", "WaitForUpdatesEx", "Login"] {
            metrics.called(vcenter, Call { method, took: Duration::from_millis(70), error: None });
        }
        metrics.meter(vcenter).ended("clone", Outcome::Unknown, Duration::from_secs(7));
        let found = vec![drift::Kind::Power];
        metrics
            .drifted(vcenter, &drift::Changes { found, repaired: vec![(drift::Kind::Name, Duration::from_secs(1))] });
    }
    metrics.turn_to(&names(vcenters));
    for vcenter in vcenters {
        metrics.set_connected(vcenter, Connected { is_up: true, is_logged_in: true, is_refused: false });
        metrics.set_load(vcenter, Load { under_way: 4, clones_per_host: 3, waiting: 7, limits: Limits::default() });
        metrics.set_doubts(vcenter, 2, true, 3);
        metrics.set_vms(vcenter, [("on", 5)]);
    }
    let running = json!({"phase": "RUNNING", "vcenter": "default", "desiredReplicas": 2, "readyReplicas": 1});
    metrics.set_groups(&[group(&running), group(&json!({})), group(&running)]);
    metrics
}

fn shown() -> String {
    busy(&["default"]).scrape(Format::Prometheus).unwrap()
}

#[test]
fn what_is_told_is_shown() {
    let shown = shown();
    for line in [
        r#"drover_reconcile_total{kind="VmGroup",outcome="success"} 1"#,
        r#"drover_reconcile_total{kind="VmGroup",outcome="error"} 1"#,
        r#"drover_reconcile_seconds_count{kind="VmGroup"} 2"#,
        r#"drover_plans_total{outcome="settled"} 1"#,
        "drover_leader 1",
        r#"drover_lease_held{lease="drover"} 1"#,
        r#"drover_lease_held{lease="vcenter.b"} 0"#,
        r#"drover_vcenter_up{vcenter="default"} 1"#,
        r#"drover_vcenter_session{vcenter="default"} 1"#,
        r#"drover_vcenter_login_refused{vcenter="default"} 0"#,
        r#"drover_vcenter_logins_total{vcenter="default",outcome="success"} 1"#,
        r#"drover_vcenter_calls_total{vcenter="default",method="CloneVM_Task",outcome="success"} 1"#,
        r#"drover_vcenter_call_seconds_count{vcenter="default",method="CloneVM_Task"} 1"#,
        r#"drover_vcenter_operations{vcenter="default"} 4"#,
        r#"drover_vcenter_operations_limit{vcenter="default"} 256"#,
        r#"drover_vcenter_clones_per_host{vcenter="default"} 3"#,
        r#"drover_vcenter_clones_per_host_limit{vcenter="default"} 8"#,
        r#"drover_vcenter_queue{vcenter="default"} 7"#,
        r#"drover_operations_total{vcenter="default",operation="clone",outcome="unknown"} 1"#,
        r#"drover_operation_seconds_sum{vcenter="default",operation="clone"} 7.0"#,
        r#"drover_vms{vcenter="default",state="on"} 5"#,
        r#"drover_replicas{vcenter="default",state="desired"} 4"#,
        r#"drover_replicas{vcenter="default",state="ready"} 2"#,
        r#"drover_vms_missing{vcenter="default"} 2"#,
        r#"drover_safety_hold{vcenter="default"} 1"#,
        r#"drover_lookalikes{vcenter="default"} 3"#,
        r#"drover_drift_total{vcenter="default",kind="power"} 1"#,
        r#"drover_drift_repair_seconds_sum{vcenter="default",kind="name"} 1.0"#,
        r#"drover_groups{phase="RUNNING"} 2"#,
        r#"drover_groups{phase="PENDING"} 1"#,
        r#"drover_groups{phase="ERROR"} 0"#,
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} is missing:\n{shown}");
    }
    let version = concat!(r#"drover_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#"",revision=""#);
    assert!(shown.contains(version), "{shown}");
    let value = |name: &str| {
        let line = shown.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
        line.trim().parse::<f64>().unwrap()
    };
    assert!(value("process_resident_memory_bytes ") > f64::from(1 << 20));
    assert!(value(r#"drover_mirror_age_seconds{vcenter="default"} "#) < 60.0);
    assert!(!shown.contains(r#"drover_vcenter_call_seconds_count{vcenter="default",method="WaitForUpdatesEx"}"#));
}

#[test]
fn what_is_looked_up_is_as_new_as_the_scrape() {
    let metrics = busy(&["default"]);
    metrics.at_scrape(|metrics| metrics.set_leader(false));
    assert!(metrics.scrape(Format::OpenMetrics).unwrap().contains("drover_leader 0"));
}

#[test]
fn of_a_vcenter_that_was_deleted_nothing_more_is_told() {
    let metrics = busy(&["a", "b"]);
    metrics.turn_to(&names(&["a"]));
    // One of its calls was still on its way.
    metrics.called("b", Call { method: "Logout", took: Duration::ZERO, error: None });
    metrics.turn_to(&names(&["a"]));
    metrics.set_leases([("vcenter.a".to_owned(), true)]);
    let shown = metrics.scrape(Format::Prometheus).unwrap();
    assert!(
        shown.contains(r#"drover_vcenter_calls_total{vcenter="a""#),
        "what it has counted of others stays: {shown}"
    );
    let of_b: Vec<_> = shown.lines().filter(|line| line.contains(r#""b""#) || line.contains("vcenter.b")).collect();
    assert_eq!(of_b, [""; 0]);
}

#[test]
fn a_refused_login_is_told_from_one_that_was_not_answered() {
    let metrics = Metrics::new();
    let refused = vim25::Error::Closed { endpoint: "vc".to_owned() };
    metrics.called("a", Call { method: "Login", took: Duration::ZERO, error: Some(&refused) });
    let shown = metrics.scrape(Format::Prometheus).unwrap();
    assert!(shown.contains(r#"drover_vcenter_logins_total{vcenter="a",outcome="error"} 1"#), "{shown}");
}

fn file(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The name of the metric that a series belongs to.
fn metric(series: &str) -> &str {
    ["_bucket", "_sum", "_count"].iter().find_map(|part| series.strip_suffix(part)).unwrap_or(series)
}

/// The metrics that are served, by name, with their labels.
fn served() -> BTreeMap<String, BTreeSet<String>> {
    let mut served: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let shown = shown();
    for line in shown.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once(['{', ' ']).unwrap();
        let labels = labels.split_once('}').map_or("", |(labels, _)| labels).split(',');
        let labels = labels.filter_map(|label| label.split_once('=')).map(|(label, _)| label.to_owned());
        served.entry(metric(name).to_owned()).or_default().extend(labels.filter(|label| label != "le"));
    }
    served
}

#[test]
fn the_docs_tell_of_each_metric_with_its_labels_and_of_no_other() {
    let docs = file("docs/metrics.md");
    let rows = docs.lines().filter_map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix('`')?.strip_suffix('`')?;
        let is_metric = matches!(*cells.get(2)?, "counter" | "gauge" | "histogram");
        let labels = cells.get(3)?.split(',').filter_map(|label| label.trim().strip_prefix('`')?.strip_suffix('`'));
        is_metric.then(|| (name.to_owned(), labels.map(ToOwned::to_owned).collect::<BTreeSet<_>>()))
    });
    let mut told: BTreeMap<_, _> = rows.collect();
    // It is served only in a container that has a limit.
    if !served().contains_key("drover_memory_limit_bytes") {
        told.remove("drover_memory_limit_bytes").unwrap();
    }
    assert_eq!(told, served());
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    let ours = words.filter(|word| word.starts_with("drover_") || word.starts_with("process_"));
    ours.map(|word| metric(word).to_owned()).collect()
}

/// Those that there are, wherever the operator runs.
fn known() -> BTreeSet<String> {
    served().into_keys().chain(["drover_memory_limit_bytes".to_owned()]).collect()
}

fn alerts() -> Vec<Value> {
    let rules: Value = serde_saphyr::from_str(&file("config/prometheus/rules.yaml")).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    groups.iter().flat_map(|group| group["rules"].as_array().unwrap().clone()).collect()
}

#[test]
fn each_alert_asks_for_metrics_that_there_are_and_says_what_to_do() {
    let modes = file("docs/failure-modes.md");
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        let unknown: Vec<_> = named(alert["expr"].as_str().unwrap()).difference(&known()).cloned().collect();
        assert_eq!(unknown, [""; 0], "{name}");
        for part in ["summary", "description"] {
            assert!(alert["annotations"][part].as_str().is_some_and(|text| text.len() > 10), "{name} has no {part}");
        }
        let severity = alert["labels"]["severity"].as_str().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        let (page, anchor) = alert["annotations"]["runbook_url"].as_str().unwrap().split_once('#').unwrap();
        assert!(page.ends_with("/docs/failure-modes.md"), "{name}: {page}");
        assert_eq!(anchor, name.to_lowercase(), "{name}");
        assert!(modes.lines().any(|line| line == format!("### {name}")), "docs/failure-modes.md has no section {name}");
    }
    let sections = modes.lines().filter_map(|line| line.strip_prefix("### Drover"));
    assert_eq!(sections.count(), alerts().len(), "each section on an alert has its alert");
}

#[test]
fn the_rules_for_the_prometheus_operator_are_the_same() {
    let plain: Value = serde_saphyr::from_str(&file("config/prometheus/rules.yaml")).unwrap();
    let object: Value = serde_saphyr::from_str(&file("config/prometheus/prometheusrule.yaml")).unwrap();
    assert_eq!(object["kind"], "PrometheusRule");
    assert_eq!(object["spec"], plain, "hack/prometheus-rule.sh writes it");
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let text = file("config/grafana/drover.json");
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut asked = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        for target in panel["targets"].as_array().unwrap_or_else(|| panic!("{} asks for nothing", panel["title"])) {
            asked.extend(named(target["expr"].as_str().unwrap()));
        }
    }
    let unknown: Vec<_> = asked.difference(&known()).cloned().collect();
    assert_eq!(unknown, [""; 0]);
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each panel has an id of its own");
}
