//! What was observed of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tolerant::{known, those_known};

/// What was observed of the group.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VmGroupStatus {
    /// The group's state in one word: RUNNING, PENDING or ERROR.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub phase: Option<Phase>,
    /// How many machines there are in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub current_replicas: Option<i32>,
    /// How many machines there should be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub desired_replicas: Option<i32>,
    /// What happened last, for people to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub last_message: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// How many machines are as ready as the spec asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub ready_replicas: Option<i32>,
    /// How many machines are made from, and have, what the spec says now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub updated_replicas: Option<i32>,
    /// How many machines have been ready for long enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub available_replicas: Option<i32>,
    /// What the machines are to be made from, as a short digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub revision: Option<String>,
    /// The VCenter that its machines are in. It can't be another while there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vcenter: Option<String>,
    /// What tells that vCenter from all others. A server that has another is not taken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vcenter_instance: Option<String>,
    /// Which places in the group have a VM. Drover writes this before it asks vCenter for anything, and destroys nothing that isn't in
    /// it. Don't edit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Record")]
    pub record: Option<Record>,
    /// What keeps Drover from cloning and destroying, as `drover release` takes it. The condition `Stalled` says what happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub incident: Option<String>,
    /// The label selector of the group's members, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// Ready, Progressing and Stalled.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Which places in a group have a VM, as ranges of slots with the batch of clones that their VMs are from: `0-4@1`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Record {
    /// The last batch of clones.
    #[schemars(range(min = 0))]
    pub incarnation: i64,
    /// Places whose VM has been seen, and has not been proved to be gone since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// Places whose VM is being cloned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// Places whose VM was given up for lost, while the one that takes its place has not been seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The group's folder, by managed object id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// Folders of the group that its VMs were moved out of, by managed object id. They are removed when they are empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_folders: Vec<String>,
    /// Places whose VM is being destroyed, each with the VM's managed object id: `5@1 vm-42`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub going: Vec<String>,
}

/// A group's state in one word.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Phase {
    /// The world is as declared.
    Running,
    /// Work is under way.
    Pending,
    /// Something needs a person.
    Error,
}
