//! What is under way in a vCenter: begun in its turn, and taken up when it has ended.

use std::{
    hash::BuildHasher,
    sync::Arc,
    time::{Duration, Instant},
};

use drover_core::{
    Action, Timestamp,
    names::Slot,
    vcenter::{
        backoff::Pace,
        budget::{Admitted, Ticket},
    },
    vmgroup::{
        Power, Size,
        faults::{Failure, NextStep, Remedy},
        in_flight::Failed,
        placement,
        record::Incarnation,
    },
};
use tokio::time::sleep;
use tracing::{debug, field::display, info, warn};
use vim25::{Error, ManagedObject, ManagedObjectReference, refs::HostSystemRef};

use super::{
    Executor, naming,
    submit::{OperationContext, Submitted, power_of},
};
use crate::{
    loops::Pulse,
    telemetry::{metrics::Outcome, traces::Started},
    vcenter::{
        Trigger, VCenterHandle,
        inventory::{machine_id, machine_reference},
        mirror::{Consequences, GroupKey, Mirror},
        task_states::Ended,
    },
};

/// How often it is looked for operations that take very long.
const LOOK: Duration = Duration::from_secs(5);

/// An action whose turn it is.
#[derive(Debug)]
pub(super) struct Operation {
    ticket: Ticket,
    group: String,
    action: Action,
    context: Arc<OperationContext>,
    /// The host that a clone goes to.
    host: Option<HostSystemRef>,
    began: Instant,
    span: Option<Started>,
    /// What does it, once something does.
    task: Option<String>,
}

impl Operation {
    /// Takes down how it ended, where somebody wants to know.
    fn note_end(&self, result: &str, error: Option<&Error>, mirror: Option<&Mirror>) {
        let (operation, vmgroup) = (naming::kind(&self.action), self.context.vmgroup());
        let vm = naming::vm(&self.action, &self.context, mirror);
        let seconds = self.began.elapsed().as_secs_f64();
        let vcenter = &self.context.live.name;
        debug!(%vmgroup, %vcenter, %operation, vm = vm.as_ref().map(display), result, seconds, "Operation ended");
        let Some(span) = self.span else { return };
        let attributes = vec![
            ("drover.vmgroup", Some(vmgroup)),
            ("drover.vcenter", Some(self.context.live.name.clone())),
            ("drover.operation", Some(operation.to_owned())),
            ("drover.vm", vm),
            ("drover.task", self.task.clone()),
            ("drover.result", Some(result.to_owned())),
        ];
        span.end(operation.to_owned(), attributes, error.map(ToString::to_string));
    }
}

/// A clone that is under way.
pub(crate) struct Cloning<'a> {
    pub namespace: &'a str,
    pub marker_uid: &'a str,
    pub slot: Slot,
    pub incarnation: Incarnation,
    pub size: Size,
}

