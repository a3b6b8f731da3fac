//! The controller of groups. A reconcile is five verbs: dereference, validate, plan, act, report.

mod advance;
mod bar;
mod decide;
mod dereference;
mod disks;
mod finalizer;
mod foretell;
mod keys;
mod kind;
mod latest;
mod networks;
mod objection;
mod outcome;
mod preflight;
mod preview;
mod prospect;
mod reach;
mod record;
mod report;
mod reported;
mod run;
mod source;
mod take_over;
mod usable;
mod usage;

use std::{sync::Arc, time::Duration};

use drover_api::{VmGroup, VmGroupStatus};
use drover_core::{
    Timestamp, Trouble,
    vcenter::binding::NoVCenter,
    vmgroup::{DeletionPolicy, Desired, Folder, recorded::is_kept_of},
};
use kube::{Api, ResourceExt, runtime::controller::Action as Requeue};
use tracing::{info, warn};

use crate::{
    controllers::{Context, binding::Binding, reconcile::Error},
    kube::{events, guard::Unreadable, leadership::Mandate, shared_watch::backoff},
    telemetry::log::named,
};
pub(crate) use advance::foresee;
use advance::{Site, advance};
use dereference::LOOK_AGAIN;
pub(crate) use dereference::concern_defaults;
pub(crate) use disks::read_disks;
pub(crate) use foretell::{Foretold, foretell};
use kind::Fate;
use latest::Latest;
pub(crate) use objection::{Objection, objection};
use outcome::{Allowed, Outcome, blind, over, stuck};
pub(crate) use preflight::{Finding, preflight};
pub(crate) use preview::preview;
pub(crate) use prospect::Prospect;
pub(crate) use report::not_allowed_in;
use reported::Reported;
pub(crate) use run::run;
pub(crate) use source::Unusable;
pub(crate) use usable::usable;
pub(crate) use usage::quotas;

/// On a group that is being deleted and can't go on by itself: whatever is left of it in vCenter stays there.
const ABANDON: &str = "vm.codeconnect.vmworld.com/abandon";
/// How long to wait for a watch that doesn't know yet what another replica has written.
const BEHIND: Duration = Duration::from_millis(100);
/// After a write that met another, the watch brings what is there now, mostly before this.
const CONFLICT: Duration = Duration::from_millis(500);
/// What stands in the way for no longer than this may pass by itself, and is no reason to give anything up.
const PASSING: Duration = Duration::from_secs(10);
/// A group is planned again after this long, whatever was told. It costs vCenter nothing.
const RESYNC: Duration = Duration::from_mins(5);

/// What was last said and written of each group. All of it may be lost.
#[derive(Debug, Default)]
pub(super) struct Memory {
    reported: Reported,
    latest: Latest,
}

impl Memory {
    /// Takes note of a group that is there and not being deleted.
    pub(super) fn note_alive(&self, uid: &str) {
        self.reported.note_alive(uid);
    }

    /// Forgets the groups that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.reported.retain(is_there);
    }
}

/// Brings one group closer to what it declares, if that is for this replica to do.
pub(crate) async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let Some(mandate) = context.vcenters.mandate_for(&group) else {
        context.vcenters.withdraw(&group.uid().unwrap_or_default());
        return Ok(Requeue::await_change());
    };
    if mandate.is_behind(&group.metadata) {
        return Ok(Requeue::requeue(BEHIND));
    }
    let reconciled = mandate.during(Box::pin(reconcile_as(&mandate, group, context))).await;
    // Where the lease was lost, whoever gains it looks at everything.
    reconciled.unwrap_or_else(|| Ok(Requeue::await_change()))
}

