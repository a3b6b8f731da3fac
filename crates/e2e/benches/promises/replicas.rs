//! Replicas that hand over to one another.

use std::time::Duration;

use drover_e2e::{Operator, Sandbox, measurement::Measurement, vm_group};
use serde_json::{Value, json};

use crate::{
    results::Run,
    site::{self, last_power_on, now, powered_on, until},
};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const GENERAL: &str = "drover.vm.codeconnect.vmworld.com";
/// The general one, and that of the environment's vCenter.
const ALL: usize = 2;
const PATIENCE: Duration = Duration::from_mins(1);

/// What a replica held is taken at once, and not when its leases have run out.
pub(crate) fn hand_over(run: &mut Run) {
    let sandbox = site::start("replicas", &[]);
    sandbox.install_kinds();
    let mut old = replica(&sandbox, "replica-0");
    let mut times = Vec::new();
    for round in 1..=run.times() {
        await_leases(&sandbox, &format!("replica-{}", round - 1), ALL);
        let name = format!("replica-{round}");
        let new = replica(&sandbox, &name);
        await_leases(&sandbox, &name, ALL / 2);
        let began = now();
        old.terminate();
        await_leases(&sandbox, &name, ALL);
        times.push(now() - began);
        assert!(old.succeeds_within(PATIENCE), "{}", old.log());
        old = new;
    }
    run.add(Measurement::new("Leases handed to another replica", "s", times).promise(2.0));
    let site = sandbox.namespace("bench");
    site.declare(&vm_group("web", &json!({"replicas": 1}))).unwrap_or_else(|failure| panic!("{failure}"));
    let vcenter = sandbox.vcenter();
    assert!(until(PATIENCE, || powered_on(vcenter) == 1), "a VM is there");
    let mut times = Vec::new();
    let mut old = (format!("replica-{}", run.times()), old);
    for round in 1..=run.times() {
        let name = format!("survivor-{round}");
        let new = (name.clone(), replica(&sandbox, &name));
        await_leases(&sandbox, &name, ALL / 2);
        // The one that works in the vCenter is killed, with nobody to hand over to.
        let (victim, survivor) = if holds_vcenter(&sandbox, &name) { (new, old) } else { (old, new) };
        let member = ["find", "/DC0/vm/vm-operator", "-type", "m", "-name", "*-replica-*"];
        let member = vcenter.govc(&member).unwrap_or_else(|failure| panic!("{failure}"));
        drop(victim);
        let began = now();
        vcenter.forget_power_changes();
        vcenter.govc(&["vm.power", "-off", "-force", member.trim()]).unwrap_or_else(|failure| panic!("{failure}"));
        let is_on = until(PATIENCE, || powered_on(vcenter) == 1);
        times.push(if is_on { last_power_on(vcenter) - began } else { f64::INFINITY });
        await_leases(&sandbox, &survivor.0, ALL);
        old = survivor;
    }
    let took = Measurement::new("a power-off put right after the replica that held the Leases was killed", "s", times);
    run.add(took.limit(15.0, "Kubernetes: a Lease of 15 s runs out", 1.5));
}

fn replica(sandbox: &Sandbox, name: &str) -> Operator {
    Operator::start_as(name, sandbox, sandbox.vcenter(), &["--enable-leader-election"])
        .expect("the operator can be started")
}

/// Waits until a replica holds so many of the shared leases.
fn await_leases(sandbox: &Sandbox, replica: &str, wanted: usize) {
    let is_so = || held(sandbox, replica).len() == wanted;
    assert!(until(PATIENCE, is_so), "{replica} holds {wanted} leases within {PATIENCE:?}");
}

/// Whether a replica holds the vCenter's lease.
fn holds_vcenter(sandbox: &Sandbox, replica: &str) -> bool {
    held(sandbox, replica).iter().any(|lease| lease.starts_with("vcenter."))
}

/// The shared leases that a replica holds.
fn held(sandbox: &Sandbox, replica: &str) -> Vec<String> {
    let listed = sandbox.get(LEASES).unwrap_or_default();
    let held = |lease: &Value| {
        let name = lease["metadata"]["name"].as_str().unwrap_or_default();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let is_held = (name == GENERAL || name.starts_with("vcenter.")) && holder.split('_').next() == Some(replica);
        is_held.then(|| name.to_owned())
    };
    listed["items"].as_array().into_iter().flatten().filter_map(held).collect()
}
