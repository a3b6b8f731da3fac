//! Quiet, in which everything has to come to rest.

use drover_core::{Action, vmgroup::DeletionPolicy};

use super::{edits::lost_after, history::History, model::world::timestamp, troubles::Trial};

impl History<'_> {
    /// Nothing more happens from outside. Everything has to end as declared, and then nothing more is done.
    pub(crate) fn come_to_rest(&mut self) {
        self.tell(format_args!("quiet"));
        self.is_quiet = true;
        // What was destroyed while nobody looked is waited for, unless a time is declared.
        (self.desired.paused, self.desired.lost_after) = (false, Some(lost_after()));
        self.stored.note_edit();
        (self.room, self.skew, self.no_template) = (None, 0, false);
        self.read_again();
        self.reappear();
        let last = self.world.now + 8000;
        loop {
            let mut wake = None;
            let mut is_at_rest = true;
            let mut is_abandoned = self.desired.deletion == Some(DeletionPolicy::Delete);
            self.is_away();
            self.clear_up();
            for index in 0..self.operators.len() {
                let done = self.reconcile(index);
                is_at_rest &= done.plan.settled;
                is_abandoned &= done.observed.members.is_empty() && !done.observed.held.is_empty();
                wake = [wake, done.plan.wake, self.operators[index].in_flight.wake(timestamp(self.clock()))]
                    .into_iter()
                    .flatten()
                    .min();
                if let Some(incident) = done.incident
                    && !self.released.contains(&incident)
                {
                    self.count("incident released");
                    self.released.push(incident);
                    wake = Some(timestamp(self.clock() + 1));
                }
                assert!(
                    self.world.now < last,
                    "it never comes to rest: {:?} with {:#?}\n{:#?}\n{:#?}",
                    self.desired,
                    self.world,
                    done.plan,
                    done.observed,
                );
            }
            if is_at_rest && self.world.tasks.is_empty() {
                break;
            }
            if is_abandoned && self.world.now > last - 4000 {
                // What was destroyed while no operator ran is waited for, until the user says not to.
                return self.count("abandoned");
            }
            let wake = wake.map(|wake| wake.as_second() - timestamp(0).as_second());
            let limit = wake.unwrap_or(self.world.now + 60).max(self.world.now + 1);
            self.pass(limit);
        }
        self.check_end();
        self.check_no_churn();
    }

    /// Nothing is done to what is as declared, however long it is looked at.
    pub(crate) fn check_no_churn(&mut self) {
        // What may have been on its way before a crash is not, by then.
        self.world.now += 30;
        (0..self.operators.len()).for_each(|index| drop(self.reconcile(index)));
        let version = self.stored.group.metadata.resource_version.clone();
        for later in [1, 60, 3600] {
            self.world.now += later;
            for index in 0..self.operators.len() {
                let mut done = self.reconcile(index);
                done.actions.retain(|action| !matches!(action, Action::DestroyLeftFolder(_)));
                assert!(done.actions.is_empty() && done.plan.settled, "it was at rest, and {:?}", done.plan);
            }
        }
        let is_same = self.operators.len() > 1
            || self.trials.contains(&Trial::Folders)
            || version == self.stored.group.metadata.resource_version;
        assert!(is_same, "the record was written, and nothing had changed");
    }
}
