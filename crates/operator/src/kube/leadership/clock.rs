//! Time that passes while the machine is suspended, too.
//!
//! The steady clock stands still while a machine is suspended, the wall clock doesn't; the wall clock may be set, the steady one can't.
//! So a deadline has passed as soon as either says so.

use std::time::SystemTime;

use tokio::time::{Duration, Instant};

/// Now, by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub steady: Instant,
    pub wall: SystemTime,
}

/// When something ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deadline(Moment);

impl Moment {
    pub(super) fn now() -> Self {
        Self { steady: Instant::now(), wall: SystemTime::now() }
    }
}

impl Deadline {
    pub(super) fn after(from: Moment, time: Duration) -> Self {
        // A wall clock at the end of its range ends everything at once.
        let wall = from.wall.checked_add(time).unwrap_or(from.wall);
        Self(Moment { steady: from.steady + time, wall })
    }

    pub(super) fn has_passed(&self, now: Moment) -> bool {
        self.0.steady <= now.steady || self.0.wall <= now.wall
    }

    /// When it passes, if the machine isn't suspended and its clock isn't set.
    pub(super) fn steady(&self) -> Instant {
        self.0.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_passes_by_whichever_clock_is_first() {
        let second = Duration::from_secs(1);
        let now = Moment::now();
        let deadline = Deadline::after(now, second * 10);
        let later =
            |steady: u32, wall: u32| Moment { steady: now.steady + second * steady, wall: now.wall + second * wall };
        assert!(!deadline.has_passed(now) && !deadline.has_passed(later(9, 9)));
        assert!(deadline.has_passed(later(10, 9)), "the wall clock was set back");
        assert!(deadline.has_passed(later(1, 10)), "the machine was suspended");
    }
}
