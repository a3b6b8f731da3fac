//! What a change of a group would do to its VMs, told before it is made, from what is known here: nothing is asked of vCenter.

use std::time::Instant;

use drover_api::VmGroup;
use drover_core::{
    Timestamp,
    vmgroup::{
        Desired, FolderId, Observed, Room,
        in_flight::observe_anew,
        plan::{Impact, impact},
        recorded::is_kept_of,
        take_over::Inheritance,
        view::View,
    },
};
use kube::ResourceExt;

use super::{prospect::Prospect, take_over};
use crate::{
    controllers::{
        Context,
        binding::{Binding, BoundVCenter},
    },
    vcenter::{
        inventory::{folder_id, folder_reference},
        mirror::Mirror,
    },
};

/// What can be said of a change.
pub(crate) enum Foretold {
    /// What is done to VMs, and what would wait for room.
    Impact(Impact, Option<String>),
    /// It can't be known, or it makes no sense.
    Words(String),
}

/// Says what would be done for a group, whose spec is that of the change and whose status is as it stands, with so much room.
pub(crate) fn foretell(context: &Context, group: &VmGroup, room: Option<Room>) -> Foretold {
    let mut desired = match Desired::of(group) {
        Ok(desired) => desired,
        Err(invalid) => return Foretold::Words(invalid.to_string()),
    };
    let now = Timestamp::now();
    let bound = match context.vcenters.bind(group, &context.cluster) {
        Ok(Binding::Here(bound)) => bound,
        // It is nowhere yet, or has nothing where it was.
        Ok(Binding::Settle(_) | Binding::Leave(_)) => {
            let bound = context.vcenters.choose(&desired.namespace, group.spec.vcenter.as_deref());
            let bound = bound.ok().filter(|bound| bound.live.is_in_sight());
            let place = bound.as_ref().map(|bound| (bound, bound.live.mirror()));
            let place = place.as_ref().map(|(bound, mirror)| (*bound, &**mirror));
            return with_room(context, place, &desired, Observed { room, ..Observed::default() }, now);
        }
        Err(none) => return Foretold::Words(none.to_string()),
    };
    if bound.live.away().is_some() || !bound.live.is_in_sight() {
        return Foretold::Words("vCenter is not connected: what this does to VMs is not known".to_owned());
    }
    let mirror = bound.live.mirror();
    match take_over::look(group, &desired, &mirror, &context.cluster) {
        Inheritance::TakeOver(uid) => desired.marker_uid = uid,
        Inheritance::Unclear(why) => return Foretold::Words(why),
        Inheritance::Settled => {}
    }
    let Some(base) = base(group, &mirror) else {
        if is_kept_of(group) {
            // Its folder may be hidden, and with it all that is in there.
            return Foretold::Words("the VmGroup's folder is not seen: what this does to VMs is not known".to_owned());
        }
        let nothing = Observed { room, ..Observed::default() };
        return with_room(context, Some((&bound, &mirror)), &desired, nothing, now);
    };
    let view = View {
        desired: &desired,
        readiness: group.spec.readiness,
        inventory: &*mirror,
        base: &base,
        cluster: &context.cluster,
        has_unknown_clones: false,
        marked: context.infos.marked(&desired.namespace, &group.uid().unwrap_or_default()),
        room,
    };
    let observed = observe_anew(group, &view, Instant::now(), now);
    with_room(context, Some((&bound, &mirror)), &desired, observed, now)
}

/// What is done for a group with the room that its namespace's quota leaves it.
fn with_room(
    context: &Context,
    place: Option<(&BoundVCenter, &Mirror)>,
    desired: &Desired,
    mut observed: Observed,
    now: Timestamp,
) -> Foretold {
    let groups = || context.groups.store.state();
    let waiting =
        place.filter(|(bound, _)| bound.quota.is_some() && desired.deletion.is_none()).and_then(|(bound, mirror)| {
            let groups = groups();
            let groups = groups.iter().map(|group| &**group);
            // Without asking vCenter, its template is known by what was made from it.
            let storage = observed.members.iter().map(|member| member.storage_mib).max().unwrap_or(0);
            let own = Some((desired, storage));
            let prospect = Prospect::of(bound, mirror, &context.cluster, &desired.namespace, groups, own)?;
            prospect.limit(desired, &mut observed, now)
        });
    Foretold::Impact(impact(desired, &observed, now), waiting)
}

/// The folder that the group's own folder is in, by its record. `None`: it has none yet.
fn base(group: &VmGroup, mirror: &Mirror) -> Option<FolderId> {
    let folder = group.status.as_ref()?.record.as_ref()?.folder.as_ref()?;
    let folder = folder_reference(&FolderId(folder.clone()));
    mirror.folders.get(&folder)?.parent.as_ref().map(folder_id)
}
