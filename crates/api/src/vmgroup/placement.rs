//! Where the machines of a group are, and how they are made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where in a vCenter the machines are. Each is a name or an inventory path; what is left out is the vCenter's default, or the
/// only one there is.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Placement {
    /// The datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub datacenter: Option<String>,
    /// The cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub cluster: Option<String>,
    /// The resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub resource_pool: Option<String>,
    /// The datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub datastore: Option<String>,
    /// The folder that the group's own folder is made in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub folder: Option<String>,
    /// The hosts that the machines are spread over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), inner(length(min = 1, max = 1024)))]
    pub hosts: Vec<String>,
}

impl Placement {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How the machines are made.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CloneOptions {
    /// A copy of the template's disks, or one linked to its snapshot.
    pub mode: CloneMode,
}

/// A copy of the template's disks, or one linked to its snapshot.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CloneMode {
    /// A copy, which needs the template no more.
    #[default]
    Full,
    /// A disk that holds only what differs from the template's snapshot. The template has to have one.
    Linked,
}
