//! What is known of a group and under way for it. All of it may be forgotten at any time: the record is written down, and names keep a
//! second attempt from making a second machine.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    slice,
    time::Duration,
};

use drover_core::{
    Action, Plan, Subject,
    backoff::{Backoff, Pace},
    brake::{Brake, Incident, Missing, Scope, Toll},
    faults::{Failure, NextStep, next_step, refusal},
    group::{
        Desired, Folder, FolderId, Hardware, Lookalikes, MachineId, Member, Observed, Power, Refusal, Revision,
        Timestamp, UpdatePolicy,
    },
    names::{self, Slot},
    plan::outlived_shutdowns,
    record::{Record, Stage},
    roll::Called,
};
use vim25::{Error, ManagedObjectReference};

use super::{
    record::Recorded,
    view::{self, View},
};

/// How long the effect of a task is waited for after the task has ended well.
const PATIENCE: Duration = Duration::from_secs(3);

/// From the third time on, it is said why something has to be looked at again.
const WORTH_A_WORD: u32 = 3;
/// How often a folder that seems empty and isn't is looked at before it is let be.
const LOOKS: u32 = 5;

/// What is under way for a group.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) record: Recorded,
    /// What is nobody's, and looks like the group's.
    pub(crate) lookalikes: Lookalikes,
    brake: Option<Brake>,
    pub(crate) is_stopped: bool,
    /// Whether the group could not be looked at when it was last to be. What was missing then is missing still, unless it is shown.
    pub(crate) is_unseen: bool,
    /// Whether somebody said to go on for this group, whatever stops its vCenter.
    pub(crate) goes_on: bool,
    /// What the machines were to be when the group was last as declared.
    pub(crate) settled: Option<MadeOf>,
    /// How often the group's folder seemed empty and wasn't.
    occupied: u32,
    /// How often in a row each thing had to be looked at again.
    looks: BTreeMap<Subject, u32>,
    /// What is being submitted, and what tasks do.
    under_way: BTreeSet<Action>,
    /// What has ended well, and since when its effect is waited for.
    done: BTreeMap<Action, Timestamp>,
    waits: Backoff<Subject>,
    shutdowns: BTreeMap<MachineId, Timestamp>,
    /// The hardware that machines didn't take.
    refused: BTreeMap<MachineId, Refusal>,
    /// Why what failed last did.
    problems: BTreeMap<Subject, String>,
    /// The generation of the spec that all this is about.
    generation: i64,
}

/// All that decides which machines are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MadeOf(Revision, Hardware, UpdatePolicy, Power);

impl MadeOf {
    pub(crate) fn of(desired: &Desired) -> Self {
        Self(desired.revision, desired.hardware, desired.update, desired.power)
    }
}

