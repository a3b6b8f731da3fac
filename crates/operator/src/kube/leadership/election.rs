//! A lease as it is seen, and the records that a replica writes into it.

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

    /// Whether the holder has let the lease run out. `own` is for how long our own leases are respected: what a record says is believed
    /// from that to four times as much, because anybody who may write leases may write anything there.
    pub(super) fn has_run_out(&self, now: Instant, own: Duration) -> bool {
        let said = self.record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let respected = said.map_or(own, |said| Duration::from_secs(said).clamp(own, own * 4));
        now.duration_since(self.since) >= respected
    }
}

impl Candidate {
    /// The record that lets others take over at once, if the lease is this candidate's to give.
    pub(super) fn returned(&self, record: &LeaseSpec, wall: Timestamp) -> Option<LeaseSpec> {
        let is_ours = holder(record) == Some(&self.identity);
        is_ours.then(|| LeaseSpec { holder_identity: None, ..self.renewed(record, wall) })
    }

    pub(super) fn renewed(&self, record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(self.lease.as_secs()).ok(),
            renew_time: Some(MicroTime(wall)),
            ..record.clone()
        }
    }

    pub(super) fn taken(&self, record: &LeaseSpec, wall: Timestamp) -> LeaseSpec {
        LeaseSpec {
            acquire_time: Some(MicroTime(wall)),
            lease_transitions: Some(record.lease_transitions.map_or(0, |before| before.saturating_add(1))),
            ..self.renewed(record, wall)
        }
    }
}

/// A holder without a name is none: so a lease is given back.
pub(super) fn holder(record: &LeaseSpec) -> Option<&str> {
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

    #[test]
    fn a_lease_that_is_taken_says_who_since_when_and_how_often_it_has_changed_hands() {
        let first = me().taken(&LeaseSpec::default(), wall(50));
        assert_eq!(
            first,
            LeaseSpec { lease_transitions: Some(0), acquire_time: first.renew_time.clone(), ..record("me", 50) }
        );
        let next = me().taken(&record("other", 1), wall(50));
        assert_eq!(
            next,
            LeaseSpec { lease_transitions: Some(4), acquire_time: next.renew_time.clone(), ..record("me", 50) }
        );
        assert_eq!(me().renewed(&record("me", 1), wall(50)), record("me", 50));
    }

    #[test]
    fn a_lease_of_another_is_respected_for_as_long_as_it_says_from_when_it_was_seen() {
        let now = Instant::now();
        // Its times are of a clock that is far behind, which doesn't matter.
        let seen = Sighting::next(None, record("other", 1), now);
        assert!(!seen.has_run_out(now + LEASE - Duration::from_millis(1), LEASE / 2));
        assert!(seen.has_run_out(now + LEASE, LEASE / 2));
    }

    #[test]
    fn a_record_that_says_very_little_or_very_much_is_respected_within_bounds() {
        let now = Instant::now();
        for (said, respected) in [(1, LEASE), (i32::MAX, LEASE * 4)] {
            let odd = LeaseSpec { lease_duration_seconds: Some(said), ..record("other", 1) };
            let seen = Sighting::next(None, odd, now);
            assert!(!seen.has_run_out(now + respected - Duration::from_millis(1), LEASE), "{said}");
            assert!(seen.has_run_out(now + respected, LEASE), "{said}");
        }
    }

    #[test]
    fn each_renewal_of_another_is_respected_anew_and_an_unchanged_record_is_not() {
        let now = Instant::now();
        let first = Sighting::next(None, record("other", 1), now);
        let same = Sighting::next(Some(first), record("other", 1), now + Duration::from_secs(9));
        assert_eq!(same.since, now);
        let later = now + Duration::from_secs(14);
        let renewed = Sighting::next(Some(same), record("other", 3), later);
        assert!(renewed.since == later && !renewed.has_run_out(now + LEASE, LEASE));
    }

    #[test]
    fn a_record_that_does_not_say_for_how_long_is_respected_as_long_as_our_own_would_be() {
        let now = Instant::now();
        for said in [None, Some(-1)] {
            let silent = LeaseSpec { lease_duration_seconds: said, ..record("other", 1) };
            let seen = Sighting::next(None, silent, now);
            assert!(!seen.has_run_out(now + LEASE / 2, LEASE) && seen.has_run_out(now + LEASE, LEASE));
        }
    }

    #[test]
    fn what_is_given_back_is_nobodys_and_the_lease_of_another_is_never_given_back() {
        let returned = me().returned(&record("me", 1), wall(50)).unwrap();
        assert_eq!((holder(&returned), returned.lease_transitions), (None, Some(3)));
        assert_eq!(holder(&LeaseSpec { holder_identity: Some(String::new()), ..returned }), None);
        assert_eq!(me().returned(&record("other", 1), wall(50)), None);
        assert_eq!(me().returned(&LeaseSpec::default(), wall(50)), None);
    }
}
