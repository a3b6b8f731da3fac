//! The claim to be the one operator that works.

use std::future;

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// The right to change the world. It ends by itself: whoever is about to change something asks [`Claim::holds`] first.
///
/// Clones are the same claim.
#[derive(Clone, Debug)]
pub(crate) struct Claim(Option<watch::Receiver<Term>>);

/// How things stand with a claim.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    /// It is not held yet.
    Awaited,
    /// It is held until then, and longer if it is renewed.
    Until(Instant),
    /// It was held or awaited, and never will be again.
    Over(Loss),
}

/// Why a claim has ended.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Loss {
    /// The API server was away for too long.
    #[error("it could not be renewed in time")]
    Lapsed,
    /// Somebody else holds the lease.
    #[error("{0} has taken it")]
    Taken(String),
    /// It was given back.
    #[error("it was given back")]
    Returned,
}

impl Claim {
    /// A claim that nobody contests.
    pub(crate) fn always() -> Self {
        Self(None)
    }

    /// One that holds until the test ends it.
    #[cfg(test)]
    pub(crate) fn until_ended() -> (Self, impl FnOnce()) {
        let (keeper, term) = watch::channel(Term::Until(Instant::now() + std::time::Duration::from_hours(1)));
        let end = move || keeper.send_replace(Term::Over(Loss::Lapsed));
        (Self::on(term), move || drop(end()))
    }

    pub(super) fn on(term: watch::Receiver<Term>) -> Self {
        Self(Some(term))
    }

    /// Whether it is held at this moment, by this machine's own clock.
    pub(crate) fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|term| term.borrow().holds(Instant::now()))
    }

    /// Returns once it is held. It may be for long.
    pub(crate) async fn acquired(&self) {
        let Some(term) = &self.0 else { return };
        if term.clone().wait_for(|term| term.holds(Instant::now())).await.is_err() {
            // Nobody seeks it any more.
            future::pending::<()>().await;
        }
    }

    /// Returns once it has ended, with the reason.
    pub(crate) async fn lost(&self) -> Loss {
        let Some(term) = &self.0 else { return future::pending().await };
        let mut term = term.clone();
        loop {
            let until = match &*term.borrow_and_update() {
                Term::Awaited => None,
                Term::Until(until) => Some(*until),
                Term::Over(loss) => return loss.clone(),
            };
            tokio::select! {
                // A renewal that came in time counts, even where it is noticed late.
                biased;
                Ok(()) = term.changed() => {}
                () = passed(until) => return Loss::Lapsed,
            }
        }
    }
}

impl Term {
    pub(super) fn holds(&self, now: Instant) -> bool {
        matches!(self, Self::Until(until) if now < *until)
    }

    /// Whether it was held, and the time for renewing it is over.
    pub(super) fn has_lapsed(&self, now: Instant) -> bool {
        matches!(self, Self::Until(until) if *until <= now)
    }
}

async fn passed(until: Option<Instant>) {
    match until {
        Some(until) => sleep_until(until).await,
        None => future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, timeout};

    use super::*;

    const SOON: Duration = Duration::from_millis(100);

    #[test]
    fn a_term_holds_until_its_end_and_not_at_it() {
        let now = Instant::now();
        assert!(Term::Until(now + SOON).holds(now));
        assert!(!Term::Until(now).holds(now) && Term::Until(now).has_lapsed(now));
        for term in [Term::Awaited, Term::Over(Loss::Lapsed)] {
            assert!(!term.holds(now) && !term.has_lapsed(now), "{term:?}");
        }
    }

    #[tokio::test]
    async fn a_claim_that_nobody_contests_always_holds() {
        let claim = Claim::always();
        claim.acquired().await;
        assert!(claim.holds());
        assert!(timeout(SOON, claim.lost()).await.is_err());
    }

    #[tokio::test]
    async fn a_claim_ends_by_itself_even_if_nobody_is_left_to_end_it() {
        let (keeper, term) = watch::channel(Term::Awaited);
        let claim = Claim::on(term);
        assert!(!claim.holds());
        let end = Instant::now() + SOON;
        keeper.send(Term::Until(end)).unwrap();
        claim.acquired().await;
        drop(keeper);
        assert_eq!(claim.lost().await, Loss::Lapsed);
        assert!(end <= Instant::now() && !claim.holds());
    }

    #[tokio::test]
    async fn a_renewed_claim_is_not_lost_and_a_taken_one_is_at_once() {
        let (keeper, term) = watch::channel(Term::Until(Instant::now() + SOON));
        let claim = Claim::on(term);
        let lost = tokio::spawn({
            let claim = claim.clone();
            async move { claim.lost().await }
        });
        tokio::task::yield_now().await;
        keeper.send(Term::Until(Instant::now() + Duration::from_mins(1))).unwrap();
        tokio::time::sleep(SOON * 2).await;
        assert!(claim.holds() && !lost.is_finished());
        keeper.send(Term::Over(Loss::Taken("other".to_owned()))).unwrap();
        assert_eq!(lost.await.unwrap(), Loss::Taken("other".to_owned()));
    }
}
