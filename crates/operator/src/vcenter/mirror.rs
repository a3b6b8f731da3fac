//! What vCenter has told: machines, hosts, folders and tasks as they are, in memory.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use drover_core::{Timestamp, vmgroup::adapters::Mac};
use vim25::{
    ManagedObjectReference, Result,
    props::{folder, virtual_machine as vm},
    types::{ObjectUpdate, PropertySpec},
};

use super::{
    awaited::{Awaited, Change},
    gone::Gone,
    host::{self, Host},
    indexed::Indexed,
    inventory_names::{self, Concerned, Place},
    machine::{self, Machine},
    networks::{self, Networks},
    task_states::{Destruction, TaskStates},
    templates::Templates,
};

/// A group by its namespace and name.
pub(crate) type GroupKey = (String, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
}

#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub machines: Indexed<Machine>,
    pub hosts: HashMap<ManagedObjectReference, Host>,
    pub folders: Indexed<Folder>,
    /// The datacenters, clusters, resource pools and datastores.
    pub places: HashMap<ManagedObjectReference, Place>,
    pub tasks: TaskStates,
    gone: Gone,
    /// The groups that wait for something to be there.
    pub awaited: Awaited,
    /// What clones need to know of what they are made from.
    pub templates: Templates,
    /// What clones' cards are connected to.
    pub networks: Networks,
    /// The MAC addresses that were given to machines by hand, as VMware Tools last told them. Few machines have any.
    pub macs: HashMap<ManagedObjectReference, Vec<Mac>>,
}

/// How much later than a task has destroyed what it was in, a machine may be told to have left.
const LATE: Duration = Duration::from_secs(5);

/// The properties that the mirror is made from.
pub(crate) fn properties() -> Vec<PropertySpec> {
    let mut all = vec![machine::properties(), host::properties(), PropertySpec::of(&[&folder::NAME, &folder::PARENT])];
    all.extend(inventory_names::properties());
    all.extend(networks::properties());
    all
}

/// What a change of the mirror asks for.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// Groups to plan again.
    pub groups: BTreeSet<GroupKey>,
    /// Machines whose hardware has to be read again: vCenter told that it changed, and not to what.
    pub reread: Vec<ManagedObjectReference>,
    /// Clones that run, and were not known of.
    pub clones: Vec<ManagedObjectReference>,
    /// Hosts and machines that are not what they were.
    pub concerned: Concerned,
}

impl Mirror {
    pub(crate) fn change(&mut self, mut update: ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        match update.obj.type_name() {
            "VirtualMachine" => self.change_machine(&mut update, now, then),
            "Task" => {
                if let Some(Destruction { object, took }) = self.tasks.change(&mut update, then)? {
                    self.note_destroyed(&object, took, now, then);
                }
                Ok(())
            }
            "HostSystem" => self.change_host(&mut update, then),
            "Datacenter"
            | "ComputeResource"
            | "ClusterComputeResource"
            | "ResourcePool"
            | "VirtualApp"
            | "Datastore" => {
                let mut concerned = std::mem::take(&mut then.concerned);
                let changed = self.change_place(&mut update, &mut concerned, then);
                then.concerned = concerned;
                changed
            }
            "Network" | "DistributedVirtualPortgroup" | "OpaqueNetwork" => {
                // Nobody is shown with the networks that they are on.
                self.change_place(&mut update, &mut Concerned::default(), then)?;
                self.change_network(&mut update, Change::Itself, then)
            }
            "DistributedVirtualSwitch" | "VmwareDistributedVirtualSwitch" => {
                // Who names a network doesn't name the switch that it is on.
                self.change_network(&mut update, Change::Path, then)
            }
            _ => self.change_folder(&mut update, then),
        }
    }

