//! When to try again what has failed: later each time, up to a limit, and not all at the same moment.
//!
//! Each key (a slot, a machine, a vCenter) waits by itself, so that one that fails never holds the others.

use std::{collections::BTreeMap, time::Duration};

use crate::Timestamp;

/// Which keys have failed, and until when each is left alone.
#[derive(Clone, Debug)]
pub struct Backoff<K> {
    paces: Paces,
    waits: BTreeMap<K, Wait>,
}

/// How patient to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// It passes by itself in a moment.
    Soon,
    /// Nobody knows what it is.
    Normal,
    /// It lasts until a person or another machine makes room.
    Long,
}

/// The delays of each pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paces {
    /// Those of [`Pace::Soon`].
    pub soon: Delays,
    /// Those of [`Pace::Normal`].
    pub normal: Delays,
    /// Those of [`Pace::Long`].
    pub long: Delays,
}

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// The first.
    pub first: Duration,
    /// How many times the one before the next is.
    pub factor: u32,
    /// The longest.
    pub limit: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    delay: Duration,
    until: Timestamp,
}

impl Paces {
    /// For what is done to machines and folders.
    pub const OF_OBJECTS: Self = Self {
        soon: Delays { first: Duration::from_secs(1), factor: 2, limit: Duration::from_secs(30) },
        normal: Delays { first: Duration::from_secs(5), factor: 2, limit: Duration::from_mins(5) },
        long: Delays { first: Duration::from_mins(1), factor: 2, limit: Duration::from_mins(15) },
    };

    /// For a vCenter itself: one that was away for hours is found within five seconds of its return.
    pub const OF_CONNECTIONS: Self = Self {
        soon: Delays { first: Duration::from_millis(500), factor: 2, limit: Duration::from_secs(5) },
        ..Self::OF_OBJECTS
    };

    fn delays(&self, pace: Pace) -> Delays {
        match pace {
            Pace::Soon => self.soon,
            Pace::Normal => self.normal,
            Pace::Long => self.long,
        }
    }
}

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self::new(Paces::OF_OBJECTS)
    }
}

impl<K> Backoff<K> {
    /// Nothing has failed yet.
    #[must_use]
    pub fn new(paces: Paces) -> Self {
        Self { paces, waits: BTreeMap::new() }
    }

    /// Forgets every failure: what they were due to is no longer so.
    pub fn reset(&mut self) {
        self.waits.clear();
    }
}

impl<K: Ord> Backoff<K> {
    /// Notes a failure, and says when to try again. `draw` is any number, drawn evenly from all: it says where in the later half
    /// of the delay that is.
    ///
    /// Failures during a wait are of tries made before it, and don't make the next wait longer.
    pub fn failed(&mut self, key: K, now: Timestamp, draw: u64, pace: Pace) -> Timestamp {
        let delays = self.paces.delays(pace);
        let before = self.waits.get(&key).copied();
        let waiting = before.filter(|wait| now < wait.until);
        let delay = match (waiting, before) {
            (Some(wait), _) if wait.delay >= delays.first => return wait.until,
            (None, Some(wait)) => delays.after(wait.delay),
            (Some(_), _) | (None, None) => delays.first,
        };
        let until = now.checked_add(jittered(delay, draw)).unwrap_or(Timestamp::MAX);
        let until = waiting.map_or(until, |wait| wait.until.max(until));
        self.waits.insert(key, Wait { delay, until });
        until
    }

    /// Forgets a key's failures, because it has succeeded.
    pub fn succeeded(&mut self, key: &K) {
        self.waits.remove(key);
    }

    /// Until when a key is left alone. `None` and a time that has passed both say that it may be tried.
    #[must_use]
    pub fn not_before(&self, key: &K) -> Option<Timestamp> {
        self.waits.get(key).map(|wait| wait.until)
    }

    /// All keys that have failed since they last succeeded, and until when each is left alone.
    pub fn waits(&self) -> impl Iterator<Item = (&K, Timestamp)> {
        self.waits.iter().map(|(key, wait)| (key, wait.until))
    }

    /// Forgets the keys that are no more.
    pub fn retain(&mut self, mut is_there: impl FnMut(&K) -> bool) {
        self.waits.retain(|key, _| is_there(key));
    }
}

impl Delays {
    fn after(&self, delay: Duration) -> Duration {
        delay.saturating_mul(self.factor).min(self.limit).max(self.first)
    }
}

