//! What each plan keeps to by what its operator saw, however late or wrong that was: the ceiling, the floor, who goes, and in which order.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use drover_core::{
    Action, Subject, Timestamp,
    names::Slot,
    vmgroup::{Desired, MachineId, Member, Observed, Power, ScaleIn, Slots, Strategy},
};

use super::{
    history::History,
    model::{operator::Reconciled, world::timestamp},
};

impl History<'_> {
    /// Checks a plan by what was seen.
    pub(crate) fn check_plan(&self, done: &Reconciled) {
        if self.desired.deletion.is_some() || done.plan.actions.is_empty() {
            return;
        }
        let sight = Sight::of(&self.desired, done, timestamp(self.clock()));
        sight.check_ceiling();
        sight.check_floor();
        sight.check_kept();
        sight.check_order();
    }
}

/// A plan, with what it was made from.
struct Sight<'a> {
    desired: &'a Desired,
    observed: &'a Observed,
    now: Timestamp,
    clones: Vec<Slot>,
    given_up: &'a [Slot],
    /// What is done to take machines down.
    down: BTreeMap<MachineId, &'a Action>,
}

impl<'a> Sight<'a> {
    fn of(desired: &'a Desired, done: &'a Reconciled, now: Timestamp) -> Self {
        let takes_down = |action: &Action| {
            matches!(action, Action::PowerOff(_) | Action::ShutdownGuest(_) | Action::Suspend(_) | Action::Destroy(_))
        };
        let actions = &done.plan.actions;
        let down = actions.iter().filter(|action| takes_down(action)).filter_map(|action| match action.subject() {
            Subject::Machine(id) => Some((id, action)),
            _ => None,
        });
        let clones = actions.iter().filter_map(Action::cloned_slot).collect();
        let given_up = &done.plan.given_up;
        Self { desired, observed: &done.observed, now, clones, given_up, down: down.collect() }
    }

    fn slots_seen(&self) -> BTreeSet<Slot> {
        let members = self.observed.members.iter().map(|member| member.slot);
        members.chain(self.observed.cloning.iter().copied()).collect()
    }

    /// No more than may be, those counted that can't be seen and those that may be on their way.
    fn check_ceiling(&self) {
        let Observed { held, doubtful, .. } = self.observed;
        let held = held.keys().filter(|slot| !self.given_up.contains(slot));
        let mut slots: BTreeSet<_> =
            self.slots_seen().into_iter().chain(held.copied()).chain(doubtful.iter().copied()).collect();
        let lost = self.clones.iter().filter(|slot| self.observed.held.contains_key(slot)).count();
        let before = slots.len() - lost;
        let outdated = self.observed.members.iter().filter(|member| !self.is_kept(member)).count();
        let beyond = slots.iter().filter(|slot| self.is_beyond(**slot)).count();
        let ceiling = self.desired.replicas as usize + outdated.min(self.desired.update.max_surge as usize) + beyond;
        assert!(!self.clones.iter().any(|slot| self.is_beyond(*slot)), "{:?}", self.clones);
        slots.extend(&self.clones);
        let is_within = slots.len() <= ceiling || slots.len() == before;
        assert!(is_within, "{} where {ceiling} are the most: {:?}", slots.len(), self.clones);
        let mut twice = BTreeSet::new();
        let is_new = |slot: &Slot| !self.observed.cloning.contains(slot) && twice.insert(*slot);
        assert!(self.clones.iter().all(is_new), "a clone is asked for twice: {:?}", self.clones);
    }

    /// Of those that stand, as many stay up as have to be available.
    fn check_floor(&self) {
        let standing = self.observed.members.iter().filter(|member| self.is_standing(member));
        let (down, up): (Vec<_>, Vec<_>) = standing.partition(|member| self.down.contains_key(&member.id));
        let floor = self.desired.replicas.saturating_sub(self.desired.update.max_unavailable) as usize;
        let is_kept = down.is_empty() || up.len() >= floor;
        assert!(is_kept, "{down:?} go down, which leaves {} where {floor} are the fewest", up.len());
    }

