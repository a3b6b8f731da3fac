//! Where things are in the inventory, and what people call them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use drover_core::{names, tenancy::Template, vmgroup::inventory::Marker};
use vim25::{
    ManagedObjectReference, Result, inventory,
    props::{cluster_compute_resource as cluster, managed_entity as entity},
    types::{ObjectUpdate, PropertySpec},
};

use super::{machine::Machine, mirror::Mirror};

/// Something that others are in or on: a datacenter, a cluster, a resource pool, a datastore or a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    /// Whether it is a cluster that chooses hosts by itself (DRS).
    pub chooses_hosts: bool,
}

/// Whoever is called by as many words as this may as well be everybody.
const MANY: usize = 2000;

/// Whoever is concerned by a change, by all that people may call them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Concerned {
    /// A place has another name or another place, so everybody may; or there are too many to name.
    pub everybody: bool,
    pub hosts: BTreeSet<String>,
    pub machines: BTreeSet<String>,
}

impl Concerned {
    pub(crate) fn is_nobody(&self) -> bool {
        *self == Self::default()
    }
}

/// The properties that places are made from.
pub(crate) fn properties() -> Vec<PropertySpec> {
    let kinds = ["Datacenter", "ComputeResource", "ResourcePool", "Datastore", "Network"];
    let of = PropertySpec::of(&[&entity::NAME, &entity::PARENT]);
    let clusters = PropertySpec::of(&[&cluster::NAME, &cluster::PARENT, &cluster::CONFIGURATION_DRS_CONFIG_ENABLED]);
    kinds.map(|kind| PropertySpec { type_: kind.to_owned(), ..of.clone() }).into_iter().chain([clusters]).collect()
}

impl Place {
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        if let Some(name) = update.take(entity::NAME)? {
            self.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(entity::PARENT)? {
            self.parent = parent.map(Into::into);
        }
        if let Some(chooses) = update.take(cluster::CONFIGURATION_DRS_CONFIG_ENABLED)? {
            self.chooses_hosts = chooses.unwrap_or(false);
        }
        Ok(())
    }
}

/// What a user writes for a machine, in the one way that it is looked for: UUIDs and addresses can be written in several.
pub(crate) fn normal(word: &str) -> String {
    let word = word.trim();
    if let Ok(address) = word.parse::<IpAddr>() {
        return address.to_string();
    }
    if is_uuid(word) {
        return word.to_ascii_lowercase();
    }
    if word.starts_with('/') { word.trim_end_matches('/').to_owned() } else { word.to_owned() }
}

fn is_uuid(word: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    word.len() == 36
        && word
            .bytes()
            .enumerate()
            .all(|(place, letter)| if dashes.contains(&place) { letter == b'-' } else { letter.is_ascii_hexdigit() })
}

impl Mirror {
    /// The path of an object that has this name and this parent, as govc and the vSphere client show it.
    pub(crate) fn path(&self, name: &str, parent: Option<&ManagedObjectReference>) -> String {
        let mut path = format!("/{name}");
        // The root folder isn't mirrored, and is in no path.
        for (_, place) in self.ancestors(parent) {
            path = format!("/{}{path}", place.name);
        }
        path
    }

    /// The nearest place of a type that something with this parent is in.
    pub(crate) fn within(&self, kind: &str, parent: Option<&ManagedObjectReference>) -> Option<String> {
        let mut places = self.ancestors(parent);
        places.find(|(reference, _)| reference.type_name() == kind).map(|(_, place)| place.name)
    }

    pub(crate) fn host_path(&self, host: &ManagedObjectReference) -> Option<String> {
        let host = self.hosts.get(host)?;
        Some(self.path(&host.name, host.parent.as_ref()))
    }

    pub(crate) fn machine_path(&self, machine: &Machine) -> String {
        self.path(&machine.name, machine.parent.as_ref().or(machine.facts.v_app.as_ref()))
    }

    /// The hosts that a user may mean: by path, or by name.
    pub(crate) fn hosts_called(&self, word: &str) -> Vec<&ManagedObjectReference> {
        let word = normal(word);
        let hosts = self.hosts.iter();
        let mut found: Vec<_> = if word.starts_with('/') {
            hosts
                .filter(|(_, host)| self.path(&host.name, host.parent.as_ref()) == word)
                .map(|(host, _)| host)
                .collect()
        } else {
            hosts.filter(|(_, host)| normal(&host.name).eq_ignore_ascii_case(&word)).map(|(host, _)| host).collect()
        };
        found.sort();
        found
    }

