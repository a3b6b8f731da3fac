//! What is written of a MyOwnShell, where that differs from what stands there, and not too often.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{MyOwnShell, MyOwnShellStatus};
use kube::{Api, Client, ResourceExt};

use crate::kube::status::{self, Reach};

/// A status is written at most this often, unless it becomes or ceases to be as declared.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// When each MyOwnShell's status was written, by UID. Any may be lost: then one is written early.
#[derive(Default)]
pub(super) struct Pace(Mutex<HashMap<String, Instant>>);

impl Pace {
    /// How long to wait before a status may be written, if it is too early. Otherwise it counts as written.
    pub(super) fn wait_to_write(&self, shell: &MyOwnShell, status: &MyOwnShellStatus) -> Option<Duration> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = shell.uid().unwrap_or_default();
        let early = written.get(&uid).and_then(|written| BETWEEN_WRITES.checked_sub(written.elapsed()));
        if early.is_some() && shell.status.as_ref().map(states) == Some(states(status)) {
            return early;
        }
        // Those that are older keep nobody waiting. Some of them are gone.
        written.retain(|_, written| written.elapsed() < BETWEEN_WRITES);
        written.insert(uid, Instant::now());
        None
    }

    pub(super) fn forget(&self, shell: &MyOwnShell) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shell.uid().unwrap_or_default());
    }
}

fn states(status: &MyOwnShellStatus) -> Vec<&str> {
    status.conditions.iter().map(|condition| condition.status.as_str()).collect()
}

/// Writes a status, and says whether that was done: not if the MyOwnShell has changed meanwhile, or is gone.
pub(super) async fn write(kube: &Client, shell: &MyOwnShell, status: &MyOwnShellStatus) -> Result<bool, kube::Error> {
    let shells: Api<MyOwnShell> = Api::namespaced(kube.clone(), &shell.namespace().unwrap_or_default());
    let outcome = status::apply(&shells, shell, Reach::Object, status::value(status)).await;
    status::unless_overtaken(outcome).map(|written| written.is_some())
}
