//! No more is done than there is a reason for.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::{
    Action,
    names::Slot,
    vmgroup::{Desired, MachineId, Room, Slots},
};

use super::{
    history::{History, LOST_AFTER},
    model::{
        machine::Machine,
        operator::Reconciled,
        world::{Time, World},
    },
};

/// The most that an operator does for one thing that happens: a VM is named, moved, asked to shut down, powered off, destroyed, cloned,
/// powered on and suspended, and hardly any group needs all of that for each of its five.
const MOST: usize = 45;

/// How everything was when the group was last as declared.
pub(crate) struct Rest {
    machines: BTreeMap<MachineId, Machine>,
    folders: BTreeMap<String, (String, String)>,
    desired: Desired,
    marked: BTreeSet<String>,
    room: Option<Room>,
    skew: Time,
}

impl History<'_> {
    /// What happens gives reason for so many actions, and no more.
    pub(crate) fn check_effort(&mut self, done: &Reconciled) {
        if done.mishaps > 0 {
            self.effort = 0;
        }
        self.effort += done.actions.len();
        assert!(
            self.effort <= MOST * self.operators.len(),
            "{} actions, and nothing has happened meanwhile: {:?}",
            self.effort,
            done.plan
        );
    }

    /// Nothing is done where all is as it was when the group was as declared. `before` is how it was before this was done.
    pub(crate) fn check_rest(&mut self, before: World, done: &Reconciled) {
        let is_same = self.rest.as_ref().is_some_and(|rest| {
            rest.machines == before.machines
                && rest.folders == before.folders
                && rest.desired == self.desired
                && rest.marked == self.marked
                && rest.room == self.room
                && rest.skew == self.skew
        });
        let is_rest = |action: &Action| matches!(action, Action::DestroyLeftFolder(_));
        let is_still = done.actions.iter().all(is_rest);
        assert!(!is_same || is_still, "it was as declared, nothing has changed, and {:?}", done.actions);
        if is_same && is_still {
            *self.counts.entry("looked at again, and nothing to do").or_default() += 1;
        }
        // One whose deletion is over is looked at no more.
        let is_at_rest = done.plan.settled && self.desired.deletion.is_none();
        self.rest = is_at_rest.then(|| Rest {
            machines: before.machines,
            folders: before.folders,
            desired: self.desired.clone(),
            marked: self.marked.clone(),
            room: self.room,
            skew: self.skew,
        });
    }

    /// However late the mirror is, there are never more VMs than may be, those counted that are on their way. Where others have begun
    /// clones that nobody remembers, a name keeps a second one out of a slot, and nothing keeps another slot free.
    pub(crate) fn check_number(&self, before: &World, done: &Reconciled) {
        let clones: BTreeSet<_> = done.actions.iter().filter_map(Action::cloned_slot).collect();
        if clones.is_empty() {
            return;
        }
        let everywhere = before.machines.iter().chain(&before.unregistered);
        let is_lost = |machine: &Machine| machine.away.is_some_and(|(since, _)| before.now - since >= LOST_AFTER - 60);
        let there = everywhere.filter(|(id, machine)| !self.given_up.contains(id) && !is_lost(machine));
        let there = there.filter_map(|(_, machine)| machine.slot());
        let there: BTreeSet<_> = there.chain(before.clones().filter_map(|(_, machine)| machine.slot())).collect();
        let all: BTreeSet<_> = there.union(&clones).collect();
        // Where each slot has something of its own, those that the group doesn't have any more are no reason to leave one empty.
        let is_beyond = |slot: &&&Slot| self.desired.slots == Slots::Fixed && slot.0 >= self.desired.replicas;
        let beyond = all.iter().filter(is_beyond).count();
        let ceiling = (self.desired.replicas + self.desired.update.max_surge) as usize + beyond;
        let is_within = all.len() <= ceiling || all.len() == there.len();
        assert!(is_within, "{all:?} where {ceiling} are the most: {clones:?}\n{:#?}", done.observed);
    }
}
