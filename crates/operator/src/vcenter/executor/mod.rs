//! What is done to a vCenter, each thing in its turn: one queue that is fair to all namespaces and to the groups of each, and what is
//! under way.

mod missing;
mod naming;
mod operations;
mod submit;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::RandomState,
    sync::Arc,
    time::{Duration, Instant},
};

use drover_core::{
    Action, Timestamp,
    names::Slot,
    tenancy::quota::Amount,
    vcenter::{
        backoff::Backoff,
        brake::{Brake, Incident, Scope},
        budget::Limits,
    },
    vmgroup::{
        adapters::Mac,
        in_flight::InFlight,
        placement,
        queue::{self, Queue},
        record::{Incarnation, Record, Stage},
    },
};
use vim25::ManagedObjectReference;

use super::source::Source;
use crate::{kube::leadership::Epoch, telemetry::metrics::Meter};
use operations::Operation;
pub(crate) use operations::serve_queue;
pub(crate) use submit::OperationContext;

/// How long an operation keeps its place before others, unless its VCenter says otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_mins(30);
/// How long after a lease was gained the mirror may lack what the last holder has begun.
const LAG: Duration = Duration::from_secs(10);
/// How long after a clone was last seen to run the mirror may lack its machine.
const SETTLING: Duration = Duration::from_secs(3);

/// Everything that is queued and under way in one vCenter, by the groups' UIDs.
#[derive(Debug)]
pub(crate) struct Executor {
    budget: Queue<ManagedObjectReference>,
    groups: HashMap<String, Group>,
    tasks: HashMap<ManagedObjectReference, Operation>,
    chance: RandomState,
    brake: Brake,
    incident: Option<Incident>,
    /// The incidents that somebody said to go on after, for all of the vCenter.
    released: Vec<String>,
    /// The incident that the VCenter's status told of when it was taken up.
    remembered: Option<String>,
    /// The hosts that clones have failed on.
    failing: Backoff<ManagedObjectReference>,
    /// Whether something was refused for want of a privilege.
    is_refused: bool,
    /// How long an operation keeps its place before others.
    patience: Duration,
    /// What counts operations, if anybody counts them.
    meter: Option<Meter>,
    limits: Limits,
    /// In the name of which time of holding the vCenter's lease all this is.
    epoch: Epoch,
    /// When this replica gained the vCenter's lease.
    entered: Option<Instant>,
    /// Whether the records of all groups were taken up that are at home here.
    are_records_loaded: bool,
    /// How much namespaces had when that was last counted.
    uses: HashMap<String, Amount>,
    /// When clones were last seen that nobody here knows of.
    unknown_clones: Option<Instant>,
    /// Since when all this is known.
    since: Instant,
}

/// What is known of a group. All of it may be lost.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub in_flight: InFlight,
    /// Capacity of a clone's disks, in MiB, as of when its template was last found.
    pub storage_mib: Option<u64>,
    /// How often something that it names could not be used, for this generation of it.
    pub misses: (i64, u32),
    /// Whether it waits for others of its namespace to leave it room.
    pub waits_for_room: bool,
    /// The MAC addresses of its slots, as of when it last cloned.
    pub macs: HashSet<Mac>,
    /// What its actions need to know, as of the last plan.
    context: Option<Arc<OperationContext>>,
}

impl Group {
    /// Takes note of what a plan came to: whether the group waits for room, and what its clones are made from, if that is known.
    pub(crate) fn note_planned(&mut self, waits_for_room: bool, source: Option<&Source>) {
        self.waits_for_room = waits_for_room;
        self.storage_mib = source.map(|source| source.make.storage_mib).or(self.storage_mib);
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self {
            budget: Queue::new(Limits::default()),
            groups: HashMap::new(),
            tasks: HashMap::new(),
            chance: RandomState::new(),
            brake: Brake::new(Scope::VCenter),
            incident: None,
            released: Vec::new(),
            remembered: None,
            failing: Backoff::new(placement::AVOIDED),
            is_refused: false,
            patience: PATIENCE,
            meter: None,
            limits: Limits::default(),
            epoch: Epoch::default(),
            entered: None,
            are_records_loaded: false,
            uses: HashMap::new(),
            unknown_clones: None,
            since: Instant::now(),
        }
    }
}

