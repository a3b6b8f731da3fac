//! One operator with as many vCenters as the machine bears. What is measured here anchors the simulation: `docs/scale.md` has both.

use std::{collections::BTreeMap, thread, time::Duration};

use drover_e2e::{
    VCenter,
    measurement::{Measurement, to_f64},
    process,
};

use crate::{
    fleet::{Fleet, create},
    results::{Growth, Run},
    site::{self, OPERATOR, count, last_power_on, now, powered_on, until},
};

const VCENTERS: [usize; 3] = [4, 8, 16];
/// Those of each vCenter, and the VMs of each of them: the hosts have something to do all the time, and all end at once.
const GROUPS: usize = 24;
const VMS: usize = 4;
const CLONE: f64 = 10.0;
const AT_A_TIME: usize = 4 * 4;
const FLAGS: [&str; 3] = ["--clone-delay=10s", "--clones-per-host=4", "--hosts=4"];
/// In MB: a quarter of what the manifests limit a replica to.
const MEMORY: f64 = 64.0;
const KINDS: [(&str, &str); 4] =
    [("VmGroups", "vmgroups"), ("VMInfos", "vminfoes"), ("VCenters", "vcenters"), ("events", "events")];
const PARTS: [&str; 4] = ["vcsim", "kube-apiserver", "kube-controller-manager", "etcd"];

/// What it took on some vCenters, in all.
struct Taken {
    /// Until `kubectl create` had ended.
    created: f64,
    /// Until the last of the vCenters has powered on its last VM.
    seconds: f64,
    /// Calls that change something, and long polls.
    changes: f64,
    polls: f64,
    calls: f64,
    /// Writes to the API server, by the kind that is written.
    writes: [(&'static str, f64); 4],
    /// Seconds that the operator had a processor, and the parts of the sandbox.
    cpu: f64,
    sandbox_cpu: f64,
    /// Resident memory in MB, when all is at rest.
    memory: f64,
}

pub(crate) fn vcenters(run: &mut Run) {
    let mut memory = Growth {
        name: "memory",
        unit: "KB",
        of: "vCenters with 24 VmGroups of 4 VMs each",
        each: "vCenter",
        points: Vec::new(),
    };
    for vcenters in VCENTERS {
        let (groups, vms) = (vcenters * GROUPS, vcenters * GROUPS * VMS);
        let taken = take(vcenters);
        let each = |of: f64| [of / to_f64(vms)];
        let turns = (GROUPS * VMS).div_ceil(AT_A_TIME);
        let name = format!("{vms} VMs in {groups} VmGroups on {vcenters} vCenters");
        let took = Measurement::new(name, "s", [taken.seconds]);
        run.add(took.limit(CLONE * to_f64(turns), format!("hosts: {turns} × {CLONE} s"), 1.15));
        run.add(Measurement::new("of these, until `kubectl create` had ended", "s", [taken.created]));
        let changes = Measurement::new("calls that change something, for each VM", "", each(taken.changes));
        run.add(changes.limit(1.0 + 1.0 / to_f64(VMS), "vCenter: a clone, and a folder for 4", 1.1));
        run.add(Measurement::new("long polls for each VM", "", each(taken.polls)));
        run.add(Measurement::new("all calls for each VM", "", each(taken.calls)).promise(4.0));
        let writes: f64 = taken.writes.iter().map(|(_, writes)| writes).sum();
        let writes = [writes / to_f64(groups + vms)];
        let writes = Measurement::new("API writes for each VmGroup, and each VMInfo of a VM", "", writes);
        run.add(writes.promise(5.0));
        for (kind, writes) in taken.writes {
            let name = format!("of these, of {kind}, for each VmGroup");
            run.add(Measurement::new(name, "", [writes / to_f64(groups)]));
        }
        run.add(Measurement::new("CPU for each VM", "ms", each(1000.0 * taken.cpu)).promise(50.0));
        run.add(Measurement::new("CPU of the sandbox for each VM", "ms", each(1000.0 * taken.sandbox_cpu)));
        let memory_at_rest = Measurement::new("memory at rest", "MB", [taken.memory]);
        run.add(memory_at_rest.promise(MEMORY));
        memory.points.push((to_f64(vcenters), vec![1000.0 * taken.memory]));
    }
    run.add(Measurement::new("memory for each further vCenter, with its 96 VMs", "KB", [memory.slope()]));
    run.draw(&memory, "line");
}

fn take(vcenters: usize) -> Taken {
    let fleet = Fleet::new("many", vcenters, &FLAGS);
    let namespace = fleet.sandbox.namespace("many");
    settle(&fleet);
    for vcenter in &fleet.vcenters {
        vcenter.forget_calls();
        vcenter.forget_power_changes();
    }
    let writes = BTreeMap::from(KINDS.map(|(_, resource)| (resource, api_writes(&fleet, resource))));
    let (cpu, sandbox_cpu) = (cpu(&fleet), sandbox_cpu(&fleet));
    let began = now();
    create(&namespace, 0..vcenters, GROUPS, VMS);
    let created = now() - began;
    fleet.until("all vCenters have their VMs", || {
        fleet.vcenters.iter().all(|vcenter| powered_on(vcenter) == GROUPS * VMS)
    });
    let seconds = fleet.vcenters.iter().map(last_power_on).fold(0.0, f64::max) - began;
    settle(&fleet);
    let sum = |of: fn(&VCenter) -> u64| count(fleet.vcenters.iter().map(of).sum());
    Taken {
        created,
        seconds,
        changes: sum(|vcenter| vcenter.changes().values().sum()),
        polls: sum(|vcenter| vcenter.calls("WaitForUpdatesEx", OPERATOR)),
        calls: sum(|vcenter| vcenter.all_calls(OPERATOR)),
        writes: KINDS.map(|(name, resource)| (name, api_writes(&fleet, resource) - writes[resource])),
        cpu: self::cpu(&fleet) - cpu,
        sandbox_cpu: self::sandbox_cpu(&fleet) - sandbox_cpu,
        memory: count(fleet.operator.memory()) / 1e6,
    }
}

/// Waits until nothing more is written of what has happened.
fn settle(fleet: &Fleet) {
    let mut before = f64::NAN;
    let is_settled = until(Duration::from_mins(1), || {
        thread::sleep(Duration::from_secs(5));
        let now: f64 = KINDS.iter().map(|(_, resource)| api_writes(fleet, resource)).sum();
        now.to_bits() == std::mem::replace(&mut before, now).to_bits()
    });
    assert!(is_settled, "something is written on and on:\n{}", fleet.sandbox.dump());
}

/// How many requests the API server has had so far that write such an object.
fn api_writes(fleet: &Fleet, resource: &str) -> f64 {
    let label = format!("resource=\"{resource}\"");
    let writes = site::api_writes_by_labels(&fleet.sandbox).into_iter();
    writes.filter(|(labels, _)| labels.contains(&label)).map(|(_, writes)| writes).sum()
}

/// How long the operator has had a processor.
fn cpu(fleet: &Fleet) -> f64 {
    fleet.operator.cpu_time().as_secs_f64()
}

/// The same of what it works on: the vCenters, and the cluster.
fn sandbox_cpu(fleet: &Fleet) -> f64 {
    let processes = PARTS.iter().flat_map(|part| process::of_program(fleet.sandbox.dir(), part));
    processes.filter_map(process::cpu_time).sum::<Duration>().as_secs_f64()
}
