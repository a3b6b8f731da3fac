//! A vCenter, as far as a group meets it: names are unique in a folder, tasks take time and may fail.

use std::collections::BTreeMap;

use drover_core::{
    group::{Hardware, HotAdd, MachineId, Power, Revision},
    names::Slot,
};

/// Virtual seconds.
pub(crate) type Time = i64;

#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state in disguise")]
pub(crate) struct Machine {
    pub id: MachineId,
    /// The slot and revision that the marker says, if the machine is the group's.
    pub marker: Option<(Slot, Revision)>,
    pub created: Time,
    pub name: String,
    pub in_folder: bool,
    pub hardware: Hardware,
    pub hot_add: HotAdd,
    /// It says that it takes more while it runs, and doesn't.
    pub refuses_hot_add: bool,
    pub power: Power,
    /// When its guest is up, if it runs.
    pub ready_at: Time,
    pub tools: bool,
    /// A guest that was asked to shut down is off by then.
    pub off_at: Option<Time>,
    /// Whether its clone has not ended yet. Nothing else can be done to it until then.
    pub being_made: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    CreateFolder,
    DestroyFolder,
    Clone {
        slot: Slot,
        name: String,
        revision: Revision,
        hardware: Hardware,
        power_on: bool,
        hot_add: HotAdd,
        refuses_hot_add: bool,
        tools: bool,
    },
    Power(MachineId, Power),
    Reconfigure(MachineId, Hardware),
    Rename(MachineId, String),
    Move(MachineId),
    Destroy(MachineId),
}

pub(crate) type TaskId = u64;

#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub id: TaskId,
    pub due: Time,
    pub work: Work,
    pub fails: bool,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Failed,
    /// A running machine doesn't take this.
    Refused(Hardware),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub now: Time,
    pub folder: bool,
    pub machines: BTreeMap<MachineId, Machine>,
    pub tasks: Vec<Task>,
    next: u64,
}

impl World {
    pub(crate) fn submit(&mut self, work: Work, takes: Time, fails: bool) -> TaskId {
        self.next += 1;
        let id = self.next;
        self.tasks.push(Task { id, due: self.now + takes, work, fails });
        id
    }

    /// Shows the machine of a clone that is on its way, as vCenter does long before the clone has ended.
    pub(crate) fn show_early(&mut self, task: TaskId) {
        let found = self.tasks.iter().find(|known| known.id == task && !known.fails).map(|known| known.work.clone());
        if let Some(work @ Work::Clone { .. }) = found {
            self.make(work, true);
        }
    }

    /// Adds a machine that is nobody's.
    pub(crate) fn stranger(&mut self) {
        self.next += 1;
        let id = MachineId(format!("stranger-{}", self.next));
        let machine = Machine {
            id: id.clone(),
            marker: None,
            created: self.now,
            name: format!("stranger-{}", self.next),
            in_folder: true,
            hardware: Hardware { cpus: 1, memory_mib: 1024 },
            hot_add: HotAdd::default(),
            refuses_hot_add: false,
            power: Power::On,
            ready_at: self.now,
            tools: false,
            off_at: None,
            being_made: false,
        };
        self.machines.insert(id, machine);
    }

