//! What a group names, found in the mirror each time that it is planned for. Only what guests are told in Secrets is read from elsewhere, when
//! there is something to clone.

use std::{sync::Arc, time::Duration};

use drover_api::{VmGroup, vmgroup::Placement};
use drover_core::{
    Trouble, names,
    tenancy::rules::Rules,
    vmgroup::{Desired, outcome::RESYNC},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use vim25::{Error, ManagedObject, ManagedObjectReference, refs::FolderRef};

use super::{
    Site, reach,
    source::{self, Found, Unusable, words},
};
use crate::vcenter::{
    VCenterHandle,
    awaited::Awaiting,
    privileges::Whose,
    source::{Base, CloudInit},
    templates::Unread,
};

/// When something is looked at again that nothing tells of.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// And after ever longer, if it is still the same.
const LONGEST: Duration = Duration::from_mins(1);

/// What the spec names, by what vCenter has told. Where something isn't there or may not be used, the group is told when that may have
/// changed.
pub(super) fn dereference(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Result<Found, Unusable> {
    if desired.deletion.is_some()
        && let Some(base) = recorded_base(site, group, desired)
    {
        // Its VMs and its folder go from where they are. What the spec names by now need not be there.
        return Ok(take_up(site, desired, Found::at(base, &site.spec)));
    }
    let rules = site.rules.filter(|rules| rules.is_enforced());
    // One that goes and may have VMs left is looked for where its spec says. One that has none learns and ends nothing there.
    if let Some(rules) = rules.filter(|_| desired.deletion.is_none() || !site.has_members(group)) {
        return choose(site, group, desired, rules);
    }
    let found = {
        let mut mirror = site.live.mirror();
        let base = source::base(&mirror, &site.spec.placement);
        if base.is_err() {
            mirror.awaited.names(&awaiting(desired), words(&site.spec));
        }
        let base = base?;
        let template = source::find_template(&mirror, &base, &site.spec.template).ok();
        let judge = |rules: &Arc<Rules>| {
            let choice = reach::choose(&mirror, rules, &site.spec, site.defaults);
            choice.map(drop).map_err(|refusal| format!("would be refused: {}", refusal.why))
        };
        let reach = site.rules.map(judge);
        let source = source::source(&mirror, &base, template.clone(), None, &site.spec);
        if source.is_err() {
            // Whatever changes from now on, it is told: it may be so before the group is planned for.
            mirror.awaited.names(&awaiting(desired), words(&site.spec));
        }
        Found { template, source, reach, ..Found::at(base, &site.spec) }
    };
    Ok(take_up(site, desired, found))
}

/// The group, as one that waits for something.
pub(super) fn awaiting(desired: &Desired) -> Awaiting {
    Awaiting { key: (desired.namespace.clone(), desired.name.clone()), uid: desired.uid.clone() }
}

/// Notes where rights are needed for what was found.
fn take_up(site: &Site<'_>, desired: &Desired, found: Found) -> Found {
    let whose = Whose::Group(desired.uid.clone());
    source::forget_unnamed(site.live, &whose, &site.spec);
    source::require_base(&found.base, site.live, &whose, &site.spec.placement);
    found
}

/// What the group means by what it names, and may use as things are now. If it may not, its VMs stay where they are.
fn choose(site: &Site<'_>, group: &VmGroup, desired: &Desired, rules: &Rules) -> Result<Found, Unusable> {
    let refusal = {
        let mut mirror = site.live.mirror();
        match reach::choose(&mirror, rules, &site.spec, site.defaults) {
            Ok(choice) => {
                let (base, template) = (choice.base.clone(), Some(choice.template.clone()));
                let source = source::source(&mirror, &base, None, Some(&choice), &site.spec);
                if source.is_err() {
                    mirror.awaited.names(&awaiting(desired), words(&site.spec));
                }
                drop(mirror);
                let found = Found { template, source, reach: Some(Ok(())), ..Found::at(base, &site.spec) };
                return Ok(take_up(site, desired, found));
            }
            Err(refusal) => {
                mirror.awaited.names(&awaiting(desired), words(&site.spec));
                refusal
            }
        }
    };
    let base = recorded_base(site, group, desired).or(refusal.base);
    let Some(base) = base else { return Err(Unusable::NotAllowed(refusal.why)) };
    let source = Err(Unusable::NotAllowed(refusal.why.clone()));
    Ok(Found { reach: Some(Err(refusal.why)), source, ..Found::at(base, &site.spec) })
}

/// Where the group's folder is, whatever the spec says: that which is written down as its own, or else the one that a member is in. A
/// group that goes needs no folder of its own.
fn recorded_base(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Option<Base> {
    let noted =
        site.live.executor().group(&desired.uid).in_flight.record.now().and_then(|record| record.folder().cloned());
    let written = || group.status.as_ref()?.record.as_ref()?.folder.clone();
    let mirror = site.live.mirror();
    let members = mirror.members(&desired.marker_uid, &site.context.cluster);
    let name = names::folder(&desired.namespace, &desired.name);
    let is_own = |folder: &ManagedObjectReference| mirror.folders.get(folder).is_some_and(|folder| folder.name == name);
    let parents = || members.values().filter_map(|member| mirror.machines.get(*member)?.parent.clone());
    let of_member = || parents().find(|parent| desired.deletion.is_some() || is_own(parent));
    let folder = noted.map(|folder| folder.0).or_else(written);
    let folder = folder.map(|id| FolderRef::new(&id).reference().clone());
    let folder = folder.filter(|folder| mirror.folders.contains_key(folder)).or_else(of_member)?;
    let base = mirror.folders.get(&folder)?.parent.clone()?;
    Some(Base { datacenter: mirror.datacenter_of(&base)?, folder: FolderRef::try_from(base).ok()? })
}

/// What guests are told now, where a Secret says it.
pub(super) async fn read_cloud_init(site: &Site<'_>, group: &VmGroup) -> Result<CloudInit, Unusable> {
    let secrets: Api<Secret> = Api::namespaced(site.context.kube.clone(), &group.namespace().unwrap_or_default());
    source::cloud_init(Some(&secrets), &site.spec, site.reach()).await
}

/// Notes where rights are needed for clones.
pub(super) fn require_source_of_clones(site: &Site<'_>, desired: &Desired, found: &Found) {
    if let Ok(source) = &found.source {
        source::require_source(source, &found.base, site.live, &Whose::Group(desired.uid.clone()), &site.spec);
    }
}

/// Notes where rights are needed in a vCenter before any group says so.
pub(crate) fn require_defaults(live: &VCenterHandle, defaults: &Placement) {
    if !live.privileges().wants_defaults() {
        return;
    }
    let base = source::base(&live.mirror(), defaults);
    if let Ok(base) = base {
        source::require_base(&base, live, &Whose::Defaults, defaults);
    }
}

/// When to look again for what could not be used, if nothing tells that it may be before. Nothing tells of Secrets.
pub(super) fn look_again(site: &Site<'_>, group: &VmGroup, found: &Found) -> Duration {
    match (&found.source, &found.cloud_init) {
        (Ok(_), Some(Err(Unusable::NotNow(..)))) => return Duration::from_secs(1),
        (Ok(_), Some(Err(_))) => {}
        _ => return RESYNC,
    }
    let generation = group.metadata.generation.unwrap_or(0);
    let mut executor = site.live.executor();
    let misses = &mut executor.group(&group.uid().unwrap_or_default()).misses;
    if misses.0 != generation {
        *misses = (generation, 0);
    }
    misses.1 = misses.1.saturating_add(1);
    // Some seconds later it may well be there; if it isn't by then, a person has to do something.
    LOOK_AGAIN.saturating_mul(1 << misses.1.saturating_sub(3).min(8)).min(LONGEST)
}

/// What a group is told where something that it names can't be used. Nothing is wrong where it is only being read.
pub(super) fn trouble_of(unusable: &Unusable) -> Trouble {
    match unusable {
        Unusable::Unread(_, Unread::NotYet) => Trouble::None,
        // Where vCenter is and who logs in is not for those whose group it is.
        Unusable::Unread(_, Unread::Failed(error))
            if error.fault().is_none() || matches!(**error, Error::Login { .. }) =>
        {
            Trouble::VCenterAway("spec.template: vCenter could not be asked for it".to_owned())
        }
        Unusable::Unread(_, Unread::Failed(_)) => Trouble::TasksFail(vec![unusable.to_string()]),
        Unusable::NotAllowed(why) => Trouble::NotAllowed(why.clone()),
        Unusable::NotNow(..) | Unusable::Unread(_, Unread::NotMade) => {
            Trouble::Passing(Box::new(Trouble::NotFound(unusable.to_string())))
        }
        _ => Trouble::NotFound(unusable.to_string()),
    }
}