    /// The machines that a user may mean, of those that are shown: by path or object id, else by name, else by UUID, else by address.
    pub(crate) fn machines_called(
        &self,
        word: &str,
        is_shown: impl Fn(&ManagedObjectReference) -> bool,
    ) -> Vec<&ManagedObjectReference> {
        let written = word.trim();
        let word = normal(word);
        // What isn't shown hides nothing that is, though it have the name that another is looked for by.
        let that = |is_meant: &dyn Fn(&ManagedObjectReference, &Machine) -> bool| {
            let meant = self.machines.iter().filter(|(reference, machine)| is_meant(reference, machine));
            let mut found: Vec<_> = meant.map(|(reference, _)| reference).filter(|found| is_shown(found)).collect();
            found.sort();
            found
        };
        if let Some(moref) = word.strip_prefix("moref:") {
            return that(&|reference, _| reference.value() == moref);
        }
        if word.starts_with('/') {
            return that(&|_, machine| self.machine_path(machine) == word);
        }
        // A name is taken as it is written, though it look like a UUID.
        let escaped = inventory::escape(written);
        let named = that(&|_, machine| machine.name == written || machine.name == escaped);
        if !named.is_empty() {
            return named;
        }
        if is_uuid(&word) {
            return that(&|_, machine| machine.uuids().any(|uuid| uuid.eq_ignore_ascii_case(&word)));
        }
        if word.parse::<IpAddr>().is_ok() {
            return that(&|_, machine| machine.addresses().any(|address| normal(address) == word));
        }
        Vec::new()
    }

    /// The member of a group that has, or should have, this name. A copy that somebody made of one carries its marker too, and
    /// so the one in its place comes first.
    pub(crate) fn member_called(&self, group: &str, cluster: &str, name: &str) -> Option<&ManagedObjectReference> {
        let mut machines = self.machines.marked(group);
        let in_place = machines.find(|(_, machine)| machine.name == name && machine.is_of(group, cluster));
        in_place.map(|(reference, _)| reference).or_else(|| self.members(group, cluster).remove(name))
    }

    /// The members of a group, by the names that they should have.
    pub(crate) fn members(&self, group: &str, cluster: &str) -> BTreeMap<String, &ManagedObjectReference> {
        let mut members: BTreeMap<String, (bool, &ManagedObjectReference)> = BTreeMap::new();
        for (reference, machine) in self.machines.marked(group) {
            if !machine.is_of(group, cluster) {
                continue;
            }
            let Some(name) = machine.proper_name() else { continue };
            let rank = (machine.name != name, reference);
            members.entry(name).and_modify(|first| *first = rank.min(*first)).or_insert(rank);
        }
        members.into_iter().map(|(name, (_, reference))| (name, reference)).collect()
    }

    /// The paths of the machines that carry a group's marker, and aren't those that it was written for.
    pub(crate) fn copies(&self, group: &str, cluster: &str) -> Vec<String> {
        let carries = |machine: &&Machine| {
            let marker = machine.marker.as_ref();
            marker.is_some_and(|marker| marker.cluster == cluster) && !machine.is_of(group, cluster)
        };
        let marked = self.machines.marked(group).map(|(_, machine)| machine);
        let mut paths: Vec<_> = marked.filter(carries).map(|machine| self.machine_path(machine)).collect();
        paths.sort();
        paths
    }

    /// How many machines are on a host.
    pub(crate) fn machines_on(&self, host: &ManagedObjectReference) -> usize {
        self.machines.on(host).count()
    }

    /// A machine is not what it was, or is about to be something else.
    pub(crate) fn concern_machine(&self, reference: &ManagedObjectReference, concerned: &mut Concerned) {
        let Some(machine) = self.machines.get(reference).filter(|_| !concerned.everybody) else { return };
        let words = &mut concerned.machines;
        words.insert(format!("moref:{}", reference.value()));
        words.insert(self.machine_path(machine));
        words.insert(normal(&inventory::unescape(&machine.name)));
        words.insert(normal(&machine.name));
        words.extend(machine.uuids().chain(machine.addresses()).map(normal));
        words.extend(machine.proper_name());
        if words.len() > MANY {
            // Also when all of them are seen for the first time: words for each would take more memory than they do themselves.
            concerned.everybody = true;
            words.clear();
        }
    }

