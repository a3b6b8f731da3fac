//! What is done when this replica gains a lease or loses one.
//!
//! A replica that gains one has watched all along, but may not have been told of the last holder's last write yet. So it reads, once and
//! from the API server itself, how new each object is, and decides nothing about one before its watch has told of it as it is then.

use std::{fmt::Debug, sync::Arc, time::Duration};

use drover_api::{MyOwnShell, VCenter, VmGroup};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt, api::ListParams, core::PartialObjectMeta};
use serde::de::DeserializeOwned;
use tokio::{
    sync::{Notify, mpsc},
    time::{sleep, timeout},
};
use tracing::warn;

use crate::{
    controllers::{Context, vmgroup},
    kube::{
        guard::{self, Guarded, Unreadable},
        leadership::{Change, Epoch, LeaseScope, Leases, Versions},
        scope::Controller,
        shared_watch::backoff,
    },
    loops::{Pulse, Running},
    vcenter::Trigger,
};

/// How long the API server may take to tell how new everything is.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes up what becomes of leases, for as long as the operator runs. `shells` is told when all MyOwnShells are to be looked at.
pub(crate) fn start(
    context: &Arc<Context>,
    leases: Leases,
    changes: mpsc::UnboundedReceiver<Change>,
    triggers: mpsc::UnboundedSender<Trigger>,
    shells: Arc<Notify>,
) -> Running {
    let duties = Duties { context: Arc::clone(context), leases, triggers, shells };
    context.loops.start("duties", |pulse| duties.run(changes, pulse))
}

struct Duties {
    context: Arc<Context>,
    leases: Leases,
    triggers: mpsc::UnboundedSender<Trigger>,
    shells: Arc<Notify>,
}

impl Duties {
    async fn run(self, mut changes: mpsc::UnboundedReceiver<Change>, pulse: Pulse) {
        while let Some(change) = pulse.wait(changes.recv()).await {
            let mut gained = Vec::new();
            let mut next = Some(change);
            // Several are mostly gained together.
            while let Some(change) = next {
                match change {
                    Change::Gained(scope, epoch) => gained.push((scope, epoch)),
                    Change::Lost(scope) => self.lose(&scope),
                }
                next = changes.try_recv().ok();
            }
            if !gained.is_empty() {
                pulse.wait(self.gain(gained)).await;
            }
        }
        // Without elections, nobody tells anything.
        pulse.wait(std::future::pending::<()>()).await;
    }

    fn lose(&self, scope: &LeaseScope) {
        if let LeaseScope::VCenter(name) = scope
            && let Some(live) = self.context.vcenters.live(name)
        {
            live.resign();
        }
    }

    async fn gain(&self, gained: Vec<(LeaseScope, Epoch)>) {
        let is_held = |scope: &LeaseScope| self.leases.claim(scope).holds();
        let mut pauses = backoff();
        let (versions, unreadable) = loop {
            match timeout(PATIENCE, self.read(&gained)).await {
                Ok(Ok((versions, unreadable))) => break (Arc::new(versions), unreadable),
                Ok(Err(error)) => warn!(%error, "Objects not listed; nothing is decided before they are"),
                Err(_) => warn!("Objects not listed in time; nothing is decided before they are"),
            }
            if !gained.iter().any(|(scope, _)| is_held(scope)) {
                return;
            }
            sleep(pauses.next().unwrap_or(PATIENCE)).await;
        };
        for (scope, epoch) in gained {
            self.leases.claim(&scope).take_up(epoch, Arc::clone(&versions));
            // The receiver lives as long as the operator.
            let _ = self.triggers.send(match scope {
                LeaseScope::VCenter(name) => Trigger::VCenter(name),
                LeaseScope::General => {
                    self.shells.notify_one();
                    Trigger::All
                }
            });
        }
        // Those that can't be read are told of to everybody, and let go by the one that holds the general lease.
        for group in &unreadable {
            guard::tell::<VmGroup>(group, &self.context.events);
            vmgroup::cant_be_read(&self.context, group);
        }
    }

    /// How new the objects are that are to be decided about, and the groups that can't be read.
    async fn read(&self, gained: &[(LeaseScope, Epoch)]) -> Result<(Versions, Vec<Unreadable>), kube::Error> {
        let mut versions = Versions::default();
        let mut unreadable = Vec::new();
        if self.context.scope.runs(Controller::VmGroup) {
            self.note_versions::<VmGroup>(&mut versions).await?;
        }
        for (scope, _) in gained {
            match scope {
                LeaseScope::General => {
                    if self.context.scope.runs(Controller::MyOwnShell) {
                        self.note_versions::<MyOwnShell>(&mut versions).await?;
                    }
                    if self.context.scope.runs(Controller::VmGroup) {
                        for api in self.context.scope.reach.apis::<Guarded<VmGroup>>(&self.context.kube) {
                            unreadable.extend(
                                readable(guard::list(api).await)?.map(|(_, unreadable)| unreadable).unwrap_or_default(),
                            );
                        }
                    }
                }
                LeaseScope::VCenter(_) => {}
            }
        }
        if gained.iter().any(|(scope, _)| matches!(scope, LeaseScope::VCenter(_))) {
            self.remember(gained).await?;
        }
        Ok((versions, unreadable))
    }

    /// Takes up which incidents the last holders have told of.
    async fn remember(&self, gained: &[(LeaseScope, Epoch)]) -> Result<(), kube::Error> {
        if !self.context.scope.runs(Controller::VCenter) {
            return Ok(());
        }
        let all = Api::<Guarded<VCenter>>::all(self.context.kube.clone()).list(&ListParams::default()).await?.items;
        for vcenter in all.into_iter().filter_map(|Guarded(vcenter)| vcenter.ok()) {
            let name = vcenter.name_any();
            let is_gained = gained.iter().any(|(scope, _)| *scope == LeaseScope::VCenter(name.clone()));
            if let Some(live) = self.context.vcenters.live(&name).filter(|_| is_gained) {
                live.executor().remember(vcenter.status.and_then(|status| status.incident));
            }
        }
        Ok(())
    }

    /// Adds how new the objects of a kind are.
    async fn note_versions<K>(&self, versions: &mut Versions) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        for api in self.context.scope.reach.apis::<K>(&self.context.kube) {
            // Without a version of its own, a list is of what is so at that time.
            let Some(listed) = readable(api.list_metadata(&ListParams::default()).await)? else { continue };
            let version =
                |object: &PartialObjectMeta<K>| Some((object.uid()?, object.resource_version()?.parse().ok()?));
            versions.of.extend(listed.items.iter().filter_map(version));
            let all = listed.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0);
            // Of several lists the first counts: what was made after it is newer, and may be in none that came later.
            versions.all = if versions.all == 0 { all } else { versions.all.min(all) };
        }
        Ok(())
    }
}

/// What was listed, if it may be. What may not be listed isn't in the store either, and keeps nothing else from being decided about.
fn readable<T>(listed: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match listed {
        Err(kube::Error::Api(refusal)) if matches!(refusal.code, 403 | 404) => Ok(None),
        listed => listed.map(Some),
    }
}
