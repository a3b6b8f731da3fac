//! When how much a host or a machine uses is read, and when what is shown of it is written again.
//!
//! vCenter doesn't tell how much a machine uses, so it is asked: once a minute, for all that are shown. What a machine is, is
//! written at once. How much it uses moves all the time, and is written when it has moved far or when ten minutes have passed, so
//! that a thousand machines don't keep the API server busy with small change; and what has moved far waits for its turn.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// The least time between two writes about one thing, whatever happens to it.
const PAUSE: Duration = Duration::from_secs(1);
/// After this long, figures are written however little they have moved.
const LONG: Duration = Duration::from_mins(10);
/// A figure has moved far when it has moved by more than this share of the whole: one in twenty, which is 5%.
const FAR: i64 = 20;
/// How often the figures of all that is shown are read.
const PERIOD: Duration = Duration::from_mins(1);
/// The least time between two writes of nothing but figures, of all that is in one vCenter: five a second.
const TURN: Duration = Duration::from_millis(200);

/// A figure that moves all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What was written last.
    pub shown: Option<i64>,
    /// What it is.
    pub now: Option<i64>,
    /// What it is a part of: all the memory, all the CPU. 0 if that isn't known.
    pub whole: i64,
}

impl Figure {
    fn differs(&self) -> bool {
        self.shown != self.now
    }

    fn has_moved_far(&self) -> bool {
        match (self.shown, self.now) {
            (Some(shown), Some(now)) => {
                let whole = if self.whole > 0 { self.whole } else { shown };
                (now - shown).saturating_abs().saturating_mul(FAR) > whole.saturating_abs()
            }
            // It has come or gone.
            (shown, now) => shown != now,
        }
    }
}

/// What has become of something since it was last written about.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// Whether anything but the figures differs from what is shown.
    pub facts_differ: bool,
    /// The figures.
    pub figures: &'a [Figure],
    /// How long ago it was last written about, if it ever was.
    pub age: Option<Duration>,
}

/// When to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// There is nothing to write.
    Never,
    /// Now.
    Now,
    /// After this time, if it is still so.
    In(Duration),
}

impl Change<'_> {
    /// When to write it. Before figures alone are written, it has to be their turn: see [`Turns`].
    #[must_use]
    pub fn when(&self) -> When {
        let pause = if self.facts_differ || self.figures.iter().any(Figure::has_moved_far) {
            PAUSE
        } else if self.figures.iter().any(Figure::differs) {
            LONG
        } else {
            return When::Never;
        };
        match self.age.and_then(|age| pause.checked_sub(age)) {
            Some(rest) if rest > Duration::ZERO => When::In(rest),
            _ => When::Now,
        }
    }
}

/// Which figures of one vCenter to read, and when.
#[derive(Clone, Debug)]
pub struct Reading<Id> {
    /// When all were read last.
    last: Option<Instant>,
    /// What has been read since then.
    read: BTreeSet<Id>,
}

impl<Id> Default for Reading<Id> {
    fn default() -> Self {
        Self { last: None, read: BTreeSet::new() }
    }
}

impl<Id: Clone + Ord> Reading<Id> {
    /// What to read now, in one call, of all that is shown: once a minute everything, before that what has not been read yet.
    /// It counts as read from now on, whatever comes of it.
    pub fn due(&mut self, shown: &BTreeSet<Id>, now: Instant) -> BTreeSet<Id> {
        if shown.is_empty() {
            *self = Self::default();
            return BTreeSet::new();
        }
        if self.rest(now).is_none_or(|rest| rest.is_zero()) {
            self.last = Some(now);
            self.read.clone_from(shown);
            return shown.clone();
        }
        let new: BTreeSet<Id> = shown.difference(&self.read).cloned().collect();
        self.read.extend(new.iter().cloned());
        new
    }

    /// How long it is until everything is read again. `None`: nothing is shown.
    #[must_use]
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        Some(PERIOD.saturating_sub(now.saturating_duration_since(self.last?)))
    }
}

/// Whose turn it is to have figures written, and nothing else: five of one vCenter in a second, in the order of asking.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// The next turn that nobody has.
    next: Option<Instant>,
    /// When the last was taken.
    taken: Option<Instant>,
    /// Who has which turn.
    given: BTreeMap<String, Instant>,
}

impl Turns {
    /// When it is somebody's turn: now, once, or later. Whoever asks again before that is told the same.
    pub fn ask(&mut self, who: &str, now: Instant) -> When {
        let turn = self.given.get(who).copied().unwrap_or_else(|| {
            let turn = self.next.map_or(now, |next| next.max(now));
            self.next = Some(turn + TURN);
            turn
        });
        // Those who come late for their turns don't come all at once.
        let turn = self.taken.map_or(turn, |taken| turn.max(taken + TURN));
        if turn <= now {
            self.given.remove(who);
            self.taken = Some(now);
            return When::Now;
        }
        self.given.insert(who.to_owned(), turn);
        When::In(turn - now)
    }

