//! How much namespaces may have in a vCenter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most that a namespace may have in the vCenter, over all its VmGroups. VMs that are being created count, and so do VMs that a deleted
/// VmGroup left behind.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Quota {
    /// Maximum number of VMs. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub vms: Option<i64>,
    /// Maximum number of CPUs of all VMs, whether they run or not. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub cpus: Option<i64>,
    /// Maximum memory of all VMs in GiB, whether they run or not. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub memory: Option<i64>,
    /// Maximum capacity of the disks of all VMs in GiB, whatever they take up on datastores. A VM counts with the disks that its template has
    /// when the VM is cloned. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub storage: Option<i64>,
}

/// Use of a namespace's quota.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QuotaUse {
    /// Name of the namespace.
    pub namespace: String,
    /// Number of VMs, those that are being created included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Use")]
    pub vms: Option<Use>,
    /// CPUs of these VMs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Use")]
    pub cpus: Option<Use>,
    /// Memory of these VMs in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Use")]
    pub memory: Option<Use>,
    /// Capacity of the disks of these VMs in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Use")]
    pub storage: Option<Use>,
}

/// Use of one limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct Use {
    /// Amount in use. More than the limit if the limit was lowered.
    pub used: i64,
    /// Limit of spec.allow.
    pub limit: i64,
}
