//! The group's record as the API server has it. It is written before anything is asked of vCenter, and never over what another has
//! written.

use std::time::Instant;

use drover_api::{VmGroup, vmgroup::Record as Written};
use kube::{Api, ResourceExt};
use serde_json::{Map, Value};

use super::Latest;
use crate::{controllers::reconcile::Error, kube::status, vcenter::VCenterHandle};

/// What came of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteOutcome {
    /// What is so is written down.
    Kept,
    /// Another has written since. The watch brings what there is now.
    Overtaken,
}

/// Writes down what is so of a group's machines, and what is about to be, where that differs from what is written.
pub(super) async fn keep(
    groups: &Api<VmGroup>,
    latest: &Latest,
    group: &VmGroup,
    live: &VCenterHandle,
    uid: &str,
) -> Result<WriteOutcome, Error> {
    let (before, record) = {
        let mut executor = live.executor();
        let recorded = &executor.group(uid).in_flight.record;
        let Some(record) = recorded.to_write() else { return Ok(WriteOutcome::Kept) };
        (recorded.written().cloned(), record)
    };
    let Some(version) = write(groups, latest, group, before.as_ref(), &record).await? else {
        return Ok(WriteOutcome::Overtaken);
    };
    live.executor().group(uid).in_flight.record.note_written(record, version, Instant::now());
    Ok(WriteOutcome::Kept)
}

/// Writes a record in the place of the one that was there before, and returns the version that the group has then. `None`: another has
/// written since. `group` may be older than what was there before.
async fn write(
    groups: &Api<VmGroup>,
    latest: &Latest,
    group: &VmGroup,
    before: Option<&Written>,
    record: &Written,
) -> Result<Option<Option<String>>, Error> {
    let stands_in = |group: &VmGroup| group.status.as_ref().and_then(|status| status.record.clone());
    let is_meant = |group: &VmGroup| stands_in(group).as_ref() == before;
    let change = |status: &mut Map<String, Value>| drop(status.insert("record".to_owned(), status::standing(record)));
    let Some(written) = latest.change(groups, group, is_meant, change).await? else { return Ok(None) };
    if stands_in(&written).as_ref() == Some(record) {
        Ok(Some(written.resource_version()))
    } else {
        Err(Error::OldKind)
    }
}