    pub(crate) fn remove(&mut self, object: &ManagedObjectReference, now: Timestamp, then: &mut Consequences) {
        self.concern_machine(object, &mut then.concerned);
        self.concern_host(object, &mut then.concerned);
        self.templates.remove(object);
        self.networks.remove(object);
        self.macs.remove(object);
        if let Some(host) = self.hosts.remove(object) {
            self.tell_awaiting(Change::Itself, [&host.name, ""], then);
        }
        if let Some(place) = self.places.remove(object) {
            // Who leaves open in which datacenter waits until there is one only.
            let change = if object.type_name() == "Datacenter" { Change::Path } else { Change::Itself };
            self.tell_awaiting(change, [&place.name, ""], then);
        }
        then.groups.extend(self.awaited.take_of_template(object));
        if let Some(machine) = self.machines.remove(object) {
            if let Some(host) = &machine.facts.host {
                self.concern_host(host, &mut then.concerned);
            }
            self.tell_awaiting(Change::Itself, [&machine.name, &format!("moref:{}", object.value())], then);
            if let Some(marker) = machine.marker {
                let containers = self.containers(machine.parent.as_ref().or(machine.facts.v_app.as_ref()));
                then.groups.insert(marker.owner.clone());
                self.gone.note_left(object, containers, marker.owner, now);
            }
        }
        if let Some(folder) = self.folders.remove(object) {
            then.groups.extend(self.awaited.of_folder(&folder.name));
            self.tell_awaiting(Change::Itself, [&folder.name, ""], then);
        }
        self.tasks.leave_list(object);
    }

    /// vCenter doesn't let an object be read. What is known of it holds, and nothing is done to it.
    pub(crate) fn note_unreadable(&mut self, object: &ManagedObjectReference, now: Timestamp, then: &mut Consequences) {
        if let Some(mut machine) = self.machines.change(object) {
            machine.note_unreadable(now);
            then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        }
    }

    /// Whether a machine is proved to be gone: a task has destroyed it, or something that it was in. That it isn't seen proves
    /// nothing.
    pub(crate) fn is_proved_gone(&self, machine: &ManagedObjectReference) -> bool {
        !self.machines.contains_key(machine) && self.gone.is_destroyed(machine)
    }

    /// Takes up that a task which took so long has destroyed an object, with all that was in it: what is still shown in it, and what
    /// left it meanwhile. What left before may be anywhere.
    pub(crate) fn note_destroyed(
        &mut self,
        object: &ManagedObjectReference,
        took: Duration,
        now: Timestamp,
        then: &mut Consequences,
    ) {
        // Of what else can be destroyed, the machines live on.
        let gone: Vec<_> = match object.type_name() {
            "VirtualMachine" => vec![object.clone()],
            "Folder" | "VirtualApp" => {
                self.machines_in(object, now.saturating_sub(took + LATE).unwrap_or(Timestamp::MIN))
            }
            _ => return,
        };
        for machine in gone {
            let owner = self.machines.get(&machine).and_then(|machine| Some(machine.marker.as_ref()?.owner.clone()));
            then.groups.extend(owner.or_else(|| self.gone.owner(&machine).cloned()));
            self.gone.note_destroyed(machine);
        }
    }

    /// The machines that are in something, or were until they left after this time.
    fn machines_in(&self, container: &ManagedObjectReference, since: Timestamp) -> Vec<ManagedObjectReference> {
        let is_inside = |machine: &Machine| {
            let parent = machine.parent.as_ref().or(machine.facts.v_app.as_ref());
            self.containers(parent).contains(container)
        };
        let inside = self.machines.iter().filter(|(_, machine)| machine.marker.is_some() && is_inside(machine));
        inside.map(|(machine, _)| machine).chain(self.gone.left(container, since)).cloned().collect()
    }

    /// Whether a group has machines here.
    pub(crate) fn has_members(&self, group: &str, cluster: &str) -> bool {
        self.machines.marked(group).any(|(_, machine)| machine.is_of(group, cluster))
    }

