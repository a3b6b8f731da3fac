//! An operator: the very code that runs in production decides, looks and keeps what is in flight. Only the wire is a model.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use drover_api::vmgroup::Readiness;
use drover_core::{
    Action, Plan, Subject, Timestamp,
    names::{self, Slot},
    plan,
    vcenter::brake::Toll,
    vmgroup::{
        Desired, FolderId, HotAdd, MachineId, Observed, Power, Room,
        faults::{Failure, NextStep},
        identity::Made,
        in_flight::{Failed, InFlight},
        inventory::{Inventory, Marker},
        record::Incarnation,
        view::View,
    },
};

use super::{
    chance::Chance,
    mirror::Mirror,
    stored::Stored,
    world::{BASE, Failing, Kind, Machine, Outcome, TaskId, Time, Work, World, timestamp},
};

/// How long after its start an operator's mirror may lack what was begun before.
const LAG: Time = 10;
/// The id of the Kubernetes cluster.
pub(crate) const CLUSTER: &str = "cluster";

/// What is lost in a crash.
#[derive(Debug)]
pub(crate) struct Operator {
    pub in_flight: InFlight,
    /// What was submitted, and not seen to end.
    pub tasks: BTreeMap<TaskId, Action>,
    /// Since when it runs.
    pub since: Time,
    /// What it has destroyed.
    destroyed: BTreeSet<MachineId>,
    begin: Instant,
}

/// What may go wrong at a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mishaps {
    /// In so many of a hundred cases.
    pub refused: u64,
    pub unanswered: u64,
    pub failed: u64,
    pub failed_after_effect: u64,
    pub crash: u64,
    /// Nothing can be cloned: the template is gone.
    pub no_template: bool,
}

/// What came of a reconcile.
pub(crate) struct Reconciled {
    pub plan: Plan,
    pub observed: Observed,
    /// What was asked of vCenter.
    pub actions: Vec<Action>,
    /// Why everything that makes or destroys is stopped, if it is.
    pub incident: Option<String>,
    pub has_crashed: bool,
    /// How often something went wrong on the way.
    pub mishaps: u64,
}

/// Where a reconcile happens.
pub(crate) struct Place<'a> {
    pub desired: &'a Desired,
    pub stored: &'a mut Stored,
    pub world: &'a mut World,
    /// What the operator's mirror shows, if that is not how it is.
    pub seen: Option<&'a World>,
    pub room: Option<Room>,
    pub marked: &'a BTreeSet<String>,
    pub released: &'a [String],
    /// How much the operator's clock is ahead of vCenter's.
    pub skew: Time,
    pub mishaps: Mishaps,
    pub chance: &'a mut Chance,
    /// How many mishaps have happened.
    pub met: u64,
    /// How often each kind of mishap has happened.
    pub counts: &'a mut BTreeMap<&'static str, u64>,
}

impl Operator {
    pub(crate) fn start(now: Time) -> Self {
        Self {
            in_flight: InFlight::default(),
            tasks: BTreeMap::new(),
            since: now,
            destroyed: BTreeSet::new(),
            begin: Instant::now(),
        }
    }

    /// Looks, plans, writes down what is about to be done, and does it.
    pub(crate) fn reconcile(&mut self, place: &mut Place<'_>) -> Reconciled {
        let done = self.reconcile_once(place);
        Reconciled { mishaps: place.met, ..done }
    }

