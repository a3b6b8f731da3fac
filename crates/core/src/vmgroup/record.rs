//! What is written down of a group before anything is done for it: which slots have a VM, and which one.
//!
//! vCenter copies a VM's marker into every clone and backup of it, and shows what it shows: so neither a marker that is seen nor a VM
//! that isn't proves anything by itself. The record does: a slot in it has a VM until that VM is proved to be gone, and the VM is
//! the one whose instance UUID follows from the group's UID, the slot and the incarnation.
//!
//! All clones that are asked for together have one incarnation, so ranges of slots are enough, whatever the size of a group.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    ops::RangeInclusive,
};

use drover_api::{Unknown, vmgroup::Record as Written};

pub use crate::names::Incarnation;
use crate::{
    names::Slot,
    vmgroup::{
        Desired, FolderId, Hardware, MachineId, Size,
        adapters::{Mac, MacShifts, SlotMacs},
    },
};

/// A slot that has a VM, or is about to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which VM.
    pub incarnation: Incarnation,
    /// How far it is.
    pub stage: Stage,
}

/// How far the VM of a slot is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its clone is about to be asked for, or has been. Whether there is a VM is not known until one is seen; asking again is safe,
    /// because vCenter lets only one of its name in.
    Pending,
    /// It has been seen.
    Made,
    /// Its destruction is about to be asked for, or has been. A task that destroyed this object proves that it is gone.
    Going(MachineId),
}

/// Which slots have a VM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    slots: BTreeMap<Slot, Entry>,
    /// The VMs that were given up for lost, while those that take their places have not been seen.
    lost: BTreeMap<Slot, Incarnation>,
    /// The group's folder, and those that were before.
    folder: Option<FolderId>,
    left_folders: BTreeSet<FolderId>,
    last: Incarnation,
    /// The most that any VM gets which is being cloned, where a quota counts it.
    asked: Option<Size>,
    /// The MAC addresses of slots. They stay as long as the group.
    macs: SlotMacs,
}

/// What is wrong with a record that was read. Nothing can be told from it, so nothing is done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "status.record: {0:?} says nothing that Drover writes, such as 0-4@1 for a range of slots with its incarnation"
)]
pub struct BadRecord(String);

