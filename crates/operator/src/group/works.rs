//! What is done to a vCenter, each thing in its turn: one fair queue for all groups, and what is under way.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use drover_api::vmgroup::Placement;
use drover_core::{
    Action,
    backoff::{Backoff, Pace},
    brake::{Brake, Incident, Missing, Scope, Toll},
    budget::{Admitted, Budget, Limits, Ticket},
    faults::{NextStep, Remedy},
    group::{MachineId, Power, Revision, Timestamp},
    names::Slot,
    placement::{self, Candidate},
    record::{Incarnation, Record, Stage},
};
use tokio::time::sleep;
use tracing::{info, warn};
use vim25::{
    Error, ManagedObject, ManagedObjectReference,
    refs::{HostSystemRef, VirtualMachineRef},
};

use super::{
    act::{Scene, Submitted, power_of},
    memory::Memory,
    source::{Base, Found},
    view,
};
use crate::{
    loops::Pulse,
    vcenter::{
        Live, Trigger,
        mirror::{Consequences, Ended, GroupKey, Mirror},
    },
};

/// How long an operation keeps its place before others, unless its VCenter says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_mins(30);
/// For how long what one group has found is found for others, too.
const LATELY: Duration = Duration::from_secs(10);
/// How often it is looked for operations that take very long.
const LOOK: Duration = Duration::from_secs(5);

/// Everything that is queued and under way in one vCenter, by the groups' UIDs.
#[derive(Debug)]
pub(crate) struct Works {
    budget: Budget<String, Action, ManagedObjectReference>,
    groups: HashMap<String, Group>,
    tasks: HashMap<ManagedObjectReference, Errand>,
    chance: RandomState,
    brake: Brake,
    incident: Option<Incident>,
    /// The hosts that clones have failed on.
    failing: Backoff<ManagedObjectReference>,
    /// Whether something was refused for want of a privilege.
    is_refused: bool,
    /// How long an operation keeps its place before others.
    patience: Duration,
    /// What groups have found a moment ago, by the names of datacenter, folder and template.
    lately: HashMap<Names, (Instant, Base, VirtualMachineRef)>,
}

/// The names of a datacenter, a folder and a template, as a spec has them.
type Names = [Option<String>; 3];

/// What is known of a group. All of it may be lost.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub memory: Memory,
    /// What the spec names, found in vCenter for this revision of it and this placement.
    pub found: Option<(Revision, Placement, Found)>,
    /// How often what the spec names was not found, for this generation of it.
    pub misses: (i64, u32),
    /// What its actions need to know, as of the last plan.
    scene: Option<Arc<Scene>>,
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
    began: Instant,
}

impl Default for Works {
    fn default() -> Self {
        Self {
            budget: Budget::new(Limits::default()),
            groups: HashMap::new(),
            tasks: HashMap::new(),
            chance: RandomState::new(),
            brake: Brake::new(Scope::VCenter),
            incident: None,
            failing: Backoff::new(placement::AVOIDED),
            is_refused: false,
            patience: PATIENCE,
            lately: HashMap::new(),
        }
    }
}

impl Works {
    pub(crate) fn group(&mut self, uid: &str) -> &mut Group {
        self.groups.entry(uid.to_owned()).or_default()
    }

    /// What was found under these names a moment ago.
    pub(crate) fn found_lately(&self, names: &Names) -> Option<(Base, VirtualMachineRef)> {
        let (at, base, template) = self.lately.get(names)?;
        (at.elapsed() < LATELY).then(|| (base.clone(), template.clone()))
    }

    pub(crate) fn note_found(&mut self, names: Names, base: Base, template: VirtualMachineRef) {
        self.lately.retain(|_, (at, ..)| at.elapsed() < LATELY);
        self.lately.insert(names, (Instant::now(), base, template));
    }

    /// Queues what a group's plan says, in place of what its last plan said.
    pub(crate) fn order(&mut self, scene: Scene, actions: &[Action], now: Timestamp) {
        let uid = scene.desired.uid.clone();
        let wanted: BTreeSet<_> = actions.iter().collect();
        self.budget.retain(&uid, |action| wanted.contains(action));
        let mut candidates = self.candidates(&scene);
        let before = self.hosts_of_clones(&uid);
        for action in actions {
            let mut host = None;
            if let Action::Clone(slot) = action {
                let stays = before.get(slot).filter(|host| placement::stays(&candidates, host, now)).cloned();
                host = stays.or_else(|| take_place(&mut candidates, &uid, *slot, now));
            }
            self.budget.enqueue(uid.clone(), action.clone(), host);
        }
        self.group(&uid).scene = Some(Arc::new(scene));
    }

