//! One live vCenter: its session, and the mirror of what it tells.

mod away;
pub(crate) mod facts;
pub(crate) mod host;
pub(crate) mod marker;
pub(crate) mod mirror;
pub(crate) mod rights;
pub(crate) mod whereabouts;

use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use drover_api::VmGroup;
use drover_core::{group::Timestamp, names, reasons::Reason};
use kube::ResourceExt;
use tokio::{
    sync::{Notify, Semaphore, mpsc},
    task::AbortHandle,
};
use tracing::{info, warn};
use vim25::{
    Client, Collector, Event, Inventory, ManagedObjectReference, Scope, Update, Updates, Watch,
    refs::TaskRef,
    types::{AboutInfo, ObjectSpec, PropertyFilterSpec},
};

use crate::{fleet, group::Works, leadership::Claim};
pub(crate) use away::{Away, reason};
use mirror::{Consequences, Ended, GroupKey, Mirror};
use rights::Rights;
use whereabouts::Concerned;

/// How many groups may look for what they name at once.
const LOOKUPS: usize = 16;
/// How long to wait before the first word is tried again, at first and in the end.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Whose turn it is to plan again, or to be shown anew.
#[derive(Clone, Debug)]
pub(crate) enum Trigger {
    Group(GroupKey),
    /// The HostInfos and VMInfos of these, and the VCenter of this name.
    Infos(String, Concerned),
    /// Everything that is in the VCenter of this name.
    VCenter(String),
    All,
}

impl Trigger {
    /// Whether it is this group's turn.
    pub(crate) fn concerns(&self, group: &VmGroup) -> bool {
        let vcenter = group.status.as_ref().and_then(|status| status.vcenter.as_deref());
        match self {
            Self::Group((namespace, name)) => {
                group.metadata.namespace.as_ref() == Some(namespace) && group.metadata.name.as_ref() == Some(name)
            }
            Self::Infos(..) => false,
            Self::VCenter(name) => vcenter.is_none_or(|vcenter| vcenter == name),
            Self::All => true,
        }
    }
}

/// A vCenter that is followed.
#[derive(Debug)]
pub(crate) struct Live {
    /// The VCenter's name.
    pub name: String,
    pub client: Client,
    pub inventory: Inventory,
    /// So that a slow vCenter is not asked everything at once.
    pub lookups: Semaphore,
    /// The right to change anything in it.
    claim: Claim,
    is_retired: AtomicBool,
    mirror: Mutex<Mirror>,
    works: Mutex<Works>,
    rights: Mutex<Rights>,
    /// Why the mirror can't be trusted, if it can't.
    away: Mutex<Option<Away>>,
    /// What it says of itself.
    about: Mutex<Option<AboutInfo>>,
    /// What tells it from other vCenters, once that is known.
    instance: OnceLock<String>,
    /// What follows it, until it is retired.
    collector: Mutex<Option<Arc<Collector>>>,
    retired: Notify,
    task: OnceLock<AbortHandle>,
    triggers: mpsc::UnboundedSender<Trigger>,
}

impl Live {
    /// Begins to follow a vCenter, which is the instance that it was before, if that is known. `triggers` says whom its changes
    /// concern.
    pub(crate) fn start(
        name: &str,
        client: Client,
        instance: Option<String>,
        claim: Claim,
        triggers: mpsc::UnboundedSender<Trigger>,
    ) -> Arc<Self> {
        let not_yet = "vCenter has not been read yet".to_owned();
        let live = Arc::new(Self {
            name: name.to_owned(),
            inventory: Inventory::new(client.clone()),
            client,
            lookups: Semaphore::new(LOOKUPS),
            claim,
            is_retired: AtomicBool::new(false),
            mirror: Mutex::default(),
            works: Mutex::default(),
            rights: Mutex::default(),
            away: Mutex::new(Some(Away { reason: Reason::NotReadYet, why: not_yet, since: Timestamp::now() })),
            about: Mutex::default(),
            instance: instance.map(OnceLock::from).unwrap_or_default(),
            collector: Mutex::default(),
            retired: Notify::new(),
            task: OnceLock::new(),
            triggers,
        });
        let task = tokio::spawn(follow(Arc::clone(&live)));
        // It was just made, so nothing is set yet.
        let _ = live.task.set(task.abort_handle());
        live
    }

    /// Stops to follow it: nothing more is done to it from here.
    pub(crate) fn retire(self: Arc<Self>) {
        self.is_retired.store(true, Ordering::Release);
        if let Some(task) = self.task.get() {
            task.abort();
        }
        // Before the session ends: whoever follows would log in again.
        self.collector().take();
        self.retired.notify_waiters();
        tokio::spawn(async move { fleet::log_out(&self.client).await });
    }

    async fn retirement(&self) {
        let retired = self.retired.notified();
        if !self.is_retired.load(Ordering::Acquire) {
            retired.await;
        }
    }

    fn collector(&self) -> MutexGuard<'_, Option<Arc<Collector>>> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets a group that is gone.
    pub(crate) fn forget(&self, uid: &str, group: &VmGroup) {
        self.works().forget(uid);
        let folder = names::folder(&group.namespace().unwrap_or_default(), &group.name_any());
        self.mirror().awaited.remove(&folder);
    }

