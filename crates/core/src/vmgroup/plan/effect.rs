//! What an action is about, and how its effect shows.

use super::Action;
use crate::{
    names::Slot,
    vmgroup::{Folder, FolderId, MachineId, Member, Power},
};

/// What an action is done to. What fails is left alone for a while, and nothing else is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The group's folder.
    Folder,
    /// A folder that was the group's.
    LeftFolder(FolderId),
    /// A place in the group, which has no machine yet.
    Slot(Slot),
    /// A machine.
    Machine(MachineId),
}

impl Action {
    /// What the action is done to.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match self {
            Self::CreateFolder | Self::DestroyFolder => Subject::Folder,
            Self::DestroyLeftFolder(folder) => Subject::LeftFolder(folder.clone()),
            Self::Clone(slot) => Subject::Slot(*slot),
            Self::PowerOn(id)
            | Self::PowerOff(id)
            | Self::ShutdownGuest(id)
            | Self::Suspend(id)
            | Self::Reconfigure(id, _)
            | Self::Rename(id, _)
            | Self::MoveIntoFolder(id)
            | Self::Mark(id, _)
            | Self::Destroy(id) => Subject::Machine(id.clone()),
        }
    }

    /// What is done, in one word.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::CreateFolder => "create_folder",
            Self::DestroyFolder | Self::DestroyLeftFolder(_) => "destroy_folder",
            Self::Clone(_) => "clone",
            Self::PowerOn(_) => "power_on",
            Self::PowerOff(_) => "power_off",
            Self::ShutdownGuest(_) => "shutdown_guest",
            Self::Suspend(_) => "suspend",
            Self::Reconfigure(..) => "reconfigure",
            Self::Rename(..) => "rename",
            Self::MoveIntoFolder(_) => "move_into_folder",
            Self::Mark(..) => "mark",
            Self::Destroy(_) => "destroy",
        }
    }

    /// The slot that it clones into, if it does.
    #[must_use]
    pub fn cloned_slot(&self) -> Option<Slot> {
        match self {
            Self::Clone(slot) => Some(*slot),
            _ => None,
        }
    }

    /// Whether it makes something in vCenter, or destroys something: what stops where the brake holds.
    #[must_use]
    pub fn makes_or_destroys(&self) -> bool {
        self.is_of_folder() || matches!(self, Self::Clone(_) | Self::Destroy(_))
    }

    /// Whether it is done to a folder.
    #[must_use]
    pub fn is_of_folder(&self) -> bool {
        matches!(self, Self::CreateFolder | Self::DestroyFolder | Self::DestroyLeftFolder(_))
    }

    /// Whether the world shows what the action does. A task may be seen to end before its effect is.
    #[must_use]
    pub fn shows_in(&self, folder: Folder, members: &[Member]) -> bool {
        let holds = |id: &MachineId, rule: &dyn Fn(&Member) -> bool| {
            // Of a machine that is no more, nothing is left to be seen.
            members.iter().find(|member| member.id == *id).is_none_or(rule)
        };
        match self {
            Self::CreateFolder => folder != Folder::Absent,
            Self::DestroyFolder => folder == Folder::Absent,
            // Nobody waits for it.
            Self::DestroyLeftFolder(_) => true,
            Self::Clone(slot) => members.iter().any(|member| member.slot == *slot),
            Self::PowerOn(id) => holds(id, &|member| member.power == Power::On),
            Self::PowerOff(id) | Self::ShutdownGuest(id) => holds(id, &|member| member.power == Power::Off),
            Self::Suspend(id) => holds(id, &|member| member.power == Power::Suspended),
            Self::Reconfigure(id, hardware) => holds(id, &|member| member.hardware == *hardware),
            Self::Rename(id, name) => holds(id, &|member| member.name == *name),
            Self::MoveIntoFolder(id) => holds(id, &|member| member.in_folder),
            // It is a member then.
            Self::Mark(id, _) => members.iter().any(|member| member.id == *id),
            Self::Destroy(id) => holds(id, &|_| false),
        }
    }
}
