//! What is said of a group: its phase, its message, its conditions and its counts, all derived from what a reconcile came to.

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Phase, vminfo::GROUP_LABEL};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    Counts, Plan, Timestamp,
    conditions::{self, ConditionUpdate, Conditions, Kstatus},
    names,
    reasons::{ConditionType, Reason},
    vmgroup::{
        Desired,
        desired::Invalid,
        extra_config,
        outcome::{Allowed, Outcome},
        trouble::Trouble,
    },
};

/// The status of a group.
#[must_use]
pub fn status(
    group: &VmGroup,
    desired: &Desired,
    outcome: &Outcome,
    summary: &Summary,
    now: Timestamp,
) -> VmGroupStatus {
    // Where the group couldn't be seen, its machines are not taken for gone.
    let is_known = outcome.observed.is_some();
    let before = group.status.clone().unwrap_or_default();
    let number = |count: u32| i32::try_from(count).ok();
    let kept = |now: Option<i32>, before: Option<i32>| if is_known { now } else { before };
    let Counts { current, ready, available, updated } = outcome.plan.counts;
    VmGroupStatus {
        phase: Some(summary.phase),
        current_replicas: kept(number(current), before.current_replicas),
        desired_replicas: number(desired.replicas),
        last_message: Some(summary.message.clone()),
        observed_generation: group.metadata.generation,
        ready_replicas: kept(number(ready), before.ready_replicas),
        updated_replicas: kept(number(updated), before.updated_replicas),
        available_replicas: kept(number(available), before.available_replicas),
        revision: Some(format!("{:016x}", desired.revision.0)),
        vcenter: before.vcenter,
        vcenter_instance: before.vcenter_instance.or_else(|| outcome.instance.clone()),
        // It is written by itself.
        record: before.record,
        marker_uid: before.marker_uid,
        extra_config_kept: Some(extra_config::kept(group)),
        incident: if is_known { outcome.incident.clone() } else { before.incident },
        selector: Some(format!("{GROUP_LABEL}={}", names::label(&desired.name))),
        conditions: written(group, &summary.conditions, &outcome.allowed, now),
        unknown: before.unknown,
    }
}

/// The status of a group that makes no sense.
#[must_use]
pub fn invalid(group: &VmGroup, invalid: &Invalid, now: Timestamp) -> VmGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let (reason, message) = (Reason::Invalid, &invalid.to_string());
    let stalled = Some((reason, message.as_str()));
    let updates = Kstatus { is_ready: false, reason, message, progress: "", stalled }.conditions();
    VmGroupStatus {
        phase: Some(Phase::Error),
        last_message: Some(message.clone()),
        observed_generation: group.metadata.generation,
        conditions: written(group, &updates, &Allowed::Unknown, now),
        extra_config_kept: Some(extra_config::kept(group)),
        ..before
    }
}

fn written(group: &VmGroup, updates: &[ConditionUpdate], allowed: &Allowed, now: Timestamp) -> Vec<Condition> {
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let conditions = Conditions { before, generation: group.metadata.generation, now };
    let judge =
        |holds, reason, why: &str| conditions.write(&ConditionUpdate::new(ConditionType::Allowed, holds, reason, why));
    let allowed = match allowed {
        Allowed::Everything => None,
        Allowed::Unknown => conditions.find(ConditionType::Allowed).cloned(),
        Allowed::Judged(Ok(())) => Some(judge(true, Reason::Allowed, "")),
        Allowed::OverQuota(why) => Some(judge(false, Reason::QuotaExceeded, why)),
        Allowed::Judged(Err(why)) => Some(judge(false, Reason::NotAllowed, why)),
    };
    updates.iter().map(|update| conditions.write(update)).chain(allowed).collect()
}

/// A condition that stands in a group's status.
#[must_use]
pub fn standing(group: &VmGroup, kind: ConditionType) -> Option<&Condition> {
    conditions::find(&group.status.as_ref()?.conditions, kind)
}

/// What stood in the group's way when its status was last written, if something did.
#[must_use]
pub fn obstacle_before(group: &VmGroup) -> Option<&str> {
    let is_none = |reason: &str| {
        [Reason::Provisioning, Reason::Paused, Reason::Deleting].iter().any(|none| none.word() == reason)
    };
    let ready = standing(group, ConditionType::Ready)?;
    (ready.status == "False" && !is_none(&ready.reason)).then_some(&ready.reason)
}

/// Whether the status is about the spec as it is now.
#[must_use]
pub fn is_current(group: &VmGroup) -> bool {
    group.status.as_ref().is_some_and(|status| status.observed_generation == group.metadata.generation)
}

