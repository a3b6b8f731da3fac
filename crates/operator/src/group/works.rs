//! What is done to a vCenter, each thing in its turn: one fair queue for all groups, and what is under way.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use drover_api::vmgroup::Placement;
use drover_core::{
    Action,
    budget::{Admitted, Budget, Limits, Ticket},
    faults::{NextStep, Remedy},
    group::Timestamp,
    names::Slot,
};
use tokio::time::sleep;
use tracing::{info, warn};
use vim25::{Error, ManagedObject, ManagedObjectReference, refs::HostSystemRef};

use super::{
    act::{Scene, Submitted},
    memory::Memory,
    source::Found,
};
use crate::vcenter::{
    Live, Trigger,
    mirror::{Ended, GroupKey, Mirror},
};

/// How long vCenter has to tell of a task. Its list of tasks is short: one may have left it before it was known to be ours.
const TIME_TO_TELL: Duration = Duration::from_secs(5);

/// Everything that is queued and under way in one vCenter, by the groups' UIDs.
#[derive(Debug)]
pub(crate) struct Works {
    budget: Budget<String, Action, ManagedObjectReference>,
    groups: HashMap<String, Group>,
    tasks: HashMap<ManagedObjectReference, Errand>,
    chance: RandomState,
    /// Whether something was refused for want of a privilege.
    is_refused: bool,
}

/// What is known of a group. All of it may be lost.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub memory: Memory,
    /// What the spec names, found in vCenter for this generation of it and this placement.
    pub found: Option<(i64, Placement, Found)>,
    /// What its actions need to know, as of the last plan.
    scene: Option<Arc<Scene>>,
    /// Which host each clone that waits is for.
    hosts: BTreeMap<Slot, HostSystemRef>,
}

/// An action whose turn it is.
#[derive(Debug)]
struct Errand {
    ticket: Ticket,
    group: String,
    action: Action,
    scene: Arc<Scene>,
    /// The host that a clone goes to.
    host: Option<HostSystemRef>,
}

impl Default for Works {
    fn default() -> Self {
        Self {
            budget: Budget::new(Limits::default()),
            groups: HashMap::new(),
            tasks: HashMap::new(),
            chance: RandomState::new(),
            is_refused: false,
        }
    }
}

impl Works {
    pub(crate) fn group(&mut self, uid: &str) -> &mut Group {
        self.groups.entry(uid.to_owned()).or_default()
    }

    /// Queues what a group's plan says, in place of what its last plan said.
    pub(crate) fn order(&mut self, scene: Scene, actions: &[Action]) {
        let uid = scene.desired.uid.clone();
        let wanted: BTreeSet<_> = actions.iter().collect();
        self.budget.retain(&uid, |action| wanted.contains(action));
        let mut before = std::mem::take(&mut self.group(&uid).hosts);
        let mut hosts = BTreeMap::new();
        for action in actions {
            let mut host = None;
            if let Action::Clone(slot) = action {
                host = before.remove(slot).or_else(|| self.least_loaded(scene.hosts()));
                hosts.extend(host.clone().map(|host| (*slot, host)));
            }
            self.budget.enqueue(uid.clone(), action.clone(), host.map(Into::into));
        }
        let group = self.group(&uid);
        group.hosts = hosts;
        group.scene = Some(Arc::new(scene));
    }

    /// The host with the least before it.
    fn least_loaded(&self, hosts: &[HostSystemRef]) -> Option<HostSystemRef> {
        hosts.iter().min_by_key(|host| self.budget.load_of(host.reference())).cloned()
    }

