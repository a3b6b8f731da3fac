//! All the vCenters, and which of them serves whom.

mod keep;
mod namespaces;
mod report;
mod roster;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use drover_api::{VCenter, VmGroup, vmgroup::Placement};
use drover_core::home::{self, Home, NoVCenter, Recorded};
use futures::future;
use kube::{Api, Client, ResourceExt};
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use crate::{
    connection::Connection,
    group::is_kept_of,
    guard::{self, Unreadable},
    leadership::Claim,
    loops::Loops,
    metrics::Metrics,
    shelf::backoff,
    vcenter::{Live, Login, Trigger},
};
use keep::Keeping;
pub(crate) use keep::start;
pub(crate) use namespaces::Namespaces;
pub(crate) use roster::{Around, Roster};

/// The name of the vCenter that the environment gives, unless a VCenter has it.
pub(crate) const DEFAULT: &str = "default";
/// How long a vCenter may take to end a session.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the API server may take to tell what there is, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(20);

/// All the vCenters.
pub(crate) struct Fleet {
    known: Mutex<Known>,
    /// Whether all vCenters have been taken up that there are at the start.
    is_mustered: AtomicBool,
    namespaces: Arc<Namespaces>,
    claim: Claim,
    metrics: Metrics,
    triggers: mpsc::UnboundedSender<Trigger>,
    loops: Loops,
}

#[derive(Default)]
struct Known {
    roster: Roster,
    /// What the environment gives. It steps back for a VCenter of its name.
    environment: Option<(vim25::Client, Option<Arc<Live>>)>,
    kept: BTreeMap<String, Keeping>,
}

/// A vCenter, as it serves somebody.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    pub live: Arc<Live>,
    /// Where machines are put whose group doesn't say.
    pub defaults: Placement,
}

/// Where a group is to be looked after.
pub(crate) enum Housing {
    /// Here.
    Here(Seat),
    /// Here, once that is written down.
    Settle(String),
    /// What is left of it here goes first. It has no machines.
    Leave(Seat),
}

impl Fleet {
    pub(crate) fn new(
        namespaces: Arc<Namespaces>,
        claim: Claim,
        metrics: Metrics,
        triggers: mpsc::UnboundedSender<Trigger>,
        loops: Loops,
    ) -> Self {
        let is_mustered = AtomicBool::new(false);
        Self { known: Mutex::default(), is_mustered, namespaces, claim, metrics, triggers, loops }
    }

    /// Takes up all the vCenters that there are, before anybody asks for one: that which the environment names, and those that
    /// are declared.
    pub(crate) async fn muster(&self, kube: &Client, environment: Option<vim25::Client>) {
        // Whom a vCenter serves is a matter of namespaces. Should their watch never begin, this is not the place to say so.
        let began = Instant::now();
        while !self.namespaces.are_read() && began.elapsed() < PATIENCE {
            tokio::time::sleep(MOMENT).await;
        }
        let (declared, unreadable) = declared(kube).await;
        {
            let mut known = self.known();
            for vcenter in &declared {
                // What is wrong with it, its own status says.
                known.roster.declare(&vcenter.name_any(), &vcenter.spec);
            }
            for unreadable in &unreadable {
                known.roster.note_unreadable(unreadable);
            }
            if let Some(client) = environment {
                known.environment = Some((client, None));
                known.roster.set_environment();
            }
            if known.roster.has_environment() {
                self.follow_environment(&mut known);
            }
        }
        let began = Instant::now();
        for vcenter in &declared {
            while self.tend(vcenter, kube).is_none() && began.elapsed() < PATIENCE {
                tokio::time::sleep(MOMENT).await;
            }
        }
        self.is_mustered.store(true, Ordering::Release);
    }

    /// Whether all vCenters have been taken up that there are at the start. Before, that there is none says nothing.
    pub(crate) fn is_mustered(&self) -> bool {
        self.is_mustered.load(Ordering::Acquire)
    }

    fn follow_environment(&self, known: &mut Known) {
        if let Some((client, live)) = &mut known.environment {
            *live = Some(Live::start(
                DEFAULT,
                client.clone(),
                Login::Environment,
                None,
                self.claim.clone(),
                self.triggers.clone(),
                &self.loops,
            ));
        }
    }

    /// The vCenter for an object in a namespace, whose spec may name one.
    pub(crate) fn choose(&self, namespace: &str, named: Option<&str>) -> Result<Seat, NoVCenter> {
        let around = self.around(namespace)?;
        let known = self.known();
        let said = around.names(named);
        if said.spec.or(said.annotation).is_none() {
            known.roster.is_readable()?;
        }
        let name = home::choose(&known.roster.candidates(&around), said)?.to_owned();
        known.seat(&name)
    }

