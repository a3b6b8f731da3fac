//! What is told too often is told once, with how often.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use crate::{Timestamp, events::Event, reasons::EventReason};

/// What has a limit has it for this long.
pub const WINDOW: Duration = Duration::from_mins(1);

/// How many events an object has in a minute, at most.
const EVENTS: usize = 20;
/// How many of these are kept for warnings: what is only of interest takes no room from what somebody should look at.
const FOR_WARNINGS: usize = 5;

/// The reason of an event that sums up what was left out.
const LEFT_OUT: &str = EventReason::EventsLeftOut.word();

/// How many events each object has had in the last minute, by UID.
#[derive(Clone, Debug, Default)]
pub struct EventLimits(HashMap<String, Minute>);

#[derive(Clone, Debug)]
struct Minute {
    began: Timestamp,
    written: usize,
    left_out: BTreeMap<&'static str, usize>,
    is_warning: bool,
}

impl EventLimits {
    /// The events that are written, and when to ask for the sum of the others: once for each minute that has any.
    pub fn admit(&mut self, object: &str, events: &[Event], now: Timestamp) -> (Vec<Event>, Option<Timestamp>) {
        if events.is_empty() {
            return (Vec::new(), None);
        }
        // What has something left to tell stays until that is asked for.
        self.0.retain(|_, minute| !is_over(minute.began, now) || !minute.left_out.is_empty());
        let minute = self.0.entry(object.to_owned()).or_insert_with(|| Minute::new(now));
        let was_full = !minute.left_out.is_empty();
        let admitted = events.iter().filter(|event| minute.admit(event)).cloned().collect();
        let is_full_now = !was_full && !minute.left_out.is_empty();
        (admitted, end(minute.began).filter(|_| is_full_now))
    }

    /// What was left out of an object's events in the minute that is over.
    pub fn sum(&mut self, object: &str, now: Timestamp) -> Option<Event> {
        let Minute { left_out, is_warning, .. } = self.0.remove(object)?;
        let total: usize = left_out.values().sum();
        if total == 0 {
            return None;
        }
        // The sum is an event of the minute that begins.
        self.0.insert(object.to_owned(), Minute { written: 1, ..Minute::new(now) });
        let parts: Vec<_> = left_out.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
        let events = if total == 1 { "1 more event was" } else { &format!("{total} more events were") };
        let message = format!("{events} left out in this minute: {}", parts.join(", "));
        Some(Event { is_warning, reason: LEFT_OUT, message })
    }
}

impl Minute {
    fn new(began: Timestamp) -> Self {
        Self { began, written: 0, left_out: BTreeMap::new(), is_warning: false }
    }

    fn admit(&mut self, event: &Event) -> bool {
        let most = if event.is_warning { EVENTS } else { EVENTS - FOR_WARNINGS };
        if self.written < most {
            self.written += 1;
            return true;
        }
        *self.left_out.entry(event.reason).or_default() += 1;
        self.is_warning |= event.is_warning;
        false
    }
}

/// Lines of a log by what they are about, so that none is written twice in a minute, nor one cause for more than a few objects.
#[derive(Clone, Debug)]
pub struct Repeats<K> {
    lines: HashMap<K, Line>,
    /// For how many objects a cause was written, in the minute that began then.
    causes: HashMap<K, (Timestamp, usize)>,
}

#[derive(Clone, Debug)]
struct Line {
    began: Timestamp,
    left_out: usize,
    /// The last that was left out.
    last: String,
}

impl Line {
    fn leave_out(&mut self, line: String) {
        self.left_out += 1;
        self.last = line;
    }
}

