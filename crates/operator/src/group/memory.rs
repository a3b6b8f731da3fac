//! What is under way for a group. All of it may be forgotten at any time: names keep a second attempt from making a second
//! machine.

use std::collections::{BTreeMap, BTreeSet};

use drover_api::vmgroup::Readiness;
use drover_core::{
    backoff::{Backoff, Pace},
    faults::{Doing, Failure, NextStep, next_step},
    group::{Desired, Folder, MachineId, Member, Observed, Timestamp},
    names::{self, Slot},
};
use vim25::{
    Error, ManagedObjectReference,
    refs::{FolderRef, TaskRef},
};

use crate::vcenter::mirror::{Ended, Machine, Mirror};

/// What is under way for a group.
#[derive(Debug, Default)]
pub struct Memory {
    tasks: BTreeMap<TaskRef, Work>,
    slots: Backoff<Slot>,
    machines: Backoff<MachineId>,
    shutdowns: BTreeMap<MachineId, Timestamp>,
    /// Why what failed last did, by what it was.
    problems: BTreeMap<String, String>,
    /// The generation of the spec that all this is about.
    generation: i64,
}

/// What a task is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    Folder(Doing),
    Clone(Slot),
    Machine(MachineId, Doing),
}

impl Memory {
    /// A spec that was changed is tried at once: what failed may have been mended.
    pub fn turn_to(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.slots.reset();
            self.machines.reset();
            self.problems.clear();
        }
    }

    pub fn begin(&mut self, task: TaskRef, work: Work) {
        self.tasks.insert(task, work);
    }

    pub fn asked_to_shut_down(&mut self, machine: MachineId, now: Timestamp) {
        self.shutdowns.insert(machine, now);
    }

    /// A call or task failed.
    pub fn failed(&mut self, work: &Work, error: &Error, now: Timestamp, draw: u64) {
        let lineage: Vec<_> = error.fault().map(|fault| fault.lineage().collect()).unwrap_or_default();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let (doing, what) = match work {
            Work::Folder(doing) => (*doing, "the folder".to_owned()),
            Work::Clone(slot) => (Doing::Clone, format!("slot {slot}")),
            Work::Machine(id, doing) => (*doing, id.0.clone()),
        };
        let step = next_step(failure, doing);
        if step == NextStep::Done {
            return self.succeeded(work);
        }
        if step.concerns_the_whole_vcenter() {
            // The stream meets it too; no machine is to blame.
            return;
        }
        let pace = step.pace().unwrap_or(Pace::Normal);
        match work {
            Work::Clone(slot) => drop(self.slots.failed(*slot, now, draw, pace)),
            Work::Machine(id, _) => drop(self.machines.failed(id.clone(), now, draw, pace)),
            Work::Folder(_) => {}
        }
        if step != NextStep::LookAgain {
            self.problems.insert(what.clone(), format!("{doing:?} of {what}: {error}"));
        }
    }

    pub fn succeeded(&mut self, work: &Work) {
        let what = match work {
            Work::Folder(_) => "the folder".to_owned(),
            Work::Clone(slot) => {
                self.slots.succeeded(slot);
                format!("slot {slot}")
            }
            Work::Machine(id, _) => {
                self.machines.succeeded(id);
                self.shutdowns.remove(id);
                id.0.clone()
            }
        };
        self.problems.remove(&what);
    }

    /// Takes up the tasks that have ended.
    pub fn learn(&mut self, mirror: &mut Mirror, now: Timestamp, draw: u64) {
        let submitted: Vec<_> = self.tasks.keys().cloned().collect();
        for task in submitted {
            let Some(ended) = mirror.end_of(&task.clone().into()) else { continue };
            let Some(work) = self.tasks.remove(&task) else { continue };
            match ended {
                Ended::Done => self.succeeded(&work),
                Ended::Failed(fault) => self.failed(&work, &Error::from(fault), now, draw),
                Ended::Unseen => {}
            }
        }
    }

    /// Everything is as declared, so whatever failed on the way no longer matters.
    pub fn forgive(&mut self) {
        self.problems.clear();
    }

    pub fn problems(&self) -> Vec<String> {
        self.problems.values().cloned().collect()
    }

    /// The group as it is.
    pub fn observe(
        &mut self,
        desired: &Desired,
        readiness: Readiness,
        mirror: &Mirror,
        place: &Place,
        cluster: &str,
    ) -> Observed {
        let folder = place.group_folder(desired, mirror);
        let members = self.members(desired, readiness, mirror, folder.as_ref(), cluster);
        let is_there = |id: &MachineId| members.iter().any(|member| member.id == *id);
        self.machines.retain(is_there);
        self.shutdowns.retain(|id, _| is_there(id));
        let folder_busy = self.tasks.values().any(|work| matches!(work, Work::Folder(_)));
        let folder = match folder.as_ref() {
            _ if folder_busy => Folder::Busy,
            None => Folder::Absent,
            Some(folder) if mirror.is_occupied(folder) => Folder::Occupied,
            Some(_) => Folder::Empty,
        };
        let cloning: BTreeSet<_> = self
            .tasks
            .values()
            .filter_map(|work| match work {
                Work::Clone(slot) => Some(*slot),
                _ => None,
            })
            .collect();
        let mine = |task: &ManagedObjectReference| {
            self.tasks.keys().any(|known| ManagedObjectReference::from(known.clone()) == *task)
        };
        let on_template = |(task, entity): (&ManagedObjectReference, &ManagedObjectReference)| {
            Some(entity) == place.template.as_ref() && !mine(task) && !mirror.submitters.contains_key(task)
        };
        Observed {
            folder,
            members,
            cloning,
            unknown_clones: mirror.running.iter().any(on_template),
            failed: self.slots.waits().map(|(slot, time)| (*slot, time)).collect(),
        }
    }

    fn members(
        &self,
        desired: &Desired,
        readiness: Readiness,
        mirror: &Mirror,
        folder: Option<&ManagedObjectReference>,
        cluster: &str,
    ) -> Vec<Member> {
        let mut members: BTreeMap<Slot, (bool, Member)> = BTreeMap::new();
        for (reference, machine) in &mirror.machines {
            let Some(marker) =
                machine.marker.as_ref().filter(|marker| marker.group == desired.uid && marker.cluster == cluster)
            else {
                continue;
            };
            let member = self.member(reference, machine, marker.slot, marker.revision, readiness, folder);
            // A copy that somebody made of a member carries its marker too. The one in its place is the member.
            let in_place = member.in_folder && member.name == names::member(&desired.name, &desired.uid, marker.slot);
            match members.get(&marker.slot) {
                Some((true, _)) => {}
                Some((false, other)) if !in_place && other.id < member.id => {}
                _ => drop(members.insert(marker.slot, (in_place, member))),
            }
        }
        members.into_values().map(|(_, member)| member).collect()
    }

    fn member(
        &self,
        reference: &ManagedObjectReference,
        machine: &Machine,
        slot: Slot,
        revision: drover_core::group::Revision,
        readiness: Readiness,
        folder: Option<&ManagedObjectReference>,
    ) -> Member {
        let id = MachineId(reference.value().to_owned());
        let busy = self.tasks.values().any(|work| matches!(work, Work::Machine(busy, _) if *busy == id));
        Member {
            slot,
            revision,
            created: machine.created,
            name: machine.name.clone(),
            in_folder: machine.parent.is_some() && machine.parent.as_ref() == folder,
            hardware: machine.hardware,
            hot_add: machine.hot_add,
            power: machine.power,
            ready_since: match readiness {
                Readiness::PoweredOn => machine.since.on,
                Readiness::ToolsRunning => machine.since.tools,
                Readiness::IPAddress => machine.since.address,
            },
            guest_answers: machine.tools_running,
            shutdown_since: self.shutdowns.get(&id).copied(),
            busy,
            marked: false,
            not_before: self.machines.not_before(&id),
            id,
        }
    }
}

/// Where a group is in vCenter.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder that the group's own folder is in.
    pub base: FolderRef,
    /// The template, if it is known.
    pub template: Option<ManagedObjectReference>,
}

impl Place {
    pub fn group_folder(&self, desired: &Desired, mirror: &Mirror) -> Option<ManagedObjectReference> {
        let name = names::folder(&desired.namespace, &desired.name);
        let base: ManagedObjectReference = self.base.clone().into();
        let is_it =
            |folder: &crate::vcenter::mirror::Folder| folder.name == name && folder.parent.as_ref() == Some(&base);
        mirror.folders.iter().find(|(_, folder)| is_it(folder)).map(|(reference, _)| reference.clone())
    }
}
