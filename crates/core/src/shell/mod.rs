//! What becomes of a MyOwnShell: the objects that it is made of, what to do to have them, and what to say of it.
//!
//! [`plan()`] is pure, as that of groups is. What it wants is written as manifests, to be applied server-side: what is in them is
//! Drover's, and what anybody else adds to the objects is theirs.

pub mod desired;
pub mod hosts;
mod manifest;
pub mod plan;
mod scaler;
pub mod status;
mod subset;
#[cfg(test)]
mod tests;
mod trouble;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod, Service},
        discovery::v1::EndpointSlice,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};

use crate::names;
pub use desired::Desired;
pub use hosts::Machine;
pub use manifest::{APPLIED, former_hosts_name, hosts_name, labels};
pub use plan::{Plan, Step, plan};
pub use status::{event, status};
pub use trouble::Trouble;

/// On MyOwnShells and their Deployments: it was the seed operator's.
pub const FINALIZER: &str = "myownshell.my-first-operator.jgato.io/finalizer";
/// Who Drover is to the API server.
pub const MANAGER: &str = "drover";
/// What a MyOwnShell is to the API server.
const API_VERSION: &str = "my-first-operator.jgato.io/v1alpha1";
const KIND: &str = "MyOwnShell";
/// The label that all shells and what belongs to them have, and its value.
pub const APP: (&str, &str) = ("app", "myownshell");
/// The label whose value is the MyOwnShell's name.
pub const CR_LABEL: &str = "myownshell_cr";

/// What there is of a MyOwnShell.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The Deployment of its name.
    pub deployment: Option<Deployment>,
    /// The shells.
    pub pods: Vec<Pod>,
    /// All autoscalers in its namespace.
    pub autoscalers: Vec<HorizontalPodAutoscaler>,
    /// The machines that it is to find.
    pub machines: Machines,
    /// The ConfigMap of the name that the hosts file's has.
    pub file: Option<ConfigMap>,
    /// The Service of the name that the machines' has.
    pub service: Option<Service>,
    /// The addresses behind that Service.
    pub slices: Vec<EndpointSlice>,
}

/// The machines that shells are to find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Machines {
    /// None are asked for.
    #[default]
    NotAsked,
    /// There is no such group.
    NoGroup,
    /// This operator reads no groups.
    Unread,
    /// Those of the group.
    Of(Vec<Machine>),
}

/// Whether an object belongs to the MyOwnShell of this UID. One that only goes with it is somebody else's.
#[must_use]
pub fn is_ours(meta: &ObjectMeta, uid: &str) -> bool {
    controller(meta).is_some_and(|owner| owner.uid == uid)
}

/// Whether a pod is one of a Deployment's, whatever its labels say.
#[must_use]
pub fn is_shell(pod: &ObjectMeta, deployment: &str) -> bool {
    let Some(hash) = pod.labels.as_ref().and_then(|labels| labels.get("pod-template-hash")) else { return false };
    // Kubernetes names a Deployment's ReplicaSets so, and no two of a namespace have one name. A name that would be too long is cut.
    let is_named = |name: &str| {
        let kept = name.strip_suffix(hash).and_then(|kept| kept.strip_suffix('-'));
        kept.is_some_and(|kept| {
            kept == deployment || name.len() == names::LONGEST_OBJECT && deployment.starts_with(kept)
        })
    };
    controller(pod)
        .is_some_and(|owner| owner.kind == "ReplicaSet" && owner.api_version == "apps/v1" && is_named(&owner.name))
}

fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Whether a Deployment has Drover's finalizer and no need of it: it is being deleted, or belongs to no MyOwnShell any more.
#[must_use]
pub fn is_held_for_nothing(meta: &ObjectMeta) -> bool {
    let is_held = meta.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let is_shells = |owner: &OwnerReference| owner.kind == KIND && owner.api_version == API_VERSION;
    is_held && (meta.deletion_timestamp.is_some() || !controller(meta).is_some_and(is_shells))
}
