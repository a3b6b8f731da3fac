//! A hostile tenant, and everything else that can befall an operator, while a neighbour's group is scaled every second.

use std::{
    env,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Gate, Group, Operator, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

use crate::fuzz::{MEMORY, odd_objects, without_pods, write_all};

/// How soon the neighbour's group is as declared, once operator and API server are up. Beside other tests, machines are slower.
fn promised() -> Duration {
    Duration::from_secs(if env::var_os("SOAK").is_some() { 3 } else { 15 })
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
    /// The neighbour's.
    vcenter: &'a VCenter,
    up: Up,
    operator: Mutex<Option<Operator>>,
    is_over: AtomicBool,
    began: Instant,
}

impl World<'_> {
    /// Has the operator replaced by another, which goes through the gate.
    fn start_anew(&self, gate: &Gate) {
        self.up.set(false);
        let mut operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        self.count_warnings(operator.take());
        *operator = Some(Operator::start_behind(gate, self.sandbox, self.sandbox.vcenter()).unwrap());
        drop(operator);
        self.comes_up();
    }

    /// Waits until the operator says that it is ready.
    fn comes_up(&self) {
        eventually(self.sandbox, SOON, "the operator is ready", || self.ask("GET", "/readyz"));
        self.up.set(true);
    }

    fn ask(&self, method: &str, path: &str) -> Result<(), String> {
        let operator = self.operator.lock().unwrap_or_else(PoisonError::into_inner);
        match operator.as_ref().ok_or("none runs")?.ask(method, path)? {
            (200, _) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    /// Ends an operator, whose warnings must not be many.
    fn count_warnings(&self, operator: Option<Operator>) {
        let Some(operator) = operator else { return };
        assert!(operator.own_memory() < MEMORY, "{} bytes beside its code", operator.own_memory());
        let log = operator.log();
        let warnings: Vec<_> = log.lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).collect();
        assert!(warnings.len() < 50, "{} warnings:\n{}", warnings.len(), warnings.join("\n"));
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
    vcenter.declare(&sandbox, "shared", &json!({}));
    let world = World {
        sandbox: &sandbox,
        vcenter: &vcenter,
        up: Up::default(),
        operator: Mutex::default(),
        is_over: AtomicBool::new(false),
        began: Instant::now(),
    };
    let gate = Gate::open(&sandbox);
    world.start_anew(&gate);
    let waits = thread::scope(|scope| {
        let neighbour = scope.spawn(|| scale_again_and_again(&world));
        let health = scope.spawn(|| stay_well(&world));
        let over = OnDrop(&world.is_over);
        befall(&world, &gate);
        drop(over);
        health.join().unwrap();
        neighbour.join().unwrap()
    });
    world.count_warnings(world.operator.lock().unwrap_or_else(PoisonError::into_inner).take());
    let mut sorted = waits.clone();
    sorted.sort();
    eprintln!("scaled {} times; median {:?}, longest {:?}", sorted.len(), sorted[sorted.len() / 2], sorted.last());
    assert!(sorted.len() > 10, "{sorted:?}");
    assert!(sorted[sorted.len() / 2] < Duration::from_secs(3), "{waits:?}");
}

/// Says that it is over, also where a test fails: nobody is waited for then.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Scales the neighbour's group every second, and returns how long it took each time.
fn scale_again_and_again(world: &World<'_>) -> Vec<Duration> {
    let group = Group::create(world.sandbox, "neighbour", &json!({"replicas": 1, "vcenter": "shared"}));
    let mut waits = Vec::new();
    for replicas in [2, 3, 1].into_iter().cycle() {
        if world.is_over() {
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
            eprintln!("{late:?} to have {replicas}, at {:?}", world.began.elapsed());
        }
        waits.push(late);
        thread::sleep(Duration::from_secs(1).saturating_sub(asked.elapsed()));
    }
    waits
}

fn is_as_declared(group: &Group<'_>, vcenter: &VCenter, replicas: u64) -> Result<(), String> {
    let declared = group.get().map_err(|failure| failure.to_string())?;
    let status = &declared["status"];
    let is_said = status["currentReplicas"] == replicas
        && status["observedGeneration"] == declared["metadata"]["generation"]
        && status["phase"] == "RUNNING";
    let running = vcenter.machine_counts().powered_on;
    if is_said && running == replicas { Ok(()) } else { Err(format!("{running} run, {status}")) }
}

/// `/healthz` is true for as long as the operator is up.
fn stay_well(world: &World<'_>) {
    while !world.is_over() {
        if world.up.lateness(Instant::now()) > Duration::ZERO
            && let Err(seen) = world.ask("GET", "/healthz")
        {
            // It may have been ended just now.
            assert!(world.up.lateness(Instant::now()).is_zero() || world.ask("GET", "/healthz").is_ok(), "{seen}");
        }
        thread::sleep(Duration::from_millis(500));
    }
}

/// Everything that befalls the operator.
fn befall(world: &World<'_>, gate: &Gate) {
    let sandbox = world.sandbox;
    let tenant = sandbox.namespace("tenant");
    without_pods(sandbox, &tenant);
    let mut odd = odd_objects(sandbox, 7, 0);
    // Some of each kind.
    let step = odd.len() / 200;
    odd = odd.into_iter().step_by(step.max(1)).take(200).collect();
    let (before, after) = odd.split_at(odd.len() / 2);
    assert!(write_all(&tenant, before) > 20);
    world.happens("another operator starts");
    world.start_anew(gate);
    assert!(write_all(&tenant, after) > 20);

    world.happens("a panic ends it, and somebody starts it again");
    world.up.set(false);
    world.ask("POST", "/trial/panic/distributor").unwrap();
    let ended =
        world.operator.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(|it| it.succeeds_within(SOON));
    assert_eq!(ended, Some(false));
    *world.operator.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(Operator::start_behind(gate, sandbox, sandbox.vcenter()).unwrap());
    world.comes_up();
    pause();

    world.happens("the API server is away");
    world.up.set(false);
    gate.shut();
    thread::sleep(Duration::from_secs(5));
    gate.reopen();
    world.up.set(true);
    pause();

    world.happens("the Secret of the neighbour's vCenter goes, and is there again");
    world.up.set(false);
    sandbox.kubectl().run(&["delete", "secret", "shared", "-n", "default"]).unwrap();
    thread::sleep(Duration::from_secs(1));
    world.vcenter.declare_secret(sandbox, "shared", &world.vcenter.password);
    world.up.set(true);
    pause();
    world.happens("a namespace with two hundred groups goes");
    a_namespace_with_two_hundred_groups_goes(sandbox);
}

/// Some turns of the neighbour's in peace.
fn pause() {
    thread::sleep(Duration::from_secs(4));
}

fn a_namespace_with_two_hundred_groups_goes(sandbox: &Sandbox) {
    let crowd = sandbox.namespace("crowd");
    let spec = json!({"replicas": 0, "vcenter": "default"});
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
    sandbox.kubectl().run(&["delete", "namespace", "crowd", "--wait=false"]).unwrap();
    eventually(sandbox, SOON, "the namespace is gone", || match sandbox.get("/api/v1/namespaces/crowd") {
        Err(failure) if failure.stderr.contains("NotFound") => Ok(()),
        there => Err(format!("{there:?}")),
    });
}