impl Record {
    /// The slot's entry, if it has a VM or is about to.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&Entry> {
        self.slots.get(&slot)
    }

    /// All slots that have a VM or are about to.
    pub fn entries(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        self.slots.iter().map(|(slot, entry)| (*slot, entry))
    }

    /// How many slots have a VM: those whose clone may never have been begun left out.
    #[must_use]
    pub fn made(&self) -> usize {
        self.slots.values().filter(|entry| entry.stage != Stage::Pending).count()
    }

    /// Whether VMs are to be cloned, or were, that have not been seen.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.slots.values().any(|entry| entry.stage == Stage::Pending)
    }

    /// How many VMs were given up for lost, while those that take their places have not been seen.
    #[must_use]
    pub fn lost_slots(&self) -> usize {
        self.lost.len()
    }

    /// Notes that VMs are about to be cloned into slots. A slot that had one before gets another incarnation: the one before has
    /// been given up for lost, and would be told from this one if it came back.
    pub fn reserve(&mut self, slots: impl IntoIterator<Item = Slot>) {
        let next = Incarnation(self.last.0.saturating_add(1));
        for slot in slots {
            let before = self.slots.get(&slot).cloned();
            if before.as_ref().is_some_and(|entry| entry.stage == Stage::Pending) {
                continue;
            }
            self.lost.extend(before.map(|entry| (slot, entry.incarnation)));
            self.last = next;
            self.slots.insert(slot, Entry { incarnation: next, stage: Stage::Pending });
        }
    }

    /// The VM that a slot had before it was given up for lost, while the one that takes its place has not been seen.
    #[must_use]
    pub fn lost(&self, slot: Slot) -> Option<Incarnation> {
        self.lost.get(&slot).copied()
    }

    /// Notes that a VM which was given up for lost is there after all, and no other has taken its place.
    pub fn recover(&mut self, slot: Slot) {
        if let Some(incarnation) = self.lost.remove(&slot) {
            self.slots.insert(slot, Entry { incarnation, stage: Stage::Made });
        }
    }

    /// Notes that a slot's VM is there.
    pub fn see(&mut self, slot: Slot) {
        if let Some(entry) = self.slots.get_mut(&slot) {
            entry.stage = Stage::Made;
            self.lost.remove(&slot);
        }
    }

    /// Notes that a slot's VM is about to be destroyed.
    pub fn condemn(&mut self, slot: Slot, machine: MachineId) {
        if let Some(entry) = self.slots.get_mut(&slot) {
            entry.stage = Stage::Going(machine);
        }
    }

    /// Notes that a slot's VM is proved to be gone.
    pub fn remove(&mut self, slot: Slot) {
        self.slots.remove(&slot);
        self.lost.remove(&slot);
    }

    /// Notes which folder is the group's now. One that was before is left.
    pub fn use_folder(&mut self, folder: &FolderId) {
        self.left_folders.remove(folder);
        let before = self.folder.replace(folder.clone());
        self.left_folders.extend(before.filter(|before| before != folder));
    }

    /// Takes those slots out whose clone was never seen to make a VM, and isn't wanted any more.
    pub fn retain_pending(&mut self, mut is_wanted: impl FnMut(Slot) -> bool) {
        self.slots.retain(|slot, entry| entry.stage != Stage::Pending || is_wanted(*slot));
        self.lost.retain(|slot, _| self.slots.contains_key(slot));
    }

    /// The group's folder.
    #[must_use]
    pub fn folder(&self) -> Option<&FolderId> {
        self.folder.as_ref()
    }

    /// The folders that VMs were moved out of.
    #[must_use]
    pub fn left_folders(&self) -> &BTreeSet<FolderId> {
        &self.left_folders
    }

    /// Keeps those of them that are there.
    pub fn retain_folders(&mut self, is_there: impl FnMut(&FolderId) -> bool) {
        self.left_folders.retain(is_there);
    }

    /// The most that any VM gets which is being cloned, where a quota counts it.
    #[must_use]
    pub fn asked(&self) -> Option<Size> {
        self.asked
    }

    /// Notes the most that any VM gets which is being cloned.
    pub fn ask(&mut self, asked: Option<Size>) {
        self.asked = asked;
    }

    /// The MAC addresses of slots that are not as they are computed.
    #[must_use]
    pub fn macs(&self) -> &MacShifts {
        self.macs.shifts()
    }

    /// Says which MAC addresses the slots get that VMs are about to be cloned into, where others have those that are computed.
    pub fn say_macs(
        &mut self,
        desired: &Desired,
        slots: impl IntoIterator<Item = Slot>,
        is_taken: impl Fn(Mac) -> bool,
    ) {
        self.macs.say(&desired.adapters, &desired.marker_uid, slots, is_taken);
    }

    /// Whether another record has the same of these slots, the same folder, and asks for no more.
    #[must_use]
    pub fn agrees(&self, other: &Self, slots: &[Slot]) -> bool {
        let is_same = |slot: &Slot| {
            let has_same_vm = self.get(*slot) == other.get(*slot) && self.lost(*slot) == other.lost(*slot);
            has_same_vm && self.macs.of_slot(*slot) == other.macs.of_slot(*slot)
        };
        let is_asked = other.asked.is_none_or(|asked| self.asked.is_some_and(|most| most.most(asked) == most));
        is_asked && self.folder == other.folder && slots.iter().all(is_same)
    }

    /// Takes up a VM that was made before, as the one of its slot.
    pub fn adopt(&mut self, slot: Slot, incarnation: Incarnation) {
        self.last = self.last.max(incarnation);
        self.slots.entry(slot).or_insert(Entry { incarnation, stage: Stage::Made });
    }

    /// The record as it stands in a status.
    #[must_use]
    pub fn write(&self) -> Written {
        let of_stage = |stage: &Stage| {
            let slots = self.slots.iter().filter(|(_, entry)| entry.stage == *stage);
            ranges(slots.map(|(slot, entry)| (*slot, entry.incarnation)))
        };
        let going = |(slot, entry): (&Slot, &Entry)| match &entry.stage {
            Stage::Going(machine) => Some(format!("{slot}@{} {}", entry.incarnation, machine.0)),
            _ => None,
        };
        Written {
            incarnation: self.last.0.into(),
            made: of_stage(&Stage::Made),
            pending: of_stage(&Stage::Pending),
            lost: ranges(self.lost.iter().map(|(slot, incarnation)| (*slot, *incarnation))),
            folder: self.folder.as_ref().map(|folder| folder.0.clone()),
            left_folders: self.left_folders.iter().map(|folder| folder.0.clone()).collect(),
            going: self.slots.iter().filter_map(going).collect(),
            asked: self.asked.map(in_words),
            macs: self.write_macs(),
            unknown: Unknown::default(),
        }
    }

    /// Reads a record.
    pub fn read(written: &Written) -> Result<Self, BadRecord> {
        let last = Incarnation(bounded(written.incarnation));
        let left_folders = written.left_folders.iter().cloned().map(FolderId).collect();
        let folder = written.folder.clone().map(FolderId);
        let asked = written.asked.as_deref().and_then(size);
        let macs = read_macs(&written.macs)?;
        let mut record = Self { folder, left_folders, last, asked, macs, ..Self::default() };
        for (texts, stage) in [(&written.made, Stage::Made), (&written.pending, Stage::Pending)] {
            for text in texts {
                record.insert_range(text, &stage)?;
            }
        }
        for text in &written.lost {
            let (slots, incarnation) = range(text)?;
            if record.lost.len() >= LARGEST {
                return Err(BadRecord(text.clone()));
            }
            record.lost.extend(slots.map(|slot| (Slot(slot), incarnation)));
        }
        for text in &written.going {
            let (range, machine) = text.split_once(' ').ok_or_else(|| BadRecord(text.clone()))?;
            record.insert_range(range, &Stage::Going(MachineId(machine.to_owned())))?;
        }
        Ok(record)
    }

    /// The slots whose MAC addresses have been said, and those of them that are not as computed.
    fn write_macs(&self) -> Vec<String> {
        let said = ranges(self.macs.said().map(|slot| (slot, Incarnation::default())));
        let said = said.into_iter().map(|range| range.trim_end_matches("@0").to_owned());
        let shifts = self.macs.shifts().iter().map(|((slot, adapter), shift)| format!("{slot}/{adapter}+{shift}"));
        said.chain(shifts).collect()
    }

    fn insert_range(&mut self, text: &str, stage: &Stage) -> Result<(), BadRecord> {
        let (slots, incarnation) = range(text)?;
        if self.slots.len() >= LARGEST {
            return Err(BadRecord(text.to_owned()));
        }
        let entry = Entry { incarnation, stage: stage.clone() };
        self.slots.extend(slots.map(|slot| (Slot(slot), entry.clone())));
        self.last = self.last.max(incarnation);
        Ok(())
    }
}

