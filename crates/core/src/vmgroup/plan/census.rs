//! The group counted: which machine is current, ready, available.

use std::{cmp::Reverse, collections::BTreeSet};

use super::{Counts, Draft, held};
use crate::{
    Timestamp,
    names::{self, Slot},
    vmgroup::{Desired, Held, HeldFor, Member, Observed, Power, ScaleIn, Slots, Strategy},
};

/// What is declared and what is true, with the questions that every rule asks.
pub(super) struct Census<'a> {
    pub desired: &'a Desired,
    pub observed: &'a Observed,
    pub now: Timestamp,
    /// Whether a VM has gone missing just now. Others may follow, so none is given up.
    is_unsettled: bool,
}

impl<'a> Census<'a> {
    pub(super) fn take(desired: &'a Desired, observed: &'a Observed, now: Timestamp) -> Self {
        let is_new = |held: &Held| held.why == HeldFor::Missing && !held.has_lasted(Held::SETTLING, now);
        Self { desired, observed, now, is_unsettled: observed.held.values().any(is_new) }
    }

    /// Made from something else than what is declared now.
    pub(super) fn is_outdated(&self, member: &Member) -> bool {
        let hardware_counts = self.desired.update.strategy == Strategy::Replace;
        member.revision != self.desired.revision_of(member.slot)
            || hardware_counts && member.hardware != self.desired.hardware
    }

    /// To be replaced, which [`Strategy::OnDelete`] leaves to the user. One in a slot that the group doesn't have is replaced by one in a
    /// slot that it has.
    pub(super) fn is_to_be_replaced(&self, member: &Member) -> bool {
        match self.desired.update.strategy {
            Strategy::OnDelete => false,
            Strategy::Replace => self.is_outdated(member) || self.is_beyond(member),
            Strategy::InPlaceFirst => {
                self.is_outdated(member) || self.is_beyond(member) || self.is_never_to_go_down(member)
            }
        }
    }

    /// It would have to go down for other hardware, and no machine may: then a new one takes its place.
    fn is_never_to_go_down(&self, member: &Member) -> bool {
        let hardware = self.desired.hardware;
        let goes_down = match self.desired.power {
            Power::On => !member.takes_running(hardware),
            Power::Off => false,
            Power::Suspended => member.hardware != hardware,
        };
        self.desired.update.max_unavailable == 0 && goes_down
    }

    /// As ready as the group asks for; a group that isn't to run is ready when it doesn't. What can't be reached is not.
    pub(super) fn is_ready(&self, member: &Member) -> bool {
        let is_up = member.power != Power::On || member.ready_since.is_some();
        member.power == self.desired.power && is_up && member.unreachable_since.is_none()
    }

    /// Ready for long enough.
    pub(super) fn is_available(&self, member: &Member) -> bool {
        self.is_ready(member) && self.available_at(member).is_none_or(|time| time <= self.now)
    }

    /// Available, and not on its way down already. A guest that has let its time to shut down pass is up.
    pub(super) fn is_standing(&self, member: &Member) -> bool {
        let is_shutting_down = self.patience_ends(member).is_some_and(|time| time > self.now);
        self.is_available(member) && !member.busy && !is_shutting_down
    }

    /// Until when its guest has time to shut down, if it was asked to.
    pub(super) fn patience_ends(&self, member: &Member) -> Option<Timestamp> {
        Some(member.shutdown_since?.checked_add(self.desired.shutdown_grace).unwrap_or(Timestamp::MAX))
    }

    fn available_at(&self, member: &Member) -> Option<Timestamp> {
        // Since a time to come: the clock was set back. It was ready before that, and is not taken for one that comes up.
        let since = member.ready_since.filter(|since| member.power == Power::On && *since <= self.now)?;
        // A time beyond the calendar's end is as good as never.
        Some(since.checked_add(self.desired.update.min_ready).unwrap_or(Timestamp::MAX))
    }