impl Executor {
    /// Begins anew for another time of holding the vCenter's lease, and says whether it is another. An earlier one doesn't come back.
    pub(crate) fn enter(&mut self, epoch: Epoch) -> bool {
        let is_later = self.epoch < epoch;
        if is_later {
            self.resign();
            self.epoch = epoch;
            self.entered = Some(Instant::now());
        }
        is_later
    }

    /// Forgets everything but how much may be done at once, and what people said.
    pub(crate) fn resign(&mut self) {
        let Self { limits, patience, epoch, .. } = *self;
        let Self { meter, released, remembered, .. } = std::mem::take(self);
        let budget = Queue::new(limits);
        *self = Self { budget, released, remembered, patience, meter, limits, epoch, ..Self::default() };
    }

    /// How long the mirror may still lack what another replica has begun here, if it may.
    pub(crate) fn may_lag(&self) -> Option<Duration> {
        self.entered.and_then(|entered| LAG.checked_sub(entered.elapsed()))
    }

    /// How long something may still come to be that was asked for before all this was known, by another replica or in an earlier life.
    pub(crate) fn may_be_surprised(&self) -> Option<Duration> {
        LAG.checked_sub(self.since.elapsed())
    }

    /// Whether clones may be on their way that nobody here knows of: some are seen to run, or have been a moment ago. A task may be seen to
    /// end before its machine is.
    pub(crate) fn may_have_unknown_clones(&mut self, are_seen: bool) -> bool {
        if are_seen {
            self.unknown_clones = Some(Instant::now());
        }
        let were_seen = self.unknown_clones.is_some_and(|seen| seen.elapsed() < SETTLING);
        were_seen || self.may_be_surprised().is_some()
    }

    /// Notes how much a namespace has, and says whether it is less than before.
    pub(crate) fn note_use(&mut self, namespace: &str, used: Amount) -> bool {
        let before = self.uses.insert(namespace.to_owned(), used);
        before.is_some_and(|before| used.is_less_than(before))
    }

    /// Forgets how much namespaces had that have nothing any more.
    pub(crate) fn forget_uses(&mut self, has_nothing: impl Fn(&str) -> bool) {
        self.uses.retain(|namespace, _| !has_nothing(namespace));
    }

    /// Whether a group waits for others of its namespace to leave it room.
    pub(crate) fn waits_for_room(&self, uid: &str) -> bool {
        self.groups.get(uid).is_some_and(|group| group.waits_for_room)
    }

    /// What is known of a group, if anything is.
    pub(crate) fn in_flight(&mut self, uid: &str) -> Option<&mut InFlight> {
        self.groups.get_mut(uid).map(|group| &mut group.in_flight)
    }

    /// The MAC addresses that belong to slots of other groups than this.
    pub(crate) fn macs_of_others(&self, uid: &str) -> impl Iterator<Item = Mac> {
        let others = self.groups.iter().filter(move |(other, _)| *other != uid);
        others.flat_map(|(_, group)| group.macs.iter().copied())
    }

    pub(crate) fn group(&mut self, uid: &str) -> &mut Group {
        self.groups.entry(uid.to_owned()).or_default()
    }

    /// Capacity of the disks of a group's clones, in MiB, if its template was found.
    pub(crate) fn storage_mib(&self, uid: &str) -> Option<u64> {
        self.groups.get(uid)?.storage_mib
    }

    /// Queues what a group's plan says, in place of what its last plan said.
    pub(crate) fn order(&mut self, context: OperationContext, actions: &[Action], now: Timestamp) {
        let uid = context.desired.uid.clone();
        queue::order(&mut self.budget, &context.desired, actions, &context.hosts, &self.failing, now);
        let group = self.group(&uid);
        group.in_flight.note_ordered(actions);
        group.context = Some(Arc::new(context));
    }

