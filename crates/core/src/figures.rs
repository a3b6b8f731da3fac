//! When what is shown of a host or a machine is written again.
//!
//! What it is, is written at once. How much it uses moves all the time, and is written when it has moved far or when a minute has
//! passed, so that a thousand machines don't keep the API server busy with small change.

use std::time::Duration;

/// The least time between two writes about one thing, whatever happens to it.
const PAUSE: Duration = Duration::from_secs(1);
/// After this long, figures are written however little they have moved.
const MINUTE: Duration = Duration::from_mins(1);
/// A figure has moved far when it has moved by more than this share of the whole: one in twenty, which is 5%.
const FAR: i64 = 20;

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
pub struct News<'a> {
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

impl News<'_> {
    /// When to write it.
    #[must_use]
    pub fn when(&self) -> When {
        let pause = if self.facts_differ || self.figures.iter().any(Figure::has_moved_far) {
            PAUSE
        } else if self.figures.iter().any(Figure::differs) {
            MINUTE
        } else {
            return When::Never;
        };
        match self.age.and_then(|age| pause.checked_sub(age)) {
            Some(rest) if rest > Duration::ZERO => When::In(rest),
            _ => When::Now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(facts_differ: bool, shown: i64, now: i64, age: u64) -> When {
        let figures = [Figure { shown: Some(shown), now: Some(now), whole: 1000 }];
        News { facts_differ, figures: &figures, age: Some(Duration::from_secs(age)) }.when()
    }

    #[test]
    fn nothing_new_is_never_written() {
        assert_eq!(when(false, 500, 500, 3600), When::Never);
        assert_eq!(News { facts_differ: false, figures: &[], age: None }.when(), When::Never);
    }

    #[test]
    fn facts_are_written_at_once_and_not_twice_a_second() {
        assert_eq!(when(true, 500, 500, 1), When::Now);
        assert_eq!(when(true, 500, 500, 0), When::In(Duration::from_secs(1)));
        assert_eq!(News { facts_differ: true, figures: &[], age: None }.when(), When::Now);
    }

    #[test]
    fn a_figure_is_written_at_once_when_it_moves_by_more_than_a_twentieth_of_the_whole() {
        assert_eq!(when(false, 500, 551, 5), When::Now);
        assert_eq!(when(false, 500, 449, 5), When::Now);
        assert_eq!(when(false, 500, 550, 5), When::In(Duration::from_secs(55)));
    }

    #[test]
    fn a_small_move_is_written_when_a_minute_has_passed() {
        assert_eq!(when(false, 500, 501, 59), When::In(Duration::from_secs(1)));
        assert_eq!(when(false, 500, 501, 60), When::Now);
    }

    #[test]
    fn a_figure_that_comes_or_goes_is_written_at_once() {
        for (shown, now) in [(None, Some(1)), (Some(1), None)] {
            let figures = [Figure { shown, now, whole: 1000 }];
            assert_eq!(News { facts_differ: false, figures: &figures, age: None }.when(), When::Now);
        }
    }

    #[test]
    fn of_an_unknown_whole_a_figure_is_compared_with_itself() {
        let moved = |now| Figure { shown: Some(100), now: Some(now), whole: 0 }.has_moved_far();
        assert!(moved(106) && moved(94) && !moved(105) && !moved(95));
    }
}
