//! A group's record, and how much of it is written down. It is written before anything is asked of vCenter.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Record as Written};

use crate::{
    Action,
    vmgroup::{
        Member,
        membership::Membership,
        record::{BadRecord, Record},
    },
};

/// A watch is behind for no longer than this, whatever the versions say: those of a cluster that was restored begin anew.
pub const BEHIND: Duration = Duration::from_secs(30);

/// The group's record, and how much of it is written down.
#[derive(Debug, Default)]
pub struct Recorded {
    /// What is so.
    pub membership: Membership,
    /// What is written down for sure.
    written: Option<Written>,
    /// The version of the group that was written or read last, and when.
    version: Option<(String, Instant)>,
}

impl Recorded {
    /// Takes up what is written in a group, unless that is older than what was last written from here.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn take_up(&mut self, group: &VmGroup, now: Instant) -> Result<(), BadRecord> {
        let number = |version: &str| version.parse::<u64>().ok();
        let of_group = group.metadata.resource_version.clone();
        let written = group.status.as_ref().and_then(|status| status.record.as_ref());
        if let (Some(of_group), Some((own, since))) = (&of_group, &self.version)
            && number(of_group) < number(own)
        {
            // A watch isn't behind for so long: the API server was given back what it had before. What is so is written there again.
            if now.saturating_duration_since(*since) >= BEHIND {
                self.written = written.cloned();
                self.version = Some((of_group.clone(), now));
            }
            return Ok(());
        }
        if let Some(written) = written.filter(|written| self.written.as_ref() != Some(written)) {
            self.membership.set_record(Record::read(written)?);
        }
        // Where somebody has taken it away, it is written again.
        self.written = written.cloned();
        self.version = of_group.map(|version| (version, now));
        Ok(())
    }

    /// What would have to be written, if it isn't what is written.
    #[must_use]
    pub fn to_write(&self) -> Option<Written> {
        let now = self.membership.record()?.write();
        (self.written.as_ref() != Some(&now)).then_some(now)
    }

    /// What was written down last, for sure.
    #[must_use]
    pub fn written(&self) -> Option<&Written> {
        self.written.as_ref()
    }

    /// Notes what has been written.
    pub fn note_written(&mut self, written: Written, version: Option<String>, now: Instant) {
        self.written = Some(written);
        self.version = version.map(|version| (version, now));
    }

    /// Notes what is about to be asked for, and says whether all that it depends on is written down.
    pub fn announce(&mut self, actions: &[Action], members: &[Member]) -> bool {
        let Some(record) = self.membership.record_mut() else { return actions.is_empty() };
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
    #[must_use]
    pub fn now(&self) -> Option<&Record> {
        self.membership.record()
    }
}

/// Whether a group's record has machines, or some that may be on their way.
#[must_use]
pub fn is_kept_of(group: &VmGroup) -> bool {
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    record.is_some_and(|record| !(record.made.is_empty() && record.pending.is_empty() && record.going.is_empty()))
}

/// Whether no vCenter has ever been written down as the group's.
#[must_use]
pub fn was_nowhere(group: &VmGroup) -> bool {
    let is_empty = |status: &VmGroupStatus| status.vcenter.is_none() && status.current_replicas.unwrap_or(0) == 0;
    !is_kept_of(group) && group.status.as_ref().is_none_or(is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        names::Slot,
        vmgroup::{FolderId, MachineId},
    };

    fn written(recorded: &mut Recorded) {
        let record = recorded.to_write().unwrap();
        recorded.note_written(record, None, Instant::now());
    }

    /// A group of a version, with a record of so many machines.
    fn group(version: &str, machines: u32) -> VmGroup {
        let mut record = Record::default();
        record.reserve((0..machines).map(Slot));
        serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"name": "web", "uid": "u", "resourceVersion": version},
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": {"record": record.write()},
        }))
        .unwrap()
    }

    #[test]
    fn a_record_of_before_is_not_taken_up_and_is_written_over_once_the_api_server_has_nothing_else() {
        let (mut recorded, now) = (Recorded::default(), Instant::now());
        recorded.take_up(&group("9", 3), now).unwrap();
        let known = recorded.now().cloned();
        recorded.take_up(&group("7", 1), now).unwrap();
        assert!(recorded.now() == known.as_ref() && recorded.to_write().is_none(), "a watch is behind");
        recorded.take_up(&group("7", 1), now + BEHIND).unwrap();
        assert_eq!(recorded.now(), known.as_ref(), "what is so is so");
        assert!(recorded.to_write().is_some(), "and is not written down any more");
    }

    #[test]
    fn what_is_begun_is_written_first_and_what_is_only_seen_waits() {
        let mut recorded = Recorded::default();
        recorded.membership.begin(|_| Vec::new(), 0);
        let clones = [Action::Clone(Slot(0)), Action::Clone(Slot(1))];
        assert!(!recorded.announce(&clones, &[]), "neither is written down");
        written(&mut recorded);
        assert!(recorded.announce(&clones, &[]));
        recorded.membership.record_mut().unwrap().see(Slot(1));
        assert!(recorded.announce(&clones[..1], &[]), "nothing that is begun depends on what was seen");
        assert!(recorded.to_write().is_some(), "it is written all the same, in its time");
        assert!(!recorded.announce(&[Action::Clone(Slot(2))], &[]), "this is new");
        written(&mut recorded);
        recorded.membership.record_mut().unwrap().use_folder(&FolderId("f-2".to_owned()));
        assert!(!recorded.announce(&clones[..1], &[]), "it would be cloned into a folder that nobody would know of");
        written(&mut recorded);
        let machine = MachineId("vm-1".to_owned());
        recorded.membership.record_mut().unwrap().condemn(Slot(1), machine.clone());
        assert!(recorded.announce(&clones[..1], &[]), "another's end is no matter of this one");
        written(&mut recorded);
        recorded.membership.record_mut().unwrap().remove(Slot(0));
        assert!(!recorded.announce(&clones[..1], &[]), "it is another VM than the one that is written down");
    }
}
