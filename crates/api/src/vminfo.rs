//! What a machine is and does.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tolerant::{Tolerant, Unknown, known, those_known};

/// The label of the VMInfos that are published for a group's members: its value is the group's name.
pub const GROUP_LABEL: &str = "vm.codeconnect.vmworld.com/group";

/// The annotation that, with the value `"true"` on a member's VMInfo, has the member go first when its group shrinks.
pub const SCALE_IN_FIRST: &str = "vm.codeconnect.vmworld.com/scale-in-first";

/// VM to show.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "topology.corinternal.com",
    version = "v1",
    kind = "VMInfo",
    doc = "VMInfo shows the hardware, use, addresses and health of a VM, as its vCenter reports them. Drover creates one for each VM of a VmGroup, with the VM's name and the label vm.codeconnect.vmworld.com/group. The annotation vm.codeconnect.vmworld.com/scale-in-first: \"true\" on such a VMInfo makes its VM the first to be removed when the VmGroup is scaled in.",
    namespaced,
    plural = "vminfoes",
    singular = "vminfo",
    shortname = "vi",
    category = "drover",
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
    printcolumn(name = "Slot", type_ = "integer", json_path = ".status.slot", priority = 1),
    printcolumn(name = "Path", type_ = "string", json_path = ".status.path", priority = 1),
    printcolumn(
        name = "Healthy",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Healthy\")].status",
        priority = 1
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = 1)
)]
pub struct VMInfoSpec {
    /// Name of the VM, its inventory path (`/DC0/vm/web`), its BIOS UUID or instance UUID, one of its IP addresses, or `moref:`
    /// and its managed object ID (`moref:vm-42`).
    #[schemars(length(min = 1, max = 1024))]
    pub nodename: String,
    /// Name of the VCenter that the VM is in. Default: the VCenter that serves the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
}

/// State of the VM as vCenter reports it. A field that vCenter does not report is absent. While no VM, or more than one, matches,
/// only the conditions are present.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VMInfoStatus {
    /// Guest operating system that the VM is configured for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub guest_id: Option<String>,
    /// Number of CPUs.
    #[serde(rename = "totalCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_cpu: Option<i64>,
    /// CPU capacity that is reserved for the VM, in MHz.
    #[serde(rename = "resvdCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub resvd_cpu: Option<i64>,
    /// Memory of the VM, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_mem: Option<i64>,
    /// Memory that is reserved for the VM, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub resvd_mem: Option<i64>,
    /// Power state of the VM: `poweredOn`, `poweredOff` or `suspended`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub power_state: Option<String>,
    /// Version of the virtual hardware.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub hw_version: Option<String>,
    /// First IP address of the VM, as VMware Tools report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub ip_address: Option<String>,
    /// Datastore path of the VM's configuration file: `[datastore] folder/file.vmx`.
    #[serde(rename = "pathToVM", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path_to_vm: Option<String>,
    /// IP addresses of the VM, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Name of the VM in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// Host name that the guest reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub guest_name: Option<String>,
    /// Name of the host that the VM is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub host: Option<String>,
    /// Names of the datastores that the VM is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub datastore: Option<String>,
    /// State of VMware Tools: `guestToolsRunning`, `guestToolsNotRunning` or `guestToolsExecutingScripts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tools_state: Option<String>,
    /// Version state of VMware Tools, such as `guestToolsCurrent` or `guestToolsNotInstalled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tools_version: Option<String>,
    /// CPU capacity that the VM uses, in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub cpu_use: Option<i64>,
    /// Memory that the guest uses, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub mem_use: Option<i64>,
    /// Time at which cpuUse and memUse were written. Drover reads the use once a minute. A change of more than 5% of the total is
    /// written at once, a smaller one 10 minutes after the last write.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub figures_time: Option<Time>,
    /// Time at which the VM was started. Absent while the VM is not powered on.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub boot_time: Option<Time>,
    /// BIOS UUID of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub uuid: Option<String>,
    /// Instance UUID of the VM, which vCenter keeps unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub instance_uuid: Option<String>,
    /// Managed object ID of the VM, such as `vm-42`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub moref: Option<String>,
    /// Inventory path of the VM.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    /// Number of snapshots.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub snapshots: Option<i64>,
    /// Template mark. true: the VM is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub template: Option<bool>,
    /// Slot of the VM in its VmGroup: its place, which outlives the VM. Absent for a VM that is no member of a VmGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub slot: Option<i64>,
    /// Generation of the spec that this status describes. -1 before Drover has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Conditions of the object. `Ready`: the object is as declared. `Reconciling`: Drover is working on the object, or waits for
    /// something that comes back by itself. `Stalled`: a person has to act; the message says how. `Found`: the VM is in vCenter.
    /// `Healthy`: vCenter reports no problem with the VM. docs/reasons.md lists the reasons.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Tolerant for VMInfoStatus {
    fn keep_unknown(&self, status: &mut Map<String, Value>) {
        self.unknown.keep(status);
    }
}
