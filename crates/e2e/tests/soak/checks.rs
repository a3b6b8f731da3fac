//! The world and what is declared, compared as an outsider sees both.

use std::{
    collections::BTreeSet,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Vm, World};
use serde_json::{Value, json};

use crate::{edits, model::Key, people, storm::Storm};

/// How long the world has to become as declared when all faults are lifted. A VM that nobody shows is given up after one minute.
const CALM: Duration = Duration::from_mins(5);
/// After this, a group that waits for a person gets one.
const UNAIDED: Duration = Duration::from_mins(1);
/// How long after the last fault, or after somebody did something to a group, its status may still be of before it.
const NEWS: Duration = Duration::from_secs(15);
/// How long an administrator may see nothing of a vCenter that is there.
const BLIND: Duration = Duration::from_secs(40);

/// Looks whether anything is wrong that must never be, whatever goes on.
pub(crate) fn sample(storm: &mut Storm) -> Option<World> {
    storm.assert_all_run();
    let meddled = storm.model.meddled(&storm.vcenter.take_touches("drover"));
    assert!(meddled.is_empty(), "{}", meddled.join("\n"));
    if !storm.is_there() {
        storm.seen = Instant::now();
        return None;
    }
    let quiet: Vec<_> = storm.model.groups.iter().filter(|(_, group)| group.disturbed.elapsed() > NEWS).collect();
    let quiet: Vec<_> = quiet.into_iter().map(|(key, _)| (key.clone(), status(storm, key))).collect();
    let world = match World::look(&storm.vcenter) {
        Ok(world) => world,
        Err(error) => {
            assert!(storm.seen.elapsed() < BLIND, "nobody can tell any more what is in vCenter: {error}");
            return None;
        }
    };
    storm.seen = Instant::now();
    if storm.is_in_sight() {
        let mut wrong = always_wrong(storm, &world);
        if !storm.hides() {
            wrong.extend(take_up_settled(storm, &quiet, &world));
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    Some(world)
}

/// What must not be at any moment.
fn always_wrong(storm: &Storm, world: &World) -> Vec<String> {
    let mut wrong = storm.model.touched(world);
    wrong.extend(storm.model.surplus(world));
    wrong.extend(storm.model.replaced(world));
    for going in &storm.model.going {
        let gone = going.kept.iter().filter(|vm| world.by_instance(&vm.instance).is_none());
        wrong.extend(gone.map(|vm| format!("{} was to stay with {}, and is gone", vm.path(), going.policy)));
    }
    wrong
}

/// Takes note of the VMs of groups that are as declared. Returns what statuses say that isn't so, where there was time to tell.
fn take_up_settled(storm: &mut Storm, quiet: &[(Key, Value)], world: &World) -> Vec<String> {
    let mut lies = Vec::new();
    for (key, before) in quiet {
        let after = status(storm, key);
        let group = &storm.model.groups[key];
        if before != &after || unsettled(group.replicas(), &after).is_some() {
            continue;
        }
        let differences = group.differences(key, world, &storm.model.unregistered);
        if differences.is_empty() {
            let members = storm.model.certain(world, &group.marker).into_iter().cloned().collect::<Vec<_>>();
            let is_whole = members.len() as u64 == group.replicas();
            if let Some(group) = storm.model.groups.get_mut(key).filter(|_| is_whole) {
                group.settle(members);
            }
        } else if storm.lull.is_some_and(|lull| lull.elapsed() > NEWS) {
            lies.extend(
                differences.iter().map(|difference| format!("the status lies: {difference}: {}", after["status"])),
            );
        }
    }
    lies
}

/// Waits until the world is exactly as declared, and stays so for a while.
pub(crate) fn calm(storm: &mut Storm, rest: Duration) {
    let began = Instant::now();
    let mut helped = BTreeSet::new();
    loop {
        people::help(storm);
        edits::bury(storm);
        let found = differences(storm);
        assert!(found.wrong.is_empty(), "what may never be:\n{}", found.wrong.join("\n"));
        if found.differences.is_empty() {
            break;
        }
        if began.elapsed() > NEWS {
            assert!(found.lies.is_empty(), "the status lies:\n{}", found.lies.join("\n"));
        }
        if began.elapsed() > UNAIDED {
            people::mend(storm, &mut helped);
        }
        assert!(
            began.elapsed() < CALM,
            "{CALM:?} after the last fault, the world is not as declared:\n{}",
            found.differences.join("\n")
        );
        thread::sleep(Duration::from_millis(500));
    }
    println!("soak: the world is as declared {:.0} s after the last fault", began.elapsed().as_secs_f64());
    stays(storm, rest);
}

/// Asserts that nothing more is done, and nothing written.
fn stays(storm: &mut Storm, rest: Duration) {
    storm.vcenter.forget_calls();
    let before = versions(storm);
    thread::sleep(rest);
    let changes = storm.vcenter.changes();
    assert!(changes.is_empty(), "though all is as declared, more is done: {changes:?}");
    let after = versions(storm);
    assert_eq!(before, after, "though all is as declared, more is written");
    let again = differences(storm).differences;
    assert!(again.is_empty(), "what was as declared is not any more:\n{}", again.join("\n"));
}

/// The versions of all groups, which any write to one changes.
fn versions(storm: &Storm) -> Vec<(Key, Value)> {
    let version = |key: &Key| (key.clone(), status(storm, key)["metadata"]["resourceVersion"].clone());
    storm.model.groups.keys().map(version).collect()
}

struct Found {
    differences: Vec<String>,
    /// Groups whose status says that all is as declared, and isn't.
    lies: Vec<String>,
    /// What may not be at any moment.
    wrong: Vec<String>,
}

/// All that differs between what is declared and what is.
fn differences(storm: &Storm) -> Found {
    let (mut differences, mut lies) = (Vec::new(), Vec::new());
    let keys: Vec<_> = storm.model.groups.keys().cloned().collect();
    let before: Vec<_> = keys.iter().map(|key| status(storm, key)).collect();
    let world = match World::look(&storm.vcenter) {
        Ok(world) => world,
        Err(error) => return Found { differences: vec![error], lies, wrong: Vec::new() },
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
    let mut wrong = always_wrong(storm, &world);
    wrong.extend(storm.model.meddled(&storm.vcenter.take_touches("drover")));
    differences.extend(storm.model.orphans(&world));
    differences.extend(disks_left(storm, &world));
    differences.extend(vcenter(storm));
    Found { differences, lies, wrong }
}

/// What the VCenter says, where that is not that all is well.
fn vcenter(storm: &Storm) -> Option<String> {
    let shown = storm.sandbox.kubectl().run(&["get", "vcenter", "default", "-o", "json"]);
    let vcenter: Value = shown.ok().and_then(|shown| serde_json::from_str(&shown).ok()).unwrap_or_default();
    let status = &vcenter["status"];
    let is = |name: &str| {
        let mut all = status["conditions"].as_array().into_iter().flatten();
        all.any(|condition| condition["type"] == name && condition["status"] == "True")
    };
    let is_well = is("Ready") && is("Connected") && is("Authorized") && status["incident"].is_null();
    (!is_well).then(|| format!("the VCenter is not well: {status}"))
}

/// Folders of the datastore that are no VM's, and of no VM that somebody took out of the inventory.
fn disks_left(storm: &Storm, world: &World) -> Vec<String> {
    let listed = match storm.vcenter.govc(&["datastore.ls", "-ds", "LocalDS_0"]) {
        Ok(listed) => listed,
        Err(failure) => return vec![failure.to_string()],
    };
    let folder = |vm: &Vm| vm.file.trim_start_matches("[LocalDS_0] ").split('/').next().map(ToOwned::to_owned);
    let used: BTreeSet<_> = world.vms.iter().chain(&storm.model.taken_out).filter_map(folder).collect();
    let left = listed.lines().filter(|name| !used.contains(*name));
    left.map(|name| format!("the files of {name} are left on the datastore, and no VM has them")).collect()
}

/// A group as the API server has it.
pub(crate) fn status(storm: &Storm, key: &Key) -> Value {
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
    let is_settled = status["observedGeneration"] == group["metadata"]["generation"]
        && status["phase"] == "RUNNING"
        && [condition("Ready"), condition("Reconciling"), condition("Stalled")] == ["True", "False", "False"]
        && status["incident"].is_null()
        && status["currentReplicas"] == replicas
        && status["desiredReplicas"] == replicas
        // In the power state that is declared, whichever that is.
        && status["readyReplicas"] == replicas
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
