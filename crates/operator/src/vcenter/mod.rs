//! One live vCenter: its session, and the mirror of what it tells.

pub(crate) mod awaited;
mod away;
pub(crate) mod connection;
mod customization;
pub(crate) mod disks;
pub(crate) mod executor;
pub(crate) mod facts;
pub(crate) mod figures;
mod gone;
pub(crate) mod host;
mod indexed;
pub(crate) mod inventory;
pub(crate) mod inventory_names;
mod inventory_path;
mod lock;
pub(crate) mod machine;
pub(crate) mod marker;
pub(crate) mod mirror;
pub(crate) mod networks;
pub(crate) mod privileges;
mod property;
mod sight;
pub(crate) mod source;
pub(crate) mod task_states;
pub(crate) mod templates;

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use drover_api::VmGroup;
use drover_core::{Timestamp, reasons::Reason};
use futures::future;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::timeout,
};
use tracing::{info, warn};
use vim25::{
    Client, Collector, Credentials, Error, Event, ManagedObjectReference, Scope, Update, Updates, Watch,
    refs::TaskRef,
    types::{AboutInfo, ObjectSpec, PropertyFilterSpec},
};

use crate::{
    kube::leadership::{Claim, Mandate},
    loops::{Loops, Pulse, Running, is_ending},
};
use away::obstacle;
pub(crate) use away::{Away, reason};
use executor::{Executor, serve_queue};
use inventory_names::Concerned;
use lock::{Guard, Lock};
use mirror::{Consequences, GroupKey, Mirror};
use privileges::Privileges;
use sight::Sight;
pub(crate) use sight::Token;
use templates::read_templates;

/// How long a vCenter may take to end a session.
const FAREWELL: Duration = Duration::from_secs(5);
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
    /// Everything that is declared in this namespace.
    Namespace(String),
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
            Self::Namespace(namespace) => group.metadata.namespace.as_ref() == Some(namespace),
            Self::All => true,
        }
    }
}

/// Whose client a vCenter is talked to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// The environment's, which may be needed again.
    Environment,
    /// That of one declaration, which is never used again.
    Declared,
}

/// A vCenter that is followed.
#[derive(Debug)]
pub(crate) struct VCenterHandle {
    /// The VCenter's name.
    pub name: String,
    // Nobody else talks to it.
    client: Client,
    login: Login,
    /// The right to change anything in it.
    claim: Claim,
    is_retired: AtomicBool,
    // Whoever takes several of these takes them in this order: see `lock`.
    tasks: Lock<0, Tasks>,
    executor: Lock<1, Executor>,
    mirror: Lock<2, Mirror>,
    privileges: Lock<3, Privileges>,
    /// Whether the mirror can be relied on.
    sight: Lock<4, Sight>,
    /// What tells it from other vCenters, once that is known.
    instance: OnceLock<String>,
    retired: Notify,
    /// Something may have become possible that waits.
    queue: Notify,
    /// A template may have to be read.
    templates: Notify,
    loops: Loops,
    triggers: mpsc::UnboundedSender<Trigger>,
}

/// What is done beside each other for a vCenter, until it is retired.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// What follows it, and what starts what waits.
    running: Vec<Running>,
    /// What is told of it.
    collector: Option<Arc<Collector>>,
    /// What is being submitted.
    pub submissions: JoinSet<()>,
}

impl VCenterHandle {
    /// Begins to follow a vCenter, which is the instance that it was before, if that is known. `triggers` says whom its changes
    /// concern.
    pub(crate) fn start(
        name: &str,
        client: Client,
        login: Login,
        instance: Option<String>,
        claim: Claim,
        triggers: mpsc::UnboundedSender<Trigger>,
        loops: &Loops,
    ) -> Arc<Self> {
        client.expect_instance(instance.clone());
        let live = Arc::new(Self {
            name: name.to_owned(),
            client,
            login,
            claim,
            is_retired: AtomicBool::new(false),
            tasks: Lock::default(),
            executor: Lock::default(),
            mirror: Lock::default(),
            privileges: Lock::default(),
            sight: Lock::new(Sight::new(Timestamp::now())),
            instance: instance.map(OnceLock::from).unwrap_or_default(),
            retired: Notify::new(),
            queue: Notify::new(),
            templates: Notify::new(),
            loops: loops.clone(),
            triggers,
        });
        let running = [
            loops.start(format!("collector of {name}"), |pulse| follow(Arc::clone(&live), pulse)),
            loops.start(format!("queue of {name}"), |pulse| serve_queue(Arc::clone(&live), pulse)),
            loops.start(format!("templates of {name}"), |pulse| read_templates(Arc::clone(&live), pulse)),
        ];
        live.tasks().running.extend(running);
        live
    }

