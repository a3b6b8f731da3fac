//! All the vCenters, and which of them serves whom.

mod duty;
mod follow;
mod measure;
mod namespaces;
mod roster;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use drover_api::{VCenter, VCenterStatus, VmGroup, vmgroup::Placement};
use drover_core::{
    tenancy::{quota::Terms, rules::Rules},
    vcenter::binding::{self, Home, NoVCenter, Recorded},
    vmgroup::{extra_config::Keys, recorded::is_kept_of, take_over::marker_uid},
};
use futures::future;
use kube::{Api, Client, ResourceExt};
use tokio::{sync::mpsc, time::timeout};
use tracing::warn;

use crate::{
    kube::{
        guard::{self, Unreadable},
        leadership::{LeaseScope, Leases},
        scope::{Controller, Scope},
        shared_watch::backoff,
    },
    loops::Loops,
    telemetry::metrics::Metrics,
    vcenter::{Login, Trigger, VCenterHandle, connection::Connection},
};
use follow::Followed;
pub(crate) use follow::limits;
pub(crate) use namespaces::Namespaces;
pub(crate) use roster::{Around, RULES_HOLD, Roster};

/// The name of the vCenter that the environment gives, unless a VCenter has it.
pub(crate) const DEFAULT: &str = "default";
/// How long a vCenter may take to end a session.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long the API server may take to tell what there is, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(10);
const MOMENT: Duration = Duration::from_millis(20);

/// All the vCenters.
pub(crate) struct VCenters {
    known: Mutex<Known>,
    /// Whether all vCenters have been taken up that there are at the start.
    are_read: AtomicBool,
    namespaces: Arc<Namespaces>,
    leases: Leases,
    pub(crate) metrics: Metrics,
    triggers: mpsc::UnboundedSender<Trigger>,
    loops: Loops,
    scope: Scope,
}

#[derive(Default)]
struct Known {
    roster: Roster,
    /// What the environment gives. It steps back for a VCenter of its name that has a server.
    environment: Option<(vim25::Client, Option<Arc<VCenterHandle>>)>,
    followed: BTreeMap<String, Followed>,
}

/// A vCenter, as it serves somebody.
#[derive(Clone, Debug)]
pub(crate) struct BoundVCenter {
    pub live: Arc<VCenterHandle>,
    /// Where machines are put whose group doesn't say.
    pub defaults: Placement,
    /// What the namespace may use there, if not everything.
    pub rules: Option<Arc<Rules>>,
    /// The keys of extraConfig that the namespace may set there, beside those that everybody may.
    pub keys: Keys,
    /// How much the namespace may have there, if not as much as it likes.
    pub quota: Option<Terms>,
}

/// Where a group is to be looked after.
pub(crate) enum Binding {
    /// Here.
    Here(BoundVCenter),
    /// Here, once that is written down.
    Settle(String),
    /// What is left of it here goes first. It has no machines.
    Leave(BoundVCenter),
}

impl VCenters {
    pub(crate) fn new(
        namespaces: Arc<Namespaces>,
        leases: Leases,
        metrics: Metrics,
        triggers: mpsc::UnboundedSender<Trigger>,
        loops: Loops,
        scope: Scope,
    ) -> Self {
        let are_read = AtomicBool::new(false);
        Self { known: Mutex::default(), are_read, namespaces, leases, metrics, triggers, loops, scope }
    }