    /// Takes back what a group has queued and its plan doesn't say, or says of another machine. Until the plan itself is queued, others
    /// may have to be asked, and what is begun meanwhile is begun by the last plan.
    pub(crate) fn narrow(&mut self, uid: &str, actions: &[Action]) {
        let wanted: BTreeSet<_> = actions.iter().collect();
        let group = self.groups.get(uid);
        let incarnations = group.and_then(|group| Some(&group.scene.as_ref()?.incarnations));
        let record = group.and_then(|group| group.memory.record.now());
        self.budget
            .retain(&uid.to_owned(), |action| wanted.contains(action) && is_as_ordered(action, incarnations, record));
    }

    /// The hosts that a group's clones can go to, with all that is on its way to them.
    fn candidates(&self, scene: &Scene) -> Vec<Candidate<ManagedObjectReference>> {
        let uid = &scene.desired.uid;
        let mut placed = scene.hosts.members.clone();
        placed.extend(self.hosts_of_clones(uid));
        let mut members: BTreeMap<_, usize> = BTreeMap::new();
        for host in placed.into_values() {
            *members.entry(host).or_default() += 1;
        }
        let mut candidates = scene.hosts.candidates.clone();
        for candidate in &mut candidates {
            candidate.members = members.get(&candidate.host).copied().unwrap_or(0);
            candidate.load = self.budget.load_of(&candidate.host);
            candidate.failed_until = self.failing.not_before(&candidate.host);
        }
        candidates
    }

    /// Which host each clone of a group is for that waits or is under way.
    fn hosts_of_clones(&self, uid: &String) -> BTreeMap<Slot, ManagedObjectReference> {
        let clones = self.budget.on_hosts(uid);
        clones.filter_map(|(action, host)| Some((action.cloned_slot()?, host.clone()))).collect()
    }

    /// Takes back what a group has queued: nothing is known of what it wants now. What is under way goes on.
    pub(crate) fn withdraw(&mut self, uid: &str) {
        self.budget.retain(&uid.to_owned(), |_| false);
        if let Some(group) = self.groups.get_mut(uid) {
            group.memory.is_unseen = true;
        }
    }

    /// Takes those machines for back that the mirror shows again, of groups that can't be looked at: their groups can't say so.
    pub(crate) fn note_shown(&mut self, mirror: &Mirror) {
        let unseen = self.groups.iter_mut().filter(|(_, group)| group.memory.is_unseen);
        let mut unseen = unseen.filter(|(_, group)| group.memory.record.roll.has_missing()).peekable();
        if unseen.peek().is_none() {
            return;
        }
        let shown: HashSet<_> = mirror.machines.values().filter_map(|machine| machine.instance.as_deref()).collect();
        for (uid, group) in unseen {
            let is_there = |id: &MachineId| mirror.machines.contains_key(&view::reference(id));
            group.memory.record.roll.note_shown(uid, |instance| shown.contains(instance), is_there);
        }
    }