impl Memory {
    /// A spec that was changed is tried at once: what failed may have been mended.
    pub(crate) fn turn_to(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.waits.reset();
            self.problems.clear();
            self.refused.clear();
        }
    }

    /// Nothing that failed while it was away says anything about now.
    pub(crate) fn vcenter_is_back(&mut self) {
        self.waits.reset();
    }

    pub(crate) fn begin(&mut self, action: Action) {
        self.under_way.insert(action);
    }

    /// Something ended well. A clone has made a machine.
    pub(crate) fn succeeded(&mut self, action: &Action, made: Option<&ManagedObjectReference>, now: Timestamp) {
        self.under_way.remove(action);
        let subject = action.subject();
        if let Action::Reconfigure(id, _) = action {
            self.refused.remove(id);
        }
        let problem = self.problems.get(&subject).cloned().filter(|_| self.is_refused_for_good(&subject));
        self.forget_failures_of(&subject);
        self.problems.extend(problem.map(|problem| (subject.clone(), problem)));
        match (action, made) {
            (Action::ShutdownGuest(id), _) => {
                self.shutdowns.entry(id.clone()).or_insert(now);
            }
            // Its machine is there, whenever it is told of.
            (Action::Clone(slot), Some(made)) => self.record.roll.cloned(*slot, MachineId(made.value().to_owned())),
            _ => drop(self.done.insert(action.clone(), now)),
        }
        if let (Subject::Machine(id), false) = (subject, matches!(action, Action::ShutdownGuest(_))) {
            self.shutdowns.remove(&id);
        }
    }

    /// Whether a machine doesn't take the hardware that is declared, which is said until it is another.
    fn is_refused_for_good(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Machine(id) if matches!(self.refused.get(id), Some(Refusal::Altogether(_))))
    }

    /// Nobody knows how it ended. What it did, the world shows.
    pub(crate) fn lost(&mut self, action: &Action) {
        self.under_way.remove(action);
    }

    /// A call or task failed. If its name was taken, `taken_by` says by whom, if that can be seen. `power` is that of the machine
    /// that it was done to.
    pub(crate) fn failed(
        &mut self,
        action: &Action,
        error: &Error,
        taken_by: Option<&str>,
        power: Power,
        now: Timestamp,
        draw: u64,
    ) -> NextStep {
        self.under_way.remove(action);
        let lineage: Vec<_> = error.fault().map(|fault| fault.lineage().collect()).unwrap_or_default();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let step = next_step(failure, action.into());
        let subject = action.subject();
        if step == NextStep::Done {
            self.succeeded(action, None, now);
            return step;
        }
        if let Action::Reconfigure(id, hardware) = action
            && let Some(refusal) = refusal(&lineage, *hardware, power)
        {
            if let Refusal::Altogether(_) = refusal {
                self.problems.insert(subject.clone(), format!("{}: {error}", gerund(action)));
            }
            self.refused.insert(id.clone(), refusal);
            self.waits.failed(subject, now, draw, Pace::Soon);
            return step;
        }
        if let Action::ShutdownGuest(id) = action
            && !step.concerns_the_whole_vcenter()
        {
            // One that refuses to be asked is powered off when its time is over, like one that never gets there. One that the
            // question never got to is asked again.
            self.shutdowns.entry(id.clone()).or_insert(now);
            return step;
        }
        let looks = self.looks.entry(subject.clone()).or_default();
        *looks =
            if matches!(step, NextStep::AdoptOrConflict | NextStep::LookAgain) { looks.saturating_add(1) } else { 0 };
        let is_stubborn = *looks >= WORTH_A_WORD;
        let (pace, problem) = match (step, taken_by) {
            (NextStep::AdoptOrConflict, Some(conflict)) => (Pace::Normal, Some(conflict.to_owned())),
            (NextStep::AdoptOrConflict, None) if is_stubborn => (
                Pace::Normal,
                Some(format!("{}: {error}: something that Drover can't see has this name in vCenter", gerund(action))),
            ),
            (NextStep::LookAgain, _) if is_stubborn => (Pace::Soon, Some(format!("{}: {error}", gerund(action)))),
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

    fn forget_failures_of(&mut self, subject: &Subject) {
        self.waits.succeeded(subject);
        self.looks.remove(subject);
        self.problems.remove(subject);
    }

    /// Everything is as declared, so whatever failed on the way no longer matters.
    pub(crate) fn forgive(&mut self) {
        self.problems.clear();
        self.waits.reset();
        self.looks.clear();
        self.occupied = 0;
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.values().cloned().collect()
    }

    /// When to look again at what nothing will tell of.
    pub(crate) fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let patience = self.done.values().filter_map(|since| since.checked_add(PATIENCE).ok());
        patience.chain(self.waits.not_before(&Subject::Folder)).filter(|time| *time > now).min()
    }

    /// The group's folder seemed empty, and wasn't: what is in it can't be seen, or was not told of yet.
    pub(crate) fn folder_is_occupied(&mut self, action: &Action, now: Timestamp, draw: u64) {
        self.under_way.remove(action);
        match action.subject() {
            left @ Subject::LeftFolder(_) => drop(self.waits.failed(left, now, draw, Pace::Long)),
            subject => {
                self.occupied += 1;
                self.waits.failed(subject, now, draw, Pace::Soon);
            }
        }
    }

    /// The group as it is. `before` is how many machines it was said to have.
    pub(crate) fn observe(&mut self, view: &View<'_>, before: u32, now: Timestamp) -> Observed {
        self.is_unseen = false;
        let group_folder = view.group_folder();
        let folder = match group_folder.as_ref() {
            None => Folder::Absent,
            Some(folder) if view.mirror.is_occupied(folder) => Folder::Occupied,
            Some(_) if self.occupied >= LOOKS => Folder::OccupiedUnseen,
            Some(_) => Folder::Empty,
        };
        if folder != Folder::Absent && view.desired.deletion.is_none() {
            // Whoever made it, it is there.
            self.forget_failures_of(&Subject::Folder);
        }
        let Called { found, held } = self.call_roll(view, group_folder.as_ref(), before, now);
        let members = found.members.iter().filter_map(|(slot, id)| view.member(id, *slot, group_folder.as_ref()));
        let mut members: Vec<_> = members.collect();
        self.tidy(folder, &members, now);
        let busy: BTreeSet<_> = self.under_way.iter().chain(self.done.keys()).map(Action::subject).collect();
        for member in &mut members {
            let subject = Subject::Machine(member.id.clone());
            member.busy = busy.contains(&subject);
            member.shutdown_since = self.shutdowns.get(&member.id).copied();
            member.refused = self.refused.get(&member.id).copied();
            member.not_before = self.waits.not_before(&subject);
        }
        let folder_waits = self.waits.not_before(&Subject::Folder).is_some_and(|time| time > now);
        let slot = |subject: &Subject| if let Subject::Slot(slot) = subject { Some(*slot) } else { None };
        let cloning: BTreeSet<Slot> = busy.iter().filter_map(slot).collect();
        let pending = self.record.roll.pending(&found);
        let unknown_clones = view.has_unknown_clones && !pending.is_empty();
        // In the group's own folder, their names let no second one in. In one that was before, they do.
        let may_be_elsewhere = self.record.now().is_some_and(|record| !record.left_folders().is_empty());
        let doubtful = if unknown_clones && may_be_elsewhere { pending } else { BTreeSet::new() };
        // What is on its way in or out of the folder has to be over before anything is decided by what is in it.
        let moves =
            |action: &Action| matches!(action, Action::Destroy(_) | Action::Clone(_) | Action::MoveIntoFolder(_));
        let folder_moves = view.desired.deletion.is_some() && self.under_way.iter().any(moves);
        let mut observed = Observed {
            folder: if folder_waits || folder_moves || busy.contains(&Subject::Folder) { Folder::Busy } else { folder },
            held: held.into_iter().filter(|(slot, _)| !cloning.contains(slot)).collect(),
            unmarked: found.unmarked,
            lookalikes: self.lookalikes.clone(),
            left_folders: self.left_folders(view, group_folder.as_ref(), &busy, now),
            is_stopped: false,
            members,
            cloning,
            unknown_clones,
            doubtful,
            failed: self.waits.waits().filter_map(|(subject, time)| Some((slot(subject)?, time))).collect(),
        };
        let outlived: HashSet<_> = outlived_shutdowns(view.desired, &observed, now).into_iter().collect();
        self.shutdowns.retain(|id, _| !outlived.contains(id));
        for member in observed.members.iter_mut().filter(|member| outlived.contains(&member.id)) {
            member.shutdown_since = None;
        }
        observed
    }

    /// The folders that members were moved out of, and that seem empty. One that isn't after all is let be. So is one that isn't
    /// called as the group's: after a restore, vCenter may have given its id to another.
    fn left_folders(
        &mut self,
        view: &View<'_>,
        folder: Option<&ManagedObjectReference>,
        busy: &BTreeSet<Subject>,
        now: Timestamp,
    ) -> Vec<FolderId> {
        let Some(record) = self.record.roll.record_mut() else { return Vec::new() };
        let reference = |id: &FolderId| ManagedObjectReference::new("Folder", &id.0);
        record.retain_folders(|id| view.mirror.folders.contains_key(&reference(id)) && folder != Some(&reference(id)));
        let name = names::folder(&view.desired.namespace, &view.desired.name);
        let is_free = |id: &&FolderId| {
            let subject = Subject::LeftFolder((*id).clone());
            let waits = self.waits.not_before(&subject).is_some_and(|time| time > now);
            let is_groups = view.mirror.folders.get(&reference(id)).is_some_and(|folder| folder.name == name);
            is_groups && !view.mirror.is_occupied(&reference(id)) && !waits && !busy.contains(&subject)
        };
        record.left_folders().iter().filter(is_free).cloned().collect()
    }

    /// Says which machines are the group's, and which of them can't be seen.
    fn call_roll(
        &mut self,
        view: &View<'_>,
        folder: Option<&ManagedObjectReference>,
        before: u32,
        now: Timestamp,
    ) -> Called {
        let roll = &mut self.record.roll;
        let sightings = |record: &Record| view.sightings(folder, record);
        let sightings = sightings(roll.begin(sightings, before));
        let is_gone = |id: &MachineId| view.mirror.is_proved_gone(&view::reference(id));
        let pending =
            roll.record().into_iter().flat_map(Record::entries).filter(|(_, entry)| entry.stage == Stage::Pending);
        // Which slots they are for, nobody knows.
        let unknown = pending.map(|(slot, _)| slot).filter(|_| view.has_unknown_clones);
        let cloning: BTreeSet<Slot> = self.under_way.iter().filter_map(Action::cloned_slot).chain(unknown).collect();
        let called = roll.call(&view.desired.uid, &sightings, &cloning, is_gone, |id| view.called(id), now);
        if let (Some(record), Some(folder)) = (roll.record_mut(), folder) {
            record.use_folder(&FolderId(folder.value().to_owned()));
        }
        let names = |ids: &[MachineId]| ids.iter().map(|id| view.called(id)).collect();
        self.lookalikes = Lookalikes { copies: names(&called.found.copies), returned: names(&called.found.returned) };
        called
    }

    /// How many machines the group of this UID has by the record, and those that are missing.
    pub(crate) fn toll<'a>(&self, group: &'a str) -> (usize, Vec<Missing<'a>>) {
        self.record.roll.toll(group)
    }

    /// Nothing can be said of how long machines have been missing.
    pub(crate) fn restart_clocks(&mut self, now: Timestamp) {
        self.record.roll.restart_clocks(now);
    }

    /// Takes up what a plan has given up, and what it has no more use for.
    pub(crate) fn give_up(&mut self, plan: &Plan, has_unknown_clones: bool) {
        let cloning: BTreeSet<Slot> =
            self.under_way.iter().chain(self.done.keys()).filter_map(Action::cloned_slot).collect();
        let Some(record) = self.record.roll.record_mut() else { return };
        plan.given_up.iter().for_each(|slot| record.remove(*slot));
        if plan.settled && !has_unknown_clones {
            record.retain_pending(|slot| cloning.contains(&slot));
        }
    }

    /// Says whether everything that makes or destroys has to stop for this group.
    pub(crate) fn judge(&mut self, toll: &Toll<'_>, now: Timestamp) -> Option<Incident> {
        let brake = self.brake.get_or_insert_with(|| Brake::new(Scope::Group));
        let incident = brake.judge(toll, now);
        if self.is_stopped && incident.is_none() && !brake.was_released() {
            // They are coming back: those that are still missing have the time that any has.
            self.restart_clocks(now);
        }
        self.is_stopped = incident.is_some();
        incident
    }

    /// Forgets what is over.
    fn tidy(&mut self, folder: Folder, members: &[Member], now: Timestamp) {
        let by_id: HashMap<_, _> = members.iter().map(|member| (&member.id, member)).collect();
        let by_slot: HashMap<_, _> = members.iter().map(|member| (member.slot, member)).collect();
        // Of a large group, only the one that an action is about is looked at.
        let concerned = |action: &Action| match action.subject() {
            Subject::Machine(id) => by_id.get(&id).map_or(&[][..], |member| slice::from_ref(*member)),
            Subject::Slot(slot) => by_slot.get(&slot).map_or(&[][..], |member| slice::from_ref(*member)),
            Subject::Folder | Subject::LeftFolder(_) => &[],
        };
        self.done.retain(|action, since| {
            // A clock that was set back would have it waited for until it is as late again.
            let waits = *since <= now && now.duration_since(*since) < PATIENCE.try_into().unwrap_or_default();
            waits && !action.shows_in(folder, concerned(action))
        });
        let is_there = |id: &MachineId| by_id.contains_key(id);
        let is_open = |subject: &Subject| match subject {
            Subject::Folder | Subject::LeftFolder(_) => true,
            Subject::Slot(slot) => !by_slot.contains_key(slot),
            Subject::Machine(id) => is_there(id),
        };
        self.waits.retain(is_open);
        self.problems.retain(|subject, _| is_open(subject));
        self.looks.retain(|subject, _| is_open(subject));
        let runs = |id: &MachineId| by_id.get(id).is_some_and(|member| member.power == Power::On);
        self.shutdowns.retain(|id, _| runs(id));
        self.refused.retain(|id, refusal| match refusal {
            // Once it is off, it is another matter.
            Refusal::WhileRunning(_) => runs(id),
            Refusal::Altogether(_) => is_there(id),
        });
    }
}

