//! What has been told of each group and when, so that nothing is told twice and nothing too often.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{VmGroup, VmGroupStatus};
use drover_core::{
    Timestamp,
    vmgroup::{
        Desired,
        outcome::Outcome,
        report::{Report, Reporter},
    },
};
use kube::ResourceExt;

use crate::kube::{leadership::Epoch, status::Throttle};

/// A status is written at most this often, unless the group's phase changes.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// How far a group is that is being deleted is of less interest: mostly it is gone before.
const BETWEEN_LAST_WRITES: Duration = Duration::from_secs(3);

/// What was told of all groups, by UID. Any may be lost: then something is told twice.
#[derive(Debug, Default)]
pub(super) struct Reported {
    entries: Mutex<HashMap<String, Entry>>,
    written: Throttle,
}

#[derive(Debug, Default)]
struct Entry {
    /// In the name of which time of holding a lease all this was told.
    epoch: Epoch,
    reporter: Reporter,
    /// When it was first asked what becomes of its kind, after the group was deleted.
    asked_for_kind: Option<Instant>,
    /// Whether its kind stays, as was asked after the group was deleted: then it is not deleted because of its kind.
    goes_by_itself: bool,
    /// Whether the group was there before it was deleted.
    was_alive: bool,
}

impl Reported {
    /// Forgets the groups that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.all().retain(|uid, _| is_there(uid));
    }

    /// What is to be said of a group, by who holds its lease at this time.
    pub(super) fn report(&self, desired: &Desired, group: &VmGroup, outcome: Outcome, epoch: Epoch) -> Report {
        let mut entries = self.all();
        let entry = entries.entry(desired.uid.clone()).or_default();
        if entry.epoch != epoch {
            // Another replica may have told more. What was asked of the kind is as true as before.
            let Entry { asked_for_kind, goes_by_itself, was_alive, .. } = *entry;
            *entry = Entry { epoch, asked_for_kind, goes_by_itself, was_alive, ..Entry::default() };
        }
        entry.reporter.report(group, desired, outcome, (Timestamp::now(), Instant::now()))
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

    /// When it was first asked what becomes of the kind of a group that is being deleted. The first time, that is now.
    pub(super) fn when_asked_for_kind(&self, uid: &str) -> Instant {
        *self.all().entry(uid.to_owned()).or_default().asked_for_kind.get_or_insert_with(Instant::now)
    }

    pub(super) fn note_that_it_goes_by_itself(&self, uid: &str) {
        self.all().entry(uid.to_owned()).or_default().goes_by_itself = true;
    }

    /// How long to wait before a status may be written, if it is too early. Otherwise it counts as written.
    pub(super) fn wait_to_write(&self, group: &VmGroup, status: &VmGroupStatus) -> Option<Duration> {
        let before = group.status.as_ref();
        if before == Some(status) {
            return None;
        }
        let reasons = |status: &VmGroupStatus| -> Vec<_> {
            status.conditions.iter().map(|condition| condition.reason.clone()).collect()
        };
        let is_progress = before.is_some_and(|before| reasons(before) == reasons(status));
        let between = if group.metadata.deletion_timestamp.is_some() && is_progress {
            BETWEEN_LAST_WRITES
        } else {
            BETWEEN_WRITES
        };
        let is_urgent = before.and_then(|before| before.phase) != status.phase;
        self.written.wait(&group.uid().unwrap_or_default(), between, is_urgent)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
