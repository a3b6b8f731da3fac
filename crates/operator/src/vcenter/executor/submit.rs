//! Actions as calls: each returns at once, with the task that does the work.

use std::{collections::BTreeMap, sync::Arc};

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_api::vmgroup::GuestNetwork;
use drover_core::{
    Action, Subject,
    names::{self, Slot},
    tenancy::rules::Rules,
    vmgroup::{
        Desired, Hardware, MachineId, Power,
        adapters::{MacShifts, SlotAdapter},
        guest,
        identity::Made,
        inventory::Marker,
        record::Incarnation,
    },
};
use vim25::{
    Any, Error, ManagedObject, Method, Result, Secret,
    methods::{
        CloneVMTask, CreateFolder, DestroyTask, MoveIntoFolderTask, PowerOffVMTask, PowerOnVMTask, ReconfigVMTask,
        RenameTask, ShutdownGuest, SuspendVMTask,
    },
    props,
    refs::{FolderRef, HostSystemRef, TaskRef, VirtualMachineRef},
    types::{
        OptionValue, VirtualDeviceConfigSpec, VirtualEthernetCard, VirtualMachineCloneSpec, VirtualMachineConfigSpec,
        VirtualMachineRelocateSpec,
    },
};

use crate::{
    kube::leadership::Mandate,
    telemetry::traces,
    vcenter::{
        Token, VCenterHandle,
        customization::customization,
        marker,
        mirror::{GroupKey, Mirror},
        source::{Base, CloudInit, HostsNow, Source, is_barred},
    },
};

/// What a group's actions need to know beside themselves.
#[derive(Debug)]
pub(crate) struct OperationContext {
    pub live: Arc<VCenterHandle>,
    /// In whose name all of it is done.
    pub mandate: Mandate,
    pub desired: Desired,
    /// The id of this Kubernetes cluster.
    pub cluster: String,
    pub base: Base,
    pub folder: Option<FolderRef>,
    pub source: Option<Source>,
    /// What the group's namespace may use, if not everything.
    pub rules: Option<Arc<Rules>>,
    /// The hosts that clones can go to.
    pub hosts: HostsNow,
    /// What guests are told, as of the last plan that clones.
    pub cloud_init: CloudInit,
    pub extra_config: BTreeMap<String, String>,
    /// Which machine each slot is to have that is cloned into.
    pub incarnations: BTreeMap<Slot, Incarnation>,
    /// The MAC addresses of slots that are not as they are computed.
    pub macs: MacShifts,
    /// The reconcile that has planned all this, where somebody wants traces.
    pub ordered_by: Option<traces::Context>,
    /// The instance UUIDs of the machines whose markers are to be brought up to date.
    pub instances: BTreeMap<MachineId, String>,
}

impl OperationContext {
    /// Capacity of the disks of a clone, in MiB, if its template is found.
    pub(crate) fn storage_mib(&self) -> Option<u64> {
        self.source.as_ref().map(|source| source.make.storage_mib)
    }
}

/// What became of a submission.
#[derive(Debug)]
pub(crate) enum Submitted {
    /// A task does it.
    Task(TaskRef),
    /// It is done.
    Done,
    /// Nothing was asked for: vCenter is out of sight, another operator has the claim, or the template may not be cloned any more.
    Withheld,
    /// The folder was to be destroyed, and something is in it after all.
    Occupied,
}