/// What an action is, in the words of a sentence about its failure.
fn gerund(action: &Action) -> String {
    match action {
        Action::CreateFolder => "making the group's folder".to_owned(),
        Action::DestroyFolder => "removing the group's folder".to_owned(),
        Action::DestroyLeftFolder(_) => "removing the folder that the machines were moved out of".to_owned(),
        Action::Clone(slot) => format!("cloning into slot {slot}"),
        Action::PowerOn(id) => format!("powering {} on", id.0),
        Action::PowerOff(id) => format!("powering {} off", id.0),
        Action::ShutdownGuest(id) => format!("shutting {} down", id.0),
        Action::Suspend(id) => format!("suspending {}", id.0),
        Action::Reconfigure(id, _) => format!("reconfiguring {}", id.0),
        Action::Rename(id, _) => format!("renaming {}", id.0),
        Action::MoveIntoFolder(id) => format!("moving {} into the group's folder", id.0),
        Action::Mark(id, _) => format!("bringing the marker of {} up to date", id.0),
        Action::Destroy(id) => format!("destroying {}", id.0),
    }
}

#[cfg(test)]
mod tests {
    use drover_api::{VmGroup, vmgroup::Readiness};
    use serde_json::json;
    use vim25::refs::FolderRef;

    use super::*;
    use crate::vcenter::mirror::{self, Mirror};

