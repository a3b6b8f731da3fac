//! What is said of a group: its phase, its message and its conditions, all derived from the plan.

use drover_api::vmgroup::Phase;

use crate::{Plan, reasons::Reason, vmgroup::Desired};

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
    /// The group is being deleted, and nobody knows whether that is because its kind is.
    FateUnknown(String),
    /// Tasks fail; the sentences say which and why.
    TasksFail(Vec<String>),
    /// VMs can't be seen, or not well enough; the sentences say which.
    Unseen(Vec<String>),
    /// Nothing is made or destroyed, because too many VMs are missing at once.
    Stopped(String),
    /// The group names something that it may not use; the sentence says what to change.
    NotAllowed(String),
    /// The namespace may not have all that its groups declare; the sentence says what it uses.
    OverQuota(String),
    /// The group got no further for as long as it may take.
    Overdue,
    /// One of the above that passes, or is retried, without anybody's help.
    Passing(Box<Trouble>),
}

impl Trouble {
    /// The same, once it has lasted for as long as anything may take: then it needs a person.
    #[must_use]
    pub fn overdue(self) -> Self {
        match self {
            Self::None => Self::Overdue,
            Self::Passing(trouble) => *trouble,
            other => other,
        }
    }

    /// Whether a group that is being deleted may be given up for it, and so leave VMs behind. Not for what its own spec or annotations bring
    /// about: that would be a way to have VMs which nobody looks after.
    #[must_use]
    pub fn lets_abandon(&self) -> bool {
        match self {
            Self::VCenterAway(_)
            | Self::NoVCenter(_)
            | Self::Conflict(_)
            | Self::FateUnknown(_)
            | Self::TasksFail(_)
            | Self::Unseen(_)
            | Self::Stopped(_) => true,
            Self::None
            | Self::NotFound(_)
            | Self::Invalid(_)
            | Self::NotAllowed(_)
            | Self::OverQuota(_)
            | Self::Overdue => false,
            Self::Passing(trouble) => trouble.lets_abandon(),
        }
    }
}

/// What is said of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its state in one word.
    pub phase: Phase,
    /// What happened last, for people to read.
    pub message: String,
    /// What stands in the way, whether a person has to act or not.
    pub obstacle: Option<Obstacle>,
    /// `Ready`, `Reconciling` and `Stalled`.
    pub conditions: [ConditionUpdate; 3],
}

/// What stands in the way of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Why, in one word.
    pub reason: Reason,
    /// The same, for people to read.
    pub message: String,
    /// Whether a person has to act.
    pub needs_person: bool,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
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

/// Says what a plan means for those who wait for the group. `Reconciling` and `Stalled` never hold both: what waits for a person makes no
/// progress that anybody should wait for.
#[must_use]
pub fn verdict(desired: &Desired, plan: &Plan, trouble: &Trouble) -> Verdict {
    let progress = progress(desired, plan);
    let obstacle = obstacle(desired, plan, trouble);
    let settled = plan.settled && obstacle.is_none() && desired.deletion.is_none();
    let stalled = obstacle.as_ref().filter(|obstacle| obstacle.needs_person);
    let message = match &obstacle {
        Some(obstacle) => obstacle.message.clone(),
        None if settled && !desired.paused => SUCCESS.to_owned(),
        None => progress.clone(),
    };
    let phase = match &obstacle {
        None if settled => Phase::Running,
        None => Phase::Pending,
        Some(obstacle) if obstacle.reason == Reason::VCenterUnreachable => Phase::Pending,
        Some(_) => Phase::Error,
    };
    let (ready, why) = match &obstacle {
        Some(obstacle) => (obstacle.reason, obstacle.message.as_str()),
        None if settled => (Reason::Reconciled, SUCCESS),
        None => (waiting(desired), progress.as_str()),
    };
    let is_paused = desired.paused && desired.deletion.is_none();
    let judge =
        |kind, holds, reason, message: &str| ConditionUpdate { kind, holds, reason, message: message.to_owned() };
    let conditions = [
        judge("Ready", settled, ready, why),
        judge(
            "Reconciling",
            !settled && !is_paused && stalled.is_none(),
            if is_paused { Reason::Paused } else { ready },
            &progress,
        ),
        judge(
            "Stalled",
            stalled.is_some(),
            stalled.map_or(Reason::NotStalled, |stalled| stalled.reason),
            stalled.map_or("", |stalled| &stalled.message),
        ),
    ];
    Verdict { phase, message, obstacle, conditions }
}

