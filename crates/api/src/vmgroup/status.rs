//! What was observed of a group.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::tolerant::{Tolerant, Unknown, known, those_known};

/// Observed state of the VMs.
// The schema of each optional field is that of its value: absent is allowed, null isn't.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VmGroupStatus {
    /// Phase of the VmGroup. `RUNNING`: the VMs are as declared. `PENDING`: Drover is working, or vCenter is unreachable.
    /// `ERROR`: something keeps Drover from continuing; lastMessage says what.
    #[serde(deserialize_with = "known", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub phase: Option<Phase>,
    /// Number of VMs in vCenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub current_replicas: Option<i32>,
    /// Number of VMs that the spec declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub desired_replicas: Option<i32>,
    /// Summary of the state, for people to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub last_message: Option<String>,
    /// Generation of the spec that this status describes. -1 before Drover has seen the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Number of VMs that are ready, as spec.readiness defines it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub ready_replicas: Option<i32>,
    /// Number of VMs that are up to date with the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub updated_replicas: Option<i32>,
    /// Number of VMs that have been ready for spec.update.minReadySeconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub available_replicas: Option<i32>,
    /// Revision of the spec that new VMs are created from, as a short digest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub revision: Option<String>,
    /// Name of the VCenter that the VMs are in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vcenter: Option<String>,
    /// Instance UUID of the vCenter that the VMs are in. Drover does not use a server that has another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub vcenter_instance: Option<String>,
    /// Record of the slots that have a VM. Drover writes the record before it changes anything in vCenter, and destroys no VM
    /// that is not in it. Do not edit it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Record")]
    pub record: Option<Record>,
    /// UID in the markers of the VMs, from which the names and instance UUIDs of the VMs are computed. Set if this VmGroup took over the VMs
    /// of an earlier VmGroup with the same namespace and name. Default: the UID of this VmGroup. Don't edit it.
    #[serde(rename = "markerUID", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub marker_uid: Option<String>,
    /// Keys of spec.extraConfig that the VmGroup had before Drover checked keys, and that a new VmGroup may not set. They stay allowed; those
    /// that no VCenter can allow keep their values. Don't edit the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", length(max = 64), inner(length(max = 255)))]
    pub extra_config_kept: Option<Vec<String>>,
    /// Incident that keeps Drover from cloning and destroying VMs. `drover release` takes this name. The condition `Stalled`
    /// describes the incident.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub incident: Option<String>,
    /// Label selector of the VmGroup's VMInfos, for the scale subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub selector: Option<String>,
    /// Conditions of the object. `Ready`: the object is as declared. `Reconciling`: Drover is working on the object, or waits for
    /// something that comes back by itself. `Stalled`: a person has to act; the message says how. `Allowed`: the VmGroup names only what
    /// its namespace may use; absent where spec.reach of the VCenter is `Open`, unless spec.enforce is `Warn` and the VmGroup sets keys of
    /// spec.extraConfig that it may not, or the namespace has more than its quota. docs/reasons.md lists the reasons.
    #[serde(deserialize_with = "those_known", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl Tolerant for VmGroupStatus {
    fn keep_unknown(&self, status: &mut Map<String, Value>) {
        self.unknown.keep(status);
        if let (Some(record), Some(Value::Object(into))) = (&self.record, status.get_mut("record")) {
            record.unknown.keep(into);
        }
    }
}

/// Record of the slots that have a VM, as ranges of slots with the batch of clones that their VMs are from: `0-4@1`.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Record {
    /// Number of the last batch of clones.
    #[schemars(range(min = 0))]
    pub incarnation: i64,
    /// Slots whose VM has been seen, and has not been proved to be gone since.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<String>,
    /// Slots whose VM is being cloned.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// Slots whose VM was given up for lost, while its replacement has not been seen.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// Managed object ID of the VmGroup's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub folder: Option<String>,
    /// Managed object IDs of former folders of the VmGroup. They are removed when they are empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_folders: Vec<String>,
    /// Slots whose VM is being destroyed, each with the VM's managed object ID: `5@1 vm-42`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub going: Vec<String>,
    /// Size that each VM counts with in the quota of the namespace while it is cloned: `2 CPUs, 1024 MiB, 40960 MiB of disks`. Set where the VCenter
    /// has a quota for the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub asked: Option<String>,
    /// MAC addresses of slots: ranges of slots that have theirs, as in `0-4`, and those addresses that are not as computed, because another
    /// VM had the computed one: slot, network adapter and distance to the computed address, as in `3/0+1`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub macs: Vec<String>,
    /// What a newer version has written and this one doesn't know.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: Unknown,
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
