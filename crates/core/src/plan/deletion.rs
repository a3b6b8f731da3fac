//! The end of a group.

use super::{Action, Draft, census::Census, upkeep};
use crate::group::{DeletionPolicy, Folder, Power};

/// Brings a group to the end that its policy says, and says whether it is there.
///
/// Nothing ends while a clone may still be on its way: its machine would appear after its group has gone.
pub(super) fn plan(policy: DeletionPolicy, census: &Census<'_>, draft: &mut Draft) -> bool {
    let none_on_their_way = census.observed.cloning.is_empty() && !census.observed.unknown_clones;
    let members = &census.observed.members;
    match policy {
        DeletionPolicy::Retain => none_on_their_way,
        DeletionPolicy::PowerOff => {
            for member in members.iter().filter(|member| member.power != Power::Off) {
                if upkeep::may_act(census, member, draft) {
                    upkeep::stop(census, member, draft);
                }
            }
            none_on_their_way && members.iter().all(|member| member.power == Power::Off)
        }
        DeletionPolicy::Delete => {
            for member in members {
                upkeep::remove(census, member, draft);
            }
            members.is_empty() && none_on_their_way && remove_folder(census, draft)
        }
    }
}

/// Destroying a folder destroys all that is in it, so only an empty one goes. One with somebody else's things stays.
fn remove_folder(census: &Census<'_>, draft: &mut Draft) -> bool {
    match census.observed.folder {
        Folder::Absent | Folder::Occupied => true,
        Folder::Busy => false,
        Folder::Empty => {
            draft.actions.push(Action::DestroyFolder);
            false
        }
    }
}
