//! Shells to exec into.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

mod amount;
mod status;
mod ttl;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

pub use amount::{Amount, Resources};
pub use status::{MyOwnShellStatus, ShellPod};
pub use ttl::Ttl;

/// Number of shells, and what each of them runs.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "my-first-operator.jgato.io",
    version = "v1alpha1",
    kind = "MyOwnShell",
    doc = "MyOwnShell is a number of shells to open with kubectl exec. Drover runs them as a Deployment of the same name.",
    namespaced,
    category = "drover",
    status = "MyOwnShellStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Expires", type_ = "string", json_path = ".status.expiresAt"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Image", type_ = "string", json_path = ".spec.image", priority = 1),
    printcolumn(name = "VmGroup", type_ = "string", json_path = ".spec.vmGroupRef.name", priority = 1),
    printcolumn(name = "Scaled_By", type_ = "string", json_path = ".status.scaledBy", priority = 1),
    printcolumn(name = "Exec", type_ = "string", json_path = ".status.pods[0].exec", priority = 1)
)]
pub struct MyOwnShellSpec {
    /// Number of shells: 0 to 10000.
    #[schemars(range(min = 0, max = bounds::REPLICAS))]
    pub size: i32,
    /// Container image of each shell. Default: `busybox:latest`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), extend("x-kubernetes-validations" = [{
        "rule": "!self.matches('[ \\t\\n\\r]')",
        "message": "an image has no blanks in its name",
    }]))]
    pub image: Option<String>,
    /// Command that each shell's container runs to stay alive. Default: `sh` prints a line and sleeps for 3 years.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(max = 65536)), extend("x-kubernetes-validations" = [{
        "rule": "self.size() == 0 || self[0] != ''",
        "message": "the first word of a command is the program, and can't be empty",
    }]))]
    pub command: Vec<String>,
    /// CPU, memory and other resources of each shell's container.
    #[serde(default, skip_serializing_if = "Resources::is_default")]
    pub resources: Resources,
    /// Lifetime of the shells, counted from the creation of the MyOwnShell: days, hours, minutes and seconds, such as `90m`, `8h`
    /// or `7d12h`. When the time is over, the shells are removed and the MyOwnShell stays. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Ttl")]
    pub ttl: Option<Ttl>,
    /// VmGroup in the same namespace. The shells reach its VMs by name, and list them in the file /etc/drover/hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "VmGroupRef")]
    pub vm_group_ref: Option<VmGroupRef>,
}

/// VmGroup in the same namespace.
#[derive(Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmGroupRef {
    /// Name of the VmGroup.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}
