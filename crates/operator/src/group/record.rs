//! The group's record as the API server has it. It is written before anything is asked of vCenter, and never over what another has
//! written.

use drover_api::{VmGroup, vmgroup::Record};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::Error;
use crate::vcenter::Live;

/// How often a write is tried that meets others' writes. After that, the group's next turn comes.
const TRIES: u32 = 5;

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// What is so is written down.
    Kept,
    /// Another has written since. The watch brings what there is now.
    Overtaken,
}

/// Writes down what is so of a group's machines, and what is about to be, where that differs from what is written.
pub(super) async fn keep(groups: &Api<VmGroup>, group: &VmGroup, live: &Live, uid: &str) -> Result<Outcome, Error> {
    let (before, record) = {
        let mut works = live.works();
        let recorded = &works.group(uid).memory.record;
        let Some(record) = recorded.to_write() else { return Ok(Outcome::Kept) };
        (recorded.written().cloned(), record)
    };
    let Some(version) = write(groups, group, before.as_ref(), &record).await? else { return Ok(Outcome::Overtaken) };
    live.works().group(uid).memory.record.note_written(record, version);
    Ok(Outcome::Kept)
}

/// Whether a group's record has machines, or some that may be on their way.
pub(crate) fn is_kept_of(group: &VmGroup) -> bool {
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    record.is_some_and(|record| !(record.made.is_empty() && record.pending.is_empty() && record.going.is_empty()))
}

/// Writes a record in the place of the one that was there before, and returns the version that the group has then. `None`: another has
/// written since. `group` may be older than what was there before.
async fn write(
    groups: &Api<VmGroup>,
    group: &VmGroup,
    before: Option<&Record>,
    record: &Record,
) -> Result<Option<Option<String>>, Error> {
    let mut version = group.resource_version();
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"record": whole(record)}});
        match groups.patch_status(&group.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                let kept = written.status.as_ref().and_then(|status| status.record.as_ref());
                return if kept == Some(record) { Ok(Some(written.resource_version())) } else { Err(Error::OldKind) };
            }
            Err(kube::Error::Api(status)) if status.code == 409 && tries > 0 => {}
            Err(error) => return Err(error.into()),
        }
        // Something else of it was changed, mostly its status, from here.
        let latest = groups.get(&group.name_any()).await?;
        let there = latest.status.as_ref().and_then(|status| status.record.as_ref());
        if there != before || latest.uid() != group.uid() {
            return Ok(None);
        }
        version = latest.resource_version();
    }
}

/// With its empty lists: a merge patch keeps what it doesn't name.
fn whole(record: &Record) -> serde_json::Value {
    let Record { incarnation, made, pending, lost, folder, left_folders, going } = record;
    json!({
        "incarnation": incarnation, "made": made, "pending": pending, "lost": lost, "folder": folder,
        "leftFolders": left_folders, "going": going,
    })
}
