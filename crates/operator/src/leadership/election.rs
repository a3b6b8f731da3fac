//! Who is to hold a lease, decided from what was seen of it.

use k8s_openapi::{api::coordination::v1::LeaseSpec, apimachinery::pkg::apis::meta::v1::MicroTime, jiff::Timestamp};
use tokio::time::{Duration, Instant};

/// A lease as it was last read, and since when it has been seen so.
///
/// How old a record is can't be told from its times: they are from another machine's clock. So the time is counted from when
/// this one first saw it, which is later than when it was written.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub record: LeaseSpec,
    pub since: Instant,
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Write this record, if the lease is still as it was read.
    Write(LeaseSpec),
    /// Look again later: this one holds the lease.
    Wait(String),
}

/// One who wants the lease.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// Nobody else's, not even that of the same pod before a restart.
    pub identity: String,
    /// For how long others have to respect a record of this candidate.
    pub lease: Duration,
}

impl Sighting {
    /// Takes up what was read now.
    pub(super) fn next(previous: Option<Self>, record: LeaseSpec, now: Instant) -> Self {
        match previous {
            Some(known) if known.record == record => known,
            _ => Self { record, since: now },
        }
    }

    /// Whether the holder has let the lease run out.
    fn has_run_out(&self, now: Instant, unless_said: Duration) -> bool {
        let said = self.record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        now.duration_since(self.since) >= said.map_or(unless_said, Duration::from_secs)
    }
}

impl Candidate {
    /// What to do about a lease. `wall` is only written down, for people to read and others to see a change.
    pub(super) fn decide(&self, seen: &Sighting, now: Instant, wall: Timestamp) -> Step {
        match holder(&seen.record) {
            Some(holder) if holder == self.identity => Step::Write(self.renewed(&seen.record, wall)),
            Some(holder) if !seen.has_run_out(now, self.lease) => Step::Wait(holder.to_owned()),
            _ => Step::Write(self.taken(&seen.record, wall)),
        }
    }

    /// The record that lets others take over at once, if the lease is this candidate's to give.
    pub(super) fn returned(&self, record: &LeaseSpec, wall: Timestamp) -> Option<LeaseSpec> {
        let is_ours = holder(record) == Some(&self.identity);
        is_ours.then(|| LeaseSpec { holder_identity: None, ..self.renewed(record, wall) })
    }

    fn renewed(&self, record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.lease.as_secs()).ok(),
            renew_time: Some(MicroTime(wall)),
            ..record.clone()
        }
    }

    fn taken(&self, record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            acquire_time: Some(MicroTime(wall)),
            lease_transitions: Some(record.lease_transitions.map_or(0, |before| before.saturating_add(1))),
            ..self.renewed(record, wall)
        }
    }
}

/// A holder without a name is none: so a lease is given back.
fn holder(record: &LeaseSpec) -> Option<&str> {
    record.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn me() -> Candidate {
        Candidate { identity: "me".to_owned(), lease: LEASE }
    }

    fn wall(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn record(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            acquire_time: Some(MicroTime(wall(1))),
            renew_time: Some(MicroTime(wall(renewed))),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn written(step: Step) -> LeaseSpec {
        match step {
            Step::Write(record) => record,
            Step::Wait(holder) => panic!("it waits for {holder}"),
        }
    }

    #[test]
    fn a_lease_that_nobody_has_held_is_taken() {
        let now = Instant::now();
        let seen = Sighting::next(None, LeaseSpec::default(), now);
        let taken = written(me().decide(&seen, now, wall(50)));
        assert_eq!(
            taken,
            LeaseSpec { lease_transitions: Some(0), acquire_time: taken.renew_time.clone(), ..record("me", 50) }
        );
    }

    #[test]
    fn a_lease_of_another_is_respected_for_as_long_as_it_says_from_when_it_was_seen() {
        let now = Instant::now();
        // Its times are of a clock that is far behind, which doesn't matter.
        let seen = Sighting::next(None, record("other", 1), now);
        let before = now + LEASE - Duration::from_millis(1);
        assert_eq!(me().decide(&seen, before, wall(1_000_000)), Step::Wait("other".to_owned()));
        let taken = written(me().decide(&seen, now + LEASE, wall(50)));
        assert_eq!(
            taken,
            LeaseSpec { lease_transitions: Some(4), acquire_time: taken.renew_time.clone(), ..record("me", 50) }
        );
    }

    #[test]
    fn each_renewal_of_another_is_respected_anew_and_an_unchanged_record_is_not() {
        let now = Instant::now();
        let first = Sighting::next(None, record("other", 1), now);
        let same = Sighting::next(Some(first), record("other", 1), now + Duration::from_secs(9));
        assert_eq!(same.since, now);
        let later = now + Duration::from_secs(14);
        let renewed = Sighting::next(Some(same), record("other", 3), later);
        assert_eq!(renewed.since, later);
        assert_eq!(me().decide(&renewed, now + LEASE, wall(50)), Step::Wait("other".to_owned()));
    }

    #[test]
    fn a_record_that_does_not_say_for_how_long_is_respected_as_long_as_our_own_would_be() {
        let now = Instant::now();
        for said in [None, Some(-1)] {
            let silent = LeaseSpec { lease_duration_seconds: said, ..record("other", 1) };
            let seen = Sighting::next(None, silent, now);
            assert_eq!(me().decide(&seen, now + LEASE / 2, wall(50)), Step::Wait("other".to_owned()));
            assert!(matches!(me().decide(&seen, now + LEASE, wall(50)), Step::Write(_)));
        }
    }

    #[test]
    fn our_own_lease_is_renewed_without_counting_as_a_change_of_hands() {
        let now = Instant::now();
        let seen = Sighting::next(None, record("me", 1), now);
        assert_eq!(me().decide(&seen, now, wall(50)), Step::Write(record("me", 50)));
    }

    #[test]
    fn what_is_given_back_is_taken_at_once() {
        let now = Instant::now();
        let returned = me().returned(&record("me", 1), wall(50)).unwrap();
        assert_eq!(returned.holder_identity, None);
        let other = Candidate { identity: "other".to_owned(), lease: LEASE };
        for free in [returned.clone(), LeaseSpec { holder_identity: Some(String::new()), ..returned }] {
            let taken = written(other.decide(&Sighting::next(None, free, now), now, wall(51)));
            assert_eq!((holder(&taken), taken.lease_transitions), (Some("other"), Some(4)));
        }
    }

    #[test]
    fn the_lease_of_another_is_never_given_back() {
        assert_eq!(me().returned(&record("other", 1), wall(50)), None);
        assert_eq!(me().returned(&LeaseSpec::default(), wall(50)), None);
    }
}
