//! What vCenter shows, as far as groups are looked for in it.

use crate::{
    Timestamp,
    names::Slot,
    vmgroup::{
        FolderId, Hardware, HotAdd, MachineId, Power, Revision,
        identity::{Claim, Made},
    },
};

/// What a machine's marker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// The UID of the group.
    pub group: String,
    /// Where the group is: its namespace and name.
    pub owner: (String, String),
    /// The machine's place in it.
    pub slot: Slot,
    /// What the machine was made from.
    pub revision: Revision,
    /// The Kubernetes cluster that the group is in.
    pub cluster: String,
    /// The machine that it was written for. Markers of earlier versions don't say.
    pub made: Option<Made>,
    /// Capacity of the machine's disks, in MiB, when it was made. Markers of earlier versions don't say.
    pub storage_mib: Option<u64>,
}

impl Marker {
    /// What it claims of its machine's place in its group.
    #[must_use]
    pub fn claim(&self) -> Claim {
        Claim { slot: self.slot, made: self.made.clone() }
    }
}

/// A machine as vCenter last told of it.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The folder that it is in. None in a vApp.
    pub folder: Option<&'a str>,
    /// As it was last read: what can't be read now has not changed for that.
    pub marker: Option<&'a Marker>,
    /// Its instance UUID, as it was last read.
    pub instance: Option<&'a str>,
    /// Whether it is a template.
    pub is_template: bool,
    /// Since when it has not been both connected and legible.
    pub unreachable_since: Option<Timestamp>,
    /// Its CPUs and memory.
    pub hardware: Hardware,
    /// Capacity of its disks, in MiB, where that is known.
    pub storage_mib: Option<u64>,
    /// What it takes while it runs.
    pub hot_add: HotAdd,
    /// Its power state.
    pub power: Power,
    /// Whether its guest answers.
    pub tools_running: bool,
    /// Since when it has been in the states that it may be waited for.
    pub since: Since,
    /// When it was made, or first seen where vCenter doesn't know.
    pub created: Timestamp,
}

/// Since when a machine has been powered on, its tools have run and it has had an address: as seen from here, or, where it was so at
/// first sight, since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Powered on.
    pub on: Option<Timestamp>,
    /// VMware Tools run.
    pub tools: Option<Timestamp>,
    /// It has an address.
    pub address: Option<Timestamp>,
}

impl Since {
    /// What holds and didn't before holds since the time that is given.
    pub fn note(&mut self, power: Power, tools: bool, address: bool, from: Timestamp) {
        let begin = |since: Option<Timestamp>, holds: bool| if holds { since.or(Some(from)) } else { None };
        let on = power == Power::On;
        self.on = begin(self.on, on);
        self.tools = begin(self.tools, on && tools);
        self.address = begin(self.address, on && address);
    }
}

/// A folder as vCenter last told of it.
#[derive(Clone, Copy, Debug)]
pub struct Folder<'a> {
    /// Its id.
    pub id: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// What vCenter shows. Whoever asks pays for what is found, not for the whole inventory.
pub trait Inventory {
    /// One machine, if it is shown.
    fn machine(&self, id: &MachineId) -> Option<Machine<'_>>;

    /// The machines that carry a marker of the group with this UID, wherever they are.
    fn machines_marked(&self, group: &str) -> impl Iterator<Item = Machine<'_>>;

    /// The machines in a folder.
    fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = Machine<'_>>;

    /// One folder, if it is shown.
    fn folder(&self, id: &FolderId) -> Option<Folder<'_>>;

    /// The folders in a folder.
    fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = Folder<'_>>;

    /// Whether a machine is proved to be gone. That it isn't seen proves nothing.
    fn is_proved_gone(&self, id: &MachineId) -> bool;

    /// What people call a machine.
    fn path_of(&self, id: &MachineId) -> String;

    /// Whether a folder has something in it, by what machines and folders say of their parents: vCenter tells of those at once,
    /// and of a folder's own list not always.
    fn is_occupied(&self, folder: &FolderId) -> bool {
        self.machines_in(folder).next().is_some() || self.folders_in(folder).next().is_some()
    }
}