/// Why nothing was begun.
enum Refused {
    Withheld,
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl OperationContext {
    /// The group's namespace and name.
    pub(crate) fn key(&self) -> GroupKey {
        (self.desired.namespace.clone(), self.desired.name.clone())
    }

    /// The same as people write it.
    pub(crate) fn vmgroup(&self) -> String {
        format!("{}/{}", self.desired.namespace, self.desired.name)
    }

    /// Whoever has the name that an action wants, and isn't the group's: in words for a person.
    pub(crate) fn taken_by(&self, action: &Action, mirror: &Mirror) -> Option<String> {
        let folder = self.folder.as_ref()?.reference();
        let name = match action {
            Action::Clone(slot) => &names::member(&self.desired.name, &self.desired.marker_uid, *slot),
            Action::Rename(_, name) => name,
            Action::MoveIntoFolder(id) => &mirror.machines.get(machine(id).reference())?.name,
            _ => return None,
        };
        let mut machines = mirror.machines.values();
        let other = machines.find(|machine| machine.name == *name && machine.parent.as_ref() == Some(folder))?;
        let is_ours = match action {
            Action::Clone(slot) => {
                let incarnation = self.incarnations.get(slot).copied().unwrap_or_default();
                other.instance == Some(names::instance(&self.desired.marker_uid, *slot, incarnation))
            }
            _ => other.is_of(&self.desired.marker_uid, &self.cluster),
        };
        // Of one that can't be read, nobody knows whose it is.
        let is_foreign = other.unreachable_since.is_none() && !is_ours;
        let found = "a machine that isn't this group's has this name in its folder: rename it, or move it away";
        is_foreign.then(|| format!("{name}: {found}"))
    }

    /// Has vCenter begin with an action. A clone weighs on a host, and goes to it where nothing in vCenter chooses one.
    pub(crate) async fn submit(&self, action: &Action, host: Option<&HostSystemRef>) -> Result<Submitted> {
        match self.ask(action, host).await {
            Err(Refused::Withheld) => Ok(Submitted::Withheld),
            Err(Refused::Failed(error)) => Err(error),
            Ok(submitted) => Ok(submitted),
        }
    }

    async fn ask(&self, action: &Action, host: Option<&HostSystemRef>) -> Result<Submitted, Refused> {
        let task = match action {
            Action::CreateFolder => return self.create_folder().await,
            Action::DestroyFolder => match &self.folder {
                Some(folder) => return self.destroy_folder(folder).await,
                None => return Ok(Submitted::Done),
            },
            Action::DestroyLeftFolder(id) => return self.destroy_folder(&FolderRef::new(&id.0)).await,
            Action::Clone(slot) => match (&self.folder, &self.source) {
                (Some(folder), Some(source)) => self.clone(*slot, folder, source, host).await,
                // The next plan has both, or says what is missing.
                _ => return Ok(Submitted::Done),
            },
            Action::PowerOn(id) => self.change(&PowerOnVMTask { this: machine(id), host: None }).await,
            Action::PowerOff(id) => self.change(&PowerOffVMTask { this: machine(id) }).await,
            Action::Suspend(id) => self.change(&SuspendVMTask { this: machine(id) }).await,
            Action::ShutdownGuest(id) => {
                self.change(&ShutdownGuest { this: machine(id) }).await?;
                return Ok(Submitted::Done);
            }
            Action::Reconfigure(id, hardware) => self.reconfigure(&machine(id), *hardware).await,
            Action::Rename(id, name) => {
                self.change(&RenameTask { this: machine(id).into(), new_name: name.clone() }).await
            }
            Action::MoveIntoFolder(id) => {
                let Some(folder) = &self.folder else { return Ok(Submitted::Done) };
                self.change(&MoveIntoFolderTask { this: folder.clone(), list: vec![machine(id).into()] }).await
            }
            Action::Mark(id, _) => {
                let Some(instance) = self.instances.get(id).cloned() else { return Ok(Submitted::Done) };
                let made = Made { instance, incarnation: Incarnation::default() };
                let spec = VirtualMachineConfigSpec { extra_config: marker::named(&made).into(), ..Default::default() };
                self.change(&ReconfigVMTask { this: machine(id), spec }).await
            }
            Action::Destroy(id) => self.change(&DestroyTask { this: machine(id).into() }).await,
        };
        task.map(Submitted::Task)
    }

    /// Calls a method that changes something: only if vCenter is in sight at this very moment, only in the session in which all of it was
    /// seen, and only for as long as this replica holds the vCenter's lease, also while a connection is made for it.
    async fn change<M: Method>(&self, request: &M) -> Result<M::Response, Refused> {
        let Some(call) = self.mandate.begin() else { return Err(Refused::Withheld) };
        let Some(Token(session)) = self.live.token() else { return Err(Refused::Withheld) };
        let outcome = call.make(self.live.client.call_within(&session, request)).await;
        Ok(outcome.ok_or(Refused::Withheld)??)
    }

    /// Destroying a folder destroys all that is inside, whoever's it is, so the last look is vCenter's own.
    async fn destroy_folder(&self, folder: &FolderRef) -> Result<Submitted, Refused> {
        let inside = self.live.client.property(folder, props::folder::CHILD_ENTITY).await?;
        // What may not be read is not empty for that.
        if inside.is_none_or(|inside| !inside.is_empty()) {
            return Ok(Submitted::Occupied);
        }
        self.change(&DestroyTask { this: folder.clone().into() }).await.map(Submitted::Task)
    }

    async fn create_folder(&self) -> Result<Submitted, Refused> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        self.change(&CreateFolder { this: self.base.folder.clone(), name }).await?;
        Ok(Submitted::Done)
    }

