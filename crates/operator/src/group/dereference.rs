//! What a group names, looked for as seldom as can be: once for each revision of what it names, and what clones need when there are some.

use std::time::Duration;

use drover_api::{VmGroup, vmgroup::Placement};
use drover_core::{Trouble, group::Desired};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};
use vim25::{LookupError, refs::VirtualMachineRef};

use super::{
    Site,
    source::{self, Base, CloudInit, Found, Unusable},
};
use crate::vcenter::{Live, rights::Whose};

/// What a group names is looked for again after this long, if it wasn't there, and after ever longer if it still isn't.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(1);

/// What the spec names, found once for each revision of it: who scales or deletes a group waits for no look-up.
pub(super) async fn dereference(site: &Site<'_>, desired: &Desired) -> Result<Found, Unusable> {
    if let Some((known, placement, found)) = &site.live.works().group(&desired.uid).found
        && *known == desired.revision
        && *placement == site.spec.placement
    {
        return Ok(Found { cloud_init: CloudInit::inline(&site.spec), ..found.clone() });
    }
    let _turn = site.live.lookups.acquire().await;
    let (base, template) = look_up(site).await?;
    let whose = Whose::Group(desired.uid.clone());
    source::forget_unnamed(site.live, &whose, &site.spec);
    base.concern(site.live, &whose, &site.spec.placement);
    let found = Found { base, template, source: None, cloud_init: CloudInit::inline(&site.spec) };
    remember(site, desired, &found);
    Ok(found)
}

/// Looks for what every group names. Many name the same, and when all of them look at once, one does it for all.
async fn look_up(site: &Site<'_>) -> Result<(Base, Option<VirtualMachineRef>), Unusable> {
    let Placement { datacenter, folder, .. } = &site.spec.placement;
    let names = [datacenter.clone(), folder.clone(), Some(site.spec.template.clone())];
    if let Some((base, template)) = site.live.works().found_lately(&names) {
        return Ok((base, Some(template)));
    }
    let base = source::base(&site.live.inventory, &site.spec.placement).await?;
    let template = source::find_template(site.live, &base, &site.spec.template).await.ok();
    if let Some(template) = &template {
        site.live.works().note_found(names, base.clone(), template.clone());
    }
    Ok((base, template))
}

pub(super) fn remember(site: &Site<'_>, desired: &Desired, found: &Found) {
    let found = Found { cloud_init: None, ..found.clone() };
    let found = (desired.revision, site.spec.placement.clone(), found);
    site.live.works().group(&desired.uid).found = Some(found);
}

/// Looks for all that clones need and isn't known.
pub(super) async fn find_source(site: &Site<'_>, group: &VmGroup, found: &mut Found) -> Result<(), Unusable> {
    if found.source.is_none() {
        let _turn = site.live.lookups.acquire().await;
        let source = source::source(site.live, &found.base, found.template.clone(), &site.spec).await?;
        source.concern(site.live, &Whose::Group(group.uid().unwrap_or_default()), &site.spec);
        found.source = Some(source);
    }
    let secrets: Api<Secret> = Api::namespaced(site.context.kube.clone(), &group.namespace().unwrap_or_default());
    found.cloud_init = Some(source::cloud_init(Some(&secrets), &site.spec).await?);
    Ok(())
}

/// Notes where rights are needed in a vCenter before any group says so.
pub(crate) async fn concern_defaults(live: &Live, defaults: &Placement) {
    let is_wanted = live.rights().wants_defaults();
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
    let mut works = site.live.works();
    let misses = &mut works.group(&group.uid().unwrap_or_default()).misses;
    if misses.0 != generation {
        *misses = (generation, 0);
    }
    misses.1 = misses.1.saturating_add(1);
    // Some seconds later it may well be there; if it isn't by then, a person has to do something.
    LOOK_AGAIN.saturating_mul(1 << misses.1.saturating_sub(3).min(8)).min(LONGEST)
}

pub(super) fn trouble_of(unusable: &Unusable) -> Trouble {
    match unusable {
        Unusable::Lookup(_, LookupError::Call(error)) if error.fault().is_none() => {
            Trouble::VCenterAway(unusable.to_string())
        }
        Unusable::Lookup(_, LookupError::Call(_)) => Trouble::TasksFail(vec![unusable.to_string()]),
        _ => Trouble::NotFound(unusable.to_string()),
    }
}
