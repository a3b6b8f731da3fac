//! What is said of a group: its phase, its message and its conditions, all derived from the plan.

use drover_api::vmgroup::Phase;

use crate::{Plan, group::Desired, reasons::Reason};

/// What stands in the way of a group, other than time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// vCenter can't be reached or refuses the login.
    VCenterAway(String),
    /// Something that the group names isn't there, or is there twice.
    NotFound(String),
    /// No vCenter serves the group, or several do.
    NoVCenter(String),
    /// The group's folder is another's.
    Conflict(String),
    /// The spec makes no sense.
    Invalid(String),
    /// Tasks fail; the sentences say which and why.
    TasksFail(Vec<String>),
    /// VMs can't be seen, or not well enough; the sentences say which.
    Unseen(Vec<String>),
    /// Nothing is made or destroyed, because too many VMs are missing at once.
    Stopped(String),
    /// The group got no further for as long as it may take.
    Overdue,
}

/// What is said of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its state in one word.
    pub phase: Phase,
    /// What happened last, for people to read.
    pub message: String,
    /// `Ready`, `Progressing` and `Stalled`.
    pub conditions: [Judgement; 3],
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The condition's type.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why.
    pub reason: Reason,
    /// The same, for people to read.
    pub message: String,
}

/// What the seed operator said of a group that is as declared, and its users wait for.
const SUCCESS: &str = "successfully reconciled VmGroup";

/// Says what a plan means for those who wait for the group.
#[must_use]
pub fn verdict(desired: &Desired, plan: &Plan, trouble: &Trouble) -> Verdict {
    let progress = progress(desired, plan);
    let (stalled, obstacle) = obstacle(desired, plan, trouble);
    let settled = plan.settled && stalled == Reason::NotStalled && desired.deletion.is_none();
    let message = match &obstacle {
        Some(obstacle) => obstacle.clone(),
        None if settled && !desired.paused => SUCCESS.to_owned(),
        None => progress.clone(),
    };
    let phase = match stalled {
        Reason::NotStalled if settled => Phase::Running,
        Reason::NotStalled | Reason::VCenterAway => Phase::Pending,
        _ => Phase::Error,
    };
    let ready = if settled { Reason::AsDeclared } else { waiting(desired) };
    let working = match ready {
        Reason::AsDeclared if desired.paused => Reason::Paused,
        Reason::AsDeclared => Reason::Settled,
        Reason::NotYet => Reason::Working,
        other => other,
    };
    let judge = |kind, holds, reason, message: &str| Judgement { kind, holds, reason, message: message.to_owned() };
    let conditions = [
        judge("Ready", settled, ready, if settled { SUCCESS } else { &progress }),
        judge("Progressing", matches!(working, Reason::Working | Reason::Deleting), working, &progress),
        judge("Stalled", stalled != Reason::NotStalled, stalled, obstacle.as_deref().unwrap_or("")),
    ];
    Verdict { phase, message, conditions }
}

fn waiting(desired: &Desired) -> Reason {
    match (desired.deletion, desired.paused) {
        (Some(_), _) => Reason::Deleting,
        (None, true) => Reason::Paused,
        (None, false) => Reason::NotYet,
    }
}

fn obstacle(desired: &Desired, plan: &Plan, trouble: &Trouble) -> (Reason, Option<String>) {
    match trouble {
        Trouble::None => (Reason::NotStalled, None),
        Trouble::VCenterAway(why) => (Reason::VCenterAway, Some(why.clone())),
        Trouble::NotFound(why) => (Reason::NotFound, Some(why.clone())),
        Trouble::NoVCenter(why) => (Reason::NoVCenter, Some(why.clone())),
        Trouble::Conflict(why) => (Reason::Conflict, Some(why.clone())),
        Trouble::Invalid(why) => (Reason::Invalid, Some(why.clone())),
        Trouble::Overdue => {
            let seconds = desired.update.progress_deadline.as_secs();
            (Reason::DeadlineExceeded, Some(format!("no progress for {seconds} s: {}", progress(desired, plan))))
        }
        Trouble::Stopped(why) => (Reason::SafetyHold, Some(why.clone())),
        Trouble::TasksFail(sentences) => (Reason::TasksFail, Some(summed_up(sentences))),
        Trouble::Unseen(sentences) => (Reason::VMsMissing, Some(summed_up(sentences))),
    }
}

