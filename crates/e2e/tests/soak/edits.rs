//! What people declare.

use drover_e2e::Vm;
use serde_json::{Value, json};

use crate::{
    model::{self, Going, Key},
    storm::{Kind, Storm},
};

/// No group has more than this.
const MOST: u64 = 5;
pub(crate) const NAMESPACES: [&str; 3] = ["north", "south", "east"];
const NAMES: [&str; 3] = ["web", "db", "queue"];
pub(crate) const TEMPLATES: [&str; 2] = ["vm-operator-template", "other-template"];
pub(crate) const FOLDERS: [&str; 2] = ["vm-operator", "second-home"];
pub(crate) const HOSTS: [&str; 3] = ["DC0_C0_H0", "DC0_C0_H1", "DC0_C0_H2"];
/// After how long a VM that nobody shows is given up: longer than any trouble of the storm lasts.
pub(crate) const LOST_AFTER: u64 = 60;

fn shown(key: &Key, change: &Value) -> String {
    format!("{}/{} {change}", key.0, key.1)
}

/// Edits any group with what chance gives.
fn edit_any(storm: &mut Storm, change: impl FnOnce(&mut Storm) -> Option<Value>) -> Option<String> {
    let key = storm.any_group()?;
    let change = change(storm)?;
    storm.edit(&key, &change);
    Some(shown(&key, &change))
}

fn one_of(storm: &mut Storm, words: &[&str]) -> String {
    (*storm.chance.pick(words).expect("there is a choice")).to_owned()
}

pub(crate) fn root_disk(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| {
        Some(json!({"rootDisk": {"provisioning": one_of(storm, &["Thin", "Thick", "EagerZeroed"])}}))
    })
}

pub(crate) fn replicas(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"replicas": storm.chance.between(0, MOST)})))
}

pub(crate) fn cpu(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"cpu": storm.chance.between(1, 4)})))
}

pub(crate) fn memory(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"memory": storm.chance.between(1, 4)})))
}

pub(crate) fn template(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"template": one_of(storm, &TEMPLATES)})))
}

/// Has all VMs replaced.
pub(crate) fn round(storm: &mut Storm) -> Option<String> {
    storm.round += 1;
    edit_any(storm, |storm| Some(json!({"extraConfig": {"guestinfo.round": storm.round.to_string()}})))
}

pub(crate) fn folder(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"placement": {"folder": one_of(storm, &FOLDERS)}})))
}

pub(crate) fn hosts(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| {
        let count = storm.chance.below(HOSTS.len() as u64 + 1);
        let hosts = &HOSTS[..usize::try_from(count).ok()?];
        Some(if hosts.is_empty() {
            json!({"placement": {"hosts": null}})
        } else {
            json!({"placement": {"hosts": hosts}})
        })
    })
}

pub(crate) fn deletion_policy(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"deletionPolicy": one_of(storm, &["Delete", "Delete", "PowerOff", "Retain"])})))
}

pub(crate) fn strategy(storm: &mut Storm) -> Option<String> {
    let strategies = ["InPlaceFirst", "InPlaceFirst", "Replace", "OnDelete"];
    edit_any(storm, |storm| Some(json!({"update": {"strategy": one_of(storm, &strategies)}})))
}

pub(crate) fn rollout(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| {
        Some(json!({"update": {"maxSurge": storm.chance.between(0, 2), "maxUnavailable": storm.chance.between(1, 3)}}))
    })
}

pub(crate) fn power_state(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"powerState": one_of(storm, &["On", "On", "On", "Off", "Suspended"])})))
}

pub(crate) fn scale_in(storm: &mut Storm) -> Option<String> {
    edit_any(storm, |storm| Some(json!({"scaleIn": one_of(storm, &["Newest", "Oldest"])})))
}

/// Marks a member to go first, and has the group shrink.
pub(crate) fn mark(storm: &mut Storm) -> Option<String> {
    let (key, vm) = storm.any_member()?;
    let fewer = storm.model.groups[&key].replicas().checked_sub(1)?;
    let mark = json!({"metadata": {"annotations": {"vm.codeconnect.vmworld.com/scale-in-first": "true"}}});
    // It may have no VMInfo yet.
    storm.namespaces[&key.0].patch("vi", &vm.name, &mark).ok()?;
    storm.edit(&key, &json!({"replicas": fewer}));
    Some(format!("{}/{} {}", key.0, key.1, vm.name))
}

/// Declares something for a while, and then something else, if the group is still there.
fn for_a_while(storm: &mut Storm, name: &'static str, change: &Value, back: Value) -> Option<String> {
    let key = storm.any_group()?;
    if storm.has(name) {
        return None;
    }
    let marker = storm.model.groups[&key].marker.clone();
    storm.edit(&key, change);
    let shown = shown(&key, change);
    let seconds = storm.chance.between(2, 15);
    storm.lasts(name, Kind::Free, seconds, move |storm| {
        if storm.model.groups.get(&key).is_some_and(|group| group.marker == marker) {
            storm.edit(&key, &back);
        }
    });
    Some(shown)
}

pub(crate) fn pause(storm: &mut Storm) -> Option<String> {
    for_a_while(storm, "paused", &json!({"paused": true}), json!({"paused": false}))
}

pub(crate) fn misname(storm: &mut Storm) -> Option<String> {
    for_a_while(storm, "misnamed", &json!({"template": "no-such-template"}), json!({"template": TEMPLATES[0]}))
}

