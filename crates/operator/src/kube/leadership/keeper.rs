//! The loop that reads and writes leases, for as long as the operator runs.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, future::join_all, stream::FuturesUnordered};
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    jiff::Timestamp,
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta, PostParams},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout, timeout_at},
};
use tracing::{info, warn};

use super::{
    Change, Leases, Timing,
    claim::{Claim, Epoch},
    clock::Moment,
    election::holder as holder_of,
    ledger::{Intent, Ledger, Loss, Read, Steps, Write},
    names::{self, GENERAL, LABEL, LeaseScope},
};
use crate::loops::Pulse;

/// Seeks leases, renews them and gives them back.
pub(super) struct Keeper {
    pub api: Api<Lease>,
    pub ledger: Ledger,
    pub timing: Timing,
    pub leases: Leases,
    pub changes: mpsc::UnboundedSender<Change>,
    /// The leases as they were last read or written.
    pub objects: BTreeMap<String, Lease>,
    /// Who was last said to hold a lease, if that is another.
    pub told: BTreeMap<String, String>,
}

impl Keeper {
    pub(super) async fn keep(mut self, mut stop: oneshot::Receiver<()>, pulse: Pulse) {
        loop {
            let start = Instant::now();
            tokio::select! {
                () = pulse.wait(self.turn()) => {}
                _ = &mut stop => break,
            }
            let rest = async {
                tokio::select! {
                    () = sleep_until(start + self.timing.look) => {}
                    // Whoever writes Leases all the time doesn't have them listed all the time.
                    () = self.leases.are_to_be_looked_at() => sleep_until(start + self.timing.look / 10).await,
                }
            };
            tokio::select! {
                () = pulse.wait(rest) => {}
                _ = &mut stop => break,
            }
        }
        // First of all, nothing is begun any more in anybody's name.
        self.end_claims();
        let leases = self.leases.clone();
        if timeout(self.timing.deadline, self.give_all_back()).await.is_err() {
            warn!("Leases not given back: the API server does not answer in time; they run out by themselves");
        }
        leases.claims().values().for_each(Claim::end);
    }

    /// Reads all leases, and writes those that it has something to write to.
    async fn turn(&mut self) {
        // One that ran out meanwhile is lost before anybody is waited for: the API server may not answer.
        self.lose_lapsed();
        let until = self.until(Instant::now());
        let read = timeout_at(until, self.read()).await;
        self.lose_lapsed();
        match read {
            Ok(Ok(objects)) => self.objects = objects,
            Ok(Err(error)) => return warn!(%error, "Leases not listed"),
            Err(_) => return warn!("Leases not listed: the API server does not answer in time"),
        }
        let was_there = self.ledger.is_there();
        self.look_and_write().await;
        if !was_there && self.ledger.is_there() {
            // Others know of this replica now, so its turn has come.
            self.look_and_write().await;
        }
    }

    async fn look_and_write(&mut self) {
        let wanted = self.leases.wanted().keys().map(LeaseScope::lease).collect();
        let is_present = |holder: &str| {
            let mut presences = self.objects.iter().filter(|(name, _)| names::is_presence(name));
            presences.any(|(_, lease)| lease.spec.as_ref().and_then(holder_of) == Some(holder))
        };
        let is_of_before = self.objects.get(GENERAL).is_some_and(|lease| names::is_of_before(lease, is_present));
        let read = Read { listed: &records(&self.objects), wanted: &wanted, is_of_before };
        let leases = self.leases.clone();
        let let_go = |name: &str| {
            let claim = leases.claim_named(name);
            claim.as_ref().inspect(|claim| claim.begin_to_end());
            claim.is_none_or(|claim| claim.is_idle())
        };
        let Steps { lost, writes } = self.ledger.look(&read, let_go, Moment::now(), Timestamp::now());
        self.lose(lost);
        self.write(writes).await;
        self.tell(&wanted);
    }

    /// What comes later comes too late.
    fn until(&self, now: Instant) -> Instant {
        let attempt = now + self.timing.attempt;
        self.ledger.first_end().filter(|end| *end > now).map_or(attempt, |end| end.min(attempt))
    }

    async fn read(&self) -> Result<BTreeMap<String, Lease>, kube::Error> {
        // Not only those with the label, which an earlier version doesn't write, and anybody may take away.
        let wanted: BTreeSet<_> = self.leases.wanted().keys().map(LeaseScope::lease).collect();
        let is_one = |name: &str, lease: &Lease| {
            lease.labels().contains_key(LABEL) || names::is_presence(name) || wanted.contains(name)
        };
        let listed = self.api.list(&ListParams::default()).await?.items.into_iter();
        Ok(listed.map(|lease| (lease.name_any(), lease)).filter(|(name, lease)| is_one(name, lease)).collect())
    }

    async fn write(&mut self, writes: Vec<Write>) {
        let asked = Moment::now();
        let until = self.until(asked.steady);
        let written = writes.into_iter().map(async |write| {
            let outcome = timeout_at(until, self.put(&write)).await;
            (write, outcome)
        });
        let written = join_all(written).await;
        for (write, outcome) in written {
            let name = &write.name;
            match outcome {
                Ok(Ok(object)) => {
                    self.objects.extend(object.map(|object| (name.clone(), object)));
                    self.take_up(&write, asked);
                }
                // Somebody was faster. Who it was is looked at soon.
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => self.leases.look(),
                Ok(Err(error)) => warn!(lease = name, %error, "Lease not written"),
                Err(_) => warn!(lease = name, "Lease not written: the API server does not answer in time"),
            }
        }
    }