impl Executor {
    /// The clones that tasks make.
    pub(crate) fn clones_under_way(&self) -> impl Iterator<Item = Cloning<'_>> {
        self.tasks.values().filter_map(|op| {
            let (slot, desired) = (op.action.cloned_slot()?, &op.context.desired);
            Some(Cloning {
                namespace: &desired.namespace,
                marker_uid: &desired.marker_uid,
                slot,
                incarnation: *op.context.incarnations.get(&slot)?,
                size: Size { hardware: desired.hardware, storage_mib: op.context.storage_mib().unwrap_or(0) },
            })
        })
    }

    /// Takes up the tasks that have ended.
    pub(crate) fn learn(&mut self, mirror: &mut Mirror, now: Timestamp) {
        let ended: Vec<_> = self.tasks.keys().filter(|task| mirror.tasks.has_ended(task)).cloned().collect();
        for task in ended {
            if let (Some(op), Some(ended)) = (self.tasks.remove(&task), mirror.tasks.end_of(&task)) {
                self.end(op, ended, mirror, now);
            }
        }
    }

    fn count(&self, op: &Operation, outcome: Outcome) {
        if let Some(meter) = &self.meter {
            meter.ended(op.action.kind(), outcome, op.began.elapsed());
        }
    }

    /// Gives others the places of operations that take very long. Each still is under way, and is not begun a second time.
    fn pass_over_overdue(&mut self, now: Instant) {
        for (task, op) in &self.tasks {
            let lasts = now.saturating_duration_since(op.began);
            if lasts > self.patience && self.budget.pass_over(&op.ticket) {
                let (vmgroup, vcenter) = (op.context.vmgroup(), &op.context.live.name);
                let (operation, seconds) = (naming::kind(&op.action), lasts.as_secs());
                let vm = naming::vm(&op.action, &op.context, None);
                let task = task.value();
                let vm = vm.as_ref().map(display);
                warn!(%vmgroup, %vcenter, %operation, vm, %task, seconds, "Operation takes long; others no longer wait");
            }
        }
    }

    fn next(&mut self) -> Option<Operation> {
        loop {
            let admitted = self.budget.admit()?;
            let group = self.groups.entry(admitted.group.clone()).or_default();
            let Some(context) = group.context.clone() else {
                self.budget.finished(admitted.ticket);
                continue;
            };
            let is_stopped = group.in_flight.is_stopped || self.incident.is_some() && !group.in_flight.goes_on;
            if is_stopped && admitted.operation.makes_or_destroys() {
                // It is planned again when that is over.
                self.budget.finished(admitted.ticket);
                continue;
            }
            group.in_flight.begin(admitted.operation.clone());
            let Admitted { ticket, group, operation: action, host } = admitted;
            let host = host.and_then(|host| HostSystemRef::try_from(host).ok());
            let span = Started::begin(context.ordered_by);
            return Some(Operation { ticket, group, action, context, host, began: Instant::now(), span, task: None });
        }
    }

    /// Takes up what became of a submission, and returns the task whose end is to come. Without one, its group plans again.
    fn submitted(
        &mut self,
        mut op: Operation,
        outcome: Result<Submitted, Error>,
        mirror: &mut Mirror,
    ) -> Option<ManagedObjectReference> {
        let now = Timestamp::now();
        if op.context.mandate.epoch() != self.epoch {
            // Its place was given up with all others. What came of it, the mirror shows.
            return None;
        }
        let (vmgroup, vcenter) = (op.context.vmgroup(), op.context.live.name.clone());
        let (operation, vm) = (naming::kind(&op.action), naming::vm(&op.action, &op.context, Some(mirror)));
        match outcome {
            Ok(Submitted::Task(task)) => {
                info!(%vmgroup, %vcenter, %operation, vm = vm.as_ref().map(display), task = %task.value(), "Operation started");
                op.task = Some(task.value().to_owned());
                let task: ManagedObjectReference = task.into();
                mirror.tasks.note_submitted(&task, op.context.key());
                self.tasks.insert(task.clone(), op);
                // It may have ended, and been seen to, before the answer was here.
                return (!mirror.tasks.has_ended(&task)).then_some(task);
            }
            // It is planned again when vCenter is in sight, by whoever has the claim then.
            Ok(Submitted::Withheld) => {
                op.note_end("withheld", None, Some(mirror));
                if let Some(group) = self.groups.get_mut(&op.group) {
                    group.in_flight.withheld(&op.action);
                }
                self.budget.finished(op.ticket);
            }
            Ok(Submitted::Done) => self.end(op, Ended::Done(None), mirror, now),
            Ok(Submitted::Occupied) => {
                self.count(&op, Outcome::Error);
                op.note_end("withheld", None, Some(mirror));
                let draw = self.draw(&op, now);
                if let Some(group) = self.groups.get_mut(&op.group) {
                    group.in_flight.folder_is_occupied(&op.action, now, draw);
                }
                self.budget.finished(op.ticket);
            }
            Err(error) => {
                warn!(%vmgroup, %vcenter, %operation, vm = vm.as_ref().map(display), %error, "Operation refused");
                op.note_end("refused", Some(&error), Some(mirror));
                self.fail(op, &error, mirror, now);
            }
        }
        None
    }

    fn end(&mut self, op: Operation, ended: Ended, mirror: &mut Mirror, now: Timestamp) {
        match &ended {
            Ended::Done(_) => self.count(&op, Outcome::Success),
            Ended::Unseen => self.count(&op, Outcome::Unknown),
            // It may be as good as done.
            Ended::Failed(_) => {}
        }
        // It may have been forgotten meanwhile.
        let in_flight = self.groups.get_mut(&op.group).map(|group| &mut group.in_flight);
        if let (Ended::Done(_), Some(host)) = (&ended, &op.host) {
            self.failing.succeeded(host.reference());
        }
        match ended {
            Ended::Done(made) => {
                op.note_end("success", None, Some(mirror));
                if let Some(in_flight) = in_flight {
                    in_flight.succeeded(&op.action, made.as_ref().map(machine_id), now);
                }
                if let Action::Destroy(id) = &op.action {
                    // Its group plans now, and nobody else has to.
                    mirror.note_destroyed(&machine_reference(id), Duration::ZERO, now, &mut Consequences::default());
                }
            }
            Ended::Unseen => {
                op.note_end("unknown", None, Some(mirror));
                if let Some(in_flight) = in_flight {
                    in_flight.lost(&op.action, now);
                }
            }
            Ended::Failed(fault) => {
                let error = Error::from(fault);
                let (vmgroup, vcenter) = (op.context.vmgroup(), &op.context.live.name);
                let operation = naming::kind(&op.action);
                let vm = naming::vm(&op.action, &op.context, Some(mirror));
                // It is tried again, and the group says what keeps failing.
                info!(%vmgroup, %vcenter, %operation, vm = vm.as_ref().map(display), %error, "Operation failed");
                op.note_end("failed", Some(&error), Some(mirror));
                return self.fail(op, &error, mirror, now);
            }
        }
        self.budget.finished(op.ticket);
    }

    fn draw(&self, op: &Operation, now: Timestamp) -> u64 {
        self.chance.hash_one((now, &op.group, format!("{:?}", op.action)))
    }

    fn fail(&mut self, op: Operation, error: &Error, mirror: &mut Mirror, now: Timestamp) {
        let draw = self.draw(&op, now);
        let Some(group) = self.groups.get_mut(&op.group) else {
            self.count(&op, Outcome::Error);
            return self.budget.finished(op.ticket);
        };
        let taken_by = op.context.taken_by(&op.action, mirror);
        let power = power_of(&op.action, mirror).unwrap_or(Power::Off);
        let lineage: Vec<_> = error.fault().map(|fault| fault.lineage().collect()).unwrap_or_default();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let why = Failed { failure, error: &error.to_string(), taken_by: taken_by.as_deref(), power };
        let step = group.in_flight.failed(&op.action, &why, now, draw);
        let outcome = if step == NextStep::Done { Outcome::Success } else { Outcome::Error };
        self.count(&op, outcome);
        if let Some(host) = op.host.filter(|_| placement::blames_the_host(step)) {
            self.failing.failed(host.into(), now, draw, step.pace().unwrap_or(Pace::Normal));
        }
        self.is_refused |= step == NextStep::AwaitUser(Remedy::Privileges);
        if matches!(step, NextStep::LookAgain | NextStep::AwaitUser(_)) {
            // What was read of the template may not be so any more.
            if let Some(source) = op.context.source.as_ref().filter(|_| op.action.cloned_slot().is_some()) {
                mirror.templates.doubt(&source.template);
                op.context.live.want_templates();
            }
        }
        self.budget.finished(op.ticket);
    }
}