    /// Those that neither have to be replaced nor are too many stay: so they do under `OnDelete`, and where they are changed in place.
    fn check_kept(&self) {
        let going: Vec<_> = self.leaving().filter(|member| self.is_kept(member)).collect();
        let surplus = self.slots_seen().len().saturating_sub(self.desired.replicas as usize);
        let is_fixed = self.desired.slots == Slots::Fixed;
        assert!(!is_fixed || going.iter().all(|member| self.is_beyond(member.slot)), "{going:?} go");
        assert!(going.len() <= surplus, "{surplus} are too many, and {going:?} go");
    }

    /// Of those that are too many, the ones go that are declared to go first.
    fn check_order(&self) {
        let leaving: Vec<_> = self.leaving().collect();
        // One that can't be acted on, or has been asked already, may be leaving without anything being done.
        let is_idle = |member: &&Member| {
            member.unreachable_since.is_none()
                && !member.busy
                && member.shutdown_since.is_none()
                && member.not_before.is_none_or(|time| time <= self.now)
                && !self.observed.cloning.contains(&member.slot)
        };
        let stays = |member: &&Member| is_idle(member) && !self.down.contains_key(&member.id);
        for member in leaving.iter().filter(|member| self.is_kept(member)) {
            for other in self.observed.members.iter().filter(stays) {
                // None of those that are available could be spared.
                let is_spared = self.is_standing(other) && !self.is_standing(member);
                let is_first = self.rank(other) < self.rank(member);
                assert!(is_spared || !is_first, "{member:?} goes before {other:?}");
            }
        }
    }

    /// Those that go for good, as far as an action says so.
    fn leaving(&self) -> impl Iterator<Item = &'a Member> {
        let goes = |member: &&Member| match self.down.get(&member.id) {
            Some(Action::Destroy(_)) => true,
            Some(Action::PowerOff(_) | Action::ShutdownGuest(_)) => {
                let is_changed =
                    self.desired.update.strategy == Strategy::InPlaceFirst && member.hardware != self.desired.hardware;
                self.desired.power == Power::On && !is_changed
            }
            _ => false,
        };
        self.observed.members.iter().filter(goes).collect::<Vec<_>>().into_iter()
    }

    /// Whether nothing that is declared has it replaced.
    fn is_kept(&self, member: &Member) -> bool {
        let Desired { update, hardware, power, .. } = self.desired;
        let revision = &self.desired.revision_of(member.slot);
        let may_go_down = update.max_unavailable > 0;
        match update.strategy {
            Strategy::OnDelete => true,
            _ if self.is_beyond(member.slot) => false,
            Strategy::Replace => member.revision == *revision && member.hardware == *hardware,
            Strategy::InPlaceFirst => {
                let takes_it = match power {
                    Power::On => member.takes_running(*hardware),
                    Power::Off => true,
                    Power::Suspended => member.hardware == *hardware,
                };
                member.revision == *revision && (may_go_down || takes_it)
            }
        }
    }

    /// Whether the group doesn't have a slot.
    fn is_beyond(&self, slot: Slot) -> bool {
        self.desired.slots == Slots::Fixed && slot.0 >= self.desired.replicas
    }

    fn is_standing(&self, member: &Member) -> bool {
        let Desired { power, update, shutdown_grace, .. } = self.desired;
        let is_ready = |since: &Timestamp| *since > self.now || *since + update.min_ready <= self.now;
        let is_up = member.power != Power::On || member.ready_since.as_ref().is_some_and(is_ready);
        let is_asked = member.shutdown_since.is_some_and(|since| since + *shutdown_grace > self.now);
        member.power == *power && is_up && member.unreachable_since.is_none() && !member.busy && !is_asked
    }

    /// By what it goes before others: less goes first.
    fn rank(&self, member: &Member) -> impl Ord + use<> {
        let age = (member.created, member.slot);
        let (newest, oldest) = match (self.desired.slots, self.desired.scale_in) {
            (Slots::Fixed, _) => (Some(Reverse((Timestamp::UNIX_EPOCH, member.slot))), None),
            (Slots::Any, ScaleIn::Newest) => (Some(Reverse(age)), None),
            (Slots::Any, ScaleIn::Oldest) => (None, Some(age)),
        };
        let goes_first = if self.desired.slots == Slots::Any { member.marked } else { self.is_beyond(member.slot) };
        let is_asked = member.shutdown_since.is_some();
        (!goes_first, self.is_kept(member), self.is_standing(member), !is_asked, newest, oldest)
    }
}
