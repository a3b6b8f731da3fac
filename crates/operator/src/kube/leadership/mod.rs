//! Which of several replicas works on what: the one that holds a Lease, for as long as it can be sure that it does.
//!
//! There is one Lease for each vCenter, and a general one for what is in none. Replicas share them evenly. Each lease is renewed every two
//! seconds. A replica that can't renew one stops by its own clock five seconds before another may take over by its own, so it doesn't
//! matter what time either thinks it is. That a replica is there at all, a further Lease says that it renews.

mod claim;
mod clock;
mod election;
mod handover;
mod keeper;
mod ledger;
mod names;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    env,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Client, Config};
use tokio::{
    sync::{Notify, mpsc, oneshot},
    task::JoinHandle,
    time::Duration,
};
use tracing::info;

pub(crate) use claim::{Claim, Epoch, Mandate, Versions};
pub(crate) use names::LeaseScope;

use crate::loops::{Loops, Running};
use election::Candidate;
use keeper::Keeper;
use ledger::Ledger;

/// How elections are timed.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// For how long others respect a renewal, from when they see it.
    lease: Duration,
    /// For how long the holder relies on one, from when it asked for it.
    deadline: Duration,
    /// How often a lease is renewed.
    period: Duration,
    /// How often all leases are looked at, if no watch tells that one has changed hands.
    look: Duration,
    /// How long one look and renewal may take.
    attempt: Duration,
    /// How long a free lease is left to the one whose turn it is.
    turn: Duration,
    /// How long a lease is kept from one who has not taken it in its turn.
    keep: Duration,
    /// How long a replica has to have been there before others give leases to it.
    settle: Duration,
}

/// The times of Kubernetes' own controllers, and those that these have no use for.
const TIMING: Timing = Timing {
    lease: Duration::from_secs(15),
    deadline: Duration::from_secs(10),
    period: Duration::from_secs(2),
    look: Duration::from_secs(1),
    attempt: Duration::from_secs(5),
    turn: Duration::from_secs(8),
    keep: Duration::from_mins(1),
    settle: Duration::from_secs(10),
};

/// What has become of a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Gained(LeaseScope, Epoch),
    Lost(LeaseScope),
}

/// The leases that there are to be, and the claims to them. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Leases(Arc<LeaseTable>);

#[derive(Debug)]
struct LeaseTable {
    /// Whether there are others who want them.
    is_contested: bool,
    claims: Mutex<BTreeMap<LeaseScope, Claim>>,
    /// Those that are to be there, with the objects that they go with.
    wanted: Mutex<BTreeMap<LeaseScope, Option<OwnerReference>>>,
    changed: Notify,
}

impl Leases {
    fn new(is_contested: bool) -> Self {
        let wanted = Mutex::new(BTreeMap::from([(LeaseScope::General, None)]));
        Self(Arc::new(LeaseTable { is_contested, claims: Mutex::default(), wanted, changed: Notify::new() }))
    }

    /// Leases that nobody else wants.
    pub(crate) fn uncontested() -> Self {
        Self::new(false)
    }

    /// The claim to a lease, whether or not it is there yet.
    pub(crate) fn claim(&self, scope: &LeaseScope) -> Claim {
        if !self.0.is_contested {
            return Claim::always();
        }
        lock(&self.0.claims).entry(scope.clone()).or_insert_with(Claim::free).clone()
    }

    /// There is a vCenter of this name. Its lease goes with its owner.
    pub(crate) fn declare(&self, vcenter: &str, owner: Option<OwnerReference>) {
        let before = lock(&self.0.wanted).insert(LeaseScope::VCenter(vcenter.to_owned()), owner);
        if before.is_none() {
            self.look();
        }
    }

    /// There is no vCenter of this name any more.
    pub(crate) fn dismiss(&self, vcenter: &str) {
        lock(&self.0.wanted).remove(&LeaseScope::VCenter(vcenter.to_owned()));
        self.look();
    }

    /// The names of the leases that there are to be, and whether each is held by this replica.
    pub(crate) fn held(&self) -> Vec<(String, bool)> {
        self.wanted().keys().map(|scope| (scope.lease(), self.claim(scope).holds())).collect()
    }

