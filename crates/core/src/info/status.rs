//! What is said of a host or a VM, and when that is written: what it is at once, how much it uses in its time.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::figures::{Change, Figure, When};
use crate::{
    Timestamp,
    conditions::{ConditionUpdate, Conditions, Kstatus},
    events::Event,
    reasons::{ConditionType, Reason},
    status::value,
};

/// A vCenter may be away for so long before anything is said: after a restart, or for a new session, it always is.
const GRACE: Duration = Duration::from_secs(10);

/// What there is to see of something that a user asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation<S> {
    /// The one that is meant. Until its figures are read, those that stand there stay.
    Here {
        /// What it is.
        status: S,
        /// How it does.
        health: ConditionUpdate,
        /// How much it uses.
        figures: Vec<FigureTotal>,
        /// Whether these have been read.
        are_read: bool,
    },
    /// There is no such thing, or there are several.
    Unclear {
        /// Which of the two.
        reason: Reason,
        /// The same, for people to read.
        message: String,
    },
    /// vCenter can't be looked at since then, for this reason.
    Away {
        /// Why.
        why: String,
        /// Since when.
        since: Timestamp,
    },
}

/// A figure of a status, by its name there, and what it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FigureTotal {
    /// Its name in the status.
    pub figure: &'static str,
    /// What it is a part of.
    pub whole: i64,
}

impl<S> Observation<S> {
    /// How much longer to wait before it is said that vCenter is away.
    #[must_use]
    pub fn grace(&self, now: Timestamp) -> Option<Duration> {
        let Self::Away { since, .. } = self else { return None };
        let age = Duration::try_from(now.duration_since(*since)).unwrap_or_default();
        GRACE.checked_sub(age).filter(|rest| !rest.is_zero())
    }
}

/// How a host or a VM does.
#[must_use]
pub fn healthy(holds: impl Into<Option<bool>>, reason: Reason, message: impl Into<String>) -> ConditionUpdate {
    ConditionUpdate::new(ConditionType::Healthy, holds, reason, message)
}

fn found(holds: impl Into<Option<bool>>, reason: Reason, message: impl Into<String>) -> ConditionUpdate {
    ConditionUpdate::new(ConditionType::Found, holds, reason, message)
}

/// A status as it stands and as it should.
#[derive(Debug)]
pub struct Draft {
    before: Value,
    after: Value,
    figures: Vec<FigureTotal>,
    /// Whether the figures are vCenter's, and not those that stood there.
    are_read: bool,
    /// How it is with being found, for those who have to be told.
    found: ConditionUpdate,
}

impl Draft {
    /// What is to be said of what is seen, over what stands there.
    #[must_use]
    pub fn new<S: Serialize>(
        before: Value,
        sight: Observation<S>,
        generation: Option<i64>,
        is_published: bool,
        now: Timestamp,
    ) -> Self {
        let are_read = matches!(sight, Observation::Here { are_read: true, .. });
        let (mut after, found, health, figures) = match sight {
            Observation::Here { status, health, figures, .. } => {
                (value(&status), found(true, Reason::Found, ""), health, figures)
            }
            Observation::Unclear { reason, message } => {
                (json!({}), found(false, reason, message), healthy(None, Reason::NotChecked, ""), Vec::new())
            }
            // What was seen last still stands, and is said to be old.
            Observation::Away { why, .. } => {
                let found = found(None, Reason::VCenterUnreachable, format!("as last seen: {why}"));
                let health = healthy(None, Reason::VCenterUnreachable, "");
                (if before.is_null() { json!({}) } else { before.clone() }, found, health, Vec::new())
            }
        };
        let is_same = before["moref"] == after["moref"];
        let stay = figures.iter().map(|of| of.figure).filter(|_| !are_read && is_same);
        for name in stay.chain((!figures.is_empty()).then_some("figuresTime")) {
            if !before[name].is_null() {
                after[name] = before[name].clone();
            }
        }
        after["observedGeneration"] = json!(generation);
        let known: Vec<Condition> = serde_json::from_value(before["conditions"].clone()).unwrap_or_default();
        let conditions = Conditions { before: &known, generation, now };
        // All that it is to do is to find something. What Drover has made and can't find it removes by itself.
        let needs_person = found.holds == Some(false) && !is_published;
        let summary = Kstatus {
            is_ready: found.holds == Some(true),
            reason: found.reason,
            message: &found.message,
            progress: &found.message,
            stalled: needs_person.then_some((found.reason, found.message.as_str())),
        };
        let updates: Vec<_> = summary.conditions().into_iter().chain([found.clone(), health]).collect();
        after["conditions"] = value(&updates.iter().map(|update| conditions.write(update)).collect::<Vec<_>>());
        Self { before, after, figures, are_read, found }
    }