/// Slots with their incarnations, those together that are next to each other and alike.
fn ranges(slots: impl Iterator<Item = (Slot, Incarnation)>) -> Vec<String> {
    let mut ranges = Vec::new();
    let mut slots = slots.peekable();
    while let Some((first, incarnation)) = slots.next() {
        let mut last = first;
        let follows = |last: Slot, next: &(Slot, Incarnation)| *next == (Slot(last.0.wrapping_add(1)), incarnation);
        while let Some((next, _)) = slots.next_if(|next| follows(last, next)) {
            last = next;
        }
        let mut range = first.to_string();
        if last != first {
            let _ = write!(range, "-{last}");
        }
        let _ = write!(range, "@{incarnation}");
        ranges.push(range);
    }
    ranges
}

fn in_words(Size { hardware: Hardware { cpus, memory_mib }, storage_mib }: Size) -> String {
    let storage = if storage_mib == 0 { String::new() } else { format!(", {storage_mib} MiB of disks") };
    format!("{cpus} CPUs, {memory_mib} MiB{storage}")
}

/// Reads `2 CPUs, 1024 MiB, 40960 MiB of disks`, the disks if there are any. Of anything else, nothing is known.
fn size(text: &str) -> Option<Size> {
    let (cpus, rest) = text.split_once(" CPUs, ")?;
    let (memory, storage) = rest.split_once(", ").map_or((rest, None), |(memory, storage)| (memory, Some(storage)));
    let memory_mib = memory.strip_suffix(" MiB")?.parse().ok()?;
    let storage = storage.map(|storage| storage.strip_suffix(" MiB of disks")?.parse().ok());
    Some(Size { hardware: Hardware { cpus: cpus.parse().ok()?, memory_mib }, storage_mib: storage.unwrap_or(Some(0))? })
}

