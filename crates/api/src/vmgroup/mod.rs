//! The group of machines that a user declares.
// Each printed column has a name, a type and a path, which clippy takes for one attribute written again and again.
#![allow(clippy::duplicated_attributes)]

mod disks;
mod guest;
mod networks;
mod placement;
mod status;
mod update;

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

pub use disks::{Provisioning, RootDisk};
pub use guest::{CloudInit, Guest, GuestNetwork, SecretKey, Text};
pub use networks::{MacAddresses, NetworkAdapter};
pub use placement::{CloneMode, CloneOptions, Placement};
pub use status::{Phase, Record, VmGroupStatus};
pub use update::{Portion, Round, Strategy, Update};

/// The annotation by which somebody says to go on after an incident: its value is the incident that the status names. On a VCenter it
/// counts for all its groups.
pub const RELEASE_ANNOTATION: &str = "vm.codeconnect.vmworld.com/release";
/// On a group that is being deleted and can't go on by itself: whatever is left of it in vCenter stays there.
pub const ABANDON_ANNOTATION: &str = "vm.codeconnect.vmworld.com/abandon";

/// The label, with the value `true`, or the type of a Secret that says that VMs may be given its data by cloud-init.
pub const CLOUD_INIT_MARK: &str = "vm.codeconnect.vmworld.com/cloud-init";

