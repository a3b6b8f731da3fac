//! A hostile tenant, and everything else that can befall an operator, while a neighbour's group is scaled every second.

use std::{
    collections::BTreeMap,
    env,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Gate, Group, Namespace, Operator, SOON, Sandbox, VCenter, eventually, process, vm_group};
use serde_json::{Value, json};

use crate::fuzz::{Odd, odd_objects, without_pods, write_all};

/// What the operator may hold of memory beside its code at its peak, in bytes, in a debug build.
const PEAK: u64 = 60_000_000;

/// How soon the neighbour's group is as declared, once operator and API server are up. Beside other tests, machines are slower.
fn promised() -> Duration {
    Duration::from_secs(if env::var_os("SOAK").is_some() { 3 } else { 60 })
}

/// Since when all that the neighbour needs is there, if it is.
#[derive(Default)]
struct Up(Mutex<Option<Instant>>);

impl Up {
    fn set(&self, is_up: bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = is_up.then(Instant::now);
    }

    /// How long something has been waited for that could have been done meanwhile.
    fn lateness(&self, asked: Instant) -> Duration {
        let up = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        up.map(|since| since.max(asked).elapsed()).unwrap_or_default()
    }
}

/// What all threads share.
struct World<'a> {
    sandbox: &'a Sandbox,
    /// The one that all share, too.
    vcenter: &'a VCenter,
    up: Up,
    operator: Mutex<Option<Operator>>,
    is_over: AtomicBool,
    began: Instant,
    /// What operators have warned of that have ended.
    warnings: Mutex<Vec<String>>,
}

