//! A group looked for in the inventory: its folder, and the machines that are or may be its members.

use std::{
    cell::LazyCell,
    collections::{BTreeMap, BTreeSet},
};

use drover_api::vmgroup::Readiness;

use crate::{
    names::{self, Slot},
    vmgroup::{
        Desired, FolderId, MachineId, Member, Room,
        identity::Sighting,
        inventory::{Inventory, Machine, Marker},
        record::Record,
    },
};

/// Where to look for a group, and how.
#[derive(Debug)]
pub struct View<'a, I> {
    /// The group.
    pub desired: &'a Desired,
    /// What makes its machines ready.
    pub readiness: Readiness,
    /// What vCenter shows.
    pub inventory: &'a I,
    /// The folder that the group's own folder is in.
    pub base: &'a FolderId,
    /// The id of this Kubernetes cluster.
    pub cluster: &'a str,
    /// Whether clones run that may be this operator's own, from before it was started.
    pub has_unknown_clones: bool,
    /// The names of the members that the user has marked to go first.
    pub marked: BTreeSet<String>,
    /// How much more the group may have, if not all that it declares.
    pub room: Option<Room>,
}

impl<I: Inventory> View<'_, I> {
    /// The group's own folder.
    #[must_use]
    pub fn group_folder(&self) -> Option<FolderId> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let found = self.inventory.folders_in(self.base).find(|folder| folder.name == name);
        found.map(|folder| FolderId(folder.id.to_owned()))
    }

    /// Whose folder it is, if it is that of a group in another Kubernetes cluster. Nobody fights over it.
    #[must_use]
    pub fn conflict(&self) -> Option<String> {
        let folder = self.group_folder()?;
        let mut foreign = None;
        for marker in self.inventory.machines_in(&folder).filter_map(|machine| machine.marker) {
            if marker.cluster == self.cluster {
                return None;
            }
            foreign = Some(marker);
        }
        let Marker { owner: (namespace, name), cluster, .. } = foreign?;
        let folder = names::folder(&self.desired.namespace, &self.desired.name);
        Some(format!(
            "the folder {folder} is that of the group {namespace}/{name} of another Kubernetes cluster ({cluster}): set \
             spec.placement.folder to one that this cluster has for itself; if this cluster takes the place of that one, run the \
             operator with --cluster-id={cluster}"
        ))
    }

    /// Whether a marker is the group's. One that it has taken over names the same namespace and name.
    fn is_ours(&self, marker: &Marker) -> bool {
        let Desired { uid, marker_uid, namespace, name, .. } = self.desired;
        let is_of_name = || marker.owner.0 == *namespace && marker.owner.1 == *name;
        marker.group == *marker_uid && marker.cluster == self.cluster && (uid == marker_uid || is_of_name())
    }

    fn name_of(&self, slot: Slot) -> String {
        names::member(&self.desired.name, &self.desired.marker_uid, slot)
    }

    /// The machines that carry the group's marker, and those that have the name of a member in its folder.
    pub(crate) fn sightings(&self, folder: Option<&FolderId>, record: &Record) -> Vec<Sighting> {
        // Only a machine without the group's marker in the group's folder has them looked up, and that is rare.
        let own_names = LazyCell::new(|| -> BTreeMap<String, Slot> {
            record.entries().map(|(slot, _)| (self.name_of(slot), slot)).collect()
        });
        let sighting = |machine: Machine<'_>| {
            let marker = machine.marker.filter(|marker| self.is_ours(marker));
            let in_place = match marker {
                _ if !is_in(&machine, folder) => None,
                Some(marker) if self.name_of(marker.slot) == machine.name => Some(marker.slot),
                _ => own_names.get(machine.name).copied(),
            };
            (marker.is_some() || in_place.is_some()).then(|| Sighting {
                id: MachineId(machine.id.to_owned()),
                instance: machine.instance.map(ToOwned::to_owned),
                claim: marker.map(Marker::claim),
                in_place,
                is_template: machine.is_template,
                is_legible: machine.unreachable_since.is_none(),
            })
        };
        let inside = folder.into_iter().flat_map(|folder| self.inventory.machines_in(folder));
        let outside = self.inventory.machines_marked(&self.desired.marker_uid);
        let outside = outside.filter(|machine| !is_in(machine, folder));
        let mut all: Vec<_> = inside.chain(outside).filter_map(sighting).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// A member as the inventory shows it.
    pub(crate) fn member(&self, id: &MachineId, slot: Slot, folder: Option<&FolderId>) -> Option<Member> {
        let machine = self.inventory.machine(id)?;
        let marker = machine.marker?;
        Some(Member {
            id: id.clone(),
            slot,
            revision: marker.revision,
            created: machine.created,
            name: machine.name.to_owned(),
            in_folder: is_in(&machine, folder),
            hardware: machine.hardware,
            storage_mib: machine.storage_mib.unwrap_or(0),
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
            marked: !self.marked.is_empty() && self.marked.contains(&self.name_of(slot)),
            not_before: None,
        })
    }
}

fn is_in(machine: &Machine<'_>, folder: Option<&FolderId>) -> bool {
    folder.is_some_and(|folder| machine.folder == Some(&folder.0))
}
