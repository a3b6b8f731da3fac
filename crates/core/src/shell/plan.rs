//! What to do next for a MyOwnShell.

use std::time::Duration;

use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Pod, Service},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    Desired, FINALIZER, Machines, Seen, Trouble, controller, desired::Deletion, hosts, is_ours, manifest, scaler,
    subset::is_within,
};
use crate::Timestamp;

/// How long to wait for what is on its way out.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What to do next for a MyOwnShell, in this order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// What to do.
    pub steps: Vec<Step>,
    /// What keeps the rest from being done.
    pub trouble: Option<Trouble>,
    /// Who else says how many shells there are.
    pub scaled_by: Option<String>,
    /// What somebody has done to the Deployment, and these steps put right.
    pub drift: Option<&'static str>,
    /// When to come back, whatever happens before.
    pub wake: Option<Timestamp>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Put the finalizer on the MyOwnShell.
    Hold,
    /// Take the finalizer off the MyOwnShell.
    LetGo,
    /// Take the finalizer off the Deployment.
    Release,
    /// Apply a manifest. One with a version is applied to that version of the object, and one without makes it.
    Apply(Value),
    /// Have a pod's node look at its files now, and not in its next round: by a mark on the pod of what they are to be.
    Nudge {
        /// The pod's name.
        pod: String,
        /// The mark.
        mark: String,
    },
    /// Delete an object.
    Remove {
        /// The object.
        object: Box<Object>,
        /// Whether what belongs to it goes first.
        dependents_first: bool,
    },
}

/// An object that belongs to a MyOwnShell.
// It is boxed where it is kept.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// The Deployment.
    Deployment(Deployment),
    /// The ConfigMap of the hosts file.
    File(ConfigMap),
    /// The Service that the machines are found by.
    Service(Service),
    /// Addresses behind it.
    Slice(EndpointSlice),
}

/// Says what to do. `domain` is the cluster's own in DNS.
#[must_use]
pub fn plan(desired: &Desired, seen: &Seen, domain: &str, now: Timestamp) -> Plan {
    if let Some(deletion) = desired.deletion {
        return Plan { steps: end(desired, seen, deletion), ..Plan::default() };
    }
    if !desired.is_held {
        return Plan { steps: vec![Step::Hold], ..Plan::default() };
    }
    if desired.has_expired(now) {
        return Plan { steps: expire(desired, seen), ..Plan::default() };
    }
    let mut plan = Plan { wake: desired.end.as_ref().map(|(_, end)| *end), ..Plan::default() };
    plan.trouble = keep(desired, seen, domain, &mut plan).err();
    if seen.deployment.as_ref().is_some_and(|deployment| deployment.metadata.deletion_timestamp.is_some()) {
        // Nothing tells of the end of one that was never ours.
        let soon = now.checked_add(LOOK_AGAIN).unwrap_or(Timestamp::MAX);
        plan.wake = Some(plan.wake.map_or(soon, |wake| wake.min(soon)));
    }
    if plan.trouble.is_none() {
        plan.trouble = no_group(desired, seen).map(Trouble::NoVmGroup);
    }
    plan
}

/// Why the VMs that shells are to find aren't known.
fn no_group(desired: &Desired, seen: &Seen) -> Option<String> {
    let group = desired.group.as_deref().unwrap_or_default();
    match seen.machines {
        Machines::NoGroup => Some(format!("spec.vmGroupRef: there is no VmGroup {group:?} in {}", desired.namespace)),
        Machines::Unread => Some(format!(
            "spec.vmGroupRef: the VmGroup {group:?} is not read, because the operator's flag --controllers leaves out vmgroup or vminfo: \
             run both, or remove spec.vmGroupRef"
        )),
        Machines::NotAsked | Machines::Of(_) => None,
    }
}