impl World<'_> {
    fn operator(&self) -> MutexGuard<'_, Option<Operator>> {
        self.operator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the operator replaced by another, with or without a gate before its API server.
    fn start_anew(&self, gate: Option<&Gate>) {
        self.up.set(false);
        let mut operator = self.operator();
        self.note_warnings(operator.take());
        let vcenter = self.sandbox.vcenter();
        let another = match gate {
            Some(gate) => Operator::start_behind(gate, self.sandbox, vcenter),
            None => Operator::start(self.sandbox, vcenter),
        };
        *operator = Some(another.unwrap());
        drop(operator);
        eventually(self.sandbox, SOON, "the operator is ready", || self.ask("GET", "/readyz"));
        self.up.set(true);
    }

    fn ask(&self, method: &str, path: &str) -> Result<(), String> {
        match self.operator().as_ref().ok_or("none runs")?.ask(method, path)? {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// Takes up what an operator that ends has warned of.
    fn note_warnings(&self, operator: Option<Operator>) {
        let Some(operator) = operator else { return };
        let log = operator.log();
        let warnings =
            log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).map(ToOwned::to_owned);
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
    }

    fn happens(&self, what: &str) {
        eprintln!("{:?}: {what}", self.began.elapsed());
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

#[test]
fn a_neighbours_group_is_kept_as_declared_whatever_befalls_the_operator() {
    let sandbox = Sandbox::start("tenant", &["--clone-delay=0s", "--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.own_vcenter();
    vcenter.declare(&sandbox, "shared", &json!({"limits": {"operations": 8}}));
    let world = World {
        sandbox: &sandbox,
        vcenter: &vcenter,
        up: Up::default(),
        operator: Mutex::default(),
        is_over: AtomicBool::new(false),
        began: Instant::now(),
        warnings: Mutex::default(),
    };
    world.start_anew(None);
    a_crowd(&sandbox);
    let mut waits = thread::scope(|scope| {
        let neighbour = scope.spawn(|| scale_again_and_again(&world));
        let health = scope.spawn(|| stay_well(&world));
        let over = OnDrop(&world.is_over);
        befall(&world);
        drop(over);
        health.join().unwrap();
        neighbour.join().unwrap()
    });
    world.note_warnings(world.operator().take());
    waits.sort();
    eprintln!("scaled {} times; median {:?}, longest {:?}", waits.len(), waits[waits.len() / 2], waits.last());
    assert!(waits.len() > ENOUGH, "{waits:?}");
    assert!(waits[waits.len() / 2] < Duration::from_secs(3), "{waits:?}");
    let warnings = world.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(warnings.len() < 50, "{} warnings:\n{}", warnings.len(), warnings.join("\n"));
}

/// Says that it is over, also where a test fails: nobody is waited for then.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How many scalings tell how long one takes.
const ENOUGH: usize = 10;

/// Scales the neighbour's group every second, and returns how long it took each time.
fn scale_again_and_again(world: &World<'_>) -> Vec<Duration> {
    let group = Group::create(world.sandbox, "neighbour", &json!({"replicas": 1, "vcenter": "shared"}));
    let mut waits = Vec::new();
    for replicas in [2, 3, 1].into_iter().cycle() {
        // On a busy machine it goes on after all that befalls, until it is often enough to tell.
        if world.is_over() && waits.len() > ENOUGH {
            break;
        }
        group.patch(&json!({ "replicas": replicas })).unwrap();
        let asked = Instant::now();
        while let Err(seen) = is_as_declared(&group, world.vcenter, replicas) {
            let late = world.up.lateness(asked);
            assert!(late < promised(), "not {replicas} after {late:?}: {seen}\n{}", world.sandbox.dump());
            thread::sleep(Duration::from_millis(100));
        }
        let late = world.up.lateness(asked);
        if late > Duration::from_secs(1) {
            world.happens(&format!("{late:?} to have {replicas}"));
        }
        waits.push(late);
        thread::sleep(Duration::from_secs(1).saturating_sub(asked.elapsed()));
    }
    waits
}

fn is_as_declared(group: &Group<'_>, vcenter: &VCenter, replicas: usize) -> Result<(), String> {
    let declared = group.get().map_err(|failure| failure.to_string())?;
    let status = &declared["status"];
    let is_said = status["readyReplicas"] == replicas
        && status["observedGeneration"] == declared["metadata"]["generation"]
        && status["phase"] == "RUNNING";
    if !is_said {
        return Err(status.to_string());
    }
    let there = vcenter.govc(&["ls", &group.folder()]).map_err(|failure| failure.to_string())?;
    if there.lines().count() == replicas { Ok(()) } else { Err(there) }
}

/// `/healthz` is true for as long as the operator is up, and its memory within bounds.
fn stay_well(world: &World<'_>) {
    while !world.is_over() {
        if world.up.lateness(Instant::now()) > Duration::ZERO
            && let Err(seen) = world.ask("GET", "/healthz")
        {
            // It may have been ended just now.
            assert!(world.up.lateness(Instant::now()).is_zero() || world.ask("GET", "/healthz").is_ok(), "{seen}");
        }
        if let Some(memory) = world.operator().as_ref().and_then(Operator::own_memory) {
            assert!(memory < PEAK, "{memory} bytes beside its code");
        }
        thread::sleep(Duration::from_millis(500));
    }
}

/// Everything that befalls the operator.
fn befall(world: &World<'_>) {
    let sandbox = world.sandbox;
    let tenant = sandbox.namespace("tenant");
    without_pods(sandbox, &tenant);
    greed(&tenant);
    let odd = some_of_each_kind(odd_objects(sandbox, 7, 0));
    let (before, after) = odd.split_at(odd.len() / 2);
    assert!(write_all(&tenant, before) > 20);
    world.happens("another operator starts");
    world.start_anew(None);
    assert!(write_all(&tenant, after) > 20);

    for name in ["distributor", "groups", "queue of shared"] {
        world.happens(&format!("the loop {name} panics, and somebody starts another operator"));
        world.up.set(false);
        world.ask("POST", &format!("/trial/panic/{name}")).unwrap();
        let mut ended = world.operator().take().expect("one runs");
        assert!(!ended.succeeds_within(SOON));
        world.note_warnings(Some(ended));
        world.start_anew(None);
        pause();
    }

    world.happens("the API server answers nobody for a while");
    world.up.set(false);
    let servers = process::of_program(sandbox.dir(), "kube-apiserver");
    let tell = |signal: &str| {
        for pid in &servers {
            process::signal(*pid, signal);
        }
    };
    tell("STOP");
    thread::sleep(Duration::from_secs(5));
    tell("CONT");
    world.up.set(true);
    pause();

    let gate = Gate::open(sandbox);
    world.start_anew(Some(&gate));
    pause();
    world.happens("all connections to the API server end, and it takes none");
    world.up.set(false);
    gate.shut();
    thread::sleep(Duration::from_secs(5));
    gate.reopen();
    world.up.set(true);
    pause();
    world.start_anew(None);

    world.happens("the Secret of the vCenter goes, and is there again");
    sandbox.kubectl().run(&["delete", "secret", "shared", "-n", "default"]).unwrap();
    world.vcenter.declare_secret(sandbox, "shared", &world.vcenter.password);
    pause();
    world.happens("a namespace with two hundred groups goes");
    the_crowd_goes(sandbox);
}

/// Some turns of the neighbour's in peace.
fn pause() {
    thread::sleep(Duration::from_secs(3));
}

/// Forty of each kind.
fn some_of_each_kind(odd: Vec<Odd>) -> Vec<Odd> {
    let mut by_kind: BTreeMap<String, Vec<Odd>> = BTreeMap::new();
    for odd in odd {
        by_kind.entry(odd.object["kind"].to_string()).or_default().push(odd);
    }
    assert_eq!(by_kind.len(), 5, "{:?}", by_kind.keys());
    let some = |all: Vec<Odd>| {
        let step = all.len().div_ceil(40).max(1);
        all.into_iter().step_by(step)
    };
    by_kind.into_values().flat_map(some).collect()
}

/// A group that takes all that it can get, in the neighbour's vCenter.
fn greed(tenant: &Namespace) {
    let spec = json!({"replicas": 60, "vcenter": "shared"});
    tenant.declare(&vm_group("greedy", &spec)).unwrap_or_else(|failure| panic!("{failure}"));
}

/// Makes a namespace with two hundred groups, and waits until they are looked after.
fn a_crowd(sandbox: &Sandbox) {
    let crowd = sandbox.namespace("crowd");
    let spec = json!({"replicas": 0, "vcenter": "shared"});
    let group = |number| {
        let mut group = vm_group(&format!("crowd-{number}"), &spec);
        group["metadata"]["namespace"] = json!("crowd");
        group
    };
    let all: Vec<Value> = (0..200).map(group).collect();
    let all = json!({"apiVersion": "v1", "kind": "List", "items": all});
    crowd.kubectl_with_input(&["create", "-f", "-"], &all.to_string()).unwrap();
    eventually(sandbox, SOON, "all of the crowd is looked after", || {
        let groups = crowd.list("vg").map_err(|failure| failure.to_string())?;
        let settled = groups.iter().filter(|group| group["status"]["phase"] == "RUNNING").count();
        if settled == 200 { Ok(()) } else { Err(format!("{settled}")) }
    });
}

fn the_crowd_goes(sandbox: &Sandbox) {
    sandbox.kubectl().run(&["delete", "namespace", "crowd", "--wait=false"]).unwrap();
    eventually(sandbox, SOON, "the namespace is gone", || match sandbox.get("/api/v1/namespaces/crowd") {
        Err(failure) if failure.stderr.contains("NotFound") => Ok(()),
        there => Err(format!("{there:?}")),
    });
}