    /// Forgets the groups that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.groups.keys().filter(|uid| !is_there(uid)).cloned().collect();
        for uid in gone {
            self.forget(&uid);
        }
    }

    /// How many machines are missing by now.
    pub(crate) fn missing(&self, now: Timestamp) -> usize {
        let (_, missing) = toll(&self.groups);
        missing.iter().filter(|one| one.counts_from <= now).count()
    }

    /// Whether anything that makes or destroys is stopped, in all of this vCenter or for one of its groups.
    pub(crate) fn is_stopped(&self) -> bool {
        self.incident.is_some() || self.groups.values().any(|group| group.memory.is_stopped)
    }

    /// How many machines carry a group's marker and aren't its members.
    pub(crate) fn lookalikes(&self) -> usize {
        let all = self.groups.values().map(|group| &group.memory.lookalikes);
        all.map(|found| found.copies.len() + found.returned.len()).sum()
    }

    /// Says whether everything that makes or destroys has to stop in this vCenter.
    pub(crate) fn judge(
        &mut self,
        vcenter: &str,
        released: Vec<&str>,
        remembered: Option<&str>,
        now: Timestamp,
    ) -> Option<Incident> {
        let (members, missing) = toll(&self.groups);
        let toll = Toll { name: vcenter, members, missing, unexplained: 0, released, remembered };
        let before = std::mem::replace(&mut self.incident, self.brake.judge(&toll, now));
        if before.is_some() && self.incident.is_none() && !self.brake.was_released() {
            // They are coming back: those that are still missing have the time that any has.
            self.groups.values_mut().for_each(|group| group.memory.restart_clocks(now));
        }
        self.incident.clone()
    }

    /// Why everything that makes or destroys is stopped in this vCenter, if it is.
    pub(crate) fn incident(&self) -> Option<&Incident> {
        self.incident.as_ref()
    }

    /// Forgets a group that is gone. What is under way keeps its place until it has ended, whoever began it.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.budget.forget(&uid.to_owned());
        self.groups.remove(uid);
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
    pub(crate) fn start_over(&mut self, now: Timestamp) {
        for group in self.groups.values_mut() {
            group.memory.vcenter_is_back();
            group.memory.restart_clocks(now);
        }
        self.failing.reset();
    }

    /// Sets how much may be done at once.
    pub(crate) fn set_limits(&mut self, limits: Limits, patience: Duration) {
        self.budget.set_limits(limits);
        self.patience = patience;
    }

    /// Gives others the places of operations that take very long. Each still is under way, and is not begun a second time.
    fn pass_over_overdue(&mut self, now: Instant) {
        for (task, errand) in &self.tasks {
            let lasts = now.saturating_duration_since(errand.began);
            if lasts > self.patience && self.budget.pass_over(&errand.ticket) {
                let (group, action) = (&errand.scene.desired.name, &errand.action);
                warn!(%group, ?action, task = task.value(), "under way for {lasts:?}: others wait for it no more");
            }
        }
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
            let is_stopped = group.memory.is_stopped || self.incident.is_some() && !group.memory.goes_on;
            if is_stopped && admitted.operation.makes_or_destroys() {
                // It is planned again when that is over.
                self.budget.finished(admitted.ticket);
                continue;
            }
            group.memory.begin(admitted.operation.clone());
            let Admitted { ticket, group, operation: action, host } = admitted;
            let host = host.and_then(|host| HostSystemRef::try_from(host).ok());
            return Some(Errand { ticket, group, action, scene, host, began: Instant::now() });
        }
    }

    fn give_up(&mut self, errand: Errand) {
        if let Some(group) = self.groups.get_mut(&errand.group) {
            group.memory.lost(&errand.action);
        }
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
            // It is planned again when vCenter is in sight, by whoever has the claim then.
            Ok(Submitted::Withheld) => self.give_up(errand),
            Ok(Submitted::Done) => self.end(errand, Ended::Done(None), mirror, now),
            Ok(Submitted::Occupied) => {
                let draw = self.draw(&errand, now);
                if let Some(group) = self.groups.get_mut(&errand.group) {
                    group.memory.folder_is_occupied(&errand.action, now, draw);
                }
                self.budget.finished(errand.ticket);
            }
            Err(error) => {
                warn!(group = %name, action = ?errand.action, %error, "refused");
                self.fail(errand, &error, mirror, now);
            }
        }
        None
    }

    fn end(&mut self, errand: Errand, ended: Ended, mirror: &mut Mirror, now: Timestamp) {
        // It may have been forgotten meanwhile.
        let memory = self.groups.get_mut(&errand.group).map(|group| &mut group.memory);
        if let (Ended::Done(_), Some(host)) = (&ended, &errand.host) {
            self.failing.succeeded(host.reference());
        }
        match ended {
            Ended::Done(made) => {
                if let Some(memory) = memory {
                    memory.succeeded(&errand.action, made.as_ref(), now);
                }
                if let Action::Destroy(id) = &errand.action {
                    // Its group plans now, and nobody else has to.
                    mirror.note_destroyed(&view::reference(id), Duration::ZERO, now, &mut Consequences::default());
                }
            }
            Ended::Unseen => return self.give_up(errand),
            Ended::Failed(fault) => return self.fail(errand, &Error::from(fault), mirror, now),
        }
        self.budget.finished(errand.ticket);
    }

    fn draw(&self, errand: &Errand, now: Timestamp) -> u64 {
        self.chance.hash_one((now, &errand.group, format!("{:?}", errand.action)))
    }

    fn fail(&mut self, errand: Errand, error: &Error, mirror: &Mirror, now: Timestamp) {
        let draw = self.draw(&errand, now);
        let Some(group) = self.groups.get_mut(&errand.group) else { return self.budget.finished(errand.ticket) };
        let taken_by = errand.scene.taken_by(&errand.action, mirror);
        let power = power_of(&errand.action, mirror).unwrap_or(Power::Off);
        let step = group.memory.failed(&errand.action, error, taken_by.as_deref(), power, now, draw);
        if let Some(host) = errand.host.filter(|_| placement::blames_the_host(step)) {
            self.failing.failed(host.into(), now, draw, step.pace().unwrap_or(Pace::Normal));
        }
        self.is_refused |= step == NextStep::AwaitUser(Remedy::Rights);
        if matches!(step, NextStep::LookAgain | NextStep::AwaitUser(_)) {
            // What the spec names may have been moved or made anew.
            group.found = None;
            self.lately.clear();
        }
        self.budget.finished(errand.ticket);
    }
}

