//! The end of a group.

use std::fmt;

use super::{Action, Draft, census::Census, upkeep};
use crate::vmgroup::{DeletionPolicy, Folder, Observed, Power};

/// Brings a group to the end that its policy says, and says whether it is there. Where the machines are to be destroyed, each has to be
/// proved gone: one that isn't seen is waited for.
///
/// Nothing ends while a clone may still be on its way: its machine would appear after its group has gone.
pub(super) fn plan(policy: DeletionPolicy, census: &Census<'_>, draft: &mut Draft) -> bool {
    let none_on_their_way = census.observed.cloning.is_empty() && !census.observed.unknown_clones;
    draft.await_unknown_clones(census.observed);
    let members = &census.observed.members;
    match policy {
        DeletionPolicy::Retain => none_on_their_way,
        DeletionPolicy::PowerOff => {
            draft.mark(&census.observed.unmarked);
            for member in members.iter().filter(|member| member.power != Power::Off) {
                if upkeep::may_act(census, member, draft) {
                    upkeep::stop(census, member, draft);
                }
            }
            let are_off = members.iter().all(|member| member.power == Power::Off);
            none_on_their_way && are_off && census.observed.unmarked.is_empty()
        }
        DeletionPolicy::Delete if census.observed.is_stopped => false,
        DeletionPolicy::Delete => {
            for member in members {
                upkeep::remove(census, member, draft);
            }
            draft.mark(&census.observed.unmarked);
            draft.remove_left_folders(census.observed);
            let none_left = members.is_empty() && census.observed.held.is_empty();
            let none_left = none_left && draft.actions.is_empty() && !census.observed.left_folders_are_busy;
            none_left && none_on_their_way && remove_folder(census, draft)
        }
    }
}

/// What a group that is being deleted waits for, where it could otherwise go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Its own clones.
    Clones(usize),
    /// Clones that nobody remembers.
    UnknownClones,
    /// Whatever may put VMs into folders that its members were moved out of.
    LeftFolders,
    /// Its folder, which is being made or destroyed.
    Folder,
}

impl fmt::Display for Awaited {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clones(1) => formatter.write_str("waits for a clone that is in progress"),
            Self::Clones(count) => write!(formatter, "waits for {count} clones that are in progress"),
            Self::UnknownClones => formatter.write_str(
                "waits for clones that the same vCenter user has begun and that may be for this group; see the recent tasks of vCenter",
            ),
            Self::LeftFolders => formatter.write_str(
                "waits for tasks of the same vCenter user that may put VMs into a folder of the group; see the recent tasks of vCenter",
            ),
            Self::Folder => formatter.write_str("waits for its folder, which is being created or deleted"),
        }
    }
}

/// What a group that is being deleted waits for.
pub(super) fn awaited(observed: &Observed) -> Option<Awaited> {
    if observed.unknown_clones {
        return Some(Awaited::UnknownClones);
    }
    if !observed.cloning.is_empty() {
        return Some(Awaited::Clones(observed.cloning.len()));
    }
    if observed.left_folders_are_busy {
        return Some(Awaited::LeftFolders);
    }
    (observed.folder == Folder::Busy).then_some(Awaited::Folder)
}

/// Destroying a folder destroys all that is in it, so only an empty one goes. One with somebody else's things stays.
fn remove_folder(census: &Census<'_>, draft: &mut Draft) -> bool {
    match census.observed.folder {
        Folder::Absent | Folder::Occupied | Folder::OccupiedUnseen => true,
        Folder::Busy => false,
        Folder::Empty => {
            draft.actions.push(Action::DestroyFolder);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::{
        Timestamp,
        names::Slot,
        vmgroup::{
            DeletionPolicy, Desired, Folder, FolderId, Observed,
            desired::tests::desired,
            plan::{Action, Awaited, plan},
        },
    };

    #[test]
    fn a_group_that_goes_takes_the_folders_along_that_its_vms_were_moved_out_of() {
        let going = Desired { deletion: Some(DeletionPolicy::Delete), ..desired(&json!({})) };
        let left_folders = vec![FolderId("group-7".to_owned())];
        let observed = Observed { left_folders: left_folders.clone(), ..Observed::default() };
        let first = plan(&going, &observed, Timestamp::UNIX_EPOCH);
        assert_eq!((first.settled, first.actions), (false, vec![Action::DestroyLeftFolder(left_folders[0].clone())]));
        assert!(plan(&going, &Observed::default(), Timestamp::UNIX_EPOCH).settled);
    }

    #[test]
    fn a_group_that_waits_for_a_clone_that_nobody_remembers_looks_again_by_itself() {
        let now = Timestamp::UNIX_EPOCH;
        let mut observed = Observed::default();
        for policy in [DeletionPolicy::Delete, DeletionPolicy::PowerOff, DeletionPolicy::Retain] {
            let going = Desired { deletion: Some(policy), ..desired(&json!({"replicas": 0})) };
            observed.unknown_clones = true;
            let waiting = plan(&going, &observed, now);
            assert!(!waiting.settled && waiting.wake.is_some(), "{waiting:?}");
            assert_eq!(waiting.awaited, Some(Awaited::UnknownClones));
            observed.unknown_clones = false;
            let over = plan(&going, &observed, now);
            assert!(over.settled && over.awaited.is_none());
        }
    }

    #[test]
    fn a_group_that_can_only_wait_for_its_end_says_what_for() {
        let going = Desired { deletion: Some(DeletionPolicy::Delete), ..desired(&json!({})) };
        let awaited = |observed: Observed| plan(&going, &observed, Timestamp::UNIX_EPOCH).awaited;
        let cloning = Observed { cloning: [Slot(0), Slot(1)].into(), ..Observed::default() };
        assert_eq!(awaited(cloning), Some(Awaited::Clones(2)));
        assert_eq!(awaited(Observed { folder: Folder::Busy, ..Observed::default() }), Some(Awaited::Folder));
        let left = Observed { left_folders_are_busy: true, ..Observed::default() };
        assert_eq!(awaited(left), Some(Awaited::LeftFolders));
        assert_eq!(awaited(Observed { folder: Folder::Empty, ..Observed::default() }), None, "it has something to do");
    }
}