/// Deletes a group, also while vCenter is away. Which VMs one leaves that is just being changed, nobody can say beforehand: only one that is
/// as declared is deleted so.
pub(crate) fn delete(storm: &mut Storm) -> Option<String> {
    let key = storm.any_group()?;
    let group = storm.model.groups[&key].clone();
    let policy = group.spec["deletionPolicy"].as_str().unwrap_or("Delete").to_owned();
    let mut kept = Vec::new();
    if policy != "Delete" {
        // It lets go of VMs that can't be seen as they are.
        kept = group.as_seen.filter(|_| !storm.hides() && group.spec["paused"] != true)?;
    }
    let object = storm.namespaces[&key.0].get("vg", &key.1).unwrap_or_else(|failure| panic!("{failure}"));
    let uid = object["metadata"]["uid"].as_str().expect("an object has a UID").to_owned();
    storm.namespaces[&key.0].delete("vg", &key.1).unwrap_or_else(|failure| panic!("{failure}"));
    storm.model.groups.remove(&key);
    let weather = if storm.is_there() { "" } else { ", while vCenter is away" };
    let shown = format!("{}/{} with {policy}, {} VMs stay{weather}", key.0, key.1, kept.len());
    let (marker, most) = (group.marker, group.most);
    storm.model.going.push(Going { key, uid, marker, policy, most, kept, is_abandoned: false });
    Some(shown)
}

/// Creates the group that nobody ever does anything to.
pub(crate) fn create_witness(storm: &mut Storm) {
    let key = (NAMESPACES[0].to_owned(), "witness".to_owned());
    let spec = spec(storm, 3);
    storm.create(&key, &spec, None, true);
}

fn spec(storm: &mut Storm, replicas: u64) -> Value {
    storm.round += 1;
    json!({
        "replicas": replicas,
        "cpu": storm.chance.between(1, 2),
        "lostAfterSeconds": LOST_AFTER,
        "extraConfig": {"guestinfo.round": storm.round.to_string()},
        "shutdown": {"graceSeconds": storm.chance.below(2)},
    })
}

/// Creates a group where there is none.
pub(crate) fn create(storm: &mut Storm) -> Option<String> {
    let keys = NAMESPACES.iter().flat_map(|namespace| NAMES.map(|name| ((*namespace).to_owned(), name.to_owned())));
    let is_taken =
        |key: &Key| storm.model.groups.contains_key(key) || storm.model.going.iter().any(|going| going.key == *key);
    let free: Vec<Key> = keys.filter(|key| !is_taken(key)).collect();
    let key = storm.chance.pick(&free)?.clone();
    let replicas = storm.chance.between(0, MOST);
    let mut spec = spec(storm, replicas);
    let left = storm.model.left.get(&key).cloned().filter(|_| storm.chance.percent(50));
    if let Some(marker) = &left {
        let of_it = |stranger: &&crate::model::Stranger| stranger.left_by.as_ref() == Some(marker);
        let count = storm.model.strangers.values().filter(of_it).count() as u64;
        // Fewer would destroy some, which is refused.
        spec["replicas"] = json!(count.max(1));
        storm.model.strangers.retain(|_, stranger| stranger.left_by.as_ref() != Some(marker));
        storm.model.left.remove(&key);
    }
    storm.create(&key, &spec, left.as_deref(), false);
    let how = if left.is_some() { ", which takes over the VMs that are left" } else { "" };
    Some(format!("{}/{}{how}", key.0, key.1))
}

/// Takes note of groups that are gone by now, and of the VMs that they have left.
pub(crate) fn bury(storm: &mut Storm) {
    let is_gone = |storm: &Storm, going: &Going| match storm.namespaces[&going.key.0].get("vg", &going.key.1) {
        Ok(object) => object["metadata"]["uid"] != going.uid.as_str(),
        Err(failure) => failure.stderr.contains("(NotFound)"),
    };
    if !storm.is_in_sight() {
        return;
    }
    for going in storm.model.going.clone() {
        if !is_gone(storm, &going) {
            continue;
        }
        let Some(world) = storm.world() else { return };
        for was in &going.kept {
            let vm = world.by_instance(&was.instance);
            let vm = vm.unwrap_or_else(|| panic!("{going:?}: the VM {} was to stay, and is gone", was.path()));
            let power = if going.policy == "PowerOff" { "poweredOff".to_owned() } else { was.power.clone() };
            // A host that was lost brings its VMs back under other ids.
            let should = Vm { id: vm.id.clone(), power, ..was.clone() };
            assert!(
                *vm == should,
                "{}/{} was deleted with {}: {should:?} is {vm:?}",
                going.key.0,
                going.key.1,
                going.policy
            );
            storm.model.note("a VM that a group has left,", vm, model::now(), Some(&going.marker));
        }
        if !going.kept.is_empty() {
            storm.model.left.insert(going.key.clone(), going.marker.clone());
        }
        if going.is_abandoned {
            // Who gives a group up also sees to its folder, which vCenter keeps if it isn't empty.
            let folders =
                world.folders.iter().filter(|path| path.ends_with(&format!("/{}.{}", going.key.0, going.key.1)));
            let is_empty = |path: &&String| !world.vms.iter().any(|vm| vm.folder == **path);
            folders.filter(is_empty).for_each(|path| drop(storm.vcenter.govc(&["object.destroy", path])));
        }
        storm.model.going.retain(|other| other.uid != going.uid);
    }
}
