//! Objects that a spec names, found in the mirror as vCenter finds them.

use drover_api::vmgroup::Placement;
use vim25::{
    LookupError, ManagedObject, ManagedObjectReference, inventory,
    refs::{ComputeResourceRef, DatacenterRef, HostSystemRef, ResourcePoolRef, VirtualMachineRef},
};

use super::{machine::Machine, mirror::Mirror};

/// A path as vCenter shows it: people write what is escaped in either case.
pub(super) fn canonical(path: &str) -> String {
    path.replace("%2F", "%2f").replace("%5C", "%5c")
}

/// An object with its name, and what it is in.
type Entry<'a> = (&'a ManagedObjectReference, &'a str, Option<ManagedObjectReference>);

impl Mirror {
    /// The object of a type that a word means, where everything may be used: by its path, or by its name if it is the only one of that
    /// name in a datacenter, or anywhere.
    pub(crate) fn find<T: ManagedObject>(
        &self,
        datacenter: Option<&DatacenterRef>,
        word: &str,
    ) -> Result<T, LookupError> {
        let mut found: Vec<(T, String)> = self.objects_called(datacenter, word);
        // One that may be in the datacenter, too, keeps another from being the only one.
        let misplaced = if found.is_empty() { Vec::new() } else { self.misplaced_called::<T>(word) };
        if found.len() + misplaced.len() > 1 {
            let mut paths: Vec<_> = found.into_iter().map(|(_, path)| path).chain(misplaced).collect();
            paths.sort();
            return Err(LookupError::Ambiguous { kind: T::TYPE, name: word.to_owned(), paths });
        }
        if let Some((object, _)) = found.pop() {
            return Ok(object);
        }
        if !word.contains('/') {
            let below = datacenter.and_then(|datacenter| self.path_of(datacenter.reference()));
            return Err(LookupError::NotFound { kind: T::TYPE, name: word.to_owned(), below });
        }
        let path = self.full_path(datacenter, word);
        Err(match self.at_path(&path) {
            Some(other) => LookupError::WrongKind { kind: T::TYPE, path, found: other.type_name().to_owned() },
            None => LookupError::NotFound { kind: T::TYPE, name: path, below: None },
        })
    }

    /// The paths of those of a type and name of which isn't told which datacenter they are in, because something above them is hidden or
    /// was not told of yet. Folders may well be in none.
    fn misplaced_called<T: ManagedObject>(&self, word: &str) -> Vec<String> {
        if word.contains('/') || matches!(T::TYPE, "Folder" | "Datacenter") {
            return Vec::new();
        }
        let all = self.everything_called(word, &inventory::escape(word));
        let all = all.filter(|(object, ..)| T::try_from((*object).clone()).is_ok());
        let is_misplaced = |parent: Option<&ManagedObjectReference>| {
            !self.ancestors(parent).any(|(above, _)| above.is_a(DatacenterRef::TYPE))
        };
        all.filter(|(.., parent)| is_misplaced(parent.as_ref()))
            .map(|(_, name, parent)| self.path(name, parent.as_ref()))
            .collect()
    }

    /// The only datacenter that there is.
    pub(crate) fn only_datacenter(&self) -> Result<DatacenterRef, LookupError> {
        let all = self.places.keys().filter_map(|object| DatacenterRef::try_from(object.clone()).ok());
        let mut all: Vec<_> = all.collect();
        if all.len() > 1 {
            let mut paths: Vec<_> = all.iter().filter_map(|datacenter| self.path_of(datacenter.reference())).collect();
            paths.sort();
            return Err(LookupError::Ambiguous { kind: DatacenterRef::TYPE, name: "*".to_owned(), paths });
        }
        let nothing = || LookupError::NotFound { kind: DatacenterRef::TYPE, name: "*".to_owned(), below: None };
        all.pop().ok_or_else(nothing)
    }

    /// The cluster or the lone host that a resource pool is of.
    pub(crate) fn owner_of(&self, pool: &ResourcePoolRef) -> Option<ManagedObjectReference> {
        let mut above = self.ancestors(Some(pool.reference())).map(|(object, _)| object);
        above.find(|object| object.is_a(ComputeResourceRef::TYPE))
    }

