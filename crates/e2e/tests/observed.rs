//! Drover as a platform team watches it: a real Prometheus collects the metrics with its service account, and nobody else does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use drover_e2e::{Group, Operator, Page, Prometheus, SOON, Sandbox, eventually};
use serde_json::{Value, json};

fn repo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_alerts_are_sound_and_fire_when_they_should() {
    if Prometheus::promtool().is_none() {
        return;
    }
    let page = Page::open_without_sandbox("docs/metrics.md");
    for line in
        ["promtool check rules config/prometheus/rules.yaml", "promtool test rules config/prometheus/tests/rules.yaml"]
    {
        let said = page.run(line);
        assert!(said.contains("SUCCESS"), "{said}");
    }
    let rules = repo().join("config/prometheus");
    let made = drover_e2e::Program::kubectl().run(&["kustomize", rules.to_str().unwrap()]).unwrap();
    for kind in ["ServiceMonitor", "PrometheusRule"] {
        assert!(made.lines().any(|line| line == format!("kind: {kind}")), "{made}");
    }
}

/// The example of rights in the docs: the service account `prometheus` in `monitoring` may read the metrics.
fn documented_rights() -> String {
    let docs = fs::read_to_string(repo().join("docs/metrics.md")).unwrap();
    let blocks = docs.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0));
    blocks.into_iter().find(|block| block.contains("kind: ClusterRoleBinding")).unwrap().to_owned()
}

/// The address that the operator says it serves something at.
fn served_at(sandbox: &Sandbox, operator: &Operator, what: &str) -> String {
    eventually(sandbox, SOON, what, || {
        let log = operator.log();
        let line = log.lines().find(|line| line.contains(what)).ok_or_else(|| log.clone())?;
        let (_, port) = line.rsplit_once("127.0.0.1:").ok_or_else(|| log.clone())?;
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        Ok(format!("127.0.0.1:{port}"))
    })
}

/// How Prometheus is told to collect from an address: as one who may, as one who may not, and as one who says nothing of himself.
fn config(sandbox: &Sandbox, address: &str) -> String {
    let mut jobs = Vec::new();
    for (job, account) in [("drover", Some("prometheus")), ("stranger", Some("stranger")), ("nobody", None)] {
        let mut config = json!({
            "job_name": job,
            "scheme": "https",
            "tls_config": {"insecure_skip_verify": true},
            "static_configs": [{"targets": [address]}],
        });
        if let Some(account) = account {
            let kubectl = sandbox.kubectl();
            let token = kubectl.run(&["create", "token", account, "--namespace=monitoring"]).unwrap();
            let file = sandbox.dir().join(format!("{account}.token"));
            fs::write(&file, token.trim()).unwrap();
            config["authorization"] = json!({"credentials_file": file});
        }
        jobs.push(config);
    }
    json!({
        "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
        "rule_files": [repo().join("config/prometheus/rules.yaml")],
        "scrape_configs": jobs,
    })
    .to_string()
}

/// What became of the last look at each target, by job.
fn targets(prometheus: &Prometheus) -> Result<BTreeMap<String, String>, String> {
    let found = prometheus.get("targets?state=active")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let targets = found["activeTargets"].as_array().ok_or_else(|| found.to_string())?.iter();
    Ok(targets
        .map(|target| (text(&target["labels"]["job"]), text(&target["health"]) + &text(&target["lastError"])))
        .collect())
}