    /// Takes up all the vCenters that there are, before anybody asks for one: that which the environment names, and those that
    /// are declared.
    pub(crate) async fn read_all(&self, kube: &Client, environment: Option<vim25::Client>) {
        // Whom a vCenter serves is a matter of namespaces. Should their watch never begin, this is not the place to say so.
        let began = Instant::now();
        while !self.namespaces.are_read() && began.elapsed() < PATIENCE {
            tokio::time::sleep(MOMENT).await;
        }
        let (declared, unreadable) =
            if self.scope.runs(Controller::VCenter) { declared(kube).await } else { Default::default() };
        {
            let mut known = self.known();
            for vcenter in &declared {
                // What is wrong with it, its own status says.
                known.roster.declare(&vcenter.name_any(), &vcenter.spec);
                self.declare_lease(&vcenter.metadata);
            }
            for unreadable in &unreadable {
                known.roster.note_unreadable(unreadable);
                self.declare_lease(&unreadable.metadata);
            }
            if let Some(client) = environment {
                known.environment = Some((client, None));
                known.roster.set_environment();
            }
            if known.roster.has_plain_environment() {
                self.leases.declare(DEFAULT, None);
                self.follow_environment(&mut known, None);
            }
        }
        let began = Instant::now();
        for vcenter in &declared {
            while self.follow(vcenter, kube).is_none() && began.elapsed() < PATIENCE {
                tokio::time::sleep(MOMENT).await;
            }
        }
        self.are_read.store(true, Ordering::Release);
    }

    /// Whether all vCenters have been taken up that there are at the start. Before, that there is none says nothing.
    pub(crate) fn are_read(&self) -> bool {
        self.are_read.load(Ordering::Acquire)
    }

    /// Begins to follow the vCenter that the environment names, unless that has begun. `before` is what was written of it.
    fn follow_environment(&self, known: &mut Known, before: Option<&VCenterStatus>) {
        if let Some((client, live @ None)) = &mut known.environment {
            let started = VCenterHandle::start(
                DEFAULT,
                client.clone(),
                Login::Environment,
                before.and_then(|status| status.instance_uuid.clone()),
                self.leases.claim(&LeaseScope::VCenter(DEFAULT.to_owned())),
                self.triggers.clone(),
                &self.loops,
            );
            started.executor().count_with(self.metrics.meter(DEFAULT));
            started.executor().remember(before.and_then(|status| status.incident.clone()));
            *live = Some(started);
        }
    }

    /// The vCenter for an object in a namespace, whose spec may name one.
    pub(crate) fn choose(&self, namespace: &str, named: Option<&str>) -> Result<BoundVCenter, NoVCenter> {
        let around = self.around(namespace)?;
        let known = self.known();
        let said = around.names(named);
        if said.spec.or(said.annotation).is_none() {
            known.roster.is_readable()?;
        }
        let chosen = binding::choose(&known.roster.candidates(&around), said);
        let name = chosen.map_err(|why| known.roster.explained(why))?.to_owned();
        let (rules, keys) = (known.roster.rules(&name, namespace, &around), known.roster.keys(&name, &around));
        Ok(BoundVCenter { rules, keys, quota: known.roster.quota(&name, &around), ..known.bound(&name)? })
    }

    /// Where a group is at home.
    pub(crate) fn bind(&self, group: &VmGroup, cluster: &str) -> Result<Binding, NoVCenter> {
        let status = group.status.clone().unwrap_or_default();
        let namespace = group.namespace().unwrap_or_default();
        if let (Some(_), Some(recorded)) = (&group.metadata.deletion_timestamp, &status.vcenter) {
            // Whatever its namespace says now; but what that may not use stays as it is.
            let around = self.around(&namespace);
            let known = self.known();
            let name = binding::end(&known.roster.candidates(&Around::default()), recorded)?;
            let rules = around.ok().and_then(|around| known.roster.rules(name, &namespace, &around));
            let rules = rules.filter(|rules| rules.is_enforced());
            return Ok(Binding::Here(BoundVCenter { rules, ..known.bound(name)? }));
        }
        let around = self.around(&namespace)?;
        let known = self.known();
        let candidates = known.roster.candidates(&around);
        let live = status.vcenter.as_deref().and_then(|name| known.bound(name).ok()).map(|bound| bound.live);
        let recorded = status.vcenter.as_deref().map(|name| Recorded { name, is_there: live.is_some() });
        let has_members = || {
            is_kept_of(group)
                || match live.as_ref().filter(|live| live.is_in_sight()) {
                    Some(live) => live.mirror().has_members(&marker_uid(group), cluster),
                    None => status.current_replicas.unwrap_or(0) > 0,
                }
        };
        let home = binding::home(&candidates, around.names(group.spec.vcenter.as_deref()), recorded, has_members);
        match home.map_err(|why| known.roster.explained(why))? {
            Home::At(name) => {
                let (rules, keys) = (known.roster.rules(&name, &namespace, &around), known.roster.keys(&name, &around));
                let quota = known.roster.quota(&name, &around);
                Ok(Binding::Here(BoundVCenter { rules, keys, quota, ..known.bound(&name)? }))
            }
            Home::Settle(name) => {
                // One that can't be read may be the one that the group is for.
                known.roster.is_readable()?;
                known.bound(&name).map(|_| Binding::Settle(name))
            }
            Home::Leave(name) => known.bound(&name).map(Binding::Leave),
        }
    }

