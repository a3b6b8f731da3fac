//! What is true of a group: its machines, its folder, and what is under way for it.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::room::Room;
use crate::{Timestamp, names::Slot};

/// CPUs and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hardware {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
}

/// What one machine takes up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Its CPUs and memory.
    pub hardware: Hardware,
    /// Capacity of its disks, in MiB. Linked clones count as large as they may grow.
    pub storage_mib: u64,
}

impl Size {
    /// The most of each that either has.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        let storage_mib = self.storage_mib.max(other.storage_mib);
        Self { hardware: self.hardware.most(other.hardware), storage_mib }
    }
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

/// What is true of a group now. By default, nothing is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The group's folder.
    pub folder: Folder,
    /// The machines that are the group's beyond doubt, wherever they are.
    pub members: Vec<Member>,
    /// The slots that have a VM by the record, and no member that can be seen.
    pub held: BTreeMap<Slot, Held>,
    /// Members from before records were kept, whose markers have to be brought up to date. Their slots are held until then.
    pub unmarked: BTreeMap<Slot, MachineId>,
    /// What people call the VMs that carry the group's marker and aren't its members.
    pub lookalikes: Lookalikes,
    /// Whether everything that makes or destroys has to stop.
    pub is_stopped: bool,
    /// Folders of the group that its members were moved out of, and that are empty.
    pub left_folders: Vec<FolderId>,
    /// Whether a member may be on its way into one of those, or one of them is being removed.
    pub left_folders_are_busy: bool,
    /// The slots whose clone is on its way.
    pub cloning: BTreeSet<Slot>,
    /// Whether clones may be on their way that nobody remembers: tasks on the template from before a restart.
    pub unknown_clones: bool,
    /// The slots that those may be for, in a folder where their names keep no second one out. No other is made there meanwhile, and
    /// nothing is taken away for them.
    pub doubtful: BTreeSet<Slot>,
    /// The slots whose last clone failed, and when the next may be tried.
    pub failed: BTreeMap<Slot, Timestamp>,
    /// How much more the group may have. `None`: as much as it declares.
    pub room: Option<Room>,
    /// The slots that are cloned into without any of that room: what they get is counted already.
    pub reserved: BTreeSet<Slot>,
}

/// VMs that carry a group's marker, and aren't its members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookalikes {
    /// Copies that somebody made of members.
    pub copies: Vec<String>,
    /// Members that came back after they were given up.
    pub returned: Vec<String>,
}

/// A slot that has a VM which can't be seen, or not well enough to be sure of it. Not seen is not gone: no other is made in its place,
/// and none is destroyed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: HeldFor,
}

impl Held {
    /// What leaves vCenter's view is followed by word of the task that destroyed it, if one did. Until this has passed, nothing is
    /// concluded from a VM that isn't seen.
    pub const SETTLING: Duration = Duration::from_secs(3);
    /// Nothing is given up sooner than this, however short the spec says: others that go missing with it count by then.
    pub const SOONEST_LOST: Duration = Duration::from_secs(5);
    /// What isn't seen for this long is worth a word: before, it may be on its way from one host to another.
    pub const WORTH_A_WORD: Duration = Duration::from_mins(1);

    pub(crate) fn has_lasted(&self, time: Duration, now: Timestamp) -> bool {
        self.since.checked_add(time).is_ok_and(|end| end <= now)
    }
}

/// Why a slot is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeldFor {
    /// vCenter shows no VM that could be its.
    Missing,
    /// VMs stand for it that can't be read, or don't match what was written down of it. What they are called.
    Unproved(Vec<String>),
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
    /// It is there, and something is in it that Drover can't see.
    OccupiedUnseen,
}

/// The object that vCenter knows a folder by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderId(pub String);

/// The object that vCenter knows a machine by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineId(pub String);

impl MachineId {
    /// What it is compared by: `vm-99` comes before `vm-100`.
    fn rank(&self) -> (&str, u64, &str) {
        let digits = self.0.len() - self.0.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        let (kind, number) = self.0.split_at(self.0.len() - digits);
        (kind, number.parse().unwrap_or(u64::MAX), number)
    }
}

impl Ord for MachineId {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for MachineId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

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
    /// Capacity of its disks, in MiB, as far as that is known.
    pub storage_mib: u64,
    /// What can be added while it runs.
    pub hot_add: HotAdd,
    /// The hardware that vCenter has refused to give it.
    pub refused: Option<Refusal>,
    /// Its power state.
    pub power: Power,
    /// Since when vCenter has had no word from it, or can't read it. `None`: it is connected.
    pub unreachable_since: Option<Timestamp>,
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

/// Hardware that vCenter has refused to give a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// While it ran. It may take it when it is off.
    WhileRunning(Hardware),
    /// When it was off. It doesn't take it at all.
    Altogether(Hardware),
}

/// What a machine takes while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HotAdd {
    /// More CPUs.
    pub cpus: bool,
    /// More memory.
    pub memory: bool,
    /// The most memory that it can have without having been off, in MiB, if vCenter says.
    pub memory_limit_mib: Option<u64>,
    /// What all that is added has to be a multiple of, in MiB, if vCenter says.
    pub memory_step_mib: Option<u64>,
}

/// A Linux guest that was started with no more than this can't be brought beyond it while it runs.
const LOW_MEMORY_MIB: u64 = 3072;

