//! What is under way for a group. All of it may be forgotten at any time: names keep a second attempt from making a second
//! machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use drover_api::vmgroup::Readiness;
use drover_core::{
    Action, Subject,
    backoff::{Backoff, Pace},
    faults::{Failure, NextStep, next_step},
    group::{Desired, Folder, MachineId, Member, Observed, Timestamp},
    names,
};
use vim25::{Error, ManagedObjectReference, refs::FolderRef};

use crate::vcenter::{
    marker::Marker,
    mirror::{Machine, Mirror},
};

/// How long the effect of a task is waited for after the task has ended well.
const PATIENCE: Duration = Duration::from_secs(3);

/// What is under way for a group.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// What is being submitted, and what tasks do.
    under_way: BTreeSet<Action>,
    /// What has ended well, and since when its effect is waited for.
    done: BTreeMap<Action, Timestamp>,
    waits: Backoff<Subject>,
    shutdowns: BTreeMap<MachineId, Timestamp>,
    /// Why what failed last did.
    problems: BTreeMap<Subject, String>,
    /// The generation of the spec that all this is about.
    generation: i64,
}

impl Memory {
    /// A spec that was changed is tried at once: what failed may have been mended.
    pub(crate) fn turn_to(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.waits.reset();
            self.problems.clear();
        }
    }

    /// Nothing that failed while it was away says anything about now.
    pub(crate) fn vcenter_is_back(&mut self) {
        self.waits.reset();
    }

    pub(crate) fn begin(&mut self, action: Action) {
        self.under_way.insert(action);
    }

    pub(crate) fn succeeded(&mut self, action: &Action, now: Timestamp) {
        self.under_way.remove(action);
        let subject = action.subject();
        self.waits.succeeded(&subject);
        self.problems.remove(&subject);
        match action {
            Action::ShutdownGuest(id) => {
                self.shutdowns.entry(id.clone()).or_insert(now);
            }
            _ => drop(self.done.insert(action.clone(), now)),
        }
        if let (Subject::Machine(id), false) = (subject, matches!(action, Action::ShutdownGuest(_))) {
            self.shutdowns.remove(&id);
        }
    }

    /// Nobody knows how it ended. What it did, the world shows.
    pub(crate) fn lost(&mut self, action: &Action) {
        self.under_way.remove(action);
    }

    /// A call or task failed. If its name was taken, `taken_by` says by whom, if that can be seen.
    pub(crate) fn failed(
        &mut self,
        action: &Action,
        error: &Error,
        taken_by: Option<&str>,
        now: Timestamp,
        draw: u64,
    ) -> NextStep {
        self.under_way.remove(action);
        let lineage: Vec<_> = error.fault().map(|fault| fault.lineage().collect()).unwrap_or_default();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let step = next_step(failure, action.into());
        let subject = action.subject();
        if step == NextStep::Done {
            self.succeeded(action, now);
            return step;
        }
        if let Action::ShutdownGuest(id) = action {
            // One that refuses to be asked is powered off when its time is over, like one that never gets there.
            self.shutdowns.entry(id.clone()).or_insert(now);
            return step;
        }
        let (pace, problem) = match (step, taken_by) {
            (NextStep::AdoptOrConflict, Some(conflict)) => (Pace::Normal, Some(conflict.to_owned())),
            // It is another attempt's, on its way; or the group's view of vCenter shows it anyway.
            (NextStep::AdoptOrConflict | NextStep::LookAgain, _) => (Pace::Soon, None),
            (step, _) if step.concerns_the_whole_vcenter() => (Pace::Soon, None),
            (step, _) => (step.pace().unwrap_or(Pace::Normal), Some(format!("{}: {error}", gerund(action)))),
        };
        if let Some(problem) = problem {
            self.problems.insert(subject.clone(), problem);
        }
        self.waits.failed(subject, now, draw, pace);
        step
    }

    /// Everything is as declared, so whatever failed on the way no longer matters.
    pub(crate) fn forgive(&mut self) {
        self.problems.clear();
        self.waits.reset();
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.values().cloned().collect()
    }

    /// When to look again at what nothing will tell of.
    pub(crate) fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let patience = self.done.values().filter_map(|since| since.checked_add(PATIENCE).ok());
        patience.chain(self.waits.not_before(&Subject::Folder)).filter(|time| *time > now).min()
    }

    /// The group as it is.
    pub(crate) fn observe(&mut self, view: &View<'_>, now: Timestamp) -> Observed {
        let group_folder = view.group_folder();
        let folder = match group_folder.as_ref() {
            None => Folder::Absent,
            Some(folder) if view.mirror.is_occupied(folder) => Folder::Occupied,
            Some(_) => Folder::Empty,
        };
        let mut members = view.members(group_folder.as_ref());
        self.tidy(folder, &members, now);
        let busy: BTreeSet<_> = self.under_way.iter().chain(self.done.keys()).map(Action::subject).collect();
        for member in &mut members {
            let subject = Subject::Machine(member.id.clone());
            member.busy = busy.contains(&subject);
            member.shutdown_since = self.shutdowns.get(&member.id).copied();
            member.not_before = self.waits.not_before(&subject);
        }
        let folder_waits = self.waits.not_before(&Subject::Folder).is_some_and(|time| time > now);
        let slot = |subject: &Subject| if let Subject::Slot(slot) = subject { Some(*slot) } else { None };
        Observed {
            folder: if folder_waits || busy.contains(&Subject::Folder) { Folder::Busy } else { folder },
            members,
            cloning: busy.iter().filter_map(slot).collect(),
            unknown_clones: view.unknown_clones,
            failed: self.waits.waits().filter_map(|(subject, time)| Some((slot(subject)?, time))).collect(),
        }
    }

    /// Forgets what is over.
    fn tidy(&mut self, folder: Folder, members: &[Member], now: Timestamp) {
        self.done.retain(|action, since| {
            !action.shows_in(folder, members) && now.duration_since(*since) < PATIENCE.try_into().unwrap_or_default()
        });
        let is_there = |id: &MachineId| members.iter().any(|member| member.id == *id);
        let is_open = |subject: &Subject| match subject {
            Subject::Folder => true,
            Subject::Slot(slot) => !members.iter().any(|member| member.slot == *slot),
            Subject::Machine(id) => is_there(id),
        };
        self.waits.retain(is_open);
        self.problems.retain(|subject, _| is_open(subject));
        self.shutdowns.retain(|id, _| is_there(id));
    }
}