/// It is being deleted. A Deployment that is on its way out isn't waited for: nothing can keep it any more.
fn end(desired: &Desired, seen: &Seen, deletion: Deletion) -> Vec<Step> {
    let mut steps = Vec::new();
    if let Some(deployment) = our_deployment(desired, seen) {
        let is_going = deployment.metadata.deletion_timestamp.is_some();
        if !is_going && deletion != Deletion::Orphan {
            return vec![remove(Object::Deployment(deployment.clone()), deletion == Deletion::Foreground)];
        }
        steps.extend(release(deployment));
    }
    if desired.is_held {
        steps.push(Step::LetGo);
    }
    steps
}

/// Its time is over: it stays, and all else goes.
fn expire(desired: &Desired, seen: &Seen) -> Vec<Step> {
    let mut steps = Vec::new();
    match our_deployment(desired, seen) {
        Some(going) if going.metadata.deletion_timestamp.is_some() => steps.extend(release(going)),
        Some(deployment) => steps.push(remove(Object::Deployment(deployment.clone()), false)),
        None => {}
    }
    steps.extend(superfluous(desired, seen, &[]));
    steps
}

/// It is to be there: what makes its machines known, and then the Deployment.
fn keep(desired: &Desired, seen: &Seen, domain: &str, plan: &mut Plan) -> Result<(), Trouble> {
    let mut deployment = manifest::deployment(desired, domain);
    match &seen.deployment {
        Some(going) if going.metadata.deletion_timestamp.is_some() => {
            // When it is gone, it is made again.
            plan.steps.extend(release(going));
            return Ok(());
        }
        Some(there) if is_ours(&there.metadata, &desired.uid) => {
            plan.scaled_by = scaler::scaler(there, &seen.autoscalers);
            let replicas = there.spec.as_ref().and_then(|spec| spec.replicas);
            match &plan.scaled_by {
                None => deployment["spec"]["replicas"] = json!(desired.size),
                // Until it is somebody else's, leaving it out would set it to 1.
                Some(_) if scaler::is_ours(there) => deployment["spec"]["replicas"] = json!(replicas),
                Some(_) => {}
            }
        }
        Some(there) => return Err(taken(&deployment, &there.metadata)),
        None => deployment["spec"]["replicas"] = json!(desired.size),
    }
    let machines = match &seen.machines {
        Machines::Of(machines) => &machines[..],
        Machines::NotAsked | Machines::NoGroup | Machines::Unread => &[],
    };
    let wanted = desired.group.as_ref().map_or_else(Vec::new, |group| hosts::objects(desired, group, machines));
    for manifest in &wanted {
        let name = &manifest["metadata"]["name"];
        let slice = seen.slices.iter().find(|slice| slice.metadata.name.as_deref() == name.as_str());
        plan.steps.extend(match manifest["kind"].as_str() {
            Some("ConfigMap") => apply(desired, manifest.clone(), seen.file.as_ref()),
            Some("Service") => apply(desired, manifest.clone(), seen.service.as_ref()),
            _ => apply(desired, manifest.clone(), slice),
        }?);
    }
    let deed = drift(desired, &deployment, seen.deployment.as_ref());
    let step = apply(desired, deployment, seen.deployment.as_ref())?;
    plan.drift = step.as_ref().and(deed);
    plan.steps.extend(step);
    plan.steps.extend(superfluous(desired, seen, &wanted));
    let is_file = |step: &Step| matches!(step, Step::Apply(manifest) if manifest["kind"] == "ConfigMap");
    if !plan.steps.iter().any(is_file) {
        plan.steps.extend(nudges(&seen.pods, wanted.first()));
    }
    Ok(())
}

