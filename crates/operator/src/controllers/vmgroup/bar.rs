//! Why a group gets no new VMs, though it declares some: it names something that it may not use.

use drover_core::tenancy::{rules::Rules, template_obstacle};
use vim25::{ManagedObject, refs::VirtualMachineRef};

use super::{
    Site, reach,
    source::{Found, Source},
};
use crate::vcenter::{awaited::Awaiting, mirror::Mirror};

/// Why nothing may be cloned for a group, as a sentence that names the field. The group is told when its template is not what it is now.
pub(super) fn bar(site: &Site<'_>, mirror: &mut Mirror, found: &Found, group: &Awaiting) -> Option<String> {
    if site.bad_keys.refused.is_some() {
        return site.bad_keys.refused.clone();
    }
    let is_enforced = site.rules.is_some_and(|rules| rules.is_enforced());
    if let Some(Err(why)) = found.reach.as_ref().filter(|_| is_enforced) {
        return Some(why.clone());
    }
    let template = found.template()?;
    let bar = of_template(mirror, template, &site.spec.template)?;
    mirror.awaited.template(template, group);
    Some(bar)
}

/// Whether what could be used for a clone a moment ago can't any more.
pub(super) fn is_barred(mirror: &Mirror, source: &Source, rules: Option<&Rules>) -> bool {
    let listed = source.choice.as_ref().map_or(&[][..], |choice| choice.listed.as_slice());
    let is_refused = |rules: &Rules| rules.is_enforced() && !reach::allows(mirror, rules, listed);
    of_template(mirror, &source.template, "").is_some() || rules.is_some_and(is_refused)
}

/// Why nothing may be cloned from what the spec calls by this word, as far as the mirror knows it.
pub(super) fn of_template(mirror: &Mirror, template: &VirtualMachineRef, word: &str) -> Option<String> {
    let machine = mirror.machines.get(template.reference())?;
    let obstacle = template_obstacle(machine.as_template())?;
    Some(format!("spec.template: {word:?} {obstacle}"))
}