/// Starts all that may be started, each time that something may have become possible. Nobody waits for it: what comes of it is seen in
/// the mirror.
pub(crate) async fn serve_queue(live: Arc<VCenterHandle>, pulse: Pulse) {
    loop {
        let turn = async {
            tokio::select! {
                () = live.queue_woken() => {}
                () = sleep(LOOK) => {}
            }
        };
        pulse.wait(turn).await;
        {
            // The places of what has ended are free, also where its group can't plan.
            let mut executor = live.executor();
            executor.learn(&mut live.mirror(), Timestamp::now());
            executor.pass_over_overdue(Instant::now());
        }
        if live.mandate().is_none_or(|mandate| mandate.epoch() != live.executor().epoch) {
            // It is another replica's.
            continue;
        }
        let mut tasks = live.tasks();
        while tasks.submissions.try_join_next().is_some() {}
        while let Some(op) = { live.executor().next() } {
            tasks.submissions.spawn(submit(Arc::clone(&live), op));
        }
    }
}

async fn submit(live: Arc<VCenterHandle>, op: Operation) {
    let group: GroupKey = op.context.key();
    let outcome = op.context.submit(&op.action, op.host.as_ref()).await;
    let task = {
        let mut executor = live.executor();
        let mut mirror = live.mirror();
        executor.submitted(op, outcome, &mut mirror)
    };
    if let Some(task) = task {
        return live.track(&task);
    }
    live.trigger(Trigger::Group(group));
    live.wake_queue();
}
