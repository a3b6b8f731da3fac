//! What a group names, looked for as seldom as can be: once for each revision of what it names, and what clones need when there are some.

use std::{sync::Arc, time::Duration};

use drover_api::{VmGroup, vmgroup::Placement};
use drover_core::{Trouble, group::Desired, names, tenancy::rules::Rules};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use vim25::{
    Error, LookupError, ManagedObject, ManagedObjectReference,
    refs::{FolderRef, VirtualMachineRef},
};

use super::{
    Site, bar, reach,
    source::{self, Base, CloudInit, Found, Unusable},
};
use crate::vcenter::{VCenterHandle, privileges::Whose};

/// What a group names is looked for again after this long, if it wasn't there, and after ever longer if it still isn't.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(1);

/// What the spec names, found once for each revision of it: who scales or deletes a group waits for no look-up.
pub(super) async fn dereference(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Result<Found, Unusable> {
    let known = site.live.executor().group(&desired.uid).found.clone();
    let known =
        known.filter(|(revision, placement, _)| *revision == desired.revision && *placement == site.spec.placement);
    let known = known.map(|(.., found)| Found { cloud_init: CloudInit::inline(&site.spec), ..found });
    if desired.deletion.is_some()
        && let Some(base) = recorded_base(site, group, desired)
    {
        // Its VMs and its folder go from where they are. What the spec names by now need not be there.
        return Ok(match known {
            Some(known) if known.base == base => known,
            _ => take_up(site, desired, Found::at(base, &site.spec)),
        });
    }
    let rules = site.rules.filter(|rules| rules.is_enforced());
    // One that goes and may have VMs left is looked for where its spec says. One that has none learns and ends nothing there.
    if let Some(rules) = rules.filter(|_| desired.deletion.is_none() || !site.has_members(group)) {
        return choose(site, group, desired, rules, known);
    }
    if let Some(found) = known {
        return Ok(judged(site, found));
    }
    let _turn = site.live.lookups.turn(&desired.namespace).await;
    let (base, template) = look_up(site).await?;
    let found = Found { template, ..Found::at(base, &site.spec) };
    Ok(judged(site, take_up(site, desired, found)))
}

/// Keeps what was found anew, and notes where rights are needed for it.
fn take_up(site: &Site<'_>, desired: &Desired, found: Found) -> Found {
    let whose = Whose::Group(desired.uid.clone());
    source::forget_unnamed(site.live, &whose, &site.spec);
    found.base.concern(site.live, &whose, &site.spec.placement);
    remember(site, desired, &found);
    found
}

/// Says whether the group would be refused something that it names.
fn judged(site: &Site<'_>, found: Found) -> Found {
    let judge = |rules: &Arc<Rules>| {
        let choice = reach::choose(&site.live.mirror(), rules, &site.spec, site.defaults);
        choice.map(drop).map_err(|refusal| format!("would be refused: {}", refusal.why))
    };
    // What was chosen while others were refused is found as everybody finds it.
    let source = found.source.filter(|source| source.choice.is_none());
    Found { reach: site.rules.map(judge), choice: None, source, ..found }
}

/// What the group means by what it names, and may use as things are now. If it may not, its VMs stay where they are.
fn choose(
    site: &Site<'_>,
    group: &VmGroup,
    desired: &Desired,
    rules: &Rules,
    known: Option<Found>,
) -> Result<Found, Unusable> {
    let choice = reach::choose(&site.live.mirror(), rules, &site.spec, site.defaults);
    match choice {
        Ok(choice) => {
            let template = Some(choice.template.clone());
            let (base, choice) = (choice.base.clone(), Some(choice));
            let reach = Some(Ok(()));
            match known {
                Some(known) if known.choice == choice => Ok(Found { base, reach, ..known }),
                _ => Ok(take_up(site, desired, Found { template, choice, reach, ..Found::at(base, &site.spec) })),
            }
        }
        Err(refusal) => {
            let base = recorded_base(site, group, desired).or(refusal.base);
            let Some(base) = base else { return Err(Unusable::NotAllowed(refusal.why)) };
            Ok(Found { reach: Some(Err(refusal.why)), ..Found::at(base, &site.spec) })
        }
    }
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

/// Looks for what every group names. Many name the same, and when all of them look at once, one does it for all.
async fn look_up(site: &Site<'_>) -> Result<(Base, Option<VirtualMachineRef>), Unusable> {
    let Placement { datacenter, folder, .. } = &site.spec.placement;
    let names = [datacenter.clone(), folder.clone(), Some(site.spec.template.clone())];
    if let Some((base, template)) = site.live.executor().found_lately(&names) {
        return Ok((base, Some(template)));
    }
    let base = source::base(&site.live.inventory, &site.spec.placement).await?;
    let template = source::find_template(site.live, &base, &site.spec.template).await.ok();
    if let Some(template) = &template {
        site.live.executor().note_found(names, base.clone(), template.clone());
    }
    Ok((base, template))
}

pub(super) fn remember(site: &Site<'_>, desired: &Desired, found: &Found) {
    let found = Found { cloud_init: None, ..found.clone() };
    let found = (desired.revision, site.spec.placement.clone(), found);
    site.live.executor().group(&desired.uid).found = Some(found);
}

/// Looks for all that clones need and isn't known.
pub(super) async fn find_source(site: &Site<'_>, group: &VmGroup, found: &mut Found) -> Result<(), Unusable> {
    if found.source.is_none() {
        let _turn = site.live.lookups.turn(&group.namespace().unwrap_or_default()).await;
        let (template, choice) = (found.template.clone(), found.choice.as_ref());
        let source = source::source(site.live, &found.base, template, choice, &site.spec).await?;
        if let Some(bar) = bar::of_make(source.make, &site.spec.template) {
            return Err(Unusable::NotAllowed(bar));
        }
        source.concern(site.live, &Whose::Group(group.uid().unwrap_or_default()), &site.spec);
        found.source = Some(source);
    }
    let secrets: Api<Secret> = Api::namespaced(site.context.kube.clone(), &group.namespace().unwrap_or_default());
    found.cloud_init = Some(source::cloud_init(Some(&secrets), &site.spec, site.reach()).await?);
    Ok(())
}

/// Notes where rights are needed in a vCenter before any group says so.
pub(crate) async fn concern_defaults(live: &VCenterHandle, defaults: &Placement) {
    let is_wanted = live.privileges().wants_defaults();
    if is_wanted && let Ok(base) = source::base(&live.inventory, defaults).await {
        base.concern(live, &Whose::Defaults, defaults);
    }
}

/// When to look again for what could not be found. Nothing tells of most of it.
pub(super) fn look_again(site: &Site<'_>, group: &VmGroup, unusable: &Unusable) -> Duration {
    if matches!(unusable, Unusable::Lookup(_, LookupError::Call(error)) if error.is_passing()) {
        return Duration::from_secs(1);
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

pub(super) fn trouble_of(unusable: &Unusable) -> Trouble {
    match unusable {
        // Where vCenter is and who logs in is not for those whose group it is.
        Unusable::Lookup(field, LookupError::Call(error))
            if error.fault().is_none() || matches!(error, Error::Login { .. }) =>
        {
            Trouble::VCenterAway(format!("spec.{field}: vCenter could not be asked for it"))
        }
        Unusable::NotAllowed(why) => Trouble::NotAllowed(why.clone()),
        Unusable::Lookup(_, LookupError::Call(_)) => Trouble::TasksFail(vec![unusable.to_string()]),
        _ => Trouble::NotFound(unusable.to_string()),
    }
}