/// What an action is, in the words of a sentence about its failure.
fn gerund(action: &Action) -> String {
    match action {
        Action::CreateFolder => "making the group's folder".to_owned(),
        Action::DestroyFolder => "removing the group's folder".to_owned(),
        Action::Clone(slot) => format!("cloning into slot {slot}"),
        Action::PowerOn(id) => format!("powering {} on", id.0),
        Action::PowerOff(id) => format!("powering {} off", id.0),
        Action::ShutdownGuest(id) => format!("shutting {} down", id.0),
        Action::Suspend(id) => format!("suspending {}", id.0),
        Action::Reconfigure(id, _) => format!("reconfiguring {}", id.0),
        Action::Rename(id, _) => format!("renaming {}", id.0),
        Action::MoveIntoFolder(id) => format!("moving {} into the group's folder", id.0),
        Action::Destroy(id) => format!("destroying {}", id.0),
    }
}

/// Where to look for a group, and how.
pub(crate) struct View<'a> {
    pub desired: &'a Desired,
    pub readiness: Readiness,
    pub mirror: &'a Mirror,
    /// The folder that the group's own folder is in.
    pub base: &'a FolderRef,
    /// The id of this Kubernetes cluster.
    pub cluster: &'a str,
    /// Whether clones of the group's template run that aren't known to be another's.
    pub unknown_clones: bool,
    /// The names of the members that the user has marked to go first.
    pub marked: BTreeSet<String>,
}

impl View<'_> {
    pub(crate) fn group_folder(&self) -> Option<ManagedObjectReference> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let base: ManagedObjectReference = self.base.clone().into();
        let mut folders = self.mirror.folders.iter();
        folders
            .find(|(_, folder)| folder.name == name && folder.parent.as_ref() == Some(&base))
            .map(|(reference, _)| reference.clone())
    }

    /// Whose folder it is, if it is that of a group in another Kubernetes cluster. Nobody fights over it.
    pub(crate) fn conflict(&self) -> Option<String> {
        let folder = self.group_folder()?;
        let inside = self.mirror.machines.values().filter(|machine| machine.parent.as_ref() == Some(&folder));
        let mut foreign = None;
        for marker in inside.filter_map(|machine| machine.marker.as_ref()) {
            if marker.cluster == self.cluster {
                return None;
            }
            foreign = Some(marker);
        }
        let Marker { owner: (namespace, name), cluster, .. } = foreign?;
        let folder = names::folder(&self.desired.namespace, &self.desired.name);
        Some(format!(
            "the folder {folder} is that of the group {namespace}/{name} of another Kubernetes cluster ({cluster}): set \
             spec.placement.folder to one that this cluster has for itself"
        ))
    }

    fn members(&self, folder: Option<&ManagedObjectReference>) -> Vec<Member> {
        let mut members: BTreeMap<_, (bool, Member)> = BTreeMap::new();
        for (reference, machine) in &self.mirror.machines {
            let is_ours = |marker: &&Marker| marker.group == self.desired.uid && marker.cluster == self.cluster;
            let Some(marker) = machine.marker.as_ref().filter(is_ours) else { continue };
            let member = self.member(reference, machine, marker, folder);
            // A copy that somebody made of a member carries its marker too. The one in its place is the member.
            let name = names::member(&self.desired.name, &self.desired.uid, marker.slot);
            let in_place = member.in_folder && member.name == name;
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
        marker: &Marker,
        folder: Option<&ManagedObjectReference>,
    ) -> Member {
        Member {
            id: MachineId(reference.value().to_owned()),
            slot: marker.slot,
            revision: marker.revision,
            created: machine.created,
            name: machine.name.clone(),
            in_folder: machine.parent.is_some() && machine.parent.as_ref() == folder,
            hardware: machine.hardware,
            hot_add: machine.hot_add,
            power: machine.power,
            ready_since: match self.readiness {
                Readiness::PoweredOn => machine.since.on,
                Readiness::ToolsRunning => machine.since.tools,
                Readiness::IPAddress => machine.since.address,
            },
            guest_answers: machine.tools_running,
            shutdown_since: None,
            busy: false,
            marked: self.marked.contains(&names::member(&self.desired.name, &self.desired.uid, marker.slot)),
            not_before: None,
        }
    }
}
