//! One vCenter: where it is, who logs in, who may use it.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use crate::{
    allow::{Allowance, Enforce, Reach},
    quota::{Quota, QuotaUse, Use},
};
use crate::{
    tolerant::{Tolerant, Unknown, known, those_known},
    vmgroup::Placement,
};

/// The annotation by which a namespace names the VCenter of its groups, hosts and machines.
pub const NAMESPACE_ANNOTATION: &str = "vm.codeconnect.vmworld.com/vcenter";

/// The annotation by which a Secret of a VCenter names the server that it is for.
pub const SERVER_ANNOTATION: &str = "vm.codeconnect.vmworld.com/server";

/// Address, credentials and rules of a vCenter.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "vm.codeconnect.vmworld.com",
    version = "v1alpha1",
    kind = "VCenter",
    doc = "VCenter connects Drover to a vCenter: address, credentials, certificate verification, defaults for VMs, limits, and the namespaces that may use the vCenter.",
    plural = "vcenters",
    shortname = "vc",
    category = "drover",
    status = "VCenterStatus",
    derive = "PartialEq",
    validation = Rule::new("has(self.spec.server) || self.metadata.name == 'default'")
        .message("spec.server: only the VCenter default can take the server from the operator's environment"),
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
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.server) || !self.server.trim().startsWith('http://') || (has(self.tls) && self.tls.insecure)",
        "message": "server: http:// sends the password in clear text: write https://, or set tls.insecure",
    },
    {
        "rule": "has(self.server) == has(self.credentialsSecretRef)",
        "message": "give both server and credentialsSecretRef, or none of them",
    },
    {
        "rule": "has(self.server) || !has(self.tls)",
        "message": "tls: where the operator's environment gives the server, it also says how to verify the certificate",
    },
]))]
pub struct VCenterSpec {
    /// Address of the vCenter: a host name, `host:port`, or a URL such as `https://vc.example.com/sdk`. `http://` sends the password in
    /// clear text, and needs tls.insecure. Default: the vCenter that the operator's environment names, for the VCenter `default` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024), extend("x-kubernetes-validations" = [{
        "rule": "!self.contains('@')",
        "message": "user and password don't belong here: put them into the Secret that credentialsSecretRef names",
    }]))]
    pub server: Option<String>,
    /// Secret with the user name and the password. The user name is under the key `VC_USER`, `username` or `GOVMOMI_USERNAME`,
    /// the password under `VC_PASS`, `password` or `GOVMOMI_PASSWORD`. Required with server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SecretReference")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// Verification of the server's certificate. Default: the certificate has to be signed by an authority that the operator's
    /// system trusts.
    #[serde(default, skip_serializing_if = "Tls::is_default")]
    pub tls: Tls,
    /// Placement of VMs whose VmGroup does not set it. `folder` is the folder that VmGroups' own folders are created in. Default:
    /// `vm-operator`.
    #[serde(default)]
    pub defaults: Placement,
    /// Limits for what Drover does in this vCenter at the same time.
    #[serde(default)]
    pub limits: Limits,
    /// Label selector of the namespaces that may use the VCenter. Default: every namespace may use it. A namespace that the
    /// selector matches uses the VCenter without naming it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector")]
    pub namespaces: Option<LabelSelector>,
    /// Reach of namespaces in the vCenter. `Open` (default): a namespace that may use the VCenter may use every template, folder,
    /// cluster, resource pool, datastore and network that Drover's user may use. `Restricted`: a namespace may use only spec.defaults, and what
    /// spec.allow lists for the namespace, and its HostInfos and VMInfos show nothing else but its own VMs.
    #[serde(default)]
    pub reach: Reach,
    /// Enforcement of spec.reach, of keys of spec.extraConfig and of quotas. `Enforce` (default): a VmGroup that names anything else keeps its
    /// VMs and gets no new ones; one that finds no room waits. `Warn`: nothing is refused but keys that no VCenter can allow; the condition
    /// `Allowed` of each VmGroup says what would be.
    #[serde(default)]
    pub enforce: Enforce,
    /// Objects that namespaces may use with spec.reach `Restricted`, keys of extraConfig that VmGroups may set, and quotas: at most 256
    /// entries. All entries that select a namespace add up. Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256))]
    pub allow: Vec<Allowance>,
    /// Default VCenter. true: namespaces that no other VCenter is assigned to use this one. Default: false.
    #[serde(default)]
    pub default: bool,
    /// Objects that Drover creates in Kubernetes for what is in the vCenter.
    #[serde(default)]
    pub publish: Publish,
}

