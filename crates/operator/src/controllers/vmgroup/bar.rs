//! Why a group gets no new VMs, though it declares some: it names something that it may not use.

use super::{Site, source::Found};
use crate::vcenter::{awaited::Awaiting, mirror::Mirror, source::why_not_cloned};

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
    let bar = why_not_cloned(mirror, template, &site.spec.template)?;
    mirror.awaited.template(template, group);
    Some(bar)
}
