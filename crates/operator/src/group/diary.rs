//! What has been told of each group and when, so that nothing is told twice and nothing too often.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{VmGroup, VmGroupStatus};
use drover_core::{
    Trouble, Verdict,
    group::{Desired, Timestamp},
    news::{Facts, News, Told},
    progress::Progress,
    reasons::Reason,
    verdict,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use super::Turn;

/// A status is written at most this often, unless the group's phase changes.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// The diaries of all groups, by UID. Any may be lost: then something is told twice.
#[derive(Debug, Default)]
pub(super) struct Diaries(Mutex<HashMap<String, Diary>>);

#[derive(Debug, Default)]
struct Diary {
    told: Told,
    progress: Option<Progress>,
    written: Option<Instant>,
    /// Whether it was told that the group isn't given up.
    is_abandoning_refused: bool,
}

/// What is to be said of a group now.
pub(super) struct Page {
    pub verdict: Verdict,
    pub news: Vec<News>,
}

impl Diaries {
    /// Forgets the groups that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.all().retain(|uid, _| is_there(uid));
    }

    /// Comes to a verdict, with an eye on how long the group has got no further.
    pub(super) fn page(&self, desired: &Desired, group: &VmGroup, turn: &mut Turn) -> Page {
        let now = Timestamp::now();
        let generation = group.metadata.generation.unwrap_or(0);
        let mut diaries = self.all();
        let diary = diaries.entry(desired.uid.clone()).or_default();
        let progress = diary.progress.get_or_insert_with(|| Progress::start(now));
        if let Some(deadline) = progress.deadline(desired, generation, &turn.plan, now) {
            match Duration::try_from(deadline.duration_since(now)) {
                Ok(left) if !left.is_zero() => turn.wake = turn.wake.min(left),
                _ if turn.trouble == Trouble::None => turn.trouble = Trouble::Overdue,
                _ => {}
            }
        }
        let verdict = verdict(desired, &turn.plan, &turn.trouble);
        let facts = Facts {
            desired,
            generation,
            was_settled: was_settled(group),
            observed: turn.observed.as_ref(),
            plan: &turn.plan,
            verdict: &verdict,
            stalled_before: stalled(group),
        };
        let news = diary.told.news(&facts);
        Page { verdict, news }
    }

    /// Whether it is to be told that a group isn't given up though its annotation asks for that: once.
    pub(super) fn is_first_refusal(&self, uid: &str) -> bool {
        let mut diaries = self.all();
        let diary = diaries.entry(uid.to_owned()).or_default();
        !std::mem::replace(&mut diary.is_abandoning_refused, true)
    }

    /// How long to wait before a status may be written, if it is too early. Otherwise it counts as written.
    pub(super) fn wait_to_write(&self, group: &VmGroup, status: &VmGroupStatus) -> Option<Duration> {
        let before = group.status.as_ref();
        if before == Some(status) {
            return None;
        }
        let mut diaries = self.all();
        let diary = diaries.entry(group.uid().unwrap_or_default()).or_default();
        let early = diary.written.and_then(|written| BETWEEN_WRITES.checked_sub(written.elapsed()));
        if before.and_then(|before| before.phase) == status.phase && early.is_some() {
            return early;
        }
        diary.written = Some(Instant::now());
        None
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Diary>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the group was stalled when this was last written, if it was.
fn stalled(group: &VmGroup) -> Option<&str> {
    Some(&stalled_condition(group)?.reason)
}

/// Whether it has been written down for so long that the group is stalled.
pub(super) fn has_been_stalled(group: &VmGroup, at_least: Duration) -> bool {
    let since = stalled_condition(group).map(|stalled| stalled.last_transition_time.0);
    since.is_some_and(|since| since.checked_add(at_least).is_ok_and(|then| then <= Timestamp::now()))
}

fn stalled_condition(group: &VmGroup) -> Option<&Condition> {
    let mut conditions = group.status.as_ref()?.conditions.iter();
    conditions.find(|condition| condition.type_ == "Stalled" && condition.status == "True")
}

/// Whether the status is about the spec as it is now.
pub(super) fn is_current(group: &VmGroup) -> bool {
    group.status.as_ref().is_some_and(|status| status.observed_generation == group.metadata.generation)
}

/// Whether the group was as declared when this was last written.
pub(super) fn was_settled(group: &VmGroup) -> bool {
    let Some(status) = &group.status else { return false };
    let is_it = |condition: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        condition.type_ == "Ready" && condition.status == "True" && condition.reason == Reason::AsDeclared.word()
    };
    is_current(group) && status.conditions.iter().find(is_it).is_some()
}