    fn change_machine(&mut self, update: &mut ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        let known = self.machines.contains_key(&update.obj);
        self.concern_machine(&update.obj, &mut then.concerned);
        self.gone.note_back(&update.obj);
        if !known {
            // A vCenter that was restored from a backup may give an id again.
            self.gone.retract_destroyed(&update.obj);
        }
        let mut machine = self.machines.change_or(&update.obj, || Machine::new(now));
        let (host_before, v_app_before) = (machine.facts.host.clone(), machine.facts.v_app.clone());
        let template_before = machine.as_template();
        let (name_before, parent_before) = (machine.name.clone(), machine.parent.clone());
        let was_made = machine.instance.is_some();
        if let Some(name) = update.take(vm::NAME)? {
            machine.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(vm::PARENT)? {
            if parent.is_some() {
                // It is in something: it had left what was destroyed, before that was known here.
                self.gone.retract_destroyed(&update.obj);
            }
            machine.parent = parent.map(Into::into);
        }
        // Its group may be another than before, or none.
        then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        machine.change_identity(update)?;
        let has_hardware = machine.change_hardware(update)?;
        let has_other_snapshot = update.take(machine::CURRENT_SNAPSHOT)?.is_some() && known;
        let has_other_config = update.take(vm::CONFIG_CHANGE_VERSION)?.is_some() && known;
        if has_other_config && !has_hardware {
            then.reread.push(update.obj.clone());
        }
        machine.change_state(update)?;
        machine.note_reach(now);
        // What people read comes last, so that nothing odd in it keeps the rest from being read.
        let connection = machine.connection.clone();
        match machine.facts.change(update, connection.as_deref()) {
            Some(macs) if macs.is_empty() => drop(self.macs.remove(&update.obj)),
            Some(macs) => drop(self.macs.insert(update.obj.clone(), macs)),
            None => {}
        }
        if machine.facts.v_app.is_some() && machine.facts.v_app != v_app_before {
            self.gone.retract_destroyed(&update.obj);
        }
        machine.created = machine.facts.created.unwrap_or(machine.created);
        let from = if known { now } else { machine.facts.up_since(now) };
        let Machine { power, tools_running, .. } = *machine;
        let has_address = machine.address.is_some();
        machine.since.note(power, tools_running, has_address, from);
        then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        if machine.as_template() != template_before {
            // Those that still have to wait will say so again.
            then.groups.extend(self.awaited.take_of_template(&update.obj));
        }
        let host = machine.facts.host.clone();
        // Before it has a configuration, nothing can be made from it.
        let is_made = machine.instance.is_some() && !was_made;
        let may_be_cloned_otherwise = is_made || has_other_snapshot || has_other_config;
        if may_be_cloned_otherwise {
            self.templates.forget(&update.obj);
        }
        let is_another = may_be_cloned_otherwise
            || machine.name != name_before
            || machine.parent != parent_before
            || machine.facts.v_app != v_app_before;
        let names = is_another.then(|| (machine.name.clone(), format!("moref:{}", update.obj.value())));
        drop(machine);
        if let Some((name, moref)) = names {
            self.tell_awaiting(Change::Itself, [&name_before, &name], then);
            self.tell_awaiting(Change::Itself, [&moref, ""], then);
        }
        if host != host_before {
            for host in host_before.iter().chain(&host) {
                self.concern_host(host, &mut then.concerned);
            }
        }
        self.concern_machine(&update.obj, &mut then.concerned);
        Ok(())
    }

    fn change_host(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<()> {
        self.concern_host(&update.obj, &mut then.concerned);
        let host = self.hosts.entry(update.obj.clone()).or_default();
        let (name, before) = (host.name.clone(), (host.parent.clone(), host.obstacle()));
        host.change(update)?;
        // Machines tell the name of the host that they are on.
        then.concerned.everybody |= host.name != name;
        if host.name != name || (host.parent.clone(), host.obstacle()) != before {
            // Also those wait for it that name none: it may take VMs now.
            then.groups.extend(self.awaited.of_names(Change::Path, ["", ""]));
        }
        self.concern_host(&update.obj, &mut then.concerned);
        Ok(())
    }

    /// Whether anything is told to be in an object.
    fn is_used(&self, object: &ManagedObjectReference) -> bool {
        let is_it = |parent: Option<&ManagedObjectReference>| parent == Some(object);
        self.folders.inside(object).next().is_some()
            || self.machines.inside(object).next().is_some()
            || self.places.values().any(|place| is_it(place.parent.as_ref()))
            || self.hosts.values().any(|host| is_it(host.parent.as_ref()))
            || self.machines.values().any(|machine| is_it(machine.facts.v_app.as_ref()))
    }

    fn change_place(
        &mut self,
        update: &mut ObjectUpdate,
        concerned: &mut Concerned,
        then: &mut Consequences,
    ) -> Result<()> {
        let place = self.places.entry(update.obj.clone()).or_default();
        let before = place.clone();
        place.change(update)?;
        if *place != before {
            concerned.everybody = true;
            let name = place.name.clone();
            if self.awaited.is_any() {
                // Who leaves open where VMs go waits for a datacenter of any name. What is in a place may be told of before it.
                let is_alone =
                    before.name.is_empty() && update.obj.type_name() != "Datacenter" && !self.is_used(&update.obj);
                let change = if is_alone { Change::Itself } else { Change::Path };
                self.tell_awaiting(change, [&before.name, &name], then);
            }
        }
        Ok(())
    }

    fn change_network(&mut self, update: &mut ObjectUpdate, change: Change, then: &mut Consequences) -> Result<()> {
        if self.networks.change(update)? {
            let name = self.places.get(&update.obj).map(|place| place.name.as_str()).unwrap_or_default();
            self.tell_awaiting(change, [name, ""], then);
        }
        Ok(())
    }

    fn change_folder(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<()> {
        let is_used =
            self.machines.inside(&update.obj).next().is_some() || self.folders.inside(&update.obj).next().is_some();
        let mut folder = self.folders.change_or(&update.obj, Folder::default);
        let (name_before, parent_before) = (folder.name.clone(), folder.parent.clone());
        if let Some(name) = update.take(folder::NAME)? {
            folder.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(folder::PARENT)? {
            folder.parent = parent.map(Into::into);
        }
        let is_moved = parent_before.is_some() && folder.parent.is_some() && folder.parent != parent_before;
        // One that is new, and has nothing in it, is nobody's path.
        then.concerned.everybody |= is_used && (folder.name != name_before || folder.parent != parent_before);
        let (name, is_another) = (folder.name.clone(), folder.name != name_before || folder.parent != parent_before);
        drop(folder);
        then.groups.extend(self.awaited.of_folder(&name));
        if is_another {
            let change = if name_before.is_empty() && !is_used { Change::Itself } else { Change::Path };
            self.tell_awaiting(change, [&name_before, &name], then);
        }
        if is_moved && !self.gone.has_none_destroyed() {
            // What is in it has left with it what was destroyed.
            for machine in self.machines_in(&update.obj, Timestamp::MAX) {
                self.gone.retract_destroyed(&machine);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use drover_core::{
        names::Slot,
        vmgroup::{Revision, inventory::Marker},
    };
    use vim25::{Any, types::PropertyChange};

    use super::*;
    use crate::vcenter::awaited::Awaiting;

    fn reference(kind: &str, id: &str) -> ManagedObjectReference {
        ManagedObjectReference::new(kind, id)
    }

    /// A member in a folder, which is in another.
    fn mirror() -> Mirror {
        let mut mirror = Mirror::default();
        for (id, parent) in [("f-0", "root"), ("f-1", "f-0"), ("f-2", "root")] {
            let folder = Folder { parent: Some(reference("Folder", parent)), ..Folder::default() };
            mirror.folders.insert(reference("Folder", id), folder);
        }
        let marker = Marker {
            group: "uid".to_owned(),
            owner: ("ns".to_owned(), "web".to_owned()),
            slot: Slot(0),
            revision: Revision(0),
            cluster: "here".to_owned(),
            made: None,
            storage_mib: None,
        };
        let mut machine = Machine::new(Timestamp::UNIX_EPOCH);
        (machine.parent, machine.marker) = (Some(reference("Folder", "f-1")), Some(Box::new(marker)));
        mirror.machines.insert(reference("VirtualMachine", "vm-1"), machine);
        mirror
    }

    #[test]
    fn a_new_folder_concerns_those_alone_who_are_in_it() {
        let told = |mirror: &mut Mirror, id: &str, name: &str| {
            let name = Some(Any::String(name.to_owned()));
            let change = PropertyChange { name: "name".to_owned(), val: name, ..PropertyChange::default() };
            let obj = reference("Folder", id);
            let update = ObjectUpdate { obj, change_set: vec![change], ..ObjectUpdate::default() };
            let mut then = Consequences::default();
            mirror.change(update, Timestamp::UNIX_EPOCH, &mut then).unwrap();
            then.concerned.everybody
        };
        let mut mirror = mirror();
        assert!(!told(&mut mirror, "f-9", "new"), "nobody is in it");
        assert!(told(&mut mirror, "f-1", "renamed"), "the path of a VM is another");
        assert!(told(&mut mirror, "root", "told late"), "so it is where a folder is told of after what is in it");
    }

    #[test]
    fn who_waits_for_a_name_is_told_of_what_has_it_however_it_is_told() {
        let mut mirror = mirror();
        let group = Awaiting { key: ("ns".to_owned(), "waits".to_owned()), uid: "waits".to_owned() };
        mirror.awaited.names(&group, ["golden", "images"].into_iter());
        let told = |mirror: &mut Mirror, kind: &str, id: &str, changes: &[(&str, Any)]| {
            let change = |(name, val): &(&str, Any)| PropertyChange {
                name: (*name).to_owned(),
                val: Some(val.clone()),
                ..PropertyChange::default()
            };
            let change_set = changes.iter().map(change).collect();
            let update = ObjectUpdate { obj: reference(kind, id), change_set, ..ObjectUpdate::default() };
            let mut then = Consequences::default();
            mirror.change(update, Timestamp::UNIX_EPOCH, &mut then).unwrap();
            then.groups.iter().any(|(_, name)| name == "waits")
        };
        let text = |text: &str| Any::String(text.to_owned());
        let folder = |id: &str| Any::Reference(reference("Folder", id));
        let vm = "VirtualMachine";
        assert!(!told(&mut mirror, vm, "vm-7", &[("name", text("silver")), ("parent", folder("late"))]));
        assert!(told(&mut mirror, vm, "vm-8", &[("name", text("golden")), ("parent", folder("late"))]));
        assert!(told(&mut mirror, vm, "vm-8", &[("config.instanceUuid", text("uuid"))]), "it can be cloned now");
        assert!(!told(&mut mirror, vm, "vm-8", &[("guest.ipAddress", text("10.0.0.1"))]));
        assert!(told(&mut mirror, "Folder", "late", &[("name", text("x")), ("parent", folder("f-0"))]), "its folder");
        assert!(!told(&mut mirror, "Folder", "new", &[("name", text("y")), ("parent", folder("f-0"))]), "it is empty");
        assert!(told(&mut mirror, "Folder", "new", &[("name", text("images"))]));
        assert!(told(&mut mirror, "Datacenter", "dc", &[("name", text("DC9"))]), "any may be the only one");
        let mut then = Consequences::default();
        mirror.remove(&reference("Datacenter", "dc"), Timestamp::UNIX_EPOCH, &mut then);
        assert_eq!(then.groups.len(), 1);
        mirror.awaited.found("waits");
        assert!(!told(&mut mirror, vm, "vm-8", &[("name", text("images"))]));
    }

    #[test]
    fn a_vm_that_is_told_of_after_its_old_folder_was_destroyed_is_not_proved_gone_for_that() {
        let (vm, now) = (reference("VirtualMachine", "vm-1"), Timestamp::UNIX_EPOCH);
        let then = &mut Consequences::default();
        for moved in [None, Some(vm.clone()), Some(reference("Folder", "f-1"))] {
            let mut mirror = mirror();
            mirror.note_destroyed(&reference("Folder", "f-0"), Duration::ZERO, now, then);
            if let Some(obj) = moved.clone() {
                let parent = Some(Any::Reference(reference("Folder", "f-2")));
                let change = PropertyChange { name: "parent".to_owned(), val: parent, ..PropertyChange::default() };
                let update = ObjectUpdate { obj, change_set: vec![change], ..ObjectUpdate::default() };
                mirror.change(update, now, then).unwrap();
            }
            mirror.remove(&vm, now, then);
            assert_eq!(mirror.is_proved_gone(&vm), moved.is_none(), "{moved:?} has moved");
        }
    }
}