    pub(crate) fn concern_host(&self, reference: &ManagedObjectReference, concerned: &mut Concerned) {
        let Some(host) = self.hosts.get(reference) else { return };
        concerned.hosts.insert(normal(&host.name).to_ascii_lowercase());
        concerned.hosts.extend(self.host_path(reference).map(|path| path.to_ascii_lowercase()));
    }

    /// The objects that something with this parent is in, from the inside out.
    pub(crate) fn containers(&self, parent: Option<&ManagedObjectReference>) -> Vec<ManagedObjectReference> {
        // What holds a datacenter doesn't hold its machines: they live on their hosts.
        let above = self.ancestors(parent).map(|(reference, _)| reference);
        let above = above.take_while(|reference| reference.type_name() != "Datacenter");
        let mut all: Vec<_> = parent.cloned().into_iter().chain(above).collect();
        all.dedup();
        all
    }

    /// The places that something with this parent is in, from the inside out.
    pub(super) fn ancestors(
        &self,
        parent: Option<&ManagedObjectReference>,
    ) -> impl Iterator<Item = (ManagedObjectReference, Place)> {
        let mut next = parent.cloned();
        // An inventory isn't so deep, and what is told of it while it changes might go round in circles.
        std::iter::from_fn(move || {
            let here = next.take()?;
            let folder = self.folders.get(&here);
            let folder =
                folder.map(|it| Place { name: it.name.clone(), parent: it.parent.clone(), ..Place::default() });
            let place = folder.or_else(|| self.places.get(&here).cloned())?;
            next.clone_from(&place.parent);
            Some((here, place))
        })
        .take(64)
    }
}

impl Machine {
    /// Whether its marker says that it is a group's, and was written for this very machine.
    pub(crate) fn is_of(&self, group: &str, cluster: &str) -> bool {
        self.own_marker().is_some_and(|marker| marker.group == group && marker.cluster == cluster)
    }

    /// The namespace whose group it is a VM of, if it is one's in this Kubernetes cluster.
    pub(crate) fn owner(&self, cluster: &str) -> Option<&str> {
        self.own_marker().filter(|marker| marker.cluster == cluster).map(|marker| marker.owner.0.as_str())
    }

    /// What it is to those who want to clone it.
    pub(crate) fn as_template(&self) -> Template {
        Template { is_template: self.is_template, power: self.power, is_member: self.own_marker().is_some() }
    }

    /// Its marker, if that was written for this very machine.
    fn own_marker(&self) -> Option<&Marker> {
        let is_its_own =
            |marker: &&Marker| marker.made.as_ref().is_none_or(|made| Some(&made.instance) == self.instance.as_ref());
        self.marker.as_deref().filter(is_its_own).filter(|_| !self.is_template)
    }

    /// The name that it should have as a member of its group, whatever it has been renamed to.
    fn proper_name(&self) -> Option<String> {
        self.marker.as_ref().map(|marker| names::member(&marker.owner.1, &marker.group, marker.slot))
    }

    fn uuids(&self) -> impl Iterator<Item = &str> {
        [self.facts.uuid.as_deref(), self.instance.as_deref()].into_iter().flatten()
    }

    /// All its addresses, the one that vCenter shows first.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &str> {
        let first = self.address.as_deref();
        let others = self.facts.addresses.iter().map(String::as_str);
        first.into_iter().chain(others.filter(move |address| Some(*address) != first))
    }
}

#[cfg(test)]
mod tests {
    use drover_core::{Timestamp, names::Slot, vmgroup::Revision};

    use super::*;
    use crate::vcenter::{host::Host, mirror::Folder};

    fn reference(kind: &str, id: &str) -> ManagedObjectReference {
        ManagedObjectReference::new(kind, id)
    }

    fn machine(name: &str, folder: &str) -> Machine {
        let mut machine = Machine::new(Timestamp::UNIX_EPOCH);
        machine.name = name.to_owned();
        machine.parent = Some(reference("Folder", folder));
        machine
    }

