//! What is said of a group: its status, events and figures, all from what one reconcile came to.

use std::time::{Duration, Instant};

use drover_api::{VmGroup, VmGroupStatus, vmgroup::ABANDON_ANNOTATION as ABANDON};

use crate::{
    Timestamp, Trouble,
    events::Event,
    reasons::{ConditionType, EventReason, Reason},
    vmgroup::{
        Desired, Folder,
        drift::{Changes, Drift},
        events::{EventHistory, Facts},
        extra_config,
        outcome::{Allowed, Outcome},
        progress::Progress,
        status::{Summary, obstacle_before, standing, status, summarize, was_settled},
    },
};

/// What stands in the way for no longer than this may pass by itself, and is no reason to give anything up.
const PASSING: Duration = Duration::from_secs(10);

/// What was said of one group, so that nothing is said twice. It may be lost: then something is.
#[derive(Clone, Debug, Default)]
pub struct Reporter {
    history: EventHistory,
    drift: Drift,
    progress: Option<Progress>,
    /// Since when something has stood in the group's way that it may be abandoned for, at each look.
    hindered: Option<Instant>,
    /// Whether it was told that the group isn't given up.
    is_abandoning_refused: bool,
}

/// What is to be said of a group now.
#[derive(Debug)]
pub struct Report {
    /// The status to write.
    pub status: VmGroupStatus,
    /// What to tell at once.
    pub events: Vec<Event>,
    /// What to tell once the status is written: that it isn't told again is known from there.
    pub events_after_write: Vec<Event>,
    /// What was changed in vCenter, and what was put right.
    pub drift: Changes,
    /// Whether the group is to be given up, as its user asks.
    pub is_given_up: bool,
    /// When to come back, if nothing changes before.
    pub wake: Duration,
}

impl Reporter {
    /// What is to be said of a group, with an eye on how long it has got no further.
    pub fn report(
        &mut self,
        group: &VmGroup,
        desired: &Desired,
        mut outcome: Outcome,
        (now, instant): (Timestamp, Instant),
    ) -> Report {
        let generation = group.metadata.generation.unwrap_or(0);
        if is_deleted(group) && !is_abandoned(group) {
            outcome.trouble = outcome.trouble.with_way_out();
        }
        let progress = self.progress.get_or_insert_with(|| Progress::start(now));
        if let Some(deadline) = progress.deadline(desired, generation, &outcome.plan, now) {
            match Duration::try_from(deadline.duration_since(now)) {
                Ok(left) if !left.is_zero() => outcome.wake = outcome.wake.min(left),
                _ => outcome.trouble = outcome.trouble.overdue(),
            }
        }
        let summary = summarize(desired, &outcome.plan, &outcome.trouble);
        let facts = Facts {
            desired,
            generation,
            was_settled: was_settled(group),
            observed: outcome.observed.as_ref(),
            plan: &outcome.plan,
            summary: &summary,
            obstacle_before: obstacle_before(group),
        };
        let mut events = self.history.events(&facts);
        let drift = self.drift.follow(&facts, now);
        let abandonment = self.abandonment(group, &outcome, &summary, instant);
        let is_given_up = matches!(abandonment, Abandonment::Begins(_));
        match abandonment {
            Abandonment::Begins(event) | Abandonment::Refused(event) => events.push(event),
            Abandonment::Waits => outcome.wake = outcome.wake.min(PASSING),
            Abandonment::None => {}
        }
        Report {
            status: status(group, desired, &outcome, &summary, now),
            events,
            events_after_write: keys_kept(group).into_iter().chain(not_allowed(group, &outcome)).collect(),
            drift,
            is_given_up,
            wake: outcome.wake,
        }
    }

    /// What becomes of a group that its user wants to give up: it is, once something has stood in its way for a while.
    fn abandonment(&mut self, group: &VmGroup, outcome: &Outcome, summary: &Summary, now: Instant) -> Abandonment {
        let lets_abandon = outcome.trouble.lets_abandon();
        self.hindered = lets_abandon.then(|| self.hindered.unwrap_or(now));
        if !(is_deleted(group) && is_abandoned(group)) {
            return Abandonment::None;
        }
        if !lets_abandon {
            let was_told = std::mem::replace(&mut self.is_abandoning_refused, true);
            return if was_told { Abandonment::None } else { Abandonment::Refused(not_abandoned(outcome, summary)) };
        }
        let hindered = self.hindered.map(|since| now.saturating_duration_since(since));
        if hindered.is_some_and(|hindered| hindered >= PASSING) && obstacle_before(group).is_some() {
            // It can't go on by itself, and has said why for a while.
            let why = &summary.message;
            return Abandonment::Begins(Event::warning(
                EventReason::Abandoned,
                format!(
                    "given up as its annotation asks: what is left of it in vCenter stays there, unattended. It waited: {why}"
                ),
            ));
        }
        Abandonment::Waits
    }
}

enum Abandonment {
    /// It isn't asked for, or it was told that it is refused.
    None,
    Refused(Event),
    Waits,
    Begins(Event),
}

