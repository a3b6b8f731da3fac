//! What is written of a host or a machine: only what differs from what stands there, and each thing in its time.

use std::{fmt::Debug, time::Duration};

use drover_core::{
    conditions::Conditions,
    figures::{Figure, News, When},
    group::Timestamp,
    news::News as Told,
    reasons::Reason,
};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kube::{Api, Resource, ResourceExt, runtime::controller::Action as Requeue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::MOMENT;
use crate::{
    events,
    group::Context,
    shelf::Error,
    status::{self, difference, standing, value},
    vcenter::{Away, mirror::Mirror},
};

/// A vCenter may be away for so long before anything is said: after a restart, or for a new session, it always is.
const GRACE: Duration = Duration::from_secs(10);

/// What there is to see of something that a user asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sight<S> {
    /// The one that is meant. Until its figures are read, those that stand there stay.
    Here { status: S, health: Judgement, figures: Vec<Whole>, are_read: bool },
    /// There is no such thing, or there are several.
    Unclear { reason: Reason, message: String },
    /// vCenter can't be looked at since then, for this reason.
    Away { why: String, since: Timestamp },
}

/// A figure of a status, by its name there, and what it is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    pub figure: &'static str,
    pub whole: i64,
}

/// How a condition stands, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Judgement {
    /// `None`: it isn't known.
    pub holds: Option<bool>,
    pub reason: Reason,
    pub message: String,
}

impl Judgement {
    pub(super) fn new(holds: impl Into<Option<bool>>, reason: Reason, message: impl Into<String>) -> Self {
        Self { holds: holds.into(), reason, message: message.into() }
    }
}

/// What there is to see, and in which vCenter.
pub(super) struct View<S> {
    vcenter: Option<String>,
    sight: Sight<S>,
}

/// Looks for what an object is about in the vCenter that it names, or its namespace is given to.
pub(super) fn look<K, S>(
    context: &Context,
    info: &K,
    named: Option<&str>,
    see: impl FnOnce(&Mirror) -> Sight<S>,
) -> View<S>
where
    K: Resource<Scope = NamespaceResourceScope>,
{
    if !context.fleet.is_mustered() {
        // Everybody's turn comes when the vCenters have been read.
        let sight = Sight::Away { why: "the vCenters are being read".to_owned(), since: Timestamp::now() };
        return View { vcenter: None, sight };
    }
    let namespace = info.meta().namespace.as_deref().unwrap_or_default();
    let live = match context.fleet.choose(namespace, named) {
        Ok(seat) => seat.live,
        Err(none) => {
            let sight = Sight::Unclear { reason: Reason::NoVCenter, message: none.to_string() };
            return View { vcenter: None, sight };
        }
    };
    let sight = match live.away() {
        Some(Away { why, since, .. }) => Sight::Away { why, since },
        // It is being read, and everybody's turn comes when it has been.
        None if !live.is_in_sight() => Sight::Away { why: "vCenter is being read".to_owned(), since: Timestamp::now() },
        None => see(&live.mirror()),
    };
    View { vcenter: Some(live.name.clone()), sight }
}

/// Brings the status of an object up to what is seen, if it is time to, and says when to come back.
pub(super) async fn show<K, S>(
    context: &Context,
    info: &K,
    before: Option<&S>,
    View { vcenter, sight }: View<S>,
    now: Timestamp,
) -> Result<Requeue, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    S: Serialize,
{
    if let Some(rest) = grace(&sight, now) {
        return Ok(Requeue::requeue(rest));
    }
    if matches!(sight, Sight::Here { are_read: false, .. }) {
        context.infos.want_figures();
    }
    if context.infos.is_outdated(info) {
        return Ok(Requeue::requeue(MOMENT));
    }
    let before = before.map_or(Value::Null, standing);
    let draft = Draft::new(before, sight, info.meta().generation, now);
    let when = match draft.when(now) {
        When::Now if !draft.facts_differ() => context.infos.ask_turn(vcenter.as_deref(), info),
        when => {
            context.infos.leave_turn(vcenter.as_deref(), info);
            when
        }
    };
    match when {
        When::Never => return Ok(Requeue::await_change()),
        When::In(rest) => return Ok(Requeue::requeue(rest)),
        When::Now => {}
    }
    let infos: Api<K> = Api::namespaced(context.kube.clone(), &info.namespace().unwrap_or_default());
    let Some(written) = status::write(&infos, info, draft.patch(now)).await? else {
        return Ok(Requeue::await_change());
    };
    context.infos.note_write(info, &written);
    events::tell(&context.kube, info, draft.news().as_slice());
    Ok(Requeue::await_change())
}

