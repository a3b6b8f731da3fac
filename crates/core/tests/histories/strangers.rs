//! VMs that look like the group's, and aren't: copies, templates and restored backups of members, and strangers.

use drover_core::{
    names::{self, Slot},
    vmgroup::{HotAdd, MachineId, Power, inventory::Marker},
};

use super::{
    edits::hardware,
    history::History,
    model::{
        machine::{Kind, Machine},
        operator::CLUSTER,
        world::{BASE, ELSEWHERE},
    },
};

impl History<'_> {
    /// Somebody copies a member, marker and all.
    pub(crate) fn copy(&mut self) {
        let Some(id) = self.somebodys_choice() else { return };
        let Some(machine) = self.world.machines.get(&id) else { return };
        let name = format!("copy-{}-{}", id.0, self.world.now);
        let copy = Machine {
            instance: name.clone(),
            name,
            kind: Kind::Foreign,
            is_hidden: false,
            disconnected: None,
            inaccessible: None,
            off_at: None,
            ..machine.clone()
        };
        let (copy, what) = match self.chance.below(4) {
            0 => (Machine { is_template: true, power: Power::Off, ..copy }, "member copied to a template"),
            1 if !self.has_twin(&machine.instance) => {
                let instance = machine.instance.clone();
                (Machine { instance, kind: Kind::Twin, ..copy }, "member restored beside itself")
            }
            2 => {
                let Some(place) = self.free_place() else { return };
                (Machine { name: place.0, folder: place.1, ..copy }, "copy of a member in a member's place")
            }
            _ => (copy, "member copied"),
        };
        self.world.add(copy);
        self.count(what);
    }

    /// Somebody makes a VM that has nothing to do with the group, or with a group of the same name elsewhere.
    pub(crate) fn make_stranger(&mut self) {
        let name = format!("stranger-{}", self.world.now);
        let marker = |group: &str, cluster: &str| Marker {
            group: group.to_owned(),
            owner: (self.desired.namespace.clone(), self.desired.name.clone()),
            slot: Slot(0),
            revision: self.desired.revision,
            cluster: cluster.to_owned(),
            made: None,
            storage_mib: None,
        };
        let (marker, place, what) = match self.chance.below(4) {
            0 => (Some(marker("another", CLUSTER)), self.group_folder(), "VM of another group in the folder"),
            1 => {
                let elsewhere = Some(ELSEWHERE.to_owned());
                (Some(marker(&self.desired.marker_uid, "another")), elsewhere, "VM of another cluster's group")
            }
            2 => (None, self.group_folder(), "stranger in the folder"),
            _ => (None, None, "stranger in a member's place"),
        };
        let place = place.map(|folder| (name.clone(), folder)).or_else(|| self.free_place());
        let Some((own, folder)) = place else { return };
        let hardware = hardware(&mut self.chance);
        let stranger = Machine {
            marker,
            instance: name,
            created: self.world.now,
            name: own,
            folder,
            hardware,
            hot_add: HotAdd::default(),
            refuses_hot_add: false,
            power: Power::On,
            ready_at: self.world.now,
            tools: false,
            off_at: None,
            being_made: false,
            kind: Kind::Foreign,
            is_template: false,
            is_hidden: false,
            disconnected: None,
            inaccessible: None,
            away: None,
        };
        self.world.add(stranger);
        self.count(what);
    }

    /// Who has restored a backup takes it away again where its original can't be seen: nobody could tell which of them is the member.
    pub(crate) fn tend_twins(&mut self) {
        let is_seen = |instance: &str| {
            let mut others = self.world.machines.values().filter(|machine| machine.kind == Kind::Own);
            others.any(|machine| machine.instance == instance && !machine.is_hidden && machine.inaccessible.is_none())
        };
        let is_alone = |machine: &Machine| machine.kind == Kind::Twin && !is_seen(&machine.instance);
        let alone: Vec<MachineId> =
            self.world.machines.iter().filter(|(_, one)| is_alone(one)).map(|(id, _)| id.clone()).collect();
        for id in alone {
            self.world.machines.remove(&id);
        }
    }

    /// A person moves machines away that stand where members are to be: those that were given up, copies and strangers. Restored
    /// backups go for good.
    pub(crate) fn clear_up(&mut self) {
        let names: Vec<_> = (0..12).map(|slot| self.name_of(Slot(slot))).collect();
        self.world.machines.retain(|_, machine| machine.kind != Kind::Twin);
        // One that has taken its place again is a member.
        let record = self.stored.record();
        let is_member = |machine: &Machine| {
            let marker = machine.marker.as_ref();
            let made = marker.and_then(|marker| Some((marker.slot, marker.made.as_ref()?.incarnation)));
            let entry = made.and_then(|(slot, _)| record.as_ref()?.get(slot));
            entry.is_some_and(|entry| made.is_some_and(|(_, incarnation)| incarnation == entry.incarnation))
        };
        self.given_up.retain(|id| !self.world.machines.get(id).is_some_and(is_member));
        let given_up = self.given_up.clone();
        let is_in_the_way = |id: &MachineId, machine: &Machine| {
            given_up.contains(id) || machine.kind == Kind::Foreign && names.contains(&machine.name)
        };
        for (id, machine) in self.world.machines.iter_mut().filter(|(id, machine)| is_in_the_way(id, machine)) {
            ELSEWHERE.clone_into(&mut machine.folder);
            machine.name = format!("moved-{}", id.0);
        }
    }

    pub(crate) fn group_folder(&self) -> Option<String> {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let found = self.world.folders.iter().find(|(_, (own, parent))| *own == name && parent == BASE);
        // What is being destroyed lets nothing in.
        let goes = |id: &str| self.world.destroys_folder(id);
        found.map(|(id, _)| id.clone()).filter(|id| !goes(id))
    }

    /// Whether a backup of the VM with this instance UUID stands beside it.
    pub(crate) fn has_twin(&self, instance: &str) -> bool {
        self.world.machines.values().filter(|machine| machine.instance == instance).count() > 1
    }

    fn name_of(&self, slot: Slot) -> String {
        names::member(&self.desired.name, &self.desired.marker_uid, slot)
    }

    /// A member's name that is free in the group's folder, if the first that comes to mind is.
    fn free_place(&mut self) -> Option<(String, String)> {
        let slot = Slot(u32::try_from(self.chance.below(6)).unwrap());
        let (name, folder) = (self.name_of(slot), self.group_folder()?);
        (!self.world.is_reserved(&folder, &name)).then_some((name, folder))
    }
}