/// Between half of a delay and all of it.
fn jittered(delay: Duration, draw: u64) -> Duration {
    let half = delay / 2;
    let share = (half.as_nanos().min(u128::from(u64::MAX)) * u128::from(draw)) >> 64;
    // Both factors are below 2^64, so what is left after the shift is too.
    half + Duration::from_nanos(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATEST: u64 = u64::MAX;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// The delays of so many failures in a row, in whole seconds.
    fn delays(pace: Pace, draw: u64, count: usize) -> Vec<i64> {
        let mut backoff = Backoff::default();
        let mut now = at(0);
        let mut fail = || {
            let until = backoff.failed("machine", now, draw, pace);
            let delay = until.duration_since(now).as_millis_f64() / 1000.0;
            now = until;
            #[allow(clippy::cast_possible_truncation, reason = "minutes at most")]
            let seconds = delay.round() as i64;
            seconds
        };
        (0..count).map(|_| fail()).collect()
    }

    #[test]
    fn each_failure_in_a_row_waits_longer_up_to_the_limit() {
        assert_eq!(delays(Pace::Soon, LATEST, 7), [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(delays(Pace::Normal, LATEST, 8), [5, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(delays(Pace::Long, LATEST, 6), [60, 120, 240, 480, 900, 900]);
    }

    #[test]
    fn chance_moves_a_try_within_the_later_half_of_its_delay() {
        assert_eq!(delays(Pace::Long, 0, 4), [30, 60, 120, 240]);
        assert_eq!(delays(Pace::Long, u64::MAX / 2, 4), [45, 90, 180, 360]);
    }

    #[test]
    fn success_makes_the_next_failure_the_first() {
        let mut backoff = Backoff::default();
        for second in [0, 100, 200] {
            backoff.failed("machine", at(second), LATEST, Pace::Normal);
        }
        backoff.succeeded(&"machine");
        assert_eq!(backoff.not_before(&"machine"), None);
        assert!(backoff.failed("machine", at(300), LATEST, Pace::Normal) <= at(305));
    }

    #[test]
    fn one_failing_key_never_holds_the_others() {
        let mut backoff = Backoff::default();
        backoff.failed("one", at(0), LATEST, Pace::Long);
        assert_eq!(backoff.not_before(&"another"), None);
        assert!(backoff.failed("another", at(0), LATEST, Pace::Soon) <= at(1));
    }

    #[test]
    fn a_hundred_calls_that_fail_together_wait_as_long_as_one() {
        let mut backoff = Backoff::new(Paces::OF_CONNECTIONS);
        let first = backoff.failed("vcenter", at(0), 7, Pace::Soon);
        for draw in 0..100 {
            assert_eq!(backoff.failed("vcenter", at(0), draw << 56, Pace::Soon), first);
        }
    }

    #[test]
    fn what_turns_out_worse_during_a_wait_waits_longer_and_never_less() {
        let mut backoff = Backoff::default();
        let soon = backoff.failed("machine", at(0), LATEST, Pace::Soon);
        let long = backoff.failed("machine", at(0), LATEST, Pace::Long);
        assert!(long > soon);
        assert_eq!(backoff.failed("machine", at(0), LATEST, Pace::Soon), long);
    }

    #[test]
    fn a_gentler_fault_after_a_hard_one_waits_no_longer_than_its_own_limit() {
        let mut backoff = Backoff::default();
        let until = backoff.failed("machine", at(0), LATEST, Pace::Long);
        let next = backoff.failed("machine", until, LATEST, Pace::Soon);
        assert!(next.duration_since(until).as_secs() <= 30);
    }

    #[test]
    fn a_corrected_spec_recovers_at_once() {
        let mut backoff = Backoff::default();
        for slot in 0..10 {
            backoff.failed(slot, at(0), LATEST, Pace::Long);
        }
        backoff.reset();
        assert_eq!(backoff.waits().count(), 0);
    }

    #[test]
    fn keys_that_are_no_more_are_forgotten() {
        let mut backoff = Backoff::default();
        for slot in 0..10 {
            backoff.failed(slot, at(0), LATEST, Pace::Normal);
        }
        backoff.retain(|slot| *slot < 3);
        assert_eq!(backoff.waits().map(|(slot, _)| *slot).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn a_vcenter_that_was_away_for_long_is_tried_every_five_seconds() {
        let mut backoff = Backoff::new(Paces::OF_CONNECTIONS);
        let mut now = at(0);
        for _ in 0..1000 {
            let next = backoff.failed("vcenter", now, LATEST, Pace::Soon);
            assert!(next.duration_since(now).as_secs() <= 5);
            now = next;
        }
    }

    #[test]
    fn no_delay_reaches_beyond_the_end_of_time() {
        let endless = Delays { first: Duration::MAX, factor: u32::MAX, limit: Duration::MAX };
        let mut backoff = Backoff::new(Paces { long: endless, ..Paces::OF_OBJECTS });
        for _ in 0..3 {
            assert!(backoff.failed("machine", Timestamp::MAX, LATEST, Pace::Long) <= Timestamp::MAX);
        }
        assert!(Timestamp::MIN < backoff.failed("machine", at(0), 0, Pace::Long));
    }
}