/// Number, hardware, source and rules of the VMs.
#[derive(CustomResource, Clone, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "vm.codeconnect.vmworld.com",
    version = "v1alpha1",
    kind = "VmGroup",
    doc = "VmGroup is a number of VMs that Drover clones from one template and keeps as declared.",
    namespaced,
    shortname = "vg",
    category = "drover",
    status = "VmGroupStatus",
    derive = "PartialEq",
    validation = Rule::new(
        "!has(self.spec.vcenter) || (has(oldSelf.spec.vcenter) && oldSelf.spec.vcenter == self.spec.vcenter) || !has(oldSelf.status) || !has(oldSelf.status.vcenter) || oldSelf.status.vcenter == self.spec.vcenter || !has(oldSelf.status.currentReplicas) || oldSelf.status.currentReplicas == 0"
    ).message("spec.vcenter: the VmGroup has VMs in another VCenter: scale it to 0 before it is moved"),
    validation = Rule::new(
        "!has(self.spec.rootDisk) || !(has(self.spec.rootDisk.sizeGiB) || has(self.spec.rootDisk.provisioning)) || !has(self.spec.clone) || self.spec.clone.mode != 'Linked'"
    ).message("spec.rootDisk: a linked clone has the disk of the template's snapshot: leave rootDisk out, or set clone.mode to Full"),
    validation = Rule::new(
        "!has(self.spec.networks) || !has(self.spec.networkAdapters) || self.spec.networks.size() == 0 || self.spec.networkAdapters.size() == 0"
    ).message("spec.networkAdapters: give either networks or networkAdapters"),
    validation = Rule::new(
        "!has(self.spec.networkAdapters) || self.spec.networkAdapters.all(a, !has(a.addresses) || a.addresses.size() == 0 || a.addresses.size() >= self.spec.replicas)"
    ).message("spec.networkAdapters: an adapter has fewer addresses than there are replicas: add addresses, or lower replicas"),
    validation = Rule::new(
        "!has(self.spec.networkAdapters) || !self.spec.networkAdapters.exists(a, has(a.addresses) && a.addresses.size() > 0) || !self.spec.networkAdapters.exists(a, has(a.mac) && a.mac == 'Generated')"
    ).message("spec.networkAdapters: where an adapter has addresses, no adapter can have mac Generated: guests find their adapters by MAC address"),
    validation = Rule::new(
        "!has(self.spec.networkAdapters) || !self.spec.networkAdapters.exists(a, (has(a.addresses) && a.addresses.size() > 0) || (has(a.mac) && a.mac == 'PerSlot')) || !has(self.spec.update) || !has(self.spec.update.maxSurge) || self.spec.update.maxSurge == 0 || self.spec.update.maxSurge == '0%'"
    ).message("spec.update.maxSurge: has to be 0 where VMs have addresses of their own: two VMs can't have the same one"),
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.currentReplicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.currentReplicas"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "CPU", type_ = "integer", json_path = ".spec.cpu"),
    printcolumn(name = "Memory", type_ = "integer", json_path = ".spec.memory"),
    printcolumn(name = "Template", type_ = "string", json_path = ".spec.template"),
    printcolumn(name = "Last_Message", type_ = "string", json_path = ".status.lastMessage"),
    printcolumn(name = "VCenter", type_ = "string", json_path = ".status.vcenter", priority = 1),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        priority = 1
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp", priority = 1)
)]
pub struct VmGroupSpec {
    /// Number of CPUs of each VM.
    #[schemars(range(min = 1, max = 768))]
    pub cpu: i32,
    /// Memory of each VM, in GiB.
    #[schemars(range(min = 1, max = 24560))]
    pub memory: i32,
    /// Number of VMs: 0 to 10000. Drover clones the missing VMs and removes the surplus ones.
    #[schemars(range(min = 0, max = bounds::REPLICAS))]
    pub replicas: i32,
    /// Template that each VM is cloned from: its name, its inventory path (`/DC0/vm/templates/web`), or `moref:` and its managed
    /// object ID (`moref:vm-42`). A VM that is powered off does as well, unless it is a VM of a VmGroup.
    #[schemars(length(min = 1, max = 1024))]
    pub template: String,
    /// Name of the VCenter that the VMs are in. It can be changed only while the VmGroup has no VMs. Default: the VCenter that
    /// serves the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 253))]
    pub vcenter: Option<String>,
    /// Placement of the VMs in the vCenter. Default: spec.defaults of the VCenter.
    #[serde(default, skip_serializing_if = "Placement::is_default")]
    pub placement: Placement,
    /// Cloning of the VMs.
    #[serde(default)]
    pub clone: CloneOptions,
    /// Disk that each VM has from the template: the template's first disk. A change replaces the VMs. It can't be given with
    /// clone.mode `Linked`.
    #[serde(default, skip_serializing_if = "RootDisk::is_default")]
    pub root_disk: RootDisk,
    /// Names or inventory paths of the port groups that the VM's network adapters are connected to, in the order of the adapters.
    /// Default: the template's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::NETWORKS), inner(length(min = 1, max = 1024)))]
    pub networks: Vec<String>,
    /// Network adapters of each VM, in the order of the template's adapters, where more is to be said of them than their networks. An
    /// adapter with addresses, or with mac `PerSlot`, makes the VmGroup behave as a StatefulSet does: its VMs have the slots 0 to
    /// replicas - 1, the highest slot is removed first, scaleIn counts for nothing, and VMs are replaced in their slot, without surge.
    /// It can't be given together with networks. Default: the template's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::NETWORKS))]
    pub network_adapters: Vec<NetworkAdapter>,
    /// Configuration of the guest operating system.
    #[serde(default, skip_serializing_if = "Guest::is_default")]
    pub guest: Guest,
    /// Configuration parameters (extraConfig) of each VM: at most 64 keys of at most 255 characters, each with a value of at most
    /// 65536 characters. A key begins with `guestinfo.`, or is `disk.enableUUID`, `mem.hotadd`, `vcpu.hotadd` or `svga.autodetect`;
    /// spec.allow of the VCenter may allow more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("additionalProperties" = {"type": "string", "maxLength": 65536}, "maxProperties" = bounds::KEYS, "x-kubernetes-validations" = [
        {
            "rule": "self.all(k, k.size() <= 255)",
            "message": "a key has at most 255 characters",
        },
        {
            "rule": "self.all(k, !k.lowerAscii().startsWith('drover.') && !k.lowerAscii().startsWith('run.') && !k.lowerAscii().startsWith('set.') && !k.lowerAscii().endsWith('.filename'))",
            "message": "keys that begin with drover., RUN. or SET., or end with .fileName, can't be set: they are Drover's own, or reach outside of the VM",
        },
        {
            // What a group has had since before there was this rule, it keeps as it is.
            "rule": "self.all(k, (oldSelf.hasValue() && k in oldSelf.value() && oldSelf.value()[k] == self[k]) || !(k.lowerAscii() in ['workingdir', 'sched.swap.dir'] || k.lowerAscii().startsWith('pcipassthru') || k.lowerAscii().startsWith('remotedisplay.') || k.lowerAscii().endsWith('.redodir')))",
            "optionalOldSelf": true,
            "message": "workingDir, sched.swap.dir, and keys that begin with pciPassthru or RemoteDisplay., or end with .redoDir, can't be set: they reach outside of the VM",
        },
        {
            "rule": "self.all(k, !k.lowerAscii().startsWith('guestinfo.userdata') && !k.lowerAscii().startsWith('guestinfo.metadata'))",
            "message": "cloud-init's keys can't be set here: use spec.guest.cloudInit",
        },
    ]))]
    pub extra_config: BTreeMap<String, String>,
    /// Power state that Drover keeps the VMs in. `On` (default): powered on. `Off`: powered off. `Suspended`: suspended.
    #[serde(default)]
    pub power_state: PowerState,
    /// Condition for a VM to count as ready. `PoweredOn` (default): the VM is powered on. `ToolsRunning`: VMware Tools run in the
    /// guest. `IPAddress`: the guest has an IP address.
    #[serde(default)]
    pub readiness: Readiness,
    /// Rules for how changes of the spec reach existing VMs.
    #[serde(default)]
    pub update: Update,
    /// Order in which surplus VMs are removed when replicas is lowered. `Newest` (default): the newest VMs first. `Oldest`: the
    /// oldest VMs first. VMs that are marked by the annotation `vm.codeconnect.vmworld.com/scale-in-first` on their VMInfo are
    /// removed before all others, then VMs that are not ready.
    #[serde(default)]
    pub scale_in: ScaleIn,
    /// Shutdown of guests before a VM is powered off or removed.
    #[serde(default)]
    pub shutdown: Shutdown,
    /// Policy for the VMs when the VmGroup is deleted. `Delete` (default): the VMs and their disks are destroyed. `PowerOff`: the
    /// VMs are powered off and stay in vCenter. `Retain`: the VMs stay in vCenter as they are. A VmGroup whose vCenter never
    /// comes back is removed, with its VMs left as they are, by the annotation `vm.codeconnect.vmworld.com/abandon: "true"`.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Seconds after which a VM that vCenter no longer shows is replaced by a new one, where nothing proves that the VM was
    /// destroyed. 0: never; a person has to decide. Default: 300. A VM that was destroyed in vCenter is replaced at once.
    #[serde(default = "five_minutes")]
    #[schemars(range(min = 0, max = 2_592_000))]
    pub lost_after_seconds: i32,
    /// Pause. true: stop making changes to the VMs; the status is still updated. Default: false.
    #[serde(default)]
    pub paused: bool,
}

