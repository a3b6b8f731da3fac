//! The mirror as what groups are looked for in.

use drover_core::vmgroup::{
    FolderId, MachineId,
    inventory::{self, Inventory},
};
use vim25::ManagedObjectReference;

use super::{machine::Machine, mirror::Mirror};

/// A machine as vCenter names it.
pub(crate) fn machine_reference(id: &MachineId) -> ManagedObjectReference {
    ManagedObjectReference::new("VirtualMachine", &id.0)
}

/// A folder as vCenter names it.
pub(crate) fn folder_reference(id: &FolderId) -> ManagedObjectReference {
    ManagedObjectReference::new("Folder", &id.0)
}

/// A machine's id in plans.
pub(crate) fn machine_id(reference: &ManagedObjectReference) -> MachineId {
    MachineId(reference.value().to_owned())
}

/// A folder's id in plans.
pub(crate) fn folder_id(reference: &ManagedObjectReference) -> FolderId {
    FolderId(reference.value().to_owned())
}

impl Inventory for Mirror {
    fn machine(&self, id: &MachineId) -> Option<inventory::Machine<'_>> {
        let (reference, machine) = self.machines.get_key_value(&machine_reference(id))?;
        Some(machine.shown_as(reference))
    }

    fn machines_marked(&self, group: &str) -> impl Iterator<Item = inventory::Machine<'_>> {
        self.machines.marked(group).map(|(reference, machine)| machine.shown_as(reference))
    }

    fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Machine<'_>> {
        let inside = self.machines.inside(&folder_reference(folder));
        inside.map(|(reference, machine)| machine.shown_as(reference))
    }

    fn folder(&self, id: &FolderId) -> Option<inventory::Folder<'_>> {
        let (reference, folder) = self.folders.get_key_value(&folder_reference(id))?;
        Some(inventory::Folder { id: reference.value(), name: &folder.name })
    }

    fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Folder<'_>> {
        let inside = self.folders.inside(&folder_reference(folder));
        inside.map(|(reference, folder)| inventory::Folder { id: reference.value(), name: &folder.name })
    }

    fn is_proved_gone(&self, id: &MachineId) -> bool {
        Mirror::is_proved_gone(self, &machine_reference(id))
    }

    fn path_of(&self, id: &MachineId) -> String {
        let machine = self.machines.get(&machine_reference(id));
        machine.map_or_else(|| id.0.clone(), |machine| self.machine_path(machine))
    }
}

impl Machine {
    fn shown_as<'a>(&'a self, reference: &'a ManagedObjectReference) -> inventory::Machine<'a> {
        inventory::Machine {
            id: reference.value(),
            name: &self.name,
            folder: self.parent.as_ref().map(ManagedObjectReference::value),
            marker: self.marker.as_deref(),
            instance: self.instance.as_deref(),
            is_template: self.is_template,
            unreachable_since: self.unreachable_since,
            hardware: self.hardware,
            storage_mib: self.storage_mib(),
            hot_add: self.hot_add,
            power: self.power,
            tools_running: self.tools_running,
            since: self.since,
            created: self.created,
        }
    }
}
