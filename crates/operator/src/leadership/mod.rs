//! Which of several operators works: the one that holds a Lease, for as long as it can be sure that it does.
//!
//! The lease is renewed every two seconds. An operator that can't renew it stops by its own clock five seconds before
//! another may take over by its own, so it doesn't matter what time either thinks it is.

mod claim;
mod election;
#[cfg(test)]
mod tests;

use std::{
    env,
    hash::{BuildHasher, RandomState},
};

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Config,
    api::{ObjectMeta, PostParams},
};
use tokio::{
    sync::{oneshot, watch},
    task::JoinHandle,
    time::{Duration, Instant, sleep_until, timeout, timeout_at},
};
use tracing::{info, warn};

pub(crate) use claim::{Claim, Loss};

use claim::Term;
use election::{Candidate, Sighting, Step};

/// The lease's name, in the operator's own namespace.
pub(crate) const LEASE: &str = "drover.vm.codeconnect.vmworld.com";

/// How an election is timed.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// For how long others respect a renewal, from when they see it.
    lease: Duration,
    /// For how long the holder relies on one, from when it asked for it.
    deadline: Duration,
    /// How often the lease is looked at, and renewed.
    period: Duration,
    /// How long one look and renewal may take.
    attempt: Duration,
}

/// The times of Kubernetes' own controllers.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(15),
    deadline: Duration::from_secs(10),
    period: Duration::from_secs(2),
    attempt: Duration::from_secs(5),
};

