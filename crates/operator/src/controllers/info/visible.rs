//! What a namespace is shown of a vCenter.

use drover_api::vmgroup::Placement;
use drover_core::tenancy::rules::{Kind, Rules, Shown};
use vim25::{ManagedObject, ManagedObjectReference, refs::ResourcePoolRef};

use crate::{controllers::binding::BoundVCenter, vcenter::mirror::Mirror};

/// Where everything is, for those who are shown everything.
pub(super) const EVERYWHERE: &str = "in vCenter";

/// A vCenter, as far as a namespace is shown it.
pub(super) struct Visible<'a> {
    pub mirror: &'a Mirror,
    cluster: &'a str,
    /// What the namespace may use, and where VMs are put that don't say, if it is not shown everything.
    within: Option<(&'a Rules, &'a Placement)>,
}

impl<'a> Visible<'a> {
    /// What is shown to the namespace of a group, by the operator of this Kubernetes cluster.
    pub(super) fn of(mirror: &'a Mirror, bound: &'a BoundVCenter, cluster: &'a str) -> Self {
        let rules = bound.rules.as_deref().filter(|rules| rules.is_enforced());
        Self { mirror, cluster, within: rules.map(|rules| (rules, &bound.defaults)) }
    }

    /// Everything.
    #[cfg(test)]
    pub(super) fn all(mirror: &'a Mirror) -> Self {
        Self { mirror, cluster: "", within: None }
    }

    /// Where something isn't that is not shown, whether or not it is there.
    pub(super) fn place(&self) -> &'static str {
        if self.within.is_some() { "that this namespace may see" } else { EVERYWHERE }
    }

    /// Whether a VM is shown. One that has not been read yet may be anybody's.
    pub(super) fn has_machine(&self, reference: &ManagedObjectReference) -> bool {
        let Some((rules, _)) = self.within else { return true };
        self.mirror.machines.get(reference).is_some_and(|machine| {
            let folder = machine.parent.as_ref().and_then(|folder| self.mirror.path_of(folder));
            let path = self.mirror.machine_path(machine);
            machine.is_told()
                && rules.shows(Shown { owner: machine.owner(self.cluster), path: &path, folder: folder.as_deref() })
        })
    }

    /// Whether a host is shown: one that VMs of the namespace may be on.
    pub(super) fn has_host(&self, reference: &ManagedObjectReference) -> bool {
        let Some((rules, defaults)) = self.within else { return true };
        if rules.shows_all_hosts() {
            return true;
        }
        let cluster = self.mirror.hosts.get(reference).and_then(|host| host.parent.as_ref());
        cluster.is_some_and(|cluster| {
            let may_use = |kind: Kind, object: &ManagedObjectReference| {
                self.mirror.path_of(object).is_some_and(|path| rules.allows(kind, &path))
            };
            let default = self.mirror.default_pool(defaults);
            let is_default =
                |pool: &ManagedObjectReference| default.as_ref().map(ResourcePoolRef::reference) == Some(pool);
            let mut pools = self.mirror.pools_of(cluster);
            may_use(Kind::Cluster, cluster) || pools.any(|pool| may_use(Kind::ResourcePool, pool) || is_default(pool))
        })
    }
}

#[cfg(test)]
mod tests {
    use drover_api::vcenter::Enforce;
    use drover_core::{Timestamp, tenancy::pattern::Pattern};

    use super::*;
    use crate::vcenter::{machine::Machine, mirror::Folder};

    #[test]
    fn a_vm_that_nobody_has_read_yet_is_shown_to_nobody() {
        let [folder, vm] = ["Folder", "VirtualMachine"].map(|kind| ManagedObjectReference::new(kind, "1"));
        let mut mirror = Mirror::default();
        mirror.folders.insert(folder.clone(), Folder { name: "vm".to_owned(), parent: None });
        let fresh = Machine { name: "web".to_owned(), parent: Some(folder), ..Machine::new(Timestamp::UNIX_EPOCH) };
        mirror.machines.insert(vm.clone(), fresh.clone());
        let allowed = [Kind::Folder, Kind::Template].map(|kind| (kind, Pattern::parse("/**").unwrap()));
        let rules = Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.into()]);
        let defaults = Placement::default();
        let shows =
            |mirror: &Mirror| Visible { mirror, cluster: "here", within: Some((&rules, &defaults)) }.has_machine(&vm);
        assert!(!shows(&mirror), "whose it is can't be told");
        assert!(Visible::all(&mirror).has_machine(&vm));
        let read = Machine { instance: Some("500f".to_owned()), ..fresh };
        mirror.machines.insert(vm.clone(), read);
        assert!(shows(&mirror), "it has no marker");
    }
}