fn waiting(desired: &Desired) -> Reason {
    match (desired.deletion, desired.paused) {
        (Some(_), _) => Reason::Deleting,
        (None, true) => Reason::Paused,
        (None, false) => Reason::Provisioning,
    }
}

fn obstacle(desired: &Desired, plan: &Plan, trouble: &Trouble) -> Option<Obstacle> {
    let (reason, message) = match trouble {
        Trouble::None => return None,
        Trouble::VCenterAway(why) => (Reason::VCenterUnreachable, why.clone()),
        Trouble::NotFound(why) => (Reason::NotFound, why.clone()),
        Trouble::NoVCenter(why) => (Reason::NoVCenter, why.clone()),
        Trouble::Conflict(why) => (Reason::FolderConflict, why.clone()),
        Trouble::Invalid(why) | Trouble::FateUnknown(why) => (Reason::Invalid, why.clone()),
        Trouble::NotAllowed(why) => (Reason::NotAllowed, why.clone()),
        Trouble::OverQuota(why) => (Reason::QuotaExceeded, why.clone()),
        Trouble::Overdue => {
            let seconds = desired.update.progress_deadline.as_secs();
            (Reason::DeadlineExceeded, format!("no progress for {seconds} s: {}", progress(desired, plan)))
        }
        Trouble::Stopped(why) => (Reason::SafetyHold, why.clone()),
        Trouble::TasksFail(sentences) => (Reason::TasksFailing, summed_up(sentences)),
        Trouble::Unseen(sentences) => (Reason::VMsMissing, summed_up(sentences)),
        Trouble::Passing(trouble) => {
            let obstacle = obstacle(desired, plan, trouble)?;
            return Some(Obstacle { needs_person: false, ..obstacle });
        }
    };
    // A vCenter that is away comes back, and its own status says whether somebody has to see to that.
    Some(Obstacle { needs_person: reason != Reason::VCenterUnreachable, reason, message })
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
        (Some(_), _) => {
            let awaited = plan.awaited.map(|awaited| format!("; {awaited}")).unwrap_or_default();
            format!("deleting: {} VMs left{awaited}", counts.current)
        }
        (None, true) => format!("paused: {} of {} VMs available", counts.available, desired.replicas),
        (None, false) => {
            let updated = counts.updated;
            format!("{} of {} VMs available, {updated} up to date", counts.available, desired.replicas)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Counts, vmgroup::desired::tests::desired as spec};

    fn desired() -> Desired {
        spec(&json!({}))
    }

    fn plan(settled: bool) -> Plan {
        let counts = Counts { current: 3, ready: 3, available: 2, updated: 3 };
        Plan { counts, settled, ..Plan::default() }
    }

    fn reasons(verdict: &Verdict) -> [(&str, bool, &str); 3] {
        verdict.conditions.each_ref().map(|condition| (condition.kind, condition.holds, condition.reason.word()))
    }

    #[test]
    fn a_settled_group_runs_with_the_seeds_own_words() {
        let verdict = verdict(&desired(), &plan(true), &Trouble::None);
        assert_eq!((verdict.phase, verdict.message.as_str()), (Phase::Running, "successfully reconciled VmGroup"));
        let expected =
            [("Ready", true, "Reconciled"), ("Reconciling", false, "Reconciled"), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&verdict), expected);
    }

    #[test]
    fn a_group_under_way_says_how_far_it_is() {
        let verdict = verdict(&desired(), &plan(false), &Trouble::None);
        assert_eq!((verdict.phase, verdict.message.as_str()), (Phase::Pending, "2 of 3 VMs available, 3 up to date"));
        let expected =
            [("Ready", false, "Provisioning"), ("Reconciling", true, "Provisioning"), ("Stalled", false, "NotStalled")];
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
            Trouble::NotAllowed("spec.template: \"x\" is powered on".to_owned()),
            Trouble::OverQuota("1 VM waits".to_owned()),
            Trouble::Overdue,
        ] {
            let verdict = verdict(&desired(), &plan(false), &trouble);
            assert_eq!(verdict.phase, Phase::Error, "{trouble:?}");
            let [ready, reconciling, stalled] = &verdict.conditions;
            assert!(stalled.holds && !ready.holds && !reconciling.holds, "{trouble:?}");
            assert_eq!((&stalled.message, stalled.reason), (&verdict.message, ready.reason));
        }
        let two = Trouble::TasksFail(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(verdict(&desired(), &plan(false), &two).message, "a (and 1 more)");
    }

    #[test]
    fn a_vcenter_that_is_away_makes_nothing_an_error() {
        let away = Trouble::VCenterAway("connecting to vc: refused".to_owned());
        let verdict = verdict(&desired(), &plan(true), &away);
        assert_eq!((verdict.phase, verdict.message.as_str()), (Phase::Pending, "connecting to vc: refused"));
        let reason = "VCenterUnreachable";
        let expected = [("Ready", false, reason), ("Reconciling", true, reason), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&verdict), expected);
    }

    #[test]
    fn what_passes_by_itself_waits_for_nobody_until_the_deadline_is_over() {
        let fails = || Trouble::Passing(Box::new(Trouble::TasksFail(vec!["cloning a: busy".to_owned()])));
        let passing = verdict(&desired(), &plan(false), &fails());
        let reason = "TasksFailing";
        let expected = [("Ready", false, reason), ("Reconciling", true, reason), ("Stalled", false, "NotStalled")];
        assert_eq!((passing.phase, reasons(&passing)), (Phase::Error, expected));
        let overdue = verdict(&desired(), &plan(false), &fails().overdue());
        let expected = [("Ready", false, reason), ("Reconciling", false, reason), ("Stalled", true, reason)];
        assert_eq!(reasons(&overdue), expected);
        assert_eq!(Trouble::None.overdue(), Trouble::Overdue);
    }

    #[test]
    fn a_group_is_abandoned_for_nothing_that_its_own_spec_brings_about() {
        let why = || "x".to_owned();
        let lets = [
            Trouble::VCenterAway(why()),
            Trouble::NoVCenter(why()),
            Trouble::Conflict(why()),
            Trouble::FateUnknown(why()),
            Trouble::TasksFail(vec![why()]),
            Trouble::Unseen(vec![why()]),
            Trouble::Stopped(why()),
        ];
        let refuses = [
            Trouble::None,
            Trouble::NotFound(why()),
            Trouble::Invalid(why()),
            Trouble::NotAllowed(why()),
            Trouble::OverQuota(why()),
            Trouble::Overdue,
        ];
        let passing = |trouble: &Trouble| Trouble::Passing(Box::new(trouble.clone()));
        assert!(lets.iter().all(|trouble| trouble.lets_abandon() && passing(trouble).lets_abandon()));
        assert!(!refuses.iter().any(|trouble| trouble.lets_abandon() || passing(trouble).lets_abandon()));
    }

    #[test]
    fn paused_and_deleted_groups_say_that_they_are() {
        let paused = Desired { paused: true, ..desired() };
        assert_eq!(reasons(&verdict(&paused, &plan(false), &Trouble::None))[0], ("Ready", false, "Paused"));
        let deleted = Desired { deletion: Some(crate::vmgroup::DeletionPolicy::Delete), ..desired() };
        let verdict = verdict(&deleted, &plan(true), &Trouble::None);
        assert_eq!(verdict.message, "deleting: 3 VMs left");
        assert_eq!(reasons(&verdict)[1], ("Reconciling", true, "Deleting"));
    }
}