    /// All claims, by the names of their leases.
    fn claims(&self) -> BTreeMap<String, Claim> {
        lock(&self.0.claims).iter().map(|(scope, claim)| (scope.lease(), claim.clone())).collect()
    }

    fn wanted(&self) -> BTreeMap<LeaseScope, Option<OwnerReference>> {
        lock(&self.0.wanted).clone()
    }

    /// Has all leases looked at soon.
    fn look(&self) {
        self.0.changed.notify_one();
    }

    async fn are_to_be_looked_at(&self) {
        self.0.changed.notified().await;
    }

    fn owner(&self, lease: &str) -> Option<OwnerReference> {
        self.wanted().into_iter().find(|(scope, _)| scope.lease() == lease).and_then(|(_, owner)| owner)
    }

    /// The claim to the lease of this name, also if it isn't wanted any more.
    fn scope_named(&self, lease: &str) -> Option<(LeaseScope, Claim)> {
        let named = self.wanted().into_keys().find(|scope| scope.lease() == lease);
        let scope = named.or_else(|| lock(&self.0.claims).keys().find(|scope| scope.lease() == lease).cloned())?;
        let claim = self.claim(&scope);
        Some((scope, claim))
    }

    fn claim_named(&self, lease: &str) -> Option<Claim> {
        self.scope_named(lease).map(|(_, claim)| claim)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A replica's part in the elections.
pub(crate) struct Leadership {
    leases: Leases,
    keeper: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    _watch: Option<Running>,
}

impl Leadership {
    /// That of a replica which has no others beside it.
    pub(crate) fn alone() -> Self {
        Self { leases: Leases::uncontested(), keeper: None, _watch: None }
    }

    /// Begins to seek leases in the operator's own namespace. What becomes of them is told to `changes`.
    pub(crate) fn seek(
        config: &Config,
        kube: &Client,
        namespace: &str,
        loops: &Loops,
        changes: mpsc::UnboundedSender<Change>,
    ) -> Result<Self, kube::Error> {
        let candidate = Candidate { identity: identity(), lease: TIMING.lease };
        info!(namespace, identity = candidate.identity, "Seeking Leases");
        let api = Api::namespaced(Client::try_from(prompt(config.clone()))?, namespace);
        let me = candidate.identity.clone();
        let leadership = Self::with(api, candidate, TIMING, loops, changes);
        let (leases, watched) = (leadership.leases(), Api::namespaced(kube.clone(), namespace));
        let watch = loops.start("lease watch", |pulse| handover::watch(watched, leases, me, pulse));
        Ok(Self { _watch: Some(watch), ..leadership })
    }

    fn with(
        api: Api<Lease>,
        candidate: Candidate,
        timing: Timing,
        loops: &Loops,
        changes: mpsc::UnboundedSender<Change>,
    ) -> Self {
        let leases = Leases::new(true);
        let (stop, stopped) = oneshot::channel();
        let (objects, told) = (BTreeMap::new(), BTreeMap::new());
        let ledger = Ledger::new(candidate, timing);
        let keeper = Keeper { api, ledger, timing, leases: leases.clone(), changes, objects, told };
        #[expect(clippy::disallowed_methods, reason = "it ends last, when Leases are given back, and is awaited then")]
        let task = tokio::spawn(keeper.keep(stopped, loops.pulse("leases")));
        Self { leases, keeper: Some((stop, task)), _watch: None }
    }

    pub(crate) fn leases(&self) -> Leases {
        self.leases.clone()
    }

    /// Ends all claims and gives the leases back, so that others take over at once. What is half said to a vCenter is said to its end.
    pub(crate) async fn release(self) {
        if let Some((stop, task)) = self.keeper {
            // A keeper that has ended because of a bug is no longer there.
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

/// A name that people can find the replica by, and that no other and no later run of it has.
fn identity() -> String {
    let host = || hostname::get().map_or_else(|_| "drover".to_owned(), |name| name.to_string_lossy().into_owned());
    let name = set("POD_NAME").unwrap_or_else(host);
    format!("{name}_{:016x}", RandomState::new().hash_one(std::process::id()))
}

fn set(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}