impl VmGroupSpec {
    /// What it calls the networks that adapters are connected to, in the order of the adapters.
    pub fn network_names(&self) -> impl Iterator<Item = &str> {
        let of_adapters = self.network_adapters.iter().map(|adapter| &adapter.network);
        self.networks.iter().chain(of_adapters).map(String::as_str)
    }
}

fn five_minutes() -> i32 {
    300
}

/// Power state that Drover keeps VMs in.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum PowerState {
    /// Powered on.
    #[default]
    On,
    /// Powered off.
    Off,
    /// Suspended.
    Suspended,
}

/// Condition for a VM to count as ready.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum Readiness {
    /// It is powered on.
    #[default]
    PoweredOn,
    /// Its guest tools run.
    ToolsRunning,
    /// Its guest has an IP address.
    IPAddress,
}

/// Order in which surplus VMs are removed.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum ScaleIn {
    /// The youngest.
    #[default]
    Newest,
    /// The oldest.
    Oldest,
}

/// Shutdown of guests.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Shutdown {
    /// Seconds that a guest has to shut down by itself before the VM is powered off. 0: the VM is powered off at once. Default:
    /// 30.
    #[schemars(range(min = 0, max = 3600))]
    pub grace_seconds: i32,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { grace_seconds: 30 }
    }
}

/// Policy for the VMs when the VmGroup is deleted.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum DeletionPolicy {
    /// They are destroyed, with their disks.
    #[default]
    Delete,
    /// They are powered off and stay.
    PowerOff,
    /// They stay as they are.
    Retain,
}