    /// Stops to follow it: nothing more is done to it from here.
    pub(crate) fn retire(self: Arc<Self>) {
        self.is_retired.store(true, Ordering::Release);
        let loops = self.loops.clone();
        loops.finish(async move { self.leave().await });
    }

    /// Ends what follows it, and then its session: whoever follows would log in again.
    pub(crate) async fn leave(&self) {
        self.is_retired.store(true, Ordering::Release);
        self.retired.notify_waiters();
        let running = std::mem::take(&mut self.tasks().running);
        let end = async {
            future::join_all(running.into_iter().map(Running::stop)).await;
            // Nobody adds to these any more.
            let Tasks { collector, submissions, .. } = std::mem::take(&mut *self.tasks());
            // What is half said is said to its end.
            submissions.join_all().await;
            if let Some(collector) = collector {
                collector.stop().await;
            }
            match self.login {
                Login::Environment => self.client.logout().await,
                Login::Declared => self.client.close().await,
            }
        };
        // Nothing waits long for that.
        if let Ok(Err(error)) = timeout(FAREWELL, end).await {
            warn!(vcenter = %self.name, %error, "Logout failed");
        }
    }

    /// Has it looked whether something that waits can be started.
    pub(crate) fn wake_queue(&self) {
        self.queue.notify_one();
    }

    /// Returns when something may have become possible that waits.
    pub(crate) async fn queue_woken(&self) {
        self.queue.notified().await;
    }

    /// Has templates read that groups wait for.
    pub(crate) fn want_templates(&self) {
        self.templates.notify_one();
    }

    /// Returns when a template may have to be read.
    pub(crate) async fn templates_wanted(&self) {
        self.templates.notified().await;
    }

    async fn retirement(&self) {
        let retired = self.retired.notified();
        if !self.is_retired.load(Ordering::Acquire) {
            retired.await;
        }
    }