    /// Whether anything may be changed in it now.
    pub(crate) fn may_change(&self) -> bool {
        self.claim.holds() && !self.is_retired.load(Ordering::Acquire)
    }

    pub(crate) fn mirror(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is queued and under way. Whoever takes both takes this before the mirror.
    pub(crate) fn works(&self) -> MutexGuard<'_, Works> {
        self.works.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of the rights that Drover has in it.
    pub(crate) fn rights(&self) -> MutexGuard<'_, Rights> {
        self.rights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why vCenter can't be worked with now, if it can't.
    pub(crate) fn away(&self) -> Option<Away> {
        self.away.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it says of itself, once it has.
    pub(crate) fn about(&self) -> Option<AboutInfo> {
        self.about.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn trigger(&self, trigger: Trigger) {
        // The receiver lives as long as the operator.
        let _ = self.triggers.send(trigger);
    }

    fn set_away(&self, obstacle: Option<(Reason, String)>) {
        {
            let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
            let since = away.as_ref().map_or_else(Timestamp::now, |away| away.since);
            *away = obstacle.map(|(reason, why)| Away { reason, why, since });
        }
        self.trigger(Trigger::VCenter(self.name.clone()));
    }

    /// Everything has been read. Whether that can be trusted depends on who has told it.
    async fn be_there(self: &Arc<Self>) {
        let about = match self.client.content().await {
            Ok(content) => content.about,
            Err(error) => return self.set_away(Some((reason(&error), error.to_string()))),
        };
        let is = about.instance_uuid.clone().unwrap_or_default();
        *self.about.lock().unwrap_or_else(PoisonError::into_inner) = Some(about);
        let was = self.instance.get_or_init(|| is.clone());
        if *was != is {
            let server = self.client.endpoint();
            let why = format!(
                "{server} is another vCenter ({is}) than before ({was}): set spec.server back, or make another VCenter for it"
            );
            return self.set_away(Some((Reason::AnotherVCenter, why)));
        }
        info!(vcenter = %self.name, server = %self.client.endpoint(), "vCenter is mirrored");
        self.works().start_over();
        // What ended while nobody listened is in no list any more.
        let unheard_of = self.mirror().unheard_of();
        for task in unheard_of {
            self.follow_task(task);
        }
        self.rights().doubt();
        self.set_away(None);
    }

    /// Waits for a task that vCenter no longer lists, and may well run.
    pub(crate) fn follow_task(self: &Arc<Self>, task: ManagedObjectReference) {
        let live = Arc::clone(self);
        tokio::spawn(async move {
            let collector = live.collector().clone();
            let (Some(collector), Ok(reference)) = (collector, TaskRef::try_from(task.clone())) else { return };
            let end = tokio::select! {
                end = collector.follow(&reference) => end,
                () = live.retirement() => return,
            };
            let ended = match end {
                Ok(_) => Ended::Done,
                Err(vim25::Error::Task(fault)) => Ended::Failed(*fault),
                Err(error) => {
                    warn!(task = task.value(), %error, "a task's end could not be seen: what it was to do is looked at again");
                    Ended::Unseen
                }
            };
            if let Some(group) = live.mirror().end(&task, ended) {
                live.trigger(Trigger::Group(group));
            }
        });
    }

    async fn take_up(self: &Arc<Self>, updates: Vec<Update>, awaited: &mut usize) {
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
                Update::Failed { error, .. } => self.set_away(Some((reason(&error), error.to_string()))),
                Update::Synced { .. } => {
                    *awaited = awaited.saturating_sub(1);
                    if *awaited == 0 {
                        self.be_there().await;
                    }
                }
            }
        }
        if !then.reread.is_empty() {
            self.reread(std::mem::take(&mut then.reread), &mut then).await;
        }
        for task in std::mem::take(&mut then.unlisted) {
            self.follow_task(task);
        }
        for group in then.groups {
            self.trigger(Trigger::Group(group));
        }
        if !then.concerned.is_nobody() {
            self.trigger(Trigger::Infos(self.name.clone(), then.concerned));
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
    let mut pause = FIRST_PAUSE;
    let (root, tasks) = loop {
        match live.client.content().await {
            Ok(content) => break (content.root_folder, content.task_manager),
            Err(error) => {
                warn!(vcenter = %live.name, %error, "vCenter can't be reached");
                let obstacle = reason(&error);
                live.set_away(Some((obstacle, error.to_string())));
                match obstacle {
                    Reason::LoginRefused => live.client.credentials_replaced().await,
                    _ => tokio::time::sleep(pause).await,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
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
    *live.collector() = Some(Arc::new(collector));
    read(&live, updates, awaited).await;
}

async fn read(live: &Arc<Live>, mut updates: Updates, watches: usize) {
    let mut awaited = watches;
    while let Some(event) = updates.next().await {
        match event {
            Event::Updates(updates) => live.take_up(updates, &mut awaited).await,
            Event::Down(error) => {
                warn!(vcenter = %live.name, %error, "vCenter is away");
                awaited = watches;
                live.set_away(Some((reason(&error), error.to_string())));
            }
            Event::Up => info!(vcenter = %live.name, "vCenter is back"),
        }
    }
}
