//! What was observed of shells.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tolerant::{Tolerant, Unknown, known, those_known};

/// Observed state of the shells.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MyOwnShellStatus {
    /// Number of shells, ready or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub replicas: Option<i32>,
    /// Number of shells that `kubectl exec` can open.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub ready_replicas: Option<i32>,
    /// Label selector of the shells' pods, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// Shells, the ready ones first. At most 50 are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<ShellPod>,
    /// Time at which the shells are removed, or were, by spec.ttl.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub expires_at: Option<Time>,
    /// Name of the HorizontalPodAutoscaler of the Deployment. While there is one, it decides the number of shells, and spec.size
    /// has no effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub scaled_by: Option<String>,
    /// Number of VMs of the VmGroup that have an IP address and are listed in the shells' hosts file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub machines: Option<i32>,
    /// Summary of the state, for people to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// Generation of the spec that this status describes. -1 before Drover has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Conditions of the object. `Ready`: the object is as declared. `Reconciling`: Drover is working on the object, or waits for
    /// something that comes back by itself. `Stalled`: a person has to act; the message says how. docs/reasons.md lists the
    /// reasons.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Tolerant for MyOwnShellStatus {
    fn keep_unknown(&self, status: &mut Map<String, Value>) {
        self.unknown.keep(status);
    }
}

/// Shell, which is a pod.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ShellPod {
    /// Name of the pod.
    pub name: String,
    /// Readiness of the pod. true: `kubectl exec` can open the shell.
    pub ready: bool,
    /// Command line that opens the shell.
    pub exec: String,
}
