//! What was observed of shells.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tolerant::{known, those_known};

/// What was observed of the shells.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MyOwnShellStatus {
    /// How many shells there are, ready or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub replicas: Option<i32>,
    /// How many shells can be exec'ed into.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub ready_replicas: Option<i32>,
    /// The label selector of the shells' pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// The shells, the ready ones first; of very many, the first 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<ShellPod>,
    /// When the shells are removed, or were, as spec.ttl says.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub expires_at: Option<Time>,
    /// Who else says how many shells there are, and is left to: an autoscaler of the Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub scaled_by: Option<String>,
    /// How many machines of the VmGroup have an address, and so a line in the shells' hosts file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub machines: Option<i32>,
    /// How it is, for people to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Ready, Progressing and Stalled.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// One shell.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShellPod {
    /// The pod's name.
    pub name: String,
    /// Whether it can be exec'ed into.
    pub ready: bool,
    /// The line that opens it, to copy.
    pub exec: String,
}
