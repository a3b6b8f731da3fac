//! What to do next for a group.

mod census;
mod deletion;
mod effect;
mod rollout;
mod upkeep;

use crate::{
    group::{Desired, Folder, Hardware, MachineId, Observed, Timestamp},
    names::Slot,
};
use census::Census;
pub use effect::Subject;

/// One thing to do. None waits for another of the same plan; each is safe to ask for twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Make the group's folder.
    CreateFolder,
    /// Destroy the group's folder, which is empty.
    DestroyFolder,
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
    /// Destroy a machine, which is off.
    Destroy(MachineId),
}

/// What is to be done, and what can be said of the group now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What to do, now.
    pub actions: Vec<Action>,
    /// How many machines are how far.
    pub counts: Counts,
    /// Whether the world is as declared. For a group that is being deleted: whether nothing is left to be done.
    pub settled: bool,
    /// When to plan again, if nothing changes before.
    pub wake: Option<Timestamp>,
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
    let mut draft = Draft { now, actions: Vec::new(), wake: None };
    let settled = if let Some(policy) = desired.deletion {
        deletion::plan(policy, &census, &mut draft)
    } else if desired.paused {
        census.is_as_declared()
    } else {
        keep(&census, &mut draft);
        draft.actions.is_empty() && census.is_as_declared()
    };
    census.wake_when_time_tells(&mut draft);
    Plan { actions: draft.actions, counts: census.counts(), settled, wake: draft.wake }
}

/// Keeps a group as declared: the folder, then who goes, who comes, and how each one is.
fn keep(census: &Census<'_>, draft: &mut Draft) {
    match census.observed.folder {
        Folder::Absent => return draft.actions.push(Action::CreateFolder),
        Folder::Busy => return,
        Folder::Empty | Folder::Occupied => {}
    }
    let mut budget = census.availability_budget();
    let leaving = rollout::leaving(census, &mut budget);
    for member in &leaving {
        upkeep::remove(census, member, draft);
    }
    rollout::clone_missing(census, draft);
    for member in census.in_leaving_order() {
        if !leaving.iter().any(|leaving| leaving.id == member.id) {
            upkeep::maintain(census, member, &mut budget, draft);
        }
    }
}

/// A plan in the making.
struct Draft {
    now: Timestamp,
    actions: Vec<Action>,
    wake: Option<Timestamp>,
}

impl Draft {
    /// Notes a time at which something may be decided differently.
    fn wake_at(&mut self, time: Timestamp) {
        if time > self.now {
            self.wake = Some(self.wake.map_or(time, |earlier| earlier.min(time)));
        }
    }
}
