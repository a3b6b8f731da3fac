//! What happens to a group from outside, its spec left alone.

use drover_core::{
    names::{self, Slot},
    vmgroup::{MachineId, Power, inventory::Marker, record::Stage},
};

use super::{
    edits::{hardware, room},
    history::History,
    model::{
        operator::Operator,
        world::{BASE, ELSEWHERE},
    },
};

/// What may happen in a history. Each has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trial {
    /// Calls are refused or unanswered, tasks fail before and after their effect, the template is gone for a while.
    Faults,
    /// The mirror shows the past; the ends of tasks are told late, or never.
    LateNews,
    /// Crashes, also between any two operations and around each write.
    Crashes,
    /// Another operator works beside the first.
    TwoOperators,
    /// vCenter is away for a while.
    Outages,
    /// Operations of other groups come first.
    Queue,
    /// People change, rename, move, power and destroy members.
    Drift,
    /// People rename, move and destroy the group's folder.
    Folders,
    /// Members are hidden, disconnected, unregistered and registered again.
    Disappearance,
    /// People copy members.
    Copies,
    /// Others have VMs in the group's folder, some of them where members are to be.
    Strangers,
    /// The operator's clock is set.
    Clock,
    /// The group may have more now, and less then.
    Quota,
    /// Members are marked to go first.
    Marks,
}

pub(crate) const TRIALS: [Trial; 14] = [
    Trial::Faults,
    Trial::LateNews,
    Trial::Crashes,
    Trial::TwoOperators,
    Trial::Outages,
    Trial::Queue,
    Trial::Drift,
    Trial::Folders,
    Trial::Disappearance,
    Trial::Copies,
    Trial::Strangers,
    Trial::Clock,
    Trial::Quota,
    Trial::Marks,
];