async fn reconcile_as(mandate: &Mandate, group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let groups: Api<VmGroup> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let is_deleted = group.metadata.deletion_timestamp.is_some();
    if !finalizer::is_on(&group) {
        return Ok(after_write(is_deleted || finalizer::put_on(&groups, &group.metadata).await?));
    }
    let mut desired = match Desired::of(&group) {
        Ok(desired) => desired,
        Err(invalid) => {
            context.vcenters.withdraw(&group.uid().unwrap_or_default());
            report::write(&groups, &context.vmgroups.latest, &group, report::invalid(&group, &invalid)).await?;
            return Ok(Requeue::await_change());
        }
    };
    let fate = if is_deleted { kind::fate(&context, &group).await? } else { Fate::Stays };
    match &fate {
        Fate::Ends => desired.deletion = Some(DeletionPolicy::Retain),
        Fate::Unclear(left) => {
            // Nothing is done before that is known, nor what was planned before.
            context.vcenters.withdraw(&desired.uid);
            return Ok(Requeue::requeue(*left));
        }
        Fate::Stays | Fate::Unknown(_) => {}
    }
    let binding = context.vcenters.bind(&group, &context.cluster);
    let mut outcome = match &binding {
        _ if let Fate::Unknown(why) = &fate => stuck(unknown_fate(why), LOOK_AGAIN),
        Ok(Binding::Here(bound) | Binding::Leave(bound)) if fate == Fate::Ends => {
            let outcome = advance(&Site::new(&context, bound, &group, mandate), &group, &desired).await?;
            // Clones that are on their way are waited for, where they can be seen.
            if outcome.trouble == Trouble::None { outcome } else { over() }
        }
        // Its VCenter may be gone with the kind of that. Nothing is to be done there.
        _ if fate == Fate::Ends => over(),
        Ok(Binding::Here(bound)) => advance(&Site::new(&context, bound, &group, mandate), &group, &desired).await?,
        Ok(Binding::Settle(name)) => {
            return Ok(after_write(report::settle(&groups, &context.vmgroups.latest, &group, Some(name)).await?));
        }
        Ok(Binding::Leave(bound)) => {
            let leaving = Desired { deletion: Some(DeletionPolicy::Delete), ..desired.clone() };
            let outcome = advance(&Site::new(&context, bound, &group, mandate), &group, &leaving).await?;
            if outcome.is_over() {
                bound.live.retain_groups(|uid| uid != desired.uid);
                return Ok(after_write(report::settle(&groups, &context.vmgroups.latest, &group, None).await?));
            }
            outcome
        }
        // It was never at home anywhere, so nothing is left of it.
        Err(_) if desired.deletion.is_some() && was_nowhere(&group) => over(),
        Err(NoVCenter::NamespaceNotRead(_)) if context.vcenters.is_new() || is_new(&group) => blind(),
        Err(none) => stuck(homeless(none), RESYNC),
    };
    context.vcenters.metrics.planned(outcome.outcome());
    if outcome.observed.is_none() {
        // Nothing was planned, so nothing that was planned before is to be done.
        context.vcenters.withdraw(&desired.uid);
    }
    if let (Ok(Binding::Here(bound)), None, false) = (&binding, &outcome.observed, outcome.is_blind) {
        // What of it was missing is so for its vCenter too, until it is shown.
        bound.live.judge();
    }
    if outcome.is_blind {
        return Ok(Requeue::requeue(outcome.wake));
    }
    if desired.deletion.is_some() && outcome.is_over() {
        tell_what_stays(&context, &group, &outcome, &fate);
        return let_go(&context, &groups, &group).await;
    }
    let is_abandoned = is_deleted && is_abandoned(&group);
    if is_deleted && !is_abandoned {
        outcome.trouble = with_way_out(outcome.trouble);
    }
    let report_now = context.vmgroups.reported.report(&desired, &group, &mut outcome, mandate.epoch());
    events::tell(&context.kube, &*group, &report_now.news);
    if let Ok(Binding::Here(bound)) = &binding {
        context.vcenters.metrics.drifted(&bound.live.name, &report_now.drift);
    }
    if is_abandoned && !outcome.trouble.lets_abandon() {
        if context.vmgroups.reported.is_first_refusal(&desired.uid) {
            report::not_abandoned(&context.kube, &group, report_now.verdict.obstacle.as_ref(), outcome.plan.awaited);
        }
    } else if is_abandoned && context.vmgroups.reported.has_been_hindered(&group, PASSING) {
        // It can't go on by itself, and has said why for a while.
        report::abandoned(&context.kube, &group, &report_now.verdict.message);
        return let_go(&context, &groups, &group).await;
    } else if is_abandoned {
        outcome.wake = outcome.wake.min(PASSING);
    }
    let status = report::status(&group, &desired, &outcome, &report_now.verdict);
    if let Some(wait) = context.vmgroups.reported.wait_to_write(&group, &status) {
        return Ok(Requeue::requeue(wait.min(outcome.wake)));
    }
    report::write(&groups, &context.vmgroups.latest, &group, status).await?;
    keys::tell_kept(&context.kube, &group);
    report::tell_refusal(&context.kube, &group, &outcome);
    if let Ok(Binding::Here(bound) | Binding::Leave(bound)) = &binding {
        let kept = record::keep(&groups, &context.vmgroups.latest, &group, &bound.live, &desired.uid).await;
        // That it is refused is said, and nothing is begun meanwhile.
        let is_said = |error: &Error| error.is_refusal() && outcome.observed.is_none();
        kept.map(drop).or_else(|error| if is_said(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(Requeue::requeue(outcome.wake))
}

/// Tells what is left in vCenter of a group that goes.
fn tell_what_stays(context: &Context, group: &VmGroup, outcome: &Outcome, fate: &Fate) {
    if outcome.observed.as_ref().is_some_and(|observed| observed.folder == Folder::OccupiedUnseen) {
        report::folder_kept(&context.kube, group);
    }
    if *fate == Fate::Ends {
        report::vms_kept(&context.kube, group);
    }
}

/// What follows a write, which was done or has met another.
fn after_write(is_done: bool) -> Requeue {
    if is_done { Requeue::await_change() } else { Requeue::requeue(CONFLICT) }
}

/// Lets a group go that is being deleted: nothing is left to be done for it, or nothing is to be done any more.
async fn let_go(context: &Context, groups: &Api<VmGroup>, group: &VmGroup) -> Result<Requeue, Error> {
    if !finalizer::take_off(groups, &group.metadata).await? {
        return Ok(Requeue::requeue(CONFLICT));
    }
    info!(vmgroup = %named(group), "VmGroup deleted");
    let gone = group.uid().unwrap_or_default();
    context.retain_groups(|uid| uid != gone);
    Ok(Requeue::await_change())
}

/// A group can't be read, so nobody knows what it wants: nothing is begun for it. If it is being deleted, it can be given up.
pub(crate) fn cant_be_read(context: &Arc<Context>, group: &Unreadable) {
    context.vcenters.withdraw(group.metadata.uid.as_deref().unwrap_or_default());
    let is_given_up =
        group.metadata.annotations.as_ref().and_then(|all| all.get(ABANDON)).is_some_and(|it| it == "true");
    let general = context.vcenters.general_mandate();
    if let Some(mandate) = general.filter(|_| is_given_up && group.metadata.deletion_timestamp.is_some()) {
        let (context, metadata) = (Arc::clone(context), group.metadata.clone());
        tokio::spawn(async move {
            let groups = Api::namespaced(context.kube.clone(), metadata.namespace.as_deref().unwrap_or_default());
            for pause in backoff() {
                match mandate.during(finalizer::take_off(&groups, &metadata)).await {
                    // It has changed, and is told of anew; or it is another replica's to let go.
                    Some(Ok(_)) | None => return,
                    Some(Err(error)) => {
                        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
                        let vmgroup = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
                        warn!(%vmgroup, %error, "Finalizer not removed");
                    }
                }
                tokio::time::sleep(pause).await;
            }
        });
    }
}

/// Whether a group was made a moment ago.
fn is_new(group: &VmGroup) -> bool {
    let made = group.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| Timestamp::now().duration_since(made.0).as_secs() < 5)
}

fn unknown_fate(why: &str) -> Trouble {
    Trouble::FateUnknown(format!(
        "nothing is destroyed, because nobody knows whether the kind VmGroup is being deleted: {why}"
    ))
}

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.annotations().get(ABANDON).is_some_and(|value| value == "true")
}

/// Whether no vCenter has ever been written down as the group's.
fn was_nowhere(group: &VmGroup) -> bool {
    let is_empty = |status: &VmGroupStatus| status.vcenter.is_none() && status.current_replicas.unwrap_or(0) == 0;
    !is_kept_of(group) && group.status.as_ref().is_none_or(is_empty)
}

/// What stands in the way of a group that is being deleted, with what its user can do about it.
fn with_way_out(trouble: Trouble) -> Trouble {
    let add = |why: String| {
        if why.contains(ABANDON) {
            return why;
        }
        format!("{why}; to give the group up with all that is left of it in vCenter, annotate it with {ABANDON}=true")
    };
    match trouble {
        Trouble::VCenterAway(why) => Trouble::VCenterAway(add(why)),
        Trouble::NoVCenter(why) => Trouble::NoVCenter(add(why)),
        Trouble::FateUnknown(why) => Trouble::FateUnknown(add(why)),
        Trouble::Passing(trouble) => Trouble::Passing(Box::new(with_way_out(*trouble))),
        other => other,
    }
}

fn homeless(none: &NoVCenter) -> Trouble {
    match none {
        NoVCenter::Unusable(_) | NoVCenter::Unreadable => Trouble::VCenterAway(none.to_string()),
        NoVCenter::Moved { .. } => Trouble::Invalid(none.to_string()),
        _ => Trouble::NoVCenter(none.to_string()),
    }
}
