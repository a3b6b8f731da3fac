//! Bad days: of vCenter, of the API server, and of the operator itself.

mod crashes;
mod first_sync;
mod folders;
mod holds;
mod hosts;
mod in_flight;
mod quotas;
mod servers;
mod templates;
mod upgrade;

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use drover_e2e::{Group, Operator, Rule, SOON, Sandbox, eventually, process};
use serde_json::{Value, json};

/// How long something is watched that is not to happen: longer than any VM is waited for.
const A_WHILE: Duration = Duration::from_secs(8);

/// A sandbox in which nobody else's operator is, for one test at a time.
struct Site {
    name: &'static str,
    turn: Mutex<()>,
    sandbox: OnceLock<Sandbox>,
}

impl Site {
    const fn new(name: &'static str) -> Self {
        Self { name, turn: Mutex::new(()), sandbox: OnceLock::new() }
    }

    fn take(&'static self) -> (&'static Sandbox, MutexGuard<'static, ()>) {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let sandbox = self.sandbox.get_or_init(|| {
            let sandbox = Sandbox::start(self.name, &["--clone-delay=200ms"]).unwrap();
            sandbox.install_kinds();
            sandbox
        });
        // A test that failed may have left its own.
        sandbox.vcenter().control("DELETE", "/rules", &Value::Null).unwrap();
        sandbox.vcenter().control("PUT", "/hidden", &json!({})).unwrap();
        (sandbox, turn)
    }
}

fn lonely() -> (&'static Sandbox, MutexGuard<'static, ()>) {
    static LONELY: Site = Site::new("lonely");
    LONELY.take()
}

/// Another one, so that half of the tests run beside the other half.
fn lonely_too() -> (&'static Sandbox, MutexGuard<'static, ()>) {
    static LONELY: Site = Site::new("lonely-too");
    LONELY.take()
}

#[test]
fn with_a_fifth_of_all_calls_and_tasks_failing_the_world_is_exact_in_the_end() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let operator = Operator::start(sandbox, vcenter).unwrap();
    let rules = [
        (1, json!({"fault": {"type": "TaskInProgress"}})),
        (2, json!({"taskFault": {"type": "HostCommunication"}})),
        (3, json!({"drop": "before"})),
        (4, json!({"drop": "after"})),
    ]
    .map(|(seed, effect)| {
        let mut rule = json!({"method": "*", "client": "drover", "share": 0.05, "seed": seed});
        rule.as_object_mut().unwrap().extend(effect.as_object().unwrap().clone());
        vcenter.rule(&rule)
    });
    let group = Group::create(sandbox, "faults", &json!({"replicas": 6}));
    group.runs_with(6);
    group.patch(&json!({"replicas": 4, "cpu": 2})).unwrap();
    group.settles_with(4, "config.hardware.numCPU", "2");
    assert_eq!(group.everywhere().len(), 4);
    // By chance, a rule meets none of so few calls: then there are more.
    for replicas in [6, 4].into_iter().cycle().take(20) {
        if rules.iter().all(|rule| rule.hits() > 0) {
            break;
        }
        group.patch(&json!({"replicas": replicas})).unwrap();
        group.settles_with(replicas, "config.hardware.numCPU", "2");
        assert_eq!(group.everywhere().len(), replicas);
    }
    group.delete();
    let left = vcenter.govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains(group.name()), "{left}");
    rules.iter().for_each(Rule::assert_hit);
    drop(operator);
}

#[test]
fn one_failing_member_holds_no_other_and_says_why() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let fault = json!({"type": "InsufficientMemoryResourcesFault"});
    let rule = vcenter.rule(&json!({"method": "CloneVM_Task", "client": "drover", "count": 1, "taskFault": fault}));
    let group = Group::create(sandbox, "one-fails", &json!({"replicas": 3}));
    eventually(sandbox, SOON, "the other two run", || {
        let machines = group.machines("runtime.powerState")?;
        let run = machines.len() == 2 && machines.iter().all(|(_, power)| power == "poweredOn");
        if run { Ok(()) } else { Err(format!("{machines:?}")) }
    });
    rule.assert_hit();
    let others = group.identities();
    group.says("ERROR", "cloning into slot");
    group.tells("TasksFailing", "cloning into slot");
    // An edit says that something was mended, and is not kept waiting.
    group.patch(&json!({"cpu": 2})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    assert!(group.identities().is_superset(&others), "the two that ran are still the same");
    group.delete();
}

#[test]
fn a_group_deleted_while_vcenter_is_away_waits_and_says_so_or_is_given_up_on_request() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let waits = Group::create(sandbox, "waits", &json!({"replicas": 1}));
    let given_up = Group::create(sandbox, "given-up", &json!({"replicas": 1}));
    waits.runs_with(1);
    let kept = given_up.runs_with(1);
    vcenter.control("POST", "/outage", &json!({"for": "600s"})).unwrap();
    for group in [&waits, &given_up] {
        group.begin_to_delete();
        eventually(sandbox, SOON, "it waits for vCenter", || {
            let status = group.status()?;
            let ready = &status["conditions"][0];
            if ready["reason"] == "VCenterUnreachable" && ready["status"] == "False" {
                Ok(())
            } else {
                Err(status.to_string())
            }
        });
    }
    given_up.namespace.kubectl(&["annotate", "vg", "given-up", "vm.codeconnect.vmworld.com/abandon=true"]).unwrap();
    given_up.is_gone();
    vcenter.control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    waits.is_gone();
    assert_eq!((waits.everywhere(), given_up.everywhere()), (vec![], kept));
}

#[test]
fn a_task_that_leaves_vcenters_list_before_its_submission_is_answered_is_followed() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let _operator = Operator::start(sandbox, vcenter).unwrap();
    let rule = vcenter.rule(&json!({"method": "CloneVM_Task", "client": "drover", "count": 1, "hold": "after"}));
    let group = Group::create(sandbox, "late-answer", &json!({}));
    let machines = eventually(sandbox, SOON, "the machines run", || {
        let running: Vec<_> =
            group.machines("runtime.powerState")?.into_iter().filter(|(_, state)| state == "poweredOn").collect();
        if running.len() == 2 { Ok(running) } else { Err(format!("{running:?}")) }
    });
    // The list holds 200 tasks.
    vcenter.govc(&[&["vm.power", "-reset"][..], &[machines[0].0.as_str(); 220]].concat()).unwrap();
    let made = group.identities();
    assert_eq!(rule.remove(), 1);
    group.runs_with(2);
    assert_eq!(group.identities(), made, "none was made anew");
    group.delete();
}

#[test]
fn an_api_server_that_stops_answering_costs_no_machine() {
    let (sandbox, _turn) = lonely();
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "no-api", &json!({"replicas": 3}));
    let machines = group.runs_with(3);
    let made = group.identities();
    let server = process::of_program(sandbox.dir(), "kube-apiserver")[0];
    process::signal(server, "STOP");
    sandbox.vcenter().govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    thread::sleep(Duration::from_secs(5));
    process::signal(server, "CONT");
    group.namespace.kubectl(&["scale", "vg/no-api", "--replicas=4"]).unwrap();
    group.runs_with(4);
    assert!(group.identities().is_superset(&made), "the three are still the same");
    group.delete();
}