    async fn reconfigure(&self, this: &VirtualMachineRef, hardware: Hardware) -> Result<TaskRef, Refused> {
        let cores = props::virtual_machine::CONFIG_HARDWARE_NUM_CORES_PER_SOCKET;
        let cores = self.live.client.property(this, cores).await?.unwrap_or(0);
        let spec = config(hardware, u32::try_from(cores).unwrap_or(0));
        self.change(&ReconfigVMTask { this: this.clone(), spec }).await
    }

    async fn clone(
        &self,
        slot: Slot,
        folder: &FolderRef,
        source: &Source,
        host: Option<&HostSystemRef>,
    ) -> Result<TaskRef, Refused> {
        // It may have been powered on or moved while this waited for its turn.
        if is_barred(&self.live.mirror(), source, self.rules.as_deref()) {
            return Err(Refused::Withheld);
        }
        let name = names::member(&self.desired.name, &self.desired.marker_uid, slot);
        // What was ordered was written down first.
        let incarnation = self.incarnations.get(&slot).copied().unwrap_or_default();
        let instance = names::instance(&self.desired.marker_uid, slot, incarnation);
        let mut config = config(self.desired.hardware, source.make.cores_per_socket);
        config.instance_uuid = Some(instance.clone());
        let adapters = self.desired.adapters_of(slot, &self.macs);
        let hostname = self.desired.hostname_of(&name, slot);
        let is_customized = self.desired.guest_network == GuestNetwork::Customization;
        let told = if is_customized {
            self.told(slot, &name, &[], None)
        } else {
            self.told(slot, &name, &adapters, hostname.as_deref())
        };
        let marker = self.marker(slot, Made { instance, incarnation }, source.make.storage_mib);
        config.extra_config = self.keys(&told, &marker);
        config.device_change = source.root_disk.growth.iter().cloned().collect();
        // Where there are vApp properties, cloud-init takes those for its data and never looks at the keys.
        config.v_app_config_removed = told.is_there().then_some(true);
        let customization = is_customized.then(|| {
            let hostname = hostname.unwrap_or_else(|| guest::hostname_of(&name));
            customization(&hostname, &adapters, source.make.cards)
        });
        let location = VirtualMachineRelocateSpec {
            pool: Some(source.pool.clone()),
            datastore: source.datastore.clone(),
            host: host.filter(|_| source.hosts.are_named()).cloned(),
            disk: source.root_disk.locator.iter().cloned().collect(),
            disk_move_type: source.snapshot.as_ref().map(|_| "createNewChildDiskBacking".to_owned()),
            // Here, and not in the configuration: cards are made anew with the clone, and not edited after it.
            device_change: with_macs(&source.cards, &adapters),
            ..Default::default()
        };
        let spec = VirtualMachineCloneSpec {
            location,
            power_on: self.desired.power == Power::On,
            config: Some(config),
            snapshot: source.snapshot.clone(),
            customization,
            ..Default::default()
        };
        self.change(&CloneVMTask { this: source.template.clone(), folder: folder.clone(), name, spec }).await
    }

    fn marker(&self, slot: Slot, made: Made, storage_mib: u64) -> Marker {
        let desired = &self.desired;
        Marker {
            group: desired.marker_uid.clone(),
            owner: (desired.namespace.clone(), desired.name.clone()),
            slot,
            revision: desired.revision_of(slot),
            cluster: self.cluster.clone(),
            made: Some(made),
            storage_mib: Some(storage_mib),
        }
    }

