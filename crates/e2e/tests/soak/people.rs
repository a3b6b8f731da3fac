//! What a person does about groups that wait for one, and for nothing else: each help is counted.

use std::collections::BTreeSet;

use drover_e2e::{Program, binary};
use serde_json::{Value, json};

use crate::{checks::status, model::Key, storm::Storm};

const API: &str = "/apis/vm.codeconnect.vmworld.com/v1alpha1";

/// Helps where VMs went missing, when all VMs that there are can be seen: where too many did, says that Drover may go on; and abandons a group
/// that is deleted, of whose VMs none is there and nobody can prove that they were destroyed.
pub(crate) fn help(storm: &mut Storm) {
    if !storm.is_in_sight() || storm.hides() {
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
        let is_loser = storm.model.losers.contains(&going.marker);
        assert!(is_loser, "{going:?} misses VMs, and nobody took any away: {}", object["status"]);
        let annotation = json!({"metadata": {"annotations": {"vm.codeconnect.vmworld.com/abandon": "true"}}});
        if storm.namespaces[&going.key.0].patch("vg", &going.key.1, &annotation).is_ok() {
            going.is_abandoned = true;
            *storm.counts.entry("people: group abandoned").or_default() += 1;
        }
    }
}

/// Releases incidents. One of a group that lost nothing is a false alarm.
fn release_incidents(storm: &mut Storm) {
    let list = |kind: &str| -> Vec<Value> {
        let list = storm.sandbox.get(&format!("{API}/{kind}")).unwrap_or_default();
        list["items"].as_array().cloned().unwrap_or_default()
    };
    let has_incident = |object: &Value| object["status"]["incident"].is_string();
    let (groups, vcenters) = (list("vmgroups"), list("vcenters"));
    for group in groups.iter().filter(|group| has_incident(group)) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&group["metadata"]["namespace"]), text(&group["metadata"]["name"]));
        let going = storm.model.going.iter().find(|going| going.key == key).map(|going| &going.marker);
        let marker = storm.model.groups.get(&key).map(|group| &group.marker).or(going);
        // One of a whole vCenter is told to all its groups.
        let is_of_vcenter = group["status"]["incident"].as_str().is_some_and(|incident| incident.starts_with("vc-"));
        let has_lost = |marker: &String| storm.model.losers.contains(marker);
        let is_loser = marker.is_none_or(|own| has_lost(own) || is_of_vcenter && !storm.model.losers.is_empty());
        assert!(is_loser, "{}/{} lost nothing: {}", key.0, key.1, group["status"]);
    }
    let incidents = groups.iter().chain(&vcenters).filter_map(|object| object["status"]["incident"].as_str());
    for incident in incidents.collect::<BTreeSet<_>>() {
        let drover = Program::at(&binary()).with(storm.sandbox.environment());
        if drover.run(&["release", incident]).is_ok() {
            *storm.counts.entry("people: incident released").or_default() += 1;
        }
    }
}

/// Says once of each group that waits for a person, or for its next try, that what was in its way was mended: by an edit, after which nothing
/// waits until it is tried again.
pub(crate) fn mend(storm: &mut Storm, helped: &mut BTreeSet<Key>) {
    let going = storm.model.going.iter().map(|going| going.key.clone());
    let keys: Vec<_> = storm.model.groups.keys().cloned().chain(going).collect();
    for key in keys {
        let object = status(storm, &key);
        if !waits(&object) || !helped.insert(key.clone()) {
            continue;
        }
        let mended = json!({"spec": {"update": {"progressDeadlineSeconds": 599}}});
        // One that was being deleted may be gone by now.
        if storm.namespaces[&key.0].patch("vg", &key.1, &mended).is_ok() {
            println!("soak: {}/{} is told that it was mended: {}", key.0, key.1, object["status"]["lastMessage"]);
            *storm.counts.entry("people: group mended").or_default() += 1;
        }
    }
}

/// Whether a group says that it waits: for a person, or because something failed. No edit helps one that misses VMs.
fn waits(group: &Value) -> bool {
    let conditions = &group["status"]["conditions"];
    let mut all = conditions.as_array().into_iter().flatten();
    let is_stalled = all.any(|condition| condition["type"] == "Stalled" && condition["status"] == "True");
    let reason = &conditions[0]["reason"];
    reason != "VMsMissing" && (is_stalled || reason == "TasksFailing")
}
