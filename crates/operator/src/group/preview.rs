//! What would be done for a group, without doing any of it.

use std::collections::BTreeSet;

use drover_api::VmGroup;
use drover_core::{
    Action, forecast,
    group::{Desired, Member, Timestamp},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vim25::ManagedObject;

use super::{
    memory::{Memory, View},
    source::{self, Unusable},
};
use crate::fleet::Seat;

/// What would be done.
pub(crate) struct Preview {
    /// The machines that are there now.
    pub members: Vec<Member>,
    /// What would be done to them, in order.
    pub actions: Vec<Action>,
}

/// Looks for all that the spec names, as the operator would, and foresees the rest.
pub(crate) async fn preview(
    seat: &Seat,
    secrets: Option<&Api<Secret>>,
    cluster: &str,
    marked: BTreeSet<String>,
    group: &VmGroup,
    desired: &Desired,
) -> Result<Preview, Unusable> {
    let spec = source::with_defaults(&group.spec, &seat.defaults);
    let live = &seat.live;
    let base = source::base(&live.inventory, &spec.placement).await?;
    let source = source::source(live, secrets, &base, None, &spec).await?;
    let now = Timestamp::now();
    let mirror = live.mirror();
    let template = Some(source.template.reference());
    let view = View {
        desired,
        readiness: group.spec.readiness,
        mirror: &mirror,
        base: &base.folder,
        cluster,
        marked,
        unknown_clones: mirror.running.values().any(|entity| Some(entity) == template),
    };
    let observed = Memory::default().observe(&view, now);
    let actions = forecast(desired, &observed, now);
    Ok(Preview { members: observed.members, actions })
}
