//! What vCenter has told: machines, hosts, folders and tasks as they are, in memory.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use drover_core::group::{Hardware, HotAdd, Power, Timestamp};
use vim25::{
    Any, LocalizedMethodFault, ManagedObjectReference, Result,
    enums::{TaskInfoState, VirtualMachinePowerState},
    props::{folder, task, virtual_machine as vm},
    types::{ObjectUpdate, PropertySpec, TaskReasonUser},
};

use super::{
    facts::{self, Facts},
    host::{self, Host},
    marker::{self, Keys, Marker},
    whereabouts::{self, Concerned, Place},
};

/// A group by its namespace and name.
pub(crate) type GroupKey = (String, String);

/// A machine as vCenter last told of it.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub name: String,
    pub parent: Option<ManagedObjectReference>,
    /// As it was last read: what can't be read now has not changed for that.
    pub marker: Option<Marker>,
    pub(crate) keys: Keys,
    /// Its instance UUID, as it was last read.
    pub instance: Option<String>,
    pub is_template: bool,
    /// Whether its host answers for it: connected, disconnected, orphaned and others.
    pub connection: Option<String>,
    /// Whether its configuration is there to be read: not while it is made, without its storage, or without the right to.
    pub legible: Legible,
    /// Since when it has not been both connected and legible.
    pub unreachable_since: Option<Timestamp>,
    pub hardware: Hardware,
    pub hot_add: HotAdd,
    pub power: Power,
    pub tools_running: bool,
    pub address: Option<String>,
    /// Since when it has been powered on, its tools have run and it has had an address: as seen from here, or, where it was so
    /// at first sight, since it was started.
    pub since: Since,
    /// When it was made, or first seen where vCenter doesn't know.
    pub created: Timestamp,
    pub facts: Facts,
}

/// What of a machine's configuration can be read now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Legible {
    /// vCenter has one to show.
    is_there: bool,
    /// Drover may not read all of it.
    is_refused: bool,
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
}

/// A machine that has left, with what it was in.
#[derive(Clone, Debug)]
struct Departed {
    containers: Vec<ManagedObjectReference>,
    owner: GroupKey,
    at: Timestamp,
}

/// A task that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    /// Whether it clones.
    pub is_clone: bool,
    /// Who has asked for it.
    pub user: Option<String>,
}

impl Running {
    fn is_clone_of(&self, user: &str) -> bool {
        self.is_clone && self.user.as_ref().is_none_or(|other| other.eq_ignore_ascii_case(user))
    }
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Well, with what it has made, if anything.
    Done(Option<ManagedObjectReference>),
    Failed(LocalizedMethodFault),
    /// vCenter has dropped the task before its end was seen. What it did, the world shows.
    Unseen,
}

/// A group that waits for its folder.
#[derive(Clone, Debug)]
pub(crate) struct Awaiting {
    pub key: GroupKey,
    pub uid: String,
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
    /// The tasks that run.
    pub running: HashMap<ManagedObjectReference, Running>,
    /// The machines and folders that a task has destroyed, the last ones.
    destroyed: HashSet<ManagedObjectReference>,
    destroyed_in_order: VecDeque<ManagedObjectReference>,
    /// The groups' machines that have left the view: hidden, removed with their host, unregistered or destroyed.
    departed: HashMap<ManagedObjectReference, Departed>,
    /// Whose tasks they are that were submitted from here, until their end is taken up.
    pub submitters: HashMap<ManagedObjectReference, GroupKey>,
    /// The names of groups' folders.
    pub awaited: HashMap<String, Awaiting>,
}

/// How much later than a task has destroyed what it was in, a machine may be told to have left.
const LATE: Duration = Duration::from_secs(5);
/// How many destroyed objects are remembered: more than vCenter lists tasks.
const REMEMBERED: usize = 20_000;

/// The properties that the mirror is made from.
pub(crate) fn properties() -> Vec<PropertySpec> {
    let mut machines = PropertySpec::of(&[
        &vm::NAME,
        &vm::PARENT,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
        &vm::CONFIG_CHANGE_VERSION,
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_CPU_HOT_ADD_ENABLED,
        &vm::CONFIG_MEMORY_HOT_ADD_ENABLED,
        &vm::CONFIG_HOT_PLUG_MEMORY_LIMIT,
        &vm::CONFIG_HOT_PLUG_MEMORY_INCREMENT_SIZE,
        &vm::RUNTIME_POWER_STATE,
        &vm::RUNTIME_CONNECTION_STATE,
        &vm::GUEST_TOOLS_RUNNING_STATUS,
        &vm::GUEST_IP_ADDRESS,
    ]);
    machines.path_set.extend(marker_paths());
    machines.path_set.extend(facts::properties().path_set);
    let mut all = vec![machines, host::properties(), PropertySpec::of(&[&folder::NAME, &folder::PARENT])];
    all.extend(whereabouts::properties());
    all
}