/// The value of an expression that has one, once it is this.
#[track_caller]
fn becomes(sandbox: &Sandbox, prometheus: &Prometheus, expression: &str, expected: f64) {
    eventually(sandbox, SOON, &format!("{expression} is {expected}"), || {
        let found = prometheus.query(expression)?;
        let is_so = matches!(found[..], [(_, value)] if (value - expected).abs() < f64::EPSILON);
        if is_so { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

#[test]
fn a_real_prometheus_collects_the_metrics_and_nobody_does_who_may_not() {
    let Some(promtool) = Prometheus::promtool() else { return };
    let sandbox = Sandbox::start("observed", &[]).unwrap();
    sandbox.install_kinds();
    let monitoring = sandbox.namespace("monitoring");
    for account in ["prometheus", "stranger"] {
        monitoring.kubectl(&["create", "serviceaccount", account]).unwrap();
    }
    monitoring.apply(&documented_rights()).unwrap();
    let flags = ["--metrics-addr=127.0.0.1:0", "-metrics-secure", "--health-probe-bind-address=127.0.0.1:0"];
    let operator = Operator::start_with(&sandbox, sandbox.vcenter(), &flags).unwrap();
    let group = Group::create(&sandbox, "web", &json!({"replicas": 1}));
    let machine = group.runs_with(1).remove(0);

    let health = served_at(&sandbox, &operator, "Health served");
    let ok = ureq::get(format!("http://{health}/healthz")).call().unwrap().body_mut().read_to_string().unwrap();
    assert_eq!(ok, "ok\n");
    assert!(ureq::get(format!("http://{health}/metrics")).call().is_err(), "metrics are elsewhere");
    let address = served_at(&sandbox, &operator, "Metrics served");
    assert!(ureq::get(format!("http://{address}/metrics")).call().is_err(), "metrics are served over TLS only");

    let prometheus = Prometheus::start(&sandbox, &config(&sandbox, &address)).expect("promtool is there, too");
    let expected = [
        ("drover", "up"),
        ("nobody", "downserver returned HTTP status 401 Unauthorized"),
        ("stranger", "downserver returned HTTP status 403 Forbidden"),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(job, state)| (job.to_owned(), state.to_owned())).into();
    eventually(&sandbox, SOON, "Prometheus has looked at all of its targets", || {
        let found = targets(&prometheus).map_err(|error| format!("{error}\n{}", prometheus.log()))?;
        if found == expected { Ok(()) } else { Err(format!("{found:?}")) }
    });
    what_is_collected_is_true(&sandbox, &prometheus, &machine);
    the_rules_are_evaluated(&sandbox, &prometheus);
    the_dashboard_asks_what_prometheus_understands(&prometheus);
    what_is_served_is_well_formed(&sandbox, operator, &promtool);
}

fn what_is_collected_is_true(sandbox: &Sandbox, prometheus: &Prometheus, machine: &str) {
    let vcenter = r#"vcenter="default""#;
    for (expression, expected) in [
        (r#"drover_groups{phase="RUNNING"}"#.to_owned(), 1.0),
        (format!("drover_vcenter_up{{{vcenter}}}"), 1.0),
        (format!("drover_vcenter_session{{{vcenter}}}"), 1.0),
        (format!(r#"drover_vcenter_logins_total{{{vcenter},outcome="success"}}"#), 1.0),
        (format!(r#"drover_vms{{{vcenter},state="on"}}"#), 1.0),
        (format!(r#"drover_replicas{{{vcenter},state="ready"}}"#), 1.0),
        (format!(r#"drover_operations_total{{{vcenter},operation="clone",outcome="success"}}"#), 1.0),
        (format!(r#"drover_operation_seconds_count{{{vcenter},operation="clone"}}"#), 1.0),
        (format!(r#"drover_vcenter_call_seconds_count{{{vcenter},method="CloneVM_Task"}}"#), 1.0),
        (format!("drover_mirror_age_seconds{{{vcenter}}} < bool 120"), 1.0),
        (r#"sum(drover_plans_total{outcome="settled"}) > bool 0"#.to_owned(), 1.0),
        ("max(drover_lease_held)".to_owned(), 1.0),
    ] {
        becomes(sandbox, prometheus, &expression, expected);
    }
    // What is changed in vCenter is counted, and how long it takes until that is put right.
    sandbox.vcenter().govc(&["vm.power", "-off", machine]).unwrap();
    becomes(sandbox, prometheus, r#"drover_drift_total{kind="power"}"#, 1.0);
    becomes(sandbox, prometheus, r#"drover_drift_repair_seconds_count{kind="power"}"#, 1.0);
    // What is told of a VCenter goes with it.
    sandbox.vcenter().declare(sandbox, "passing", &json!({"namespaces": {"matchLabels": {"no": "such"}}}));
    becomes(sandbox, prometheus, r#"drover_vcenter_up{vcenter="passing"}"#, 1.0);
    sandbox.kubectl().run(&["delete", "vc", "passing"]).unwrap();
    becomes(sandbox, prometheus, r#"up{job="drover"} unless on () {vcenter="passing"}"#, 1.0);
    let collected = prometheus.get("series?match[]=%7Bjob%3D%22drover%22%7D").unwrap().to_string();
    assert!(!collected.contains(&sandbox.vcenter().password), "no series tells a password");
}

fn the_rules_are_evaluated(sandbox: &Sandbox, prometheus: &Prometheus) {
    let states = eventually(sandbox, SOON, "the rules have been evaluated", || {
        let found = prometheus.get("rules")?;
        let rules = found["groups"][0]["rules"].as_array().ok_or_else(|| found.to_string())?;
        let is_well = !rules.is_empty() && rules.iter().all(|rule| rule["health"] == "ok");
        if is_well { Ok(rules.clone()) } else { Err(found.to_string()) }
    });
    let firing: BTreeSet<_> =
        states.iter().filter(|rule| rule["state"] == "firing").map(|rule| rule["name"].to_string()).collect();
    assert_eq!(firing, BTreeSet::new(), "all is well");
}

fn the_dashboard_asks_what_prometheus_understands(prometheus: &Prometheus) {
    let dashboard = fs::read_to_string(repo().join("config/grafana/drover.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let targets = dashboard["panels"].as_array().unwrap().iter().filter_map(|panel| panel["targets"].as_array());
    let mut asked = 0;
    for target in targets.flatten() {
        // As Grafana fills it in for all vCenters.
        let expression = target["expr"].as_str().unwrap().replace("$vcenter", ".*");
        prometheus.query(&expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        asked += 1;
    }
    assert!(asked > 20, "{asked}");
}

fn what_is_served_is_well_formed(sandbox: &Sandbox, operator: Operator, promtool: &drover_e2e::Program) {
    drop(operator);
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let text = eventually(sandbox, SOON, "metrics tell of the group", || match operator.ask("GET", "/metrics")? {
        (200, text) if text.contains("drover_groups{phase=\"RUNNING\"} 1") => Ok(text),
        other => Err(format!("{other:?}")),
    });
    promtool.run_with_input(&["check", "metrics"], &text).unwrap_or_else(|failure| panic!("{failure}\n{text}"));
}
