//! A hostile tenant writes every border of every schema. Whatever the API server lets in, a neighbour's group is kept as declared.

use std::{
    collections::BTreeMap,
    env,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use drover_e2e::{
    Group, Namespace, Operator, SOON, Sandbox,
    borders::{self, Case},
    eventually, vm_group,
};
use serde_json::{Value, json};

/// What the operator may hold of memory beside its code, in bytes. A release has less than 20 MB of code, and 60 MB are promised.
const MEMORY: u64 = 40_000_000;
/// All borders are tried in so many slices. `make test` tries one of them, `make soak-kills` all.
const SLICES: u64 = 10;
/// So many write at once.
const WRITERS: usize = 8;

/// Which part of an object is odd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Spec,
    Status,
}

/// An object that somebody might write.
#[derive(Clone, Debug)]
pub(crate) struct Odd {
    pub(crate) object: Value,
    part: Part,
    field: String,
}

#[test]
fn whatever_is_admitted_a_neighbours_group_is_kept_as_declared() {
    let seed = env::var("FUZZ_SEED").ok().map_or(1, |seed| seed.parse().expect("FUZZ_SEED is a number"));
    let slices = if env::var_os("SOAK").is_some() { SLICES } else { 1 };
    for slice in 0..slices {
        eprintln!("FUZZ_SEED={seed}, slice {slice}");
        hold_against(seed, slice);
    }
}

/// Writes one slice of all odd objects, half of them before the operator starts.
fn hold_against(seed: u64, slice: u64) {
    let sandbox = Sandbox::start(&format!("fuzz-{slice}"), &["--clone-delay=0s"]).unwrap();
    sandbox.install_kinds();
    let odd = odd_objects(&sandbox, seed, slice);
    let (before, during) = odd.split_at(odd.len() / 2);
    let tenant = sandbox.namespace("tenant");
    without_pods(&sandbox, &tenant);
    let mut admitted = write_all(&tenant, before);

    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    // Others' vCenters don't concern it.
    let neighbour = Group::create(&sandbox, "neighbour", &json!({"replicas": 1, "vcenter": "default"}));
    let alive = live_ones(&tenant);
    neighbour.runs_with(1);
    admitted += write_all(&tenant, during);
    scales_to(&neighbour, 3, &operator);
    drop(operator);
    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    scales_to(&neighbour, 2, &operator);
    for name in alive {
        eventually(&sandbox, SOON, "the tenant's own good groups are as declared", || {
            let group = tenant.get("vg", name).map_err(|failure| failure.to_string())?;
            if group["status"]["phase"] == "RUNNING" { Ok(()) } else { Err(group["status"].to_string()) }
        });
    }
    eprintln!(
        "{admitted} of {} odd objects were let in; {} bytes of memory",
        odd.len(),
        operator.own_memory().expect("the operator runs")
    );
    assert!(admitted > odd.len() / 4, "hardly anything was let in");
}

/// Waits until the neighbour's group is as declared now.
#[track_caller]
fn scales_to(neighbour: &Group<'_>, replicas: usize, operator: &Operator) {
    neighbour.patch(&json!({ "replicas": replicas })).unwrap();
    neighbour.runs_with(replicas);
    let memory = operator.own_memory().expect("the operator runs");
    assert!(memory < MEMORY, "the operator holds {memory} bytes beside its code");
}

/// Groups of the tenant's that make sense, among all that don't.
fn live_ones(tenant: &Namespace) -> [&'static str; 2] {
    let names = ["live-1", "live-2"];
    for name in names {
        let spec = json!({"replicas": 1, "vcenter": "default", "extraConfig": {"guestinfo.ключ": "значение 🐑"}});
        tenant.declare(&vm_group(name, &spec)).unwrap_or_else(|failure| panic!("{failure}"));
    }
    names
}

/// Shells by the ten thousand would be the end of the sandbox, and not of Drover: none of their pods is let in.
pub(crate) fn without_pods(sandbox: &Sandbox, tenant: &Namespace) {
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
    tenant.apply(&quota.to_string()).unwrap();
    eventually(sandbox, SOON, "no pod is let in", || {
        let quota = tenant.get("resourcequota", "none").map_err(|failure| failure.to_string())?;
        if quota["status"]["hard"]["pods"] == "0" { Ok(()) } else { Err(quota.to_string()) }
    });
}

