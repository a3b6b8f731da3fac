//! The promises that are kept at every step, and at rest.

use std::collections::BTreeMap;

use drover_core::{
    Action,
    names::{self, Slot},
    vmgroup::{DeletionPolicy, Desired, HeldFor, MachineId, Power, Slots, Strategy},
};

use super::{
    history::{History, LOST_AFTER},
    model::{
        machine::{Kind, Machine},
        operator::Reconciled,
        world::{BASE, timestamp},
    },
};

impl History<'_> {
    /// Never two machines for a slot, unless one had been out of sight for as long as was to be waited for.
    pub(crate) fn check_doubles(&mut self) {
        let everywhere = self.world.machines.iter().chain(&self.world.unregistered);
        let mut by_slot: BTreeMap<Slot, Vec<(&MachineId, &Machine)>> = BTreeMap::new();
        for (id, machine) in everywhere.filter(|(id, _)| !self.given_up.contains(id)) {
            if let Some(slot) = machine.slot() {
                by_slot.entry(slot).or_default().push((id, machine));
            }
        }
        let mut given_up = Vec::new();
        for (slot, mut machines) in by_slot.into_iter().filter(|(_, machines)| machines.len() > 1) {
            machines.sort_by_key(|(id, _)| (*id).clone());
            machines.pop();
            for (id, machine) in machines {
                // The last one's clone may have been asked for a moment before the first was back.
                let is_lost = machine.away.is_some_and(|(since, back)| {
                    let until = back.unwrap_or(self.world.now);
                    until >= self.world.now - 30 && until - since >= LOST_AFTER - 60
                });
                assert!(is_lost, "two machines for slot {slot} at {}: {id:?} {machine:?}", self.world.now);
                given_up.push(id.clone());
            }
        }
        if !given_up.is_empty() {
            self.count("given up and replaced");
        }
        self.given_up.extend(given_up);
    }

    /// A machine that is out of sight keeps its place in the record for as long as it is to be waited for.
    pub(crate) fn note_given_up(&mut self, index: usize) {
        let record = self.operators[index].in_flight.record.now();
        let is_recorded = |machine: &Machine| {
            let Some(slot) = machine.slot() else { return true };
            let made = machine.marker.as_ref().and_then(|marker| Some(marker.made.as_ref()?.incarnation));
            let entry = record.and_then(|record| record.get(slot));
            let lost = record.and_then(|record| record.lost(slot));
            entry.is_some_and(|entry| Some(entry.incarnation) == made) || lost.is_some() && lost == made
        };
        let everywhere = self.world.machines.iter().chain(&self.world.unregistered);
        let away = everywhere.filter_map(|(id, machine)| Some((id, machine, machine.away?.0, machine.away?.1)));
        let mut gone = Vec::new();
        for (id, machine, since, back) in
            away.filter(|(id, machine, ..)| machine.kind == Kind::Own && !self.given_up.contains(*id))
        {
            if !is_recorded(machine) {
                let until = back.filter(|_| self.stale.is_none() && self.news.is_all_told()).unwrap_or(self.world.now);
                let lasts = if until < self.world.now - 30 { 0 } else { until - since };
                assert!(lasts >= LOST_AFTER - 60, "{id:?} is given up after {lasts} s: {machine:?}");
                gone.push(id.clone());
            }
        }
        if !gone.is_empty() {
            self.count("given up");
        }
        self.given_up.extend(gone);
    }

    /// What a spec says that is not to be done is not done.
    pub(crate) fn check_policy(&self, done: &Reconciled) {
        let Desired { deletion, paused, .. } = self.desired;
        let actions = &done.actions;
        assert!(!(paused && deletion.is_none() && !actions.is_empty()), "paused, and {actions:?}");
        let destroys = |action: &Action| matches!(action, Action::Destroy(_) | Action::DestroyFolder);
        match deletion {
            Some(DeletionPolicy::Retain) => assert!(actions.is_empty(), "Retain, and {actions:?}"),
            Some(DeletionPolicy::PowerOff) => {
                let bad = |action: &Action| destroys(action) || action.cloned_slot().is_some();
                assert!(!actions.iter().any(bad), "PowerOff, and {actions:?}");
            }
            _ => {}
        }
        let wait = self.desired.lost_after.map(|wait| i64::try_from(wait.as_secs()).unwrap());
        for slot in actions.iter().filter_map(Action::cloned_slot).chain(done.plan.given_up.iter().copied()) {
            let Some(held) = done.observed.held.get(&slot) else { continue };
            let lasts = timestamp(self.clock()).duration_since(held.since).as_secs();
            let is_lost = held.why == HeldFor::Missing && wait.is_some_and(|wait| wait <= lasts);
            assert!(is_lost, "{slot} is filled again, and its VM has been out of sight for {lasts} s: {held:?}");
        }
        if done.incident.is_some() {
            assert!(!actions.iter().any(Action::makes_or_destroys), "stopped, and {actions:?}");
        }
        let is_rest = |action: &Action| deletion.is_none() && matches!(action, Action::DestroyLeftFolder(_));
        assert!(!done.plan.settled || actions.iter().all(is_rest), "settled, and {actions:?}");
    }

    /// What is said to be as declared is so; and where nothing is done, something will tell when to plan again.
    pub(crate) fn check_word(&self, index: usize, done: &Reconciled) {
        let plan = &done.plan;
        if plan.settled {
            return self.check_end();
        }
        if !plan.actions.is_empty() || plan.wake.is_some() || plan.held_back > 0 || self.desired.paused {
            return;
        }
        let operator = &self.operators[index];
        let is_told = !self.world.tasks.is_empty()
            || !operator.tasks.is_empty()
            || !self.late.is_empty()
            || operator.in_flight.wake(timestamp(self.clock())).is_some()
            || done.incident.is_some()
            || self.world.machines.values().any(|machine| {
                machine.ready_at > self.world.now
                    || machine.off_at.is_some()
                    || machine.is_hidden
                    || machine.disconnected.is_some()
                    || machine.inaccessible.is_some()
            })
            || !done.observed.held.is_empty();
        assert!(is_told, "nobody would plan again: {:?} with {:#?}\n{:#?}", self.desired, self.world, done.observed);
    }

    pub(crate) fn check_end(&self) {
        let is_lost = |machine: &Machine| matches!(machine.away, Some((since, None)) if self.world.now - since >= LOST_AFTER - 60);
        let own = self.world.members();
        let own = own.filter(|(id, machine, _)| !self.given_up.contains(*id) && !is_lost(machine));
        let members: Vec<_> = own.collect();
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let folder = self.world.folders.iter().find(|(_, (own, parent))| *own == name && parent == BASE);
        match self.desired.deletion {
            Some(DeletionPolicy::Delete) => {
                assert!(members.is_empty(), "{members:?}");
                let is_used = folder.is_some_and(|(id, _)| self.world.machines.values().any(|one| one.folder == *id));
                // One that seemed empty several times, and wasn't, is let be.
                let is_let_be = !self.given_up.is_empty();
                assert!(
                    folder.is_none() || is_used || is_let_be,
                    "the folder stays for strangers, and for nobody else"
                );
            }
            Some(DeletionPolicy::PowerOff) => {
                // What can't be proved to be the group's stays as it is, and isn't waited for.
                let is_unproved = |machine: &Machine| {
                    machine.is_hidden || machine.inaccessible.is_some() || self.has_twin(&machine.instance)
                };
                let is_off = |machine: &Machine| machine.power == Power::Off || is_unproved(machine);
                assert!(members.iter().all(|(_, machine, _)| is_off(machine)), "{members:?}");
            }
            Some(DeletionPolicy::Retain) => {}
            None => {
                assert_eq!(members.len(), self.desired.replicas as usize, "{members:#?}");
                for (_, machine, marker) in members {
                    let has_slot = self.desired.slots == Slots::Any
                        || marker.slot.0 < self.desired.replicas
                        || self.desired.update.strategy == Strategy::OnDelete;
                    assert!(has_slot, "{machine:?}");
                    let name = names::member(&self.desired.name, &self.desired.marker_uid, marker.slot);
                    let is_in_place = folder.is_some_and(|(id, _)| machine.folder == *id);
                    assert!(machine.power == self.desired.power && machine.name == name && is_in_place, "{machine:?}");
                    if self.desired.update.strategy != Strategy::OnDelete {
                        let made_of = (marker.revision, machine.hardware);
                        assert_eq!(
                            made_of,
                            (self.desired.revision_of(marker.slot), self.desired.hardware),
                            "{machine:?}"
                        );
                    }
                }
            }
        }
    }
}
