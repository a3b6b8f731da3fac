//! All that a namespace may use of a vCenter, for an administrator to read.

use std::collections::BTreeSet;

use drover_api::vmgroup::Placement;
use drover_core::tenancy::{
    rules::{Kind, Rules},
    template_obstacle,
};
use vim25::{
    ManagedObject,
    refs::{ClusterComputeResourceRef, DatacenterRef, DatastoreRef, FolderRef, NetworkRef, ResourcePoolRef},
};

use super::source::folder_name;
use crate::vcenter::mirror::Mirror;

/// The paths of all that a namespace may use, each kind by the list of `spec.allow` that allows it. Those of the vCenter's defaults are among them.
pub(crate) fn usable(mirror: &Mirror, rules: &Rules, defaults: &Placement) -> Vec<(&'static str, BTreeSet<String>)> {
    let list = |kind: Kind| {
        let mut paths: BTreeSet<_> = all(mirror, kind).into_iter().filter(|path| rules.allows(kind, path)).collect();
        paths.extend(default_of(mirror, kind, defaults));
        (kind.list(), paths)
    };
    Kind::ALL.map(list).into()
}

fn all(mirror: &Mirror, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Template => {
            let machines = mirror.machines.values();
            let usable = machines.filter(|machine| template_obstacle(machine.as_template()).is_none());
            usable.map(|machine| mirror.machine_path(machine)).collect()
        }
        Kind::Folder => {
            let folders = mirror.folders.keys().filter(|folder| mirror.is_for_machines(folder));
            folders.filter_map(|folder| mirror.path_of(folder)).collect()
        }
        Kind::Cluster => mirror.paths_of_all::<ClusterComputeResourceRef>().collect(),
        Kind::ResourcePool => mirror.paths_of_all::<ResourcePoolRef>().collect(),
        Kind::Datastore => mirror.paths_of_all::<DatastoreRef>().collect(),
        Kind::Network => mirror.paths_of_all::<NetworkRef>().collect(),
    }
}

/// The path of what the vCenter's defaults name, or the only one where they name none.
fn default_of(mirror: &Mirror, kind: Kind, defaults: &Placement) -> Option<String> {
    let datacenter = mirror.datacenter_called(defaults.datacenter.as_deref());
    let datacenter = datacenter.as_ref();
    match kind {
        Kind::Template | Kind::Network => None,
        Kind::Folder => only::<FolderRef>(mirror, datacenter, folder_name(defaults)),
        Kind::Cluster if defaults.resource_pool.is_some() => None,
        Kind::Cluster => only::<ClusterComputeResourceRef>(mirror, datacenter, defaults.cluster.as_deref()?),
        Kind::ResourcePool => mirror.path_of(mirror.default_pool(defaults)?.reference()),
        Kind::Datastore => only::<DatastoreRef>(mirror, datacenter, defaults.datastore.as_deref()?),
    }
}

fn only<T: ManagedObject>(mirror: &Mirror, datacenter: Option<&DatacenterRef>, word: &str) -> Option<String> {
    let mut found = mirror.objects_called::<T>(datacenter, word);
    found.pop().filter(|_| found.is_empty()).map(|(_, path)| path)
}
