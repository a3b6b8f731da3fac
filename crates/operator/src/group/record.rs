//! The group's record as the API server has it. It is written before anything is asked of vCenter, and never over what another has
//! written.

use drover_api::{VmGroup, vmgroup::Record};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::Error;

/// How often a write is tried that meets others' writes. After that, the group's next turn comes.
const TRIES: u32 = 5;

/// What came of a write.
pub(super) enum Outcome {
    /// It is written, and this is the group's version now.
    Written(Option<String>),
    /// Another has written since.
    Overtaken,
}

/// Writes a record in the place of the one that was there before. `group` may be older than that.
pub(super) async fn write(
    groups: &Api<VmGroup>,
    group: &VmGroup,
    before: Option<&Record>,
    record: &Record,
) -> Result<Outcome, Error> {
    let mut version = group.resource_version();
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let patch = json!({"metadata": {"resourceVersion": version}, "status": {"record": whole(record)}});
        match groups.patch_status(&group.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => {
                let kept = written.status.as_ref().and_then(|status| status.record.as_ref());
                return if kept == Some(record) {
                    Ok(Outcome::Written(written.resource_version()))
                } else {
                    Err(Error::OldKind)
                };
            }
            Err(kube::Error::Api(status)) if status.code == 409 && tries > 0 => {}
            Err(error) => return Err(error.into()),
        }
        // Something else of it was changed, mostly its status, from here.
        let latest = groups.get(&group.name_any()).await?;
        let there = latest.status.as_ref().and_then(|status| status.record.as_ref());
        if there != before || latest.uid() != group.uid() {
            return Ok(Outcome::Overtaken);
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