impl<K> Default for Repeats<K> {
    fn default() -> Self {
        Self { lines: HashMap::new(), causes: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Repeats<K> {
    /// How many different lines are remembered. Beyond that, lines are written as they come.
    const MOST: usize = 4096;
    /// For how many objects a cause is written in a minute. What befalls many is told of a few, and the rest is summed up.
    const FEW: usize = 3;

    /// The line, if it is to be written now: what it is about is told by its cause, and by that with its object.
    pub fn admit(&mut self, cause: K, about: K, line: String, now: Timestamp) -> Option<String> {
        if let Some(known) = self.lines.get_mut(&about) {
            known.leave_out(line);
            return None;
        }
        if self.is_of_many(&cause, now) {
            let summed_up = Line { began: now, left_out: 0, last: String::new() };
            self.lines.entry(cause).or_insert(summed_up).leave_out(line);
            return None;
        }
        if self.lines.len() < Self::MOST {
            self.lines.insert(about, Line { began: now, left_out: 0, last: String::new() });
        }
        Some(line)
    }

    /// Counts another object that a cause befalls, and says whether enough of it is written.
    fn is_of_many(&mut self, cause: &K, now: Timestamp) -> bool {
        if let Some((_, objects)) = self.causes.get_mut(cause).filter(|(began, _)| !is_over(*began, now)) {
            let is_of_many = *objects >= Self::FEW;
            *objects += 1;
            return is_of_many;
        }
        self.causes.retain(|_, (began, _)| !is_over(*began, now));
        if self.causes.len() < Self::MOST {
            self.causes.insert(cause.clone(), (now, 1));
        }
        false
    }

    /// What was left out in the minutes that are over: the last line of each kind, and how often there was one. Such a line counts as
    /// the one of the minute that begins. To be asked before a line is admitted.
    pub fn over(&mut self, now: Timestamp) -> Vec<(String, usize)> {
        let mut over = Vec::new();
        self.lines.retain(|_, line| {
            if !is_over(line.began, now) {
                return true;
            }
            if line.left_out == 0 {
                return false;
            }
            over.push((std::mem::take(&mut line.last), std::mem::take(&mut line.left_out)));
            line.began = now;
            true
        });
        over
    }
}

fn end(began: Timestamp) -> Option<Timestamp> {
    began.checked_add(WINDOW).ok()
}

/// Whether a minute is over. One that a clock which was set back would make longer is over too.
fn is_over(began: Timestamp, now: Timestamp) -> bool {
    began > now || end(began).is_none_or(|end| end <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn events(reason: &'static str, is_warning: bool, count: usize) -> Vec<Event> {
        vec![Event { is_warning, reason, message: "so it is".to_owned() }; count]
    }

    #[test]
    fn an_object_has_so_many_events_a_minute_and_the_rest_is_one_more() {
        let mut limits = EventLimits::default();
        let (few, sum_at) = limits.admit("a", &events("Drift", false, 7), at(0));
        assert_eq!((few.len(), sum_at), (7, None));
        let (rest, sum_at) = limits.admit("a", &events("Drift", false, 30), at(10));
        assert_eq!((rest.len(), sum_at), (8, Some(at(60))), "some room is kept for warnings");
        let (warnings, sum_at) = limits.admit("a", &events("TasksFailing", true, 6), at(59));
        assert_eq!((warnings.len(), sum_at), (5, None), "the sum is asked for once");
        assert_eq!(limits.admit("b", &events("Drift", false, 7), at(59)).0.len(), 7, "another object has its own");
        let sum = limits.sum("a", at(60)).unwrap();
        assert_eq!(sum.message, "23 more events were left out in this minute: 22 Drift, 1 TasksFailing");
        assert!(sum.is_warning && sum.reason == "EventsLeftOut");
        assert_eq!(limits.sum("a", at(60)), None);
        assert_eq!(limits.admit("a", &events("Drift", false, 30), at(61)).0.len(), 15);
    }

    #[test]
    fn a_minute_later_there_is_room_again_and_nothing_is_remembered_for_ever() {
        let mut limits = EventLimits::default();
        for minute in 0..5 {
            let (all, sum_at) = limits.admit("a", &events("Drift", false, 15), at(minute * 60));
            assert_eq!((all.len(), sum_at), (15, None));
        }
        for object in 0..1000 {
            limits.admit(&object.to_string(), &events("Drift", false, 1), at(1000 + object));
        }
        assert!(limits.0.len() <= 60, "{}", limits.0.len());
        assert_eq!(limits.admit("back", &events("Drift", false, 15), at(0)).0.len(), 15, "a clock that is set back");
        assert!(limits.0.len() == 1);
    }

    #[test]
    fn a_line_is_written_once_a_minute_and_then_with_how_often_it_came() {
        let mut repeats = Repeats::default();
        let mut say = |words: &str, second| {
            let over = repeats.over(at(second)).into_iter().map(|(line, times)| format!("{line} x{times}"));
            let mut written: Vec<_> = over.collect();
            written.extend(repeats.admit("cause", "a", words.to_owned(), at(second)));
            written
        };
        assert_eq!(say("first", 0), ["first"]);
        assert!(say("second", 1).is_empty() && say("third", 59).is_empty());
        assert_eq!(say("fourth", 60), ["third x2"], "it is the line of the minute that begins");
        assert_eq!(say("fifth", 120), ["fourth x1"]);
        assert_eq!(say("sixth", 180), ["fifth x1"]);
        assert_eq!(say("seventh", 600), ["sixth x1"]);
        assert_eq!(repeats.over(at(660)), [("seventh".to_owned(), 1)]);
        assert_eq!(repeats.over(at(720)), []);
        assert_eq!(repeats.lines.len(), 0, "nothing is remembered for ever");
    }

    #[test]
    fn a_flood_of_different_lines_is_written_and_not_remembered() {
        let mut repeats = Repeats::default();
        for line in 0..10_000 {
            assert!(repeats.admit(-line, line, line.to_string(), at(0)).is_some());
        }
        assert_eq!(repeats.lines.len(), Repeats::<i32>::MOST);
    }

    #[test]
    fn what_befalls_many_is_written_of_a_few_and_summed_up() {
        let mut repeats = Repeats::default();
        let mut written = |second: i64| -> Vec<usize> {
            let lines = (1..=200).filter_map(|object| repeats.admit(0, object, object.to_string(), at(second)));
            lines.map(|line| line.parse().unwrap()).collect()
        };
        assert_eq!(written(0), [1, 2, 3]);
        assert!(written(30).is_empty());
        let mut over = repeats.over(at(60));
        over.sort();
        assert_eq!(over, [("1", 1), ("2", 1), ("200", 394), ("3", 1)].map(|(line, times)| (line.to_owned(), times)));
    }
}