    fn reconcile_once(&mut self, place: &mut Place<'_>) -> Reconciled {
        let clock = place.world.now + place.skew;
        let (now, instant) = (timestamp(clock), self.begin + Duration::from_secs(place.world.now.unsigned_abs()));
        // What is to be begun is written down once, and what is begun may be something else by then, but not for ever.
        for _ in 0..10 {
            self.in_flight.turn_to(place.stored.generation());
            self.in_flight.record.take_up(&place.stored.group, instant).unwrap();
            let seen = place.seen.unwrap_or(place.world);
            let is_known = |task: &TaskId| self.tasks.contains_key(task);
            let moves = |work: &Work| matches!(work, Work::Clone(_) | Work::Move(..));
            let is_unknown = seen.tasks.iter().any(|task| moves(&task.work) && !is_known(&task.id));
            let lags = place.world.now - self.since < LAG;
            let has_unknown_clones = is_unknown || lags && place.desired.deletion.is_some();
            let mirror = Mirror { world: seen, since: self.since, destroyed: &self.destroyed };
            let view = View {
                desired: place.desired,
                readiness: Readiness::default(),
                inventory: &mirror,
                base: &FolderId(BASE.to_owned()),
                cluster: CLUSTER,
                has_unknown_clones,
                marked: place.marked.clone(),
                room: place.room,
            };
            let before = place.stored.group.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0);
            let mut observed = self.in_flight.observe(&view, u32::try_from(before).unwrap_or(0), now);
            let folder = view.group_folder();
            let was_settled = place.stored.settled == Some(place.stored.generation());
            let unexplained = self.in_flight.unexplained(place.desired, &observed, was_settled, now);
            let (members, missing) = self.in_flight.toll(&place.desired.uid);
            let released = place.released.iter().map(String::as_str).collect();
            let toll = Toll { name: &place.desired.uid, members, missing, unexplained, released, remembered: None };
            let incident = self.in_flight.judge(&toll, now).map(|incident| incident.id);
            observed.is_stopped = incident.is_some();
            let plan = plan(place.desired, &observed, now);
            self.in_flight.give_up(&plan, has_unknown_clones || lags, now);
            if plan.settled {
                self.in_flight.forgive(place.desired);
            }
            let mut done = Reconciled { plan, observed, actions: Vec::new(), incident, has_crashed: false, mishaps: 0 };
            if !self.in_flight.record.announce(&done.plan.actions, &done.observed.members) {
                if self.write(place, instant) {
                    continue;
                }
                done.has_crashed = true;
                return done;
            }
            for action in done.plan.actions.clone() {
                let when =
                    if done.actions.is_empty() { "crash before an operation" } else { "crash between two operations" };
                if place.happens(when, place.mishaps.crash) {
                    done.has_crashed = true;
                    return done;
                }
                done.actions.push(action.clone());
                self.act(&action, folder.as_ref(), place);
                if place.happens("crash after an operation", place.mishaps.crash) {
                    done.has_crashed = true;
                    return done;
                }
            }
            if done.plan.settled {
                place.stored.settled = Some(place.stored.generation());
            }
            let current = i32::try_from(done.plan.counts.current).unwrap();
            place.stored.group.status.get_or_insert_default().current_replicas = Some(current);
            done.has_crashed = !self.write(place, instant);
            return done;
        }
        panic!("it writes down what it is about to do, again and again: {:?}", place.stored.record());
    }

    /// Writes the record down, unless it crashes before or after that.
    fn write(&mut self, place: &mut Place<'_>, now: Instant) -> bool {
        let Some(record) = self.in_flight.record.to_write() else { return true };
        if place.happens("crash before a record's write", place.mishaps.crash) {
            return false;
        }
        place.stored.group.status.get_or_insert_default().record = Some(record.clone());
        place.stored.note_write();
        if place.happens("crash after a record's write", place.mishaps.crash) {
            return false;
        }
        let version = place.stored.group.metadata.resource_version.clone();
        self.in_flight.record.note_written(record, version, now);
        true
    }

    fn act(&mut self, action: &Action, folder: Option<&FolderId>, place: &mut Place<'_>) {
        self.in_flight.begin(action.clone());
        if let Some(fault) = refused(action, place) {
            return self.fail(action, Some(fault), place);
        }
        let work = match self.work(action, folder, place) {
            Asked::Work(work) => work,
            // As in production: the last look is vCenter's own.
            Asked::Occupied => {
                return self.in_flight.folder_is_occupied(action, place.now(), place.chance.below(1 << 60));
            }
            Asked::Nothing => return self.in_flight.succeeded(action, None, place.now()),
        };
        let is_unanswered = place.happens("no answer", place.mishaps.unanswered);
        let fails = match () {
            () if place.happens("task fails", place.mishaps.failed) => Some(Failing::BeforeEffect),
            () if place.happens("task fails after its effect", place.mishaps.failed_after_effect) => {
                Some(Failing::AfterEffect)
            }
            () => None,
        };
        let is_at_once = matches!(work, Work::CreateFolder(_) | Work::Shutdown(..));
        let takes = if is_at_once { 0 } else { 1 + Time::try_from(place.chance.below(8)).unwrap() };
        let is_clone = matches!(work, Work::Clone(_));
        let task = place.world.submit(work, takes, fails);
        if is_clone && place.chance.percent(50) {
            place.world.show_early(task);
        }
        if is_unanswered {
            self.fail(action, None, place);
        } else if is_at_once {
            let now = place.world.now;
            for (ended, outcome) in place.world.advance(now) {
                if ended == task {
                    self.tasks.insert(task, action.clone());
                    self.learn(ended, outcome, place.now(), place.chance);
                }
            }
        } else {
            self.tasks.insert(task, action.clone());
        }
    }

    fn fail(&mut self, action: &Action, fault: Option<&str>, place: &mut Place<'_>) {
        let now = place.now();
        self.failed(action, fault, now, place.chance);
    }

    fn failed(&mut self, action: &Action, fault: Option<&str>, now: Timestamp, chance: &mut Chance) -> NextStep {
        let lineage: Vec<_> = fault.into_iter().collect();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let why = Failed { failure, error: fault.unwrap_or("no answer"), taken_by: None, power: Power::On };
        self.in_flight.failed(action, &why, now, chance.below(1 << 60))
    }

    /// Takes up how a task ended.
    pub(crate) fn learn(&mut self, task: TaskId, outcome: Outcome, now: Timestamp, chance: &mut Chance) {
        let Some(action) = self.tasks.remove(&task) else { return };
        match outcome {
            Ok(made) => {
                self.in_flight.succeeded(&action, made, now);
                if let Action::Destroy(id) = action {
                    self.destroyed.insert(id);
                }
            }
            Err(fault) => drop(self.failed(&action, Some(fault), now, chance)),
        }
    }

    /// A task's end is told to nobody.
    pub(crate) fn lose(&mut self, task: TaskId, now: Timestamp) {
        if let Some(action) = self.tasks.remove(&task) {
            self.in_flight.lost(&action, now);
        }
    }

    fn work(&self, action: &Action, folder: Option<&FolderId>, place: &mut Place<'_>) -> Asked {
        let desired = place.desired;
        if let Subject::Machine(id) = action.subject() {
            self.check_touched(action, &id, place);
        }
        Asked::Work(match action {
            Action::CreateFolder => Work::CreateFolder(names::folder(&desired.namespace, &desired.name)),
            Action::DestroyFolder | Action::DestroyLeftFolder(_) => {
                let id = if let Action::DestroyLeftFolder(id) = action { Some(id) } else { folder };
                let Some(id) = id.cloned() else { return Asked::Nothing };
                let watch = Mirror { world: place.world, since: 0, destroyed: &BTreeSet::new() };
                let is_hidden = |machine: &Machine| machine.is_hidden && machine.folder == id.0;
                if watch.is_occupied(&id) || place.world.machines.values().any(is_hidden) {
                    return Asked::Occupied;
                }
                Work::DestroyFolder(id)
            }
            Action::Clone(slot) => {
                let Some(folder) = folder else { return Asked::Nothing };
                Work::Clone(Box::new(self.clone_of(*slot, folder, place)))
            }
            Action::PowerOn(id) => Work::Power(id.clone(), Power::On),
            Action::PowerOff(id) => Work::Power(id.clone(), Power::Off),
            Action::Suspend(id) => Work::Power(id.clone(), Power::Suspended),
            Action::ShutdownGuest(id) => Work::Shutdown(id.clone(), place.chance.percent(70)),
            Action::Reconfigure(id, hardware) => Work::Reconfigure(id.clone(), *hardware),
            Action::Rename(id, name) => Work::Rename(id.clone(), name.clone()),
            Action::MoveIntoFolder(id) => match folder {
                Some(folder) => Work::Move(id.clone(), folder.clone()),
                None => return Asked::Nothing,
            },
            Action::Mark(..) => unreachable!("nothing of an earlier version is there"),
            Action::Destroy(id) => Work::Destroy(id.clone()),
        })
    }

    fn clone_of(&self, slot: Slot, folder: &FolderId, place: &mut Place<'_>) -> Machine {
        let (desired, chance) = (place.desired, &mut *place.chance);
        let entry = self.in_flight.record.now().and_then(|record| record.get(slot));
        let incarnation = entry.map_or(Incarnation::default(), |entry| entry.incarnation);
        let instance = names::instance(&desired.marker_uid, slot, incarnation);
        // vCenter may leave a clone off that was to be powered on.
        let is_on = desired.power == Power::On && chance.percent(80);
        Machine {
            marker: Some(Marker {
                group: desired.marker_uid.clone(),
                owner: (desired.namespace.clone(), desired.name.clone()),
                slot,
                revision: desired.revision,
                cluster: CLUSTER.to_owned(),
                made: Some(Made { instance: instance.clone(), incarnation }),
                storage_mib: None,
            }),
            instance,
            created: place.world.now,
            name: names::member(&desired.name, &desired.marker_uid, slot),
            folder: folder.0.clone(),
            hardware: desired.hardware,
            hot_add: HotAdd { cpus: chance.percent(50), memory: chance.percent(50), ..Default::default() },
            refuses_hot_add: chance.percent(25),
            power: if is_on { Power::On } else { Power::Off },
            ready_at: 0,
            tools: chance.percent(50),
            off_at: None,
            being_made: false,
            kind: Kind::Own,
            is_template: false,
            is_hidden: false,
            disconnected: None,
            inaccessible: None,
            away: None,
        }
    }

    /// Nothing foreign, copied or given up is touched.
    fn check_touched(&self, action: &Action, id: &MachineId, place: &Place<'_>) {
        let Some(machine) = place.world.machines.get(id) else { return };
        let made = machine.marker.as_ref().and_then(|marker| Some((marker.slot, marker.made.as_ref()?.incarnation)));
        let is_own = machine.kind != Kind::Foreign;
        let Some((slot, incarnation)) = made.filter(|_| is_own) else {
            panic!("{action:?} touches a machine that isn't the group's: {machine:?}");
        };
        let seen = place.seen.unwrap_or(place.world);
        let is_shown = |other: &&Machine| other.instance == machine.instance && !other.is_hidden;
        let twins = seen.machines.values().filter(is_shown).count();
        assert!(twins < 2, "{action:?} touches one of two that could be the member: {machine:?}");
        let entry = self.in_flight.record.now().and_then(|record| record.get(slot));
        let is_its = entry.is_some_and(|entry| entry.incarnation == incarnation);
        assert!(is_its, "{action:?} touches a machine that was given up: {machine:?}, {entry:?}");
    }
}

enum Asked {
    Work(Work),
    Occupied,
    Nothing,
}

fn refused(action: &Action, place: &mut Place<'_>) -> Option<&'static str> {
    if place.mishaps.no_template && action.cloned_slot().is_some() {
        return Some("ManagedObjectNotFound");
    }
    let faults =
        ["ResourceInUse", "NoDiskSpace", "InvalidArgument", "NotAuthenticated", "NoPermission", "HostConnectFault"];
    place.happens("call refused", place.mishaps.refused).then(|| *place.chance.pick(&faults).unwrap())
}

impl Place<'_> {
    fn now(&self) -> Timestamp {
        timestamp(self.world.now + self.skew)
    }

    fn happens(&mut self, what: &'static str, percent: u64) -> bool {
        let happens = percent > 0 && self.chance.percent(percent);
        if happens {
            *self.counts.entry(what).or_default() += 1;
            self.met += 1;
        }
        happens
    }
}
