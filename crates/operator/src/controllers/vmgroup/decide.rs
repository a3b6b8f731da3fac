//! What to do next for a group, from what is declared, what is true in vCenter and what is under way, all at one moment.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use drover_api::{VmGroup, vmgroup::RELEASE_ANNOTATION};
use drover_core::{
    Action, Plan, Timestamp, Trouble,
    names::{self, Slot},
    plan,
    vcenter::brake::{Incident, Toll, is_of_outdated},
    vmgroup::{
        Desired, MachineId, Observed, Room,
        in_flight::{InFlight, replicas_before},
        outcome::{Allowed, Outcome, RESYNC},
        placement::NoHost,
        plan::trouble_with_unseen,
        record::{Incarnation, Record},
        recorded::Recorded,
        status::{is_current, was_settled},
        view::View,
    },
};
use kube::ResourceExt;
use vim25::{ManagedObject, refs::FolderRef};

use super::{
    Site,
    bar::bar,
    dereference::{awaiting, trouble_of},
    source::{Found, words},
    usage::Usage,
};
use crate::{
    loops::{attempt, trial},
    telemetry::traces,
    vcenter::{
        Trigger,
        executor::{Executor, OperationContext},
        inventory::{folder_id, machine_reference},
        mirror::Mirror,
    },
};

/// What a decision leads to.
pub(super) enum Next {
    /// Machines are to be cloned, or a folder is to be made for them, and what from is not known yet.
    Find,
    /// What is to be begun has to be written down first.
    Write,
    /// Nothing can be decided.
    Stuck(Trouble),
    /// What is to be done is queued.
    Ordered(Box<Outcome>),
}

/// Plans from what is true now, and puts the plan's actions in place of the last one's.
///
/// Not so while what to clone from is still to be looked for: what is begun meanwhile would be missing from the plan that
/// follows, and nobody would be told of it.
pub(super) fn decide(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found, is_sought: bool) -> Next {
    let live = site.live;
    let now = Timestamp::now();
    let mut executor = live.executor();
    let mut mirror = live.mirror();
    executor.learn(&mut mirror, now);
    let awaiting = awaiting(desired);
    mirror.awaited.folder(names::folder(&desired.namespace, &desired.name), awaiting.clone());
    let lag = executor.may_lag();
    let is_running = mirror.has_unknown_clone(&live.user(), |task| executor.is_known(task));
    // A group that goes ends only when all is known that another replica has begun for it.
    let has_unknown_clones = is_running || lag.is_some() && desired.deletion.is_some();
    let bar = bar(site, &mut mirror, found, &awaiting);
    let view = View {
        desired,
        readiness: group.spec.readiness,
        inventory: &*mirror,
        base: &folder_id(found.base.folder.reference()),
        cluster: &site.context.cluster,
        has_unknown_clones,
        marked: site.context.infos.marked(&desired.namespace, &desired.uid),
        room: bar.as_ref().map(|_| Room::NONE),
    };
    let in_flight = &mut executor.group(&desired.uid).in_flight;
    in_flight.turn_to(group.metadata.generation.unwrap_or(0));
    if let Err(bad) = in_flight.record.take_up(group, Instant::now()) {
        return withdraw(&mut executor, desired, Trouble::Invalid(bad.to_string()));
    }
    let mut observed = in_flight.observe(&view, replicas_before(group), now);
    let incident = stop(&mut executor, site, group, desired, &observed, now);
    observed.is_stopped = incident.is_some();
    let may_be_begun = executor.may_have_unknown_clones(is_running);
    let usage = site.quota.map(|terms| Usage::of(site, (terms, found), &mut executor, &mirror, desired, may_be_begun));
    let excess = usage.as_ref().and_then(|usage| usage.limit(desired, &mut observed, now));
    let conflict = view.conflict().filter(|_| desired.deletion.is_none());
    let plan = match planned(desired, &observed, conflict.as_deref(), now) {
        Ok(plan) => plan,
        Err(bug) => return withdraw(&mut executor, desired, bug),
    };
    executor.narrow(&desired.uid, &plan.actions, |context| is_as_declared(context, desired, usage.as_ref()));
    let in_flight = &mut executor.group(&desired.uid).in_flight;
    in_flight.give_up(&plan, has_unknown_clones || lag.is_some(), now);
    let over_quota = usage.as_ref().and_then(|usage| usage.obstacle(&plan));
    let look_for_room = usage.as_ref().and_then(|usage| usage.wake(&plan));
    let lacks_size = note_quota(&mut in_flight.record, usage, &plan, &observed, bar.is_some());
    if plan.settled {
        in_flight.forgive(desired);
    }
    let is_clone = |action: &Action| action.cloned_slot().is_some();
    let clones = plan.actions.iter().any(is_clone);
    let is_known = found.source.is_some() && found.cloud_init.is_some();
    let needs_source = |action: &Action| needs_source(action, desired, &observed);
    if (lacks_size || plan.actions.iter().any(needs_source)) && !is_known && !is_sought {
        return Next::Find;
    }
    let hosts = found.source.as_ref().filter(|_| clones).map(|source| &source.hosts);
    let hosts = hosts.map(|hosts| hosts.now(&mirror, &desired.marker_uid, now)).transpose();
    let no_host = hosts.as_ref().err().cloned();
    let mut orders = plan.actions.clone();
    orders.retain(|action| !needs_source(action) || is_known && (no_host.is_none() || !is_clone(action)));
    if !in_flight.record.announce(&orders, &observed.members) {
        return Next::Write;
    }
    let waits = [lag, look_for_room].map(|wait| wait.map(|wait| now + wait));
    let wake = [plan.wake, in_flight.wake(now)].into_iter().chain(waits).flatten().min();
    let waits_for_names = no_host.is_some() || plan.held_back > 0 && (found.is_refused() || bar.is_some());
    let unseen = trouble_with_unseen(desired, &observed, now);
    // What nothing waits for stands in nobody's way.
    let bar = bar.filter(|_| plan.held_back > 0);
    let trouble = trouble(incident.as_ref(), conflict, unseen, bar, no_host, in_flight, over_quota);
    let context = OperationContext {
        live: Arc::clone(live),
        mandate: site.mandate.clone(),
        desired: desired.clone(),
        cluster: site.context.cluster.clone(),
        base: found.base.clone(),
        folder: view.group_folder().map(|folder| FolderRef::new(&folder.0)),
        source: found.source.clone(),
        rules: site.rules.cloned(),
        hosts: hosts.ok().flatten().unwrap_or_default(),
        // It may hold passwords, and is kept no longer than it is needed.
        cloud_init: found.cloud_init.clone().filter(|_| orders.iter().any(is_clone)).unwrap_or_default(),
        extra_config: group.spec.extra_config.clone(),
        incarnations: incarnations(&orders, in_flight.record.now()),
        ordered_by: traces::current(),
        instances: instances(&observed, &mirror),
    };
    executor.order(context, &orders, now);
    executor.group(&desired.uid).note_planned(look_for_room.is_some(), found.source.as_ref());
    if waits_for_names {
        mirror.awaited.names(&awaiting, words(&site.spec));
    } else if !is_sought {
        mirror.awaited.found(&desired.uid);
    }
    Next::Ordered(Box::new(Outcome {
        plan,
        observed: Some(observed),
        trouble,
        wake: until(wake, now),
        incident: incident.map(|incident| incident.id),
        is_blind: false,
        instance: None,
        allowed: allowed(site, found, excess),
    }))
}

