//! What vCenter has told: machines, hosts, folders and tasks as they are, in memory.

use std::collections::{BTreeSet, HashMap};

use drover_core::group::{Hardware, HotAdd, Power, Timestamp};
use vim25::{
    LocalizedMethodFault, ManagedObjectReference, Result,
    enums::{TaskInfoState, VirtualMachinePowerState},
    props::{folder, task, virtual_machine as vm},
    types::{ObjectUpdate, PropertySpec},
};

use super::{
    facts::{self, Facts},
    host::{self, Host},
    marker::Marker,
    whereabouts::{self, Concerned, Place},
};

/// A group by its namespace and name.
pub(crate) type GroupKey = (String, String);

/// A machine as vCenter last told of it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    pub marker: Option<Marker>,
    pub hardware: Hardware,
    pub hot_add: HotAdd,
    pub power: Power,
    pub tools_running: bool,
    pub address: Option<String>,
    /// Since when it has been powered on, its tools have run and it has had an address, as seen from here.
    pub since: Since,
    pub created: Timestamp,
    pub facts: Facts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Since {
    pub on: Option<Timestamp>,
    pub tools: Option<Timestamp>,
    pub address: Option<Timestamp>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    /// What vCenter showed in it when it was asked, that the mirror doesn't know.
    pub found: usize,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    Done,
    Failed(LocalizedMethodFault),
    /// vCenter has dropped the task before its end was seen. What it did, the world shows.
    Unseen,
}

#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub machines: HashMap<ManagedObjectReference, Machine>,
    pub hosts: HashMap<ManagedObjectReference, Host>,
    pub folders: HashMap<ManagedObjectReference, Folder>,
    /// The datacenters, clusters, resource pools and datastores.
    pub places: HashMap<ManagedObjectReference, Place>,
    /// The tasks that have ended.
    pub tasks: HashMap<ManagedObjectReference, Ended>,
    /// The tasks that run, with the object that each runs on.
    pub running: HashMap<ManagedObjectReference, ManagedObjectReference>,
    /// Whose tasks they are that were submitted from here, until their end is taken up.
    pub submitters: HashMap<ManagedObjectReference, GroupKey>,
    /// The names of groups' folders.
    pub awaited: HashMap<String, GroupKey>,
}

/// The properties that the mirror is made from.
pub(crate) fn properties() -> Vec<PropertySpec> {
    let mut machines = PropertySpec::of(&[
        &vm::NAME,
        &vm::PARENT,
        &vm::CONFIG_EXTRA_CONFIG,
        &vm::CONFIG_CHANGE_VERSION,
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_CPU_HOT_ADD_ENABLED,
        &vm::CONFIG_MEMORY_HOT_ADD_ENABLED,
        &vm::RUNTIME_POWER_STATE,
        &vm::GUEST_TOOLS_RUNNING_STATUS,
        &vm::GUEST_IP_ADDRESS,
    ]);
    machines.path_set.extend(facts::properties().path_set);
    let mut all = vec![machines, host::properties(), PropertySpec::of(&[&folder::NAME, &folder::PARENT])];
    all.extend(whereabouts::properties());
    all
}

/// The properties of machines that not every vCenter tells changes of.
pub(crate) fn untold_properties() -> PropertySpec {
    let mut all = PropertySpec::of(&[&vm::CONFIG_HARDWARE_NUM_CPU, &vm::CONFIG_HARDWARE_MEMORY_MB]);
    all.path_set.extend(facts::configuration().path_set);
    all
}

/// The properties of tasks.
pub(crate) fn task_properties() -> Vec<PropertySpec> {
    vec![PropertySpec::of(&[&task::INFO])]
}

/// What a change of the mirror asks for.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// Groups to plan again.
    pub groups: BTreeSet<GroupKey>,
    /// Machines whose hardware has to be read again: vCenter told that it changed, and not to what.
    pub reread: Vec<ManagedObjectReference>,
    /// Tasks of ours that vCenter no longer lists, without having told of their end.
    pub unlisted: Vec<ManagedObjectReference>,
    /// Hosts and machines that are not what they were.
    pub concerned: Concerned,
}