impl History<'_> {
    /// Things from outside happen, or none.
    pub(crate) fn happen(&mut self) {
        if self.chance.percent(25) {
            self.edit();
        }
        self.stale = if self.has(Trial::LateNews, 40) {
            self.count("mirror late");
            Some(self.stale.take().unwrap_or_else(|| self.world.clone()))
        } else {
            None
        };
        if self.has(Trial::Faults, 10) {
            self.no_template = !self.no_template;
            let is_outdated = |marker: &Marker| marker.revision != self.desired.revision_of(marker.slot);
            let is_mid_roll = self.world.members().any(|(.., marker)| is_outdated(marker)) && !self.desired.paused;
            match (self.no_template, is_mid_roll) {
                (true, true) => self.count("template deleted during a rollout"),
                (true, false) => self.count("template deleted"),
                _ => self.count("template is back"),
            }
        }
        if self.has(Trial::Crashes, 15) {
            let index = usize::try_from(self.chance.below(self.operators.len() as u64)).unwrap();
            self.start(index);
            self.count("crash at rest");
        }
        if self.operators.len() == 1 && self.has(Trial::TwoOperators, 10) {
            self.operators.push(Operator::start(self.world.now));
            self.count("second operator");
        }
        if self.away_until.is_none() && self.has(Trial::Outages, 10) {
            self.begin_outage();
            self.count("outage");
        }
        if self.has(Trial::Drift, 30) {
            self.drift();
        }
        if self.has(Trial::Folders, 10) {
            self.meddle_with_folder();
        }
        if self.has(Trial::Disappearance, 25) {
            self.disappear();
        }
        if self.has(Trial::Copies, 15) {
            self.copy();
        }
        if self.has(Trial::Strangers, 10) {
            self.make_stranger();
        }
        if self.has(Trial::Clock, 10) {
            let before = self.skew;
            self.skew = *self.chance.pick(&[0, 3600, -3600, 30]).unwrap();
            self.was_clock_set = true;
            match self.skew - before {
                3600.. => self.count("clock set ahead by an hour or more"),
                ..=-3600 => self.count("clock set back by an hour or more"),
                _ => {}
            }
        }
        if self.has(Trial::Quota, 30) {
            self.room = room(&mut self.chance);
            self.count("quota");
        }
        if self.has(Trial::Marks, 20) {
            let slot = Slot(u32::try_from(self.chance.below(6)).unwrap());
            let name = names::member(&self.desired.name, &self.desired.marker_uid, slot);
            if !self.marked.remove(&name) {
                self.marked.insert(name);
            }
            self.count("mark");
        }
    }

    pub(crate) fn begin_outage(&mut self) {
        self.away_until = Some(self.world.now + 5 + i64::try_from(self.chance.below(120)).unwrap());
    }

    /// A member that somebody finds in vCenter. One that the record doesn't know yet is not met by anybody in that second.
    pub(crate) fn somebodys_choice(&mut self) -> Option<MachineId> {
        let record = self.stored.record();
        let is_known = |marker: &Marker| {
            let entry = record.as_ref().and_then(|record| record.get(marker.slot));
            entry.is_some_and(|entry| entry.stage != Stage::Pending)
        };
        let made = self.world.members().filter(|(_, machine, marker)| !machine.being_made && is_known(marker));
        let ids: Vec<_> = made.map(|(id, ..)| id.clone()).collect();
        self.chance.pick(&ids).cloned()
    }

    /// Somebody changes a member.
    pub(crate) fn drift(&mut self) {
        let Some(id) = self.somebodys_choice() else { return };
        let other_hardware = hardware(&mut self.chance);
        let what = self.chance.below(6);
        if what == 5 {
            self.world.destroy(&id);
            return self.count("member destroyed");
        }
        let Some(machine) = self.world.machines.get_mut(&id) else { return };
        let drift = match what {
            0 => {
                machine.power = Power::Off;
                "member powered off"
            }
            1 => {
                machine.hardware = other_hardware;
                "member's hardware changed"
            }
            2 => {
                machine.name = format!("renamed-{}", id.0);
                "member renamed"
            }
            3 => {
                ELSEWHERE.clone_into(&mut machine.folder);
                "member moved away"
            }
            _ => {
                machine.power = Power::Suspended;
                "member suspended"
            }
        };
        self.count(drift);
    }

    /// Somebody does something to the group's folder.
    pub(crate) fn meddle_with_folder(&mut self) {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let found = self.world.folders.iter().find(|(_, (own, parent))| *own == name && parent == BASE);
        let Some(id) = found.map(|(id, _)| id.clone()) else { return };
        let what = self.chance.below(3);
        let is_busy = self.world.clones().any(|(_, machine)| machine.folder == id)
            || self.world.machines.values().any(|machine| machine.folder == id && machine.being_made);
        match (what, self.world.folders.get_mut(&id)) {
            (0, Some(folder)) => {
                folder.0 = format!("renamed-{id}");
                self.count("folder renamed");
            }
            (1, Some(folder)) => {
                ELSEWHERE.clone_into(&mut folder.1);
                self.count("folder moved");
            }
            _ if !is_busy => {
                let inside: Vec<_> = self
                    .world
                    .machines
                    .iter()
                    .filter(|(_, machine)| machine.folder == id)
                    .map(|(id, _)| id.clone())
                    .collect();
                for machine in &inside {
                    self.world.destroy(machine);
                }
                self.world.folders.remove(&id);
                self.count("folder destroyed");
            }
            _ => {}
        }
    }

    /// Members go out of sight, or come back.
    pub(crate) fn disappear(&mut self) {
        let now = self.world.now;
        let looked = self.looked;
        match self.chance.below(6) {
            0 => self.reappear(),
            what => {
                let Some(id) = self.somebodys_choice() else { return };
                let Some(machine) = self.world.machines.get_mut(&id) else { return };
                match what {
                    1 => {
                        machine.leave(now, looked);
                        machine.is_hidden = true;
                        self.count("member hidden");
                    }
                    2 => {
                        // It is shown, and nothing is known of how it is.
                        machine.disconnected.get_or_insert(now);
                        self.count("member disconnected");
                    }
                    3 => {
                        // An operator that is started by then doesn't know whose it is.
                        machine.leave(now, looked);
                        machine.inaccessible.get_or_insert(now);
                        self.count("member inaccessible");
                    }
                    _ if self.world.tasks.is_empty() => {
                        machine.leave(now, looked);
                        let machine = machine.clone();
                        self.world.machines.remove(&id);
                        self.world.unregistered.insert(id, machine);
                        self.count("member unregistered");
                    }
                    _ => {}
                }
            }
        }
    }

    /// All that was out of sight is back.
    pub(crate) fn reappear(&mut self) {
        let now = self.world.now;
        self.world.machines.values_mut().for_each(|machine| machine.reappear(now));
        let back = std::mem::take(&mut self.world.unregistered);
        for (id, mut machine) in back {
            let is_free = |name: &str| {
                !self.world.machines.values().any(|other| other.folder == machine.folder && other.name == name)
            };
            let goes = self.world.destroys_folder(&machine.folder);
            let is_there = self.world.folders.contains_key(&machine.folder) && !goes;
            if !is_there || !is_free(&machine.name) {
                (machine.folder, machine.name) = (ELSEWHERE.to_owned(), format!("back-{}", id.0));
            }
            machine.reappear(now);
            machine.power = Power::Off;
            self.world.machines.insert(id, machine);
        }
        self.count("all that were out of sight are back");
    }
}