    /// Whatever is at a path.
    fn at_path(&self, path: &str) -> Option<&ManagedObjectReference> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut named = self.everything_called(name, "");
        named.find(|(_, name, parent)| self.path(name, parent.as_ref()) == path).map(|(object, ..)| object)
    }

    /// All that has either name.
    fn everything_called<'a>(&'a self, name: &str, other: &str) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let other = Some(other.to_owned()).filter(|other| other != name && !other.is_empty());
        let names: Vec<_> = std::iter::once(name.to_owned()).chain(other).collect();
        let folders = names.iter().flat_map(|name| self.folders.called(name)).collect::<Vec<_>>();
        let machines = names.iter().flat_map(|name| self.machines.called(name)).collect::<Vec<_>>();
        let above = |machine: &Machine| machine.parent.clone().or_else(|| machine.facts.v_app.clone());
        let folders = folders.into_iter().map(|(object, it)| (object, it.name.as_str(), it.parent.clone()));
        let machines = machines.into_iter().map(move |(object, it)| (object, it.name.as_str(), above(it)));
        let hosts = self.hosts.iter().map(|(object, it)| (object, it.name.as_str(), it.parent.clone()));
        let places = self.places.iter().map(|(object, it)| (object, it.name.as_str(), it.parent.clone()));
        let others = hosts.chain(places).filter(move |(_, is, _)| names.iter().any(|name| name == is));
        folders.chain(machines).chain(others)
    }

    /// The VMs and templates that a word may mean in a datacenter, or anywhere, each with its path: by `moref:` and object id, by path, or by name. A
    /// path begins at the root or in the datacenter.
    pub(crate) fn templates_called(
        &self,
        datacenter: Option<&DatacenterRef>,
        word: &str,
    ) -> Vec<(VirtualMachineRef, String)> {
        if let Some(moref) = word.strip_prefix("moref:") {
            let template = VirtualMachineRef::new(moref);
            let path = self.path_of(template.reference());
            return path.map(|path| (template, path)).into_iter().collect();
        }
        self.objects_called(datacenter, word)
    }

    /// The objects of a type that a word may mean in a datacenter, or anywhere, each with its path: by path, or by name.
    pub(crate) fn objects_called<T: ManagedObject>(
        &self,
        datacenter: Option<&DatacenterRef>,
        word: &str,
    ) -> Vec<(T, String)> {
        let path = word.contains('/').then(|| self.full_path(datacenter, word));
        let named = match &path {
            Some(path) => self.everything_called(path.rsplit('/').next().unwrap_or_default(), ""),
            None => self.everything_called(word, &inventory::escape(word)),
        };
        let meant = |(object, name, parent): Entry<'_>| {
            let object = T::try_from(object.clone()).ok()?;
            let is = self.path(name, parent.as_ref());
            let is_there = match &path {
                Some(path) => is == *path,
                None => datacenter.is_none_or(|it| self.is_in(parent.as_ref(), it.reference())),
            };
            is_there.then_some((object, is))
        };
        named.filter_map(meant).collect()
    }

    /// The paths of all folders, or other places, of a type.
    pub(crate) fn paths_of_all<T: ManagedObject>(&self) -> impl Iterator<Item = String> {
        let all = self.folders.keys().chain(self.places.keys()).filter(|object| object.is_a(T::TYPE));
        all.filter_map(|object| self.path_of(object))
    }

    /// Whether a folder is one for VMs: such are in the folder `vm` of a datacenter, or are that folder.
    pub(crate) fn is_for_machines(&self, folder: &ManagedObjectReference) -> bool {
        let above: Vec<_> = self.ancestors(Some(folder)).collect();
        let datacenter = above.iter().position(|(object, _)| DatacenterRef::try_from(object.clone()).is_ok());
        datacenter.and_then(|at| above.get(at.checked_sub(1)?)).is_some_and(|(_, folder)| folder.name == "vm")
    }

    /// The datacenter that a word means, or the only one. None if there is none or several.
    pub(crate) fn datacenter_called(&self, word: Option<&str>) -> Option<DatacenterRef> {
        let mut found: Vec<DatacenterRef> = match word {
            Some(word) => self.objects_called(None, word).into_iter().map(|(object, _)| object).collect(),
            None => self.places.keys().filter_map(|object| DatacenterRef::try_from(object.clone()).ok()).collect(),
        };
        found.pop().filter(|_| found.is_empty())
    }

    /// The datacenter that an object is in.
    pub(crate) fn datacenter_of(&self, object: &ManagedObjectReference) -> Option<DatacenterRef> {
        self.ancestors(Some(object)).find_map(|(above, _)| DatacenterRef::try_from(above).ok())
    }

    /// The resource pool that a cluster has by itself.
    pub(crate) fn own_pool(&self, cluster: &ManagedObjectReference) -> Option<ResourcePoolRef> {
        let mut pools = self.places.iter().filter(|(_, place)| place.parent.as_ref() == Some(cluster));
        pools.find_map(|(object, _)| ResourcePoolRef::try_from(object.clone()).ok())
    }

    /// All resource pools of a cluster or of a lone host.
    pub(crate) fn pools_of(&self, owner: &ManagedObjectReference) -> impl Iterator<Item = &ManagedObjectReference> {
        let pools = self.places.iter().filter(|(object, _)| object.is_a(ResourcePoolRef::TYPE));
        pools.filter(move |(_, place)| self.is_in(place.parent.as_ref(), owner)).map(|(object, _)| object)
    }

    /// The resource pool that VMs are put in whose group doesn't say where.
    pub(crate) fn default_pool(&self, defaults: &Placement) -> Option<ResourcePoolRef> {
        let datacenter = self.datacenter_called(defaults.datacenter.as_deref())?;
        let only = |word: &str| {
            let mut found = self.objects_called(Some(&datacenter), word);
            found.pop().filter(|_| found.is_empty()).map(|(pool, _)| pool)
        };
        match (&defaults.resource_pool, &defaults.cluster) {
            (Some(word), _) => only(word),
            (None, Some(word)) => {
                let mut found = self.objects_called::<ComputeResourceRef>(Some(&datacenter), word);
                let (cluster, _) = found.pop().filter(|_| found.is_empty())?;
                self.own_pool(cluster.reference())
            }
            (None, None) => only("Resources"),
        }
    }

    /// The host that a word means among those that serve a resource pool.
    pub(crate) fn host_called(
        &self,
        base: &DatacenterRef,
        pool: &ResourcePoolRef,
        word: &str,
    ) -> Option<HostSystemRef> {
        let owner = self.owner_of(pool)?;
        let word = if word.contains('/') { self.full_path(Some(base), word) } else { word.to_owned() };
        let mut found = self.hosts_called(&word);
        found.retain(|host| self.hosts.get(*host).is_some_and(|host| host.parent.as_ref() == Some(&owner)));
        let host = found.pop().filter(|_| found.is_empty())?;
        HostSystemRef::try_from(host.clone()).ok()
    }

    /// The path of a VM, a folder or another place.
    pub(crate) fn path_of(&self, object: &ManagedObjectReference) -> Option<String> {
        if let Some(machine) = self.machines.get(object) {
            return Some(self.machine_path(machine));
        }
        let (_, place) = self.ancestors(Some(object)).next()?;
        Some(self.path(&place.name, place.parent.as_ref()))
    }

    fn full_path(&self, datacenter: Option<&DatacenterRef>, path: &str) -> String {
        let is_whole = path.starts_with('/');
        let path = canonical(path.trim_matches('/'));
        if is_whole {
            return format!("/{path}");
        }
        let above = datacenter.and_then(|datacenter| self.path_of(datacenter.reference())).unwrap_or_default();
        format!("{above}/{path}")
    }

    fn is_in(&self, parent: Option<&ManagedObjectReference>, container: &ManagedObjectReference) -> bool {
        self.ancestors(parent).any(|(reference, _)| reference == *container)
    }
}

