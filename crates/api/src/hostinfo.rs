//! What an ESXi host has and has left.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tolerant::{known, those_known};

/// Which host to look at.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "topology.corinternal.com",
    version = "v1",
    kind = "HostInfo",
    doc = "HostInfo shows what an ESXi host has and has left, as its vCenter tells it.",
    namespaced,
    plural = "hostinfoes",
    singular = "hostinfo",
    shortname = "ch",
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
    )
)]
pub struct HostInfoSpec {
    /// The host: its name as vCenter shows it, or its inventory path (`/DC0/host/cluster/esxi-1`).
    #[schemars(length(min = 1, max = 1024))]
    pub hostname: String,
    /// The VCenter that the host is in. Left out: the one that the namespace is given to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
}

/// What vCenter tells of the host. What it doesn't tell is absent; while there is no such host, all but the conditions is.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostInfoStatus {
    /// All its CPU, in MHz: cores × speed.
    #[serde(rename = "totalCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_cpu: Option<i64>,
    /// The CPU that isn't used, in MHz.
    #[serde(rename = "freeCPU", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub free_cpu: Option<i64>,
    /// All its memory, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub total_mem: Option<i64>,
    /// The memory that isn't used, in MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub free_mem: Option<i64>,
    /// When freeCPU and freeMem were written. vCenter is asked for the use once a minute; a figure that has moved by more than 5%
    /// of the whole is written then, any other ten minutes after the last.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub figures_time: Option<Time>,
    /// How many CPU cores it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub cpu_cores: Option<i64>,
    /// What CPUs it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cpu_model: Option<String>,
    /// Who made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vendor: Option<String>,
    /// What they call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub model: Option<String>,
    /// The version of ESXi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// The build of ESXi.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub build: Option<String>,
    /// Whether vCenter reaches it: connected, disconnected or notResponding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub connection_state: Option<String>,
    /// Whether it is in maintenance mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub in_maintenance: Option<bool>,
    /// poweredOn, poweredOff, standBy or unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub power_state: Option<String>,
    /// How many machines are on it, templates included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub machines: Option<i64>,
    /// The cluster that it is in, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cluster: Option<String>,
    /// The datacenter that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub datacenter: Option<String>,
    /// The tags that vCenter's SOAP API shows. Those of the tagging service are REST, and not among them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The custom attributes that people have set on it, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// When it was started.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub boot_time: Option<Time>,
    /// Where it is in the inventory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    /// The object that vCenter knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub moref: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Found and Healthy.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
