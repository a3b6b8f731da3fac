//! What to do next for a group, from what is declared, what is true in vCenter and what is under way, all at one moment.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use drover_api::VmGroup;
use drover_core::{
    Action, Plan, Timestamp, Trouble,
    names::{self, Slot},
    vcenter::brake::Incident,
    vmgroup::{
        Desired, MachineId, Observed, Room,
        in_flight::{Order, SourceState, needs_source, plan_unless, released_by},
        outcome::{Allowed, Outcome, RESYNC},
        plan::trouble_with_unseen,
        record::{Incarnation, Record},
        recorded::Recorded,
        trouble::Obstacles,
        view::View,
    },
};
use vim25::{ManagedObject, refs::FolderRef};

use super::{
    Site,
    bar::bar,
    dereference::{awaiting, trouble_of},
    macs,
    source::{Found, Unusable, words},
    usage::Usage,
};
use crate::{
    loops::{attempt, trial},
    telemetry::traces,
    vcenter::{
        Trigger,
        awaited::Awaiting,
        executor::{Executor, OperationContext},
        inventory::{folder_id, machine_reference},
        mirror::Mirror,
        source::CloudInit,
    },
};

/// What a decision leads to.
pub(super) enum Next {
    /// Machines are to be cloned, and what their guests are told is not read yet.
    ReadCloudInit,
    /// What is to be begun has to be written down first.
    Write,
    /// Nothing can be decided.
    Stuck(Trouble),
    /// What is to be done is queued. `needs_source`: something of it needs to know what VMs are made from.
    Ordered { outcome: Box<Outcome>, needs_source: bool },
}

/// Plans from what is true now, and puts the plan's actions in place of the last one's.
///
/// Not so while what guests are told is still to be read: what is begun meanwhile would be missing from the plan that follows, and
/// nobody would be told of it.
pub(super) fn decide(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found) -> Next {
    let live = site.live;
    let now = Timestamp::now();
    let mut executor = live.executor();
    let mut mirror = live.mirror();
    executor.learn(&mut mirror, now);
    let awaiting = awaiting(desired);
    mirror.awaited.folder(names::folder(&desired.namespace, &desired.name), awaiting.clone());
    let lag = executor.may_lag();
    let is_running = mirror.tasks.has_unknown_clone(&live.user(), |task| executor.is_known(task));
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
    let looked = executor.group(&desired.uid).in_flight.look(group, &view, Instant::now(), now);
    let mut observed = match looked {
        Ok(observed) => observed,
        Err(bad) => return withdraw(&mut executor, desired, Trouble::Invalid(bad.to_string())),
    };
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
    macs::choose(&mut executor, &mirror, desired, &plan);
    let in_flight = &mut executor.group(&desired.uid).in_flight;
    in_flight.note_plan(desired, &plan, has_unknown_clones || lag.is_some(), now);
    let over_quota = usage.as_ref().and_then(|usage| usage.obstacle(&plan));
    let look_for_room = usage.as_ref().and_then(|usage| usage.wake(&plan));
    let lacks_size = note_quota(&mut in_flight.record, usage, &plan, &observed, bar.is_some());
    let is_clone = |action: &Action| action.cloned_slot().is_some();
    let needs_source = lacks_size || needs_source(&plan, desired, &observed);
    let hosts = found.source.as_ref().ok().filter(|_| plan.actions.iter().any(is_clone)).map(|source| &source.hosts);
    let hosts = hosts.map(|hosts| hosts.now(&mirror, &desired.marker_uid, now)).transpose();
    let no_host = hosts.as_ref().err().cloned();
    let orders = match in_flight.order(desired, &observed, &plan, source_state(found, no_host.is_some())) {
        Order::Read => return Next::ReadCloudInit,
        Order::Write => return Next::Write,
        Order::Actions(orders) => orders,
    };
    let waits = [lag, look_for_room].map(|wait| wait.map(|wait| now + wait));
    let wake = [plan.wake, in_flight.wake(now)].into_iter().chain(waits).flatten().min();
    let waits_for_names = no_host.is_some() || plan.held_back > 0 && (found.is_refused() || bar.is_some());
    let trouble = Obstacles {
        incident: incident.as_ref().map(Incident::sentence),
        conflict,
        unseen: trouble_with_unseen(desired, &observed, now),
        // What nothing waits for stands in nobody's way.
        not_allowed: bar.filter(|_| plan.held_back > 0),
        no_host: no_host.map(|no_host| trouble_of(&no_host.into())),
        failing: in_flight.problems(),
        needs_person: in_flight.needs_person(),
        over_quota,
    }
    .gravest();
    let context = OperationContext {
        live: Arc::clone(live),
        mandate: site.mandate.clone(),
        desired: desired.clone(),
        cluster: site.context.cluster.clone(),
        base: found.base.clone(),
        folder: view.group_folder().map(|folder| FolderRef::new(&folder.0)),
        source: found.source.as_ref().ok().cloned(),
        rules: site.rules.cloned(),
        hosts: hosts.ok().flatten().unwrap_or_default(),
        // It may hold passwords, and is kept no longer than it is needed.
        cloud_init: told(found).filter(|_| orders.iter().any(is_clone)).unwrap_or_default(),
        extra_config: group.spec.extra_config.clone(),
        incarnations: incarnations(&orders, in_flight.record.now()),
        macs: in_flight.record.now().map(|record| record.macs().clone()).unwrap_or_default(),
        ordered_by: traces::current(),
        instances: instances(&observed, &mirror),
    };
    executor.order(context, &orders, now);
    executor.group(&desired.uid).note_planned(look_for_room.is_some(), found.source.as_ref().ok());
    let unusable = found.unusable().filter(|_| needs_source);
    await_names(site, &mut mirror, &awaiting, (found, unusable), waits_for_names || unusable.is_some());
    let outcome = Box::new(Outcome {
        plan,
        observed: Some(observed),
        trouble,
        wake: until(wake, now),
        incident: incident.map(|incident| incident.id),
        is_blind: false,
        instance: None,
        allowed: allowed(site, found, excess),
    });
    Next::Ordered { outcome, needs_source }
}

