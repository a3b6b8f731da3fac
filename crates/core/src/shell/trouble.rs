//! What stands in the way of shells.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};

use crate::reasons::Reason;

/// What stands in the way of shells, as a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Somebody else has the name of an object that is needed.
    NameTaken(String),
    /// The spec makes no sense.
    Invalid(String),
    /// The API server refuses an object.
    Refused(String),
    /// Pods are refused.
    PodsRefused(String),
    /// Pods don't come to run.
    PodsFail(String),
    /// There is no such VmGroup.
    NoVmGroup(String),
}

impl Trouble {
    /// Whether a person has to act. A VmGroup that isn't there may be declared a moment later.
    #[must_use]
    pub fn needs_person(&self) -> bool {
        !matches!(self, Self::NoVmGroup(_))
    }

    /// Why, in one word, and in a sentence.
    #[must_use]
    pub fn told(&self) -> (Reason, &str) {
        match self {
            Self::NameTaken(why) => (Reason::NameTaken, why),
            Self::Invalid(why) => (Reason::Invalid, why),
            Self::Refused(why) => (Reason::RequestRefused, why),
            Self::PodsRefused(why) => (Reason::PodsRefused, why),
            Self::PodsFail(why) => (Reason::PodsFailing, why),
            Self::NoVmGroup(why) => (Reason::VmGroupNotFound, why),
        }
    }
}

/// What keeps pods from being made: the Deployment has it from its ReplicaSet.
pub(super) fn refused_pods(deployment: &Deployment) -> Option<Trouble> {
    message(deployment, "ReplicaFailure", "True", None).map(Trouble::PodsRefused)
}

/// That the Deployment got no further for as long as it may take, for whatever reason.
pub(super) fn overdue_pods(deployment: &Deployment) -> Option<Trouble> {
    message(deployment, "Progressing", "False", Some("ProgressDeadlineExceeded")).map(Trouble::PodsFail)
}

/// What a condition of the Deployment says, if it is so.
fn message(deployment: &Deployment, kind: &str, status: &str, reason: Option<&str>) -> Option<String> {
    let conditions = deployment.status.as_ref().and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| {
        condition.type_ == kind
            && condition.status == status
            && reason.is_none_or(|reason| condition.reason.as_deref() == Some(reason))
    })?;
    Some(found.message.clone().or_else(|| found.reason.clone()).unwrap_or_default())
}

/// What keeps a pod that is there from running.
pub(super) fn failing_pods(pods: &[Pod]) -> Option<Trouble> {
    let failing: Vec<String> = pods.iter().filter_map(failing).collect();
    let more = failing.len().saturating_sub(1);
    let first = failing.into_iter().next()?;
    Some(Trouble::PodsFail(if more > 0 { format!("{first} (and {more} more)") } else { first }))
}

fn failing(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    let mut conditions = status.conditions.iter().flatten();
    let unscheduled = conditions.find(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if let Some(unscheduled) = unscheduled {
        return Some(format!("{name} has no node: {}", unscheduled.message.as_deref().unwrap_or_default()));
    }
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    let mut waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref());
    let waiting = waiting.find(|waiting| !is_passing(waiting.reason.as_deref().unwrap_or_default()))?;
    let (reason, message) = (waiting.reason.as_deref().unwrap_or_default(), waiting.message.as_deref());
    Some(format!("{name}: {reason}{}", message.map(|message| format!(": {message}")).unwrap_or_default()))
}

/// What every pod goes through.
fn is_passing(reason: &str) -> bool {
    matches!(reason, "" | "ContainerCreating" | "PodInitializing")
}
