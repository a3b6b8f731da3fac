//! The claim to a lease, and what may be done in its name.

use std::{
    collections::HashMap,
    future::{self, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::Poll,
};

use drover_core::vmgroup::recorded::BEHIND;
use kube::api::ObjectMeta;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

use super::clock::{Deadline, Moment};

/// The right to change what a lease is for, whenever this replica holds the lease. It can end and be gained again.
///
/// Clones are the same claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim(Option<Arc<Shared>>);

#[derive(Debug)]
struct Shared {
    term: watch::Sender<Term>,
    /// How many calls are being made in its name.
    calls: AtomicUsize,
    idle: Notify,
}

/// The number of one time of holding a lease. No two are the same, whatever lease they are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// The versions that objects had when a lease was gained. What is older was read before the last holder's last write.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions {
    /// By UID.
    pub of: HashMap<String, u64>,
    /// The version of the whole: what is older and not among them was gone by then.
    pub all: u64,
}

/// How things stand with a claim.
#[derive(Clone, Debug)]
enum Term {
    /// The lease is another's, or nobody's.
    Free,
    Held(Held),
}

#[derive(Clone, Debug)]
struct Held {
    epoch: Epoch,
    /// It is held until then, and longer if it is renewed.
    until: Deadline,
    /// Whether it is being given back: nothing new is begun.
    is_ending: bool,
    /// What has to have been read before anything is decided, and since when that is known. `None`: it isn't yet, and nothing is decided.
    reached: Option<(Arc<Versions>, Instant)>,
}

/// What is done in the name of one time of holding a lease. It is void as soon as that is over, also if the lease is gained again.
#[derive(Clone, Debug)]
pub(crate) struct Mandate {
    claim: Claim,
    epoch: Epoch,
    reached: Option<(Arc<Versions>, Instant)>,
}

/// A call that is being made. The lease is not given back before it is dropped.
#[derive(Debug)]
pub(crate) struct Call<'a>(&'a Mandate);

impl Epoch {
    /// One that was not before.
    pub(super) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

impl Claim {
    /// A claim that nobody contests.
    pub(crate) fn always() -> Self {
        Self(None)
    }

    /// A claim to a lease that isn't held.
    pub(super) fn free() -> Self {
        let term = watch::Sender::new(Term::Free);
        Self(Some(Arc::new(Shared { term, calls: AtomicUsize::new(0), idle: Notify::new() })))
    }

    /// One that holds until the test ends it.
    #[cfg(test)]
    pub(crate) fn until_ended() -> (Self, impl FnOnce()) {
        let claim = Self::free();
        let epoch = Epoch::next();
        claim.gain(epoch, Deadline::after(Moment::now(), std::time::Duration::from_hours(1)));
        claim.take_up(epoch, Arc::default());
        (claim.clone(), move || claim.end())
    }

    /// Whether the lease is held at this moment, by this machine's own clocks, and not being given back.
    pub(crate) fn holds(&self) -> bool {
        self.held().is_ok_and(|held| held.is_none_or(|held| !held.is_ending))
    }

    /// The right to act now, once it is known what has to have been read first.
    pub(crate) fn mandate(&self) -> Option<Mandate> {
        let held = self.held().ok()?;
        let Some(held) = held else {
            return Some(Mandate { claim: self.clone(), epoch: Epoch::default(), reached: None });
        };
        let reached = held.reached.filter(|_| !held.is_ending)?;
        Some(Mandate { claim: self.clone(), epoch: held.epoch, reached: Some(reached) })
    }

    /// How it is held. `None`: always.
    fn held(&self) -> Result<Option<Held>, NotHeld> {
        let Some(shared) = &self.0 else { return Ok(None) };
        // The clock is read while nobody renews.
        match &*shared.term.borrow() {
            Term::Held(held) if !held.until.has_passed(Moment::now()) => Ok(Some(held.clone())),
            _ => Err(NotHeld),
        }
    }

    /// The lease was gained.
    pub(super) fn gain(&self, epoch: Epoch, until: Deadline) {
        self.set(Term::Held(Held { epoch, until, is_ending: false, reached: None }));
    }

    /// The lease was renewed. Says whether the claim goes on: not if it was too late, or it was about to end, and those who watch it have
    /// seen that.
    pub(super) fn renew(&self, later: Deadline) -> bool {
        let Some(shared) = &self.0 else { return true };
        let mut is_in_time = false;
        shared.term.send_modify(|term| {
            if let Term::Held(held) = term
                && !held.is_ending
                && !held.until.has_passed(Moment::now())
            {
                held.until = later;
                is_in_time = true;
            }
        });
        is_in_time
    }

