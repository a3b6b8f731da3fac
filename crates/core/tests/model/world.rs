//! A vCenter, as far as a group meets it: names are unique in a folder, tasks take time and may fail, and what may not be seen is there all
//! the same.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::{
    Timestamp,
    vmgroup::{FolderId, Hardware, MachineId, Power, inventory::Marker},
};

use super::machine::{Kind, Machine};

/// Virtual seconds.
pub(crate) type Time = i64;

/// The folder that the group's folder is in, and one that it isn't.
pub(crate) const BASE: &str = "group-base";
pub(crate) const ELSEWHERE: &str = "group-elsewhere";

pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + time).unwrap()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    CreateFolder(String),
    DestroyFolder(FolderId),
    Clone(Box<Machine>),
    Power(MachineId, Power),
    Shutdown(MachineId, bool),
    Reconfigure(MachineId, Hardware),
    Rename(MachineId, String),
    Move(MachineId, FolderId),
    Destroy(MachineId),
}

pub(crate) type TaskId = u64;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub id: TaskId,
    pub due: Time,
    pub work: Work,
    pub fails: Option<Failing>,
}

/// How a task fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failing {
    BeforeEffect,
    AfterEffect,
    NameTaken,
}

/// How a task ended: well, with the machine that it made; or with a fault.
pub(crate) type Outcome = Result<Option<MachineId>, &'static str>;

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub now: Time,
    /// Names and parents by id.
    pub folders: BTreeMap<String, (String, String)>,
    pub machines: BTreeMap<MachineId, Machine>,
    /// Those that were unregistered, and may be registered again.
    pub unregistered: BTreeMap<MachineId, Machine>,
    pub tasks: Vec<Task>,
    /// What tasks have destroyed, and when.
    pub destroyed: BTreeMap<MachineId, Time>,
    last_id: u64,
}

impl World {
    pub(crate) fn submit(&mut self, work: Work, takes: Time, fails: Option<Failing>) -> TaskId {
        // A clone has its name from when it begins.
        let is_taken = matches!(&work, Work::Clone(machine) if self.is_reserved(&machine.folder, &machine.name));
        let fails = if is_taken { Some(Failing::NameTaken) } else { fails };
        self.last_id += 1;
        let id = self.last_id;
        self.tasks.push(Task { id, due: self.now + takes, work, fails });
        id
    }

    /// Whether a machine has a name in a folder, or a clone is about to.
    pub(crate) fn is_reserved(&self, folder: &str, name: &str) -> bool {
        let is_it = |other: &Machine| other.folder == folder && other.name == name;
        self.clones().any(|(_, other)| is_it(other)) || self.machines.values().any(is_it)
    }

    /// Whether a folder is about to be destroyed.
    pub(crate) fn destroys_folder(&self, folder: &str) -> bool {
        self.tasks.iter().any(|task| matches!(&task.work, Work::DestroyFolder(id) if id.0 == folder))
    }

    /// Shows the machine of a clone that is on its way, as vCenter does long before the clone has ended.
    pub(crate) fn show_early(&mut self, task: TaskId) {
        let found = self.tasks.iter().find(|known| known.id == task && known.fails.is_none());
        if let Some(Work::Clone(machine)) = found.map(|known| known.work.clone()) {
            let _ = self.make(*machine, true);
        }
    }

    /// Adds a machine that somebody has made.
    pub(crate) fn add(&mut self, machine: Machine) {
        self.last_id += 1;
        self.machines.insert(MachineId(format!("vm-{}", self.last_id)), machine);
    }

    /// When the next thing happens by itself, if nothing is done.
    pub(crate) fn next(&self) -> Option<Time> {
        let tasks = self.tasks.iter().map(|task| task.due);
        let guests = self.machines.values().flat_map(|machine| [Some(machine.ready_at), machine.off_at]).flatten();
        tasks.chain(guests).filter(|time| *time > self.now).min()
    }

    /// Lets time pass to the next thing that happens by itself, but not beyond a limit, and returns the tasks that ended.
    pub(crate) fn advance(&mut self, limit: Time) -> Vec<(TaskId, Outcome)> {
        self.now = self.next().unwrap_or(limit).min(limit).max(self.now);
        for machine in self.machines.values_mut() {
            if machine.off_at.is_some_and(|time| time <= self.now) {
                machine.off_at = None;
                machine.power = Power::Off;
            }
        }
        let (due, later) = std::mem::take(&mut self.tasks).into_iter().partition(|task| task.due <= self.now);
        self.tasks = later;
        let due: Vec<Task> = due;
        due.into_iter().map(|task| (task.id, self.finish(task))).collect()
    }

    fn finish(&mut self, task: Task) -> Outcome {
        match task.fails {
            None => self.work(task.work),
            Some(Failing::NameTaken) => Err("DuplicateName"),
            Some(Failing::BeforeEffect) => Err("SystemError"),
            Some(Failing::AfterEffect) => {
                let _ = self.work(task.work);
                Err("SystemError")
            }
        }
    }