    /// When to write it.
    #[must_use]
    pub fn when(&self, now: Timestamp) -> When {
        let number = |status: &Value, name| status[name].as_i64();
        let figure = |of: &FigureTotal| Figure {
            shown: number(&self.before, of.figure),
            now: number(&self.after, of.figure),
            whole: of.whole,
        };
        let figures: Vec<_> = self.figures.iter().map(figure).collect();
        let written: Option<Time> = serde_json::from_value(self.before["figuresTime"].clone()).ok();
        let age = written.and_then(|written| Duration::try_from(now.duration_since(written.0)).ok());
        Change { facts_differ: self.facts_differ(), figures: &figures, age }.when()
    }

    /// Whether there is more to write than figures.
    #[must_use]
    pub fn facts_differ(&self) -> bool {
        self.facts(&self.before) != self.facts(&self.after)
    }

    /// A status without its figures.
    fn facts(&self, status: &Value) -> Map<String, Value> {
        let mut facts = status.as_object().cloned().unwrap_or_default();
        facts.retain(|name, value| !value.is_null() && self.figures.iter().all(|of| of.figure != name));
        facts
    }

    /// What to write. With facts, the figures of the same moment are written too.
    #[must_use]
    pub fn whole(&self, now: Timestamp) -> Value {
        let mut after = self.after.clone();
        if self.are_read {
            after["figuresTime"] = value(&Time(now));
        }
        after
    }

