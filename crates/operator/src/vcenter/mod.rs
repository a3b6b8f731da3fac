//! One live vCenter: its session, and the mirror of what it tells.

pub mod facts;
pub mod host;
pub mod marker;
pub mod mirror;
pub mod whereabouts;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use drover_core::group::Timestamp;
use tokio::sync::mpsc;
use tracing::{info, warn};
use vim25::{
    Client, Collector, Event, Inventory, ManagedObjectReference, Scope, Update, Updates, Watch,
    types::{ObjectSpec, PropertyFilterSpec},
};

use crate::{group::Works, leadership::Claim};
use mirror::{Consequences, GroupKey, Mirror};
use whereabouts::Concerned;

/// Whose turn it is to plan again, or to be shown anew.
#[derive(Clone, Debug)]
pub enum Trigger {
    Group(GroupKey),
    /// The HostInfos and VMInfos of these.
    Infos(Concerned),
    All,
}

/// A vCenter that is followed.
#[derive(Debug)]
pub struct Live {
    pub client: Client,
    pub inventory: Inventory,
    /// The right to change anything in it.
    pub claim: Claim,
    mirror: Mutex<Mirror>,
    works: Mutex<Works>,
    /// Why the mirror can't be trusted, if it can't, and since when.
    away: Mutex<Option<(String, Timestamp)>>,
    triggers: mpsc::UnboundedSender<Trigger>,
}

impl Live {
    /// Begins to follow a vCenter. `triggers` says which groups its changes concern.
    pub fn start(client: Client, claim: Claim, triggers: mpsc::UnboundedSender<Trigger>) -> Arc<Self> {
        let live = Arc::new(Self {
            inventory: Inventory::new(client.clone()),
            client,
            claim,
            mirror: Mutex::default(),
            works: Mutex::default(),
            away: Mutex::new(Some(("vCenter has not been read yet".to_owned(), Timestamp::now()))),
            triggers,
        });
        tokio::spawn(follow(Arc::clone(&live)));
        live
    }

    pub fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is queued and under way. Whoever takes both takes this before the mirror.
    pub fn works(&self) -> MutexGuard<'_, Works> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why vCenter can't be worked with now, if it can't.
    pub fn away(&self) -> Option<String> {
        self.away_since().map(|(why, _)| why)
    }

    /// The same, with the time since when it hasn't been there.
    pub fn away_since(&self) -> Option<(String, Timestamp)> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn trigger(&self, trigger: Trigger) {
        // The receiver lives as long as the operator.
        let _ = self.triggers.send(trigger);
    }

    fn set_away(&self, why: Option<String>) {
        {
            let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
            let since = away.as_ref().map_or_else(Timestamp::now, |(_, since)| *since);
            *away = why.map(|why| (why, since));
        }
        self.trigger(Trigger::All);
    }

    async fn take_up(&self, updates: Vec<Update>, awaited: &mut usize) {
        let now = Timestamp::now();
        let mut then = Consequences::default();
        for update in updates {
            match update {
                Update::Changed { update, .. } => {
                    let object = update.obj.clone();
                    if let Err(error) = self.mirror().change(update, now, &mut then) {
                        warn!(%object, %error, "vCenter told something that can't be read");
                    }
                }
                Update::Gone { object, .. } => self.mirror().remove(&object, &mut then),
                Update::Missing { missing, .. } => {
                    warn!(object = %missing.obj, fault = %missing.fault, "an object can't be read");
                }
                Update::Failed { error, .. } => self.set_away(Some(error.to_string())),
                Update::Synced { .. } => {
                    *awaited = awaited.saturating_sub(1);
                    if *awaited == 0 {
                        info!(vcenter = %self.client.endpoint(), "vCenter is mirrored");
                        self.works().start_over(&mut self.mirror());
                        self.set_away(None);
                    }
                }
            }
        }
        if !then.reread.is_empty() {
            self.reread(std::mem::take(&mut then.reread), &mut then).await;
        }
        for group in then.groups {
            self.trigger(Trigger::Group(group));
        }
        if !then.concerned.is_nobody() {
            self.trigger(Trigger::Infos(then.concerned));
        }
    }

    /// Not every vCenter tells what a machine's configuration changed to.
    async fn reread(&self, machines: Vec<ManagedObjectReference>, then: &mut Consequences) {
        let object_set = machines.into_iter().map(|obj| ObjectSpec { obj, ..ObjectSpec::default() }).collect();
        let prop_set = vec![mirror::untold_properties()];
        let filter = PropertyFilterSpec { prop_set, object_set, report_missing_objects_in_results: Some(true) };
        let found = match self.client.retrieve(vec![filter]).await {
            Ok(found) => found,
            // Whatever it was, the stream meets it too, and everything is read again after it.
            Err(error) => return warn!(%error, "a machine could not be read again"),
        };
        let now = Timestamp::now();
        for content in found {
            let mut update = vim25::types::ObjectUpdate { obj: content.obj, ..Default::default() };
            update.change_set = content
                .prop_set
                .into_iter()
                .map(|property| vim25::types::PropertyChange {
                    name: property.name,
                    val: Some(property.val),
                    ..Default::default()
                })
                .collect();
            if let Err(error) = self.mirror().change(update, now, then) {
                warn!(%error, "a machine could not be read again");
            }
        }
    }
}

/// Follows vCenter for as long as the operator runs.
async fn follow(live: Arc<Live>) {
    let (root, tasks) = loop {
        match live.client.content().await {
            Ok(content) => break (content.root_folder, content.task_manager),
            Err(error) => {
                warn!(%error, "vCenter can't be reached");
                live.set_away(Some(error.to_string()));
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
            }
        }
    };
    let (collector, updates) = Collector::start(live.client.clone());
    let scope = Scope::Container { root: root.into(), recursive: true };
    collector.watch(Watch { scope, properties: mirror::properties() });
    let mut awaited = 1;
    if let Some(tasks) = tasks {
        let scope = Scope::Listed { by: tasks.into(), path: "recentTask".to_owned() };
        collector.watch(Watch { scope, properties: mirror::task_properties() });
        awaited += 1;
    }
    read(&live, updates, awaited).await;
    drop(collector);
}

async fn read(live: &Live, mut updates: Updates, watches: usize) {
    let mut awaited = watches;
    while let Some(event) = updates.next().await {
        match event {
            Event::Updates(updates) => live.take_up(updates, &mut awaited).await,
            Event::Down(error) => {
                warn!(%error, "vCenter is away");
                awaited = watches;
                live.set_away(Some(error.to_string()));
            }
            Event::Up => info!("vCenter is back"),
        }
    }
}