/// Writes all of them, and returns how many were let in.
pub(crate) fn write_all(tenant: &Namespace, odd: &[Odd]) -> usize {
    let (next, admitted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while let Some(odd) = odd.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if write(tenant, odd) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    admitted.into_inner()
}

/// Writes one, and says whether it was let in. Refused is all right, an API server that fails is not.
fn write(tenant: &Namespace, odd: &Odd) -> bool {
    let Odd { object, part, field } = odd;
    let what = format!("{} {part:?}{field}", object["kind"]);
    let refused = |stderr: &str| {
        let is_refusal = ["(Invalid)", "(BadRequest)", "(Conflict)", "(RequestEntityTooLarge)"]
            .iter()
            .any(|reason| stderr.contains(reason));
        assert!(is_refusal, "{what}: {stderr}");
        false
    };
    let created = match tenant.create(object) {
        Ok(created) => created,
        Err(failure) => return refused(&failure.stderr),
    };
    if *part == Part::Spec {
        return true;
    }
    let mut told = created;
    told["status"] = object["status"].clone();
    match tenant.replace_status(&told) {
        Ok(_) => true,
        Err(failure) => refused(&failure.stderr),
    }
}

/// What somebody might write of each kind.
pub(crate) fn odd_objects(sandbox: &Sandbox, seed: u64, slice: u64) -> Vec<Odd> {
    let mut chance = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut is_tried = || {
        // xorshift64
        chance ^= chance << 13;
        chance ^= chance >> 7;
        chance ^= chance << 17;
        chance % SLICES == slice
    };
    let mut objects = Vec::new();
    for definition in sandbox.definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap().to_owned();
        let version = &definition["spec"]["versions"][0];
        let schema = &version["schema"]["openAPIV3Schema"]["properties"];
        let base = bases().remove(kind.as_str()).unwrap_or_else(|| panic!("{kind} has a base"));
        let api = format!("{}/{}", definition["spec"]["group"].as_str().unwrap(), version["name"].as_str().unwrap());
        let object = |number: usize, spec: &Value, status: &Value| {
            let name = format!("odd-{}-{number}", kind.to_lowercase());
            json!({"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec, "status": status})
        };
        for (part, from) in [(Part::Spec, &base), (Part::Status, &json!({}))] {
            let schema = &schema[if part == Part::Spec { "spec" } else { "status" }];
            for case in borders::cases(schema, from).into_iter().filter(|case| is_tried() && !claims_vms(&kind, case)) {
                let number = objects.len();
                let object = match part {
                    Part::Spec => object(number, &case.value, &Value::Null),
                    Part::Status => object(number, &base, &case.value),
                };
                objects.push(Odd { object, part, field: case.field });
            }
        }
    }
    objects
}

/// Whether it is a group's status that tells of VMs which vCenter doesn't show. Such VMs are missing, and where many are, everything that
/// makes or destroys is stopped in their vCenter, for everybody: that is no fault of reading.
fn claims_vms(kind: &str, case: &Case) -> bool {
    let number = case.value["currentReplicas"].as_f64();
    kind == "VmGroup" && case.field == ".currentReplicas" && number.is_some_and(|number| number > 0.0)
}

/// A spec of each kind that costs nothing: nothing is cloned, connected to or found for it.
fn bases() -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        (
            "VmGroup",
            json!({"cpu": 1, "memory": 1, "replicas": 2, "template": "no-such-template", "vcenter": "default", "paused": true}),
        ),
        ("HostInfo", json!({"hostname": "no-such-host"})),
        ("VMInfo", json!({"nodename": "no-such-vm"})),
        ("MyOwnShell", json!({"size": 1})),
        (
            "VCenter",
            json!({
                "server": "127.0.0.1:1", "credentialsSecretRef": {"namespace": "tenant", "name": "none"},
                "namespaces": {"matchLabels": {"no": "such"}},
            }),
        ),
    ])
}