    fn marked(name: &str, slot: u32) -> Machine {
        let marker = Marker {
            group: "uid".to_owned(),
            owner: ("ns".to_owned(), "web".to_owned()),
            slot: Slot(slot),
            revision: Revision(0),
            cluster: "here".to_owned(),
            made: None,
            storage_mib: None,
        };
        Machine { marker: Some(Box::new(marker)), ..machine(name, "f-1") }
    }

    /// A datacenter in a folder, two folders for machines in it, and a cluster with a host.
    fn mirror(machines: Vec<(&str, Machine)>) -> Mirror {
        let mut mirror = Mirror::default();
        let mut folder = |id: &str, name: &str, parent| {
            let folder = Folder { name: name.to_owned(), parent: Some(parent) };
            mirror.folders.insert(reference("Folder", id), folder);
        };
        folder("f-0", "emea", reference("Folder", "root"));
        folder("f-vm", "vm", reference("Datacenter", "dc"));
        folder("f-host", "host", reference("Datacenter", "dc"));
        folder("f-1", "one", reference("Folder", "f-vm"));
        folder("f-2", "two", reference("Folder", "f-vm"));
        let mut place = |kind, id, name: &str, parent| {
            mirror
                .places
                .insert(reference(kind, id), Place { name: name.to_owned(), parent: Some(parent), ..Place::default() });
        };
        place("Datacenter", "dc", "DC0", reference("Folder", "f-0"));
        place("ClusterComputeResource", "c", "C0", reference("Folder", "f-host"));
        let host = Host {
            name: "ESXi-1".to_owned(),
            parent: Some(reference("ClusterComputeResource", "c")),
            ..Host::default()
        };
        mirror.hosts.insert(reference("HostSystem", "h"), host);
        for (id, machine) in machines {
            mirror.machines.insert(reference("VirtualMachine", id), machine);
        }
        mirror
    }

    fn called(mirror: &Mirror, word: &str) -> Vec<String> {
        mirror.machines_called(word, |_| true).into_iter().map(|machine| machine.value().to_owned()).collect()
    }

    #[test]
    fn paths_are_those_that_people_know_from_vcenter() {
        let mirror = mirror(vec![("vm-1", machine("web", "f-1"))]);
        let host = reference("HostSystem", "h");
        assert_eq!(mirror.host_path(&host).as_deref(), Some("/emea/DC0/host/C0/ESXi-1"));
        let parent = mirror.hosts[&host].parent.as_ref();
        assert_eq!(mirror.within("ClusterComputeResource", parent).as_deref(), Some("C0"));
        assert_eq!(mirror.within("Datacenter", parent).as_deref(), Some("DC0"));
        assert_eq!(mirror.machine_path(&mirror.machines[&reference("VirtualMachine", "vm-1")]), "/emea/DC0/vm/one/web");
        assert_eq!(mirror.hosts_called("esxi-1"), [&host]);
        assert_eq!(mirror.hosts_called("/emea/DC0/host/C0/ESXi-1/"), [&host]);
    }

    #[test]
    fn a_circle_of_folders_has_a_path_too() {
        let mut mirror = mirror(vec![]);
        let own = reference("Folder", "f-1");
        mirror.folders.change(&own).unwrap().parent = Some(own.clone());
        assert!(mirror.path("web", Some(&own)).ends_with("/one/web"));
    }

    #[test]
    fn a_machine_answers_to_all_its_names() {
        let mut web = machine("team%2fweb", "f-1");
        web.facts.uuid = Some("4210ABCD-0000-1111-2222-333344445555".to_owned());
        web.address = Some("10.0.0.7".to_owned());
        web.facts.addresses = vec!["10.0.0.7".to_owned(), "fe80::1".to_owned()];
        let mirror = mirror(vec![("vm-1", web), ("vm-2", machine("db", "f-2"))]);
        for word in [
            "team%2fweb",
            "team/web",
            "/emea/DC0/vm/one/team%2fweb",
            "moref:vm-1",
            "4210abcd-0000-1111-2222-333344445555",
            "10.0.0.7",
            "fe80:0:0:0:0:0:0:1",
        ] {
            assert_eq!(called(&mirror, word), ["vm-1"], "{word}");
        }
        let machine = &mirror.machines[&reference("VirtualMachine", "vm-1")];
        assert_eq!(machine.addresses().collect::<Vec<_>>(), ["10.0.0.7", "fe80::1"]);
        assert_eq!(called(&mirror, "nobody"), Vec::<String>::new());
    }

