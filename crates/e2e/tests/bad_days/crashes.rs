//! An operator that is killed, wherever it is, loses nothing and doubles nothing.

use std::{
    collections::BTreeSet,
    env, thread,
    time::{Duration, Instant},
};

use drover_e2e::{Fate, Gate, GateRule, Group, Operator, Requests, Rule, SOON, Sandbox, eventually};
use serde_json::{Value, json};

use crate::{lonely, lonely_too};

/// All that an operator changes in vCenter.
const CHANGES: &str = "CreateFolder,CloneVM_Task,PowerOnVM_Task,PowerOffVM_Task,ShutdownGuest,SuspendVM_Task,\
                       ReconfigVM_Task,Rename_Task,MoveIntoFolder_Task,Destroy_Task";

/// Where an operator is killed: while it waits for the answer to a request, that has been done by then or not.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// One of these methods of vCenter's.
    Change(&'static str, Moment),
    /// One of these requests to the API server.
    Write(Requests, Moment),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

const MOMENTS: [Moment; 2] = [Moment::Before, Moment::After];

/// What holds the request that an operator is killed at.
enum Hold {
    Change(Box<Rule>),
    Write(GateRule),
}

impl Hold {
    fn is_hit(&self) -> bool {
        match self {
            Self::Change(rule) => rule.hits() > 0,
            Self::Write(rule) => !rule.met().is_empty(),
        }
    }

    /// Lets it go on, and returns which request it was, where that is known.
    fn release(self) -> Vec<String> {
        match self {
            Self::Change(rule) => {
                rule.remove();
                Vec::new()
            }
            Self::Write(rule) => rule.remove(),
        }
    }
}

/// An operator that is killed now and then, and another started in its place.
struct Mortal<'a> {
    sandbox: &'a Sandbox,
    gate: Gate,
    operator: Option<Operator>,
    /// The writes to the API server that it was killed at.
    writes: Vec<String>,
}

impl<'a> Mortal<'a> {
    fn start(sandbox: &'a Sandbox) -> Self {
        let gate = Gate::open(sandbox);
        let operator = Some(Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap());
        Self { sandbox, gate, operator, writes: Vec::new() }
    }

    fn hold(&self, place: Place, skip: usize) -> Hold {
        match place {
            Place::Change(methods, moment) => {
                let when = format!("{moment:?}").to_lowercase();
                let rule = json!({"method": methods, "client": "drover", "skip": skip, "count": 1, "hold": when});
                Hold::Change(Box::new(self.sandbox.vcenter().rule(&rule)))
            }
            Place::Write(requests, moment) => {
                let fate = if moment == Moment::Before { Fate::HeldBefore } else { Fate::HeldAfter };
                Hold::Write(self.gate.rule(requests, fate, skip, 1))
            }
        }
    }

    /// Kills it at the request that follows so many others which it makes for what a user does, and has the next one go on.
    /// Says whether it got that far before it was done.
    #[track_caller]
    fn dies_at(&mut self, place: Place, skip: usize, act: &dyn Fn(), is_done: &dyn Fn() -> bool) -> bool {
        let hold = self.hold(place, skip);
        act();
        let began = Instant::now();
        let is_soon_hit = || {
            thread::sleep(Duration::from_millis(20));
            hold.is_hit()
        };
        while !(0..10).any(|_| is_soon_hit()) && !is_done() {
            assert!(began.elapsed() < SOON, "{place:?} is never reached\n{}", self.sandbox.dump());
        }
        self.operator = None;
        // The front notices after a moment that nobody waits for an answer any more.
        thread::sleep(Duration::from_millis(50));
        let hit = hold.is_hit();
        self.writes.extend(hold.release());
        self.operator = Some(Operator::start_behind(&self.gate, self.sandbox, self.sandbox.vcenter()).unwrap());
        hit
    }

    /// Has each operator get a little further than the one before it, and killed. Returns how many were.
    #[track_caller]
    fn dies_on_the_way(&mut self, place: Place, skip: usize, act: &dyn Fn(), is_done: &dyn Fn() -> bool) -> usize {
        let mut killed = 0;
        let mut act: &dyn Fn() = act;
        while self.dies_at(place, skip, act, is_done) {
            killed += 1;
            act = &|| ();
            assert!(killed < 100, "{place:?}: no operator gets any further\n{}", self.sandbox.dump());
        }
        killed
    }
}

/// How many requests an operator gets to make before it is killed: the fewest, or in a soak any number.
fn depths() -> std::ops::Range<usize> {
    0..if env::var_os("SOAK").is_some() { usize::MAX } else { 1 }
}

