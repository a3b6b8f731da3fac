//! What to do next for a group, from what is declared, what is true in vCenter and what is under way, all at one moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use drover_api::{VmGroup, vmgroup::RELEASE_ANNOTATION};
use drover_core::{
    Action, Plan, Trouble,
    brake::{Incident, Toll, is_of_outdated},
    group::{Desired, MachineId, Observed, Timestamp},
    names::{self, Slot},
    plan,
    plan::{to_be_replaced, trouble_with_unseen},
    record::{Incarnation, Record},
};
use kube::ResourceExt;

use super::{
    RESYNC, Site, Turn, act,
    act::Scene,
    dereference::{LOOK_AGAIN, trouble_of},
    diary,
    memory::MadeOf,
    source::Found,
    view::{self, View},
    works::Works,
};
use crate::{
    loops::{attempt, trial},
    vcenter::{Trigger, mirror::Awaiting},
};

/// What a decision leads to.
pub(super) enum Next {
    /// Machines are to be cloned, and what from is not known yet.
    Find,
    /// What is to be begun has to be written down first.
    Write,
    /// Nothing can be decided.
    Stuck(Trouble),
    /// What is to be done is queued.
    Ordered(Box<Turn>),
}

/// Plans from what is true now, and puts the plan's actions in place of the last one's.
///
/// Not so while what to clone from is still to be looked for: what is begun meanwhile would be missing from the plan that
/// follows, and nobody would be told of it.
pub(super) fn decide(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found, is_sought: bool) -> Next {
    let live = site.live;
    let now = Timestamp::now();
    let generation = group.metadata.generation.unwrap_or(0);
    let status = group.status.clone().unwrap_or_default();
    let mut works = live.works();
    let mut mirror = live.mirror();
    works.learn(&mut mirror, now);
    let key = (desired.namespace.clone(), desired.name.clone());
    let awaiting = Awaiting { key, uid: desired.uid.clone() };
    mirror.awaited.insert(names::folder(&desired.namespace, &desired.name), awaiting);
    let has_unknown_clones = mirror.has_unknown_clone(&live.user(), |task| works.is_known(task));
    let view = View {
        desired,
        readiness: group.spec.readiness,
        mirror: &mirror,
        base: &found.base.folder,
        cluster: &site.context.cluster,
        has_unknown_clones,
        marked: site.context.infos.marked(&desired.namespace, &desired.uid),
    };
    let memory = &mut works.group(&desired.uid).memory;
    memory.turn_to(generation);
    if let Err(bad) = memory.record.take_up(group) {
        works.withdraw(&desired.uid);
        return Next::Stuck(Trouble::Invalid(bad.to_string()));
    }
    let before = status.current_replicas.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let mut observed = memory.observe(&view, before, now);
    let incident = stop(&mut works, site, group, desired, &observed, now);
    observed.is_stopped = incident.is_some();
    let conflict = view.conflict().filter(|_| desired.deletion.is_none());
    let mut plan = match planned(desired, &observed, now) {
        Ok(plan) => plan,
        Err(bug) => {
            works.withdraw(&desired.uid);
            return Next::Stuck(bug);
        }
    };
    if conflict.is_some() {
        plan.actions.clear();
        plan.settled = false;
    }
    works.narrow(&desired.uid, &plan.actions);
    let memory = &mut works.group(&desired.uid).memory;
    memory.give_up(&plan, has_unknown_clones);
    if plan.settled {
        memory.forgive();
        memory.settled = Some(MadeOf::of(desired));
    }
    let is_clone = |action: &Action| action.cloned_slot().is_some();
    let clones = plan.actions.iter().any(is_clone);
    let is_known = found.source.is_some() && found.cloud_init.is_some();
    if clones && !is_known && !is_sought {
        return Next::Find;
    }
    let hosts = found.source.as_ref().filter(|_| clones);
    let hosts = hosts.map(|source| source.hosts.now(&mirror, &desired.uid, now)).transpose();
    let no_host = hosts.as_ref().err().cloned();
    let mut orders = plan.actions.clone();
    orders.retain(|action| is_known && no_host.is_none() || !is_clone(action));
    if !memory.record.announce(&orders, &observed.members) {
        return Next::Write;
    }
    let look_again = no_host.is_some().then(|| now + LOOK_AGAIN);
    let wake = [plan.wake, memory.wake(now), look_again].into_iter().flatten().min();
    let problems = memory.problems();
    let trouble = match (incident.as_ref(), conflict, trouble_with_unseen(desired, &observed, now)) {
        (Some(incident), ..) => Trouble::Stopped(incident.sentence()),
        (None, Some(conflict), _) => Trouble::Conflict(conflict),
        (None, None, Trouble::None) if let Some(no_host) = no_host => trouble_of(&no_host.into()),
        (None, None, Trouble::None) if !problems.is_empty() => Trouble::TasksFail(problems),
        (None, None, unseen) => unseen,
    };
    let instance = |id: &MachineId| Some((id.clone(), mirror.machines.get(&view::reference(id))?.instance.clone()?));
    let scene = Scene {
        live: Arc::clone(live),
        desired: desired.clone(),
        cluster: site.context.cluster.clone(),
        base: found.base.clone(),
        folder: act::folder(view.group_folder()),
        source: found.source.clone(),
        hosts: hosts.ok().flatten().unwrap_or_default(),
        cloud_init: found.cloud_init.clone().unwrap_or_default(),
        extra_config: group.spec.extra_config.clone(),
        incarnations: incarnations(&orders, memory.record.now()),
        instances: observed.unmarked.values().filter_map(instance).collect(),
    };
    works.order(scene, &orders, now);
    let incident = incident.map(|incident| incident.id);
    Next::Ordered(Box::new(Turn {
        plan,
        observed: Some(observed),
        trouble,
        wake: until(wake, now),
        incident,
        is_blind: false,
        instance: None,
    }))
}

