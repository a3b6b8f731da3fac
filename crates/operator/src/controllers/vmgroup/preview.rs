//! What would be done for a group, without doing any of it.

use std::{collections::BTreeSet, time::Instant};

use drover_api::VmGroup;
use drover_core::{
    Action, Timestamp, forecast, plan,
    tenancy::cloud_init,
    vmgroup::{Desired, Member, Room, in_flight::observe_anew, take_over::Inheritance, view::View},
};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use vim25::ManagedObject;

use super::{
    keys,
    prospect::Prospect,
    reach,
    source::{self, Unusable},
    take_over,
};
use crate::{
    controllers::binding::BoundVCenter,
    vcenter::{
        inventory::folder_id,
        source::{Source, why_not_cloned},
        templates::read_at_once,
    },
};

/// What would be done.
pub(crate) struct Preview {
    /// The machines that are there now.
    pub members: Vec<Member>,
    /// What would be done to them, in order.
    pub actions: Vec<Action>,
    /// What would wait for the quota of the namespace.
    pub waiting: Option<String>,
}

/// Looks for all that the spec names, as the operator would, and foresees the rest. `groups` are those of the namespace.
pub(crate) async fn preview(
    bound: &BoundVCenter,
    secrets: Option<&Api<Secret>>,
    cluster: &str,
    marked: BTreeSet<String>,
    group: &VmGroup,
    desired: &Desired,
    groups: &[VmGroup],
) -> Result<Preview, Unusable> {
    let spec = source::with_defaults(&group.spec, &bound.defaults);
    let live = &bound.live;
    let choice = reach::enforced(bound, &spec)?;
    let base = match &choice {
        Some(choice) => choice.base.clone(),
        None => source::base(&live.mirror(), &spec.placement)?,
    };
    // What a clone needs has to be there too.
    let template = match &choice {
        Some(choice) => choice.template.clone(),
        None => source::find_template(&live.mirror(), &base, &spec.template)?,
    };
    read_at_once(live, &template).await;
    let Source { make, .. } = source::source(&live.mirror(), &base, Some(template.clone()), choice.as_ref(), &spec)?;
    source::cloud_init(secrets, &spec, cloud_init::reach(bound.rules.as_deref())).await?;
    let now = Timestamp::now();
    let mirror = live.mirror();
    let mut desired = desired.clone();
    match take_over::look(group, &desired, &mirror, cluster) {
        Inheritance::TakeOver(uid) => desired.marker_uid = uid,
        Inheritance::Unclear(why) => return Err(Unusable::Unclear(why)),
        Inheritance::Settled => {}
    }
    let desired = &desired;
    let bar = keys::judge(bound, group).refused.or_else(|| why_not_cloned(&mirror, &template, &spec.template));
    let view = View {
        desired,
        readiness: group.spec.readiness,
        inventory: &*mirror,
        base: &folder_id(base.folder.reference()),
        cluster,
        marked,
        room: bar.as_ref().map(|_| Room::NONE),
        has_unknown_clones: mirror.tasks.bring_vms(),
    };
    let mut observed = observe_anew(group, &view, Instant::now(), now);
    if let Some(bar) = bar.filter(|_| plan(desired, &observed, now).held_back > 0) {
        return Err(Unusable::NotAllowed(bar));
    }
    let prospect = Prospect::of(bound, &mirror, cluster, &desired.namespace, groups, Some((desired, make.storage_mib)));
    let waiting = prospect.and_then(|prospect| prospect.limit(desired, &mut observed, now));
    let actions = forecast(desired, &observed, now);
    Ok(Preview { members: observed.members, actions, waiting })
}