/// The first of several sentences, and how many more there are.
fn summed_up(sentences: &[String]) -> String {
    let first = sentences.first().cloned().unwrap_or_default();
    let more = sentences.len().saturating_sub(1);
    if more > 0 { format!("{first} (and {more} more)") } else { first }
}

fn progress(desired: &Desired, plan: &Plan) -> String {
    let counts = plan.counts;
    match (desired.deletion, desired.paused) {
        (Some(_), _) => format!("deleting: {} machines left", counts.current),
        (None, true) => format!("paused: {} of {} machines available", counts.available, desired.replicas),
        (None, false) => {
            let updated = counts.updated;
            format!("{} of {} machines available, {updated} up to date", counts.available, desired.replicas)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Counts, desired::tests::desired as spec};

    fn desired() -> Desired {
        spec(&json!({}))
    }

    fn plan(settled: bool) -> Plan {
        let counts = Counts { current: 3, ready: 3, available: 2, updated: 3 };
        Plan { actions: Vec::new(), counts, settled, wake: None, given_up: Vec::new() }
    }

    fn reasons(verdict: &Verdict) -> [(&str, bool, &str); 3] {
        verdict.conditions.each_ref().map(|condition| (condition.kind, condition.holds, condition.reason.word()))
    }

    #[test]
    fn a_settled_group_runs_with_the_seeds_own_words() {
        let verdict = verdict(&desired(), &plan(true), &Trouble::None);
        assert_eq!((verdict.phase, verdict.message.as_str()), (Phase::Running, "successfully reconciled VmGroup"));
        let expected =
            [("Ready", true, "AsDeclared"), ("Progressing", false, "Settled"), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&verdict), expected);
    }

    #[test]
    fn a_group_under_way_says_how_far_it_is() {
        let verdict = verdict(&desired(), &plan(false), &Trouble::None);
        assert_eq!(
            (verdict.phase, verdict.message.as_str()),
            (Phase::Pending, "2 of 3 machines available, 3 up to date")
        );
        let expected = [("Ready", false, "NotYet"), ("Progressing", true, "Working"), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&verdict), expected);
    }

    #[test]
    fn what_needs_a_person_is_an_error_and_says_so_first() {
        for trouble in [
            Trouble::NotFound("there is no template \"x\"".to_owned()),
            Trouble::Invalid("spec.cpu is 0".to_owned()),
            Trouble::NoVCenter("no VCenter serves this namespace".to_owned()),
            Trouble::Conflict("the folder is another's".to_owned()),
            Trouble::TasksFail(vec!["cloning a: no room".to_owned(), "cloning b: no room".to_owned()]),
            Trouble::Unseen(vec!["a is missing".to_owned()]),
            Trouble::Stopped("5 of 5 VMs are missing at once".to_owned()),
            Trouble::Overdue,
        ] {
            let verdict = verdict(&desired(), &plan(false), &trouble);
            assert_eq!(verdict.phase, Phase::Error, "{trouble:?}");
            assert!(verdict.conditions[2].holds && verdict.message == verdict.conditions[2].message);
        }
        let two = Trouble::TasksFail(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(verdict(&desired(), &plan(false), &two).message, "a (and 1 more)");
    }

    #[test]
    fn a_vcenter_that_is_away_makes_nothing_an_error() {
        let away = Trouble::VCenterAway("connecting to vc: refused".to_owned());
        let verdict = verdict(&desired(), &plan(true), &away);
        assert_eq!((verdict.phase, verdict.conditions[0].holds), (Phase::Pending, false));
    }

    #[test]
    fn paused_and_deleted_groups_say_that_they_are() {
        let paused = Desired { paused: true, ..desired() };
        assert_eq!(reasons(&verdict(&paused, &plan(false), &Trouble::None))[0], ("Ready", false, "Paused"));
        let deleted = Desired { deletion: Some(crate::group::DeletionPolicy::Delete), ..desired() };
        let verdict = verdict(&deleted, &plan(true), &Trouble::None);
        assert_eq!(verdict.message, "deleting: 3 machines left");
        assert_eq!(reasons(&verdict)[1], ("Progressing", true, "Deleting"));
    }
}