/// Has the group told when what it names may be usable, if it waits for that, and has its template read, if it waits for that.
fn await_names(
    site: &Site<'_>,
    mirror: &mut Mirror,
    awaiting: &Awaiting,
    (found, unusable): (&Found, Option<&Unusable>),
    waits: bool,
) {
    if !waits {
        return mirror.awaited.found(&awaiting.uid);
    }
    mirror.awaited.names(awaiting, words(&site.spec));
    if let (Some(Unusable::Unread(..)), Some(template)) = (unusable, found.template()) {
        mirror.templates.want(template);
        site.live.want_templates();
    }
}

/// What guests are told, if that is known.
fn told(found: &Found) -> Option<CloudInit> {
    found.cloud_init.as_ref()?.as_ref().ok().cloned()
}

/// Takes back what the group has queued: nothing can be decided for it.
fn withdraw(executor: &mut Executor, desired: &Desired, trouble: Trouble) -> Next {
    executor.withdraw(&desired.uid);
    Next::Stuck(trouble)
}

fn source_state(found: &Found, lacks_host: bool) -> SourceState {
    match (&found.source, &found.cloud_init) {
        (Err(_), _) | (Ok(_), Some(Err(_))) => SourceState::Unusable,
        (Ok(_), None) => SourceState::Unread,
        (Ok(_), Some(Ok(_))) if lacks_host => SourceState::NoHost,
        (Ok(_), Some(Ok(_))) => SourceState::Known,
    }
}

/// Whether clones that were ordered take up what is declared now.
fn is_as_declared(context: &OperationContext, desired: &Desired, usage: Option<&Usage>) -> bool {
    context.desired.hardware == desired.hardware && usage.is_none_or(|usage| usage.has_disks_of(context))
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
    let Some(record) = recorded.membership.record_mut() else { return lacks_size };
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

/// Plans. That changes nothing, so a plan that panics harms no group but its own.
fn planned(desired: &Desired, observed: &Observed, conflict: Option<&str>, now: Timestamp) -> Result<Plan, Trouble> {
    let planned = attempt(|| {
        trial::point(&format!("plan of {}/{}", desired.namespace, desired.name));
        plan_unless(conflict, desired, observed, now)
    });
    planned.map_err(|bug| {
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
    let released = executor.released().to_vec();
    let own = executor.group(&desired.uid).in_flight.judge_group(group, desired, observed, &released, now);
    let remembered = group.status.as_ref().and_then(|status| status.incident.as_deref());
    let before = executor.incident().map(|incident| incident.id.clone());
    let whole = executor.judge(&site.live.name, remembered, now);
    if whole.as_ref().map(|incident| &incident.id) != before.as_ref() {
        site.live.trigger(Trigger::VCenter(site.live.name.clone()));
    }
    let goes_on = whole.as_ref().is_some_and(|incident| released_by(group).contains(&incident.id.as_str()));
    executor.group(&desired.uid).in_flight.goes_on = goes_on;
    own.or(whole.filter(|_| !goes_on))
}

/// How long to sleep. A little longer than asked for, so that the time has come when it is looked at.
fn until(wake: Option<Timestamp>, now: Timestamp) -> Duration {
    let wait = wake.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
    wait.map_or(RESYNC, |wait| (wait + Duration::from_millis(50)).min(RESYNC))
}
