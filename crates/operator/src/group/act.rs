//! Actions as calls: each returns at once, with the task that does the work.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_core::{
    Action,
    group::{Desired, Hardware, MachineId, Power},
    names::{self, Slot},
};
use vim25::{
    Any, Client, Error, ManagedObject, ManagedObjectReference, Result,
    methods::{
        CloneVMTask, CreateFolder, DestroyTask, MoveIntoFolderTask, PowerOffVMTask, PowerOnVMTask, ReconfigVMTask,
        RenameTask, ShutdownGuest, SuspendVMTask,
    },
    props,
    refs::{FolderRef, HostSystemRef, TaskRef, VirtualMachineRef},
    types::{OptionValue, VirtualMachineCloneSpec, VirtualMachineConfigSpec, VirtualMachineRelocateSpec},
};

use super::source::{Base, Source};
use crate::vcenter::{
    marker::Marker,
    mirror::{GroupKey, Mirror},
};

/// What a group's actions need to know beside themselves.
#[derive(Debug)]
pub(crate) struct Scene {
    pub client: Client,
    pub desired: Desired,
    /// The id of this Kubernetes cluster.
    pub cluster: String,
    pub base: Base,
    pub folder: Option<FolderRef>,
    pub source: Option<Source>,
    pub extra_config: BTreeMap<String, String>,
}

/// What became of a submission.
#[derive(Debug)]
pub(crate) enum Submitted {
    /// A task does it.
    Task(TaskRef),
    /// It is done.
    Done,
    /// The folder was to be destroyed, and something is in it after all.
    Occupied(FolderRef, usize),
}

impl Scene {
    /// The group's namespace and name.
    pub(crate) fn key(&self) -> GroupKey {
        (self.desired.namespace.clone(), self.desired.name.clone())
    }

    /// The hosts that a clone can go to.
    pub(crate) fn hosts(&self) -> &[HostSystemRef] {
        self.source.as_ref().map_or(&[], |source| &source.hosts)
    }

    /// Whoever has the name that an action wants, and isn't the group's: in words for a person.
    pub(crate) fn taken_by(&self, action: &Action, mirror: &Mirror) -> Option<String> {
        let folder = self.folder.as_ref()?.reference();
        let name = match action {
            Action::Clone(slot) => &names::member(&self.desired.name, &self.desired.uid, *slot),
            Action::Rename(_, name) => name,
            _ => return None,
        };
        let mut machines = mirror.machines.values();
        let other = machines.find(|machine| machine.name == *name && machine.parent.as_ref() == Some(folder))?;
        let is_ours = other.marker.as_ref().is_some_and(|marker| marker.group == self.desired.uid);
        let found = "a machine that isn't this group's has this name in its folder: rename it, or move it away";
        (!is_ours).then(|| format!("{name}: {found}"))
    }

    /// Has vCenter begin with an action. A clone weighs on a host, and goes to it where nothing in vCenter chooses one.
    pub(crate) async fn submit(&self, action: &Action, host: Option<&HostSystemRef>) -> Result<Submitted> {
        let task = match action {
            Action::CreateFolder => return self.create_folder().await,
            Action::DestroyFolder => {
                let Some(folder) = &self.folder else { return Ok(Submitted::Done) };
                // Destroying it destroys all that is inside, whoever's it is, so the last look is vCenter's own.
                let inside = self.client.property(folder, props::folder::CHILD_ENTITY).await?.unwrap_or_default();
                if !inside.is_empty() {
                    return Ok(Submitted::Occupied(folder.clone(), inside.len()));
                }
                self.client.call(&DestroyTask { this: folder.clone().into() }).await
            }
            Action::Clone(slot) => match (&self.folder, &self.source) {
                (Some(folder), Some(source)) => self.clone(*slot, folder, source, host).await,
                // The next plan has both, or says what is missing.
                _ => return Ok(Submitted::Done),
            },
            Action::PowerOn(id) => self.client.call(&PowerOnVMTask { this: machine(id), host: None }).await,
            Action::PowerOff(id) => self.client.call(&PowerOffVMTask { this: machine(id) }).await,
            Action::Suspend(id) => self.client.call(&SuspendVMTask { this: machine(id) }).await,
            Action::ShutdownGuest(id) => {
                self.client.call(&ShutdownGuest { this: machine(id) }).await?;
                return Ok(Submitted::Done);
            }
            Action::Reconfigure(id, hardware) => {
                self.client.call(&ReconfigVMTask { this: machine(id), spec: config(*hardware) }).await
            }
            Action::Rename(id, name) => {
                self.client.call(&RenameTask { this: machine(id).into(), new_name: name.clone() }).await
            }
            Action::MoveIntoFolder(id) => {
                let Some(folder) = &self.folder else { return Ok(Submitted::Done) };
                self.client.call(&MoveIntoFolderTask { this: folder.clone(), list: vec![machine(id).into()] }).await
            }
            Action::Destroy(id) => self.client.call(&DestroyTask { this: machine(id).into() }).await,
        };
        task.map(Submitted::Task)
    }