    /// Forgets a group that is gone.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.budget.forget(&uid.to_owned());
        self.groups.remove(uid);
        let over: Vec<_> =
            self.tasks.iter().filter(|(_, errand)| errand.group == uid).map(|(task, _)| task.clone()).collect();
        for task in over {
            if let Some(errand) = self.tasks.remove(&task) {
                self.budget.finished(errand.ticket);
            }
        }
    }

    /// Takes up the tasks that have ended.
    pub(crate) fn learn(&mut self, mirror: &mut Mirror, now: Timestamp) {
        let ended: Vec<_> = self.tasks.keys().filter(|task| mirror.tasks.contains_key(task)).cloned().collect();
        for task in ended {
            if let (Some(errand), Some(ended)) = (self.tasks.remove(&task), mirror.end_of(&task)) {
                self.end(errand, ended, mirror, now);
            }
        }
    }

    /// vCenter was away, and everything of it has been read anew.
    pub(crate) fn start_over(&mut self) {
        for group in self.groups.values_mut() {
            group.memory.vcenter_is_back();
        }
    }

    /// Sets how much may be done at once.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.budget.set_limits(limits);
    }

    /// Whether something was refused for want of a privilege since this was last asked.
    pub(crate) fn take_refusal(&mut self) -> bool {
        std::mem::take(&mut self.is_refused)
    }

    /// How much is queued, and how much under way.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.budget.queued(), self.budget.in_use())
    }

    pub(crate) fn is_known(&self, task: &ManagedObjectReference) -> bool {
        self.tasks.contains_key(task)
    }

    fn next(&mut self) -> Option<Errand> {
        loop {
            let admitted = self.budget.admit()?;
            let group = self.groups.entry(admitted.group.clone()).or_default();
            let Some(scene) = group.scene.clone() else {
                self.budget.finished(admitted.ticket);
                continue;
            };
            group.memory.begin(admitted.operation.clone());
            let Admitted { ticket, group, operation: action, host } = admitted;
            let host = host.and_then(|host| HostSystemRef::try_from(host).ok());
            return Some(Errand { ticket, group, action, scene, host });
        }
    }

    fn give_up(&mut self, errand: Errand) {
        self.group(&errand.group).memory.lost(&errand.action);
        self.budget.finished(errand.ticket);
    }

    /// Takes up what became of a submission, and returns the task whose end is to come. Without one, its group plans again.
    fn submitted(
        &mut self,
        errand: Errand,
        outcome: Result<Submitted, Error>,
        mirror: &mut Mirror,
    ) -> Option<ManagedObjectReference> {
        let now = Timestamp::now();
        let name = &errand.scene.desired.name;
        match outcome {
            Ok(Submitted::Task(task)) => {
                info!(group = %name, action = ?errand.action, task = task.value(), "submitted");
                let task: ManagedObjectReference = task.into();
                mirror.submitters.insert(task.clone(), errand.scene.key());
                self.tasks.insert(task.clone(), errand);
                // It may have ended, and been seen to, before the answer was here.
                return (!mirror.tasks.contains_key(&task)).then_some(task);
            }
            Ok(Submitted::Done) => self.end(errand, Ended::Done, mirror, now),
            Ok(Submitted::Occupied(folder, children)) => {
                mirror.found_in(&folder.into(), children);
                self.end(errand, Ended::Unseen, mirror, now);
            }
            Err(error) => {
                warn!(group = %name, action = ?errand.action, %error, "refused");
                self.fail(errand, &error, mirror, now);
            }
        }
        None
    }

    fn end(&mut self, errand: Errand, ended: Ended, mirror: &Mirror, now: Timestamp) {
        let memory = &mut self.groups.entry(errand.group.clone()).or_default().memory;
        match ended {
            Ended::Done => memory.succeeded(&errand.action, now),
            Ended::Unseen => memory.lost(&errand.action),
            Ended::Failed(fault) => return self.fail(errand, &Error::from(fault), mirror, now),
        }
        self.budget.finished(errand.ticket);
    }

    fn fail(&mut self, errand: Errand, error: &Error, mirror: &Mirror, now: Timestamp) {
        let draw = self.chance.hash_one((now, &errand.group, format!("{:?}", errand.action)));
        let group = self.groups.entry(errand.group).or_default();
        let taken_by = errand.scene.taken_by(&errand.action, mirror);
        let step = group.memory.failed(&errand.action, error, taken_by.as_deref(), now, draw);
        self.is_refused |= step == NextStep::AwaitUser(Remedy::Rights);
        if matches!(step, NextStep::LookAgain | NextStep::AwaitUser(_)) {
            // What the spec names may have been moved or made anew.
            group.found = None;
        }
        self.budget.finished(errand.ticket);
    }
}

/// Starts all that may be started. Nobody waits for it: what comes of it is seen in the mirror.
pub(crate) fn start_what_may(live: &Arc<Live>) {
    while let Some(errand) = { live.works().next() } {
        tokio::spawn(run(Arc::clone(live), errand));
    }
}

async fn run(live: Arc<Live>, errand: Errand) {
    if !live.may_change() {
        // Another operator may be at it. This one ends, or plans again when it is its turn.
        return live.works().give_up(errand);
    }
    let group: GroupKey = errand.scene.key();
    let outcome = errand.scene.submit(&errand.action, errand.host.as_ref()).await;
    let task = {
        let mut works = live.works();
        let mut mirror = live.mirror();
        works.submitted(errand, outcome, &mut mirror)
    };
    let Some(task) = task else {
        live.trigger(Trigger::Group(group));
        return start_what_may(&live);
    };
    sleep(TIME_TO_TELL).await;
    if live.mirror().is_unheard_of(&task) {
        live.follow_task(task);
    }
}
