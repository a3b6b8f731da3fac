//! Conditions: how something stands and why, as users of Kubernetes know them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    Timestamp,
    reasons::{ConditionType, Reason},
};

/// How one condition stands now, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// What it is about.
    pub kind: ConditionType,
    /// `None`: whether it holds isn't known.
    pub holds: Option<bool>,
    /// Why, in one word.
    pub reason: Reason,
    /// The same, for people to read.
    pub message: String,
}

impl ConditionUpdate {
    /// How a condition stands now.
    #[must_use]
    pub fn new(
        kind: ConditionType,
        holds: impl Into<Option<bool>>,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self { kind, holds: holds.into(), reason, message: message.into() }
    }
}

/// What sums up an object for those who wait for it, as kstatus reads it.
#[derive(Clone, Copy, Debug)]
pub struct Kstatus<'a> {
    /// Whether it is as declared.
    pub is_ready: bool,
    /// Why, or why not.
    pub reason: Reason,
    /// The same, for people to read.
    pub message: &'a str,
    /// How far it is, for people to read.
    pub progress: &'a str,
    /// What a person has to see to, if anything.
    pub stalled: Option<(Reason, &'a str)>,
}

impl Kstatus<'_> {
    /// `Ready`, `Reconciling` and `Stalled`. The last two never hold both: what waits for a person makes no progress that anybody should
    /// wait for.
    #[must_use]
    pub fn conditions(&self) -> [ConditionUpdate; 3] {
        let &Self { is_ready, reason, message, progress, stalled } = self;
        let (why_stalled, words) = stalled.unwrap_or((Reason::NotStalled, ""));
        [
            ConditionUpdate::new(ConditionType::Ready, is_ready, reason, message),
            ConditionUpdate::new(ConditionType::Reconciling, !is_ready && stalled.is_none(), reason, progress),
            ConditionUpdate::new(ConditionType::Stalled, stalled.is_some(), why_stalled, words),
        ]
    }
}

/// What the conditions of an object are written over.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    /// Those that stand there. A condition's time is that of its last change.
    pub before: &'a [Condition],
    /// The generation of the spec that they are about.
    pub generation: Option<i64>,
    /// The time.
    pub now: Timestamp,
}

impl Conditions<'_> {
    /// A condition as it is written.
    #[must_use]
    pub fn write(&self, update: &ConditionUpdate) -> Condition {
        let status = match update.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let same = self.find(update.kind).filter(|condition| condition.status == status);
        Condition {
            type_: update.kind.word().to_owned(),
            status: status.to_owned(),
            reason: update.reason.word().to_owned(),
            message: update.message.clone(),
            observed_generation: self.generation,
            last_transition_time: same.map_or(Time(self.now), |same| same.last_transition_time.clone()),
        }
    }

    /// One that stands there.
    #[must_use]
    pub fn find(&self, kind: ConditionType) -> Option<&Condition> {
        find(self.before, kind)
    }
}

/// One of some conditions.
#[must_use]
pub fn find(conditions: &[Condition], kind: ConditionType) -> Option<&Condition> {
    conditions.iter().find(|condition| condition.type_ == kind.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conditions_time_is_that_of_its_last_change() {
        let time = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let at = |before, seconds| Conditions { before, generation: Some(1), now: time(seconds) };
        let ready = |holds, reason, message| ConditionUpdate::new(ConditionType::Ready, holds, reason, message);
        let first = [at(&[], 0).write(&ready(Some(false), Reason::Provisioning, "1 of 2"))];
        let same = [at(&first, 5).write(&ready(Some(false), Reason::Provisioning, "2 of 2"))];
        assert_eq!((same[0].last_transition_time.0, same[0].message.as_str()), (time(0), "2 of 2"));
        let other = at(&same, 9).write(&ready(None, Reason::VCenterUnreachable, ""));
        assert_eq!((other.last_transition_time.0, other.status.as_str()), (time(9), "Unknown"));
    }
}
