//! Whether a group gets anywhere.

use crate::{Counts, Plan, Timestamp, vmgroup::Desired};

/// When a group last got further.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    counts: Counts,
    generation: i64,
    since: Timestamp,
}

impl Progress {
    /// Begins to count.
    #[must_use]
    pub fn start(now: Timestamp) -> Self {
        Self { counts: Counts::default(), generation: 0, since: now }
    }

    /// Notes how far the group is, and says by when it has to be further. `None`: there is nothing to be done.
    pub fn deadline(&mut self, desired: &Desired, generation: i64, plan: &Plan, now: Timestamp) -> Option<Timestamp> {
        let has_time = plan.settled || desired.paused || desired.deletion.is_some();
        if has_time || plan.counts != self.counts || generation != self.generation {
            *self = Self { counts: plan.counts, generation, since: now };
        }
        let deadline = self.since.checked_add(desired.update.progress_deadline).unwrap_or(Timestamp::MAX);
        (!has_time).then_some(deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plan, vmgroup::desired::tests::desired};
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn every_step_gives_new_time_and_none_is_needed_when_there_is_nothing_to_do() {
        let desired = desired(&json!({"update": {"progressDeadlineSeconds": 10}}));
        let plan = |current, settled| {
            let counts = Counts { current, ..Counts::default() };
            Plan { counts, settled, ..Plan::default() }
        };
        let mut progress = Progress::start(at(0));
        assert_eq!(progress.deadline(&desired, 1, &plan(1, false), at(5)), Some(at(15)), "one came");
        assert_eq!(progress.deadline(&desired, 1, &plan(1, false), at(14)), Some(at(15)), "none came");
        assert_eq!(progress.deadline(&desired, 2, &plan(1, false), at(14)), Some(at(24)), "the spec is another");
        assert_eq!(progress.deadline(&desired, 2, &plan(1, true), at(99)), None);
        assert_eq!(
            progress.deadline(&desired, 2, &plan(1, false), at(99)),
            Some(at(109)),
            "time began when it was settled"
        );
    }
}
