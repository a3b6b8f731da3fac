//! The bounds of what is done to the world: how many there may be, how few may be available, and how much room there is.

use std::collections::BTreeSet;

use drover_core::{
    Action, Subject,
    names::Slot,
    vmgroup::{MachineId, Member, Power, Slots},
};

use super::{
    history::History,
    model::{
        operator::Reconciled,
        world::{World, timestamp},
    },
};

impl History<'_> {
    /// Bounds that hold in the world wherever all of it is known: the ceiling, and the floor of availability.
    pub(crate) fn check_bounds(&mut self, before: &World, done: &Reconciled) {
        if self.desired.deletion.is_some() {
            return;
        }
        let members: BTreeSet<_> = done.observed.members.iter().map(|member| &member.id).collect();
        let mut slots: BTreeSet<_> = done.observed.members.iter().map(|member| member.slot).collect();
        slots.extend(before.clones().filter_map(|(_, machine)| machine.slot()));
        let mut going: BTreeSet<_> = before.going_down().into_iter().cloned().collect();
        for action in &done.actions {
            if let Action::Clone(slot) = action
                && slots.insert(*slot)
            {
                let is_beyond = |slot: &&Slot| self.desired.slots == Slots::Fixed && slot.0 >= self.desired.replicas;
                let beyond = u32::try_from(slots.iter().filter(is_beyond).count()).unwrap();
                let ceiling = self.desired.replicas + self.desired.update.max_surge + beyond;
                assert!(slots.len() <= ceiling as usize, "{} machines where {ceiling} are the most", slots.len());
            }
            let takes_down = matches!(
                action,
                Action::PowerOff(_) | Action::ShutdownGuest(_) | Action::Suspend(_) | Action::Destroy(_)
            );
            let Subject::Machine(id) = action.subject() else { continue };
            if !takes_down || !members.contains(&id) {
                continue;
            }
            let was = self.available(before, &done.observed.members, &going);
            going.insert(id);
            let is = self.available(before, &done.observed.members, &going);
            let floor = self.desired.replicas.saturating_sub(self.desired.update.max_unavailable) as usize;
            // How long one has been ready, or asked to shut down, a clock that was set doesn't say.
            let takes_time = !self.desired.update.min_ready.is_zero() || !self.desired.shutdown_grace.is_zero();
            let is_clear = !(self.was_clock_set && takes_time);
            let is_bound = self.desired.power == Power::On && is < was && is_clear;
            assert!(!is_bound || is >= floor, "{action:?} leaves {is} available where {floor} are the fewest");
        }
    }

    /// The machines that are available and not being taken down.
    pub(crate) fn available(&self, world: &World, members: &[Member], going: &BTreeSet<MachineId>) -> usize {
        let min_ready = i64::try_from(self.desired.update.min_ready.as_secs()).unwrap();
        let grace = i64::try_from(self.desired.shutdown_grace.as_secs()).unwrap();
        let now = timestamp(self.clock());
        let is_available = |member: &&Member| {
            let Some(machine) = world.machines.get(&member.id) else { return false };
            let within_grace = |since: &drover_core::Timestamp| now.duration_since(*since).as_secs() < grace;
            let is_asked = machine.off_at.is_some() || member.shutdown_since.as_ref().is_some_and(within_grace);
            machine.power == Power::On
                && machine.disconnected.is_none()
                && machine.ready_at + min_ready <= world.now
                && !is_asked
                && !member.busy
                && !going.contains(&member.id)
        };
        members.iter().filter(is_available).count()
    }

    /// Never more clones or growths than there is room for, and nothing taken down for another without.
    pub(crate) fn check_room(&self, done: &Reconciled) {
        let Some(room) = self.room else { return assert_eq!(done.plan.held_back, 0) };
        let (plan, observed) = (&done.plan, &done.observed);
        let count = |rule: &dyn Fn(&Action) -> bool| plan.actions.iter().filter(|action| rule(action)).count();
        let member = |action: &Action| match action.subject() {
            Subject::Machine(id) => observed.members.iter().find(|member| member.id == id),
            _ => None,
        };
        let clones = count(&|action| action.cloned_slot().is_some());
        assert!(clones <= room.clones as usize, "{clones} clones in {room:?}");
        let grows = |action: &Action| match (action, member(action)) {
            (Action::Reconfigure(_, to), Some(Member { hardware: from, .. })) => {
                to.cpus > from.cpus || to.memory_mib > from.memory_mib
            }
            _ => false,
        };
        assert!(count(&grows) <= room.growths as usize, "{:?} in {room:?}", plan.actions);
        // The rest is what other hardware, or being off, is declared for.
        let is_kept = |member: &Member| {
            member.hardware == self.desired.hardware
                && self.desired.power == Power::On
                && self.desired.deletion.is_none()
        };
        let goes = |action: &Action| {
            let is_end = matches!(action, Action::Destroy(_) | Action::PowerOff(_) | Action::ShutdownGuest(_));
            is_end && member(action).is_some_and(is_kept)
        };
        let seen: BTreeSet<_> =
            observed.members.iter().map(|member| member.slot).chain(observed.cloning.clone()).collect();
        let surplus = seen.len().saturating_sub(self.desired.replicas as usize);
        assert!(room.replacements || count(&goes) <= surplus, "{:?} in {room:?}: {observed:#?}", plan.actions);
    }
}