    /// What has to have been read is known, for this time of holding the lease.
    pub(crate) fn take_up(&self, epoch: Epoch, reached: Arc<Versions>) {
        let Some(shared) = &self.0 else { return };
        shared.term.send_modify(|term| {
            if let Term::Held(held) = term
                && held.epoch == epoch
            {
                held.reached = Some((reached, Instant::now()));
            }
        });
    }

    /// Nothing new is begun.
    pub(super) fn begin_to_end(&self) {
        let Some(shared) = &self.0 else { return };
        shared.term.send_modify(|term| {
            if let Term::Held(held) = term {
                held.is_ending = true;
            }
        });
    }

    /// It is over.
    pub(super) fn end(&self) {
        self.set(Term::Free);
    }

    fn set(&self, term: Term) {
        if let Some(shared) = &self.0 {
            shared.term.send_replace(term);
        }
    }

    /// Whether no call is being made in its name.
    pub(super) fn is_idle(&self) -> bool {
        self.0.as_ref().is_none_or(|shared| shared.calls.load(Ordering::SeqCst) == 0)
    }

    /// Returns once no call is being made in its name.
    pub(super) async fn idle(&self) {
        let Some(shared) = &self.0 else { return };
        loop {
            let idle = shared.idle.notified();
            if self.is_idle() {
                return;
            }
            idle.await;
        }
    }
}

struct NotHeld;

impl Mandate {
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Whether something may be begun at this moment.
    pub(crate) fn holds(&self) -> bool {
        self.stands(|held| !held.is_ending)
    }

    fn stands(&self, is_so: impl Fn(&Held) -> bool) -> bool {
        let held = self.claim.held();
        held.is_ok_and(|held| held.is_none_or(|held| held.epoch == self.epoch && is_so(&held)))
    }

    /// Whether it is one of this claim.
    pub(crate) fn is_of(&self, claim: &Claim) -> bool {
        match (&self.claim.0, &claim.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether an object was read before the last holder's last write. No watch is behind for long, whatever the versions say: those of
    /// a cluster that was restored from a backup begin anew.
    pub(crate) fn is_behind(&self, object: &ObjectMeta) -> bool {
        let Some((reached, since)) = &self.reached else { return false };
        if since.elapsed() > BEHIND {
            return false;
        }
        let least = object.uid.as_ref().and_then(|uid| reached.of.get(uid)).copied().unwrap_or(reached.all);
        let is = object.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok());
        is.is_some_and(|is| is < least)
    }

    /// Does something for as long as it may be done. What it waits for when that ends is dropped.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.until_ended(work, |held| !held.is_ending).await
    }

    /// Begins a call that changes something, if it may be made. The lease is not given back before the call is dropped.
    pub(crate) fn begin(&self) -> Option<Call<'_>> {
        if let Some(shared) = &self.claim.0 {
            // First of all, so that who ends the claim after this waits for it.
            shared.calls.fetch_add(1, Ordering::SeqCst);
        }
        let call = Call(self);
        self.holds().then_some(call)
    }

    /// Each time that the work could go on, and so right before each word of its own, the clocks are looked at first: a machine that was
    /// stopped for long goes on with nothing.
    async fn until_ended<T>(&self, work: impl Future<Output = T>, is_so: impl Fn(&Held) -> bool) -> Option<T> {
        let Some(shared) = &self.claim.0 else { return Some(work.await) };
        let mut work = pin!(work);
        let work = poll_fn(|context| {
            if !self.stands(&is_so) {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        });
        tokio::select! {
            biased;
            outcome = work => outcome,
            () = over(shared, self.epoch, &is_so) => None,
        }
    }
}

/// Returns once a time of holding a lease is over.
async fn over(shared: &Shared, epoch: Epoch, is_so: impl Fn(&Held) -> bool) {
    let mut term = shared.term.subscribe();
    loop {
        let until = match &*term.borrow_and_update() {
            Term::Held(held) if held.epoch == epoch && is_so(held) => held.until,
            _ => return,
        };
        if until.has_passed(Moment::now()) {
            return;
        }
        tokio::select! {
            // A renewal that came in time counts, even where it is noticed late.
            biased;
            changed = term.changed() => if changed.is_err() { future::pending::<()>().await },
            () = sleep_until(until.steady()) => {}
        }
    }
}

impl Call<'_> {
    /// Makes the call. `None`: the lease has run out meanwhile, and nobody knows whether it was made.
    pub(crate) async fn make<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        self.0.until_ended(call, |_| true).await
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(shared) = &self.0.claim.0
            && shared.calls.fetch_sub(1, Ordering::SeqCst) == 1
        {
            shared.idle.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, sleep, timeout};

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    fn gained(claim: &Claim, time: Duration) -> Mandate {
        let epoch = Epoch::next();
        claim.gain(epoch, Deadline::after(Moment::now(), time));
        claim.take_up(epoch, Arc::default());
        claim.mandate().unwrap()
    }