/// Has operators killed on their way through the life of a group with these network adapters: made, replaced, and deleted.
fn killed_all_their_lives<'a>(
    sandbox: &'a Sandbox,
    name: &str,
    adapters: &Value,
    place: fn(Moment) -> Place,
) -> Mortal<'a> {
    let is_settled = |group: &Group, key: &str| {
        let group = group.get().unwrap();
        let status = &group["status"];
        status["phase"] == "RUNNING"
            && status["updatedReplicas"] == 2
            && status["currentReplicas"] == 2
            && group["spec"]["extraConfig"]["guestinfo.key"] == key
            && status["observedGeneration"] == group["metadata"]["generation"]
    };
    let mut operator = Mortal::start(sandbox);
    for depth in depths() {
        let mut killed = 0;
        for moment in MOMENTS {
            let place = place(moment);
            // Killed before its first request, none would get any further.
            let skip = if moment == Moment::Before { depth + 1 } else { depth };
            let namespace = format!("{name}-{moment:?}-{depth}").to_lowercase();
            let group = Group::of(sandbox.namespace(&namespace), sandbox);
            let declare = |key: &str| {
                group.apply(&json!({"extraConfig": {"guestinfo.key": key}, "networkAdapters": adapters}));
            };
            killed += operator.dies_on_the_way(place, skip, &|| declare("old"), &|| is_settled(&group, "old"));
            is_whole(&group, "old");
            let (first, macs) = (group.identities(), macs(&group, adapters));
            killed += operator.dies_on_the_way(place, skip, &|| declare("new"), &|| is_settled(&group, "new"));
            is_whole(&group, "new");
            assert!(group.identities().is_disjoint(&first), "they are new");
            assert_eq!(self::macs(&group, adapters), macs, "and have the addresses of their slots");
            let delete = || group.begin_to_delete();
            killed += operator.dies_on_the_way(place, skip, &delete, &|| group.get().is_err());
            group.is_gone();
            let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
            assert!(!left.contains(&namespace), "{place:?} {skip}: {left}");
        }
        assert!(killed > 12 || depth > 0, "only {killed} were killed");
        if killed == 0 {
            break; // None makes so many requests.
        }
    }
    operator
}

/// The MAC addresses of a group's machines, where those belong to slots.
fn macs(group: &Group, adapters: &Value) -> BTreeSet<String> {
    let mac = |machine: String| {
        let card = group.vcenter().govc(&["device.info", "-vm", &machine, "-json", "ethernet-0"]).unwrap();
        let card: Value = serde_json::from_str(&card).unwrap();
        card["devices"][0]["macAddress"].as_str().unwrap().to_owned()
    };
    let machines = if *adapters == json!([]) { Vec::new() } else { group.everywhere() };
    machines.into_iter().map(mac).collect()
}

/// The next operator brings the group to its end: two machines, made from what is declared, and no other anywhere.
#[track_caller]
fn is_whole(group: &Group, key: &str) {
    let machines = group.runs_with(2);
    assert_eq!(group.everywhere().len(), 2);
    for machine in machines {
        let keys = group.vcenter().govc(&["vm.info", "-e", &machine]).unwrap();
        assert!(keys.lines().any(|line| line.contains("guestinfo.key:") && line.contains(key)), "{keys}");
    }
}

#[test]
fn operators_killed_at_every_change_make_no_machine_twice_and_leave_none_behind() {
    let (sandbox, _turn) = lonely();
    killed_all_their_lives(sandbox, "changes", &json!([]), |moment| Place::Change(CHANGES, moment));
}

#[test]
fn operators_killed_at_every_write_to_the_api_server_make_no_machine_twice_and_leave_none_behind() {
    let (sandbox, _turn) = lonely_too();
    let addresses = json!([{"network": "VM Network", "addresses": ["198.18.4.1/24", "198.18.4.2/24"]}]);
    let operator =
        killed_all_their_lives(sandbox, "writes", &addresses, |moment| Place::Write(Requests::Writes, moment));
    for kind in ["vmgroups", "vminfoes"] {
        for (what, is_status) in [("itself", false), ("its status", true)] {
            let is_it = |write: &&String| write.contains(kind) && write.contains("/status") == is_status;
            assert!(operator.writes.iter().any(|write| is_it(&write)), "{kind}, {what}: {:?}", operator.writes);
        }
    }
}

#[test]
fn an_operator_killed_as_it_puts_on_or_takes_off_a_finalizer_leaves_no_machine_behind() {
    let (sandbox, _turn) = lonely_too();
    let mut operator = Mortal::start(sandbox);
    for moment in MOMENTS {
        let namespace = format!("finalizer-{moment:?}").to_lowercase();
        let group = Group::of(sandbox.namespace(&namespace), sandbox);
        let place = Place::Write(Requests::Finalizers, moment);
        assert!(operator.dies_at(place, 0, &|| group.apply(&json!({})), &|| false));
        group.runs_with(2);
        assert_eq!(group.everywhere().len(), 2);
        assert!(operator.dies_at(place, 0, &|| group.begin_to_delete(), &|| false));
        group.is_gone();
        let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
        assert!(!left.contains(&namespace), "{moment:?}: {left}");
    }
}