    /// It can be reached and is not still being made, nothing runs on it and nothing has just failed on it.
    pub(super) fn is_idle(&self, member: &Member) -> bool {
        !self.observed.cloning.contains(&member.slot)
            && !member.busy
            && member.unreachable_since.is_none()
            && member.not_before.is_none_or(|time| time <= self.now)
    }

    /// All machines that can be counted on to be there, those on their way included: the measure of what is too many. One that isn't
    /// seen takes the place of no other.
    pub(super) fn seen(&self) -> usize {
        self.slots_seen().collect::<BTreeSet<_>>().len()
    }

    /// All slots that have a machine or may have one: the measure of what is missing.
    pub(super) fn taken(&self) -> BTreeSet<Slot> {
        let held = self.observed.held.keys().copied().filter(|slot| !self.is_lost(*slot));
        self.slots_seen().chain(held).chain(self.observed.doubtful.iter().copied()).collect()
    }

    /// vCenter may show a machine before its clone has ended.
    fn slots_seen(&self) -> impl Iterator<Item = Slot> {
        let members = self.observed.members.iter().map(|member| member.slot);
        members.chain(self.observed.cloning.iter().copied())
    }

    /// The slots whose VM has been missing for so long that another takes its place.
    pub(super) fn lost_slots(&self) -> impl Iterator<Item = Slot> {
        self.observed.held.keys().copied().filter(|slot| self.is_lost(*slot))
    }

    /// Whether a slot's VM has been missing for so long that another takes its place.
    fn is_lost(&self, slot: Slot) -> bool {
        let is_missing = |held: &&Held| held.why == HeldFor::Missing && !self.is_unsettled;
        let held = self.observed.held.get(&slot).filter(is_missing);
        held.and_then(|held| self.lost_at(held)).is_some_and(|time| time <= self.now)
    }

    fn lost_at(&self, held: &Held) -> Option<Timestamp> {
        held.since.checked_add(self.desired.lost_after?.max(Held::SOONEST_LOST)).ok()
    }

    /// To be replaced, and there is room for that.
    pub(super) fn may_be_replaced(&self, member: &Member) -> bool {
        self.observed.room.is_none_or(|room| room.replacements) && self.is_to_be_replaced(member)
    }

    /// To be replaced, and there is no room for that.
    pub(super) fn waits_for_replacement(&self, member: &Member) -> bool {
        self.is_to_be_replaced(member) && !self.may_be_replaced(member)
    }

    /// How many machines may be cloned.
    pub(super) fn room_for_clones(&self) -> usize {
        self.observed.room.map_or(usize::MAX, |room| room.clones as usize)
    }

    /// There is nothing of the group, and nothing may be made.
    pub(super) fn may_have_nothing(&self) -> bool {
        self.observed.members.is_empty() && self.room_for_clones() == 0 && self.observed.reserved.is_empty()
    }

    /// How many machines there may be now: more than declared only while some are replaced.
    pub(super) fn ceiling(&self) -> usize {
        let outdated = self.observed.members.iter().filter(|member| self.may_be_replaced(member)).count();
        self.desired.replicas as usize + outdated.min(self.desired.update.max_surge as usize)
    }

    /// How many machines are to go because there are too many.
    pub(super) fn surplus(&self) -> usize {
        match self.desired.slots {
            Slots::Any => self.seen().saturating_sub(self.ceiling()),
            Slots::Fixed => self.seen().saturating_sub(self.desired.replicas as usize),
        }
    }

    /// Whether it is one of those that go where there are too many.
    pub(super) fn may_be_too_many(&self, member: &Member) -> bool {
        self.desired.slots == Slots::Any || self.is_beyond(member)
    }

    /// It is in a slot that the group doesn't have.
    pub(super) fn is_beyond(&self, member: &Member) -> bool {
        !self.has_slot(member.slot)
    }

    /// Whether the group has a slot, with a machine in it or not.
    pub(super) fn has_slot(&self, slot: Slot) -> bool {
        match self.desired.slots {
            Slots::Any => true,
            Slots::Fixed => slot.0 < self.desired.replicas,
        }
    }