/// An operator's part in the election.
#[derive(Debug)]
pub(crate) struct Leadership {
    claim: Claim,
    keeper: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Leadership {
    /// That of an operator that is alone, and needs no lease.
    pub(crate) fn alone() -> Self {
        Self { claim: Claim::always(), keeper: None }
    }

    /// Begins to seek the lease of the cluster, and to keep it from then on.
    pub(crate) fn seek(config: &Config) -> Result<Self, kube::Error> {
        let namespace = set("POD_NAMESPACE").unwrap_or_else(|| config.default_namespace.clone());
        let candidate = Candidate { identity: identity(), lease: TIMING.lease };
        info!(lease = LEASE, namespace, identity = candidate.identity, "seeking the lease");
        let leases = Api::namespaced(Client::try_from(prompt(config.clone()))?, &namespace);
        Ok(Self::with(leases, candidate, TIMING))
    }

    fn with(leases: Api<Lease>, candidate: Candidate, timing: Timing) -> Self {
        let (term, observed) = watch::channel(Term::Awaited);
        let (stop, stopped) = oneshot::channel();
        let keeper = Keeper { leases, candidate, timing, seen: None, term };
        let task = tokio::spawn(keeper.keep(stopped));
        Self { claim: Claim::on(observed), keeper: Some((stop, task)) }
    }

    /// The claim to ask before anything is changed.
    pub(crate) fn claim(&self) -> Claim {
        self.claim.clone()
    }

    /// Ends the claim and gives the lease back, so that another takes over at once.
    pub(crate) async fn release(self) {
        if let Some((stop, task)) = self.keeper {
            // A keeper that has lost the claim is no longer there.
            let _ = stop.send(());
            let _ = task.await;
        }
    }
}

/// Retries would outlast the lease, and an attempt is made again anyway.
fn prompt(mut config: Config) -> Config {
    config.default_retry = false;
    config.connect_timeout = Some(TIMING.attempt);
    config.read_timeout = Some(TIMING.attempt);
    config.write_timeout = Some(TIMING.attempt);
    // Without this, the time between two attempts would count as well.
    config.reset_reader_on_write = true;
    config
}

/// A name that people can find the operator by, and that no other and no later run of it has.
fn identity() -> String {
    let host = || hostname::get().map_or_else(|_| "drover".to_owned(), |name| name.to_string_lossy().into_owned());
    let name = set("POD_NAME").unwrap_or_else(host);
    format!("{name}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

fn set(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Seeks the lease, and renews it, until it is lost or given back.
struct Keeper {
    leases: Api<Lease>,
    candidate: Candidate,
    timing: Timing,
    seen: Option<Sighting>,
    term: watch::Sender<Term>,
}

/// How an attempt at the lease ended.
#[derive(Debug)]
enum Outcome {
    Written,
    HeldBy(String),
    Failed,
}

impl Keeper {
    async fn keep(mut self, mut stop: oneshot::Receiver<()>) {
        let mut ahead = None;
        loop {
            let start = Instant::now();
            let outcome = tokio::select! {
                outcome = self.attempt(start) => outcome,
                _ = &mut stop => return self.give_back().await,
            };
            self.tell(&outcome, &mut ahead);
            let term = next(&self.term.borrow(), outcome, start + self.timing.deadline, Instant::now());
            let is_over = matches!(term, Term::Over(_));
            self.term.send_replace(term);
            if is_over {
                return;
            }
            tokio::select! {
                () = sleep_until(start + self.timing.period) => {}
                _ = &mut stop => return self.give_back().await,
            }
        }
    }

    /// Looks at the lease, and writes it if it is, or may become, this operator's.
    async fn attempt(&mut self, start: Instant) -> Outcome {
        let until = match *self.term.borrow() {
            // What comes later comes too late.
            Term::Until(until) => until.min(start + self.timing.attempt),
            _ => start + self.timing.attempt,
        };
        match timeout_at(until, self.look_and_write()).await {
            Ok(Ok(outcome)) => outcome,
            // Somebody was faster. Who it was is seen at the next look.
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Outcome::Failed,
            Ok(Err(error)) => {
                warn!(lease = LEASE, %error, "the lease could not be read and written");
                Outcome::Failed
            }
            Err(_) => {
                warn!(lease = LEASE, "the API server did not answer about the lease in time");
                Outcome::Failed
            }
        }
    }

    async fn look_and_write(&mut self) -> Result<Outcome, kube::Error> {
        let lease = self.leases.get_opt(LEASE).await?;
        let record = lease.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let now = Instant::now();
        let seen = Sighting::next(self.seen.take(), record, now);
        let step = self.candidate.decide(&seen, now, Timestamp::now());
        self.seen = Some(seen);
        match step {
            Step::Wait(holder) => Ok(Outcome::HeldBy(holder)),
            Step::Write(record) => self.write(lease, record).await.map(|()| Outcome::Written),
        }
    }

    /// Writes the lease if nobody has written it since it was read.
    async fn write(&self, lease: Option<Lease>, record: LeaseSpec) -> Result<(), kube::Error> {
        let options = PostParams::default();
        if let Some(lease) = lease {
            // It still has the version that it was read at, and only that is replaced.
            let lease = Lease { spec: Some(record), ..lease };
            self.leases.replace(LEASE, &options, &lease).await?;
        } else {
            let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
            self.leases.create(&options, &Lease { metadata, spec: Some(record) }).await?;
        }
        Ok(())
    }

    async fn give_back(self) {
        // First of all, nothing is done any more in its name.
        self.term.send_replace(Term::Over(Loss::Returned));
        let returned = timeout(self.timing.attempt, async {
            let Some(lease) = self.leases.get_opt(LEASE).await? else { return Ok(()) };
            let record = lease.spec.clone().unwrap_or_default();
            match self.candidate.returned(&record, Timestamp::now()) {
                Some(record) => self.write(Some(lease), record).await,
                None => Ok(()),
            }
        });
        match returned.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(lease = LEASE, %error, "the lease could not be given back; it runs out by itself"),
            Err(_) => warn!(lease = LEASE, "the lease could not be given back in time; it runs out by itself"),
        }
    }

    /// Says once who is ahead, and that it is this one's turn.
    fn tell(&self, outcome: &Outcome, ahead: &mut Option<String>) {
        match outcome {
            Outcome::HeldBy(holder) if ahead.as_ref() != Some(holder) => {
                info!(lease = LEASE, holder, "another operator holds the lease; this one waits");
                *ahead = Some(holder.clone());
            }
            Outcome::Written if *self.term.borrow() == Term::Awaited => {
                info!(lease = LEASE, identity = self.candidate.identity, "this operator holds the lease");
            }
            _ => {}
        }
    }
}

/// How things stand after an attempt. `renewed` is until when the claim can be relied on if it was successful.
fn next(term: &Term, outcome: Outcome, renewed: Instant, now: Instant) -> Term {
    match (term, outcome) {
        // Those who watch the claim have seen it end, so it doesn't come back.
        (term, _) if term.has_lapsed(now) => Term::Over(Loss::Lapsed),
        (Term::Awaited | Term::Until(_), Outcome::Written) => Term::Until(renewed),
        (Term::Until(_), Outcome::HeldBy(holder)) => Term::Over(Loss::Taken(holder)),
        (term, _) => term.clone(),
    }
}
