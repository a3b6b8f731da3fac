//! All the vCenters, and which of them serves whom.

mod keep;
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
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams, core::PartialObjectMeta, runtime::reflector::Store};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    connection::Connection,
    group::is_kept_of,
    leadership::Claim,
    metrics::Metrics,
    vcenter::{Live, Login, Trigger},
};
use keep::Keeping;
pub(crate) use keep::start;
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
    namespaces: Store<PartialObjectMeta<Namespace>>,
    claim: Claim,
    metrics: Metrics,
    triggers: mpsc::UnboundedSender<Trigger>,
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
        namespaces: Store<PartialObjectMeta<Namespace>>,
        claim: Claim,
        metrics: Metrics,
        triggers: mpsc::UnboundedSender<Trigger>,
    ) -> Self {
        Self { known: Mutex::default(), is_mustered: AtomicBool::new(false), namespaces, claim, metrics, triggers }
    }

    /// Takes up all the vCenters that there are, before anybody asks for one: that which the environment names, and those that
    /// are declared.
    pub(crate) async fn muster(&self, kube: &Client, environment: Option<vim25::Client>) -> Result<(), kube::Error> {
        // Whom a vCenter serves is a matter of namespaces. Should their watch never begin, this is not the place to say so.
        let _ = timeout(PATIENCE, self.namespaces.wait_until_ready()).await;
        let declared = Api::<VCenter>::all(kube.clone()).list(&ListParams::default()).await?;
        {
            let mut known = self.known();
            for vcenter in &declared.items {
                // What is wrong with it, its own status says.
                known.roster.declare(&vcenter.name_any(), &vcenter.spec);
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
        for vcenter in &declared.items {
            while self.tend(vcenter, kube).is_none() && began.elapsed() < PATIENCE {
                tokio::time::sleep(MOMENT).await;
            }
        }
        self.is_mustered.store(true, Ordering::Release);
        Ok(())
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
            ));
        }
    }

    /// The vCenter for an object in a namespace, whose spec may name one.
    pub(crate) fn choose(&self, namespace: &str, named: Option<&str>) -> Result<Seat, NoVCenter> {
        let around = self.around(namespace);
        let known = self.known();
        let name = home::choose(&known.roster.candidates(&around), around.names(named))?.to_owned();
        known.seat(&name)
    }

    /// Where a group is at home.
    pub(crate) fn house(&self, group: &VmGroup, cluster: &str) -> Result<Housing, NoVCenter> {
        let around = self.around(&group.namespace().unwrap_or_default());
        let known = self.known();
        let status = group.status.clone().unwrap_or_default();
        let live = status.vcenter.as_deref().and_then(|name| known.seat(name).ok()).map(|seat| seat.live);
        let recorded = status.vcenter.as_deref().map(|name| Recorded { name, is_there: live.is_some() });
        // One that is being deleted goes where it was made, wherever a new one would go.
        let has_members = || {
            group.metadata.deletion_timestamp.is_some()
                || is_kept_of(group)
                || match live.as_ref().filter(|live| live.is_in_sight()) {
                    Some(live) => live.mirror().has_members(&group.uid().unwrap_or_default(), cluster),
                    None => status.current_replicas.unwrap_or(0) > 0,
                }
        };
        let spec = group.spec.vcenter.as_deref().filter(|_| group.metadata.deletion_timestamp.is_none());
        match home::home(&known.roster.candidates(&around), around.names(spec), recorded, has_members)? {
            Home::At(name) => known.seat(&name).map(Housing::Here),
            Home::Settle(name) => known.seat(&name).map(|_| Housing::Settle(name)),
            Home::Leave(name) => known.seat(&name).map(Housing::Leave),
        }
    }

    /// Takes back all that a group has queued anywhere.
    pub(crate) fn withdraw(&self, uid: &str) {
        for live in self.lives() {
            live.works().withdraw(uid);
        }
    }

    /// Forgets a group that is gone, wherever it was.
    pub(crate) fn forget(&self, group: &VmGroup) {
        for live in self.lives() {
            live.forget(group);
        }
    }

    /// Forgets the groups that are gone, wherever they were.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        for live in self.lives() {
            live.works().retain(&is_there);
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
    }

    /// Whether a namespace is being deleted, as far as is known. Nothing can be made in it any more.
    pub(crate) fn is_ending(&self, namespace: &str) -> bool {
        let key = kube::runtime::reflector::ObjectRef::new(namespace);
        self.namespaces.get(&key).is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some())
    }

    fn around(&self, namespace: &str) -> Around {
        let key = kube::runtime::reflector::ObjectRef::new(namespace);
        self.namespaces.get(&key).map(|namespace| Around::of(&*namespace)).unwrap_or_default()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn connect(&self, name: &str, connection: &Connection, instance: Option<String>) -> Result<Arc<Live>, String> {
        let client = connection.client(Some(self.metrics.observer(name))).map_err(|bad| format!("spec.tls: {bad}"))?;
        Ok(Live::start(name, client, Login::Declared, instance, self.claim.clone(), self.triggers.clone()))
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

/// Ends a session, if vCenter does so soon.
pub(crate) async fn log_out(client: &vim25::Client) {
    let _ = timeout(FAREWELL, client.logout()).await;
}
