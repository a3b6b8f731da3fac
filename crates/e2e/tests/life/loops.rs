//! The operator's loops: one that panics ends it, one that stands still is told of, and what is away is neither.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Gate, Group, Operator, SOON, Sandbox, eventually};
use serde_json::json;

/// The loops, and in which of them a trial begins.
const LOOPS: [&str; 4] = ["collector of default", "queue of default", "groups", "distributor"];

#[test]
fn a_loop_that_panics_ends_the_operator_and_the_next_one_goes_on() {
    let sandbox = Sandbox::start("panics", &[]).unwrap();
    sandbox.install_kinds();
    a_plan_that_panics_stalls_its_group_and_no_other(&sandbox);
    let group = Group::create(&sandbox, "panics", &json!({"replicas": 1}));
    for (replicas, name) in (2..).zip(LOOPS) {
        // Those that are killed can't end theirs.
        let sessions = sandbox.vcenter().sessions();
        let mut operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        operator.try_out(&sandbox, "panic", name);
        assert!(!operator.succeeds_within(SOON), "{name}");
        let log = operator.log();
        assert!(log.contains("Drover has a bug: at ") && log.contains("the operator ends"), "{name}: {log}");
        assert_eq!(sandbox.vcenter().sessions(), sessions, "{name}: its session is ended with it");
        group.patch(&json!({"replicas": replicas})).unwrap();
        let _next = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        group.runs_with(replicas);
    }
}

fn a_plan_that_panics_stalls_its_group_and_no_other(sandbox: &Sandbox) {
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let [odd, neighbour] = ["odd", "neighbour"].map(|name| Group::create(sandbox, name, &json!({"replicas": 1})));
    let machines = odd.runs_with(1);
    neighbour.runs_with(1);
    operator.try_out(sandbox, "panic", "plan of odd/odd");
    odd.patch(&json!({"replicas": 2})).unwrap();
    odd.says("ERROR", "Drover has a bug (a trial)");
    neighbour.patch(&json!({"replicas": 2})).unwrap();
    neighbour.runs_with(2);
    odd.are_back(&machines);
    assert_eq!(operator.ask("GET", "/healthz").unwrap(), (200, "ok\n".to_owned()));
    operator.try_out(sandbox, "end", "plan of odd/odd");
    odd.patch(&json!({"replicas": 3})).unwrap();
    odd.runs_with(3);
}

#[test]
fn healthz_fails_for_a_loop_that_stands_still_and_not_for_what_is_away() {
    let sandbox = Sandbox::start("still", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let held = Operator::start_as("held", &sandbox, sandbox.vcenter(), &[]).unwrap();
    let gate = Gate::open(&sandbox);
    let lonely_vcenter = sandbox.own_vcenter();
    let lonely = Operator::start_behind(&gate, &sandbox, &lonely_vcenter).unwrap();
    for operator in [&held, &lonely] {
        eventually(&sandbox, SOON, "it is ready", || match operator.ask("GET", "/readyz")? {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        });
    }
    for name in LOOPS {
        held.try_out(&sandbox, "hold", name);
    }
    lonely_vcenter.control("POST", "/outage", &json!({"for": "100s", "mode": "silent"})).unwrap();
    gate.shut();
    let began = Instant::now();
    let told = eventually(&sandbox, Duration::from_secs(90), "it says which loops stand still", || {
        assert_eq!(lonely.ask("GET", "/healthz")?, (200, "ok\n".to_owned()), "what is away is nothing of its own");
        match held.ask("GET", "/healthz")? {
            (500, told) if LOOPS.iter().all(|name| told.contains(&format!("{name} has not turned for"))) => Ok(told),
            other => Err(format!("{other:?}")),
        }
    });
    assert!(began.elapsed() > Duration::from_secs(50), "it is not told too soon: {told}");
    // It stays well for longer than that.
    while began.elapsed() < Duration::from_secs(70) {
        assert_eq!(lonely.ask("GET", "/healthz").unwrap(), (200, "ok\n".to_owned()));
        thread::sleep(Duration::from_secs(1));
    }
}