    fn desired() -> Desired {
        let group: VmGroup = serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"namespace": "ns", "name": "web", "uid": "uid"},
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"},
        }))
        .unwrap();
        Desired::of(&group).unwrap()
    }

    /// Folders by id, name and parent.
    fn mirror(folders: &[(&str, &str, &str)]) -> Mirror {
        let reference = |id: &str| ManagedObjectReference::new("Folder", id);
        let folder = |name: &str, parent| mirror::Folder { name: name.to_owned(), parent: Some(reference(parent)) };
        let folders = folders.iter().map(|(id, name, parent)| (reference(id), folder(name, parent)));
        let mut mirror = Mirror::default();
        mirror.folders.extend(folders);
        mirror
    }

    fn look(memory: &mut Memory, mirror: &Mirror, has_unknown_clones: bool) -> Observed {
        let desired = desired();
        let view = View {
            desired: &desired,
            readiness: Readiness::default(),
            mirror,
            base: &FolderRef::new("base"),
            cluster: "here",
            has_unknown_clones,
            marked: BTreeSet::new(),
        };
        memory.observe(&view, 0, Timestamp::UNIX_EPOCH)
    }

    /// What is known after a restart: a clone into slot 0 was begun, in a folder of this id.
    fn restarted(folder: &str) -> Memory {
        let mut record = Record::default();
        record.use_folder(&FolderId(folder.to_owned()));
        record.reserve([Slot(0)]);
        let mut memory = Memory::default();
        memory.record.roll.set_record(record);
        memory
    }

    #[test]
    fn a_clone_that_nobody_remembers_may_be_on_its_way_into_another_folder() {
        let own = names::folder("ns", "web");
        let same = mirror(&[("f-1", &own, "base")]);
        let other = mirror(&[("f-1", &own, "base-before"), ("f-2", &own, "base")]);
        let renamed = mirror(&[("f-1", "renamed", "base"), ("f-2", &own, "base")]);
        let is_doubtful = |mirror: &Mirror, has_unknown_clones| {
            look(&mut restarted("f-1"), mirror, has_unknown_clones).doubtful.contains(&Slot(0))
        };
        assert!(!is_doubtful(&same, true), "its name lets no second one in");
        assert!(is_doubtful(&other, true) && is_doubtful(&renamed, true), "the name is free in the other folder");
        assert!(!is_doubtful(&other, false) && !is_doubtful(&renamed, false), "none is on its way");
    }

    #[test]
    fn a_folder_is_only_the_groups_by_its_name_whatever_its_id() {
        let own = names::folder("ns", "web");
        let other = mirror(&[("f-1", &own, "base-before"), ("f-2", &own, "base")]);
        let strangers = mirror(&[("f-1", "strangers", "base"), ("f-2", &own, "base")]);
        let left = |mirror: &Mirror| look(&mut restarted("f-1"), mirror, false).left_folders;
        assert_eq!(left(&other), [FolderId("f-1".to_owned())]);
        assert_eq!(left(&strangers), []);
    }
}