/// How much longer to wait before it is said that vCenter is away.
fn grace<S>(sight: &Sight<S>, now: Timestamp) -> Option<Duration> {
    let Sight::Away { since, .. } = sight else { return None };
    let age = Duration::try_from(now.duration_since(*since)).unwrap_or_default();
    GRACE.checked_sub(age).filter(|rest| !rest.is_zero())
}

/// A status as it stands and as it should.
struct Draft {
    before: Value,
    after: Value,
    figures: Vec<Whole>,
    /// Whether the figures are vCenter's, and not those that stood there.
    are_read: bool,
    /// How it is with being found, for those who have to be told.
    found: Judgement,
}

impl Draft {
    fn new<S: Serialize>(before: Value, sight: Sight<S>, generation: Option<i64>, now: Timestamp) -> Self {
        let are_read = matches!(sight, Sight::Here { are_read: true, .. });
        let (mut after, found, health, figures) = match sight {
            Sight::Here { status, health, figures, .. } => {
                (value(&status), Judgement::new(true, Reason::Seen, ""), health, figures)
            }
            Sight::Unclear { reason, message } => {
                let unseen = Judgement::new(None, Reason::Unseen, "");
                (json!({}), Judgement::new(false, reason, message), unseen, Vec::new())
            }
            // What was seen last still stands, and is said to be old.
            Sight::Away { why, .. } => {
                let found = Judgement::new(None, Reason::VCenterAway, format!("as last seen: {why}"));
                let health = Judgement::new(None, Reason::VCenterAway, "");
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
        let condition = |kind, said: &Judgement| conditions.judge(kind, said.holds, said.reason, said.message.clone());
        after["conditions"] = value(&[condition("Found", &found), condition("Healthy", &health)]);
        Self { before, after, figures, are_read, found }
    }

    fn when(&self, now: Timestamp) -> When {
        let number = |status: &Value, name| status[name].as_i64();
        let figure = |of: &Whole| Figure {
            shown: number(&self.before, of.figure),
            now: number(&self.after, of.figure),
            whole: of.whole,
        };
        let figures: Vec<_> = self.figures.iter().map(figure).collect();
        let written: Option<Time> = serde_json::from_value(self.before["figuresTime"].clone()).ok();
        let age = written.and_then(|written| Duration::try_from(now.duration_since(written.0)).ok());
        News { facts_differ: self.facts_differ(), figures: &figures, age }.when()
    }

    /// Whether there is more to write than figures.
    fn facts_differ(&self) -> bool {
        self.facts(&self.before) != self.facts(&self.after)
    }

    /// A status without its figures.
    fn facts(&self, status: &Value) -> Map<String, Value> {
        let mut facts = status.as_object().cloned().unwrap_or_default();
        facts.retain(|name, value| !value.is_null() && self.figures.iter().all(|of| of.figure != name));
        facts
    }

    /// What to write. With facts, the figures of the same moment are written too.
    fn patch(&self, now: Timestamp) -> Value {
        let mut after = self.after.clone();
        if self.are_read {
            after["figuresTime"] = value(&Time(now));
        }
        difference(&self.before, &after)
    }

    /// Something that a user should come to know of, though they don't look.
    fn news(&self) -> Option<Told> {
        if self.found.holds != Some(false) {
            return None;
        }
        let mut conditions = self.before["conditions"].as_array().into_iter().flatten();
        let before = conditions.find(|condition| condition["type"] == "Found");
        let reason = self.found.reason.word();
        let is_known = before.is_some_and(|before| before["status"] == "False" && before["reason"] == reason);
        (!is_known).then(|| Told { is_warning: true, reason, message: self.found.message.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn here(model: &str, free: i64) -> Sight<Value> {
        let health = Judgement::new(true, Reason::Well, "");
        let figures = vec![Whole { figure: "freeCPU", whole: 1000 }];
        let status = json!({"model": model, "freeCPU": free, "moref": "host-1"});
        Sight::Here { status, health, figures, are_read: true }
    }

    /// The same, before its figures are read.
    fn unread(model: &str, moref: &str) -> Sight<Value> {
        let health = Judgement::new(true, Reason::Well, "");
        let figures = vec![Whole { figure: "freeCPU", whole: 1000 }];
        Sight::Here { status: json!({"model": model, "moref": moref}), health, figures, are_read: false }
    }

    /// The status that comes of writing this draft.
    fn written(draft: &Draft, now: Timestamp) -> Value {
        let mut status = draft.before.as_object().cloned().unwrap_or_default();
        for (name, value) in draft.patch(now).as_object().unwrap() {
            if value.is_null() {
                status.remove(name);
            } else {
                status.insert(name.clone(), value.clone());
            }
        }
        Value::Object(status)
    }

    #[test]
    fn what_is_seen_is_written_once_and_a_small_move_ten_minutes_later() {
        let first = Draft::new(Value::Null, here("a", 500), Some(1), time(0));
        assert_eq!(first.when(time(0)), When::Now);
        let status = written(&first, time(0));
        assert_eq!((&status["freeCPU"], &status["conditions"][0]["status"]), (&json!(500), &json!("True")));
        let again = |sight, seconds| Draft::new(status.clone(), sight, Some(1), time(seconds));
        assert_eq!(again(here("a", 500), 90).when(time(90)), When::Never);
        assert_eq!(again(here("a", 510), 20).when(time(20)), When::In(Duration::from_secs(580)));
        assert_eq!(again(here("a", 510), 600).when(time(600)), When::Now);
        assert_eq!(again(here("a", 600), 20).when(time(20)), When::Now);
        let changed = again(here("b", 510), 20);
        assert_eq!(changed.when(time(20)), When::Now);
        let patch = changed.patch(time(20));
        assert_eq!(patch, json!({"model": "b", "freeCPU": 510, "figuresTime": "2027-01-15T08:00:20Z"}));
    }

    #[test]
    fn figures_that_are_not_read_yet_stay_as_they_stand_and_are_not_called_new() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), time(0)), time(0));
        let restarted = |moref, model| Draft::new(status.clone(), unread(model, moref), Some(1), time(20));
        assert_eq!(restarted("host-1", "a").when(time(20)), When::Never);
        let changed = restarted("host-1", "b");
        assert_eq!(changed.patch(time(20)), json!({"model": "b"}));
        // Of another host they would be wrong.
        let other = written(&restarted("host-2", "a"), time(20));
        assert!(other["freeCPU"].is_null(), "{other}");
    }

    #[test]
    fn the_first_figures_are_written_when_they_come() {
        let first = Draft::new(Value::Null, unread("a", "host-1"), Some(1), time(0));
        let status = written(&first, time(0));
        assert!(first.facts_differ() && status["figuresTime"].is_null(), "{status}");
        let read = Draft::new(status, here("a", 500), Some(1), time(2));
        assert_eq!((read.when(time(2)), read.facts_differ()), (When::Now, false));
        assert_eq!(read.patch(time(2)), json!({"freeCPU": 500, "figuresTime": "2027-01-15T08:00:02Z"}));
    }

    #[test]
    fn what_is_gone_leaves_no_value_and_is_told_once() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), time(0)), time(0));
        let gone = || Sight::<Value>::Unclear { reason: Reason::NotFound, message: "there is no host x".to_owned() };
        let draft = Draft::new(status, gone(), Some(1), time(5));
        assert_eq!(draft.when(time(5)), When::Now);
        let told = draft.news().unwrap();
        assert_eq!((told.reason, told.message.as_str()), ("NotFound", "there is no host x"));
        let status = written(&draft, time(5));
        let left: Vec<_> = status.as_object().unwrap().keys().collect();
        assert_eq!(left, ["conditions", "observedGeneration"]);
        let later = Draft::new(status, gone(), Some(1), time(99));
        assert_eq!((later.when(time(99)), later.news().is_none()), (When::Never, true));
    }

    #[test]
    fn while_vcenter_is_away_values_stay_and_are_said_to_be_old() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), time(0)), time(0));
        let away = Sight::<Value>::Away { why: "connection refused".to_owned(), since: time(10) };
        assert_eq!(grace(&away, time(13)), Some(Duration::from_secs(7)));
        assert_eq!(grace(&away, time(20)), None);
        let status = written(&Draft::new(status, away, Some(1), time(20)), time(20));
        assert_eq!(status["model"], "a");
        assert_eq!(status["conditions"][0]["status"], "Unknown");
        assert_eq!(status["conditions"][0]["message"], "as last seen: connection refused");
        let back = Draft::new(status, here("a", 500), Some(1), time(30));
        assert_eq!(back.when(time(30)), When::Now);
    }
}