    /// Lets time pass to the next thing that happens by itself, but not beyond a limit, and returns the tasks that ended.
    pub(crate) fn advance(&mut self, limit: Time) -> Vec<(TaskId, Outcome)> {
        let tasks = self.tasks.iter().map(|task| task.due);
        let guests = self.machines.values().flat_map(|machine| [Some(machine.ready_at), machine.off_at]).flatten();
        let next = tasks.chain(guests).filter(|time| *time > self.now).min().unwrap_or(limit);
        self.now = next.min(limit).max(self.now);
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
        if task.fails {
            return Outcome::Failed;
        }
        let now = self.now;
        match task.work {
            Work::CreateFolder => {
                self.folder = true;
                Outcome::Done
            }
            Work::DestroyFolder => {
                // As in vCenter: all that is inside goes with it.
                let inside: Vec<_> = self.machines.values().filter(|machine| machine.in_folder).cloned().collect();
                assert!(inside.is_empty(), "a folder was destroyed with {inside:?} in it");
                self.folder = false;
                Outcome::Done
            }
            work @ Work::Clone { .. } => self.make(work, false),
            Work::Power(id, power) => self.change(&id, |machine| {
                machine.off_at = None;
                if power == Power::On && machine.power != Power::On {
                    machine.ready_at = now + 5;
                }
                let possible = power != Power::Suspended || machine.power == Power::On;
                if possible {
                    machine.power = power;
                }
                possible
            }),
            Work::Reconfigure(id, hardware) => {
                let runs = self.machines.get(&id).is_some_and(|machine| machine.power == Power::On);
                let outcome = self.change(&id, |machine| {
                    let takes_more = machine.hot_add.allows(machine.hardware, hardware) && !machine.refuses_hot_add;
                    let possible = machine.power == Power::Off || takes_more;
                    if possible {
                        machine.hardware = hardware;
                    }
                    possible
                });
                if outcome == Outcome::Failed && runs { Outcome::Refused(hardware) } else { outcome }
            }
            Work::Rename(id, name) => {
                let taken =
                    self.machines.values().any(|machine| machine.in_folder && machine.name == name && machine.id != id);
                self.change(&id, |machine| {
                    if !taken {
                        machine.name = name;
                    }
                    !taken
                })
            }
            Work::Move(id) => self.change(&id, |machine| {
                machine.in_folder = true;
                true
            }),
            Work::Destroy(id) => {
                let possible =
                    self.machines.get(&id).is_some_and(|machine| machine.power == Power::Off && !machine.being_made);
                if possible {
                    self.machines.remove(&id);
                }
                if possible { Outcome::Done } else { Outcome::Failed }
            }
        }
    }

    /// Makes a clone's machine, or ends one that was shown early.
    fn make(&mut self, work: Work, early: bool) -> Outcome {
        let Work::Clone { slot, name, revision, hardware, power_on, hot_add, refuses_hot_add, tools } = work else {
            return Outcome::Failed;
        };
        let now = self.now;
        let power = if power_on && !early { Power::On } else { Power::Off };
        let marker = Some((slot, revision));
        let shown = self
            .machines
            .values_mut()
            .find(|machine| machine.being_made && machine.marker == marker && machine.name == name);
        if let Some(machine) = shown {
            machine.being_made = early;
            machine.power = power;
            machine.ready_at = now + 5;
            return Outcome::Done;
        }
        let taken = self.machines.values().any(|machine| machine.in_folder && machine.name == name);
        if taken || !self.folder {
            return Outcome::Failed;
        }
        self.next += 1;
        let id = MachineId(format!("vm-{}", self.next));
        let machine = Machine {
            id: id.clone(),
            marker,
            created: now,
            name,
            in_folder: true,
            hardware,
            hot_add,
            refuses_hot_add,
            power,
            ready_at: now + 5,
            tools,
            off_at: None,
            being_made: early,
        };
        self.machines.insert(id, machine);
        Outcome::Done
    }

    fn change(&mut self, id: &MachineId, change: impl FnOnce(&mut Machine) -> bool) -> Outcome {
        let changed = self.machines.get_mut(id).filter(|machine| !machine.being_made).is_some_and(change);
        if changed { Outcome::Done } else { Outcome::Failed }
    }

    /// The machines that are the group's.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&Machine, Slot, Revision)> {
        self.machines.values().filter_map(|machine| machine.marker.map(|(slot, revision)| (machine, slot, revision)))
    }

    /// The machines that a task is about to take down.
    pub(crate) fn going_down(&self) -> impl Iterator<Item = &MachineId> {
        self.tasks.iter().filter_map(|task| match &task.work {
            Work::Power(id, Power::Off | Power::Suspended) | Work::Destroy(id) => Some(id),
            _ => None,
        })
    }

    /// The slots whose clones are on their way.
    pub(crate) fn cloning(&self) -> impl Iterator<Item = Slot> {
        self.tasks.iter().filter_map(|task| match &task.work {
            Work::Clone { slot, .. } => Some(*slot),
            _ => None,
        })
    }
}
