//! The world and what is declared, compared as an outsider sees both.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Program, Vm, World, binary};
use serde_json::{Value, json};

use crate::{edits, model::Key, storm::Storm};

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
        help(storm);
        edits::bury(storm);
        let found = differences(storm);
        if found.differences.is_empty() {
            break;
        }
        if began.elapsed() > NEWS {
            assert!(found.lies.is_empty(), "the status lies:\n{}", found.lies.join("\n"));
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

/// What a person does about groups that wait for one, when all VMs that there are can be seen: where too many went missing, to say that
/// Drover may go on; and to abandon a group that is deleted, of whose VMs none is there and nobody can prove that they were destroyed.
pub(crate) fn help(storm: &mut Storm) {
    if !storm.is_in_sight() || !storm.hidden.is_empty() {
        return;
    }
    release_incidents(storm);
    let Some(world) = storm.world() else { return };
    for going in &mut storm.model.going {
        let object = storm.namespaces[&going.key.0].get("vg", &going.key.1).unwrap_or_default();
        let waits = object["status"]["conditions"][0]["reason"] == "VMsMissing"
            && object["metadata"]["uid"] == going.uid.as_str();
        if going.is_abandoned || !waits || world.made_by(&going.marker).next().is_some() {
            continue;
        }
        let annotation = json!({"metadata": {"annotations": {"vm.codeconnect.vmworld.com/abandon": "true"}}});
        if storm.namespaces[&going.key.0].patch("vg", &going.key.1, &annotation).is_ok() {
            going.is_abandoned = true;
            *storm.counts.entry("people: group abandoned").or_default() += 1;
        }
    }
}

fn release_incidents(storm: &mut Storm) {
    let listed = ["vmgroups", "vcenters"].map(|kind| {
        let list = storm.sandbox.get(&format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/{kind}")).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    });
    let incidents = listed.iter().flatten().filter_map(|object| object["status"]["incident"].as_str());
    for incident in incidents.collect::<BTreeSet<_>>() {
        let drover = Program::at(&binary()).with(storm.sandbox.environment());
        if drover.run(&["release", incident]).is_ok() {
            *storm.counts.entry("people: incident released").or_default() += 1;
        }
    }
}
