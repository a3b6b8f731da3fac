//! One step of a group, in the order in which it is taken: look, judge, plan, order. The operator takes it, and the histories take the very
//! same.

use std::time::Instant;

use drover_api::{VmGroup, vmgroup::RELEASE_ANNOTATION};

use super::{InFlight, replicas_before};
use crate::{
    Action, Plan, Timestamp,
    vcenter::brake::{Incident, Losses, is_of_outdated},
    vmgroup::{
        Desired, Observed,
        inventory::Inventory,
        plan,
        record::BadRecord,
        status::{is_current, was_settled},
        view::View,
    },
};

/// What is known of what VMs are cloned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceState {
    /// What guests are told has to be read first.
    Unread,
    /// It can't be used.
    Unusable,
    /// It is known, and no host takes a clone now.
    NoHost,
    /// Clones can be made.
    Known,
}

/// What a plan leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// What guests are told has to be read first.
    Read,
    /// What is to be begun has to be written down first.
    Write,
    /// These actions may be begun.
    Actions(Vec<Action>),
}

/// The incidents that somebody said to go on after, for this group.
#[must_use]
pub fn released_by(group: &VmGroup) -> Vec<&str> {
    let annotations = group.metadata.annotations.as_ref();
    let released = annotations.and_then(|all| all.get(RELEASE_ANNOTATION));
    released.map(|names| names.split(',').map(str::trim).collect()).unwrap_or_default()
}

/// Plans, and leaves everything as it is where the group's folder is another's.
#[must_use]
pub fn plan_unless(conflict: Option<&str>, desired: &Desired, observed: &Observed, now: Timestamp) -> Plan {
    let plan = plan::plan(desired, observed, now);
    if conflict.is_some() { Plan { actions: Vec::new(), settled: false, ..plan } } else { plan }
}

impl InFlight {
    /// Takes up what is written of a group, and what vCenter shows of it now.
    ///
    /// # Errors
    /// What is written makes no sense.
    pub fn look(
        &mut self,
        group: &VmGroup,
        view: &View<'_, impl Inventory>,
        read: Instant,
        now: Timestamp,
    ) -> Result<Observed, BadRecord> {
        self.turn_to(group.metadata.generation.unwrap_or(0));
        self.record.take_up(group, read)?;
        Ok(self.observe(view, replicas_before(group), now))
    }

    /// Says whether everything that makes or destroys has to stop for this group. `released` are the incidents that somebody said to go on
    /// after, for all of its vCenter.
    pub fn judge_group(
        &mut self,
        group: &VmGroup,
        desired: &Desired,
        observed: &Observed,
        released: &[String],
        now: Timestamp,
    ) -> Option<Incident> {
        let remembered = group.status.as_ref().and_then(|status| status.incident.as_deref());
        let was_settled = was_settled(group) || remembered.is_some_and(is_of_outdated) && is_current(group);
        let unexplained = self.unexplained(desired, observed, was_settled, now);
        let (members, missing) = self.losses(&desired.uid);
        let released = released_by(group).into_iter().chain(released.iter().map(String::as_str)).collect();
        let losses = Losses { name: &desired.uid, members, missing, unexplained, released, remembered };
        self.judge(&losses, now)
    }

    /// Takes up what a plan came to. `may_lack_clones`: some may be on their way that nobody here knows of.
    pub fn note_plan(&mut self, desired: &Desired, plan: &Plan, may_lack_clones: bool, now: Timestamp) {
        self.give_up(plan, may_lack_clones, now);
        if plan.settled {
            self.forgive(desired);
        }
    }

    /// What a plan leads to.
    pub fn order(&mut self, desired: &Desired, observed: &Observed, plan: &Plan, source: SourceState) -> Order {
        if source == SourceState::Unread && needs_source(plan, desired, observed) {
            return Order::Read;
        }
        let may_be_begun = |action: &&Action| match source {
            SourceState::Known => true,
            SourceState::NoHost => action.cloned_slot().is_none(),
            SourceState::Unread | SourceState::Unusable => !is_made_from_source(action, desired, observed),
        };
        let orders: Vec<_> = plan.actions.iter().filter(may_be_begun).cloned().collect();
        if self.record.announce(&orders, &observed.members) { Order::Actions(orders) } else { Order::Write }
    }
}

/// Whether something of a plan needs to know what VMs are made from.
#[must_use]
pub fn needs_source(plan: &Plan, desired: &Desired, observed: &Observed) -> bool {
    plan.actions.iter().any(|action| is_made_from_source(action, desired, observed))
}

/// Whether an action needs to know what VMs are made from. A folder for a group's first VMs is not made before it is known that there can be
/// any.
fn is_made_from_source(action: &Action, desired: &Desired, observed: &Observed) -> bool {
    let is_first_folder = *action == Action::CreateFolder && observed.members.is_empty() && desired.replicas > 0;
    is_first_folder || action.cloned_slot().is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        names::Slot,
        vmgroup::{Power, desired::tests::desired, faults::Failure, in_flight::Failed, record::Record},
    };

    #[test]
    fn nothing_is_cloned_and_no_first_folder_made_before_it_is_known_what_from() {
        let (desired, observed) = (desired(&json!({"replicas": 1})), Observed::default());
        let order = |actions: &[Action], source| {
            let mut in_flight = InFlight::default();
            in_flight.order(&desired, &observed, &Plan { actions: actions.to_vec(), ..Plan::default() }, source)
        };
        let first = [Action::CreateFolder, Action::Clone(Slot(0))];
        assert_eq!(order(&first, SourceState::Unread), Order::Read);
        assert_eq!(order(&first, SourceState::Unusable), Order::Actions(vec![]));
        assert_eq!(order(&first, SourceState::NoHost), Order::Write, "a folder is made, once that is written down");
        assert_eq!(order(&[], SourceState::Unread), Order::Actions(vec![]));
    }

    #[test]
    fn a_clone_that_failed_may_have_made_its_machine_all_the_same() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut in_flight = InFlight::default();
        let fault = Failure::Fault(&["InvalidPowerState", "MethodFault"]);
        let why = Failed { failure: fault, error: "it could not be powered on", taken_by: None, power: Power::Off };
        in_flight.failed(&Action::Clone(Slot(0)), &why, at(0), 0);
        assert_eq!(in_flight.wake(at(1)), Some(at(3)), "it is looked at again when its machine would have shown");
        assert!(!in_flight.may_be_cloned(at(1)), "other slots don't wait for it");
    }

    #[test]
    fn clones_that_nobody_knows_of_wake_those_groups_alone_that_may_wait_for_them() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut in_flight = InFlight { unknown: Some(at(0)), ..InFlight::default() };
        let mut record = Record::default();
        in_flight.record.membership.set_record(record.clone());
        assert_eq!(in_flight.wake(at(1)), None);
        record.reserve([Slot(0)]);
        in_flight.record.membership.set_record(record);
        assert_eq!(in_flight.wake(at(1)), Some(at(3)));
    }
}
