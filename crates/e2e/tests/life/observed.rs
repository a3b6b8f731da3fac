//! What an operator says of its work to those who collect logs and traces.

use std::{collections::HashMap, fs};

use drover_e2e::{Collector, Group, Operator, Program, SOON, Sandbox, Span, binary, eventually};
use serde_json::{Value, json};

/// What an operator has logged: each line is one object, and nothing else is said.
#[track_caller]
fn lines(log: &str) -> Vec<Value> {
    let read = |line: &str| -> Value {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        for field in ["ts", "level", "msg", "target"] {
            assert!(line[field].as_str().is_some_and(|text| !text.is_empty()), "{field}: {line}");
        }
        assert!(line.as_object().unwrap().values().all(|value| !value.is_object() && !value.is_array()), "{line}");
        line
    };
    // The last one may be half written.
    let whole = log.rfind('\n').map_or("", |end| &log[..end]);
    whole.lines().map(read).collect()
}

fn says(operator: &Operator, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    let shown = |line: &&Value| is_it(line);
    let found = || lines(&operator.log()).iter().find(shown).cloned().ok_or_else(|| operator.log());
    eventually(site(), SOON, what, found)
}

fn site() -> &'static Sandbox {
    static SITE: std::sync::OnceLock<Sandbox> = std::sync::OnceLock::new();
    SITE.get_or_init(|| {
        let sandbox = Sandbox::start("observed", &[]).unwrap();
        sandbox.install_kinds();
        sandbox
    })
}

#[test]
fn logs_are_json_with_a_level_that_a_file_changes_and_traces_tell_who_ordered_each_operation() {
    let (sandbox, collector) = (site(), Collector::start().unwrap());
    let level = sandbox.dir().join("log-level");
    let level_file = format!("--log-level-file={}", level.display());
    let endpoint = format!("--otlp-endpoint={}", collector.url());
    let mut operator =
        Operator::start_with(sandbox, sandbox.vcenter(), &["--log-format=json", &level_file, &endpoint]).unwrap();
    let group = Group::create(sandbox, "observed", &json!({"replicas": 2}));
    let vms = group.runs_with(2);

    let started = says(&operator, "clones are logged", |line| {
        line["msg"] == "Operation started" && line["operation"] == "Clone" && line["vmgroup"] == "observed/observed"
    });
    assert_eq!((&started["level"], &started["vcenter"]), (&"info".into(), &"default".into()), "{started}");
    let name = started["vm"].as_str().unwrap();
    assert!(vms.iter().any(|path| path.ends_with(name)), "{started}, {vms:?}");
    assert!(started["task"].as_str().unwrap().starts_with("task-"), "{started}");

    // The level is changed while it runs, and back.
    let is_debug = |line: &Value| line["level"] == "debug";
    assert!(!lines(&operator.log()).iter().any(is_debug));
    fs::write(&level, "debug\n").unwrap();
    says(&operator, "the level is another", |line| line["msg"] == "Log level changed" && line["to"] == "debug");
    group.namespace.kubectl(&["annotate", "vg", "observed", "company.example/looked-at=1"]).unwrap();
    says(&operator, "more is logged", |line| {
        is_debug(line) && line["msg"] == "Reconciled" && line["kind"] == "VmGroup"
    });
    fs::write(&level, "loud").unwrap();
    says(&operator, "nonsense is told", |line| line["msg"] == "Log level file not understood");
    fs::remove_file(&level).unwrap();
    says(&operator, "the first level is back", |line| line["msg"] == "Log level changed" && line["to"] == "info");

    group.delete();
    says(&operator, "the end is logged", |line| {
        line["msg"] == "VmGroup deleted" && line["vmgroup"] == "observed/observed"
    });
    operator.terminate();
    assert!(operator.succeeds_within(SOON), "{}", operator.log());
    lines(&operator.log());
    traces_tell_who_ordered_each_operation(&collector.spans(), started["task"].as_str().unwrap());
    a_collector_that_is_away_holds_nothing_up();
    why_an_operator_fails_is_json_too();
}

/// What was sent when the operator has ended: all of it, to the last reconcile.
fn traces_tell_who_ordered_each_operation(spans: &[Span], task: &str) {
    let is = |span: &&Span, key: &str, value: &str| span.attributes.get(key).is_some_and(|is| is == value);
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.id.as_str(), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "no id is given twice");
    for operation in ["CreateFolder", "Clone", "PowerOff", "Destroy", "DestroyFolder"] {
        let found: Vec<_> = spans.iter().filter(|span| span.name == operation).collect();
        let count = if operation.ends_with("Folder") { 1 } else { 2 };
        assert_eq!(found.len(), count, "{operation}: {found:?}");
        for span in found {
            assert!(
                is(&span, "drover.vmgroup", "observed/observed") && is(&span, "drover.vcenter", "default"),
                "{span:?}"
            );
            assert!(is(&span, "drover.result", "success"), "{span:?}");
            let parent = by_id.get(span.parent.as_deref().unwrap_or_default()).expect("its reconcile is there, too");
            assert_eq!((parent.name.as_str(), &parent.trace), ("reconcile VmGroup", &span.trace));
            assert!(is(parent, "drover.object", "observed/observed"), "{parent:?}");
            assert_eq!((span.resource["service.name"].as_str(), span.resource.len()), ("drover", 3), "{span:?}");
        }
    }
    let clone = spans.iter().find(|span| is(span, "drover.task", task)).expect("a task is named by its span");
    assert!(clone.name == "Clone" && clone.attributes["drover.vm"].starts_with("observed-replica-"), "{clone:?}");
    assert!(clone.lasted > 0);
    assert!(spans.iter().any(|span| span.name == "reconcile VMInfo"), "every kind has its spans");
}

fn a_collector_that_is_away_holds_nothing_up() {
    let sandbox = site();
    // Nobody listens there.
    let mut operator = Operator::start_as(
        "untraced",
        sandbox,
        sandbox.vcenter(),
        &["--log-format=json", "--otlp-endpoint=http://127.0.0.1:9", "--metrics-addr=0"],
    )
    .unwrap();
    let group = Group::create(sandbox, "untraced", &json!({"replicas": 1}));
    group.runs_with(1);
    let warning = says(&operator, "it is told that the collector is away", |line| line["msg"] == "Traces not sent");
    assert!(warning["error"].as_str().is_some_and(|error| error.contains("refused")), "{warning}");
    operator.terminate();
    assert!(operator.succeeds_within(SOON), "{}", operator.log());
}

fn why_an_operator_fails_is_json_too() {
    let drover = Program::at(&binary()).with(site().environment());
    let failure = drover.run(&["run", "--log-format=json", "--metrics-addr=256.0.0.1:1"]).unwrap_err();
    let said = lines(&failure.stderr);
    let last = said.last().unwrap();
    assert_eq!((&last["level"], &last["msg"]), (&"error".into(), &"Drover failed".into()), "{last}");
    let refused = drover.run(&["run", "--otlp-endpoint=collector:4318"]).unwrap_err().stderr;
    assert!(
        refused.contains("--otlp-endpoint") && refused.contains("is no URL such as http://collector:4318"),
        "{refused}"
    );
    let refused = drover.run(&["run", "--log-level=loud"]).unwrap_err().stderr;
    assert!(refused.contains("neither error, warn, info, debug or trace"), "{refused}");
}
