//! Groups as they were last written from here, until the watch has told of that, and the way their statuses are changed: each change is
//! made to the whole of what stands there, over the very version that it stands in, because the group's record is a part of it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use drover_api::VmGroup;
use drover_core::vmgroup::recorded::BEHIND;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Map, Value};

use crate::{
    controllers::reconcile::Error,
    kube::status::{self, Reach},
};

/// How often a write is tried that meets others' writes. After that, the group's next turn comes.
const TRIES: u32 = 5;

/// The groups as they were last written, by UID. Any may be lost: then it is read again.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<HashMap<String, (Instant, Arc<VmGroup>)>>);

impl Latest {
    /// Changes a group's status, and returns the group as it is then. `None`: it is gone, or it isn't what the change was meant for any
    /// more.
    pub(super) async fn change(
        &self,
        groups: &Api<VmGroup>,
        group: &VmGroup,
        is_meant: impl Fn(&VmGroup) -> bool,
        change: impl Fn(&mut Map<String, Value>),
    ) -> Result<Option<Arc<VmGroup>>, Error> {
        let name = group.name_any();
        let mut base = self.of(group);
        if !is_meant(&base) {
            let Some(now) = read(groups, &name).await? else { return Ok(None) };
            base = now;
        }
        let mut tries = TRIES;
        loop {
            tries -= 1;
            if !is_meant(&base) || base.uid() != group.uid() {
                return Ok(None);
            }
            let mut standing = match status::value(&base.status) {
                Value::Object(standing) => standing,
                _ => Map::new(),
            };
            change(&mut standing);
            match status::apply(groups, &*base, Reach::Object, Value::Object(standing)).await {
                Ok(Some(written)) => return Ok(Some(self.note(written))),
                Ok(None) => return Ok(None),
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && tries > 0 => {}
                Err(error) => return Err(error.into()),
            }
            // Something else of it was changed.
            let Some(now) = read(groups, &name).await? else { return Ok(None) };
            base = now;
        }
    }

    /// The newer one of what the watch has told and what was written.
    pub(super) fn of(&self, group: &VmGroup) -> Arc<VmGroup> {
        let version = |group: &VmGroup| group.resource_version().and_then(|version| version.parse::<u64>().ok());
        let told = || Arc::new(group.clone());
        let mut all = self.all();
        let uid = group.uid().unwrap_or_default();
        match all.get(&uid) {
            Some((at, written)) if at.elapsed() < BEHIND && version(written) > version(group) => Arc::clone(written),
            Some(_) => {
                all.remove(&uid);
                told()
            }
            None => told(),
        }
    }

    fn note(&self, mut written: VmGroup) -> Arc<VmGroup> {
        // They are as large as the rest, and nobody asks for them.
        written.metadata.managed_fields = None;
        let written = Arc::new(written);
        let mut all = self.all();
        all.retain(|_, (at, _)| at.elapsed() < BEHIND);
        all.insert(written.uid().unwrap_or_default(), (Instant::now(), Arc::clone(&written)));
        written
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, (Instant, Arc<VmGroup>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group as it is now. Listed and not got, so that no right is needed for this alone.
async fn read(groups: &Api<VmGroup>, name: &str) -> Result<Option<Arc<VmGroup>>, kube::Error> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    Ok(groups.list(&named).await?.items.into_iter().next().map(Arc::new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(version: &str, phase: &str) -> VmGroup {
        serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"name": "web", "uid": "u", "resourceVersion": version},
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": {"phase": phase},
        }))
        .unwrap()
    }

    #[test]
    fn the_newer_of_what_is_told_and_what_was_written_counts() {
        let latest = Latest::default();
        let phase = |group: &VmGroup| serde_json::to_value(&group.status).unwrap()["phase"].clone();
        latest.note(group("10", "RUNNING"));
        assert_eq!(phase(&latest.of(&group("9", "PENDING"))), "RUNNING");
        assert_eq!(phase(&latest.of(&group("11", "ERROR"))), "ERROR");
        assert_eq!(phase(&latest.of(&group("9", "PENDING"))), "PENDING", "what was told of is forgotten");
    }
}
