//! Replicas that hand over to one another.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Operator, Sandbox};
use serde_json::Value;

use crate::site;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const GENERAL: &str = "drover.vm.codeconnect.vmworld.com";
/// The general one, and that of the environment's vCenter.
const ALL: usize = 2;
const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_mins(1);

/// How long it takes from when a replica is told to stop until the other holds all leases: the median of some times.
pub(crate) fn hand_over() -> Option<Duration> {
    let sandbox = site::start("replicas", &[]);
    sandbox.install_kinds();
    let mut old = replica(&sandbox, "replica-0");
    let mut times = Vec::new();
    for round in 1..=ROUNDS {
        until(&sandbox, |holders| held_by(holders, &format!("replica-{}", round - 1)) == ALL)?;
        let name = format!("replica-{round}");
        let new = replica(&sandbox, &name);
        until(&sandbox, |holders| held_by(holders, &name) == ALL / 2)?;
        let began = Instant::now();
        old.terminate();
        until(&sandbox, |holders| held_by(holders, &name) == ALL)?;
        times.push(began.elapsed());
        assert!(old.succeeds_within(PATIENCE), "{}", old.log());
        old = new;
    }
    times.sort_unstable();
    Some(times[ROUNDS / 2])
}

fn replica(sandbox: &Sandbox, name: &str) -> Operator {
    Operator::start_as(name, sandbox, sandbox.vcenter(), &["--enable-leader-election"])
        .expect("the operator can be started")
}

fn held_by(holders: &[String], name: &str) -> usize {
    holders.iter().filter(|holder| holder.split_once('_').is_some_and(|(replica, _)| replica == name)).count()
}

/// Waits until those who hold leases are as wanted. `None` if they never are.
fn until(sandbox: &Sandbox, is_so: impl Fn(&[String]) -> bool) -> Option<()> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let listed = sandbox.get(LEASES).unwrap_or_default();
        let is_shared = |lease: &&Value| {
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            name == GENERAL || name.starts_with("vcenter.")
        };
        let shared = listed["items"].as_array().into_iter().flatten().filter(is_shared);
        let holder = |lease: &Value| Some(lease["spec"]["holderIdentity"].as_str()?.to_owned());
        if is_so(&shared.filter_map(holder).collect::<Vec<_>>()) {
            return Some(());
        }
        thread::sleep(site::GLANCE);
    }
    None
}