    async fn create_folder(&self) -> Result<Submitted> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        match self.client.call(&CreateFolder { this: self.base.folder.clone(), name }).await {
            Err(error) if !error.fault().is_some_and(|fault| fault.is_named("DuplicateName")) => Err(error),
            // The mirror shows it in a moment, whoever made it.
            _ => Ok(Submitted::Done),
        }
    }

    async fn clone(
        &self,
        slot: Slot,
        folder: &FolderRef,
        source: &Source,
        host: Option<&HostSystemRef>,
    ) -> Result<TaskRef> {
        let name = names::member(&self.desired.name, &self.desired.uid, slot);
        let mut config = config(self.desired.hardware);
        config.extra_config = self.keys(slot, &name, source);
        config.device_change.clone_from(&source.cards);
        let location = VirtualMachineRelocateSpec {
            pool: Some(source.pool.clone()),
            datastore: source.datastore.clone(),
            host: host.filter(|_| source.names_hosts).cloned(),
            disk_move_type: source.snapshot.as_ref().map(|_| "createNewChildDiskBacking".to_owned()),
            ..Default::default()
        };
        let spec = VirtualMachineCloneSpec {
            location,
            power_on: self.desired.power == Power::On,
            config: Some(config),
            snapshot: source.snapshot.clone(),
            ..Default::default()
        };
        self.client.call(&CloneVMTask { this: source.template.clone(), folder: folder.clone(), name, spec }).await
    }

    fn keys(&self, slot: Slot, name: &str, source: &Source) -> Vec<OptionValue> {
        let desired = &self.desired;
        let marker = Marker {
            group: desired.uid.clone(),
            owner: (desired.namespace.clone(), desired.name.clone()),
            slot,
            revision: desired.revision,
            cluster: self.cluster.clone(),
        };
        let key =
            |key: &str, value: &str| OptionValue { key: key.to_owned(), value: Some(Any::String(value.to_owned())) };
        let mut keys = marker.write();
        keys.extend(self.extra_config.iter().map(|(name, value)| key(name, value)));
        for (part, text) in [("userdata", &source.user_data), ("metadata", &source.metadata)] {
            let Some(text) = text else { continue };
            let filled = text
                .replace("{{name}}", name)
                .replace("{{slot}}", &slot.to_string())
                .replace("{{group}}", &desired.name)
                .replace("{{namespace}}", &desired.namespace);
            keys.push(key(&format!("guestinfo.{part}"), &BASE64_STANDARD.encode(filled)));
            keys.push(key(&format!("guestinfo.{part}.encoding"), "base64"));
        }
        keys
    }
}

fn config(hardware: Hardware) -> VirtualMachineConfigSpec {
    VirtualMachineConfigSpec {
        num_cpus: i32::try_from(hardware.cpus).ok(),
        memory_mb: i64::try_from(hardware.memory_mib).ok(),
        ..Default::default()
    }
}

fn machine(id: &MachineId) -> VirtualMachineRef {
    VirtualMachineRef::new(&id.0)
}

/// The folder as a typed reference.
pub(super) fn folder(reference: Option<ManagedObjectReference>) -> Option<FolderRef> {
    reference.and_then(|reference| FolderRef::try_from(reference).map_err(Error::from).ok())
}