/// Whether the group was as declared when its status was last written.
#[must_use]
pub fn was_settled(group: &VmGroup) -> bool {
    let is_so = |ready: &Condition| ready.status == "True" && ready.observed_generation == group.metadata.generation;
    is_current(group) && standing(group, ConditionType::Ready).is_some_and(is_so)
}

/// What is said of a group in a few words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
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

/// What the seed operator said of a group that is as declared, and its users wait for.
const SUCCESS: &str = "successfully reconciled VmGroup";

/// Says what a plan means for those who wait for the group.
#[must_use]
pub fn summarize(desired: &Desired, plan: &Plan, trouble: &Trouble) -> Summary {
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
    let stalled = stalled.map(|stalled| (stalled.reason, stalled.message.as_str()));
    let mut conditions =
        Kstatus { is_ready: settled, reason: ready, message: why, progress: &progress, stalled }.conditions();
    if desired.paused && desired.deletion.is_none() {
        let [_, reconciling, _] = &mut conditions;
        (reconciling.holds, reconciling.reason) = (Some(false), Reason::Paused);
    }
    Summary { phase, message, obstacle, conditions }
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

    fn reasons(summary: &Summary) -> [(&str, bool, &str); 3] {
        summary
            .conditions
            .each_ref()
            .map(|condition| (condition.kind.word(), condition.holds == Some(true), condition.reason.word()))
    }

    #[test]
    fn a_settled_group_runs_with_the_seeds_own_words() {
        let summary = summarize(&desired(), &plan(true), &Trouble::None);
        assert_eq!((summary.phase, summary.message.as_str()), (Phase::Running, "successfully reconciled VmGroup"));
        let expected =
            [("Ready", true, "Reconciled"), ("Reconciling", false, "Reconciled"), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&summary), expected);
    }

    #[test]
    fn a_group_under_way_says_how_far_it_is() {
        let summary = summarize(&desired(), &plan(false), &Trouble::None);
        assert_eq!((summary.phase, summary.message.as_str()), (Phase::Pending, "2 of 3 VMs available, 3 up to date"));
        let expected =
            [("Ready", false, "Provisioning"), ("Reconciling", true, "Provisioning"), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&summary), expected);
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
            let summary = summarize(&desired(), &plan(false), &trouble);
            assert_eq!(summary.phase, Phase::Error, "{trouble:?}");
            let [ready, reconciling, stalled] = &summary.conditions;
            assert!(
                [stalled, ready, reconciling].map(|it| it.holds) == [Some(true), Some(false), Some(false)],
                "{trouble:?}"
            );
            assert_eq!((&stalled.message, stalled.reason), (&summary.message, ready.reason));
        }
        let two = Trouble::TasksFail(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(summarize(&desired(), &plan(false), &two).message, "a (and 1 more)");
    }

    #[test]
    fn a_vcenter_that_is_away_makes_nothing_an_error() {
        let away = Trouble::VCenterAway("connecting to vc: refused".to_owned());
        let summary = summarize(&desired(), &plan(true), &away);
        assert_eq!((summary.phase, summary.message.as_str()), (Phase::Pending, "connecting to vc: refused"));
        let reason = "VCenterUnreachable";
        let expected = [("Ready", false, reason), ("Reconciling", true, reason), ("Stalled", false, "NotStalled")];
        assert_eq!(reasons(&summary), expected);
    }

    #[test]
    fn what_passes_by_itself_waits_for_nobody_until_the_deadline_is_over() {
        let fails = || Trouble::Passing(Box::new(Trouble::TasksFail(vec!["cloning a: busy".to_owned()])));
        let passing = summarize(&desired(), &plan(false), &fails());
        let reason = "TasksFailing";
        let expected = [("Ready", false, reason), ("Reconciling", true, reason), ("Stalled", false, "NotStalled")];
        assert_eq!((passing.phase, reasons(&passing)), (Phase::Error, expected));
        let overdue = summarize(&desired(), &plan(false), &fails().overdue());
        let expected = [("Ready", false, reason), ("Reconciling", false, reason), ("Stalled", true, reason)];
        assert_eq!(reasons(&overdue), expected);
        assert_eq!(Trouble::None.overdue(), Trouble::Overdue);
    }

    #[test]
    fn paused_and_deleted_groups_say_that_they_are() {
        let paused = Desired { paused: true, ..desired() };
        assert_eq!(reasons(&summarize(&paused, &plan(false), &Trouble::None))[0], ("Ready", false, "Paused"));
        let deleted = Desired { deletion: Some(crate::vmgroup::DeletionPolicy::Delete), ..desired() };
        let summary = summarize(&deleted, &plan(true), &Trouble::None);
        assert_eq!(summary.message, "deleting: 3 VMs left");
        assert_eq!(reasons(&summary)[1], ("Reconciling", true, "Deleting"));
    }
}
