//! What was observed of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was observed of the group.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VmGroupStatus {
    /// The group's state in one word: RUNNING, PENDING or ERROR.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The label selector of the group's members, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// Ready, Progressing and Stalled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
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
