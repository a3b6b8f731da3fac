//! The controller of MyOwnShells. A reconcile is five verbs: validate, observe, plan, act, report.
//!
//! It knows nothing of any vCenter: the machines that shells find are those that VMInfos are published for.

mod act;
mod members;
mod observe;
mod report;
mod run;

use std::{sync::Arc, time::Duration};

use drover_api::{MyOwnShell, MyOwnShellStatus};
use drover_core::{
    Timestamp,
    events::Event,
    reasons::EventReason,
    shell::{self, Desired, Machines, Plan, Seen, desired::Invalid, plan},
};
use kube::{Client, ResourceExt, runtime::controller::Action as Requeue};

use crate::{
    controllers::{
        binding::Namespaces,
        reconcile::{Error, mandated},
    },
    kube::{
        events::Recorder,
        leadership::{Claim, Mandate},
        status::Throttle,
    },
    telemetry::metrics::Metrics,
};
use act::act;
use members::Members;
use observe::{keep_former_hosts, observe};
use report::write;
pub(crate) use run::{Duty, run};

/// What stands in the way is looked at again after this long: nothing tells of all of it.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Everything is looked at again after this long, whatever was told.
const RESYNC: Duration = Duration::from_mins(5);
/// How long to wait for the first answer of a watch before looking again.
const MOMENT: Duration = Duration::from_millis(100);

/// A status is written at most this often, unless it becomes or ceases to be as declared.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// What every reconcile needs.
struct Context {
    kube: Client,
    events: Recorder,
    /// The right to work on MyOwnShells.
    claim: Claim,
    /// Those that there are: nothing is made in one that is being deleted.
    namespaces: Arc<Namespaces>,
    members: Arc<Members>,
    pace: Throttle,
    metrics: Metrics,
    /// The cluster's own domain in DNS.
    domain: String,
}

/// Brings one MyOwnShell closer to what it declares.
async fn reconcile(shell: Arc<MyOwnShell>, context: Arc<Context>) -> Result<Requeue, Error> {
    mandated(context.claim.mandate(), |mandate| five_verbs(mandate, &shell, &context)).await
}

/// The reconcile itself.
async fn five_verbs(mandate: Mandate, shell: &MyOwnShell, context: &Context) -> Result<Requeue, Error> {
    if mandate.is_behind(&shell.metadata) {
        return Ok(Requeue::requeue(MOMENT));
    }
    let mut desired = match Desired::of(shell) {
        Ok(desired) => desired,
        Err(invalid) => return complain(shell, context, &invalid).await,
    };
    let Some(machines) = machines(&desired, context) else { return Ok(Requeue::requeue(MOMENT)) };
    keep_former_hosts(&context.kube, &mut desired).await?;
    let mut seen = observe(&context.kube, &desired, machines).await?;
    let mut plan = plan(&desired, &seen, &context.domain, Timestamp::now());
    let is_ending = || context.namespaces.is_ending(&desired.namespace);
    let outcome = act(&context.kube, shell, &plan, &mut seen, is_ending).await?;
    if outcome.is_stale {
        return Ok(Requeue::requeue(MOMENT));
    }
    if outcome.is_namespace_leaving {
        // The MyOwnShell is deleted with it, and then its turn comes again.
        return Ok(Requeue::requeue(RESYNC));
    }
    if let Some(deed) = plan.drift.filter(|_| outcome.has_changed) {
        let message = format!("the Deployment {deed}");
        context.events.tell(shell, &[Event::normal(EventReason::Drift, message)]);
    }
    plan.trouble = outcome.refusal.or(plan.trouble);
    report(shell, context, &desired, &seen, &plan).await
}

/// The machines that the shells are to find. `None`: they aren't known yet, and a file without them would be wrong.
fn machines(desired: &Desired, context: &Context) -> Option<Machines> {
    match &desired.group {
        // What is deleted waits for no watch.
        Some(group) if desired.deletion.is_none() => context.members.of(&desired.namespace, group),
        _ => Some(Machines::NotAsked),
    }
}

/// Says how it is, and when to come back.
async fn report(
    shell: &MyOwnShell,
    context: &Context,
    desired: &Desired,
    seen: &Seen,
    plan: &Plan,
) -> Result<Requeue, Error> {
    let is_over = !desired.is_held || plan.steps.contains(&shell::Step::LetGo);
    // Where the finalizer may not be put on or taken off, that has to be said.
    if is_over && plan.trouble.is_none() {
        context.pace.forget(&shell.uid().unwrap_or_default());
        return Ok(Requeue::await_change());
    }
    let now = Timestamp::now();
    let rest = plan.wake.map(|wake| Duration::try_from(wake.duration_since(now)).unwrap_or_default() + MOMENT);
    let rest = rest.unwrap_or(RESYNC).min(if plan.trouble.is_some() { LOOK_AGAIN } else { RESYNC });
    let status = shell::status(shell, desired, seen, plan, now);
    if shell.status.as_ref() == Some(&status) {
        return Ok(Requeue::requeue(rest));
    }
    let is_urgent = shell.status.as_ref().map(states) != Some(states(&status));
    if let Some(wait) = context.pace.wait(&shell.uid().unwrap_or_default(), BETWEEN_WRITES, is_urgent) {
        return Ok(Requeue::requeue(wait.min(rest)));
    }
    if !write(&context.kube, shell, &status).await? {
        context.pace.forget(&shell.uid().unwrap_or_default());
        return Ok(Requeue::requeue(MOMENT));
    }
    context.events.tell(shell, shell::event(shell.status.as_ref(), &status).as_slice());
    Ok(Requeue::requeue(rest))
}

fn states(status: &MyOwnShellStatus) -> Vec<&str> {
    status.conditions.iter().map(|condition| condition.status.as_str()).collect()
}

/// Says of a MyOwnShell that it makes no sense. What there is of it stays.
async fn complain(shell: &MyOwnShell, context: &Context, invalid: &Invalid) -> Result<Requeue, Error> {
    let status = shell::status::invalid(shell, invalid, Timestamp::now());
    if shell.status.as_ref() != Some(&status) {
        write(&context.kube, shell, &status).await?;
    }
    Ok(Requeue::await_change())
}