    #[test]
    fn what_is_not_shown_hides_nothing_that_is() {
        let (address, uuid) = ("10.0.0.7", "4210abcd-0000-1111-2222-333344445555");
        let mut web = machine("web", "f-1");
        web.address = Some(address.to_owned());
        web.facts.uuid = Some(uuid.to_owned());
        let mirror = mirror(vec![
            ("vm-1", web),
            ("vm-2", machine(address, "f-2")),
            ("vm-3", machine(uuid, "f-2")),
            ("vm-4", machine("web", "f-2")),
        ]);
        let web = reference("VirtualMachine", "vm-1");
        for word in [address, uuid, "web"] {
            assert_eq!(mirror.machines_called(word, |machine| *machine == web), [&web], "{word}");
        }
        assert!(mirror.machines_called("moref:vm-2", |machine| *machine == web).is_empty());
        assert_eq!(called(&mirror, address), ["vm-2"], "a name comes first");
    }

    #[test]
    fn what_can_be_written_in_several_ways_is_found_in_each() {
        let mut mirror = mirror(vec![("vm-1", machine("4210ABCD-0000-1111-2222-333344445555", "f-1"))]);
        assert_eq!(called(&mirror, "4210ABCD-0000-1111-2222-333344445555"), ["vm-1"], "it is a name, too");
        let host = reference("HostSystem", "h");
        mirror.hosts.get_mut(&host).unwrap().name = "2001:DB8:0:0:0:0:0:7".to_owned();
        for word in ["2001:db8::7", "2001:DB8:0:0:0:0:0:7", "2001:0db8::0007"] {
            assert_eq!(mirror.hosts_called(word), [&host], "{word}");
        }
        let mut concerned = Concerned::default();
        mirror.concern_machine(&reference("VirtualMachine", "vm-1"), &mut concerned);
        mirror.concern_host(&host, &mut concerned);
        assert!(concerned.machines.contains(&normal("4210ABCD-0000-1111-2222-333344445555")));
        assert!(concerned.hosts.contains(&normal("2001:DB8:0:0:0:0:0:7")));
    }

    #[test]
    fn a_change_concerns_those_who_asked_by_any_of_the_names() {
        let mut web = machine("web", "f-1");
        web.address = Some("10.0.0.7".to_owned());
        let mirror = mirror(vec![("vm-1", web)]);
        let mut concerned = Concerned::default();
        assert!(concerned.is_nobody());
        mirror.concern_machine(&reference("VirtualMachine", "vm-1"), &mut concerned);
        for word in ["web", "10.0.0.7", "moref:vm-1", "/emea/DC0/vm/one/web/"] {
            assert!(concerned.machines.contains(&normal(word)), "{word}");
        }
        mirror.concern_host(&reference("HostSystem", "h"), &mut concerned);
        assert!(concerned.hosts.contains("esxi-1"));
    }

    #[test]
    fn members_are_known_by_their_markers_whatever_they_are_called() {
        let name = |slot| names::member("web", "uid", Slot(slot));
        let mirror = mirror(vec![
            ("vm-1", marked(&name(0), 0)),
            // A copy that somebody made of the first, and the second under another name.
            ("vm-0", marked("copy", 0)),
            ("vm-2", marked("renamed", 1)),
            ("vm-3", machine(&name(0), "f-2")),
        ]);
        let first = reference("VirtualMachine", "vm-1");
        let second = reference("VirtualMachine", "vm-2");
        let expected = BTreeMap::from([(name(0), &first), (name(1), &second)]);
        assert_eq!(mirror.members("uid", "here"), expected);
        assert_eq!(mirror.member_called("uid", "here", &name(1)), Some(&second));
        assert_eq!(mirror.member_called("uid", "here", &name(0)), Some(&first));
        assert_eq!(mirror.member_called("uid", "elsewhere", &name(0)), None);
    }
}