    /// Takes back what a group has queued and its plan doesn't say, or says of another machine or of one with other hardware or disks. Until the plan
    /// itself is queued, others may have to be asked, and what is begun meanwhile is begun by the last plan.
    pub(crate) fn narrow(&mut self, uid: &str, actions: &[Action], is_as_declared: impl Fn(&OperationContext) -> bool) {
        let wanted: BTreeSet<_> = actions.iter().collect();
        let group = self.groups.get(uid);
        let context = group.and_then(|group| group.context.as_ref());
        let context = context.filter(|context| is_as_declared(context));
        let incarnations = context.map(|context| &context.incarnations);
        let record = group.and_then(|group| group.in_flight.record.now());
        self.budget
            .retain(&uid.to_owned(), |action| wanted.contains(action) && is_as_ordered(action, incarnations, record));
    }

    /// Takes back what a group has queued: nothing is known of what it wants now. What is under way goes on.
    pub(crate) fn withdraw(&mut self, uid: &str) {
        self.budget.retain(&uid.to_owned(), |_| false);
        if let Some(group) = self.groups.get_mut(uid) {
            group.in_flight.is_unseen = true;
            group.in_flight.note_ordered(&[]);
        }
    }

    /// Forgets the groups that are gone.
    pub(crate) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        let gone: Vec<_> = self.groups.keys().filter(|uid| !is_there(uid)).cloned().collect();
        for uid in gone {
            self.forget(&uid);
        }
    }

    /// Forgets a group that is gone. What is under way keeps its place until it has ended, whoever began it.
    pub(crate) fn forget(&mut self, uid: &str) {
        self.budget.forget(&uid.to_owned());
        self.groups.remove(uid);
    }

    /// vCenter was away, and everything of it has been read anew.
    pub(crate) fn start_over(&mut self, now: Timestamp) {
        for group in self.groups.values_mut() {
            group.in_flight.vcenter_is_back();
            group.in_flight.restart_clocks(now);
        }
        self.failing.reset();
    }

    /// Sets how much may be done at once.
    pub(crate) fn set_limits(&mut self, limits: Limits, patience: Duration) {
        self.budget.set_limits(limits);
        self.limits = limits;
        self.patience = patience;
    }

    /// How much may be done at once.
    pub(crate) fn limits(&self) -> Limits {
        self.budget.limits()
    }

    /// How many clones are under way on the host that has most of them.
    pub(crate) fn clones_per_host(&self) -> usize {
        self.budget.most_on_a_host()
    }

    /// Has operations counted from now on.
    pub(crate) fn count_with(&mut self, meter: Meter) {
        self.meter = Some(meter);
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
}

/// Whether an action that was ordered for machines of these incarnations is about the one that the record has.
fn is_as_ordered(action: &Action, incarnations: Option<&BTreeMap<Slot, Incarnation>>, record: Option<&Record>) -> bool {
    let Some(slot) = action.cloned_slot() else { return true };
    let entry = record.and_then(|record| record.get(slot)).filter(|entry| entry.stage == Stage::Pending);
    entry.is_some_and(|entry| incarnations.and_then(|all| all.get(&slot)) == Some(&entry.incarnation))
}

#[cfg(test)]
mod tests {
    use drover_core::vmgroup::MachineId;

    use super::*;

    #[test]
    fn what_the_last_plan_ordered_is_begun_only_if_this_plan_says_it_too() {
        let mut executor = Executor::default();
        let machine = |id: &str| MachineId(id.to_owned());
        let (first, second) = (Action::PowerOn(machine("vm-1")), Action::Destroy(machine("vm-2")));
        for action in [&first, &second, &Action::Clone(Slot(0))] {
            for uid in ["uid", "other"] {
                executor.budget.enqueue(&"default".to_owned(), &uid.to_owned(), action.clone(), None);
            }
        }
        executor.narrow("uid", &[first.clone(), Action::PowerOff(machine("vm-2"))], |_| true);
        let admitted = std::iter::from_fn(|| executor.budget.admit());
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
