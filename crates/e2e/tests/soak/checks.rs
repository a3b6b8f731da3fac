//! The world and what is declared, compared as an outsider sees both.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Program, Vm, World, binary};
use serde_json::{Value, json};

use crate::{drift, edits, model::Key, storm::Storm};

/// How long the world has to become as declared when all faults are lifted. A VM that nobody shows is given up after one minute.
const CALM: Duration = Duration::from_mins(5);
/// How long after the last fault a status may still be of before it.
const NEWS: Duration = Duration::from_secs(15);
/// How long an administrator may see nothing of a vCenter that is there.
const BLIND: Duration = Duration::from_secs(40);
/// For how long nothing may be done any more in the end.
const REST: Duration = Duration::from_secs(8);

/// Looks whether anything is wrong that must never be, whatever goes on.
pub(crate) fn sample(storm: &mut Storm) -> Option<World> {
    storm.assert_all_run();
    if !storm.is_there() {
        storm.seen = Instant::now();
        return None;
    }
    let world = match World::look(&storm.vcenter) {
        Ok(world) => world,
        Err(error) => {
            assert!(storm.seen.elapsed() < BLIND, "nobody can tell any more what is in vCenter: {error}");
            return None;
        }
    };
    storm.seen = Instant::now();
    if storm.is_in_sight() {
        let mut wrong = storm.model.touched(&world);
        wrong.extend(storm.model.surplus(&world));
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    Some(world)
}

/// Waits until the world is exactly as declared, and stays so.
pub(crate) fn calm(storm: &mut Storm) {
    let began = Instant::now();
    loop {
        release_incidents(storm);
        edits::bury(storm);
        let found = differences(storm);
        if found.differences.is_empty() {
            break;
        }
        if began.elapsed() > NEWS {
            assert!(found.lies.is_empty(), "the status lies:\n{}", found.lies.join("\n"));
        }
        if began.elapsed() > CALM / 2 {
            bring_back_for_those_who_go(storm);
        }
        assert!(
            began.elapsed() < CALM,
            "{CALM:?} after the last fault, the world is not as declared:\n{}",
            found.differences.join("\n")
        );
        thread::sleep(Duration::from_millis(500));
    }
    println!("soak: the world is as declared {:.0} s after the last fault", began.elapsed().as_secs_f64());
    storm.vcenter.forget_calls();
    thread::sleep(REST);
    let changes = storm.vcenter.changes();
    assert!(changes.is_empty(), "though all is as declared, more is done: {changes:?}");
    let again = differences(storm).differences;
    assert!(again.is_empty(), "what was as declared is not any more:\n{}", again.join("\n"));
}

struct Found {
    differences: Vec<String>,
    /// Groups whose status says that all is as declared, and isn't.
    lies: Vec<String>,
}

/// All that differs between what is declared and what is.
fn differences(storm: &Storm) -> Found {
    let (mut differences, mut lies) = (Vec::new(), Vec::new());
    let keys: Vec<_> = storm.model.groups.keys().cloned().collect();
    let before: Vec<_> = keys.iter().map(|key| status(storm, key)).collect();
    let world = match World::look(&storm.vcenter) {
        Ok(world) => world,
        Err(error) => return Found { differences: vec![error], lies },
    };
    for (key, before) in keys.iter().zip(before) {
        let group = &storm.model.groups[key];
        let of_world = group.differences(key, &world, &storm.model.unregistered);
        let after = status(storm, key);
        if !group.keeps_old() {
            let is_old = |vm: &&Vm| vm.revision() != after["status"]["revision"];
            differences.extend(
                world.made_by(&group.marker).filter(is_old).map(|vm| format!("{} is of an old revision", vm.path())),
            );
        }
        let unsettled = unsettled(group.replicas(), &after);
        if unsettled.is_none() && before == after {
            lies.extend(of_world.iter().map(|difference| format!("{difference}: {}", after["status"])));
        }
        differences.extend(of_world);
        differences.extend(unsettled.map(|why| format!("{}/{}: {why}", key.0, key.1)));
        differences.extend(infos(storm, key, &world));
    }
    differences.extend(storm.model.going.iter().map(|going| {
        let status = &status(storm, &going.key)["status"];
        format!("{going:?} is not gone: {}", status["lastMessage"])
    }));
    differences.extend(storm.model.touched(&world));
    differences.extend(storm.model.surplus(&world));
    differences.extend(storm.model.orphans(&world));
    Found { differences, lies }
}

/// A group as the API server has it.
fn status(storm: &Storm, key: &Key) -> Value {
    let group = storm.namespaces[&key.0].get("vg", &key.1);
    group.unwrap_or_else(|failure| json!({"error": failure.to_string()}))
}

/// Why a status doesn't say that so many VMs are as declared.
fn unsettled(replicas: u64, group: &Value) -> Option<String> {
    let status = &group["status"];
    let condition = |name: &str| -> &Value {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        all.find(|condition| condition["type"] == name).map_or(&Value::Null, |condition| &condition["status"])
    };
    let is_on = group["spec"]["powerState"] == "On";
    let ready = if is_on { replicas } else { 0 };
    let is_settled = status["observedGeneration"] == group["metadata"]["generation"]
        && status["phase"] == "RUNNING"
        && [condition("Ready"), condition("Reconciling"), condition("Stalled")] == ["True", "False", "False"]
        && status["incident"].is_null()
        && status["currentReplicas"] == replicas
        && status["desiredReplicas"] == replicas
        && (status["readyReplicas"] == ready || !is_on)
        && (status["updatedReplicas"] == replicas || group["spec"]["update"]["strategy"] == "OnDelete");
    let counts = ["currentReplicas", "readyReplicas", "updatedReplicas", "observedGeneration", "incident"];
    let counts = counts.map(|name| format!("{name} {}", status[name])).join(", ");
    (!is_settled).then(|| format!("{} {}: {counts}", status["phase"], status["lastMessage"]))
}

/// What differs between a group's VMs and the VMInfos that are published of them.
fn infos(storm: &Storm, key: &Key, world: &World) -> Vec<String> {
    let label = "vm.codeconnect.vmworld.com/group";
    let published = storm.namespaces[&key.0].list("vi").unwrap_or_default();
    let published = published.iter().filter(|info| info["metadata"]["labels"][label] == key.1.as_str());
    let mut published: Vec<_> = published.filter_map(|info| info["metadata"]["name"].as_str()).collect();
    let marker = &storm.model.groups[key].marker;
    let is_certain = |vm: &&Vm| !storm.model.unregistered.contains(&vm.instance);
    let members: Vec<_> = world.made_by(marker).collect();
    let mut certain: Vec<_> = members.iter().copied().filter(is_certain).map(|vm| vm.name.as_str()).collect();
    published.retain(|name| certain.contains(name) || !members.iter().any(|vm| vm.name == *name));
    published.sort_unstable();
    certain.sort_unstable();
    if published == certain {
        return Vec::new();
    }
    vec![format!("{}/{}: VMInfos are of {published:?}, and VMs are {certain:?}", key.0, key.1)]
}

/// A person says to go on where too many VMs went missing.
fn release_incidents(storm: &mut Storm) {
    let listed = storm.sandbox.get("/apis/vm.codeconnect.vmworld.com/v1alpha1/vmgroups");
    let vcenters = storm.sandbox.get("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters");
    let objects =
        [listed, vcenters].into_iter().flatten().flat_map(|list| list["items"].as_array().cloned().unwrap_or_default());
    let incidents: Vec<_> =
        objects.filter_map(|object| object["status"]["incident"].as_str().map(ToOwned::to_owned)).collect();
    for incident in incidents {
        let drover = Program::at(&binary()).with(storm.sandbox.environment());
        if drover.run(&["release", &incident]).is_ok() {
            *storm.counts.entry("people: incident released").or_default() += 1;
        }
    }
}

/// A group that goes with its VMs waits for each of them: those that are unregistered have to come back first.
fn bring_back_for_those_who_go(storm: &mut Storm) {
    let of_group = |vm: &Vm, marker: &str| vm.marker() == Some(marker);
    let is_wanted = |vm: &Vm| storm.model.going.iter().any(|going| of_group(vm, &going.marker));
    let wanted: Vec<_> = storm.lost.iter().filter(|vm| is_wanted(vm)).cloned().collect();
    for vm in wanted {
        drift::bring_back(storm, &vm);
        storm.lost.retain(|other| other.instance != vm.instance);
    }
}
