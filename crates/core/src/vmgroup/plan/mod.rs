//! What to do next for a group.

mod census;
mod deletion;
mod effect;
mod held;
mod impact;
mod rollout;
mod upkeep;

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use crate::{
    Timestamp,
    names::Slot,
    vmgroup::{DeletionPolicy, Desired, Folder, FolderId, Hardware, MachineId, Member, Observed},
};
use census::Census;
pub use deletion::Awaited;
pub use effect::Subject;
pub use held::trouble as trouble_with_unseen;
pub use impact::{Impact, impact};
pub use upkeep::outlived_shutdowns;

/// One thing to do. None waits for another of the same plan; each is safe to ask for twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Make the group's folder.
    CreateFolder,
    /// Destroy the group's folder, which is empty.
    DestroyFolder,
    /// Destroy a folder of the group that its members were moved out of, and that is empty.
    DestroyLeftFolder(FolderId),
    /// Clone the template into a slot, powered on if the group is.
    Clone(Slot),
    /// Power a machine on.
    PowerOn(MachineId),
    /// Power a machine off.
    PowerOff(MachineId),
    /// Ask a machine's guest to shut down.
    ShutdownGuest(MachineId),
    /// Suspend a machine.
    Suspend(MachineId),
    /// Give a machine other hardware.
    Reconfigure(MachineId, Hardware),
    /// Give a machine the name of its slot.
    Rename(MachineId, String),
    /// Move a machine into the group's folder.
    MoveIntoFolder(MachineId),
    /// Bring the marker of a machine up to date, which was made before records were kept.
    Mark(MachineId, Slot),
    /// Destroy a machine, which is off.
    Destroy(MachineId),
}

/// What is to be done, and what can be said of the group now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// What to do, now.
    pub actions: Vec<Action>,
    /// How many machines are how far.
    pub counts: Counts,
    /// Whether the world is as declared. For a group that is being deleted: whether nothing is left to be done.
    pub settled: bool,
    /// When to plan again, if nothing changes before.
    pub wake: Option<Timestamp>,
    /// The slots whose VM has been missing for so long that it is given up, and that need no other.
    pub given_up: Vec<Slot>,
    /// How many machines are not made, replaced or given more hardware for want of room.
    pub held_back: usize,
    /// What a group that is being deleted waits for, if it can do nothing until then.
    pub awaited: Option<Awaited>,
}

/// How many machines are how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Machines that there are.
    pub current: u32,
    /// Those in the power state and as ready as the group asks for.
    pub ready: u32,
    /// Those that have been so for long enough.
    pub available: u32,
    /// Those made from, and having, what is declared now.
    pub updated: u32,
}

/// Decides what to do next. The same arguments give the same plan.
#[must_use]
pub fn plan(desired: &Desired, observed: &Observed, now: Timestamp) -> Plan {
    let census = Census::take(desired, observed, now);
    let growths = observed.room.map_or(u32::MAX, |room| room.growths);
    let mut draft = Draft { now, actions: Vec::new(), wake: None, given_up: Vec::new(), held_back: 0, growths };
    let settled = if let Some(policy) = desired.deletion {
        deletion::plan(policy, &census, &mut draft)
    } else if desired.paused {
        census.is_as_declared()
    } else {
        keep(&census, &mut draft);
        let is_known = observed.folder != Folder::Busy && !observed.unknown_clones;
        // A folder that members were moved out of is no part of it.
        let is_done = draft.actions.iter().all(|action| matches!(action, Action::DestroyLeftFolder(_)));
        is_done && is_known && census.is_as_declared()
    };
    if observed.is_stopped {
        draft.actions.retain(|action| !action.makes_or_destroys());
    }
    // What stays as it is, or is only powered off, waits for nothing that is missing.
    let leaves_them = matches!(desired.deletion, Some(DeletionPolicy::Retain | DeletionPolicy::PowerOff));
    let settled = settled && (leaves_them || !observed.is_stopped);
    census.wake_when_time_tells(&mut draft);
    let given_up = if observed.is_stopped { Vec::new() } else { draft.given_up };
    let Draft { actions, wake, held_back, .. } = draft;
    let waits = desired.deletion.is_some() && !settled && actions.is_empty();
    let awaited = if waits { deletion::awaited(observed) } else { None };
    Plan { actions, counts: census.counts(), settled, wake, given_up, held_back, awaited }
}