/// Reads `0-4`, the slots whose MAC addresses have been said, and `3/0+1`, those that are not as computed.
fn read_macs(written: &[String]) -> Result<SlotMacs, BadRecord> {
    let (shifts, said): (Vec<_>, Vec<_>) = written.iter().partition(|text| text.contains('/'));
    let shifts = shifts.into_iter().map(|text| mac_shift(text)).collect::<Result<_, _>>()?;
    let mut slots = BTreeSet::new();
    for text in said {
        let (range, _) = range(&format!("{text}@0")).map_err(|_| BadRecord(text.clone()))?;
        if slots.len() >= LARGEST {
            return Err(BadRecord(text.clone()));
        }
        slots.extend(range.map(Slot));
    }
    Ok(SlotMacs::of(shifts, slots))
}

/// Reads `3/0+1`.
fn mac_shift(text: &str) -> Result<((Slot, usize), u32), BadRecord> {
    let parts = || {
        let (place, shift) = text.split_once('+')?;
        let (slot, adapter) = place.split_once('/')?;
        Some(((Slot(slot.parse().ok()?), adapter.parse().ok()?), shift.parse().ok()?))
    };
    parts().ok_or_else(|| BadRecord(text.to_owned()))
}

/// Reads `0-4@1`.
fn range(text: &str) -> Result<(RangeInclusive<u32>, Incarnation), BadRecord> {
    let bad = || BadRecord(text.to_owned());
    let (slots, incarnation) = text.split_once('@').ok_or_else(bad)?;
    let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
    let number = |text: &str| text.parse::<u32>().map_err(|_| bad());
    let (first, last, incarnation) = (number(first)?, number(last)?, Incarnation(number(incarnation)?));
    if last < first || (last - first) as usize >= LARGEST {
        return Err(bad());
    }
    Ok((first..=last, incarnation))
}

/// A record has no more slots than this, so that whatever stands in a status can't fill the memory.
pub(crate) const LARGEST: usize = 25_000;

