//! What is known of a group and under way for it. All of it may be forgotten at any time: the record is written down, and names keep a
//! second attempt from making a second machine.

mod failure;
mod observe;
mod step;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    Action, Plan, Subject, Timestamp,
    names::Slot,
    vcenter::{
        backoff::{Backoff, Pace},
        brake::{Brake, Incident, Losses, Missing, Scope},
    },
    vmgroup::{
        Desired, Hardware, Lookalikes, MachineId, Observed, Power, Refusal, Revision, UpdatePolicy, adapters::Adapter,
        plan::outdated, record::Record, recorded::Recorded,
    },
};
pub use failure::Failed;
pub use observe::observe_anew;
use observe::replicas_before;
pub use step::{Order, SourceState, needs_source, plan_unless, released_by};

/// How long the effect of a task is waited for after the task has ended well.
const PATIENCE: Duration = Duration::from_secs(3);

/// What vCenter was asked for without an answer shows within this time, if it is being done.
const UNANSWERED: Duration = Duration::from_secs(20);

/// What is under way for a group.
#[derive(Debug, Default)]
pub struct InFlight {
    /// Which machines the group has, and how much of that is written down.
    pub record: Recorded,
    /// What is nobody's, and looks like the group's.
    pub lookalikes: Lookalikes,
    brake: Option<Brake>,
    /// Whether all that makes or destroys is stopped for this group.
    pub is_stopped: bool,
    /// Whether the group could not be looked at when it was last to be. What was missing then is missing still, unless it is shown.
    pub is_unseen: bool,
    /// Whether somebody said to go on for this group, whatever stops its vCenter.
    pub goes_on: bool,
    /// What the machines were to be when the group was last as declared.
    settled: Option<MadeOf>,
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
    /// Those of them that only a person can put right.
    for_people: BTreeSet<Subject>,
    /// The hardware that was last ordered for machines, whether that is under way or waits.
    pub queued: Vec<(MachineId, Hardware)>,
    /// The generation of the spec that all this is about.
    generation: i64,
    /// When a clone was last asked for without an answer, or ended without a word.
    unanswered: Option<Timestamp>,
    /// When clones were last seen to run that nobody here knows of.
    unknown: Option<Timestamp>,
    /// When clones failed, which may have made their machines all the same.
    failed_clones: BTreeMap<Slot, Timestamp>,
    /// When the group was last looked at.
    looked: Option<Timestamp>,
}

/// All that decides which machines are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MadeOf(Revision, Arc<[Adapter]>, Hardware, UpdatePolicy, Power);

impl MadeOf {
    fn of(desired: &Desired) -> Self {
        Self(desired.revision, Arc::clone(&desired.adapters), desired.hardware, desired.update, desired.power)
    }
}

impl InFlight {
    /// A spec that was changed is tried at once: what failed may have been mended.
    pub fn turn_to(&mut self, generation: i64) {
        if self.generation != generation {
            self.generation = generation;
            self.waits.reset();
            self.problems.clear();
            self.for_people.clear();
            self.refused.clear();
        }
    }

    /// Nothing that failed while it was away says anything about now.
    pub fn vcenter_is_back(&mut self) {
        self.waits.reset();
    }

    /// Something is asked of vCenter.
    pub fn begin(&mut self, action: Action) {
        self.under_way.insert(action);
    }