impl Mirror {
    pub(crate) fn change(&mut self, mut update: ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        match update.obj.type_name() {
            "VirtualMachine" => self.change_machine(&mut update, now, then),
            "Task" => self.change_task(&mut update, then),
            "HostSystem" => self.change_host(&mut update, then),
            "Datacenter"
            | "ComputeResource"
            | "ClusterComputeResource"
            | "ResourcePool"
            | "VirtualApp"
            | "Datastore" => self.change_place(&mut update, then),
            _ => self.change_folder(&mut update, then),
        }
    }

    pub(crate) fn remove(&mut self, object: &ManagedObjectReference, then: &mut Consequences) {
        self.concern_machine(object, &mut then.concerned);
        self.concern_host(object, &mut then.concerned);
        self.hosts.remove(object);
        self.places.remove(object);
        if let Some(machine) = self.machines.remove(object) {
            if let Some(host) = &machine.facts.host {
                self.concern_host(host, &mut then.concerned);
            }
            then.groups.extend(machine.marker.map(|marker| marker.owner));
        }
        if let Some(folder) = self.folders.remove(object) {
            then.groups.extend(self.awaited.get(&folder.name).cloned());
        }
        if self.submitters.contains_key(object) {
            // A list of recent tasks has an end, and what leaves it may well run.
            if !self.tasks.contains_key(object) {
                then.unlisted.push(object.clone());
            }
        } else {
            self.running.remove(object);
            self.tasks.remove(object);
        }
    }

    /// Whether a folder has something in it, by what machines and folders say of their parents: vCenter tells of those at once,
    /// and of a folder's own list not always.
    pub(crate) fn is_occupied(&self, folder: &ManagedObjectReference) -> bool {
        let machines = self.machines.values().map(|machine| machine.parent.as_ref());
        let mut parents = machines.chain(self.folders.values().map(|folder| folder.parent.as_ref()));
        parents.any(|parent| parent == Some(folder)) || self.folders.get(folder).is_some_and(|folder| folder.found > 0)
    }

    /// Takes up what vCenter showed in a folder when it was asked.
    pub(crate) fn found_in(&mut self, folder: &ManagedObjectReference, children: usize) {
        if let Some(folder) = self.folders.get_mut(folder) {
            folder.found = children;
        }
    }

    /// Takes up how a task ended that isn't listed any more, and returns whose it is, if that matters to anybody.
    pub(crate) fn end(&mut self, task: &ManagedObjectReference, ended: Ended) -> Option<GroupKey> {
        self.running.remove(task);
        let group = self.submitters.get(task)?.clone();
        self.tasks.entry(task.clone()).or_insert(ended);
        Some(group)
    }

    /// The tasks of ours that are neither known to run nor to have ended.
    pub(crate) fn unheard_of(&self) -> Vec<ManagedObjectReference> {
        self.submitters.keys().filter(|task| self.is_unheard_of(task)).cloned().collect()
    }

    /// Whether a task is ours, and neither known to run nor to have ended.
    pub(crate) fn is_unheard_of(&self, task: &ManagedObjectReference) -> bool {
        self.submitters.contains_key(task) && !self.running.contains_key(task) && !self.tasks.contains_key(task)
    }

    /// Whether a group has machines here.
    pub(crate) fn has_members(&self, group: &str, cluster: &str) -> bool {
        let mut markers = self.machines.values().filter_map(|machine| machine.marker.as_ref());
        markers.any(|marker| marker.group == group && marker.cluster == cluster)
    }

    /// How a task ended, if it has. It is told once.
    pub(crate) fn end_of(&mut self, task: &ManagedObjectReference) -> Option<Ended> {
        let ended = self.tasks.remove(task)?;
        self.submitters.remove(task);
        Some(ended)
    }