/// What is told of a group that goes: what stays in vCenter.
#[must_use]
pub fn farewell(outcome: &Outcome, goes_with_its_kind: bool) -> Vec<Event> {
    let is_kept = outcome.observed.as_ref().is_some_and(|observed| observed.folder == Folder::OccupiedUnseen);
    let folder_kept = is_kept.then(|| {
        let message = "the group's folder stays: something is in it that Drover can't see";
        Event::warning(EventReason::FolderKept, message)
    });
    let vms_kept = goes_with_its_kind.then(|| {
        let message = "the kind VmGroup is being deleted: the VMs stay as they are, and nobody looks after them";
        Event::warning(EventReason::VMsKept, message)
    });
    folder_kept.into_iter().chain(vms_kept).collect()
}

fn is_deleted(group: &VmGroup) -> bool {
    group.metadata.deletion_timestamp.is_some()
}

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.metadata.annotations.as_ref().and_then(|all| all.get(ABANDON)).is_some_and(|value| value == "true")
}

/// The group isn't given up, though its annotation asks for that.
fn not_abandoned(outcome: &Outcome, summary: &Summary) -> Event {
    let why = match (&summary.obstacle, outcome.plan.awaited) {
        (Some(obstacle), _) => &format!("what it waits for is no reason to leave VMs behind: {}", obstacle.message),
        (None, Some(awaited)) => &format!("the group {awaited}"),
        (None, None) => "nothing stands in the way, and its VMs are being deleted or kept as spec.deletionPolicy says",
    };
    Event::normal(EventReason::AbandonIgnored, format!("the annotation to abandon the group has no effect: {why}"))
}

/// The group keeps keys of before they were checked, and that is about to be written down.
fn keys_kept(group: &VmGroup) -> Option<Event> {
    let is_written = group.status.as_ref().is_some_and(|status| status.extra_config_kept.is_some());
    let kept = extra_config::kept(group);
    (!is_written && !kept.is_empty()).then(|| {
        let message = format!(
            "spec.extraConfig: {} stay allowed in this VmGroup, because it had them before Drover checked keys; a new VmGroup may not set \
             them, unless spec.allow of the VCenter lists them",
            kept.join(", ")
        );
        Event::warning(EventReason::KeysKept, message)
    })
}

/// The group names what it may not use, where nothing else says so: no VM waits for that, or it is not refused yet.
fn not_allowed(group: &VmGroup, outcome: &Outcome) -> Option<Event> {
    let Allowed::Judged(Err(why)) = &outcome.allowed else { return None };
    let is_told = standing(group, ConditionType::Allowed).is_some_and(|it| it.status == "False" && it.message == *why);
    let is_said = matches!(outcome.trouble, Trouble::NotAllowed(_));
    (!is_told && !is_said).then(|| Event::warning(Reason::NotAllowed, why.clone()))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::*;
    use crate::vmgroup::desired::tests::desired;

    fn group(status: &serde_json::Value) -> VmGroup {
        serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {
                "name": "web", "uid": "u", "generation": 1, "annotations": {ABANDON: "true"},
                "deletionTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": status,
        }))
        .unwrap()
    }

    /// The clock, which somebody sets by a minute at each look, and the time.
    fn at(second: u64) -> (Timestamp, Instant) {
        let clock = Timestamp::from_second(i64::try_from(second).unwrap() * 60).unwrap();
        (clock, *BEGIN + Duration::from_secs(second))
    }

    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    fn reasons(events: &[Event]) -> Vec<&str> {
        events.iter().map(|event| event.reason).collect()
    }

    #[test]
    fn a_group_is_given_up_once_its_status_has_said_for_a_while_what_stands_in_the_way() {
        let away = || Outcome::stuck(Trouble::VCenterAway("refused".to_owned()), Duration::from_mins(5));
        let (mut reporter, desired) = (Reporter::default(), desired(&json!({})));
        let first = reporter.report(&group(&json!({})), &desired, away(), at(0));
        assert!(!first.is_given_up && first.wake == PASSING);
        let said = group(&serde_json::to_value(&first.status).unwrap());
        assert!(!reporter.report(&said, &desired, away(), at(9)).is_given_up, "it may pass");
        let unsaid = reporter.report(&group(&json!({})), &desired, away(), at(11));
        assert!(!unsaid.is_given_up, "nobody could read yet what stands in the way");
        let last = reporter.report(&said, &desired, away(), at(12));
        assert!(last.is_given_up);
        assert_eq!(reasons(&last.events), ["Abandoned"]);
    }

    #[test]
    fn what_passes_meanwhile_begins_anew() {
        let (mut reporter, desired) = (Reporter::default(), desired(&json!({})));
        let away = || Outcome::stuck(Trouble::VCenterAway("refused".to_owned()), Duration::from_mins(5));
        let fine = || Outcome::stuck(Trouble::None, Duration::from_mins(5));
        let said =
            group(&serde_json::to_value(&reporter.report(&group(&json!({})), &desired, away(), at(0)).status).unwrap());
        assert_eq!(reasons(&reporter.report(&said, &desired, fine(), at(5)).events), ["AbandonIgnored"]);
        assert_eq!(reasons(&reporter.report(&said, &desired, fine(), at(6)).events), [""; 0], "it is said once");
        assert!(!reporter.report(&said, &desired, away(), at(12)).is_given_up);
    }
}