/// The machines that are to be replaced by others.
#[must_use]
pub fn to_be_replaced<'a>(desired: &Desired, observed: &'a Observed, now: Timestamp) -> Vec<&'a Member> {
    let census = Census::take(desired, observed, now);
    observed.members.iter().filter(|member| census.is_to_be_replaced(member)).collect()
}

/// Those of them that are so for what they are made from, or have: not because their slot is no more.
#[must_use]
pub(crate) fn outdated<'a>(desired: &Desired, observed: &'a Observed, now: Timestamp) -> Vec<&'a Member> {
    let census = Census::take(desired, observed, now);
    let is_outdated = |member: &&Member| census.is_to_be_replaced(member) && !census.is_beyond(member);
    observed.members.iter().filter(is_outdated).collect()
}

/// A clone that nobody remembers is looked at again after this long: its end may be told to nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Keeps a group as declared: the folder, then who goes, who comes, and how each one is.
fn keep(census: &Census<'_>, draft: &mut Draft) {
    draft.await_unknown_clones(census.observed);
    match census.observed.folder {
        // Nothing is made for a group that may have nothing.
        Folder::Absent if census.may_have_nothing() => return rollout::clone_missing(census, draft),
        Folder::Absent => return draft.actions.push(Action::CreateFolder),
        Folder::Busy => return,
        Folder::Empty | Folder::Occupied | Folder::OccupiedUnseen => {}
    }
    draft.mark(&census.observed.unmarked);
    draft.remove_left_folders(census.observed);
    let mut budget = census.availability_budget();
    let ordered = census.in_leaving_order();
    // What is stopped takes nothing down for what it may not go on with.
    let leaving = if census.observed.is_stopped { Vec::new() } else { rollout::leaving(census, &ordered, &mut budget) };
    for member in &leaving {
        upkeep::remove(census, member, draft);
    }
    rollout::clone_missing(census, draft);
    let leaving: HashSet<_> = leaving.into_iter().map(|member| &member.id).collect();
    for member in ordered {
        if !leaving.contains(&member.id) {
            upkeep::maintain(census, member, &mut budget, draft);
        }
    }
}

/// A plan in the making.
struct Draft {
    now: Timestamp,
    actions: Vec<Action>,
    wake: Option<Timestamp>,
    given_up: Vec<Slot>,
    held_back: usize,
    /// How many more machines may be given more hardware.
    growths: u32,
}

impl Draft {
    /// Has the markers brought up to date of members that were made before records were kept.
    fn mark(&mut self, unmarked: &BTreeMap<Slot, MachineId>) {
        self.actions.extend(unmarked.iter().map(|(slot, machine)| Action::Mark(machine.clone(), *slot)));
    }

    /// Removes the folders that members were moved out of. Not while anything is missing or on its way: it may be in one of them.
    fn remove_left_folders(&mut self, observed: &Observed) {
        if observed.left_folders_are_busy {
            return self.wake_at(self.now + LOOK_AGAIN);
        }
        if observed.held.is_empty() && observed.cloning.is_empty() && !observed.unknown_clones {
            self.actions.extend(observed.left_folders.iter().cloned().map(Action::DestroyLeftFolder));
        }
    }

    /// Looks again at clones that nobody remembers.
    fn await_unknown_clones(&mut self, observed: &Observed) {
        if observed.unknown_clones {
            self.wake_at(self.now + LOOK_AGAIN);
        }
    }

    /// Notes a time at which something may be decided differently.
    fn wake_at(&mut self, time: Timestamp) {
        if time > self.now {
            self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
        }
    }
}
