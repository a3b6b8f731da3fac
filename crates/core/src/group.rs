//! What is declared of a group and what is true of it: the two things that a plan is made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

pub use jiff::Timestamp;

use crate::names::Slot;

/// A group as its user wants it, already found to make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The group's UID in Kubernetes.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many machines.
    pub replicas: u32,
    /// What can be changed on a machine that is there.
    pub hardware: Hardware,
    /// Everything that only a new machine can have, as one value.
    pub revision: Revision,
    /// What power state the machines are kept in.
    pub power: Power,
    /// How changes are rolled out.
    pub update: UpdatePolicy,
    /// Which machines go first when there are too many.
    pub scale_in: ScaleIn,
    /// How long a guest has to shut down by itself before it is powered off. Zero: it is powered off at once.
    pub shutdown_grace: Duration,
    /// What becomes of the machines, if the group is being deleted.
    pub deletion: Option<DeletionPolicy>,
    /// Whether to look on only.
    pub paused: bool,
}

/// CPUs and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hardware {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
}

/// A digest of what a machine was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A machine's power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Power {
    /// Powered on.
    On,
    /// Powered off.
    Off,
    /// Suspended.
    Suspended,
}

/// How changes reach machines that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// Which way.
    pub strategy: Strategy,
    /// How many machines may be unavailable for an update's sake.
    pub max_unavailable: u32,
    /// How many machines there may be beyond those declared, for an update's sake.
    pub max_surge: u32,
    /// How long a machine has to be ready before it counts as available.
    pub min_ready: Duration,
    /// How long a group may take without getting any further.
    pub progress_deadline: Duration,
}

/// Which way changes reach machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// CPUs and memory on the machine itself; anything else by a new machine.
    InPlaceFirst,
    /// Everything by a new machine.
    Replace,
    /// Not at all, until the user deletes the machine.
    OnDelete,
}

/// Which machines go first, after those that the user has marked and those that aren't ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleIn {
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

/// What becomes of a deleted group's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// They are destroyed.
    Delete,
    /// They are powered off and stay.
    PowerOff,
    /// They stay as they are.
    Retain,
}

/// What is true of a group now. By default, nothing is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The group's folder.
    pub folder: Folder,
    /// The machines that carry the group's marker, wherever they are.
    pub members: Vec<Member>,
    /// The slots whose clone is on its way.
    pub cloning: BTreeSet<Slot>,
    /// Whether clones may be on their way that nobody remembers: tasks on the template from before a restart.
    pub unknown_clones: bool,
    /// The slots whose last clone failed, and when the next may be tried.
    pub failed: BTreeMap<Slot, Timestamp>,
}

/// A group's folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Folder {
    /// There is none.
    #[default]
    Absent,
    /// It is being made or destroyed.
    Busy,
    /// It is there, with nothing in it.
    Empty,
    /// It is there, and something is in it.
    Occupied,
}

/// The object that vCenter knows a machine by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MachineId(pub String);

/// A machine that is the group's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state in disguise")]
pub struct Member {
    /// Which machine.
    pub id: MachineId,
    /// Its place in the group.
    pub slot: Slot,
    /// What it was made from.
    pub revision: Revision,
    /// When it was made.
    pub created: Timestamp,
    /// Its name in vCenter.
    pub name: String,
    /// Whether it is in the group's folder.
    pub in_folder: bool,
    /// What it has.
    pub hardware: Hardware,
    /// What can be added while it runs.
    pub hot_add: HotAdd,
    /// Its power state.
    pub power: Power,
    /// Since when it has been as ready as the group asks for.
    pub ready_since: Option<Timestamp>,
    /// Whether its guest can be asked to shut down.
    pub guest_answers: bool,
    /// When its guest was asked to shut down, if it was.
    pub shutdown_since: Option<Timestamp>,
    /// Whether a task runs on it.
    pub busy: bool,
    /// Whether the user has marked it to go first.
    pub marked: bool,
    /// Until when it is left alone, because something failed on it.
    pub not_before: Option<Timestamp>,
}

/// What a machine takes while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotAdd {
    /// More CPUs.
    pub cpus: bool,
    /// More memory.
    pub memory: bool,
}

impl HotAdd {
    /// Whether a running machine can be brought from one hardware to another.
    #[must_use]
    pub fn allows(self, from: Hardware, to: Hardware) -> bool {
        let cpus = to.cpus == from.cpus || self.cpus && to.cpus > from.cpus;
        let memory = to.memory_mib == from.memory_mib || self.memory && to.memory_mib > from.memory_mib;
        cpus && memory
    }
}