#[cfg(test)]
mod tests {
    use drover_core::Timestamp;
    use vim25::refs::{ClusterComputeResourceRef, FolderRef, NetworkRef};

    use super::{super::mirror::Folder, *};
    use crate::vcenter::{host::Host, inventory_names::Place};

    fn reference(kind: &str, id: &str) -> ManagedObjectReference {
        ManagedObjectReference::new(kind, id)
    }

    /// Two datacenters, each with a VM `web`, and one of them in a folder with another.
    fn mirror() -> Mirror {
        let mut mirror = Mirror::default();
        for (id, name) in [("dc-1", "DC0"), ("dc-2", "DC1")] {
            let parent = Some(reference("Folder", "root"));
            mirror
                .places
                .insert(reference("Datacenter", id), Place { name: name.to_owned(), parent, ..Place::default() });
        }
        for (id, name, kind, parent) in [
            ("f-1", "vm", "Datacenter", "dc-1"),
            ("f-2", "vm", "Datacenter", "dc-2"),
            ("f-3", "a%2fb", "Folder", "f-1"),
        ] {
            let folder = Folder { name: name.to_owned(), parent: Some(reference(kind, parent)) };
            mirror.folders.insert(reference("Folder", id), folder);
        }
        for (id, name, folder) in
            [("vm-1", "web", "f-1"), ("vm-2", "web", "f-2"), ("vm-3", "web", "f-3"), ("vm-4", "50%25", "f-1")]
        {
            let mut machine = Machine::new(Timestamp::UNIX_EPOCH);
            (machine.name, machine.parent) = (name.to_owned(), Some(reference("Folder", folder)));
            mirror.machines.insert(reference("VirtualMachine", id), machine);
        }
        mirror
    }

