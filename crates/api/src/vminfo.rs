//! What a machine is and does.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tolerant::{known, those_known};

/// The label of the VMInfos that are published for a group's members: its value is the group's name.
pub const GROUP_LABEL: &str = "vm.codeconnect.vmworld.com/group";

/// The annotation that, with the value `"true"` on a member's VMInfo, has the member go first when its group shrinks.
pub const SCALE_IN_FIRST: &str = "vm.codeconnect.vmworld.com/scale-in-first";

/// Which machine to look at.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "topology.corinternal.com",
    version = "v1",
    kind = "VMInfo",
    doc = "VMInfo shows what a machine is and does, as its vCenter tells it. For each member of a VmGroup one is published, named as the member and labelled vm.codeconnect.vmworld.com/group. Annotated with vm.codeconnect.vmworld.com/scale-in-first: \"true\", its member goes first when the group shrinks.",
    namespaced,
    plural = "vminfoes",
    singular = "vminfo",
    shortname = "vi",
    status = "VMInfoStatus",
    derive = "PartialEq",
    printcolumn(name = "Nodename", type_ = "string", json_path = ".spec.nodename"),
    printcolumn(name = "Power", type_ = "string", json_path = ".status.powerState"),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.ipAddress"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".status.totalCPU"),
    printcolumn(name = "Memory", type_ = "integer", json_path = ".status.totalMem"),
    printcolumn(name = "Host", type_ = "string", json_path = ".status.host"),
    printcolumn(name = "Uptime", type_ = "date", json_path = ".status.bootTime"),
    printcolumn(name = "CPU_Use", type_ = "integer", json_path = ".status.cpuUse", priority = 1),
    printcolumn(name = "Memory_Use", type_ = "integer", json_path = ".status.memUse", priority = 1),
    printcolumn(name = "Guest", type_ = "string", json_path = ".status.guestId", priority = 1),
    printcolumn(name = "Tools", type_ = "string", json_path = ".status.toolsState", priority = 1),
    printcolumn(name = "Datastore", type_ = "string", json_path = ".status.datastore", priority = 1),
    printcolumn(name = "Snapshots", type_ = "integer", json_path = ".status.snapshots", priority = 1),
    printcolumn(name = "Path", type_ = "string", json_path = ".status.path", priority = 1),
    printcolumn(
        name = "Healthy",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Healthy\")].status",
        priority = 1
    )
)]
pub struct VMInfoSpec {
    /// The machine: its name, its inventory path (`/DC0/vm/web`), its BIOS or instance UUID, one of its IP addresses, or `moref:`
    /// and its managed object id (`moref:vm-42`).
    #[schemars(length(min = 1, max = 1024))]
    pub nodename: String,
    /// The VCenter that the machine is in. Left out: the one that the namespace is given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
}

/// What vCenter tells of the machine. What it doesn't tell is absent; while there is no such machine, or several, all but the
/// conditions is.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VMInfoStatus {
    /// The guest operating system that it is set up for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub guest_id: Option<String>,
    /// How many CPUs it has.
    #[serde(rename = "totalCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_cpu: Option<i64>,
    /// The CPU that is kept for it, in MHz.
    #[serde(rename = "resvdCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub resvd_cpu: Option<i64>,
    /// Its memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_mem: Option<i64>,
    /// The memory that is kept for it, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub resvd_mem: Option<i64>,
    /// poweredOn, poweredOff or suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub power_state: Option<String>,
    /// The version of its virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub hw_version: Option<String>,
    /// Its first IP address, as its guest tools tell it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ip_address: Option<String>,
    /// Where its configuration is stored: `[datastore] folder/file.vmx`.
    #[serde(rename = "pathToVM", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path_to_vm: Option<String>,
    /// All its IP addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Its name in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// The name that its guest goes by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub guest_name: Option<String>,
    /// The host that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub host: Option<String>,
    /// The datastores that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub datastore: Option<String>,
    /// Its guest tools: guestToolsRunning, guestToolsNotRunning or guestToolsExecutingScripts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tools_state: Option<String>,
    /// Whether its guest tools are current: guestToolsCurrent, guestToolsNotInstalled and others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tools_version: Option<String>,
    /// The CPU that it uses, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub cpu_use: Option<i64>,
    /// The memory that its guest uses, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub mem_use: Option<i64>,
    /// When cpuUse and memUse were written. vCenter is asked for them once a minute; a figure that has moved by more than 5% of the
    /// whole is written then, any other ten minutes after the last.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub figures_time: Option<Time>,
    /// When it was started.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub boot_time: Option<Time>,
    /// Its BIOS UUID.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub uuid: Option<String>,
    /// The UUID that vCenter keeps unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub instance_uuid: Option<String>,
    /// The object that vCenter knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub moref: Option<String>,
    /// Where it is in the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    /// How many snapshots it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub snapshots: Option<i64>,
    /// Whether it is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub template: Option<bool>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Found and Healthy.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
