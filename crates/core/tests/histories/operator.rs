//! An operator: what it remembers, how it sees the world, and how it acts on a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use drover_core::{
    Action,
    group::{Desired, Folder, Hardware, HotAdd, MachineId, Member, Observed, Power, Refusal, Timestamp},
    names::{self, Slot},
};

use super::{
    chance::Chance,
    world::{Machine, Outcome, Task, TaskId, Time, Work, World},
};

/// What is lost in a crash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    pub clones: BTreeMap<TaskId, Slot>,
    pub tasks: BTreeMap<TaskId, MachineId>,
    pub folder_tasks: BTreeSet<TaskId>,
    pub failed: BTreeMap<Slot, Time>,
    pub not_before: BTreeMap<MachineId, Time>,
    pub shutdown_since: BTreeMap<MachineId, Time>,
    /// The hardware that running machines were refused.
    pub refused: BTreeMap<MachineId, Hardware>,
}

pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + time).unwrap()
}

/// Seconds from a timestamp back to virtual time.
pub(crate) fn virtual_time(time: Timestamp) -> Time {
    time.as_second() - 1_800_000_000
}

impl Memory {
    /// The group as the operator sees it. `world` is what its mirror shows; what it has submitted it knows by itself.
    pub(crate) fn observe(&self, world: &World) -> Observed {
        let busy: BTreeSet<_> = self.tasks.values().collect();
        let member = |(machine, slot, revision): (&Machine, Slot, _)| Member {
            id: machine.id.clone(),
            slot,
            revision,
            created: timestamp(machine.created),
            name: machine.name.clone(),
            in_folder: machine.in_folder,
            hardware: machine.hardware,
            hot_add: machine.hot_add,
            refused: self.refused.get(&machine.id).copied().map(Refusal::WhileRunning),
            power: machine.power,
            unreachable_since: None,
            ready_since: Some(timestamp(machine.ready_at))
                .filter(|_| machine.power == Power::On && machine.ready_at <= world.now),
            guest_answers: machine.tools && machine.power == Power::On && machine.ready_at <= world.now,
            shutdown_since: self.shutdown_since.get(&machine.id).copied().map(timestamp),
            busy: busy.contains(&machine.id),
            marked: false,
            not_before: self.not_before.get(&machine.id).copied().map(timestamp),
        };
        let folder = match world.machines.values().any(|machine| machine.in_folder) {
            _ if !self.folder_tasks.is_empty() => Folder::Busy,
            _ if !world.folder => Folder::Absent,
            true => Folder::Occupied,
            false => Folder::Empty,
        };
        let known: BTreeSet<_> = self.clones.values().copied().collect();
        Observed {
            folder,
            members: world.members().map(member).collect(),
            unknown_clones: world.cloning().any(|slot| !known.contains(&slot)),
            cloning: known,
            failed: self.failed.iter().map(|(slot, time)| (*slot, timestamp(*time))).collect(),
            ..Observed::default()
        }
    }

    /// Whether something is on its way that its mirror will tell of: the end of a task on a machine, or of its own, or a guest
    /// that is up or down.
    pub(crate) fn is_told_of_more(&self, world: &World) -> bool {
        let is_told = |task: &Task| !matches!(task.work, Work::Clone { .. }) || self.clones.contains_key(&task.id);
        let changes = |machine: &Machine| machine.ready_at > world.now || machine.off_at.is_some();
        world.tasks.iter().any(is_told) || world.machines.values().any(changes)
    }

