//! The end of a group that is being deleted: nothing is left of it in vCenter, or its user gives up what is.

use std::time::Duration;

use drover_api::VmGroup;
use drover_core::{Trouble, vmgroup::Folder};
use kube::{ResourceExt, runtime::controller::Action as Requeue};
use tracing::info;

use super::{
    ABANDON, CONFLICT, Outcome, Request, Stop, finalizer,
    kind::Fate,
    report,
    reported::Report,
    validate::{Valid, is_deleted},
};
use crate::{controllers::Context, telemetry::log::named};

/// What stands in the way for no longer than this may pass by itself, and is no reason to give anything up.
const PASSING: Duration = Duration::from_secs(10);

/// Ends a group of which nothing is left to be done. To another that is being deleted, it says what its user can do about what stands in
/// the way.
pub(super) async fn end(request: &Request<'_>, valid: &Valid, mut outcome: Outcome) -> Result<Outcome, Stop> {
    if valid.desired.deletion.is_some() && outcome.is_over() {
        tell_what_stays(request.context, request.group, &outcome, &valid.fate);
        return Err(Stop::Early(let_go(request).await?));
    }
    if is_deleted(request.group) && !is_abandoned(request.group) {
        outcome.trouble = with_way_out(outcome.trouble);
    }
    Ok(outcome)
}

/// What becomes of a group that its user wants to give up: it is, once something has stood in its way for a while.
pub(super) async fn abandon(request: &Request<'_>, said: &Report, outcome: &mut Outcome) -> Result<(), Stop> {
    let Request { context, group, .. } = request;
    if !(is_deleted(group) && is_abandoned(group)) {
        return Ok(());
    }
    let reported = &context.vmgroups.reported;
    if !outcome.trouble.lets_abandon() {
        if reported.is_first_refusal(&group.uid().unwrap_or_default()) {
            report::not_abandoned(&context.kube, group, said.verdict.obstacle.as_ref(), outcome.plan.awaited);
        }
    } else if reported.has_been_hindered(group, PASSING) {
        // It can't go on by itself, and has said why for a while.
        report::abandoned(&context.kube, group, &said.verdict.message);
        return Err(Stop::Early(let_go(request).await?));
    } else {
        outcome.wake = outcome.wake.min(PASSING);
    }
    Ok(())
}

/// Lets a group go that is being deleted: nothing is left to be done for it, or nothing is to be done any more.
pub(super) async fn let_go(request: &Request<'_>) -> Result<Requeue, Stop> {
    let Request { context, group, groups, .. } = request;
    if !finalizer::take_off(groups, &group.metadata).await? {
        return Ok(Requeue::requeue(CONFLICT));
    }
    info!(vmgroup = %named(*group), "VmGroup deleted");
    let gone = group.uid().unwrap_or_default();
    context.retain_groups(|uid| uid != gone);
    Ok(Requeue::await_change())
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

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.annotations().get(ABANDON).is_some_and(|value| value == "true")
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