/// Which machine each slot is to have that is cloned into.
fn incarnations(orders: &[Action], record: Option<&Record>) -> BTreeMap<Slot, Incarnation> {
    let slots = orders.iter().filter_map(Action::cloned_slot);
    slots.filter_map(|slot| Some((slot, record?.get(slot)?.incarnation))).collect()
}

/// Plans. It changes nothing, so a plan that panics harms no group but its own.
fn planned(desired: &Desired, observed: &Observed, now: Timestamp) -> Result<Plan, Trouble> {
    let planned = attempt(|| {
        trial::point(&format!("plan of {}/{}", desired.namespace, desired.name));
        plan(desired, observed, now)
    });
    planned.map_err(|bug| {
        Trouble::Invalid(format!(
            "nothing is done for this group, because Drover has a bug ({bug}): please report it with the group's manifest"
        ))
    })
}

/// Says whether everything that makes or destroys has to stop: for this group, or for all of its vCenter.
fn stop(
    works: &mut Works,
    site: &Site<'_>,
    group: &VmGroup,
    desired: &Desired,
    observed: &Observed,
    now: Timestamp,
) -> Option<Incident> {
    let remembered = group.status.as_ref().and_then(|status| status.incident.as_deref());
    let by_group: Vec<_> = group
        .annotations()
        .get(RELEASE_ANNOTATION)
        .map(|names| names.split(',').map(str::trim).collect())
        .unwrap_or_default();
    let by_vcenter = site.live.released();
    let by_vcenter: Vec<_> = by_vcenter.iter().map(String::as_str).collect();
    let memory = &mut works.group(&desired.uid).memory;
    if memory.settled != Some(MadeOf::of(desired)) {
        memory.settled = None;
    }
    if diary::was_settled(group) || remembered.is_some_and(is_of_outdated) && diary::is_current(group) {
        memory.settled = Some(MadeOf::of(desired));
    }
    // What was up to date and isn't any more, nobody has asked to be replaced.
    let is_explained = desired.deletion.is_some() || memory.settled != Some(MadeOf::of(desired));
    let unexplained = if is_explained { 0 } else { to_be_replaced(desired, observed, now) };
    let (members, missing) = memory.toll(&desired.uid);
    let released = by_group.iter().chain(&by_vcenter).copied().collect();
    let toll = Toll { name: &desired.uid, members, missing, unexplained, released, remembered };
    let own = memory.judge(&toll, now);
    let before = works.incident().map(|incident| incident.id.clone());
    let of_vcenter = site.live.remembered();
    let whole = works.judge(&site.live.name, by_vcenter, of_vcenter.as_deref().or(remembered), now);
    if whole.as_ref().map(|incident| &incident.id) != before.as_ref() {
        site.live.trigger(Trigger::VCenter(site.live.name.clone()));
    }
    let goes_on = whole.as_ref().is_some_and(|incident| by_group.contains(&incident.id.as_str()));
    works.group(&desired.uid).memory.goes_on = goes_on;
    own.or(whole.filter(|_| !goes_on))
}

/// How long to sleep. A little longer than asked for, so that the time has come when it is looked at.
fn until(wake: Option<Timestamp>, now: Timestamp) -> Duration {
    let wait = wake.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
    wait.map_or(RESYNC, |wait| (wait + Duration::from_millis(50)).min(RESYNC))
}