    /// Writes a lease if nobody has written it since it was read. One that is gone is not made to be given back: its vCenter may be gone,
    /// and nothing would ever delete it.
    async fn put(&self, write: &Write) -> Result<Option<Lease>, kube::Error> {
        let options = PostParams::default();
        let owner = self.leases.owner(&write.name);
        let label = [(LABEL.to_owned(), names::label(&write.name).to_owned())];
        let there = self.objects.get(&write.name);
        // It still has the version that it was read at, and only that is replaced.
        let mut metadata = there.map(|lease| lease.metadata.clone()).unwrap_or_default();
        metadata.labels.get_or_insert_default().extend(label);
        let annotations = metadata.annotations.get_or_insert_default();
        match holder_of(&write.record) {
            Some(holder) => annotations.insert(names::HOLDER.to_owned(), holder.to_owned()),
            None => annotations.remove(names::HOLDER),
        };
        metadata.owner_references = owner.map(|owner| vec![owner]).or(metadata.owner_references);
        let metadata = ObjectMeta { name: Some(write.name.clone()), ..metadata };
        let lease = Lease { metadata, spec: Some(write.record.clone()) };
        match there {
            Some(_) => self.api.replace(&write.name, &options, &lease).await.map(Some),
            None if write.intent == Intent::Return => Ok(None),
            None => self.api.create(&options, &lease).await.map(Some),
        }
    }

    fn take_up(&mut self, write: &Write, asked: Moment) {
        let until = self.ledger.written(write, asked, Moment::now());
        let Some((scope, claim)) = self.leases.scope_named(&write.name) else { return };
        let Some(until) = until else { return self.lose(vec![(write.name.clone(), Loss::Returned)]) };
        if claim.renew(until) {
            return;
        }
        let epoch = Epoch::next();
        info!(lease = write.name, identity = self.ledger.candidate.identity, "Lease acquired");
        self.told.remove(&write.name);
        claim.gain(epoch, until);
        // The receiver lives as long as the operator.
        let _ = self.changes.send(Change::Gained(scope, epoch));
    }

    fn lose_lapsed(&mut self) {
        let lapsed = self.ledger.lapse(Moment::now());
        self.lose(lapsed);
    }

    fn lose(&mut self, lost: Vec<(String, Loss)>) {
        for (name, why) in lost {
            let Some((scope, claim)) = self.leases.scope_named(&name) else { continue };
            claim.end();
            info!(lease = name, %why, "Lease lost");
            let _ = self.changes.send(Change::Lost(scope));
        }
    }

    /// Says once who holds what another holds.
    fn tell(&mut self, wanted: &BTreeSet<String>) {
        for name in wanted {
            let other = self.objects.get(name).and_then(|lease| lease.spec.as_ref()).and_then(holder_of);
            let Some(other) = other.filter(|other| **other != self.ledger.candidate.identity) else { continue };
            if self.told.get(name).is_none_or(|told| told != other) {
                info!(lease = name, holder = other, "Lease held by another replica");
                self.told.insert(name.clone(), other.to_owned());
            }
        }
    }

    /// Gives everything back, so that others take over at once.
    async fn give_all_back(mut self) {
        // Something may have been written whose answer nobody has waited for.
        self.read_again().await;
        let (presence, own): (Vec<_>, Vec<_>) =
            self.ledger.own().into_iter().partition(|name| names::is_presence(name));
        // Others are not to wait for this replica to take what it gives back.
        self.give_back(presence).await;
        let is_idle = |name: &String| self.leases.claim_named(name).is_none_or(|claim| claim.is_idle());
        let (idle, busy): (Vec<_>, Vec<_>) = own.into_iter().partition(is_idle);
        self.give_back(idle).await;
        let (leases, attempt) = (self.leases.clone(), self.timing.attempt);
        let mut busy: FuturesUnordered<_> = busy
            .into_iter()
            .map(async |name| {
                let idle = async {
                    if let Some(claim) = leases.claim_named(&name) {
                        claim.idle().await;
                    }
                };
                (timeout(attempt, idle).await.is_ok(), name)
            })
            .collect();
        // No vCenter waits for another that is slow to answer.
        while let Some((is_idle, name)) = busy.next().await {
            if is_idle {
                self.give_back(vec![name]).await;
            } else {
                warn!(
                    lease = name,
                    "Lease not given back: vCenter does not answer a call; the Lease runs out by itself"
                );
            }
        }
    }

    fn end_claims(&self) {
        self.leases.claims().values().for_each(Claim::begin_to_end);
    }

    async fn read_again(&mut self) {
        if let Ok(Ok(objects)) = timeout(self.timing.attempt, self.read()).await {
            self.ledger.see(&records(&objects), Instant::now());
            self.objects = objects;
        }
    }

    /// Gives leases back, and once more those that somebody has written meanwhile.
    async fn give_back(&mut self, names: Vec<String>) {
        for is_again in [false, true] {
            let own = |ledger: &Ledger| -> Vec<_> {
                names.iter().filter_map(|name| ledger.give_back(name, Timestamp::now())).collect()
            };
            if is_again && !own(&self.ledger).is_empty() {
                self.read_again().await;
            }
            self.write(own(&self.ledger)).await;
        }
    }
}

fn records(objects: &BTreeMap<String, Lease>) -> BTreeMap<String, LeaseSpec> {
    objects.iter().map(|(name, lease)| (name.clone(), lease.spec.clone().unwrap_or_default())).collect()
}
