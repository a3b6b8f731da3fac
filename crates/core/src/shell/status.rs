//! What is said of a MyOwnShell.

use drover_api::{MyOwnShell, MyOwnShellStatus, Unknown, myownshell::ShellPod};
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};

use super::{
    Desired, Machines, Plan, Seen, Trouble,
    desired::Invalid,
    labels,
    trouble::{failing_pods, overdue_pods, refused_pods},
};
use crate::{
    Timestamp,
    conditions::{self, Conditions, Kstatus},
    events::Event,
    reasons::{ConditionType, Reason},
};

/// How many shells are listed.
const LISTED: usize = 50;

/// What is said of a MyOwnShell, once the plan's steps are done and what is seen is what came of them.
#[must_use]
pub fn status(shell: &MyOwnShell, desired: &Desired, seen: &Seen, plan: &Plan, now: Timestamp) -> MyOwnShellStatus {
    let deployment = seen.deployment.as_ref().filter(|there| super::is_ours(&there.metadata, &desired.uid));
    let counts = deployment.and_then(|deployment| deployment.status.clone()).unwrap_or_default();
    let declared = deployment.and_then(|deployment| deployment.spec.as_ref()?.replicas);
    let wanted = if plan.scaled_by.is_some() { declared.unwrap_or(desired.size) } else { desired.size };
    let ready = counts.ready_replicas.unwrap_or(0);
    let is_current = deployment.is_some_and(|deployment| {
        deployment.metadata.deletion_timestamp.is_none()
            && counts.observed_generation >= deployment.metadata.generation
            && declared == Some(wanted)
    });
    let all = [counts.replicas, counts.updated_replicas, counts.ready_replicas];
    let is_whole = is_current && all.into_iter().all(|count| count.unwrap_or(0) == wanted);
    let trouble = plan.trouble.clone().filter(|trouble| !matches!(trouble, Trouble::NoVmGroup(_)));
    let trouble = trouble.or_else(|| refused_pods(deployment?)).or_else(|| failing_pods(&seen.pods));
    let trouble = trouble.or_else(|| overdue_pods(deployment?)).or_else(|| plan.trouble.clone());

    let stage = match () {
        () if desired.deletion.is_some() => Stage::Deleting,
        () if desired.has_expired(now) => Stage::Expired { is_over: deployment.is_none() },
        () if is_whole && trouble.is_none() => Stage::Settled,
        () => Stage::Underway,
    };
    // What is to go is in nobody's way, unless it may not be removed.
    let is_held_up = |trouble: &Trouble| matches!(stage, Stage::Underway) || matches!(trouble, Trouble::Refused(_));
    let trouble = trouble.filter(is_held_up);
    let progress = match (&stage, &desired.end) {
        (Stage::Deleting, _) => "being deleted".to_owned(),
        (Stage::Expired { .. }, Some((ttl, end))) => {
            format!("its ttl of {ttl} has been over since {end}: raise spec.ttl to have shells again")
        }
        (Stage::Settled, _) => format!("{ready} {} ready", if ready == 1 { "shell" } else { "shells" }),
        _ => format!("{ready} of {wanted} shells ready"),
    };
    MyOwnShellStatus {
        replicas: Some(counts.replicas.unwrap_or(0)),
        ready_replicas: Some(ready),
        selector: Some(selector(&desired.name)),
        pods: pods(&desired.namespace, &seen.pods),
        expires_at: desired.end.as_ref().map(|(_, end)| Time(*end)),
        scaled_by: plan.scaled_by.clone(),
        machines: match &seen.machines {
            Machines::Of(machines) => {
                let reachable = machines.iter().filter(|machine| !machine.addresses.is_empty()).count();
                i32::try_from(reachable).ok()
            }
            Machines::NotAsked | Machines::NoGroup | Machines::Unread => None,
        },
        message: Some(trouble.as_ref().map_or(progress.as_str(), |trouble| trouble.told().1).to_owned()),
        observed_generation: shell.metadata.generation,
        conditions: conditions(shell, stage, trouble.as_ref(), &progress, now),
        unknown: Unknown::default(),
    }
}

/// What is said of a MyOwnShell that makes no sense. What there is of it stays as it is.
#[must_use]
pub fn invalid(shell: &MyOwnShell, invalid: &Invalid, now: Timestamp) -> MyOwnShellStatus {
    let message = invalid.to_string();
    let trouble = Trouble::Invalid(message.clone());
    MyOwnShellStatus {
        conditions: conditions(shell, Stage::Underway, Some(&trouble), &message, now),
        message: Some(message),
        observed_generation: shell.metadata.generation,
        ..shell.status.clone().unwrap_or_default()
    }
}

/// What there is to tell of a change of status: an obstacle, once for each kind of it, and the end of the ttl.
#[must_use]
pub fn event(before: Option<&MyOwnShellStatus>, after: &MyOwnShellStatus) -> Option<Event> {
    let ready = |status: &MyOwnShellStatus| conditions::find(&status.conditions, ConditionType::Ready).cloned();
    let was = before.and_then(ready);
    let ready = ready(after).filter(|ready| was.is_none_or(|was| was.reason != ready.reason))?;
    match Reason::of(&ready.reason)? {
        Reason::Reconciled | Reason::Provisioning | Reason::Deleting => None,
        Reason::Expired => Some(Event::normal(Reason::Expired, ready.message)),
        reason => Some(Event::warning(reason, ready.message)),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Underway,
    Settled,
    Expired { is_over: bool },
    Deleting,
}

fn conditions(
    shell: &MyOwnShell,
    stage: Stage,
    trouble: Option<&Trouble>,
    progress: &str,
    now: Timestamp,
) -> Vec<Condition> {
    // When its time is over and the shells are gone, all is as declared: there is nothing to wait for.
    let is_ready = matches!(stage, Stage::Settled | Stage::Expired { is_over: true });
    let (reason, why) = match (stage, trouble) {
        (_, Some(trouble)) => trouble.told(),
        (Stage::Underway, None) => (Reason::Provisioning, progress),
        (Stage::Settled, None) => (Reason::Reconciled, progress),
        (Stage::Expired { .. }, None) => (Reason::Expired, progress),
        (Stage::Deleting, None) => (Reason::Deleting, progress),
    };
    let stalled = trouble.filter(|trouble| trouble.needs_person()).map(Trouble::told);
    let before = shell.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let conditions = Conditions { before, generation: shell.metadata.generation, now };
    let summary = Kstatus { is_ready, reason, message: why, progress, stalled };
    summary.conditions().iter().map(|update| conditions.write(update)).collect()
}

fn selector(shell: &str) -> String {
    let words: Vec<_> = labels(shell).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.join(",")
}

/// The shells that aren't on their way out, the ready ones first.
fn pods(namespace: &str, pods: &[Pod]) -> Vec<ShellPod> {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let mut listed: Vec<_> = staying
        .map(|pod| {
            let name = pod.metadata.name.clone().unwrap_or_default();
            let exec = format!("kubectl exec -it -n {namespace} {name} -- sh");
            ShellPod { name, ready: is_ready(pod), exec }
        })
        .collect();
    listed.sort_by(|a, b| b.ready.cmp(&a.ready).then_with(|| a.name.cmp(&b.name)));
    listed.truncate(LISTED);
    listed
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