    /// What is done beside each other for it.
    pub(crate) fn tasks(&self) -> Guard<'_, 0, Tasks> {
        self.tasks.lock()
    }

    /// Forgets the groups that are gone.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        self.executor().retain(&is_there);
        self.privileges().retain_groups(&is_there);
        self.mirror().awaited.retain_groups(&is_there);
    }

    /// The right to change anything in it, while this replica has it.
    pub(crate) fn mandate(&self) -> Option<Mandate> {
        self.claim.mandate()
    }

    /// Whether this is the right to change anything in it, and no other.
    pub(crate) fn is_current(&self, mandate: &Mandate) -> bool {
        mandate.is_of(&self.claim)
    }

    /// Begins to work in the name of a mandate. What is remembered of an earlier one is void, as after a start of the operator: another
    /// replica may have worked in between.
    pub(crate) fn enter(&self, mandate: &Mandate) {
        if self.executor().enter(mandate.epoch()) {
            self.mirror().tasks.forget_submitters();
            self.privileges().doubt();
            self.track_unknown_clones();
        }
    }

    /// Forgets what was queued and is remembered: another replica works here now.
    pub(crate) fn resign(&self) {
        self.executor().resign();
        let mut mirror = self.mirror();
        mirror.tasks.forget_submitters();
        mirror.awaited.forget_names();
    }

    /// The proof that it may be changed now, if it may: all of it is in sight, it is the vCenter that it always was, and this replica
    /// has the claim.
    pub(crate) fn token(&self) -> Option<Token> {
        let may_change = self.claim.holds() && !self.is_retired.load(Ordering::Acquire) && !is_ending();
        self.sight().session().filter(|_| may_change).cloned().map(Token)
    }

    /// Whether all of it is in sight.
    pub(crate) fn is_in_sight(&self) -> bool {
        self.sight().session().is_some()
    }

    /// What is queued and under way.
    pub(crate) fn executor(&self) -> Guard<'_, 1, Executor> {
        self.executor.lock()
    }

    /// What vCenter has told.
    pub(crate) fn mirror(&self) -> Guard<'_, 2, Mirror> {
        self.mirror.lock()
    }

    /// What is known of the rights that Drover has in it.
    pub(crate) fn privileges(&self) -> Guard<'_, 3, Privileges> {
        self.privileges.lock()
    }

    fn sight(&self) -> Guard<'_, 4, Sight> {
        self.sight.lock()
    }

    /// Logs in with these from now on.
    pub(crate) fn set_credentials(&self, credentials: Credentials, written: &str) {
        self.client.set_credentials(credentials, written);
    }

    pub(crate) fn is_logged_in(&self) -> bool {
        self.client.is_logged_in()
    }

    /// The session that there is, if there is one.
    pub(crate) async fn current_session(&self) -> Option<Arc<vim25::client::Session>> {
        self.client.current_session().await
    }

    /// Logs in, unless that is done.
    pub(crate) async fn log_in(&self) -> Result<(), Error> {
        self.client.session().await.map(drop)
    }

    /// Why vCenter can't be worked with now, if it can't.
    pub(crate) fn away(&self) -> Option<Away> {
        self.sight().away(Timestamp::now())
    }

    /// What it says of itself, once it has.
    pub(crate) fn about(&self) -> Option<AboutInfo> {
        self.sight().about().cloned()
    }

    /// Who is logged in, as vCenter says it of tasks.
    pub(crate) fn user(&self) -> String {
        self.sight().user().to_owned()
    }

    /// Looks whether everything that makes or destroys still has to stop, though no group plans.
    pub(crate) fn judge(&self) {
        let mut executor = self.executor();
        executor.note_shown(&self.mirror());
        let before = executor.incident().map(|incident| incident.id.clone());
        let after = executor.judge(&self.name, None, Timestamp::now());
        if after.map(|incident| incident.id) != before {
            // Nobody plans for any other reason, and all have waited for this or have to be told.
            self.trigger(Trigger::VCenter(self.name.clone()));
        }
    }

    /// Takes up which incidents somebody said to go on after.
    pub(crate) fn set_released(&self, incidents: Vec<String>) {
        if self.executor().release(incidents) {
            self.trigger(Trigger::VCenter(self.name.clone()));
        }
    }

    pub(crate) fn trigger(&self, trigger: Trigger) {
        // The receiver lives as long as the operator.
        let _ = self.triggers.send(trigger);
    }

    fn obstruct(&self, (reason, why): (Reason, String)) {
        self.sight().obstruct(reason, why, Timestamp::now());
        self.trigger(Trigger::VCenter(self.name.clone()));
    }

    /// Everything has been read. Whether that can be relied on depends on who has told it.
    async fn on_synced(self: &Arc<Self>) {
        let session = match self.client.session().await {
            Ok(session) => session,
            Err(error) => return self.obstruct(obstacle(&error)),
        };
        self.sight().meet(&session);
        let is = session.content.about.instance_uuid.clone().unwrap_or_default();
        let was = self.instance.get_or_init(|| is.clone());
        // From now on, no other gets the password.
        self.client.expect_instance(Some(was.clone()));
        if !was.eq_ignore_ascii_case(&is) {
            // It was logged in to while nobody knew which one it should be.
            let (endpoint, expected) = (self.client.endpoint().to_string(), was.clone());
            return self.obstruct(obstacle(&Error::OtherInstance { endpoint, expected, found: is }));
        }
        self.executor().start_over(Timestamp::now());
        self.mirror().templates.forget_all();
        self.privileges().doubt();
        self.track_unknown_clones();
        if self.sight().trust(session) {
            info!(vcenter = %self.name, server = %self.client.endpoint(), "vCenter mirrored");
            self.trigger(Trigger::VCenter(self.name.clone()));
        }
    }

    /// Has vCenter tell of the end of a task, though it may not tell of its list of tasks.
    pub(crate) fn track(&self, task: &ManagedObjectReference) {
        if let (Some(collector), Ok(task)) = (&self.tasks().collector, TaskRef::try_from(task.clone())) {
            collector.track(&task);
        }
    }

    /// Clones that an operator has left behind which was ended: groups wait for their ends.
    fn track_unknown_clones(&self) {
        let user = self.user();
        let clones = self.mirror().tasks.clones_of(&user);
        for task in &clones {
            self.track(task);
        }
    }

    async fn take_up(self: &Arc<Self>, updates: Vec<Update>) {
        let now = Timestamp::now();
        let mut then = Consequences::default();
        for update in updates {
            match update {
                Update::Changed { update, watch } => {
                    let object = update.obj.clone();
                    let is_tracked = watch == Collector::TASKS;
                    if is_tracked && !self.mirror().tasks.is_ours(&object) && !self.mirror().tasks.is_running(&object) {
                        // Its end was told of already.
                        continue;
                    }
                    if let Err(error) = self.mirror().change(update, now, &mut then) {
                        warn!(vcenter = %self.name, %object, %error, "Update from vCenter not understood");
                    }
                }
                Update::Gone { object, watch: Collector::TASKS } => self.mirror().tasks.end_unseen(&object, &mut then),
                Update::Gone { object, .. } => self.mirror().remove(&object, now, &mut then),
                Update::Missing { missing, .. } => {
                    warn!(vcenter = %self.name, object = %missing.obj, fault = %missing.fault, "Object in vCenter not readable");
                    self.mirror().note_unreadable(&missing.obj, now, &mut then);
                }
                Update::Failed { error, watch } => {
                    warn!(vcenter = %self.name, %error, "Watch in vCenter not set up");
                    self.sight().lose_watch(watch, error.to_string(), now);
                    self.obstruct(obstacle(&error));
                }
                Update::Synced { watch } => {
                    let is_whole = self.sight().sync(watch);
                    if is_whole {
                        self.on_synced().await;
                    }
                }
            }
        }
        if self.mirror().templates.due().is_some() {
            self.want_templates();
        }
        if !then.reread.is_empty() {
            self.reread(std::mem::take(&mut then.reread), &mut then).await;
        }
        for clone in then.clones {
            // Its end may be told nowhere else.
            if self.mirror().tasks.is_clone_of(&clone, &self.user()) {
                self.track(&clone);
            }
        }
        if !then.groups.is_empty() {
            // A task of theirs may have ended, and its place is free.
            self.wake_queue();
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
        let prop_set = vec![machine::untold_properties()];
        let filter = PropertyFilterSpec { prop_set, object_set, report_missing_objects_in_results: Some(true) };
        let found = match self.client.retrieve(vec![filter]).await {
            Ok(found) => found,
            // Whatever it was, the stream meets it too, and everything is read again after it.
            Err(error) => return warn!(vcenter = %self.name, %error, "VM not read again"),
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
            let mut mirror = self.mirror();
            if !mirror.machines.contains_key(&update.obj) {
                continue; // It has gone meanwhile.
            }
            if let Err(error) = mirror.change(update, now, then) {
                warn!(vcenter = %self.name, %error, "VM not read again");
            }
        }
    }
}