/// Takes back what the group has queued: nothing can be decided for it.
fn withdraw(executor: &mut Executor, desired: &Desired, trouble: Trouble) -> Next {
    executor.withdraw(&desired.uid);
    Next::Stuck(trouble)
}

/// Whether clones that were ordered take up what is declared now.
fn is_as_declared(context: &OperationContext, desired: &Desired, usage: Option<&Usage>) -> bool {
    context.desired.hardware == desired.hardware && usage.is_none_or(|usage| usage.has_disks_of(context))
}

/// Whether an action needs to know what VMs are made from. A folder for a group's first VMs is not made before it is known that there can be
/// any.
fn needs_source(action: &Action, desired: &Desired, observed: &Observed) -> bool {
    let is_first_folder = *action == Action::CreateFolder && observed.members.is_empty() && desired.replicas > 0;
    is_first_folder || action.cloned_slot().is_some()
}

/// Whether the group may use all that it names, where that is restricted, and its namespace may have all that it has.
fn allowed(site: &Site<'_>, found: &Found, excess: Option<String>) -> Allowed {
    let keys = &site.bad_keys;
    let reach = match (found.reach.clone(), &keys.tolerated) {
        (Some(Err(why)), Some(tolerated)) => Some(Err(format!("{why}. {tolerated}"))),
        (None | Some(Ok(())), Some(tolerated)) => Some(Err(tolerated.clone())),
        (reach, None) => reach,
    };
    let refused = keys.refused.clone().map_or(Ok(()), Err);
    Allowed::of(reach.map(|reach| reach.and(refused)), excess)
}

