//! What namespaces may use of a vCenter.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quota::Quota;

/// Reach of namespaces in a vCenter.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Reach {
    /// All that Drover's user may use.
    #[default]
    Open,
    /// What is allowed.
    Restricted,
}

/// Enforcement of a restricted reach.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Enforce {
    /// What is not allowed is refused.
    #[default]
    Enforce,
    /// What is not allowed is told of.
    Warn,
}

/// What some namespaces may use. A pattern is compared with the inventory path that vCenter shows, such as `/DC0/vm/team-a/web`: `*` stands for
/// any text within a level, `**` for any number of levels, also none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Allowance {
    /// Label selector of the namespaces. The label `kubernetes.io/metadata.name` is the name of a namespace. Default: every namespace
    /// that may use the VCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub namespaces: Option<LabelSelector>,
    /// Patterns of the templates, and of the powered-off VMs, that VMs may be cloned from. VMInfos show them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub templates: Vec<String>,
    /// Patterns of the folders that VmGroups' folders may be created in. VMInfos show the VMs in these folders that are no VmGroup's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub folders: Vec<String>,
    /// Patterns of the clusters whose own resource pool VMs may be placed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub clusters: Vec<String>,
    /// Patterns of the resource pools that VMs may be placed in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub resource_pools: Vec<String>,
    /// Patterns of the datastores that VMs' disks may be placed on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub datastores: Vec<String>,
    /// Patterns of the networks that VMs' network cards may be connected to.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 2, max = 1024), regex(pattern = r"^(/([*][*]?|[*]?[^/*]+([*][^/*]+)*[*]?))+$"))
    )]
    pub networks: Vec<String>,
    /// Keys of spec.extraConfig that VmGroups may set, beside those that every VmGroup may set. `*` at the end stands for any text. Upper and
    /// lower case are the same. With spec.reach `Open`, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 255), regex(pattern = "^[^*]*[*]?$")))]
    pub extra_config: Vec<String>,
    /// Quota of each of the namespaces, whatever spec.reach says. Of several entries that select a namespace, the least of each limit counts.
    /// Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Quota")]
    pub quota: Option<Quota>,
}