/// Follows vCenter for as long as the operator runs.
async fn follow(live: Arc<VCenterHandle>, pulse: Pulse) {
    let mut pause = FIRST_PAUSE;
    let (root, tasks) = loop {
        match pulse.wait(live.client.content()).await {
            Ok(content) => break (content.root_folder, content.task_manager),
            Err(error) => {
                warn!(vcenter = %live.name, %error, "vCenter not reachable");
                let (reason, why) = obstacle(&error);
                live.obstruct((reason, why));
                match reason {
                    Reason::LoginRefused => pulse.wait(live.client.login_allowed()).await,
                    _ => tokio::time::sleep(pause).await,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    };
    let (collector, updates) = Collector::start(live.client.clone());
    let scope = Scope::Container { root: root.into(), recursive: true };
    live.sight().watch(collector.watch(Watch { scope, properties: mirror::properties() }));
    if let Some(tasks) = tasks {
        let scope = Scope::Listed { by: tasks.into(), path: "recentTask".to_owned() };
        live.sight().watch(collector.watch(Watch { scope, properties: task_states::properties() }));
    }
    live.tasks().collector = Some(Arc::new(collector));
    read(&live, updates, &pulse).await;
    if live.is_retired.load(Ordering::Acquire) {
        // Its stream has ended, and it is about to be ended.
        std::future::pending::<()>().await;
    }
}

async fn read(live: &Arc<VCenterHandle>, mut updates: Updates, pulse: &Pulse) {
    while let Some(event) = pulse.wait(updates.next()).await {
        match event {
            // It may have to ask vCenter something.
            Event::Updates(updates) => pulse.wait(live.take_up(updates)).await,
            Event::Blind(error) => {
                live.sight().lose(error.to_string(), Timestamp::now());
                info!(vcenter = %live.name, %error, "vCenter read again");
            }
            Event::Down(error) => {
                warn!(vcenter = %live.name, %error, "vCenter connection lost");
                live.obstruct(obstacle(&error));
            }
            Event::Up => info!(vcenter = %live.name, "vCenter connection restored"),
        }
    }
}