    /// Something ended well. A clone has made a machine.
    pub fn succeeded(&mut self, action: &Action, made: Option<MachineId>, now: Timestamp) {
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
            (Action::Clone(slot), Some(made)) => self.record.membership.cloned(*slot, made),
            _ => drop(self.done.insert(action.clone(), now)),
        }
        if let (Subject::Machine(id), false) = (subject, matches!(action, Action::ShutdownGuest(_))) {
            self.shutdowns.remove(&id);
        }
    }

    /// Whether a clone may be on its way, or its VM about to show, of which vCenter has said nothing or no more, a moment ago. One that
    /// nobody here knows of may be seen to end before its VM is seen.
    fn may_be_cloned(&self, now: Timestamp) -> bool {
        let is_recent = |since: Option<Timestamp>, limit: Duration| {
            since.is_some_and(|since| now.duration_since(since).unsigned_abs() < limit)
        };
        is_recent(self.unanswered, UNANSWERED) || is_recent(self.unknown, PATIENCE)
    }

    /// It was not asked for after all.
    pub fn withheld(&mut self, action: &Action) {
        self.under_way.remove(action);
    }

    /// Nobody knows how it ended. What it did, the world shows.
    pub fn lost(&mut self, action: &Action, now: Timestamp) {
        self.under_way.remove(action);
        if let Action::Clone(_) = action {
            self.unanswered = Some(now);
        }
    }

    /// Everything is as declared, so whatever failed on the way no longer matters.
    pub fn forgive(&mut self, desired: &Desired) {
        self.settled = Some(MadeOf::of(desired));
        self.problems.clear();
        self.for_people.clear();
        self.waits.reset();
        self.looks.clear();
        self.occupied = 0;
    }

    /// The slots whose clone is under way.
    pub fn cloning(&self) -> impl Iterator<Item = Slot> {
        self.under_way.iter().filter_map(Action::cloned_slot)
    }

    /// The hardware that machines are being given, or have just been.
    pub fn reconfigured(&self) -> impl Iterator<Item = (MachineId, Hardware)> {
        reconfigurations(self.under_way.iter().chain(self.done.keys()))
    }

    /// Notes what is ordered.
    pub fn note_ordered(&mut self, orders: &[Action]) {
        self.queued = reconfigurations(orders).collect();
    }

    /// When to look again at what nothing will tell of.
    #[must_use]
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let patience = self.done.values().filter_map(|since| since.checked_add(PATIENCE).ok());
        // Of no matter to a group that has no clones on their way: others may clone all day as the same user.
        let is_waiting = self.record.now().is_some_and(Record::has_pending);
        let doubts = [(self.unanswered, UNANSWERED), (self.unknown, PATIENCE)].into_iter().filter(|_| is_waiting);
        let doubts = doubts.filter_map(|(since, limit)| since?.checked_add(limit).ok());
        let failed = self.failed_clones.values().filter_map(|since| since.checked_add(PATIENCE).ok());
        patience
            .chain(doubts)
            .chain(failed)
            .chain(self.waits.not_before(&Subject::Folder))
            .filter(|time| *time > now)
            .min()
    }

    /// The group's folder seemed empty, and wasn't: what is in it can't be seen, or was not told of yet.
    pub fn folder_is_occupied(&mut self, action: &Action, now: Timestamp, draw: u64) {
        self.under_way.remove(action);
        match action.subject() {
            left @ Subject::LeftFolder(_) => drop(self.waits.failed(left, now, draw, Pace::Long)),
            subject => {
                self.occupied += 1;
                self.waits.failed(subject, now, draw, Pace::Soon);
            }
        }
    }

    /// How many machines the group of this UID has by the record, and those that are missing.
    #[must_use]
    pub fn losses<'a>(&self, group: &'a str) -> (usize, Vec<Missing<'a>>) {
        self.record.membership.losses(group)
    }

    /// Nothing can be said of how long machines have been missing.
    pub fn restart_clocks(&mut self, now: Timestamp) {
        self.record.membership.restart_clocks(now);
    }

    /// Takes up what a plan has given up, and what it has no more use for.
    pub fn give_up(&mut self, plan: &Plan, has_unknown_clones: bool, now: Timestamp) {
        let has_unknown_clones = has_unknown_clones || self.may_be_cloned(now);
        let cloning: BTreeSet<Slot> =
            self.under_way.iter().chain(self.done.keys()).filter_map(Action::cloned_slot).collect();
        let Some(record) = self.record.membership.record_mut() else { return };
        plan.given_up.iter().for_each(|slot| record.remove(*slot));
        if plan.settled && !has_unknown_clones {
            record.retain_pending(|slot| cloning.contains(&slot));
        }
    }

    /// Says whether everything that makes or destroys has to stop for this group.
    pub fn judge(&mut self, losses: &Losses<'_>, now: Timestamp) -> Option<Incident> {
        let brake = self.brake.get_or_insert_with(|| Brake::new(Scope::Group));
        let incident = brake.judge(losses, now);
        if self.is_stopped && incident.is_none() && !brake.was_released() {
            // They are coming back: those that are still missing have the time that any has.
            self.restart_clocks(now);
        }
        self.is_stopped = incident.is_some();
        incident
    }

    /// How many machines would be replaced, though nobody changed what they are to be made from: they were up to date, and aren't any
    /// more. `was_settled`: the status says that the group was as declared.
    pub fn unexplained(&mut self, desired: &Desired, observed: &Observed, was_settled: bool, now: Timestamp) -> usize {
        let made_of = Some(MadeOf::of(desired));
        if was_settled {
            self.settled = made_of;
        } else if self.settled != made_of {
            self.settled = None;
        }
        let is_explained = desired.deletion.is_some() || self.settled.is_none();
        if is_explained { 0 } else { outdated(desired, observed, now).len() }
    }
}

fn reconfigurations<'a>(actions: impl IntoIterator<Item = &'a Action>) -> impl Iterator<Item = (MachineId, Hardware)> {
    actions.into_iter().filter_map(|action| match action {
        Action::Reconfigure(id, hardware) => Some((id.clone(), *hardware)),
        _ => None,
    })
}