fn bounded(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vmgroup::desired::tests::desired;

    fn slots(range: std::ops::Range<u32>) -> impl Iterator<Item = Slot> {
        range.map(Slot)
    }

    #[test]
    fn ten_thousand_vms_that_were_made_together_are_one_range() {
        let mut record = Record::default();
        record.reserve(slots(0..10_000));
        assert_eq!(record.write().pending, ["0-9999@1"]);
        slots(0..10_000).for_each(|slot| record.see(slot));
        assert_eq!((record.write().made, record.made()), (vec!["0-9999@1".to_owned()], 10_000));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut record = Record::default();
        record.reserve(slots(0..5));
        slots(0..5).for_each(|slot| record.see(slot));
        record.condemn(Slot(1), MachineId("vm-7".to_owned()));
        record.remove(Slot(3));
        record.reserve([Slot(3), Slot(7)]);
        record.use_folder(&FolderId("group-v1".to_owned()));
        record.use_folder(&FolderId("group-v2".to_owned()));
        let own_macs = desired(&json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}]}));
        let taken = Mac::of("", Slot(3), 0, 0);
        record.say_macs(&own_macs, [Slot(2), Slot(3)], |mac| mac == taken);
        assert_eq!(record.write().macs, ["2-3", "3/0+1"]);
        let hardware = Hardware { cpus: 2, memory_mib: 1024 };
        record.ask(Some(Size { hardware, storage_mib: 0 }));
        assert_eq!(record.write().asked.as_deref(), Some("2 CPUs, 1024 MiB"));
        assert_eq!(Record::read(&record.write()).as_ref(), Ok(&record));
        record.ask(Some(Size { hardware, storage_mib: 40960 }));
        let written = record.write();
        assert_eq!(written.asked.as_deref(), Some("2 CPUs, 1024 MiB, 40960 MiB of disks"));
        assert_eq!(
            (&written.made, &written.pending),
            (&vec!["0@1".to_owned(), "2@1".to_owned(), "4@1".to_owned()], &vec!["3@2".to_owned(), "7@2".to_owned()])
        );
        assert_eq!((written.incarnation, &written.going[..]), (2, &["1@1 vm-7".to_owned()][..]));
        assert_eq!(Record::read(&written), Ok(record));
    }

    #[test]
    fn asking_again_for_a_clone_asks_for_the_same_vm_and_a_lost_one_is_followed_by_another() {
        let mut record = Record::default();
        record.reserve([Slot(0)]);
        let first = record.clone();
        record.reserve([Slot(0)]);
        assert_eq!(record, first);
        record.see(Slot(0));
        record.reserve([Slot(0)]);
        assert_eq!(record.get(Slot(0)).map(|entry| entry.incarnation), Some(Incarnation(2)));
        assert_eq!(Record::read(&record.write()).unwrap().lost(Slot(0)), Some(Incarnation(1)));
        let mut found = record.clone();
        found.recover(Slot(0));
        assert_eq!((found.write().made, found.write().lost), (vec!["0@1".to_owned()], vec![]));
        record.see(Slot(0));
        assert_eq!(record.lost(Slot(0)), None, "its place is taken");
    }

    #[test]
    fn an_incarnation_is_never_used_again_though_no_vm_has_it_any_more() {
        let mut record = Record::default();
        record.reserve([Slot(0)]);
        record.remove(Slot(0));
        let mut record = Record::read(&record.write()).unwrap();
        record.reserve([Slot(0)]);
        assert_eq!(record.get(Slot(0)).map(|entry| entry.incarnation), Some(Incarnation(2)));
    }

    #[test]
    fn a_record_that_makes_no_sense_is_refused() {
        for text in ["", "1", "@1", "a@1", "3-1@1", "1@b", "0-4294967295@1", "1@-1"] {
            let written = Written { made: vec![text.to_owned()], ..Written::default() };
            assert_eq!(Record::read(&written), Err(BadRecord(text.to_owned())), "{text}");
        }
        let many = (0..3).map(|part: u32| format!("{}-{}@1", part * 99_999, part * 99_999 + 99_998)).collect();
        assert!(
            Record::read(&Written { made: many, ..Written::default() }).is_err(),
            "a tenant may write what it likes"
        );
        for text in ["3/0", "x", "3-1"] {
            let macs = Written { macs: vec![text.to_owned()], ..Written::default() };
            assert!(Record::read(&macs).is_err(), "{text}");
        }
        let going = Written { going: vec!["1@1".to_owned()], ..Written::default() };
        assert!(Record::read(&going).is_err());
    }
}
