//! What has been told of each group and when, so that nothing is told twice and nothing too often.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{VmGroup, VmGroupStatus};
use drover_core::{
    Timestamp, Verdict,
    events::News,
    reasons::Reason,
    verdict,
    vmgroup::{
        Desired,
        drift::{Changes, Drift},
        events::{Facts, Told},
        progress::Progress,
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::Outcome;
use crate::kube::leadership::Epoch;

/// A status is written at most this often, unless the group's phase changes.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// What was told of all groups, by UID. Any may be lost: then something is told twice.
#[derive(Debug, Default)]
pub(super) struct Reported(Mutex<HashMap<String, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    /// In the name of which time of holding a lease all this was told.
    epoch: Epoch,
    told: Told,
    drift: Drift,
    progress: Option<Progress>,
    written: Option<Instant>,
    /// Since when something has stood in the group's way that it may be abandoned for, at each look.
    hindered: Option<Instant>,
    /// When it was first asked what becomes of its kind, after the group was deleted.
    asked_for_kind: Option<Instant>,
    /// Whether its kind stays, as was asked after the group was deleted: then it is not deleted because of its kind.
    goes_by_itself: bool,
    /// Whether the group was there before it was deleted.
    was_alive: bool,
    /// Whether it was told that the group isn't given up.
    is_abandoning_refused: bool,
}

/// What is to be said of a group now.
pub(super) struct Report {
    pub verdict: Verdict,
    pub news: Vec<News>,
    /// What was changed in vCenter, and what was put right.
    pub drift: Changes,
}

impl Reported {
    /// Forgets the groups that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.all().retain(|uid, _| is_there(uid));
    }

    /// Comes to a verdict, with an eye on how long the group has got no further.
    pub(super) fn report(&self, desired: &Desired, group: &VmGroup, outcome: &mut Outcome, epoch: Epoch) -> Report {
        let now = Timestamp::now();
        let generation = group.metadata.generation.unwrap_or(0);
        let mut entries = self.all();
        let entry = entries.entry(desired.uid.clone()).or_default();
        if entry.epoch != epoch {
            // Another replica may have told more. What was asked of the kind is as true as before.
            let Entry { asked_for_kind, goes_by_itself, was_alive, .. } = *entry;
            *entry = Entry { epoch, asked_for_kind, goes_by_itself, was_alive, ..Entry::default() };
        }
        let progress = entry.progress.get_or_insert_with(|| Progress::start(now));
        if let Some(deadline) = progress.deadline(desired, generation, &outcome.plan, now) {
            match Duration::try_from(deadline.duration_since(now)) {
                Ok(left) if !left.is_zero() => outcome.wake = outcome.wake.min(left),
                _ => outcome.trouble = std::mem::take(&mut outcome.trouble).overdue(),
            }
        }
        let is_hindered = outcome.trouble.lets_abandon();
        entry.hindered = is_hindered.then(|| entry.hindered.unwrap_or_else(Instant::now));
        let verdict = verdict(desired, &outcome.plan, &outcome.trouble);
        let facts = Facts {
            desired,
            generation,
            was_settled: was_settled(group),
            observed: outcome.observed.as_ref(),
            plan: &outcome.plan,
            verdict: &verdict,
            obstacle_before: obstacle(group),
        };
        let news = entry.told.news(&facts);
        let drift = entry.drift.follow(&facts, now);
        Report { verdict, news, drift }
    }

    /// Whether something that a group may be abandoned for has stood in its way for so long, and its status says so.
    pub(super) fn has_been_hindered(&self, group: &VmGroup, at_least: Duration) -> bool {
        let mut entries = self.all();
        let hindered = entries.entry(group.uid().unwrap_or_default()).or_default().hindered;
        hindered.is_some_and(|since| since.elapsed() >= at_least) && obstacle(group).is_some()
    }

    /// Whether it is known that a group which is being deleted is not deleted because of its kind.
    pub(super) fn goes_by_itself(&self, uid: &str) -> bool {
        self.all().get(uid).is_some_and(|entry| entry.goes_by_itself)
    }

    pub(super) fn note_alive(&self, uid: &str) {
        self.all().entry(uid.to_owned()).or_default().was_alive = true;
    }

    /// Whether a group was seen before it was deleted.
    pub(super) fn was_alive(&self, uid: &str) -> bool {
        self.all().get(uid).is_some_and(|entry| entry.was_alive)
    }

    /// How long ago it was first asked what becomes of the kind of a group that is being deleted. The first time, that is now.
    pub(super) fn since_asked_for_kind(&self, uid: &str) -> Duration {
        self.all().entry(uid.to_owned()).or_default().asked_for_kind.get_or_insert_with(Instant::now).elapsed()
    }

    pub(super) fn note_that_it_goes_by_itself(&self, uid: &str) {
        self.all().entry(uid.to_owned()).or_default().goes_by_itself = true;
    }

    /// Whether it is to be told that a group isn't given up though its annotation asks for that: once.
    pub(super) fn is_first_refusal(&self, uid: &str) -> bool {
        let mut entries = self.all();
        let entry = entries.entry(uid.to_owned()).or_default();
        !std::mem::replace(&mut entry.is_abandoning_refused, true)
    }

    /// How long to wait before a status may be written, if it is too early. Otherwise it counts as written.
    pub(super) fn wait_to_write(&self, group: &VmGroup, status: &VmGroupStatus) -> Option<Duration> {
        let before = group.status.as_ref();
        if before == Some(status) {
            return None;
        }
        let mut entries = self.all();
        let entry = entries.entry(group.uid().unwrap_or_default()).or_default();
        let early = entry.written.and_then(|written| BETWEEN_WRITES.checked_sub(written.elapsed()));
        if before.and_then(|before| before.phase) == status.phase && early.is_some() {
            return early;
        }
        entry.written = Some(Instant::now());
        None
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What stood in the group's way when this was last written, if something did.
fn obstacle(group: &VmGroup) -> Option<&str> {
    let is_none = |reason: &str| {
        [Reason::Provisioning, Reason::Paused, Reason::Deleting].iter().any(|none| none.word() == reason)
    };
    let ready = ready(group).filter(|ready| ready.status == "False" && !is_none(&ready.reason))?;
    Some(&ready.reason)
}

fn ready(group: &VmGroup) -> Option<&Condition> {
    group.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == "Ready")
}

/// Whether the status is about the spec as it is now.
pub(super) fn is_current(group: &VmGroup) -> bool {
    group.status.as_ref().is_some_and(|status| status.observed_generation == group.metadata.generation)
}

/// Whether the group was as declared when this was last written.
pub(super) fn was_settled(group: &VmGroup) -> bool {
    let is_so = |ready: &Condition| ready.status == "True" && ready.observed_generation == group.metadata.generation;
    is_current(group) && ready(group).is_some_and(is_so)
}