#[test]
fn an_operator_killed_before_or_after_each_kind_of_change_leaves_the_same_machines() {
    let (sandbox, _turn) = lonely();
    let mut operator = Mortal::start(sandbox);
    for moment in MOMENTS {
        each_kind(&mut operator, moment);
    }
}

fn each_kind(operator: &mut Mortal, moment: Moment) {
    let (sandbox, vcenter) = (operator.sandbox, operator.sandbox.vcenter());
    let namespace = format!("kinds-{moment:?}").to_lowercase();
    let group = Group::of(sandbox.namespace(&namespace), sandbox);
    let mut dies = |method: &'static str, skip: usize, act: &dyn Fn()| {
        assert!(operator.dies_at(Place::Change(method, moment), skip, act, &|| false));
    };
    let edit = |spec: &Value| drop(group.patch(spec).unwrap());

    dies("CreateFolder", 0, &|| group.apply(&json!({"replicas": 1})));
    group.runs_with(1);
    dies("CloneVM_Task", 0, &|| edit(&json!({"replicas": 2})));
    let machines = group.runs_with(2);
    let made = group.identities();
    assert_eq!(group.everywhere().len(), 2, "{moment:?}");

    let named = machines[0].rsplit('/').next().unwrap();
    vcenter.control("PATCH", &format!("/machines/{named}"), &json!({"tools": "guestToolsRunning"})).unwrap();
    dies("ShutdownGuest", 0, &|| edit(&json!({"cpu": 2, "shutdown": {"graceSeconds": 2}})));
    group.settles_with(2, "config.hardware.numCPU", "2");
    for (cpus, method) in [(3, "PowerOffVM_Task"), (4, "ReconfigVM_Task"), (5, "PowerOnVM_Task")] {
        dies(method, 0, &|| edit(&json!({"cpu": cpus, "shutdown": {"graceSeconds": 0}})));
        group.settles_with(2, "config.hardware.numCPU", &cpus.to_string());
    }
    group.runs_with(2);
    dies("SuspendVM_Task", 0, &|| edit(&json!({"powerState": "Suspended"})));
    group.settles_with(2, "runtime.powerState", "suspended");
    edit(&json!({"powerState": "On"}));
    group.runs_with(2);
    dies("Rename_Task", 0, &|| drop(vcenter.govc(&["object.rename", &machines[0], "mine-now"]).unwrap()));
    group.are_back(&machines);
    dies("MoveIntoFolder_Task", 0, &|| drop(vcenter.govc(&["object.mv", &machines[1], "/DC0/vm"]).unwrap()));
    group.are_back(&machines);
    assert_eq!(group.identities(), made, "{moment:?}");
    assert_eq!(group.everywhere().len(), 2, "{moment:?}");

    dies("Destroy_Task", 0, &|| edit(&json!({"replicas": 1})));
    group.runs_with(1);
    assert!(group.identities().is_subset(&made), "{moment:?}");
    // First the machine, then the folder.
    dies("Destroy_Task", 1, &|| group.begin_to_delete());
    group.is_gone();
    let left = vcenter.govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains(&namespace), "{moment:?}: {left}");
}

#[test]
fn an_operator_that_is_frozen_with_a_clone_unanswered_makes_no_machine_twice() {
    let (sandbox, _turn) = lonely();
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let hold = json!({"method": "CloneVM_Task", "client": "drover", "count": 1, "hold": "after"});
    let rule = sandbox.vcenter().rule(&hold);
    let group = Group::create(sandbox, "frozen", &json!({}));
    eventually(sandbox, SOON, "a clone is held", || match rule.hits() {
        1 => Ok(()),
        hits => Err(format!("{hits} are")),
    });
    operator.freeze();
    thread::sleep(Duration::from_secs(20));
    assert_eq!(rule.remove(), 1);
    operator.thaw();
    group.runs_with(2);
    assert_eq!(group.everywhere().len(), 2);
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
    assert_eq!(group.everywhere().len(), 3);
    group.delete();
    let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("frozen"), "{left}");
}

#[test]
fn two_operators_at_once_make_each_machine_once() {
    let (sandbox, _turn) = lonely();
    let _operators = [0, 1].map(|_| Operator::start(sandbox, sandbox.vcenter()).unwrap());
    let group = Group::create(sandbox, "two-operators", &json!({"replicas": 6}));
    group.runs_with(6);
    group.patch(&json!({"replicas": 3, "cpu": 2})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    group.patch(&json!({"extraConfig": {"guestinfo.key": "new"}, "update": {"maxUnavailable": 2}})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    assert_eq!(group.everywhere().len(), 3);
    group.delete();
    eventually(sandbox, SOON, "nothing is left", || {
        let left = sandbox.vcenter().govc(&["find", "/DC0/vm"]).map_err(|failure| failure.to_string())?;
        if left.contains(group.name()) { Err(left) } else { Ok(()) }
    });
}
