//! Logins that vCenter has refused, and when they may be tried again.
//!
//! vCenter locks an account after a few failures, for everybody who uses it. On the other hand it refuses a right password too
//! while its directory is out of reach, so that none is refused for good.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::Error;

/// How often refused credentials are tried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// After a refusal, no account is tried sooner than this.
    pub any: Duration,
    /// The same credentials are not tried sooner than this.
    pub same: Duration,
}

/// The last refusal of each account.
#[derive(Debug)]
pub(super) struct Refusals {
    pauses: Pauses,
    by_account: HashMap<String, Refusal>,
}

#[derive(Debug)]
struct Refusal {
    at: Instant,
    /// Which version of the credentials it was.
    version: u64,
    error: Arc<Error>,
}

impl Refusals {
    pub(super) fn new(pauses: Pauses) -> Self {
        Self { pauses, by_account: HashMap::new() }
    }

    /// Until when this version of an account's credentials may not be tried, and why, if vCenter has refused the account.
    pub(super) fn until(&self, account: &str, version: u64) -> Option<(Instant, &Arc<Error>)> {
        let Refusal { at, version: refused, error } = self.by_account.get(account)?;
        let pause = if *refused == version { self.pauses.same } else { self.pauses.any };
        Some((*at + pause, error))
    }

    /// vCenter has refused an account.
    pub(super) fn note(&mut self, account: &str, version: u64, error: Arc<Error>) {
        let at = Instant::now();
        self.by_account.retain(|_, refusal| refusal.at + self.pauses.same > at);
        self.by_account.insert(account.to_owned(), Refusal { at, version, error });
    }

    /// vCenter has let an account in.
    pub(super) fn forget(&mut self, account: &str) {
        self.by_account.remove(account);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn refusals() -> Refusals {
        Refusals::new(Pauses { any: MINUTE, same: 15 * MINUTE })
    }

    fn wait(refusals: &Refusals, account: &str, version: u64) -> Duration {
        let until = refusals.until(account, version).map(|(until, _)| until);
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_tried_every_quarter_of_an_hour_and_something_new_after_a_minute() {
        let mut refusals = refusals();
        assert_eq!(wait(&refusals, "jane", 0), Duration::ZERO);
        refusals.note("jane", 0, Arc::new(Error::CollectorEnded));
        assert_eq!(wait(&refusals, "jane", 0), 15 * MINUTE);
        assert_eq!(wait(&refusals, "jane", 1), MINUTE);
        advance(MINUTE).await;
        assert_eq!(wait(&refusals, "jane", 7), Duration::ZERO, "however often it was written meanwhile");
        assert_eq!(wait(&refusals, "jane", 0), 14 * MINUTE);

        refusals.note("jane", 7, Arc::new(Error::CollectorEnded));
        assert_eq!((wait(&refusals, "jane", 7), wait(&refusals, "jane", 8)), (15 * MINUTE, MINUTE));
        refusals.forget("jane");
        assert_eq!(wait(&refusals, "jane", 7), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn one_account_does_not_wait_for_another_and_comes_back_to_its_own_pause() {
        let mut refusals = refusals();
        refusals.note("jane", 0, Arc::new(Error::CollectorEnded));
        assert_eq!(wait(&refusals, "joe", 1), Duration::ZERO);
        refusals.note("joe", 1, Arc::new(Error::CollectorEnded));
        assert_eq!(wait(&refusals, "jane", 2), MINUTE);
        advance(15 * MINUTE).await;
        refusals.note("joe", 3, Arc::new(Error::CollectorEnded));
        assert_eq!(refusals.by_account.len(), 1, "what doesn't matter any more is forgotten");
    }
}
