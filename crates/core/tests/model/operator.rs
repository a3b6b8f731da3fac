//! An operator: the very code that runs in production decides, looks and keeps what is in flight. Only the wire is a model.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use drover_api::vmgroup::Readiness;
use drover_core::{
    Action, Plan, Timestamp, Trouble,
    vmgroup::{
        Desired, FolderId, MachineId, Observed, Room,
        in_flight::{InFlight, Order, SourceState, plan_unless},
        outcome::{Outcome, RESYNC},
        plan::trouble_with_unseen,
        report::Reporter,
        trouble::Obstacles,
        view::View,
    },
};

use super::{
    chance::Chance,
    mirror::Mirror,
    stored::Stored,
    world::{BASE, Outcome as TaskOutcome, TaskId, Time, Work, World, timestamp},
};

/// How long after its start an operator's mirror may lack what was begun before.
const LAG: Time = 10;
/// The id of the Kubernetes cluster.
pub(crate) const CLUSTER: &str = "cluster";

/// What is lost in a crash.
#[derive(Debug)]
pub(crate) struct Operator {
    pub in_flight: InFlight,
    reporter: Reporter,
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
    pub queued: u64,
    pub outage: u64,
    /// vCenter leaves a clone off that was to be powered on.
    pub left_off: u64,
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

/// What a reconcile has decided.
pub(crate) struct Decided {
    pub done: Reconciled,
    /// What may be begun.
    pub orders: Vec<Action>,
    pub folder: Option<FolderId>,
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
    /// Whether clones of other groups run that this operator doesn't know of.
    pub others_are_cloned: bool,
    /// How long the next task takes, if that isn't left to chance.
    pub takes: Option<Time>,
    /// Whether vCenter has gone away meanwhile.
    pub is_cut_off: bool,
    /// How many mishaps have happened.
    pub met: u64,
    /// How often each kind of mishap has happened.
    pub counts: &'a mut BTreeMap<&'static str, u64>,
}

impl Operator {
    pub(crate) fn start(now: Time) -> Self {
        Self {
            in_flight: InFlight::default(),
            reporter: Reporter::default(),
            tasks: BTreeMap::new(),
            since: now,
            destroyed: BTreeSet::new(),
            begin: Instant::now(),
        }
    }

    /// Looks, plans, writes down what is about to be done, and does it.
    pub(crate) fn reconcile(&mut self, place: &mut Place<'_>) -> Reconciled {
        let Decided { mut done, orders, folder } = self.decide(place);
        done.has_crashed = done.has_crashed || self.carry_out(&orders, folder.as_ref(), place, &mut done);
        if !done.has_crashed {
            done.has_crashed = !self.tell(place, &done);
        }
        Reconciled { mishaps: place.met, ..done }
    }

    /// Looks and plans, until what is about to be done is written down.
    pub(crate) fn decide(&mut self, place: &mut Place<'_>) -> Decided {
        let (now, instant) = self.moment(place);
        // What is to be begun is written down once, and what is begun may be something else by then, but not for ever.
        for _ in 0..10 {
            let seen = place.seen.unwrap_or(place.world);
            let is_known = |task: &TaskId| self.tasks.contains_key(task);
            let moves = |work: &Work| matches!(work, Work::Clone(_) | Work::Move(..));
            let is_unknown = seen.tasks.iter().any(|task| moves(&task.work) && !is_known(&task.id));
            let lags = place.world.now - self.since < LAG;
            let has_unknown_clones = is_unknown || place.others_are_cloned || lags && place.desired.deletion.is_some();
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
            let group = &place.stored.group;
            let mut observed = self.in_flight.look(group, &view, instant, now).unwrap();
            let folder = view.group_folder();
            let incident = self.in_flight.judge_group(group, place.desired, &observed, place.released, now);
            observed.is_stopped = incident.is_some();
            let conflict = view.conflict().filter(|_| place.desired.deletion.is_none());
            let plan = plan_unless(conflict.as_deref(), place.desired, &observed, now);
            self.in_flight.note_plan(place.desired, &plan, has_unknown_clones || lags, now);
            let order = self.in_flight.order(place.desired, &observed, &plan, SourceState::Known);
            let incident = incident.map(|incident| incident.id);
            let mut done = Reconciled { plan, observed, actions: Vec::new(), incident, has_crashed: false, mishaps: 0 };
            if let Order::Actions(orders) = order {
                return Decided { done, orders, folder };
            }
            if !self.write(place, instant) {
                done.has_crashed = true;
                return Decided { done, orders: Vec::new(), folder };
            }
        }
        panic!("it writes down what it is about to do, again and again: {:?}", place.stored.record());
    }

    /// Does what was decided, and says whether it crashes meanwhile.
    fn carry_out(
        &mut self,
        orders: &[Action],
        folder: Option<&FolderId>,
        place: &mut Place<'_>,
        done: &mut Reconciled,
    ) -> bool {
        for action in orders {
            // Those of other groups may come first, and then it is planned again.
            if place.happens("operation left in the queue", place.mishaps.queued) {
                continue;
            }
            place.is_cut_off |= place.happens("outage during a plan", place.mishaps.outage);
            let when =
                if done.actions.is_empty() { "crash before an operation" } else { "crash between two operations" };
            if place.happens(when, place.mishaps.crash) {
                return true;
            }
            done.actions.push(action.clone());
            self.act(action, folder, place);
            if place.happens("crash after an operation", place.mishaps.crash) {
                return true;
            }
        }
        false
    }

    /// Writes down how the group is, and its record, unless it crashes before or after that.
    pub(crate) fn tell(&mut self, place: &mut Place<'_>, done: &Reconciled) -> bool {
        let moment = self.moment(place);
        self.report(place, done, moment);
        self.write(place, moment.1)
    }

    fn moment(&self, place: &Place<'_>) -> (Timestamp, Instant) {
        (place.now(), self.begin + Duration::from_secs(place.world.now.unsigned_abs()))
    }

    /// Writes down how the group is.
    fn report(&mut self, place: &mut Place<'_>, done: &Reconciled, now: (Timestamp, Instant)) {
        let outcome = Outcome {
            plan: done.plan.clone(),
            observed: Some(done.observed.clone()),
            incident: done.incident.clone(),
            ..Outcome::stuck(Trouble::None, RESYNC)
        };
        let obstacles = Obstacles {
            incident: done.incident.clone(),
            unseen: trouble_with_unseen(place.desired, &done.observed, now.0),
            failing: self.in_flight.problems(),
            needs_person: self.in_flight.needs_person(),
            ..Obstacles::default()
        };
        let outcome = Outcome { trouble: obstacles.gravest(), ..outcome };
        let report = self.reporter.report(&place.stored.group, place.desired, outcome, now);
        place.stored.group.status = Some(report.status);
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

    /// Takes up how a task ended.
    pub(crate) fn learn(&mut self, task: TaskId, outcome: TaskOutcome, now: Timestamp, chance: &mut Chance) {
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
}

impl Place<'_> {
    pub(crate) fn now(&self) -> Timestamp {
        timestamp(self.world.now + self.skew)
    }

    pub(crate) fn happens(&mut self, what: &'static str, percent: u64) -> bool {
        let happens = percent > 0 && self.chance.percent(percent);
        if happens {
            *self.counts.entry(what).or_default() += 1;
            self.met += 1;
        }
        happens
    }
}
