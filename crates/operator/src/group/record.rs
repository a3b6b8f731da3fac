//! The group's record as the API server has it. It is written before anything is asked of vCenter, and never over what another has
//! written.

use std::collections::HashMap;

use drover_api::{VmGroup, vmgroup::Record as Written};
use drover_core::{
    Action,
    group::Member,
    record::{BadRecord, Record},
    roll::Roll,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::Error;
use crate::vcenter::Live;

/// How often a write is tried that meets others' writes. After that, the group's next turn comes.
const TRIES: u32 = 5;

/// The group's record, and how much of it is written down.
#[derive(Debug, Default)]
pub(crate) struct Recorded {
    /// What is so.
    pub roll: Roll,
    /// What is written down for sure.
    written: Option<Written>,
    /// The version of the group that was written last.
    version: Option<String>,
}

impl Recorded {
    /// Takes up what is written in a group, unless that is older than what was last written from here.
    pub(crate) fn take_up(&mut self, group: &VmGroup) -> Result<(), BadRecord> {
        let version = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<u64>().ok());
        let is_old = match (version(&group.resource_version()), version(&self.version)) {
            (Some(of_group), Some(own)) => of_group < own,
            _ => false,
        };
        if is_old {
            return Ok(());
        }
        let written = group.status.as_ref().and_then(|status| status.record.as_ref());
        if let Some(written) = written.filter(|written| self.written.as_ref() != Some(written)) {
            self.roll.set_record(Record::read(written)?);
        }
        // Where somebody has taken it away, it is written again.
        self.written = written.cloned();
        self.version = group.resource_version();
        Ok(())
    }

    /// What would have to be written, if it isn't what is written.
    pub(crate) fn to_write(&self) -> Option<Written> {
        let now = self.roll.record()?.write();
        (self.written.as_ref() != Some(&now)).then_some(now)
    }

    /// What was written down last, for sure.
    pub(crate) fn written(&self) -> Option<&Written> {
        self.written.as_ref()
    }

    /// Notes what has been written.
    pub(crate) fn note_written(&mut self, written: Written, version: Option<String>) {
        self.written = Some(written);
        self.version = version;
    }

    /// Notes what is about to be asked for, and says whether all that it depends on is written down.
    pub(crate) fn announce(&mut self, actions: &[Action], members: &[Member]) -> bool {
        let Some(record) = self.roll.record_mut() else { return actions.is_empty() };
        let is_announced =
            |action: &&Action| matches!(action, Action::Clone(_) | Action::Destroy(_) | Action::MoveIntoFolder(_));
        let announced: Vec<_> = actions.iter().filter(is_announced).collect();
        if announced.is_empty() {
            return true;
        }
        let slots: HashMap<_, _> = members.iter().map(|member| (&member.id, member.slot)).collect();
        let mut begun: Vec<_> = announced.iter().filter_map(|action| action.cloned_slot()).collect();
        record.reserve(begun.iter().copied());
        for action in announced {
            if let Action::Destroy(id) = action
                && let Some(slot) = slots.get(id)
            {
                record.condemn(*slot, id.clone());
                begun.push(*slot);
            }
        }
        // What else has come to be so is written in its time.
        let written = self.written.as_ref().and_then(|written| Record::read(written).ok());
        written.is_some_and(|written| written.agrees(record, &begun))
    }

    /// The record, once the group has been looked at.
    pub(crate) fn now(&self) -> Option<&Record> {
        self.roll.record()
    }
}

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
    before: Option<&Written>,
    record: &Written,
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
fn whole(record: &Written) -> serde_json::Value {
    let Written { incarnation, made, pending, lost, folder, left_folders, going } = record;
    json!({
        "incarnation": incarnation, "made": made, "pending": pending, "lost": lost, "folder": folder,
        "leftFolders": left_folders, "going": going,
    })
}

#[cfg(test)]
mod tests {
    use drover_core::{
        group::{FolderId, MachineId},
        names::Slot,
    };

    use super::*;

    fn written(recorded: &mut Recorded) {
        let record = recorded.to_write().unwrap();
        recorded.note_written(record, None);
    }

    #[test]
    fn what_is_begun_is_written_first_and_what_is_only_seen_waits() {
        let mut recorded = Recorded::default();
        recorded.roll.begin(|_| Vec::new(), 0);
        let clones = [Action::Clone(Slot(0)), Action::Clone(Slot(1))];
        assert!(!recorded.announce(&clones, &[]), "neither is written down");
        written(&mut recorded);
        assert!(recorded.announce(&clones, &[]));
        recorded.roll.record_mut().unwrap().see(Slot(1));
        assert!(recorded.announce(&clones[..1], &[]), "nothing that is begun depends on what was seen");
        assert!(recorded.to_write().is_some(), "it is written all the same, in its time");
        assert!(!recorded.announce(&[Action::Clone(Slot(2))], &[]), "this is new");
        written(&mut recorded);
        recorded.roll.record_mut().unwrap().use_folder(&FolderId("f-2".to_owned()));
        assert!(!recorded.announce(&clones[..1], &[]), "it would be cloned into a folder that nobody would know of");
        written(&mut recorded);
        let machine = MachineId("vm-1".to_owned());
        recorded.roll.record_mut().unwrap().condemn(Slot(1), machine.clone());
        assert!(recorded.announce(&clones[..1], &[]), "another's end is no matter of this one");
        written(&mut recorded);
        recorded.roll.record_mut().unwrap().remove(Slot(0));
        assert!(!recorded.announce(&clones[..1], &[]), "it is another VM than the one that is written down");
    }
}
