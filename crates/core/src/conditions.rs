//! Conditions: how something stands and why, as users of Kubernetes know them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{Timestamp, reasons::Reason};

/// What the conditions of an object are written by.
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
    /// One of them. `None`: whether it holds isn't known.
    pub fn judge(
        &self,
        kind: &str,
        holds: impl Into<Option<bool>>,
        reason: Reason,
        message: impl Into<String>,
    ) -> Condition {
        let status = match holds.into() {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let same = self.before.iter().find(|condition| condition.type_ == kind && condition.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.word().to_owned(),
            message: message.into(),
            observed_generation: self.generation,
            last_transition_time: same.map_or(Time(self.now), |same| same.last_transition_time.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conditions_time_is_that_of_its_last_change() {
        let time = |seconds: i64| Timestamp::from_second(1_800_000_000 + seconds).unwrap();
        let at = |before, seconds| Conditions { before, generation: Some(1), now: time(seconds) };
        let first = [at(&[], 0).judge("Ready", false, Reason::Provisioning, "1 of 2")];
        let same = [at(&first, 5).judge("Ready", false, Reason::Provisioning, "2 of 2")];
        assert_eq!((same[0].last_transition_time.0, same[0].message.as_str()), (time(0), "2 of 2"));
        let other = at(&same, 9).judge("Ready", None, Reason::VCenterUnreachable, "");
        assert_eq!((other.last_transition_time.0, other.status.as_str()), (time(9), "Unknown"));
    }
}