    /// Somebody has nothing to write any more, or has written it with something else.
    pub fn leave(&mut self, who: &str) {
        if self.given.remove(who).is_some() && self.given.is_empty() {
            // Nobody waits, and whoever comes next doesn't wait for turns that nobody takes.
            self.next = self.taken.map(|taken| taken + TURN);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(facts_differ: bool, shown: i64, now: i64, age: u64) -> When {
        let figures = [Figure { shown: Some(shown), now: Some(now), whole: 1000 }];
        Change { facts_differ, figures: &figures, age: Some(Duration::from_secs(age)) }.when()
    }

    #[test]
    fn nothing_new_is_never_written() {
        assert_eq!(when(false, 500, 500, 3600), When::Never);
        assert_eq!(Change { facts_differ: false, figures: &[], age: None }.when(), When::Never);
    }

    #[test]
    fn facts_are_written_at_once_and_not_twice_a_second() {
        assert_eq!(when(true, 500, 500, 1), When::Now);
        assert_eq!(when(true, 500, 500, 0), When::In(Duration::from_secs(1)));
        assert_eq!(Change { facts_differ: true, figures: &[], age: None }.when(), When::Now);
    }

    #[test]
    fn a_figure_is_written_at_once_when_it_moves_by_more_than_a_twentieth_of_the_whole() {
        assert_eq!(when(false, 500, 551, 5), When::Now);
        assert_eq!(when(false, 500, 449, 5), When::Now);
        assert_eq!(when(false, 500, 550, 5), When::In(Duration::from_secs(595)));
    }

    #[test]
    fn a_small_move_is_written_when_ten_minutes_have_passed() {
        assert_eq!(when(false, 500, 501, 599), When::In(Duration::from_secs(1)));
        assert_eq!(when(false, 500, 501, 600), When::Now);
    }

    #[test]
    fn a_figure_that_comes_or_goes_is_written_at_once() {
        for (shown, now) in [(None, Some(1)), (Some(1), None)] {
            let figures = [Figure { shown, now, whole: 1000 }];
            assert_eq!(Change { facts_differ: false, figures: &figures, age: None }.when(), When::Now);
        }
    }

    #[test]
    fn of_an_unknown_whole_a_figure_is_compared_with_itself() {
        let moved = |now| Figure { shown: Some(100), now: Some(now), whole: 0 }.has_moved_far();
        assert!(moved(106) && moved(94) && !moved(105) && !moved(95));
    }

    fn set(ids: &[u8]) -> BTreeSet<u8> {
        ids.iter().copied().collect()
    }

    /// Points in time, by milliseconds.
    fn clock() -> impl Fn(u64) -> Instant {
        let start = Instant::now();
        move |millis| start + Duration::from_millis(millis)
    }

    #[test]
    fn all_that_is_shown_is_read_once_a_minute_and_what_is_new_at_once() {
        let at = clock();
        let mut reading = Reading::default();
        assert_eq!(reading.due(&set(&[]), at(0)), set(&[]));
        assert_eq!(reading.rest(at(0)), None, "while nothing is shown, nothing is read");
        assert_eq!(reading.due(&set(&[1, 2]), at(0)), set(&[1, 2]));
        assert_eq!(reading.due(&set(&[1, 2]), at(59_000)), set(&[]));
        assert_eq!(reading.due(&set(&[1, 2, 3]), at(59_000)), set(&[3]));
        assert_eq!(reading.due(&set(&[1, 2, 3]), at(59_500)), set(&[]), "it was asked for");
        assert_eq!(reading.rest(at(59_000)), Some(Duration::from_secs(1)));
        assert_eq!(reading.due(&set(&[1, 2, 3]), at(60_000)), set(&[1, 2, 3]));
        assert_eq!(reading.due(&set(&[1, 3]), at(120_000)), set(&[1, 3]), "what is shown no more isn't read");
        assert_eq!(reading.due(&set(&[]), at(120_001)), set(&[]));
        assert_eq!(reading.due(&set(&[1]), at(120_002)), set(&[1]));
    }

    #[test]
    fn five_in_a_second_have_their_turn_in_the_order_of_asking() {
        let at = clock();
        let mut turns = Turns::default();
        let names: Vec<String> = (0..2000).map(|number| format!("vm-{number}")).collect();
        let first: Vec<_> = names.iter().map(|name| turns.ask(name, at(0))).collect();
        assert_eq!(first[..3], [When::Now, When::In(TURN), When::In(TURN * 2)]);
        assert_eq!(first[1999], When::In(TURN * 1999), "the last waits for all others, and no longer");
        assert_eq!(turns.ask("vm-2", at(200)), When::In(TURN), "asking again changes nothing");
        assert_eq!(turns.ask("vm-2", at(400)), When::Now);
        assert_eq!(turns.ask("vm-2", at(400)), When::In(TURN * 1998), "a turn is for one write");
    }

    #[test]
    fn those_who_are_late_have_their_turns_one_after_the_other_too() {
        let at = clock();
        let mut turns = Turns::default();
        for who in ["a", "b", "c"] {
            turns.ask(who, at(0));
        }
        assert_eq!(turns.ask("b", at(5000)), When::Now);
        assert_eq!(turns.ask("c", at(5000)), When::In(TURN));
        assert_eq!(turns.ask("c", at(5200)), When::Now);
    }

    #[test]
    fn a_turn_that_is_not_taken_is_forgotten_and_none_are_saved_up() {
        let at = clock();
        let mut turns = Turns::default();
        for who in ["a", "b", "c"] {
            turns.ask(who, at(0));
        }
        for who in ["a", "b", "c"] {
            turns.leave(who);
        }
        assert_eq!(turns.ask("b", at(0)), When::In(TURN));
        assert_eq!(turns.ask("d", at(60_000)), When::Now);
        assert_eq!(turns.ask("e", at(60_000)), When::In(TURN), "after a quiet minute it is still five a second");
    }
}
