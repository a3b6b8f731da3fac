// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group of virtual machines, cloned from one template and kept as declared.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "vm.codeconnect.vmworld.com",
    version = "v1alpha1",
    kind = "VmGroup",
    doc = "VmGroup is a group of virtual machines, cloned from one template and kept as declared.",
    namespaced,
    shortname = "vg",
    status = "VmGroupStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.desiredReplicas"),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "integer", json_path = ".spec.memory"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template"),
    printcolumn(name = "Last_Message", type_ = "string", json_path = ".status.lastMessage")
)]
pub struct VmGroupSpec {
    /// CPUs of each machine.
    #[schemars(range(min = 1, max = 4))]
    pub cpu: i32,
    /// Memory of each machine, in GiB.
    #[schemars(range(min = 1, max = 8))]
    pub memory: i32,
    /// How many machines there are.
    #[schemars(range(min = 1))]
    pub replicas: i32,
    /// The template that each machine is cloned from.
    pub template: String,
}

/// What was observed of the group.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VmGroupStatus {
    /// The group's state in one word.
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
