//! What is written of a host or a VM, where that differs from what stands there, and each thing in its time.

use std::{fmt::Debug, time::Duration};

use drover_api::{Tolerant, VCenter, VmGroup};
use drover_core::{
    Timestamp,
    conditions::Conditions,
    events::News as Told,
    figures::{Figure, News, When},
    reasons::Reason,
};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time},
};
use kube::{Api, Resource, ResourceExt, core::object::HasStatus, runtime::controller::Action as Requeue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::{MOMENT, controller};
use crate::{
    controllers::{Context, binding::BoundVCenter, reconcile::Error},
    kube::{
        events,
        status::{self, Reach, standing, value},
    },
    vcenter::mirror::Mirror,
};

/// A vCenter may be away for so long before anything is said: after a restart, or for a new session, it always is.
const GRACE: Duration = Duration::from_secs(10);

/// What there is to see of something that a user asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sight<S> {
    /// The one that is meant. Until its figures are read, those that stand there stay.
    Here { status: S, health: ConditionUpdate, figures: Vec<Whole>, are_read: bool },
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
pub(super) struct ConditionUpdate {
    /// `None`: it isn't known.
    pub holds: Option<bool>,
    pub reason: Reason,
    pub message: String,
}

impl ConditionUpdate {
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
    see: impl FnOnce(&Mirror, &BoundVCenter) -> Sight<S>,
) -> View<S>
where
    K: Resource<Scope = NamespaceResourceScope>,
{
    if !context.vcenters.is_mustered() {
        // Everybody's turn comes when the vCenters have been read.
        let sight = Sight::Away { why: "the vCenters are being read".to_owned(), since: Timestamp::now() };
        return View { vcenter: None, sight };
    }
    let namespace = info.meta().namespace.as_deref().unwrap_or_default();
    let bound = match context.vcenters.choose(namespace, named) {
        Ok(bound) => bound,
        Err(none) => {
            let sight = Sight::Unclear { reason: Reason::NoVCenter, message: none.to_string() };
            return View { vcenter: None, sight };
        }
    };
    let live = &bound.live;
    let sight = match live.away() {
        Some(away) => Sight::Away { why: live.away_for_tenants().unwrap_or_default(), since: away.since },
        // It is being read, and everybody's turn comes when it has been.
        None if !live.is_in_sight() => Sight::Away { why: "vCenter is being read".to_owned(), since: Timestamp::now() },
        None => see(&live.mirror(), &bound),
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
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + HasStatus<Status: Serialize + Tolerant>
        + Clone
        + Debug
        + DeserializeOwned,
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
    let draft = Draft::new(before, sight, info.meta().generation, is_published(info), now);
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
    let outcome = status::apply(&infos, info, Reach::Object, draft.whole(now)).await;
    let Some(written) = status::unless_overtaken(outcome)? else {
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

/// Whether Drover has made an object, and removes it when what it is about is gone. No person has to see to it.
fn is_published<K: Resource>(info: &K) -> bool {
    let of_drover = [(VmGroup::kind(&()), VmGroup::api_version(&())), (VCenter::kind(&()), VCenter::api_version(&()))];
    let is_drovers = |owner: &OwnerReference| {
        of_drover.iter().any(|(kind, version)| owner.kind == *kind && owner.api_version == *version)
    };
    controller(info).is_some_and(is_drovers)
}

/// `Ready`, `Reconciling` and `Stalled` of an object: all that it is to do is to find something.
fn summed_up(found: &ConditionUpdate, is_published: bool) -> [ConditionUpdate; 3] {
    let is_found = found.holds == Some(true);
    let needs_person = found.holds == Some(false) && !is_published;
    let is = |holds: bool| ConditionUpdate::new(holds, found.reason, found.message.clone());
    let stalled = if needs_person { is(true) } else { ConditionUpdate::new(false, Reason::NotStalled, "") };
    [is(is_found), is(!is_found && !needs_person), stalled]
}

/// A status as it stands and as it should.
struct Draft {
    before: Value,
    after: Value,
    figures: Vec<Whole>,
    /// Whether the figures are vCenter's, and not those that stood there.
    are_read: bool,
    /// How it is with being found, for those who have to be told.
    found: ConditionUpdate,
}

impl Draft {
    fn new<S: Serialize>(
        before: Value,
        sight: Sight<S>,
        generation: Option<i64>,
        is_published: bool,
        now: Timestamp,
    ) -> Self {
        let are_read = matches!(sight, Sight::Here { are_read: true, .. });
        let (mut after, found, health, figures) = match sight {
            Sight::Here { status, health, figures, .. } => {
                (value(&status), ConditionUpdate::new(true, Reason::Found, ""), health, figures)
            }
            Sight::Unclear { reason, message } => {
                let unseen = ConditionUpdate::new(None, Reason::NotChecked, "");
                (json!({}), ConditionUpdate::new(false, reason, message), unseen, Vec::new())
            }
            // What was seen last still stands, and is said to be old.
            Sight::Away { why, .. } => {
                let found = ConditionUpdate::new(None, Reason::VCenterUnreachable, format!("as last seen: {why}"));
                let health = ConditionUpdate::new(None, Reason::VCenterUnreachable, "");
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
        let condition =
            |kind, said: &ConditionUpdate| conditions.judge(kind, said.holds, said.reason, said.message.clone());
        let [ready, reconciling, stalled] = summed_up(&found, is_published);
        after["conditions"] = value(&[
            condition("Ready", &ready),
            condition("Reconciling", &reconciling),
            condition("Stalled", &stalled),
            condition("Found", &found),
            condition("Healthy", &health),
        ]);
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
    fn whole(&self, now: Timestamp) -> Value {
        let mut after = self.after.clone();
        if self.are_read {
            after["figuresTime"] = value(&Time(now));
        }
        after
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
    use drover_api::VMInfo;

    use super::*;

    fn time(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn here(model: &str, free: i64) -> Sight<Value> {
        let health = ConditionUpdate::new(true, Reason::Healthy, "");
        let figures = vec![Whole { figure: "freeCPU", whole: 1000 }];
        let status = json!({"model": model, "freeCPU": free, "moref": "host-1"});
        Sight::Here { status, health, figures, are_read: true }
    }

    /// The same, before its figures are read.
    fn unread(model: &str, moref: &str) -> Sight<Value> {
        let health = ConditionUpdate::new(true, Reason::Healthy, "");
        let figures = vec![Whole { figure: "freeCPU", whole: 1000 }];
        Sight::Here { status: json!({"model": model, "moref": moref}), health, figures, are_read: false }
    }

    /// The status that comes of writing this draft.
    fn written(draft: &Draft, now: Timestamp) -> Value {
        draft.whole(now)
    }

    /// What is new in it.
    fn news(draft: &Draft, now: Timestamp) -> Value {
        status::difference(&draft.before, &draft.whole(now))
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
        let gone = || Sight::<Value>::Unclear { reason: Reason::NotFound, message: "there is no host x".to_owned() };
        let draft = Draft::new(status, gone(), Some(1), false, time(5));
        assert_eq!(draft.when(time(5)), When::Now);
        let told = draft.news().unwrap();
        assert_eq!((told.reason, told.message.as_str()), ("NotFound", "there is no host x"));
        let status = written(&draft, time(5));
        let left: Vec<_> = status.as_object().unwrap().keys().collect();
        assert_eq!(left, ["conditions", "observedGeneration"]);
        assert_eq!(words(&status), ["False", "False", "True", "False", "Unknown"]);
        let published = Draft::new(status.clone(), gone(), Some(1), true, time(5));
        let published = written(&published, time(5));
        assert_eq!(words(&published), ["False", "True", "False", "False", "Unknown"], "it is removed by itself");
        let later = Draft::new(status, gone(), Some(1), false, time(99));
        assert_eq!((later.when(time(99)), later.news().is_none()), (When::Never, true));
    }

    #[test]
    fn an_object_is_published_only_if_one_of_drovers_kinds_has_made_it() {
        let is_published = |kind: &str, version: &str, controller: bool| {
            let owner = json!({"kind": kind, "apiVersion": version, "name": "x", "uid": "x", "controller": controller});
            let metadata = json!({"name": "x", "ownerReferences": [owner]});
            super::is_published::<VMInfo>(
                &serde_json::from_value(json!({"metadata": metadata, "spec": {"nodename": "x"}})).unwrap(),
            )
        };
        let version = "vm.codeconnect.vmworld.com/v1alpha1";
        assert!(is_published("VmGroup", version, true) && is_published("VCenter", version, true));
        assert!(!is_published("VmGroup", version, false) && !is_published("VmGroup", "example.com/v1", true));
        assert!(!is_published("ConfigMap", "v1", true));
    }

    #[test]
    fn while_vcenter_is_away_values_stay_and_are_said_to_be_old() {
        let status = written(&Draft::new(Value::Null, here("a", 500), Some(1), false, time(0)), time(0));
        let away = Sight::<Value>::Away { why: "connection refused".to_owned(), since: time(10) };
        assert_eq!(grace(&away, time(13)), Some(Duration::from_secs(7)));
        assert_eq!(grace(&away, time(20)), None);
        let status = written(&Draft::new(status, away, Some(1), false, time(20)), time(20));
        assert_eq!(status["model"], "a");
        assert_eq!(words(&status), ["False", "True", "False", "Unknown", "Unknown"]);
        assert_eq!(status["conditions"][3]["message"], "as last seen: connection refused");
        let back = Draft::new(status, here("a", 500), Some(1), false, time(30));
        assert_eq!(back.when(time(30)), When::Now);
    }
}