impl VCenterSpec {
    /// Whether it leaves to the operator's environment where the vCenter is and who logs in.
    #[must_use]
    pub fn is_of_environment(&self) -> bool {
        self.server.is_none() && self.credentials_secret_ref.is_none()
    }
}

/// Secret in a namespace.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Namespace of the Secret. Default: the operator's own namespace, where Drover may read Secrets. In any other namespace, Drover
    /// needs a Role that lets its service account list and watch this Secret, and the Secret needs the annotation
    /// `vm.codeconnect.vmworld.com/server`, which names the server that it is for. A Secret with this annotation is sent to no other
    /// server, and only over TLS with a verified certificate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub namespace: Option<String>,
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Verification of the server's certificate. At most one field may be set.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "(has(self.caBundle) ? 1 : 0) + (has(self.thumbprint) ? 1 : 0) + (self.insecure ? 1 : 0) <= 1",
    "message": "give one of caBundle, thumbprint and insecure",
}]))]
pub struct Tls {
    /// Certificates of the authorities that may have signed the server's certificate: PEM text, plain or base64-encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 262_144))]
    pub ca_bundle: Option<String>,
    /// SHA-256 thumbprint of the server's certificate, as `drover check` prints it. Name, expiry and issuer of the certificate
    /// are not checked then.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 64, max = 95))]
    pub thumbprint: Option<String>,
    /// Insecure mode. true: skip certificate verification. Exposes the password to interception. Default: false.
    pub insecure: bool,
}

impl Tls {
    /// Whether nothing is said.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Limits for what Drover does in a vCenter at the same time.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    /// Maximum number of concurrent operations. A vCenter runs about 640, those of other clients included. Default: 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 640))]
    pub operations: Option<u32>,
    /// Maximum number of concurrent clones on one host. Default: 8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 64))]
    pub clones_per_host: Option<u32>,
    /// Seconds after which other operations no longer wait for one that is still running. The operation itself continues and is
    /// not repeated. Default: 1800.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1, max = 86400))]
    pub operation_seconds: Option<u32>,
}

/// Objects that Drover creates in Kubernetes for what is in a vCenter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!self.hosts || has(self.namespace)",
    "message": "say in which namespace the HostInfos are to be: publish.namespace",
}]))]
pub struct Publish {
    /// HostInfos. true: Drover creates one for each host of the vCenter, and deletes it when the host is removed. Default: false.
    pub hosts: bool,
    /// Namespace that the HostInfos are created in. Required when hosts is true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 63))]
    pub namespace: Option<String>,
}

/// Observed state of the vCenter.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VCenterStatus {
    /// Version of the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub version: Option<String>,
    /// Build number of the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub build: Option<String>,
    /// Instance UUID of the vCenter. Drover does not use a server that has another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub instance_uuid: Option<String>,
    /// Time at which Drover logged in.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub session_since: Option<Time>,
    /// Number of VMs in the vCenter, templates included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub machines: Option<i64>,
    /// Number of hosts in the vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub hosts: Option<i64>,
    /// Number of operations that wait in Drover's queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub queued: Option<i64>,
    /// Number of operations that run in the vCenter, out of spec.limits.operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub under_way: Option<i64>,
    /// Use of the quotas of spec.allow, by namespace: those that have VmGroups or VMs in the vCenter, at most 1000.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace"]))]
    pub quotas: Vec<QuotaUse>,
    /// Incident that keeps Drover from cloning and destroying VMs in the vCenter. `drover release` takes this name. The condition
    /// `SafetyHold` describes the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub incident: Option<String>,
    /// Generation of the spec that this status describes. -1 before Drover has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Conditions of the object. `Ready`: the object is as declared. `Reconciling`: Drover is working on the object, or waits for
    /// something that comes back by itself. `Stalled`: a person has to act; the message says how. `Connected`: Drover is logged
    /// in. `Authorized`: the user has all privileges that Drover needs. `SafetyHold`: Drover clones and destroys nothing, because
    /// too many VMs are missing. `Restricted`: namespaces may use only what they are allowed. `Published`: each host has a HostInfo,
    /// where spec.publish.hosts is true. docs/reasons.md lists the reasons.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Tolerant for VCenterStatus {
    fn keep_unknown(&self, status: &mut Map<String, Value>) {
        self.unknown.keep(status);
    }
}
