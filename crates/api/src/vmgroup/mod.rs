//! The group of machines that a user declares.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

mod guest;
mod placement;
mod status;
mod update;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

pub use guest::{CloudInit, Guest, SecretKey, Text};
pub use placement::{CloneMode, CloneOptions, Placement};
pub use status::{Phase, Record, VmGroupStatus};
pub use update::{Portion, Round, Strategy, Update};

/// The annotation by which somebody says to go on after an incident: its value is the incident that the status names. On a VCenter it
/// counts for all its groups.
pub const RELEASE_ANNOTATION: &str = "vm.codeconnect.vmworld.com/release";

/// A group of virtual machines, cloned from one template and kept as declared.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "vm.codeconnect.vmworld.com",
    version = "v1alpha1",
    kind = "VmGroup",
    doc = "VmGroup is a group of virtual machines, cloned from one template and kept as declared.",
    namespaced,
    shortname = "vg",
    status = "VmGroupStatus",
    derive = "PartialEq",
    validation = Rule::new(
        "!has(self.spec.vcenter) || (has(oldSelf.spec.vcenter) && oldSelf.spec.vcenter == self.spec.vcenter) || !has(oldSelf.status) || !has(oldSelf.status.vcenter) || oldSelf.status.vcenter == self.spec.vcenter || !has(oldSelf.status.currentReplicas) || oldSelf.status.currentReplicas == 0"
    ).message("the group has machines in another VCenter: scale it to 0 before it is moved"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.currentReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "integer", json_path = ".spec.memory"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template"),
    printcolumn(name = "Last_Message", type_ = "string", json_path = ".status.lastMessage"),
    printcolumn(name = "VCenter", type_ = "string", json_path = ".status.vcenter", priority = 1)
)]
pub struct VmGroupSpec {
    /// CPUs of each machine.
    #[schemars(range(min = 1, max = 768))]
    pub cpu: i32,
    /// Memory of each machine, in GiB.
    #[schemars(range(min = 1, max = 24560))]
    pub memory: i32,
    /// How many machines there are: 0 to 10000.
    #[schemars(range(min = 0, max = bounds::REPLICAS))]
    pub replicas: i32,
    /// The template that each machine is cloned from: its name, its inventory path (`/DC0/vm/templates/web`), or `moref:` and
    /// its managed object id (`moref:vm-42`).
    #[schemars(length(min = 1, max = 1024))]
    pub template: String,
    /// The VCenter that the machines are in. Left out: the one that the namespace is given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
    /// Where in the vCenter the machines are.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// How the machines are made.
    #[serde(default)]
    pub clone: CloneOptions,
    /// The port group of each network card, in order. Left out: those of the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), inner(length(min = 1, max = 1024)))]
    pub networks: Vec<String>,
    /// What the guests are told.
    #[serde(default, skip_serializing_if = "Guest::is_default")]
    pub guest: Guest,
    /// Further configuration keys of each machine: at most 64, each of at most 255 characters, with values of at most 65536.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("additionalProperties" = {"type": "string", "maxLength": 65536}, "maxProperties" = 64, "x-kubernetes-validations" = [
        {
            "rule": "self.all(k, k.size() <= 255)",
            "message": "a key has at most 255 characters",
        },
        {
            "rule": "self.all(k, !k.lowerAscii().startsWith('drover.') && !k.lowerAscii().startsWith('run.') && !k.lowerAscii().startsWith('set.') && !k.lowerAscii().endsWith('.filename'))",
            "message": "keys that begin with drover., RUN. or SET., or end with .fileName, can't be set: they are Drover's own, or reach outside of the machine",
        },
        {
            "rule": "self.all(k, !k.lowerAscii().startsWith('guestinfo.userdata') && !k.lowerAscii().startsWith('guestinfo.metadata'))",
            "message": "cloud-init's keys can't be set here: use spec.guest.cloudInit",
        },
    ]))]
    pub extra_config: BTreeMap<String, String>,
    /// The power state that the machines are kept in.
    #[serde(default)]
    pub power_state: PowerState,
    /// When a machine counts as ready.
    #[serde(default)]
    pub readiness: Readiness,
    /// How changes reach the machines that are there.
    #[serde(default)]
    pub update: Update,
    /// Which machines go first when there are too many. Those marked by annotation on their VMInfo go before all, then those
    /// that aren't ready.
    #[serde(default)]
    pub scale_in: ScaleIn,
    /// How machines are brought down.
    #[serde(default)]
    pub shutdown: Shutdown,
    /// What becomes of the machines when the group is deleted. A group whose vCenter never comes back is let go, with whatever is
    /// left of it there, by the annotation `vm.codeconnect.vmworld.com/abandon: "true"`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Seconds after which a VM that vCenter no longer shows is given up for lost, and another is made in its place, where nothing
    /// proves that the VM was destroyed. 0: never; somebody has to say so. Default: 300. A VM that was destroyed in vCenter is replaced
    /// at once.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub lost_after_seconds: i32,
    /// Look on, and change nothing.
    #[serde(default)]
    pub paused: bool,
}

fn five_minutes() -> i32 {
    300
}

/// The power state that machines are kept in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PowerState {
    /// Powered on.
    #[default]
    On,
    /// Powered off.
    Off,
    /// Suspended.
    Suspended,
}

/// When a machine counts as ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Readiness {
    /// It is powered on.
    #[default]
    PoweredOn,
    /// Its guest tools run.
    ToolsRunning,
    /// Its guest has an IP address.
    IPAddress,
}

/// Which machines go first when there are too many.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ScaleIn {
    /// The youngest.
    #[default]
    Newest,
    /// The oldest.
    Oldest,
}

/// How machines are brought down.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Shutdown {
    /// Seconds that a guest has to shut down by itself before it is powered off. 0 powers it off at once.
    #[schemars(range(min = 0, max = 3600))]
    pub grace_seconds: i32,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace_seconds: 30 }
    }
}

/// What becomes of the machines when the group is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletionPolicy {
    /// They are destroyed, with their disks.
    #[default]
    Delete,
    /// They are powered off and stay.
    PowerOff,
    /// They stay as they are.
    Retain,
}