    fn change_machine(&mut self, update: &mut ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        let known = self.machines.contains_key(&update.obj);
        self.concern_machine(&update.obj, &mut then.concerned);
        let machine = self.machines.entry(update.obj.clone()).or_insert_with(|| Machine::new(now));
        let host_before = machine.facts.host.clone();
        machine.facts.change(update)?;
        if let Some(name) = update.take(vm::NAME)? {
            machine.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(vm::PARENT)? {
            machine.parent = parent.map(Into::into);
        }
        if let Some(keys) = update.take(vm::CONFIG_EXTRA_CONFIG)? {
            // Its group may be another than before, or none.
            then.groups.extend(machine.marker.take().map(|marker| marker.owner));
            machine.marker = Marker::read(&keys.unwrap_or_default());
        }
        let cpus = update.take(vm::CONFIG_HARDWARE_NUM_CPU)?.flatten();
        let memory = update.take(vm::CONFIG_HARDWARE_MEMORY_MB)?.flatten();
        let has_hardware = cpus.is_some() || memory.is_some();
        if let Some(cpus) = cpus {
            machine.hardware.cpus = u32::try_from(cpus).unwrap_or(0);
        }
        if let Some(memory) = memory {
            machine.hardware.memory_mib = u64::try_from(memory).unwrap_or(0);
        }
        if let Some(enabled) = update.take(vm::CONFIG_CPU_HOT_ADD_ENABLED)? {
            machine.hot_add.cpus = enabled.unwrap_or(false);
        }
        if let Some(enabled) = update.take(vm::CONFIG_MEMORY_HOT_ADD_ENABLED)? {
            machine.hot_add.memory = enabled.unwrap_or(false);
        }
        if update.take(vm::CONFIG_CHANGE_VERSION)?.is_some() && known && !has_hardware {
            then.reread.push(update.obj.clone());
        }
        if let Some(power) = update.take(vm::RUNTIME_POWER_STATE)? {
            machine.power = match power {
                Some(VirtualMachinePowerState::PoweredOn) => Power::On,
                Some(VirtualMachinePowerState::Suspended) => Power::Suspended,
                _ => Power::Off,
            };
        }
        if let Some(tools) = update.take(vm::GUEST_TOOLS_RUNNING_STATUS)? {
            machine.tools_running = tools.as_deref() == Some("guestToolsRunning");
            machine.facts.tools = tools;
        }
        if let Some(address) = update.take(vm::GUEST_IP_ADDRESS)? {
            machine.address = address.filter(|address| !address.is_empty());
        }
        machine.since.note(machine.power, machine.tools_running, machine.address.is_some(), now);
        then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        let host = machine.facts.host.clone();
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
        let name = host.name.clone();
        host.change(update)?;
        // Machines tell the name of the host that they are on.
        then.concerned.everybody |= host.name != name;
        self.concern_host(&update.obj, &mut then.concerned);
        Ok(())
    }

    fn change_place(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<()> {
        let place = self.places.entry(update.obj.clone()).or_default();
        let before = place.clone();
        place.change(update)?;
        then.concerned.everybody |= *place != before;
        Ok(())
    }

    fn change_folder(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<()> {
        let folder = self.folders.entry(update.obj.clone()).or_default();
        let (name_before, parent_before) = (folder.name.clone(), folder.parent.clone());
        if let Some(name) = update.take(folder::NAME)? {
            folder.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(folder::PARENT)? {
            folder.parent = parent.map(Into::into);
        }
        then.concerned.everybody |= folder.name != name_before || folder.parent != parent_before;
        then.groups.extend(self.awaited.get(&folder.name).cloned());
        Ok(())
    }

    fn change_task(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<()> {
        let Some(Some(info)) = update.take(task::INFO)? else { return Ok(()) };
        let ended = match info.state {
            TaskInfoState::Success => Ended::Done,
            TaskInfoState::Error => Ended::Failed(info.error.unwrap_or_default()),
            _ => {
                self.running.extend(info.entity.map(|entity| (update.obj.clone(), entity.into())));
                return Ok(());
            }
        };
        self.running.remove(&update.obj);
        self.tasks.insert(update.obj.clone(), ended);
        then.groups.extend(self.submitters.get(&update.obj).cloned());
        Ok(())
    }
}

impl Machine {
    /// A machine of which nothing is known yet.
    pub(crate) fn new(created: Timestamp) -> Self {
        Self {
            name: String::new(),
            parent: None,
            marker: None,
            hardware: Hardware { cpus: 0, memory_mib: 0 },
            hot_add: HotAdd::default(),
            power: Power::Off,
            tools_running: false,
            address: None,
            since: Since::default(),
            created,
            facts: Facts::default(),
        }
    }
}

impl Since {
    fn note(&mut self, power: Power, tools: bool, address: bool, now: Timestamp) {
        let begin = |since: Option<Timestamp>, holds: bool| if holds { since.or(Some(now)) } else { None };
        let on = power == Power::On;
        self.on = begin(self.on, on);
        self.tools = begin(self.tools, on && tools);
        self.address = begin(self.address, on && address);
    }
}
