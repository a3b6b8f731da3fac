//! Replicas that hand over to one another.

use std::time::Duration;

use drover_e2e::{Operator, Sandbox, measurement::Measurement};
use serde_json::Value;

use crate::{
    results::Run,
    site::{self, now, until},
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
}

fn replica(sandbox: &Sandbox, name: &str) -> Operator {
    Operator::start_as(name, sandbox, sandbox.vcenter(), &["--enable-leader-election"])
        .expect("the operator can be started")
}

/// Waits until a replica holds so many of the shared leases.
fn await_leases(sandbox: &Sandbox, replica: &str, wanted: usize) {
    let held = || {
        let listed = sandbox.get(LEASES).unwrap_or_default();
        let is_held = |lease: &&Value| {
            let name = lease["metadata"]["name"].as_str().unwrap_or_default();
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            (name == GENERAL || name.starts_with("vcenter.")) && holder.split('_').next() == Some(replica)
        };
        listed["items"].as_array().into_iter().flatten().filter(is_held).count()
    };
    assert!(until(PATIENCE, || held() == wanted), "{replica} holds {wanted} leases within {PATIENCE:?}");
}