/// The properties of machines that not every vCenter tells changes of.
pub(crate) fn untold_properties() -> PropertySpec {
    let mut all = PropertySpec::of(&[
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
    ]);
    all.path_set.extend(marker_paths());
    all.path_set.extend(facts::configuration().path_set);
    all
}

fn marker_paths() -> impl Iterator<Item = String> {
    marker::PROPERTIES.iter().map(|property| property.path().to_owned())
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
    /// Clones that run, and were not known of.
    pub clones: Vec<ManagedObjectReference>,
    /// Hosts and machines that are not what they were.
    pub concerned: Concerned,
}

impl Mirror {
    pub(crate) fn change(&mut self, mut update: ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        match update.obj.type_name() {
            "VirtualMachine" => self.change_machine(&mut update, now, then),
            "Task" => self.change_task(&mut update, now, then),
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

    pub(crate) fn remove(&mut self, object: &ManagedObjectReference, now: Timestamp, then: &mut Consequences) {
        self.concern_machine(object, &mut then.concerned);
        self.concern_host(object, &mut then.concerned);
        self.hosts.remove(object);
        self.places.remove(object);
        if let Some(machine) = self.machines.remove(object) {
            if let Some(host) = &machine.facts.host {
                self.concern_host(host, &mut then.concerned);
            }
            if let Some(marker) = machine.marker {
                let containers = self.containers(machine.parent.as_ref().or(machine.facts.v_app.as_ref()));
                then.groups.insert(marker.owner.clone());
                if self.departed.len() > REMEMBERED {
                    // What a task has destroyed is told of long before that.
                    self.departed.retain(|_, departed| now.duration_since(departed.at).as_hours() < 1);
                }
                self.departed.insert(object.clone(), Departed { containers, owner: marker.owner, at: now });
            }
        }
        if let Some(folder) = self.folders.remove(object) {
            then.groups.extend(self.awaited.get(&folder.name).map(|awaiting| awaiting.key.clone()));
        }
        // A list of recent tasks has an end, and what leaves it may well run: the end of our own is told of all the same.
        if !self.submitters.contains_key(object) && !self.running.get(object).is_some_and(|running| running.is_clone) {
            self.running.remove(object);
            self.tasks.remove(object);
        }
    }

    /// Whether a folder has something in it, by what machines and folders say of their parents: vCenter tells of those at once,
    /// and of a folder's own list not always.
    pub(crate) fn is_occupied(&self, folder: &ManagedObjectReference) -> bool {
        let machines = self.machines.values().map(|machine| machine.parent.as_ref());
        let mut parents = machines.chain(self.folders.values().map(|folder| folder.parent.as_ref()));
        parents.any(|parent| parent == Some(folder))
    }

    /// vCenter doesn't let an object be read. What is known of it holds, and nothing is done to it.
    pub(crate) fn note_unreadable(&mut self, object: &ManagedObjectReference, now: Timestamp, then: &mut Consequences) {
        if let Some(machine) = self.machines.get_mut(object) {
            machine.legible.is_refused = true;
            machine.note_reach(now);
            then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        }
    }

    /// Whether a machine is proved to be gone: a task has destroyed it, or something that it was in. That it isn't seen proves
    /// nothing.
    pub(crate) fn is_proved_gone(&self, machine: &ManagedObjectReference) -> bool {
        !self.machines.contains_key(machine) && self.destroyed.contains(machine)
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
            then.groups.extend(owner.or_else(|| Some(self.departed.get(&machine)?.owner.clone())));
            if self.destroyed.insert(machine.clone()) {
                self.destroyed_in_order.push_back(machine);
            }
            if self.destroyed_in_order.len() > REMEMBERED
                && let Some(oldest) = self.destroyed_in_order.pop_front()
            {
                self.destroyed.remove(&oldest);
                self.departed.remove(&oldest);
            }
        }
    }

    /// The machines that are in something, or were until they left after this time.
    fn machines_in(&self, container: &ManagedObjectReference, since: Timestamp) -> Vec<ManagedObjectReference> {
        let is_inside = |machine: &Machine| {
            let parent = machine.parent.as_ref().or(machine.facts.v_app.as_ref());
            self.containers(parent).contains(container)
        };
        let inside = self.machines.iter().filter(|(_, machine)| machine.marker.is_some() && is_inside(machine));
        let left = self.departed.iter().filter(|(_, gone)| gone.at >= since && gone.containers.contains(container));
        inside.map(|(machine, _)| machine).chain(left.map(|(machine, _)| machine)).cloned().collect()
    }

    /// Whether a clone runs that this user has asked for, and nobody here knows of.
    pub(crate) fn has_unknown_clone(&self, user: &str, is_known: impl Fn(&ManagedObjectReference) -> bool) -> bool {
        self.running.iter().any(|(task, running)| running.is_clone_of(user) && !is_known(task))
    }

    /// vCenter doesn't know a task of ours any more. What it did, the world shows.
    pub(crate) fn end_unseen(&mut self, task: &ManagedObjectReference, then: &mut Consequences) {
        self.running.remove(task);
        if let Some(group) = self.submitters.get(task) {
            then.groups.insert(group.clone());
            self.tasks.entry(task.clone()).or_insert(Ended::Unseen);
        }
    }

    pub(crate) fn is_running(&self, task: &ManagedObjectReference) -> bool {
        self.running.contains_key(task)
    }

    /// Whether a task that runs is a clone that this user has asked for.
    pub(crate) fn is_clone_of(&self, task: &ManagedObjectReference, user: &str) -> bool {
        self.running.get(task).is_some_and(|running| running.is_clone_of(user))
    }

    /// The clones that this user has asked for.
    pub(crate) fn clones_of(&self, user: &str) -> Vec<ManagedObjectReference> {
        let clones = self.running.iter().filter(|(_, running)| running.is_clone_of(user));
        clones.map(|(task, _)| task.clone()).collect()
    }

    /// Whether a group has machines here.
    pub(crate) fn has_members(&self, group: &str, cluster: &str) -> bool {
        self.machines.values().any(|machine| machine.is_of(group, cluster))
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
        self.departed.remove(&update.obj);
        if !known {
            // A vCenter that was restored from a backup may give an id again.
            self.destroyed.remove(&update.obj);
        }
        let machine = self.machines.entry(update.obj.clone()).or_insert_with(|| Machine::new(now));
        let (host_before, v_app_before) = (machine.facts.host.clone(), machine.facts.v_app.clone());
        if let Some(name) = update.take(vm::NAME)? {
            machine.name = name.unwrap_or_default();
        }
        if let Some(parent) = update.take(vm::PARENT)? {
            if parent.is_some() {
                // It is in something: it had left what was destroyed, before that was known here.
                self.destroyed.remove(&update.obj);
            }
            machine.parent = parent.map(Into::into);
        }
        // Its group may be another than before, or none.
        then.groups.extend(machine.marker.as_ref().map(|marker| marker.owner.clone()));
        machine.change_identity(update)?;
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
        if let Some(limit) = update.take(vm::CONFIG_HOT_PLUG_MEMORY_LIMIT)? {
            machine.hot_add.memory_limit_mib =
                limit.and_then(|limit| u64::try_from(limit).ok()).filter(|limit| *limit > 0);
        }
        if let Some(step) = update.take(vm::CONFIG_HOT_PLUG_MEMORY_INCREMENT_SIZE)? {
            machine.hot_add.memory_step_mib = step.and_then(|step| u64::try_from(step).ok());
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
        machine.note_reach(now);
        // What people read comes last, so that nothing odd in it keeps the rest from being read.
        let connection = machine.connection.clone();
        machine.facts.change(update, connection.as_deref());
        if machine.facts.v_app.is_some() && machine.facts.v_app != v_app_before {
            self.destroyed.remove(&update.obj);
        }
        machine.created = machine.facts.created.unwrap_or(machine.created);
        let from = if known { now } else { machine.facts.up_since(now) };
        machine.since.note(machine.power, machine.tools_running, machine.address.is_some(), from);
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
        let is_moved = parent_before.is_some() && folder.parent.is_some() && folder.parent != parent_before;
        then.concerned.everybody |= folder.name != name_before || folder.parent != parent_before;
        then.groups.extend(self.awaited.get(&folder.name).map(|awaiting| awaiting.key.clone()));
        if is_moved && !self.destroyed.is_empty() {
            // What is in it has left with it what was destroyed.
            for machine in self.machines_in(&update.obj, Timestamp::MAX) {
                self.destroyed.remove(&machine);
            }
        }
        Ok(())
    }

    fn change_task(&mut self, update: &mut ObjectUpdate, now: Timestamp, then: &mut Consequences) -> Result<()> {
        let Some(Some(info)) = update.take(task::INFO)? else { return Ok(()) };
        let ended = match info.state {
            TaskInfoState::Success => {
                let is_destruction = info.description_id.ends_with(".destroy");
                if let Some(object) = info.entity.filter(|_| is_destruction) {
                    let begun = info.start_time.unwrap_or(info.queue_time);
                    let took = info.complete_time.map(|end| end.duration_since(begun));
                    let took = took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default();
                    self.note_destroyed(&object.into(), took, now, then);
                }
                Ended::Done(match info.result {
                    Some(Any::Reference(made)) => Some(made),
                    _ => None,
                })
            }
            TaskInfoState::Error => Ended::Failed(info.error.unwrap_or_default()),
            _ => {
                let user = info.reason.downcast_ref::<TaskReasonUser>().map(|reason| reason.user_name.clone());
                let is_clone = info.description_id.starts_with("VirtualMachine.clone");
                if is_clone && !self.running.contains_key(&update.obj) {
                    then.clones.push(update.obj.clone());
                }
                self.running.insert(update.obj.clone(), Running { is_clone, user });
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
            keys: Keys::default(),
            instance: None,
            is_template: false,
            connection: None,
            legible: Legible::default(),
            unreachable_since: None,
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

    /// Takes up what tells it from all others. What vCenter can't show now, or doesn't let be read, stays as it was.
    fn change_identity(&mut self, update: &mut ObjectUpdate) -> Result<()> {
        let is_of_config = |path: &str| path.starts_with("config");
        if update.missing_set.iter().any(|missing| is_of_config(&missing.path)) {
            self.legible.is_refused = true;
        } else if update.change_set.iter().any(|change| is_of_config(&change.name) && change.val.is_some()) {
            self.legible.is_refused = false;
        }
        if let Some(instance) = update.take(vm::CONFIG_INSTANCE_UUID)? {
            self.legible.is_there = instance.is_some();
            // It is compared with markers and records, and can be written in two ways.
            let instance = instance.map(|uuid| uuid.to_ascii_lowercase());
            self.instance = instance.or(self.instance.take());
        }
        if let Some(template) = update.take(vm::CONFIG_TEMPLATE)? {
            self.is_template = template.unwrap_or(self.is_template);
        }
        if let Some(connection) = update.take(vm::RUNTIME_CONNECTION_STATE)? {
            self.connection = connection.map(|connection| connection.to_string());
        }
        self.keys.change(update, self.legible.is_there && self.is_connected())?;
        self.marker = self.keys.marker();
        Ok(())
    }

    fn is_connected(&self) -> bool {
        self.connection.as_deref().is_none_or(|state| state == "connected")
    }

    fn note_reach(&mut self, now: Timestamp) {
        let is_reached = self.is_connected() && self.legible == Legible { is_there: true, is_refused: false };
        self.unreachable_since = if is_reached { None } else { self.unreachable_since.or(Some(now)) };
    }
}

impl Since {
    /// What holds and didn't before holds since the time that is given.
    fn note(&mut self, power: Power, tools: bool, address: bool, from: Timestamp) {
        let begin = |since: Option<Timestamp>, holds: bool| if holds { since.or(Some(from)) } else { None };
        let on = power == Power::On;
        self.on = begin(self.on, on);
        self.tools = begin(self.tools, on && tools);
        self.address = begin(self.address, on && address);
    }
}

#[cfg(test)]
mod tests {
    use drover_core::{group::Revision, names::Slot};
    use vim25::types::PropertyChange;

    use super::*;

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
        };
        let mut machine = Machine::new(Timestamp::UNIX_EPOCH);
        (machine.parent, machine.marker) = (Some(reference("Folder", "f-1")), Some(marker));
        mirror.machines.insert(reference("VirtualMachine", "vm-1"), machine);
        mirror
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