    #[test]
    fn a_template_is_found_by_each_of_its_names_and_in_its_datacenter_alone() {
        let mirror = mirror();
        let datacenter = DatacenterRef::new("dc-1");
        let called = |word: &str| {
            let mut found: Vec<_> =
                mirror.templates_called(Some(&datacenter), word).into_iter().map(|(_, path)| path).collect();
            found.sort();
            found.join(" ")
        };
        for (word, paths) in [
            ("web", "/DC0/vm/a%2fb/web /DC0/vm/web"),
            ("/DC0/vm/web", "/DC0/vm/web"),
            ("/DC0/vm/web/", "/DC0/vm/web"),
            ("vm/web", "/DC0/vm/web"),
            ("/DC1/vm/web", "/DC1/vm/web"),
            ("/DC0/vm/a%2fb/web", "/DC0/vm/a%2fb/web"),
            ("moref:vm-2", "/DC1/vm/web"),
            ("50%", "/DC0/vm/50%25"),
            ("50%25", "/DC0/vm/50%25"),
            ("moref:vm-9", ""),
            ("nothing", ""),
            ("/", ""),
        ] {
            assert_eq!(called(word), paths, "{word}");
        }
    }

    #[test]
    fn what_a_word_means_is_said_or_why_it_means_nothing() {
        let mut mirror = mirror();
        let (first, second) = (DatacenterRef::new("dc-1"), DatacenterRef::new("dc-2"));
        let found = |mirror: &Mirror, datacenter: &DatacenterRef, word: &str| {
            let found = mirror.find::<VirtualMachineRef>(Some(datacenter), word);
            found.map(|vm| vm.reference().value().to_owned()).map_err(|error| error.to_string())
        };
        assert_eq!(found(&mirror, &second, "web"), Ok("vm-2".to_owned()));
        for path in ["/DC0/vm/a%2fb/web", "//DC0/vm/a%2Fb/web/", "vm/a%2Fb/web"] {
            assert_eq!(found(&mirror, &first, path), Ok("vm-3".to_owned()), "{path}");
        }
        for (word, why) in [
            ("db", "there is no VirtualMachine \"db\" in /DC0"),
            ("vm/db", "there is no VirtualMachine \"/DC0/vm/db\""),
            ("vm", "there is no VirtualMachine \"vm\" in /DC0"),
            ("/DC0/vm", "/DC0/vm is a Folder, not a VirtualMachine"),
            ("web", "2 of type VirtualMachine fit \"web\": name one by its path: /DC0/vm/a%2fb/web, /DC0/vm/web"),
        ] {
            assert_eq!(found(&mirror, &first, word), Err(why.to_owned()), "{word}");
        }
        let several = mirror.only_datacenter().unwrap_err().to_string();
        assert_eq!(several, "2 of type Datacenter fit \"*\": name one by its path: /DC0, /DC1");
        // Of one whose folder is hidden, or is told of later, nobody knows where it is.
        let mut lost = Machine::new(Timestamp::UNIX_EPOCH);
        (lost.name, lost.parent) = ("web".to_owned(), Some(reference("Folder", "hidden")));
        mirror.machines.insert(reference("VirtualMachine", "vm-9"), lost);
        assert!(found(&mirror, &second, "web").unwrap_err().ends_with("name one by its path: /DC1/vm/web, /web"));
        assert_eq!(found(&mirror, &second, "vm/web"), Ok("vm-2".to_owned()));
    }