/// Once the hosts file is as it should be, the pods that have another are told. A node looks by itself only about once a minute.
fn nudges(pods: &[Pod], file: Option<&Value>) -> Vec<Step> {
    let Some(mark) = file.and_then(|file| file["metadata"]["annotations"][manifest::APPLIED].as_str()) else {
        return Vec::new();
    };
    let is_old = |pod: &&Pod| {
        let has = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(manifest::APPLIED));
        pod.metadata.deletion_timestamp.is_none() && has.map(String::as_str) != Some(mark)
    };
    let nudge = |pod: &Pod| Step::Nudge { pod: pod.metadata.name.clone().unwrap_or_default(), mark: mark.to_owned() };
    pods.iter().filter(is_old).map(nudge).collect()
}

/// Applies a manifest, if what is there isn't as it says.
fn apply<T>(desired: &Desired, mut manifest: Value, there: Option<&T>) -> Result<Option<Step>, Trouble>
where
    T: Metadata<Ty = ObjectMeta> + Serialize,
{
    if let Some(there) = there {
        if !is_ours(there.metadata(), &desired.uid) {
            return Err(taken(&manifest, there.metadata()));
        }
        // Objects of the API have text for keys and plain numbers, so this can't fail.
        if is_within(&manifest, &serde_json::to_value(there).unwrap_or_default()) {
            return Ok(None);
        }
        manifest["metadata"]["resourceVersion"] = json!(there.metadata().resource_version);
    }
    Ok(Some(Step::Apply(manifest)))
}

/// What somebody must have done to a Deployment that isn't as declared, though nothing new was declared.
fn drift(desired: &Desired, manifest: &Value, there: Option<&Deployment>) -> Option<&'static str> {
    let Some(there) = there else { return desired.is_known.then_some("was deleted, and is made again") };
    let signature = there.metadata.annotations.as_ref().and_then(|annotations| annotations.get(manifest::APPLIED));
    let is_signed = signature.map(String::as_str) == manifest["metadata"]["annotations"][manifest::APPLIED].as_str();
    (desired.is_known && is_signed).then_some("was edited, and is as declared again")
}

fn taken(manifest: &Value, there: &ObjectMeta) -> Trouble {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&manifest["kind"]), text(&manifest["metadata"]["name"]));
    let whose = controller(there)
        .map_or("nobody that Drover knows".to_owned(), |owner| format!("the {} {}", owner.kind, owner.name));
    Trouble::NameTaken(format!(
        "there is a {kind} {name} that belongs to {whose}, and is left alone: delete it, or give the MyOwnShell another name"
    ))
}

/// What makes machines known, and isn't wanted any more.
fn superfluous(desired: &Desired, seen: &Seen, wanted: &[Value]) -> Vec<Step> {
    let is_superfluous = |kind: &str, meta: &ObjectMeta| {
        let is_it = |manifest: &Value| {
            manifest["kind"] == kind && manifest["metadata"]["name"].as_str() == meta.name.as_deref()
        };
        is_ours(meta, &desired.uid) && meta.deletion_timestamp.is_none() && !wanted.iter().any(is_it)
    };
    let files = seen.file.iter().filter(|file| is_superfluous("ConfigMap", &file.metadata)).cloned().map(Object::File);
    let services = seen.service.iter().filter(|service| is_superfluous("Service", &service.metadata));
    let slices = seen.slices.iter().filter(|slice| is_superfluous("EndpointSlice", &slice.metadata));
    let objects = files.chain(services.cloned().map(Object::Service)).chain(slices.cloned().map(Object::Slice));
    objects.map(|object| remove(object, false)).collect()
}

fn our_deployment<'a>(desired: &Desired, seen: &'a Seen) -> Option<&'a Deployment> {
    seen.deployment.as_ref().filter(|deployment| is_ours(&deployment.metadata, &desired.uid))
}

fn release(deployment: &Deployment) -> Option<Step> {
    let mut finalizers = deployment.metadata.finalizers.iter().flatten();
    finalizers.any(|finalizer| finalizer == FINALIZER).then_some(Step::Release)
}

fn remove(object: Object, dependents_first: bool) -> Step {
    Step::Remove { object: Box::new(object), dependents_first }
}