    /// Something that a user should come to know of, though they don't look.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        if self.found.holds != Some(false) {
            return None;
        }
        let mut conditions = self.before["conditions"].as_array().into_iter().flatten();
        let before = conditions.find(|condition| condition["type"] == ConditionType::Found.word());
        let reason = self.found.reason.word();
        let is_known = before.is_some_and(|before| before["status"] == "False" && before["reason"] == reason);
        (!is_known).then(|| Event::warning(self.found.reason, self.found.message.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn here(model: &str, free: i64) -> Observation<Value> {
        let health = healthy(true, Reason::Healthy, "");
        let figures = vec![FigureTotal { figure: "freeCPU", whole: 1000 }];
        let status = json!({"model": model, "freeCPU": free, "moref": "host-1"});
        Observation::Here { status, health, figures, are_read: true }
    }

    /// The same, before its figures are read.
    fn unread(model: &str, moref: &str) -> Observation<Value> {
        let health = healthy(true, Reason::Healthy, "");
        let figures = vec![FigureTotal { figure: "freeCPU", whole: 1000 }];
        Observation::Here { status: json!({"model": model, "moref": moref}), health, figures, are_read: false }
    }

    /// The status that comes of writing this draft.
    fn written(draft: &Draft, now: Timestamp) -> Value {
        draft.whole(now)
    }

    /// What is new in it.
    fn news(draft: &Draft, now: Timestamp) -> Value {
        crate::status::difference(&draft.before, &draft.whole(now))
    }

    /// How the conditions stand: Ready, Reconciling, Stalled, Found and Healthy.
    fn words(status: &Value) -> Vec<&str> {
        status["conditions"].as_array().unwrap().iter().map(|it| it["status"].as_str().unwrap()).collect()
    }

    #[test]
    fn what_is_seen_is_written_once_and_a_small_move_ten_minutes_later() {
        let first = Draft::new(Value::Null, here("a", 500), Some(1), false, time(0));
        assert_eq!(first.when(time(0)), When::Now);
        let status = written(&first, time(0));
        assert_eq!((&status["freeCPU"], &status["conditions"][0]["status"]), (&json!(500), &json!("True")));
        let again = |sight, seconds| Draft::new(status.clone(), sight, Some(1), false, time(seconds));
        assert_eq!(again(here("a", 500), 90).when(time(90)), When::Never);
        assert_eq!(again(here("a", 510), 20).when(time(20)), When::In(Duration::from_secs(580)));
        assert_eq!(again(here("a", 510), 600).when(time(600)), When::Now);
        assert_eq!(again(here("a", 600), 20).when(time(20)), When::Now);
        let changed = again(here("b", 510), 20);
        assert_eq!(changed.when(time(20)), When::Now);
        assert_eq!(
            news(&changed, time(20)),
            json!({"model": "b", "freeCPU": 510, "figuresTime": "2027-01-15T08:00:20Z"})
        );
    }

    #[test]
    fn figures_that_are_not_read_yet_stay_as_they_stand_and_are_not_called_new() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), false, time(0)), time(0));
        let restarted = |moref, model| Draft::new(status.clone(), unread(model, moref), Some(1), false, time(20));
        assert_eq!(restarted("host-1", "a").when(time(20)), When::Never);
        let changed = restarted("host-1", "b");
        assert_eq!(news(&changed, time(20)), json!({"model": "b"}));
        // Of another host they would be wrong.
        let other = written(&restarted("host-2", "a"), time(20));
        assert!(other["freeCPU"].is_null(), "{other}");
    }

    #[test]
    fn the_first_figures_are_written_when_they_come() {
        let first = Draft::new(Value::Null, unread("a", "host-1"), Some(1), false, time(0));
        let status = written(&first, time(0));
        assert!(first.facts_differ() && status["figuresTime"].is_null(), "{status}");
        let read = Draft::new(status, here("a", 500), Some(1), false, time(2));
        assert_eq!((read.when(time(2)), read.facts_differ()), (When::Now, false));
        assert_eq!(news(&read, time(2)), json!({"freeCPU": 500, "figuresTime": "2027-01-15T08:00:02Z"}));
    }

    #[test]
    fn what_is_gone_leaves_no_value_and_is_told_once() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), false, time(0)), time(0));
        let gone =
            || Observation::<Value>::Unclear { reason: Reason::NotFound, message: "there is no host x".to_owned() };
        let draft = Draft::new(status, gone(), Some(1), false, time(5));
        assert_eq!(draft.when(time(5)), When::Now);
        let told = draft.event().unwrap();
        assert_eq!((told.reason, told.message.as_str()), ("NotFound", "there is no host x"));
        let status = written(&draft, time(5));
        let left: Vec<_> = status.as_object().unwrap().keys().collect();
        assert_eq!(left, ["conditions", "observedGeneration"]);
        assert_eq!(words(&status), ["False", "False", "True", "False", "Unknown"]);
        let published = Draft::new(status.clone(), gone(), Some(1), true, time(5));
        let published = written(&published, time(5));
        assert_eq!(words(&published), ["False", "True", "False", "False", "Unknown"], "it is removed by itself");
        let later = Draft::new(status, gone(), Some(1), false, time(99));
        assert_eq!((later.when(time(99)), later.event().is_none()), (When::Never, true));
    }

    #[test]
    fn while_vcenter_is_away_values_stay_and_are_said_to_be_old() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), false, time(0)), time(0));
        let away = Observation::<Value>::Away { why: "connection refused".to_owned(), since: time(10) };
        assert_eq!(away.grace(time(13)), Some(Duration::from_secs(7)));
        assert_eq!(away.grace(time(20)), None);
        let status = written(&Draft::new(status, away, Some(1), false, time(20)), time(20));
        assert_eq!(status["model"], "a");
        assert_eq!(words(&status), ["False", "True", "False", "Unknown", "Unknown"]);
        assert_eq!(status["conditions"][3]["message"], "as last seen: connection refused");
        let back = Draft::new(status, here("a", 500), Some(1), false, time(30));
        assert_eq!(back.when(time(30)), When::Now);
    }
}