/// Whether an action that was ordered for machines of these incarnations is about the one that the record has.
fn is_as_ordered(action: &Action, incarnations: Option<&BTreeMap<Slot, Incarnation>>, record: Option<&Record>) -> bool {
    let Some(slot) = action.cloned_slot() else { return true };
    let entry = record.and_then(|record| record.get(slot)).filter(|entry| entry.stage == Stage::Pending);
    entry.is_some_and(|entry| incarnations.and_then(|all| all.get(&slot)) == Some(&entry.incarnation))
}

/// How many machines all groups have, and those that are missing.
fn toll(groups: &HashMap<String, Group>) -> (usize, Vec<Missing<'_>>) {
    let tolls = groups.iter().map(|(uid, group)| group.memory.toll(uid));
    tolls.fold((0, Vec::new()), |(members, mut all), (more, missing)| {
        all.extend(missing);
        (members + more, all)
    })
}

/// Chooses a host for the machine of a slot, and counts it there.
fn take_place(
    candidates: &mut [Candidate<ManagedObjectReference>],
    group: &str,
    slot: Slot,
    now: Timestamp,
) -> Option<ManagedObjectReference> {
    let chosen = candidates.get_mut(placement::place(candidates, group, slot, now).ok()?)?;
    chosen.members += 1;
    chosen.load += 1;
    Some(chosen.host.clone())
}

/// Starts all that may be started, each time that something may have become possible. Nobody waits for it: what comes of it is seen in
/// the mirror.
pub(crate) async fn serve_queue(live: Arc<Live>, pulse: Pulse) {
    loop {
        let turn = async {
            tokio::select! {
                () = live.queue_turns() => {}
                () = sleep(LOOK) => {}
            }
        };
        pulse.wait(turn).await;
        {
            // The places of what has ended are free, also where its group can't plan.
            let mut works = live.works();
            works.learn(&mut live.mirror(), Timestamp::now());
            works.pass_over_overdue(Instant::now());
        }
        let mut submissions = live.submissions.lock().unwrap_or_else(PoisonError::into_inner);
        while submissions.try_join_next().is_some() {}
        while let Some(errand) = { live.works().next() } {
            submissions.spawn(submit(Arc::clone(&live), errand));
        }
    }
}

async fn submit(live: Arc<Live>, errand: Errand) {
    let group: GroupKey = errand.scene.key();
    let outcome = errand.scene.submit(&errand.action, errand.host.as_ref()).await;
    let task = {
        let mut works = live.works();
        let mut mirror = live.mirror();
        works.submitted(errand, outcome, &mut mirror)
    };
    if let Some(task) = task {
        return live.track(&task);
    }
    live.trigger(Trigger::Group(group));
    live.turn_queue();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_plan_ordered_is_begun_only_if_this_plan_says_it_too() {
        let mut works = Works::default();
        let machine = |id: &str| MachineId(id.to_owned());
        let (first, second) = (Action::PowerOn(machine("vm-1")), Action::Destroy(machine("vm-2")));
        for action in [&first, &second, &Action::Clone(Slot(0))] {
            works.budget.enqueue("uid".to_owned(), action.clone(), None);
            works.budget.enqueue("other".to_owned(), action.clone(), None);
        }
        works.narrow("uid", &[first.clone(), Action::PowerOff(machine("vm-2"))]);
        let admitted = std::iter::from_fn(|| works.budget.admit());
        let of_group = admitted.filter(|admitted| admitted.group == "uid").map(|admitted| admitted.operation);
        assert_eq!(of_group.collect::<Vec<_>>(), [first]);
    }

    #[test]
    fn a_clone_is_begun_only_for_the_machine_that_it_was_ordered_for() {
        let (slot, clone) = (Slot(0), Action::Clone(Slot(0)));
        let mut record = Record::default();
        record.reserve([slot]);
        let ordered = BTreeMap::from([(slot, Incarnation(1))]);
        assert!(is_as_ordered(&clone, Some(&ordered), Some(&record)));
        record.see(slot);
        assert!(!is_as_ordered(&clone, Some(&ordered), Some(&record)), "it is there");
        record.reserve([slot]);
        assert!(!is_as_ordered(&clone, Some(&ordered), Some(&record)), "it was lost, and another is to be made");
        record.recover(slot);
        assert!(!is_as_ordered(&clone, Some(&BTreeMap::from([(slot, Incarnation(2))])), Some(&record)), "it is back");
    }
}