    fn work(&mut self, work: Work) -> Outcome {
        let now = self.now;
        match work {
            Work::CreateFolder(name) => {
                if self.folders.values().any(|(own, parent)| *own == name && parent == BASE) {
                    return Err("DuplicateName");
                }
                self.last_id += 1;
                self.folders.insert(format!("group-{}", self.last_id), (name, BASE.to_owned()));
                Ok(None)
            }
            Work::DestroyFolder(id) => {
                // As in vCenter: all that is inside goes with it.
                let inside: Vec<_> = self.machines.values().filter(|machine| machine.folder == id.0).cloned().collect();
                assert!(inside.is_empty(), "a folder was destroyed with {inside:?} in it");
                self.folders.remove(&id.0).map(|_| None).ok_or("ManagedObjectNotFound")
            }
            Work::Clone(machine) => self.make(*machine, false),
            Work::Shutdown(id, obeys) => self.change(&id, |machine| {
                // Some guests never get there.
                machine.off_at = obeys.then_some(now + 4);
                machine.power == Power::On
            }),
            Work::Power(id, power) => self.change(&id, |machine| {
                machine.off_at = None;
                if power == Power::On && machine.power != Power::On {
                    machine.ready_at = now + 5;
                }
                let possible = machine.power != power && (power != Power::Suspended || machine.power == Power::On);
                if possible {
                    machine.power = power;
                }
                possible
            }),
            Work::Reconfigure(id, hardware) => self.change(&id, |machine| {
                let takes_more = machine.hot_add.allows(machine.hardware, hardware) && !machine.refuses_hot_add;
                let possible = machine.power == Power::Off || takes_more;
                if possible {
                    machine.hardware = hardware;
                }
                possible
            }),
            Work::Rename(id, name) => {
                let folder = self.machines.get(&id).map(|machine| machine.folder.clone()).unwrap_or_default();
                if self.is_taken(&folder, &name, Some(&id)) {
                    return Err("DuplicateName");
                }
                self.change(&id, |machine| {
                    machine.name = name;
                    true
                })
            }
            Work::Move(id, folder) => {
                let name = self.machines.get(&id).map(|machine| machine.name.clone()).unwrap_or_default();
                if !self.folders.contains_key(&folder.0) {
                    return Err("ManagedObjectNotFound");
                }
                if self.is_taken(&folder.0, &name, Some(&id)) {
                    return Err("DuplicateName");
                }
                self.change(&id, |machine| {
                    machine.folder = folder.0;
                    true
                })
            }
            Work::Destroy(id) => {
                let machine = self.machines.get(&id).ok_or("ManagedObjectNotFound")?;
                if machine.power != Power::Off || machine.being_made {
                    return Err("InvalidPowerState");
                }
                self.destroy(&id);
                Ok(None)
            }
        }
    }

    fn is_taken(&self, folder: &str, name: &str, but: Option<&MachineId>) -> bool {
        self.machines.iter().any(|(id, machine)| machine.folder == folder && machine.name == name && Some(id) != but)
    }

    /// A task destroys a machine, whoever has asked for it.
    pub(crate) fn destroy(&mut self, id: &MachineId) {
        self.machines.remove(id);
        self.destroyed.insert(id.clone(), self.now);
    }

    /// Makes a clone's machine, or ends one that was shown early.
    fn make(&mut self, mut made: Machine, early: bool) -> Outcome {
        made.ready_at = self.now + 5;
        made.being_made = early;
        let wanted = made.power;
        if early {
            made.power = Power::Off;
        }
        let is_it = |machine: &Machine| machine.being_made && machine.instance == made.instance;
        if let Some((id, machine)) = self.machines.iter_mut().find(|(_, machine)| is_it(machine)) {
            (machine.being_made, machine.power, machine.ready_at) = (early, wanted, made.ready_at);
            return Ok(Some(id.clone()));
        }
        if !self.folders.contains_key(&made.folder) {
            return Err("ManagedObjectNotFound");
        }
        if self.is_taken(&made.folder, &made.name, None) {
            return Err("DuplicateName");
        }
        self.last_id += 1;
        let id = MachineId(format!("vm-{}", self.last_id));
        made.created = self.now;
        self.machines.insert(id.clone(), made);
        Ok(Some(id))
    }

    fn change(&mut self, id: &MachineId, change: impl FnOnce(&mut Machine) -> bool) -> Outcome {
        let machine = self.machines.get_mut(id).ok_or("ManagedObjectNotFound")?;
        if machine.disconnected.is_some() || machine.inaccessible.is_some() {
            return Err("HostCommunication");
        }
        if machine.being_made {
            return Err("TaskInProgress");
        }
        if change(machine) { Ok(None) } else { Err("InvalidPowerState") }
    }

    /// The machines that are the group's: no copies of them.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&MachineId, &Machine, &Marker)> {
        let own = self.machines.iter().filter(|(_, machine)| machine.kind == Kind::Own);
        own.filter_map(|(id, machine)| Some((id, machine, machine.marker.as_ref()?)))
    }

    /// The machines that a task is about to take down.
    pub(crate) fn going_down(&self) -> BTreeSet<&MachineId> {
        let down = self.tasks.iter().filter_map(|task| match &task.work {
            Work::Power(id, Power::Off | Power::Suspended) | Work::Destroy(id) | Work::Shutdown(id, _) => Some(id),
            _ => None,
        });
        down.collect()
    }

    /// The tasks that clone.
    pub(crate) fn clones(&self) -> impl Iterator<Item = (TaskId, &Machine)> {
        self.tasks.iter().filter_map(|task| match &task.work {
            Work::Clone(machine) => Some((task.id, &**machine)),
            _ => None,
        })
    }
}
