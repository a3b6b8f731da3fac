//! What an operator's mirror shows of a vCenter.

use std::collections::BTreeSet;

use drover_core::vmgroup::{
    FolderId, MachineId, Power,
    inventory::{self, Inventory, Since},
};

use super::{
    machine::Machine,
    world::{Time, World, timestamp},
};

/// What an operator sees of a vCenter, and what it has seen tasks destroy.
pub(crate) struct Mirror<'a> {
    pub world: &'a World,
    /// Since when the operator has watched.
    pub since: Time,
    pub destroyed: &'a BTreeSet<MachineId>,
}

impl Mirror<'_> {
    fn machines(&self) -> impl Iterator<Item = inventory::Machine<'_>> {
        let seen = self.world.machines.iter().filter(|(_, machine)| !machine.is_hidden);
        seen.map(|seen| self.world.shown(seen, self.since))
    }
}

impl Inventory for Mirror<'_> {
    fn machine(&self, id: &MachineId) -> Option<inventory::Machine<'_>> {
        let seen = self.world.machines.get_key_value(id).filter(|(_, machine)| !machine.is_hidden);
        seen.map(|seen| self.world.shown(seen, self.since))
    }

    fn machines_marked(&self, group: &str) -> impl Iterator<Item = inventory::Machine<'_>> {
        self.machines().filter(move |machine| machine.marker.is_some_and(|marker| marker.group == group))
    }

    fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Machine<'_>> {
        self.machines().filter(move |machine| machine.folder == Some(&folder.0))
    }

    fn folder(&self, id: &FolderId) -> Option<inventory::Folder<'_>> {
        let (id, (name, _)) = self.world.folders.get_key_value(&id.0)?;
        Some(inventory::Folder { id, name })
    }

    fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Folder<'_>> {
        let inside = self.world.folders.iter().filter(move |(_, (_, parent))| *parent == folder.0);
        inside.map(|(id, (name, _))| inventory::Folder { id, name })
    }

    fn is_proved_gone(&self, id: &MachineId) -> bool {
        let is_told = self.world.destroyed.get(id).is_some_and(|at| *at >= self.since);
        self.machine(id).is_none() && (is_told || self.destroyed.contains(id))
    }

    fn path_of(&self, id: &MachineId) -> String {
        id.0.clone()
    }
}

impl World {
    /// A machine as it is shown to one who watches since a time. What could never be read since then is not known of it.
    fn shown<'a>(&self, (id, machine): (&'a MachineId, &'a Machine), since: Time) -> inventory::Machine<'a> {
        let is_read = machine.inaccessible.is_none_or(|time| time > since);
        let is_up = machine.power == Power::On && machine.ready_at <= self.now;
        let ready = is_up.then(|| timestamp(machine.ready_at));
        inventory::Machine {
            id: &id.0,
            name: &machine.name,
            folder: Some(&machine.folder),
            marker: machine.marker.as_ref().filter(|_| is_read),
            instance: Some(&*machine.instance).filter(|_| is_read),
            is_template: machine.is_template,
            unreachable_since: [machine.disconnected, machine.inaccessible].into_iter().flatten().min().map(timestamp),
            hardware: machine.hardware,
            storage_mib: None,
            hot_add: machine.hot_add,
            power: machine.power,
            tools_running: machine.tools && is_up,
            since: Since { on: ready, tools: ready, address: ready },
            created: timestamp(machine.created),
        }
    }
}
