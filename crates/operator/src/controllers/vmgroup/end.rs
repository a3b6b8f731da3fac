//! The end of a group that is being deleted: nothing is left of it in vCenter, or its user gives up what is.

use drover_core::vmgroup::{outcome::Outcome, report::farewell};
use kube::{ResourceExt, runtime::controller::Action as Requeue};
use tracing::info;

use super::{CONFLICT, FINALIZER, Request, Stop, kind::Fate, validate::Valid};
use crate::{kube::finalizer, telemetry::log::named};

/// Ends a group of which nothing is left to be done.
pub(super) async fn end(request: &Request<'_>, valid: &Valid, outcome: Outcome) -> Result<Outcome, Stop> {
    if valid.desired.deletion.is_none() || !outcome.is_over() {
        return Ok(outcome);
    }
    request.context.events.tell(request.group, &farewell(&outcome, valid.fate == Fate::Ends));
    Err(Stop::Early(let_go(request).await?))
}

/// Lets a group go that is being deleted: nothing is left to be done for it, or nothing is to be done any more.
pub(super) async fn let_go(request: &Request<'_>) -> Result<Requeue, Stop> {
    let Request { context, group, groups, .. } = request;
    // What was just written of its status, the watch may not have told yet. What a user has changed since was not decided upon.
    let latest = context.vmgroups.latest.of(group);
    let (known, now) = (&group.metadata, &latest.metadata);
    let is_same = known.generation == now.generation && known.annotations == now.annotations;
    if !finalizer::take_off(groups, if is_same { now } else { known }, FINALIZER).await? {
        return Ok(Requeue::requeue(CONFLICT));
    }
    info!(vmgroup = %named(*group), "VmGroup deleted");
    let gone = group.uid().unwrap_or_default();
    context.retain_groups(|uid| uid != gone);
    Ok(Requeue::await_change())
}