impl HotAdd {
    /// Whether a running machine can be brought from one hardware to another.
    #[must_use]
    pub fn allows(self, from: Hardware, to: Hardware) -> bool {
        let cpus = to.cpus == from.cpus || self.cpus && to.cpus > from.cpus;
        cpus && (to.memory_mib == from.memory_mib || self.allows_memory(from.memory_mib, to.memory_mib))
    }

    fn allows_memory(self, from: u64, to: u64) -> bool {
        let Some(added) = to.checked_sub(from) else { return false };
        let leaves_low_memory = from <= LOW_MEMORY_MIB && to > LOW_MEMORY_MIB;
        let fits = |step: u64| step == 0 || added.is_multiple_of(step);
        self.memory
            && !leaves_low_memory
            && self.memory_limit_mib.is_none_or(|limit| to <= limit)
            && self.memory_step_mib.is_none_or(fits)
    }
}

impl Member {
    /// Whether it can be given other hardware as it runs, as far as anybody knows.
    #[must_use]
    pub fn takes_running(&self, hardware: Hardware) -> bool {
        self.hot_add.allows(self.hardware, hardware) && self.refused != Some(Refusal::WhileRunning(hardware))
    }
}

impl Hardware {
    /// The most of each that either has.
    #[must_use]
    pub fn most(self, other: Self) -> Self {
        Self { cpus: self.cpus.max(other.cpus), memory_mib: self.memory_mib.max(other.memory_mib) }
    }

    /// What it has more of than another.
    #[must_use]
    pub fn beyond(self, other: Self) -> Self {
        let cpus = self.cpus.saturating_sub(other.cpus);
        Self { cpus, memory_mib: self.memory_mib.saturating_sub(other.memory_mib) }
    }

    /// How many cores each socket is to have, where the number that it has doesn't divide the CPUs, as vCenter demands: the most
    /// that do and aren't more. `None` leaves it as it is.
    #[must_use]
    pub fn other_cores_per_socket(self, cores: u32) -> Option<u32> {
        let divides = |cores: &u32| self.cpus.is_multiple_of(*cores);
        // Where vCenter says 0, it chooses by itself.
        if cores == 0 || divides(&cores) { None } else { (1..cores).rev().find(divides) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hardware(cpus: u32, memory_mib: u64) -> Hardware {
        Hardware { cpus, memory_mib }
    }

    #[test]
    fn a_running_machine_takes_more_of_what_it_can_be_given_and_never_less() {
        let both = HotAdd { cpus: true, memory: true, ..HotAdd::default() };
        let from = hardware(2, 4096);
        assert!(both.allows(from, hardware(4, 8192)));
        assert!(HotAdd::default().allows(from, from));
        assert!(!HotAdd { cpus: false, ..both }.allows(from, hardware(4, 8192)));
        assert!(!HotAdd { memory: false, ..both }.allows(from, hardware(2, 8192)));
        assert!(!both.allows(from, hardware(1, 4096)) && !both.allows(from, hardware(2, 2048)));
    }

    #[test]
    fn memory_is_added_within_its_limit_and_in_its_steps() {
        let memory = HotAdd { memory: true, memory_limit_mib: Some(16384), ..HotAdd::default() };
        assert!(memory.allows(hardware(1, 4096), hardware(1, 16384)));
        assert!(!memory.allows(hardware(1, 4096), hardware(1, 16385)));
        let stepped = HotAdd { memory_step_mib: Some(1024), ..memory };
        assert!(stepped.allows(hardware(1, 4100), hardware(1, 5124)));
        assert!(!stepped.allows(hardware(1, 4096), hardware(1, 4608)));
        assert!(HotAdd { memory_step_mib: Some(0), ..memory }.allows(hardware(1, 4096), hardware(1, 4097)));
    }

    #[test]
    fn a_guest_with_3_gib_or_less_is_not_brought_beyond_it_while_it_runs() {
        let memory = HotAdd { memory: true, ..HotAdd::default() };
        assert!(memory.allows(hardware(1, 1024), hardware(1, 3072)));
        assert!(!memory.allows(hardware(1, 3072), hardware(1, 4096)));
        assert!(!memory.allows(hardware(1, 1024), hardware(1, 4096)));
        assert!(memory.allows(hardware(1, 3073), hardware(1, 4096)));
    }

    #[test]
    fn cores_per_socket_change_only_where_they_do_not_divide_the_cpus() {
        assert_eq!(hardware(8, 0).other_cores_per_socket(4), None);
        assert_eq!(hardware(6, 0).other_cores_per_socket(4), Some(3));
        assert_eq!(hardware(2, 0).other_cores_per_socket(4), Some(2));
        assert_eq!(hardware(7, 0).other_cores_per_socket(4), Some(1));
        assert_eq!(hardware(7, 0).other_cores_per_socket(0), None);
    }

    #[test]
    fn ids_compare_as_numbers_and_not_as_text() {
        let id = |text: &str| MachineId(text.to_owned());
        assert!(id("vm-99") < id("vm-100") && id("vm-100") < id("vm-1000"));
        assert!(id("vm-7") < id("vm-07") || id("vm-07") < id("vm-7"), "different ids are never equal");
        assert_eq!(id("vm-1").cmp(&id("vm-1")), Ordering::Equal);
        assert!(id("a") < id("vm-1") && id("") < id("vm-1"));
    }
}