    /// How many machines are missing, whether or not they can be made now.
    pub(super) fn missing(&self) -> usize {
        match self.desired.slots {
            Slots::Any => self.ceiling().saturating_sub(self.taken().len()),
            // Others that are to go are no reason to leave a slot empty, unless they stay for as long as their user likes.
            Slots::Fixed if self.desired.update.strategy == Strategy::OnDelete => {
                let most = (self.desired.replicas as usize).saturating_sub(self.taken().len());
                self.free_slots().count().min(most)
            }
            Slots::Fixed => self.free_slots().count(),
        }
    }

    /// How many of the machines that stand may be taken down now.
    pub(super) fn availability_budget(&self) -> usize {
        let standing = self.observed.members.iter().filter(|member| self.is_standing(member)).count();
        let floor = self.desired.replicas.saturating_sub(self.desired.update.max_unavailable) as usize;
        standing.saturating_sub(floor)
    }

    /// The machines in the order in which they go: those the user marked, those to be replaced, those that don't stand, those
    /// that were asked to go down before, then by age. A machine on its way out comes early, so that the next plan chooses it
    /// again. Where each slot has something of its own, those of the highest go first, whoever is marked or how old.
    pub(super) fn in_leaving_order(&self) -> Vec<&'a Member> {
        let mut members: Vec<_> = self.observed.members.iter().collect();
        match (self.desired.slots, self.desired.scale_in) {
            (Slots::Fixed, _) => members.sort_by_key(|member| Reverse(member.slot)),
            (Slots::Any, ScaleIn::Oldest) => members.sort_by_key(|member| (member.created, member.slot)),
            (Slots::Any, ScaleIn::Newest) => members.sort_by_key(|member| Reverse((member.created, member.slot))),
        }
        let goes_first = |member: &Member| match self.desired.slots {
            Slots::Any => member.marked,
            Slots::Fixed => self.is_beyond(member),
        };
        let asked = |member: &Member| member.shutdown_since.is_some();
        // Each is asked for once: to find out whether a machine stands takes longer than to move it.
        members.sort_by_cached_key(|member| {
            Reverse((goes_first(member), self.is_to_be_replaced(member), !self.is_standing(member), asked(member)))
        });
        members
    }

    /// The lowest slots of the group that no machine has, may have or is about to have.
    pub(super) fn free_slots(&self) -> impl Iterator<Item = Slot> {
        let taken = self.taken();
        (0..).map(Slot).take_while(|slot| self.has_slot(*slot)).filter(move |slot| !taken.contains(slot))
    }

    pub(super) fn name_of(&self, slot: Slot) -> String {
        names::member(&self.desired.name, &self.desired.marker_uid, slot)
    }

    pub(super) fn counts(&self) -> Counts {
        let count = |rule: &dyn Fn(&Member) -> bool| {
            u32::try_from(self.observed.members.iter().filter(|member| rule(member)).count()).unwrap_or(u32::MAX)
        };
        Counts {
            current: count(&|_| true).saturating_add(u32::try_from(self.observed.held.len()).unwrap_or(u32::MAX)),
            ready: count(&|member| self.is_ready(member)),
            available: count(&|member| self.is_available(member)),
            updated: count(&|member| !self.is_outdated(member) && member.hardware == self.desired.hardware),
        }
    }

    /// All declared machines are there, available and up to date, and no other.
    pub(super) fn is_as_declared(&self) -> bool {
        let is_right = |member: &Member| {
            let has_slot = !self.is_beyond(member) || self.desired.update.strategy == Strategy::OnDelete;
            let is_in_place = member.in_folder && member.name == self.name_of(member.slot) && has_slot;
            !member.busy && is_in_place && self.is_available(member) && self.is_up_to_date(member)
        };
        // One on its way is not there yet, even if all that there are were right.
        let members = &self.observed.members;
        self.observed.cloning.is_empty()
            && self.observed.held.is_empty()
            && members.len() == self.desired.replicas as usize
            && members.iter().all(is_right)
    }

    /// Nothing about it is waiting to be changed.
    fn is_up_to_date(&self, member: &Member) -> bool {
        let is_current = !self.is_outdated(member) && member.hardware == self.desired.hardware;
        is_current || self.desired.update.strategy == Strategy::OnDelete
    }

    /// A machine becomes available, a guest's time to shut down ends, and one that isn't seen is worth a word and lost in the end, by
    /// the passing of time alone.
    pub(super) fn wake_when_time_tells(&self, draft: &mut Draft) {
        for held in self.observed.held.values() {
            let settled = held.since.checked_add(Held::SETTLING).ok();
            for time in [self.lost_at(held), held::told_at(held.since), settled].into_iter().flatten() {
                draft.wake_at(time);
            }
        }
        for time in self.observed.members.iter().filter_map(|member| held::told_at(member.unreachable_since?)) {
            draft.wake_at(time);
        }
        for member in &self.observed.members {
            for time in [self.available_at(member), self.patience_ends(member)].into_iter().flatten() {
                draft.wake_at(time);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::Census;
    use crate::{
        Timestamp,
        names::Slot,
        vmgroup::{
            Folder, HotAdd, MachineId, Member, Observed, Power,
            desired::tests::desired,
            plan::{Action, plan},
        },
    };

    #[test]
    fn nothing_is_made_where_a_clone_may_be_on_its_way_and_nothing_is_destroyed_for_it() {
        let doubtful = BTreeSet::from([Slot(0)]);
        let observed = Observed { folder: Folder::Empty, doubtful, unknown_clones: true, ..Observed::default() };
        let one = plan(&desired(&json!({"replicas": 1})), &observed, Timestamp::UNIX_EPOCH);
        assert!(one.actions.is_empty() && !one.settled && one.wake.is_some(), "{one:?}");
        let none = plan(&desired(&json!({"replicas": 0})), &observed, Timestamp::UNIX_EPOCH);
        assert!(none.actions.is_empty(), "{none:?}");
        let two = plan(&desired(&json!({"replicas": 2})), &observed, Timestamp::UNIX_EPOCH);
        assert_eq!(two.actions, [Action::Clone(Slot(1))]);
        assert_eq!(Census::take(&desired(&json!({})), &observed, Timestamp::UNIX_EPOCH).seen(), 0);
    }

    #[test]
    fn a_clock_that_was_set_back_lets_nobody_be_taken_down() {
        let desired = desired(&json!({"replicas": 1, "update": {"minReadySeconds": 5, "maxUnavailable": 1}}));
        let member = |ready: i64| Member {
            id: MachineId("vm-1".to_owned()),
            slot: Slot(0),
            revision: desired.revision,
            created: Timestamp::UNIX_EPOCH,
            name: String::new(),
            in_folder: true,
            hardware: desired.hardware,
            storage_mib: 0,
            hot_add: HotAdd::default(),
            refused: None,
            power: Power::On,
            unreachable_since: None,
            ready_since: Some(Timestamp::from_second(ready).unwrap()),
            guest_answers: false,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        };
        let (observed, now) = (Observed::default(), Timestamp::from_second(100).unwrap());
        let census = Census::take(&desired, &observed, now);
        let is_standing = |ready| census.is_standing(&member(ready));
        assert_eq!(
            [90, 98, 3700].map(is_standing),
            [true, false, true],
            "what was ready before the clock was set is up"
        );
    }

    #[test]
    fn a_group_whose_machines_are_all_on_their_way_is_not_as_declared_yet() {
        let cloning = BTreeSet::from([Slot(0), Slot(1)]);
        let observed = Observed { folder: Folder::Empty, cloning, ..Observed::default() };
        let plan = plan(&desired(&json!({"replicas": 2})), &observed, Timestamp::UNIX_EPOCH);
        assert!(plan.actions.is_empty() && !plan.settled, "{plan:?}");
    }
}
