//! What would be refused of a group as somebody wants it, said before it is stored. It is refused all the same if nobody asks here.

use drover_api::{VmGroup, VmGroupSpec};
use drover_core::{tenancy::rules::Rules, vmgroup::extra_config};
use kube::ResourceExt;
use vim25::refs::VirtualMachineRef;

use super::{keys, reach, source};
use crate::{
    controllers::{
        Context,
        binding::{Binding, BoundVCenter},
    },
    vcenter::{mirror::Mirror, source::why_not_cloned},
};

/// What there is against a change.
pub(crate) enum Objection {
    /// It is refused.
    Refused(String),
    /// It is not, but would be if the vCenter's rules were enforced.
    Warning(String),
}

/// What there is against a group as it would be. What it names, and the keys that it sets, are no matter of a change that leaves them as they
/// were: whoever has more than he may use can always ask for less.
pub(crate) fn objection(context: &Context, group: &VmGroup, before: Option<&VmGroup>) -> Option<Objection> {
    let bound = bound(context, group)?;
    let had = before.map(|before| &before.spec);
    let (refused, tolerated) = of_keys(&bound, group, before);
    if let Some(why) = refused {
        return Some(Objection::Refused(why));
    }
    let tolerated = tolerated.map(Objection::Warning);
    if had.is_some_and(|had| names(had) == names(&group.spec)) || !bound.live.is_in_sight() {
        return tolerated;
    }
    // A group without VMs clones nothing, and whether a VM runs is known as long as vCenter tells of it.
    let is_judged = had.is_none_or(|had| had.template != group.spec.template)
        && group.spec.replicas != 0
        && bound.live.away().is_none();
    let mirror = bound.live.mirror();
    let spec = source::with_defaults(&group.spec, &bound.defaults);
    let rules = bound.rules.as_deref();
    let choice = rules.map(|rules| reach::choose(&mirror, rules, &spec, &bound.defaults));
    let (chosen, refusal) = match choice {
        Some(Ok(choice)) => (Some(choice.template), None),
        Some(Err(refusal)) => (None, Some(refusal.why)),
        None => (None, None),
    };
    let is_enforced = rules.is_some_and(Rules::is_enforced);
    if let Some(why) = refusal.clone().filter(|_| is_enforced) {
        return Some(Objection::Refused(why));
    }
    let template = chosen.or_else(|| meant(&mirror, &spec)).filter(|_| is_judged);
    if let Some(why) = template.and_then(|template| why_not_cloned(&mirror, &template, &spec.template)) {
        return Some(Objection::Refused(why));
    }
    match (refusal, tolerated) {
        (Some(why), Some(Objection::Warning(keys))) => {
            Some(Objection::Warning(format!("would be refused: {why}. {keys}")))
        }
        (Some(why), _) => Some(Objection::Warning(format!("would be refused: {why}"))),
        (None, tolerated) => tolerated,
    }
}

/// What a spec means by its template where everything may be used, if that is one VM or template.
fn meant(mirror: &Mirror, spec: &VmGroupSpec) -> Option<VirtualMachineRef> {
    let datacenter = mirror.datacenter_called(spec.placement.datacenter.as_deref())?;
    let mut found = mirror.templates_called(Some(&datacenter), &spec.template);
    found.pop().filter(|_| found.is_empty()).map(|(template, _)| template)
}

/// What there is against the keys that a change sets: what is refused, and what is not yet.
fn of_keys(bound: &BoundVCenter, group: &VmGroup, before: Option<&VmGroup>) -> (Option<String>, Option<String>) {
    let had = before.map(|before| &before.spec.extra_config);
    let kept = extra_config::kept(before.unwrap_or(group));
    let mut unwanted = extra_config::unwanted(group.spec.extra_config.keys(), &bound.keys, &kept);
    let is_new = |key: &&str| had.is_none_or(|had| !had.contains_key(*key));
    unwanted.refused.retain(is_new);
    unwanted.tolerated.retain(is_new);
    let redirected = had.map(|had| extra_config::redirected(&group.spec.extra_config, had)).unwrap_or_default();
    unwanted.refused.extend(redirected);
    unwanted.refused.sort_unstable();
    unwanted.refused.dedup();
    (keys::sentence(bound, group, &unwanted.refused), keys::would_be(keys::sentence(bound, group, &unwanted.tolerated)))
}

/// What a spec names in vCenter.
fn names(spec: &VmGroupSpec) -> impl PartialEq + use<'_> {
    (&spec.template, &spec.placement, spec.network_names().collect::<Vec<_>>(), &spec.vcenter)
}

/// Where it is, or would be.
fn bound(context: &Context, group: &VmGroup) -> Option<BoundVCenter> {
    match context.vcenters.bind(group, &context.cluster).ok()? {
        Binding::Here(bound) => Some(bound),
        Binding::Settle(_) | Binding::Leave(_) => {
            context.vcenters.choose(&group.namespace()?, group.spec.vcenter.as_deref()).ok()
        }
    }
}