    /// Whether a vCenter has a quota for anybody.
    pub(crate) fn has_quotas(&self, name: &str) -> bool {
        self.known().roster.has_quotas(name)
    }

    /// Whether a vCenter has a quota for disks.
    pub(crate) fn limits_storage(&self, name: &str) -> bool {
        self.known().roster.limits_storage(name)
    }

    /// How much a namespace may have in a vCenter, if not as much as it likes.
    pub(crate) fn quota(&self, name: &str, namespace: &str) -> Option<Terms> {
        let around = self.around(namespace).ok()?;
        self.known().roster.quota(name, &around)
    }

    /// Takes back all that a group has queued anywhere.
    pub(crate) fn withdraw(&self, uid: &str) {
        for live in self.lives() {
            live.executor().withdraw(uid);
        }
    }

    /// Forgets the groups that are gone, wherever they were.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        for live in self.lives() {
            live.retain_groups(&is_there);
        }
    }

    /// The one of this name, if it is followed.
    pub(crate) fn live(&self, name: &str) -> Option<Arc<VCenterHandle>> {
        self.lives().into_iter().find(|live| live.name == name)
    }

    /// All that are followed, by name.
    pub(crate) fn lives(&self) -> Vec<Arc<VCenterHandle>> {
        let known = self.known();
        let followed = known.followed.values().filter_map(Followed::live).cloned();
        let environment = known.environment.iter().filter_map(|(_, live)| live.clone());
        environment.chain(followed).collect()
    }

    /// Ends all sessions, which would otherwise stay until the vCenters tire of them. Nothing waits long for that.
    pub(crate) async fn farewell(&self) {
        future::join_all(self.lives().iter().map(|live| live.leave())).await;
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

    fn connect(
        &self,
        name: &str,
        connection: &Connection,
        instance: Option<String>,
    ) -> Result<Arc<VCenterHandle>, String> {
        let client = connection.client(Some(self.metrics.observer(name))).map_err(|bad| format!("spec.tls: {bad}"))?;
        let (claim, triggers) = (self.leases.claim(&LeaseScope::VCenter(name.to_owned())), self.triggers.clone());
        let live = VCenterHandle::start(name, client, Login::Declared, instance, claim, triggers, &self.loops);
        live.executor().count_with(self.metrics.meter(name));
        Ok(live)
    }
}

impl Known {
    /// One of this name, to somebody who may use everything there.
    fn bound(&self, name: &str) -> Result<BoundVCenter, NoVCenter> {
        let unusable = || self.roster.explained(NoVCenter::Unusable(name.to_owned()));
        let (live, defaults) = match self.followed.get(name) {
            Some(followed) => (followed.live().ok_or_else(unusable)?, self.roster.defaults(name)),
            None if self.roster.has_environment() && name == DEFAULT => {
                let live = self.environment.as_ref().and_then(|(_, live)| live.as_ref());
                (live.ok_or_else(unusable)?, self.roster.defaults(name))
            }
            None => return Err(unusable()),
        };
        Ok(BoundVCenter { live: Arc::clone(live), defaults, rules: None, keys: Keys::default(), quota: None })
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
            Err(error) => warn!(%error, "VCenters not listed"),
        }
        tokio::time::sleep(pauses.next().unwrap_or(PATIENCE)).await;
    }
}

/// Ends a session, if vCenter does so soon.
pub(crate) async fn log_out(client: &vim25::Client) {
    let _ = timeout(FAREWELL, client.logout()).await;
}
