//! A group that makes sense and is known to stay or to go, or a word why it isn't.

use drover_api::VmGroup;
use drover_core::{
    Timestamp,
    vmgroup::{DeletionPolicy, Desired, status},
};
use kube::{ResourceExt, runtime::controller::Action as Requeue};

use super::{
    FINALIZER, Request, Stop,
    kind::{self, Fate},
    report,
};
use crate::kube::finalizer;

/// A group that something can be planned for.
pub(super) struct Valid {
    pub desired: Desired,
    pub fate: Fate,
}

/// Says what a group means, once it has its finalizer.
pub(super) async fn validate(request: &Request<'_>) -> Result<Valid, Stop> {
    let Request { context, group, groups, .. } = request;
    if !finalizer::is_on(&group.metadata, FINALIZER) {
        let is_done = is_deleted(group) || finalizer::put_on(groups, &group.metadata, FINALIZER).await?;
        return Err(Stop::after_write(is_done));
    }
    let mut desired = match Desired::of(group) {
        Ok(desired) => desired,
        Err(invalid) => {
            context.vcenters.withdraw(&group.uid().unwrap_or_default());
            let status = status::invalid(group, &invalid, Timestamp::now());
            report::write(groups, &context.vmgroups.latest, group, status).await?;
            return Err(Stop::Early(Requeue::await_change()));
        }
    };
    let fate = if is_deleted(group) { kind::fate(context, group).await? } else { Fate::Stays };
    match &fate {
        Fate::Ends => desired.deletion = Some(DeletionPolicy::Retain),
        Fate::Unclear(left) => {
            // Nothing is done before that is known, nor what was planned before.
            context.vcenters.withdraw(&desired.uid);
            return Err(Stop::Early(Requeue::requeue(*left)));
        }
        Fate::Stays | Fate::Unknown(_) => {}
    }
    Ok(Valid { desired, fate })
}

/// Whether its user has deleted it.
pub(super) fn is_deleted(group: &VmGroup) -> bool {
    group.metadata.deletion_timestamp.is_some()
}