    /// What the guest of the machine in a slot is told by cloud-init: what the user says, with the machine's own values, hostname and
    /// network.
    fn told(&self, slot: Slot, name: &str, adapters: &[SlotAdapter<'_>], hostname: Option<&str>) -> CloudInit {
        let fill = |text: &Secret| guest::fill(text.expose(), name, slot, &self.desired);
        let own = self.cloud_init.metadata.as_ref().map(fill);
        // What can't be put together was found before anything was ordered.
        let metadata = guest::metadata(own.as_deref(), hostname, guest::network(adapters)).unwrap_or(own);
        CloudInit {
            user_data: self.cloud_init.user_data.as_ref().map(fill).map(Secret::new),
            metadata: metadata.map(Secret::new),
        }
    }

    /// The further configuration of a machine. The marker comes last, and nothing stands beside it.
    fn keys(&self, told: &CloudInit, marker: &Marker) -> Vec<OptionValue> {
        let mut keys = keys_of_user(&self.extra_config);
        keys.extend(keys_of_guest(told));
        keys.extend(marker::write(marker));
        keys
    }
}

fn key(key: &str, value: &str) -> OptionValue {
    OptionValue { key: key.to_owned(), value: Some(Any::String(value.to_owned())) }
}

/// The keys that the user gives, but for those that are Drover's own. The API server lets none of them in; an older definition,
/// or a write past it, might.
fn keys_of_user(extra_config: &BTreeMap<String, String>) -> Vec<OptionValue> {
    let is_users = |name: &str| !name.to_ascii_lowercase().starts_with("drover.");
    extra_config.iter().filter(|(name, _)| is_users(name)).map(|(name, value)| key(name, value)).collect()
}

/// The keys that cloud-init reads.
fn keys_of_guest(cloud_init: &CloudInit) -> Vec<OptionValue> {
    let mut keys = Vec::new();
    for (part, text) in [("userdata", &cloud_init.user_data), ("metadata", &cloud_init.metadata)] {
        let Some(text) = text else { continue };
        keys.push(key(&format!("guestinfo.{part}"), &BASE64_STANDARD.encode(text.expose())));
        keys.push(key(&format!("guestinfo.{part}.encoding"), "base64"));
    }
    keys
}

/// The changes to a clone's cards, with the MAC addresses that belong to its slot.
fn with_macs(cards: &[VirtualDeviceConfigSpec], adapters: &[SlotAdapter<'_>]) -> Vec<VirtualDeviceConfigSpec> {
    let mut cards = cards.to_vec();
    for (change, adapter) in cards.iter_mut().zip(adapters) {
        if let (Some(mac), Some(card)) = (adapter.mac, change.device.downcast_mut::<VirtualEthernetCard>()) {
            card.mac_address = Some(mac.to_string());
            card.address_type = Some("manual".to_owned());
        }
    }
    cards
}

/// What gives a machine other hardware, or a clone other than its template has. `cores` is how many each socket has.
fn config(hardware: Hardware, cores: u32) -> VirtualMachineConfigSpec {
    VirtualMachineConfigSpec {
        num_cpus: i32::try_from(hardware.cpus).ok(),
        num_cores_per_socket: hardware.other_cores_per_socket(cores).and_then(|cores| i32::try_from(cores).ok()),
        memory_mb: i64::try_from(hardware.memory_mib).ok(),
        ..Default::default()
    }
}

/// The power state of the machine that an action is done to.
pub(super) fn power_of(action: &Action, mirror: &Mirror) -> Option<Power> {
    let Subject::Machine(id) = action.subject() else { return None };
    mirror.machines.get(machine(&id).reference()).map(|machine| machine.power)
}

fn machine(id: &MachineId) -> VirtualMachineRef {
    VirtualMachineRef::new(&id.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_keys_are_never_drovers_own_whatever_their_case() {
        let given = ["drover.group", "Drover.Slot", "DROVER.x", "company.drover.owner", "droverish"];
        let given = given.map(|key| (key.to_owned(), "v".to_owned())).into();
        let kept: Vec<_> = keys_of_user(&given).into_iter().map(|option| option.key).collect();
        assert_eq!(kept, ["company.drover.owner", "droverish"]);
    }

    #[test]
    fn cloud_inits_keys_are_there_for_what_guests_are_told() {
        let told = CloudInit { user_data: Some(Secret::new("vm")), metadata: None };
        let keys = keys_of_guest(&told);
        assert_eq!(keys, [key("guestinfo.userdata", "dm0="), key("guestinfo.userdata.encoding", "base64")]);
        assert!(keys_of_guest(&CloudInit::default()).is_empty());
    }

    #[test]
    fn cores_per_socket_are_sent_only_where_they_would_not_divide_the_cpus() {
        let cores = |cpus, cores| config(Hardware { cpus, memory_mib: 1024 }, cores).num_cores_per_socket;
        assert_eq!((cores(8, 4), cores(6, 4), cores(2, 1)), (None, Some(3), None));
    }
}