    /// Where a group is at home.
    pub(crate) fn house(&self, group: &VmGroup, cluster: &str) -> Result<Housing, NoVCenter> {
        let status = group.status.clone().unwrap_or_default();
        if let (Some(_), Some(recorded)) = (&group.metadata.deletion_timestamp, &status.vcenter) {
            // Whatever its namespace says now.
            let known = self.known();
            return known.seat(home::end(&known.roster.candidates(&Around::default()), recorded)?).map(Housing::Here);
        }
        let around = self.around(&group.namespace().unwrap_or_default())?;
        let known = self.known();
        let candidates = known.roster.candidates(&around);
        let live = status.vcenter.as_deref().and_then(|name| known.seat(name).ok()).map(|seat| seat.live);
        let recorded = status.vcenter.as_deref().map(|name| Recorded { name, is_there: live.is_some() });
        let has_members = || {
            is_kept_of(group)
                || match live.as_ref().filter(|live| live.is_in_sight()) {
                    Some(live) => live.mirror().has_members(&group.uid().unwrap_or_default(), cluster),
                    None => status.current_replicas.unwrap_or(0) > 0,
                }
        };
        match home::home(&candidates, around.names(group.spec.vcenter.as_deref()), recorded, has_members)? {
            Home::At(name) => known.seat(&name).map(Housing::Here),
            Home::Settle(name) => {
                // One that can't be read may be the one that the group is for.
                known.roster.is_readable()?;
                known.seat(&name).map(|_| Housing::Settle(name))
            }
            Home::Leave(name) => known.seat(&name).map(Housing::Leave),
        }
    }

    /// Takes back all that a group has queued anywhere.
    pub(crate) fn withdraw(&self, uid: &str) {
        for live in self.lives() {
            live.works().withdraw(uid);
        }
    }

    /// Forgets the groups that are gone, wherever they were.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        for live in self.lives() {
            live.retain_groups(&is_there);
        }
    }

    /// All that are followed, by name.
    pub(crate) fn lives(&self) -> Vec<Arc<Live>> {
        let known = self.known();
        let kept = known.kept.values().filter_map(Keeping::live).cloned();
        let environment = known.environment.iter().filter_map(|(_, live)| live.clone());
        environment.chain(kept).collect()
    }

    /// Ends all sessions, which would otherwise stay until the vCenters tire of them. Nothing waits long for that.
    pub(crate) async fn farewell(&self) {
        future::join_all(self.lives().iter().map(|live| live.leave())).await;
        self.loops.finished().await;
    }

    /// Whether a namespace is being deleted, as far as is known. Nothing can be made in it any more.
    pub(crate) fn is_ending(&self, namespace: &str) -> bool {
        self.namespaces.around(namespace).is_some_and(|around| around.is_ending())
    }

    /// Whether the namespaces are only just being read.
    pub(crate) fn is_new(&self) -> bool {
        self.namespaces.are_new()
    }

    fn around(&self, namespace: &str) -> Result<Around, NoVCenter> {
        self.namespaces.around(namespace).ok_or_else(|| NoVCenter::NamespaceNotRead(namespace.to_owned()))
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, name: &str, connection: &Connection, instance: Option<String>) -> Result<Arc<Live>, String> {
        let client = connection.client(Some(self.metrics.observer(name))).map_err(|bad| format!("spec.tls: {bad}"))?;
        let (claim, triggers) = (self.claim.clone(), self.triggers.clone());
        Ok(Live::start(name, client, Login::Declared, instance, claim, triggers, &self.loops))
    }
}

impl Known {
    fn seat(&self, name: &str) -> Result<Seat, NoVCenter> {
        let unusable = |why: &str| NoVCenter::Unusable { name: name.to_owned(), why: why.to_owned() };
        let (live, defaults) = match self.kept.get(name) {
            Some(keeping) => (keeping.usable().map_err(unusable)?, self.roster.defaults(name)),
            None if self.roster.has_environment() && name == DEFAULT => {
                let live = self.environment.as_ref().and_then(|(_, live)| live.as_ref());
                (live.ok_or_else(|| unusable("it isn't there"))?, Placement::default())
            }
            None => return Err(unusable("it isn't there")),
        };
        Ok(Seat { live: Arc::clone(live), defaults })
    }
}

/// Ends a session for good, if vCenter does so soon: there is no other after it.
pub(crate) async fn close(client: &vim25::Client) {
    let _ = timeout(FAREWELL, client.close()).await;
}

/// The VCenters that there are. An API server that is away is waited for.
async fn declared(kube: &Client) -> (Vec<VCenter>, Vec<Unreadable>) {
    let mut pauses = backoff();
    loop {
        match guard::list(Api::all(kube.clone())).await {
            Ok(found) => return found,
            Err(error) => warn!(%error, "the VCenters can't be read"),
        }
        tokio::time::sleep(pauses.next().unwrap_or(PATIENCE)).await;
    }
}

/// Ends a session, if vCenter does so soon.
pub(crate) async fn log_out(client: &vim25::Client) {
    let _ = timeout(FAREWELL, client.logout()).await;
}
