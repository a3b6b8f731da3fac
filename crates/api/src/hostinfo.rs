//! What an ESXi host has and has left.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tolerant::{Tolerant, Unknown, known, those_known};

/// Host to show.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "topology.corinternal.com",
    version = "v1",
    kind = "HostInfo",
    doc = "HostInfo shows the capacity, use and health of an ESXi host, as its vCenter reports them. Drover changes nothing on the host.",
    namespaced,
    plural = "hostinfoes",
    singular = "hostinfo",
    shortname = "ch",
    category = "drover",
    status = "HostInfoStatus",
    derive = "PartialEq",
    printcolumn(name = "Hostname", type_ = "string", json_path = ".spec.hostname"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.connectionState"),
    printcolumn(name = "Maintenance", type_ = "boolean", json_path = ".status.inMaintenance"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".status.totalCPU"),
    printcolumn(name = "Free_CPU", type_ = "integer", json_path = ".status.freeCPU"),
    printcolumn(name = "Memory", type_ = "integer", json_path = ".status.totalMem"),
    printcolumn(name = "Free_Memory", type_ = "integer", json_path = ".status.freeMem"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.machines"),
    printcolumn(name = "Uptime", type_ = "date", json_path = ".status.bootTime"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".status.cluster", priority = 1),
    printcolumn(name = "Datacenter", type_ = "string", json_path = ".status.datacenter", priority = 1),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version", priority = 1),
    printcolumn(name = "Vendor", type_ = "string", json_path = ".status.vendor", priority = 1),
    printcolumn(name = "Model", type_ = "string", json_path = ".status.model", priority = 1),
    printcolumn(name = "Power", type_ = "string", json_path = ".status.powerState", priority = 1),
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
pub struct HostInfoSpec {
    /// Name of the host as vCenter shows it, or its inventory path, such as `/DC0/host/cluster/esxi-1`.
    #[schemars(length(min = 1, max = 1024))]
    pub hostname: String,
    /// Name of the VCenter that the host is in. Default: the VCenter that serves the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
}

/// State of the host as vCenter reports it. A field that vCenter does not report is absent. While the host is not found, only the
/// conditions are present.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostInfoStatus {
    /// CPU capacity of the host, in MHz: cores × speed.
    #[serde(rename = "totalCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_cpu: Option<i64>,
    /// CPU capacity that is not used, in MHz.
    #[serde(rename = "freeCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub free_cpu: Option<i64>,
    /// Memory of the host, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_mem: Option<i64>,
    /// Memory that is not used, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub free_mem: Option<i64>,
    /// Time at which freeCPU and freeMem were written. Drover reads the use once a minute. A change of more than 5% of the total
    /// is written at once, a smaller one 10 minutes after the last write.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub figures_time: Option<Time>,
    /// Number of CPU cores.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub cpu_cores: Option<i64>,
    /// Model of the CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cpu_model: Option<String>,
    /// Manufacturer of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vendor: Option<String>,
    /// Model of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// Version of ESXi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Build number of ESXi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub build: Option<String>,
    /// Connection between vCenter and the host. `connected`; `disconnected`: an administrator disconnected the host;
    /// `notResponding`: vCenter can't reach the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub connection_state: Option<String>,
    /// Maintenance mode. true: the host runs no VMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub in_maintenance: Option<bool>,
    /// Power state of the host: `poweredOn`, `poweredOff`, `standBy` or `unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub power_state: Option<String>,
    /// Number of VMs on the host, templates included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub machines: Option<i64>,
    /// Name of the host's cluster. Absent for a standalone host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cluster: Option<String>,
    /// Name of the host's datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub datacenter: Option<String>,
    /// Tags that vCenter's SOAP API reports. Tags of vCenter's tagging service (REST) are not included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Custom attributes that are set on the host, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Time at which the host was started.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub boot_time: Option<Time>,
    /// Inventory path of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    /// Managed object ID of the host, such as `host-21`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub moref: Option<String>,
    /// Generation of the spec that this status describes. -1 before Drover has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Conditions of the object. `Ready`: the object is as declared. `Reconciling`: Drover is working on the object, or waits for
    /// something that comes back by itself. `Stalled`: a person has to act; the message says how. `Found`: the host is in
    /// vCenter. `Healthy`: vCenter reports no problem with the host. docs/reasons.md lists the reasons.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Tolerant for HostInfoStatus {
    fn keep_unknown(&self, status: &mut Map<String, Value>) {
        self.unknown.keep(status);
    }
}
