//! What becomes of a call or task that failed: what is said of it, and when it is tried again.

use super::InFlight;
use crate::{
    Action, Subject, Timestamp,
    vcenter::backoff::Pace,
    vmgroup::{
        Power, Refusal,
        faults::{Failure, NextStep, next_step, refusal},
    },
};

/// From the third time on, it is said why something has to be looked at again.
const WORTH_A_WORD: u32 = 3;

/// How a call or task failed.
#[derive(Clone, Copy, Debug)]
pub struct Failed<'a> {
    /// With which fault, if with any.
    pub failure: Failure<'a>,
    /// The same for people.
    pub error: &'a str,
    /// If the name was taken: by whom, where that can be seen.
    pub taken_by: Option<&'a str>,
    /// The power state of the machine that it was done to.
    pub power: Power,
}

impl InFlight {
    /// A call or task failed. Says what is to be done about it.
    pub fn failed(&mut self, action: &Action, why: &Failed<'_>, now: Timestamp, draw: u64) -> NextStep {
        let Failed { failure, error, taken_by, power } = *why;
        self.under_way.remove(action);
        if let Action::Clone(slot) = action {
            match failure {
                Failure::NoAnswer => self.unanswered = Some(now),
                // It may have made its machine before it failed, which is about to show.
                Failure::Fault(_) => drop(self.failed_clones.insert(*slot, now)),
            }
        }
        let step = next_step(failure, action.into());
        let subject = action.subject();
        if step == NextStep::Done {
            self.succeeded(action, None, now);
            return step;
        }
        if let Action::Reconfigure(id, hardware) = action
            && let Failure::Fault(lineage) = failure
            && let Some(refusal) = refusal(lineage, *hardware, power)
        {
            if let Refusal::Altogether(_) = refusal {
                self.problems.insert(subject.clone(), format!("{}: {error}", in_words(action)));
                self.for_people.insert(subject.clone());
            }
            self.refused.insert(id.clone(), refusal);
            self.waits.failed(subject, now, draw, Pace::Soon);
            return step;
        }
        if let Action::ShutdownGuest(id) = action
            && !step.concerns_the_whole_vcenter()
        {
            // One that refuses to be asked is powered off when its time is over, like one that never gets there. One that the
            // question never got to is asked again.
            self.shutdowns.entry(id.clone()).or_insert(now);
            return step;
        }
        let looks = self.looks.entry(subject.clone()).or_default();
        *looks =
            if matches!(step, NextStep::AdoptOrConflict | NextStep::LookAgain) { looks.saturating_add(1) } else { 0 };
        let is_stubborn = *looks >= WORTH_A_WORD;
        let (pace, problem) = match (step, taken_by) {
            (NextStep::AdoptOrConflict, Some(conflict)) => (Pace::Normal, Some(conflict.to_owned())),
            (NextStep::AdoptOrConflict, None) if is_stubborn => (
                Pace::Normal,
                Some(format!(
                    "{}: {error}: something that Drover can't see has this name in vCenter",
                    in_words(action)
                )),
            ),
            (NextStep::LookAgain, _) if is_stubborn => (Pace::Soon, Some(format!("{}: {error}", in_words(action)))),
            // It is another attempt's, on its way; or the group's view of vCenter shows it anyway.
            (NextStep::AdoptOrConflict | NextStep::LookAgain, _) => (Pace::Soon, None),
            (step, _) if step.concerns_the_whole_vcenter() => (Pace::Soon, None),
            (step, _) => (step.pace().unwrap_or(Pace::Normal), Some(format!("{}: {error}", in_words(action)))),
        };
        if let Some(problem) = problem {
            self.problems.insert(subject.clone(), problem);
            let is_for_people =
                matches!(step, NextStep::AwaitUser(_) | NextStep::AwaitRoom(_) | NextStep::AdoptOrConflict);
            if is_for_people {
                self.for_people.insert(subject.clone());
            } else {
                self.for_people.remove(&subject);
            }
        }
        self.waits.failed(subject, now, draw, pace);
        step
    }

    pub(super) fn forget_failures_of(&mut self, subject: &Subject) {
        self.waits.succeeded(subject);
        self.looks.remove(subject);
        self.problems.remove(subject);
        self.for_people.remove(subject);
    }

    /// Whether a machine doesn't take the hardware that is declared, which is said until it is another.
    pub(super) fn is_refused_for_good(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Machine(id) if matches!(self.refused.get(id), Some(Refusal::Altogether(_))))
    }

    /// What fails, and why.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        self.problems.values().cloned().collect()
    }

    /// Whether a person has to put something right before all of it can succeed.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        self.problems.keys().any(|subject| self.for_people.contains(subject))
    }
}

/// What an action is, in the words of a sentence about its failure.
fn in_words(action: &Action) -> String {
    match action {
        Action::CreateFolder => "making the group's folder".to_owned(),
        Action::DestroyFolder => "removing the group's folder".to_owned(),
        Action::DestroyLeftFolder(_) => "removing the folder that the machines were moved out of".to_owned(),
        Action::Clone(slot) => format!("cloning into slot {slot}"),
        Action::PowerOn(id) => format!("powering {} on", id.0),
        Action::PowerOff(id) => format!("powering {} off", id.0),
        Action::ShutdownGuest(id) => format!("shutting {} down", id.0),
        Action::Suspend(id) => format!("suspending {}", id.0),
        Action::Reconfigure(id, _) => format!("reconfiguring {}", id.0),
        Action::Rename(id, _) => format!("renaming {}", id.0),
        Action::MoveIntoFolder(id) => format!("moving {} into the group's folder", id.0),
        Action::Mark(id, _) => format!("bringing the marker of {} up to date", id.0),
        Action::Destroy(id) => format!("destroying {}", id.0),
    }
}
