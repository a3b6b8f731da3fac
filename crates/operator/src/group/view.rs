//! A group looked for in the mirror: its folder, and the machines that are or may be its members.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

use drover_api::vmgroup::Readiness;
use drover_core::{
    group::{Desired, MachineId, Member},
    identity::Sighting,
    names::{self, Slot},
    record::Record,
};
use vim25::{ManagedObjectReference, refs::FolderRef};

use crate::vcenter::{
    marker::Marker,
    mirror::{Machine, Mirror},
};

/// Where to look for a group, and how.
pub(crate) struct View<'a> {
    pub desired: &'a Desired,
    pub readiness: Readiness,
    pub mirror: &'a Mirror,
    /// The folder that the group's own folder is in.
    pub base: &'a FolderRef,
    /// The id of this Kubernetes cluster.
    pub cluster: &'a str,
    /// Whether clones run that may be this operator's own, from before it was started.
    pub has_unknown_clones: bool,
    /// The names of the members that the user has marked to go first.
    pub marked: BTreeSet<String>,
}

impl View<'_> {
    pub(crate) fn group_folder(&self) -> Option<ManagedObjectReference> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let base: ManagedObjectReference = self.base.clone().into();
        let mut folders = self.mirror.folders.iter();
        folders
            .find(|(_, folder)| folder.name == name && folder.parent.as_ref() == Some(&base))
            .map(|(reference, _)| reference.clone())
    }

    /// Whose folder it is, if it is that of a group in another Kubernetes cluster. Nobody fights over it.
    pub(crate) fn conflict(&self) -> Option<String> {
        let folder = self.group_folder()?;
        let inside = self.mirror.machines.values().filter(|machine| machine.parent.as_ref() == Some(&folder));
        let mut foreign = None;
        for marker in inside.filter_map(|machine| machine.marker.as_ref()) {
            if marker.cluster == self.cluster {
                return None;
            }
            foreign = Some(marker);
        }
        let Marker { owner: (namespace, name), cluster, .. } = foreign?;
        let folder = names::folder(&self.desired.namespace, &self.desired.name);
        Some(format!(
            "the folder {folder} is that of the group {namespace}/{name} of another Kubernetes cluster ({cluster}): set \
             spec.placement.folder to one that this cluster has for itself"
        ))
    }

    /// The machines that carry the group's marker, and those that have the name of a member in its folder.
    pub(crate) fn sightings(&self, folder: Option<&ManagedObjectReference>, record: &Record) -> Vec<Sighting> {
        let name_of = |slot: Slot| names::member(&self.desired.name, &self.desired.uid, slot);
        // Only a machine without the group's marker in the group's folder has them looked up, and that is rare.
        let own_names = LazyCell::new(|| -> BTreeMap<String, Slot> {
            record.entries().map(|(slot, _)| (name_of(slot), slot)).collect()
        });
        let sighting = |(reference, machine): (&ManagedObjectReference, &Machine)| {
            let is_ours = |marker: &&Marker| marker.group == self.desired.uid && marker.cluster == self.cluster;
            let marker = machine.marker.as_ref().filter(is_ours);
            let in_folder = folder.is_some() && machine.parent.as_ref() == folder;
            let in_place = match marker {
                _ if !in_folder => None,
                Some(marker) if name_of(marker.slot) == machine.name => Some(marker.slot),
                _ => own_names.get(&machine.name).copied(),
            };
            (marker.is_some() || in_place.is_some()).then(|| Sighting {
                id: MachineId(reference.value().to_owned()),
                instance: machine.instance.clone(),
                claim: marker.map(Marker::claim),
                in_place,
                is_template: machine.is_template,
                is_legible: machine.unreachable_since.is_none(),
            })
        };
        let mut all: Vec<_> = self.mirror.machines.iter().filter_map(sighting).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// A member as the mirror shows it.
    pub(crate) fn member(&self, id: &MachineId, slot: Slot, folder: Option<&ManagedObjectReference>) -> Option<Member> {
        let machine = self.mirror.machines.get(&reference(id))?;
        let marker = machine.marker.as_ref()?;
        Some(Member {
            id: id.clone(),
            slot,
            revision: marker.revision,
            created: machine.created,
            name: machine.name.clone(),
            in_folder: machine.parent.is_some() && machine.parent.as_ref() == folder,
            hardware: machine.hardware,
            hot_add: machine.hot_add,
            refused: None,
            power: machine.power,
            unreachable_since: machine.unreachable_since,
            ready_since: match self.readiness {
                Readiness::PoweredOn => machine.since.on,
                Readiness::ToolsRunning => machine.since.tools,
                Readiness::IPAddress => machine.since.address,
            },
            guest_answers: machine.tools_running,
            shutdown_since: None,
            busy: false,
            marked: self.marked.contains(&names::member(&self.desired.name, &self.desired.uid, slot)),
            not_before: None,
        })
    }

    /// What people call a machine.
    pub(crate) fn called(&self, id: &MachineId) -> String {
        let machine = self.mirror.machines.get(&reference(id));
        machine.map_or_else(|| id.0.clone(), |machine| self.mirror.machine_path(machine))
    }
}

/// The machine as vCenter names it.
pub(crate) fn reference(id: &MachineId) -> ManagedObjectReference {
    ManagedObjectReference::new("VirtualMachine", &id.0)
}
