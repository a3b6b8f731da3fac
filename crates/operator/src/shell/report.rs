//! What is written of a MyOwnShell: only what differs from what stands there, and not too often.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{MyOwnShell, MyOwnShellStatus};
use drover_core::shell::MANAGER;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// A status is written at most this often, unless it becomes or ceases to be as declared.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// When each MyOwnShell's status was written, by UID. Any may be lost: then one is written early.
#[derive(Default)]
pub struct Pace(Mutex<HashMap<String, Instant>>);

impl Pace {
    /// How long to wait before a status may be written, if it is too early. Otherwise it counts as written.
    pub fn wait_to_write(&self, shell: &MyOwnShell, status: &MyOwnShellStatus) -> Option<Duration> {
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let uid = shell.uid().unwrap_or_default();
        let early = written.get(&uid).and_then(|written| BETWEEN_WRITES.checked_sub(written.elapsed()));
        if early.is_some() && shell.status.as_ref().map(states) == Some(states(status)) {
            return early;
        }
        written.insert(uid, Instant::now());
        None
    }

    pub fn forget(&self, shell: &MyOwnShell) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&shell.uid().unwrap_or_default());
    }
}

fn states(status: &MyOwnShellStatus) -> Vec<&str> {
    status.conditions.iter().map(|condition| condition.status.as_str()).collect()
}

/// Writes a status.
pub async fn write(kube: &Client, shell: &MyOwnShell, status: &MyOwnShellStatus) -> Result<(), kube::Error> {
    let shells: Api<MyOwnShell> = Api::namespaced(kube.clone(), &shell.namespace().unwrap_or_default());
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = json!({"status": patch(shell.status.as_ref(), status)});
    match shells.patch_status(&shell.name_any(), &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(()),
        other => other.map(|_| ()),
    }
}

/// The merge patch from one status to another: what is gone is null.
fn patch(before: Option<&MyOwnShellStatus>, after: &MyOwnShellStatus) -> Value {
    // Statuses have text for keys and plain numbers, so this can't fail.
    let mut patch = serde_json::to_value(after).unwrap_or_default();
    let before = serde_json::to_value(before).unwrap_or_default();
    for name in before.as_object().into_iter().flatten().map(|(name, _)| name) {
        if patch.get(name).is_none() {
            patch[name] = Value::Null;
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_status_no_longer_says_is_taken_away() {
        let before = MyOwnShellStatus { replicas: Some(3), scaled_by: Some("x".to_owned()), ..Default::default() };
        let after = MyOwnShellStatus { replicas: Some(2), ..Default::default() };
        assert_eq!(patch(Some(&before), &after), json!({"replicas": 2, "scaledBy": null}));
        assert_eq!(patch(None, &after), json!({"replicas": 2}));
    }
}