    #[tokio::test]
    async fn a_claim_that_nobody_contests_always_holds() {
        let mandate = Claim::always().mandate().unwrap();
        assert!(mandate.holds() && mandate.begin().is_some());
        assert_eq!(mandate.during(async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn a_claim_ends_by_itself_and_drops_what_is_done_in_its_name() {
        let claim = Claim::free();
        assert!(!claim.holds() && claim.mandate().is_none());
        let mandate = gained(&claim, SOON);
        assert!(claim.holds() && mandate.holds());
        assert_eq!(mandate.during(future::pending::<()>()).await, None);
        assert!(!claim.holds() && !mandate.holds() && mandate.begin().is_none());
        assert!(!claim.renew(Deadline::after(Moment::now(), SOON)), "those who watched have seen it end");
    }

    #[tokio::test]
    async fn what_was_begun_before_a_loss_does_not_go_on_after_the_lease_is_gained_again() {
        let claim = Claim::free();
        let first = gained(&claim, Duration::from_mins(1));
        claim.end();
        let second = gained(&claim, Duration::from_mins(1));
        assert!(!first.holds() && first.begin().is_none() && second.holds());
        assert_eq!(first.during(async { 7 }).await, None, "it is not even begun");
        assert_ne!(first.epoch(), second.epoch());
    }

    #[tokio::test]
    async fn nothing_is_decided_before_it_is_known_what_has_to_have_been_read() {
        let claim = Claim::free();
        let epoch = Epoch::next();
        claim.gain(epoch, Deadline::after(Moment::now(), Duration::from_mins(1)));
        assert!(claim.holds() && claim.mandate().is_none());
        claim.take_up(Epoch::next(), Arc::default());
        assert!(claim.mandate().is_none(), "that was of another time");
        claim.take_up(epoch, Arc::new(Versions { of: HashMap::from([("a".to_owned(), 7)]), all: 9 }));
        let mandate = claim.mandate().unwrap();
        let is_behind = |uid: &str, version: &str| {
            let (uid, resource_version) = (Some(uid.to_owned()), Some(version.to_owned()));
            mandate.is_behind(&ObjectMeta { uid, resource_version, ..ObjectMeta::default() })
        };
        assert!(is_behind("a", "6") && !is_behind("a", "7") && !is_behind("a", "10"));
        assert!(is_behind("b", "8") && !is_behind("b", "9"), "it was gone, or has been made since");
        tokio::time::pause();
        tokio::time::advance(BEHIND + SOON).await;
        assert!(!is_behind("a", "6"), "versions that begin anew keep nobody waiting for ever");
    }

    #[tokio::test]
    async fn a_call_that_is_being_made_is_waited_for_and_no_other_is_begun() {
        let claim = Claim::free();
        let mandate = gained(&claim, Duration::from_mins(1));
        let call = mandate.begin().unwrap();
        claim.begin_to_end();
        assert!(!claim.holds() && mandate.begin().is_none() && !claim.is_idle());
        assert!(!claim.renew(Deadline::after(Moment::now(), SOON)), "it has to be gained anew");
        assert_eq!(mandate.during(future::pending::<()>()).await, None, "what only waits is dropped");
        assert!(timeout(SOON, claim.idle()).await.is_err());
        assert_eq!(call.make(async { sleep(SOON).await }).await, Some(()));
        drop(call);
        claim.idle().await;
    }

    #[tokio::test]
    async fn a_call_is_cut_off_when_the_lease_runs_out_and_not_when_it_is_renewed() {
        let claim = Claim::free();
        let mandate = gained(&claim, SOON);
        assert!(claim.renew(Deadline::after(Moment::now(), SOON * 5)));
        let call = mandate.begin().unwrap();
        assert_eq!(call.make(sleep(SOON * 2)).await, Some(()));
        assert_eq!(call.make(future::pending::<()>()).await, None);
    }
}