/// What stands in the group's way, the gravest first.
fn trouble(
    incident: Option<&Incident>,
    conflict: Option<String>,
    unseen: Trouble,
    bar: Option<String>,
    no_host: Option<NoHost>,
    in_flight: &InFlight,
    over_quota: Option<String>,
) -> Trouble {
    let (problems, needs_person) = (in_flight.problems(), in_flight.needs_person());
    match (incident, conflict, unseen) {
        (Some(incident), ..) => Trouble::Stopped(incident.sentence()),
        (None, Some(conflict), _) => Trouble::Conflict(conflict),
        (None, None, Trouble::None) if let Some(bar) = bar => Trouble::NotAllowed(bar),
        (None, None, Trouble::None) if let Some(no_host) = no_host => trouble_of(&no_host.into()),
        (None, None, Trouble::None) if !problems.is_empty() && needs_person => Trouble::TasksFail(problems),
        (None, None, Trouble::None) if !problems.is_empty() => Trouble::Passing(Box::new(Trouble::TasksFail(problems))),
        (None, None, Trouble::None) if let Some(over_quota) = over_quota => {
            Trouble::Passing(Box::new(Trouble::OverQuota(over_quota)))
        }
        (None, None, unseen) => unseen,
    }
}

/// Takes up what a plan means for the quota of its namespace, if there is one. Where there is none any more, what was asked for stands
/// until all of it is there. Says whether something waits to be known how large.
fn note_quota(
    recorded: &mut Recorded,
    usage: Option<Usage>,
    plan: &Plan,
    observed: &Observed,
    is_refused: bool,
) -> bool {
    let lacks_size = usage.as_ref().is_some_and(|usage| usage.lacks_size(plan, is_refused));
    let Some(record) = recorded.roll.record_mut() else { return lacks_size };
    match usage {
        Some(usage) => usage.reserve(record, plan, observed, is_refused),
        None if plan.settled => record.ask(None),
        None => {}
    }
    lacks_size
}

/// The instance UUIDs of members whose markers don't have them.
fn instances(observed: &Observed, mirror: &Mirror) -> BTreeMap<MachineId, String> {
    let instance = |id: &MachineId| Some((id.clone(), mirror.machines.get(&machine_reference(id))?.instance.clone()?));
    observed.unmarked.values().filter_map(instance).collect()
}

/// Which machine each slot is to have that is cloned into.
fn incarnations(orders: &[Action], record: Option<&Record>) -> BTreeMap<Slot, Incarnation> {
    let slots = orders.iter().filter_map(Action::cloned_slot);
    slots.filter_map(|slot| Some((slot, record?.get(slot)?.incarnation))).collect()
}

/// Plans, and leaves everything as it is where the group's folder is another's. It changes nothing, so a plan that panics harms no group but
/// its own.
fn planned(desired: &Desired, observed: &Observed, conflict: Option<&str>, now: Timestamp) -> Result<Plan, Trouble> {
    let planned = attempt(|| {
        trial::point(&format!("plan of {}/{}", desired.namespace, desired.name));
        plan(desired, observed, now)
    });
    let idle = |plan| if conflict.is_some() { Plan { actions: Vec::new(), settled: false, ..plan } } else { plan };
    planned.map(idle).map_err(|bug| {
        Trouble::Invalid(format!(
            "nothing is done for this group, because Drover has a bug ({bug}): please report it with the group's manifest"
        ))
    })
}

/// Says whether everything that makes or destroys has to stop: for this group, or for all of its vCenter.
fn stop(
    executor: &mut Executor,
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
    let by_vcenter = executor.released().to_vec();
    let in_flight = &mut executor.group(&desired.uid).in_flight;
    let was_settled = was_settled(group) || remembered.is_some_and(is_of_outdated) && is_current(group);
    let unexplained = in_flight.unexplained(desired, observed, was_settled, now);
    let (members, missing) = in_flight.toll(&desired.uid);
    let released = by_group.iter().copied().chain(by_vcenter.iter().map(String::as_str)).collect();
    let toll = Toll { name: &desired.uid, members, missing, unexplained, released, remembered };
    let own = in_flight.judge(&toll, now);
    let before = executor.incident().map(|incident| incident.id.clone());
    let whole = executor.judge(&site.live.name, remembered, now);
    if whole.as_ref().map(|incident| &incident.id) != before.as_ref() {
        site.live.trigger(Trigger::VCenter(site.live.name.clone()));
    }
    let goes_on = whole.as_ref().is_some_and(|incident| by_group.contains(&incident.id.as_str()));
    executor.group(&desired.uid).in_flight.goes_on = goes_on;
    own.or(whole.filter(|_| !goes_on))
}

/// How long to sleep. A little longer than asked for, so that the time has come when it is looked at.
fn until(wake: Option<Timestamp>, now: Timestamp) -> Duration {
    let wait = wake.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
    wait.map_or(RESYNC, |wait| (wait + Duration::from_millis(50)).min(RESYNC))
}