    /// Submits what a plan says.
    pub(crate) fn act(
        &mut self,
        action: &Action,
        desired: &Desired,
        world: &mut World,
        chance: &mut Chance,
        faults: u64,
    ) {
        let fails = chance.percent(faults);
        let takes = 1 + Time::try_from(chance.below(8)).unwrap();
        let on = |memory: &mut Self, world: &mut World, id: &MachineId, work: Work| {
            let machine = world.machines.get(id);
            // A stale view may name a machine that is no more; vCenter says so, and nothing happens.
            if machine.is_none() {
                return;
            }
            assert!(machine.unwrap().marker.is_some(), "{action:?} touches a machine that isn't the group's");
            let task = world.submit(work, takes, fails);
            memory.tasks.insert(task, id.clone());
        };
        match action {
            Action::CreateFolder | Action::DestroyFolder => {
                let work = if *action == Action::CreateFolder { Work::CreateFolder } else { Work::DestroyFolder };
                self.folder_tasks.insert(world.submit(work, takes, fails));
            }
            Action::Clone(slot) => {
                let work = Work::Clone {
                    slot: *slot,
                    name: names::member(&desired.name, &desired.uid, *slot),
                    revision: desired.revision,
                    hardware: desired.hardware,
                    // vCenter may leave a clone off that was to be powered on.
                    power_on: desired.power == Power::On && chance.percent(80),
                    hot_add: HotAdd { cpus: chance.percent(50), memory: chance.percent(50), ..HotAdd::default() },
                    refuses_hot_add: chance.percent(25),
                    tools: chance.percent(50),
                };
                let task = world.submit(work, takes, fails);
                self.clones.insert(task, *slot);
                if chance.percent(50) {
                    world.show_early(task);
                }
            }
            Action::PowerOn(id) => on(self, world, id, Work::Power(id.clone(), Power::On)),
            Action::PowerOff(id) => on(self, world, id, Work::Power(id.clone(), Power::Off)),
            Action::Suspend(id) => on(self, world, id, Work::Power(id.clone(), Power::Suspended)),
            Action::Reconfigure(id, hardware) => on(self, world, id, Work::Reconfigure(id.clone(), *hardware)),
            Action::Rename(id, name) => on(self, world, id, Work::Rename(id.clone(), name.clone())),
            Action::MoveIntoFolder(id) => on(self, world, id, Work::Move(id.clone())),
            Action::Mark(..) | Action::DestroyLeftFolder(_) => unreachable!("nothing of an earlier time is there"),
            Action::Destroy(id) => on(self, world, id, Work::Destroy(id.clone())),
            Action::ShutdownGuest(id) => {
                let now = world.now;
                if let Some(machine) = world.machines.get_mut(id) {
                    assert!(machine.marker.is_some(), "{action:?} touches a machine that isn't the group's");
                    // Some guests never get there.
                    machine.off_at = chance.percent(70).then_some(now + 4);
                    self.shutdown_since.insert(id.clone(), now);
                }
            }
        }
    }

    /// Takes up how tasks ended: what failed is left alone for a while.
    pub(crate) fn learn(&mut self, ended: &[(TaskId, Outcome)], now: Time) {
        for (task, outcome) in ended {
            self.folder_tasks.remove(task);
            let later = now + 10;
            if let Some(slot) = self.clones.remove(task) {
                match outcome {
                    Outcome::Done => self.failed.remove(&slot),
                    Outcome::Failed | Outcome::Refused(_) => self.failed.insert(slot, later),
                };
            }
            if let Some(id) = self.tasks.remove(task) {
                // A guest that was told to shut down is no longer waited for once something else was done.
                self.shutdown_since.remove(&id);
                match outcome {
                    Outcome::Done => drop(self.not_before.remove(&id)),
                    Outcome::Failed => drop(self.not_before.insert(id, later)),
                    Outcome::Refused(hardware) => drop(self.refused.insert(id, *hardware)),
                }
            }
        }
    }

    /// Forgets shutdowns and refusals that are over.
    pub(crate) fn tidy(&mut self, world: &World) {
        let runs = |id: &MachineId| world.machines.get(id).is_some_and(|machine| machine.power == Power::On);
        self.shutdown_since.retain(|id, _| runs(id));
        self.refused.retain(|id, _| runs(id));
    }
}

/// A grace that is sometimes there.
pub(crate) fn grace(chance: &mut Chance) -> Duration {
    Duration::from_secs(if chance.percent(50) { 0 } else { 8 })
}