    fn paths<T: ManagedObject>(mirror: &Mirror, datacenter: Option<&DatacenterRef>, word: &str) -> String {
        let mut paths: Vec<_> =
            mirror.objects_called::<T>(datacenter, word).into_iter().map(|(_, path)| path).collect();
        paths.sort();
        paths.join(" ")
    }

    #[test]
    fn places_are_found_by_name_and_path_whatever_kind_of_their_type_they_are() {
        let mut mirror = mirror();
        for (id, name) in [("f-h", "host"), ("f-n", "network")] {
            let folder = Folder { name: name.to_owned(), parent: Some(reference("Datacenter", "dc-1")) };
            mirror.folders.insert(reference("Folder", id), folder);
        }
        for (kind, id, name, above) in [
            ("ClusterComputeResource", "c", "C0", ("Folder", "f-h")),
            ("ComputeResource", "s", "alone", ("Folder", "f-h")),
            ("ResourcePool", "p", "Resources", ("ClusterComputeResource", "c")),
            ("ResourcePool", "p-s", "Resources", ("ComputeResource", "s")),
            ("VirtualApp", "a", "app", ("ResourcePool", "p")),
            ("Network", "n", "lan", ("Folder", "f-n")),
            ("DistributedVirtualPortgroup", "g", "ports", ("Folder", "f-n")),
            ("OpaqueNetwork", "o", "segment", ("Folder", "f-n")),
        ] {
            let place = Place { name: name.to_owned(), parent: Some(reference(above.0, above.1)), ..Place::default() };
            mirror.places.insert(reference(kind, id), place);
        }
        let (first, second) = (DatacenterRef::new("dc-1"), DatacenterRef::new("dc-2"));
        for name in ["lan", "ports", "segment"] {
            let path = format!("/DC0/network/{name}");
            for word in [name, &path, &format!("network/{name}")] {
                assert_eq!(paths::<NetworkRef>(&mirror, Some(&first), word), path, "{word}");
            }
            assert_eq!(paths::<NetworkRef>(&mirror, None, name), path, "it is the only one anywhere");
            assert_eq!(paths::<NetworkRef>(&mirror, Some(&second), name), "", "it is in another datacenter");
            assert_eq!(paths::<FolderRef>(&mirror, None, name), "", "it is something else");
        }
        assert_eq!(paths::<FolderRef>(&mirror, None, "vm"), "/DC0/vm /DC1/vm");
        assert_eq!(paths::<ClusterComputeResourceRef>(&mirror, Some(&first), "alone"), "", "it is a host");
        let pools = "/DC0/host/C0/Resources /DC0/host/alone/Resources";
        assert_eq!(paths::<ResourcePoolRef>(&mirror, Some(&first), "Resources"), pools);
        assert_eq!(paths::<ResourcePoolRef>(&mirror, Some(&first), "app"), "/DC0/host/C0/Resources/app");
        assert_eq!(mirror.own_pool(&reference("ClusterComputeResource", "c")), Some(ResourcePoolRef::new("p")));
        assert_eq!(mirror.datacenter_called(Some("DC1")), Some(second));
        assert_eq!(mirror.datacenter_called(None), None, "there are two");
        assert_eq!(mirror.datacenter_of(&reference("OpaqueNetwork", "o")), Some(first.clone()));
        for (id, owner) in [("h-1", ("ClusterComputeResource", "c")), ("h-2", ("ComputeResource", "s"))] {
            let host =
                Host { name: format!("esxi-{id}"), parent: Some(reference(owner.0, owner.1)), ..Host::default() };
            mirror.hosts.insert(reference("HostSystem", id), host);
        }
        let hosts_of = |pool: &str, word: &str| mirror.host_called(&first, &ResourcePoolRef::new(pool), word);
        for word in ["esxi-h-1", "/DC0/host/C0/esxi-h-1", "host/C0/esxi-h-1"] {
            assert_eq!(hosts_of("p", word), Some(HostSystemRef::new("h-1")), "{word}");
            assert_eq!(hosts_of("p-s", word), None, "it serves another resource pool");
        }
    }
}
