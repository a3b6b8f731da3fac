//! What would be done, one thing after the other, if everything went well and nobody interfered.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    Action, Timestamp,
    names::{self, Slot},
    plan,
    vmgroup::{Desired, Folder, HotAdd, MachineId, Member, Observed, Power},
};

/// A group that needs more steps than this doesn't come to rest.
const LONGEST: usize = 100_000;

/// Every action on the way from what is true to what is declared, in the order in which they begin.
///
/// Each is taken to succeed at once, so what comes at the same time in the world comes one step after the other here.
#[must_use]
pub fn forecast(desired: &Desired, observed: &Observed, now: Timestamp) -> Vec<Action> {
    // What is on its way that nobody knows of ends some time, and would be looked for each second until then.
    let observed = Observed { unknown_clones: false, left_folders_are_busy: false, ..observed.clone() };
    let mut world = Foreseen { desired, observed, now };
    let mut actions = Vec::new();
    for _ in 0..LONGEST {
        let plan = plan(desired, &world.observed, world.now);
        world.observed.held.retain(|slot, _| !plan.given_up.contains(slot));
        for action in &plan.actions {
            world.apply(action);
        }
        let is_over = plan.actions.is_empty() && (plan.settled || plan.wake.is_none());
        actions.extend(plan.actions);
        let later = world.now.checked_add(Duration::from_secs(1));
        match plan.wake.or(later.ok()) {
            Some(next) if !is_over => world.now = next,
            _ => break,
        }
    }
    actions
}

/// What is true of a group once it is as declared, if nothing is there before.
#[cfg(test)]
pub(crate) fn foreseen(desired: &Desired, now: Timestamp) -> Observed {
    let mut world = Foreseen { desired, observed: Observed::default(), now };
    for action in forecast(desired, &Observed::default(), now) {
        world.apply(&action);
    }
    world.observed
}

struct Foreseen<'a> {
    desired: &'a Desired,
    observed: Observed,
    now: Timestamp,
}

impl Foreseen<'_> {
    fn apply(&mut self, action: &Action) {
        match action {
            Action::CreateFolder => self.observed.folder = Folder::Empty,
            Action::DestroyFolder => self.observed.folder = Folder::Absent,
            Action::DestroyLeftFolder(folder) => self.observed.left_folders.retain(|left| left != folder),
            Action::Clone(slot) => {
                if !self.observed.reserved.remove(slot)
                    && let Some(room) = &mut self.observed.room
                {
                    room.clones = room.clones.saturating_sub(1);
                }
                let member = self.clone_into(*slot);
                self.observed.members.push(member);
                // The one that was lost has its successor.
                self.observed.held.remove(slot);
                self.observed.folder = Folder::Occupied;
            }
            Action::PowerOn(id) => self.power(id, Power::On),
            Action::PowerOff(id) | Action::ShutdownGuest(id) => self.power(id, Power::Off),
            Action::Suspend(id) => self.power(id, Power::Suspended),
            Action::Reconfigure(id, hardware) => self.change(id, |member| member.hardware = *hardware),
            Action::Rename(id, name) => self.change(id, |member| member.name.clone_from(name)),
            Action::MoveIntoFolder(id) => self.change(id, |member| member.in_folder = true),
            Action::Mark(id, _) => self.observed.unmarked.retain(|_, unmarked| unmarked != id),
            Action::Destroy(id) => {
                self.observed.members.retain(|member| member.id != *id);
                // One that goes leaves its place to another, where it is replaced.
                if let Some(room) = self.observed.room.as_mut().filter(|room| room.replacements) {
                    room.clones = room.clones.saturating_add(1);
                }
                let others: BTreeSet<_> = self.observed.members.iter().map(|member| &member.id).collect();
                if others.is_empty() && self.observed.folder == Folder::Occupied {
                    self.observed.folder = Folder::Empty;
                }
            }
        }
    }

    fn power(&mut self, id: &MachineId, power: Power) {
        let now = self.now;
        self.change(id, |member| {
            member.power = power;
            member.ready_since = (power == Power::On).then_some(now);
            member.guest_answers = false;
        });
    }

    fn change(&mut self, id: &MachineId, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.observed.members.iter_mut().find(|member| member.id == *id) {
            change(member);
        }
    }

    fn clone_into(&self, slot: Slot) -> Member {
        let name = names::member(&self.desired.name, &self.desired.marker_uid, slot);
        let power = if self.desired.power == Power::On { Power::On } else { Power::Off };
        Member {
            // It has no id before it is there, so its name stands for it.
            id: MachineId(name.clone()),
            slot,
            revision: self.desired.revision_of(slot),
            created: self.now,
            name,
            in_folder: true,
            hardware: self.desired.hardware,
            storage_mib: 0,
            hot_add: HotAdd::default(),
            refused: None,
            power,
            unreachable_since: None,
            ready_since: (power == Power::On).then_some(self.now),
            guest_answers: false,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::vmgroup::{FolderId, Held, HeldFor, desired::tests::desired};

    /// What comes after a group has become what the first spec says, and is then edited.
    fn after(first: &Value, then: &Value) -> Vec<Action> {
        let now = Timestamp::UNIX_EPOCH;
        forecast(&desired(then), &foreseen(&desired(first), now), now)
    }

    #[test]
    fn a_new_group_gets_its_folder_and_then_its_machines() {
        let clones = [0, 1, 2].map(|slot| Action::Clone(Slot(slot)));
        let expected: Vec<_> = [Action::CreateFolder].into_iter().chain(clones).collect();
        assert_eq!(forecast(&desired(&json!({})), &Observed::default(), Timestamp::UNIX_EPOCH), expected);
    }

    #[test]
    fn what_is_as_declared_needs_nothing() {
        assert_eq!(after(&json!({}), &json!({})), []);
    }

    #[test]
    fn clones_that_nobody_knows_of_are_not_waited_for() {
        let left = FolderId("group-left".to_owned());
        let observed = Observed {
            folder: Folder::Empty,
            unknown_clones: true,
            left_folders: vec![left.clone()],
            left_folders_are_busy: true,
            ..Observed::default()
        };
        let actions = forecast(&desired(&json!({"replicas": 0})), &observed, Timestamp::UNIX_EPOCH);
        assert_eq!(actions, [Action::DestroyLeftFolder(left)]);
    }

    #[test]
    fn vms_that_are_lost_one_after_the_other_are_each_replaced_once() {
        let held = |second| Held { since: Timestamp::from_second(second).unwrap(), why: HeldFor::Missing };
        let held = [(Slot(0), held(0)), (Slot(1), held(100))].into();
        let observed = Observed { folder: Folder::Empty, held, ..Observed::default() };
        let actions = forecast(&desired(&json!({"replicas": 2})), &observed, Timestamp::from_second(100).unwrap());
        assert_eq!(actions, [0, 1].map(|slot| Action::Clone(Slot(slot))));
    }

    #[test]
    fn an_edit_reaches_every_machine_to_its_end() {
        let actions = after(&json!({}), &json!({"cpu": 8}));
        let is_reconfigured = |action: &&Action| matches!(action, Action::Reconfigure(..));
        assert_eq!(actions.iter().filter(is_reconfigured).count(), 3);
        assert_eq!(actions.len(), 9, "each goes off, changes and comes on: {actions:?}");
        let replaced = after(&json!({}), &json!({"template": "another", "update": {"minReadySeconds": 60}}));
        assert_eq!(replaced.iter().filter(|action| matches!(action, Action::Clone(_))).count(), 3, "{replaced:?}");
    }
}
