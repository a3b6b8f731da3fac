//! What would be done for a group, without doing any of it.

use std::collections::BTreeSet;

use drover_api::VmGroup;
use drover_core::{
    Action, forecast,
    group::{Desired, Member, Timestamp},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use super::{
    memory::Memory,
    source::{self, Unusable},
    view::View,
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
    // What a clone needs has to be there too.
    source::source(live, &base, None, &spec).await?;
    source::cloud_init(secrets, &spec).await?;
    let now = Timestamp::now();
    let mirror = live.mirror();
    let view = View {
        desired,
        readiness: group.spec.readiness,
        mirror: &mirror,
        base: &base.folder,
        cluster,
        marked,
        has_unknown_clones: mirror.running.values().any(|running| running.is_clone),
    };
    let mut memory = Memory::default();
    // One that makes no sense is the operator's to complain of.
    let _ = memory.record.take_up(group);
    let before = group.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
    let observed = memory.observe(&view, u32::try_from(before).unwrap_or(0), now);
    let actions = forecast(desired, &observed, now);
    Ok(Preview { members: observed.members, actions })
}
