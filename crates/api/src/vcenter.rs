//! One vCenter: where it is, who logs in, who may use it.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    tolerant::{known, those_known},
    vmgroup::Placement,
};

/// The annotation by which a namespace names the VCenter of its groups, hosts and machines.
pub const NAMESPACE_ANNOTATION: &str = "vm.codeconnect.vmworld.com/vcenter";

/// A vCenter that groups of machines can be in.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "vm.codeconnect.vmworld.com",
    version = "v1alpha1",
    kind = "VCenter",
    doc = "VCenter is a vCenter that groups of virtual machines can be in: its address, credentials, trust, defaults and limits.",
    plural = "vcenters",
    shortname = "vc",
    status = "VCenterStatus",
    derive = "PartialEq",
    printcolumn(name = "Server", type_ = "string", json_path = ".spec.server"),
    printcolumn(
        name = "Connected",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].status"
    ),
    printcolumn(
        name = "Authorized",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Authorized\")].status"
    ),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Hosts", type_ = "integer", json_path = ".status.hosts"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.machines"),
    printcolumn(name = "Queue", type_ = "integer", json_path = ".status.queued"),
    printcolumn(name = "Default", type_ = "boolean", json_path = ".spec.default"),
    printcolumn(name = "Session", type_ = "date", json_path = ".status.sessionSince", priority = 1),
    printcolumn(name = "Under_Way", type_ = "integer", json_path = ".status.underWay", priority = 1),
    printcolumn(name = "Build", type_ = "string", json_path = ".status.build", priority = 1),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Connected\")].message",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct VCenterSpec {
    /// Its address: a host, `host:port`, or a URL such as `https://vc.example.com/sdk`.
    #[schemars(length(min = 1, max = 1024), extend("x-kubernetes-validations" = [{
        "rule": "!self.contains('@')",
        "message": "user and password don't belong here: put them into the Secret that credentialsSecretRef names",
    }]))]
    pub server: String,
    /// The Secret with the user and the password.
    pub credentials_secret_ref: SecretReference,
    /// Which certificate makes a server this vCenter. Left out: one that an authority has signed which the operator's machine
    /// trusts.
    #[serde(default, skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
    /// Where machines are put whose group doesn't say. `folder` takes the place of `vm-operator`.
    #[serde(default)]
    pub defaults: Placement,
    /// How much is asked of the vCenter at once. Left out: what a vCenter bears well.
    #[serde(default)]
    pub limits: Limits,
    /// The namespaces that may use it, by their labels. Left out: all may, and those use it that name it or that no other serves
    /// where it is the default. Those that match use it without naming it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub namespaces: Option<LabelSelector>,
    /// Whether it serves the namespaces that are given to no other.
    #[serde(default)]
    pub default: bool,
    /// What is made in Kubernetes of what is in it.
    #[serde(default)]
    pub publish: Publish,
}

/// A Secret. The user is under `VC_USER`, `username` or `GOVMOMI_USERNAME`, the password under `VC_PASS`, `password` or
/// `GOVMOMI_PASSWORD`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Its namespace.
    #[schemars(length(min = 1, max = 63))]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Which certificate makes a server the vCenter that is meant. At most one of these.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.caBundle) ? 1 : 0) + (has(self.thumbprint) ? 1 : 0) + (self.insecure ? 1 : 0) <= 1",
    "message": "give one of caBundle, thumbprint and insecure",
}]))]
pub struct Tls {
    /// The authorities that may have signed it: PEM text, as it is or in base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 262_144))]
    pub ca_bundle: Option<String>,
    /// Its SHA-256 thumbprint, as `drover check` shows it. Then its name, expiry and issuer don't matter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 64, max = 95))]
    pub thumbprint: Option<String>,
    /// Any does. Anybody on the way can read the password.
    pub insecure: bool,
}

impl Tls {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How much is asked of a vCenter at once.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Operations in all. Left out: 256. A vCenter bears about 640, others' included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 640))]
    pub operations: Option<u32>,
    /// Clones on one host. Left out: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 64))]
    pub clones_per_host: Option<u32>,
    /// Seconds after which others no longer wait for an operation that is still under way. Left out: 1800. It goes on, and is not begun
    /// a second time.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 86400))]
    pub operation_seconds: Option<u32>,
}

/// What is made in Kubernetes of what is in a vCenter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!self.hosts || has(self.namespace)",
    "message": "say in which namespace the HostInfos are to be: publish.namespace",
}]))]
pub struct Publish {
    /// Whether there is a HostInfo for each of its hosts.
    pub hosts: bool,
    /// The namespace that they are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// What is known of the vCenter.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VCenterStatus {
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub build: Option<String>,
    /// What tells it from all others. A server that has another is not taken for this vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub instance_uuid: Option<String>,
    /// Since when Drover has been logged in.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub session_since: Option<Time>,
    /// How many machines it has, templates included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub machines: Option<i64>,
    /// How many hosts it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub hosts: Option<i64>,
    /// How many operations wait for their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub queued: Option<i64>,
    /// How many operations are under way, of those that limits allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub under_way: Option<i64>,
    /// What keeps Drover from cloning and destroying in it, as `drover release` takes it. The condition `SafetyHold` says what happened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub incident: Option<String>,
    /// The generation of the spec that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Connected, Authorized and `SafetyHold`.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}
