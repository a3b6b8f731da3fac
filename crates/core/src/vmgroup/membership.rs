//! Which VMs are a group's members: its record, kept against what vCenter shows.
//!
//! A VM that is seen and is the one that the record has is a member. One that isn't seen keeps its slot until it is proved to be gone,
//! or has been given up for lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    Timestamp,
    names::{self, Slot},
    vcenter::brake::Missing,
    vmgroup::{
        Held, HeldFor, MachineId,
        identity::{Identified, Sighting, first_record, identify},
        record::{Entry, Incarnation, Record, Stage},
    },
};

/// The record of a group, with what was last seen of it.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    /// What is so by now. `None` until the group has been looked at, or its record read.
    record: Option<Record>,
    /// The member that was last seen in each slot, and which incarnation it is.
    members: BTreeMap<Slot, (Incarnation, MachineId)>,
    /// Since when slots have been held, and whether for want of any VM.
    held: BTreeMap<Slot, (Timestamp, bool)>,
    /// The VMs that were missing at the last look: since when, and from when on each counts.
    missing: BTreeMap<Slot, (Timestamp, Timestamp)>,
    /// The slots whose clone has ended well, and whose VM has not been seen yet.
    awaited: BTreeSet<Slot>,
    /// The slots whose VM was missing at the first look.
    at_first: BTreeSet<Slot>,
    has_looked: bool,
}

/// What came of a look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// What each VM is to the group.
    pub found: Identified,
    /// The slots that have a VM by the record, and no member that can be seen.
    pub held: BTreeMap<Slot, Held>,
}

impl Membership {
    /// The record, once the group has been looked at.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The same, to be changed.
    pub fn record_mut(&mut self) -> Option<&mut Record> {
        self.record.as_mut()
    }

    /// Puts the record that was read in the place of the one that there is.
    pub fn set_record(&mut self, record: Record) {
        self.record = Some(record);
    }

    /// The record to look with: where there is none, one from what is seen, and from how many VMs the group was last said to have.
    pub fn begin(&mut self, sightings: impl FnOnce(&Record) -> Vec<Sighting>, said_before: u32) -> &Record {
        self.record.get_or_insert_with(|| first_record(&sightings(&Record::default()), said_before))
    }

    /// Looks: says which VMs are members, takes those off the record that are proved to be gone, and holds the slots of the
    /// others. `cloning` are the slots whose clone is on its way; `called` is what people call a VM.
    pub fn look(
        &mut self,
        uid: &str,
        sightings: &[Sighting],
        cloning: &BTreeSet<Slot>,
        is_proved_gone: impl Fn(&MachineId) -> bool,
        called: impl Fn(&MachineId) -> String,
        now: Timestamp,
    ) -> Matched {
        let record = self.record.get_or_insert_default();
        for slot in recovered(uid, record, sightings, cloning) {
            record.recover(slot);
        }
        let known = self.members.iter().map(|(slot, (_, id))| (*slot, id.clone())).collect();
        let found = identify(uid, record, &known, sightings);
        for (slot, id) in &found.members {
            let Some(entry) = record.get(*slot) else { continue };
            self.members.insert(*slot, (entry.incarnation, id.clone()));
            self.awaited.remove(slot);
            if entry.stage != Stage::Going(id.clone()) {
                record.see(*slot);
            }
        }
        for slot in gone(record, &self.members, &found, is_proved_gone) {
            record.remove(slot);
            self.members.remove(&slot);
        }
        let held = self.hold(&found, called, now);
        self.has_looked = true;
        Matched { found, held }
    }

    /// Notes that a slot's clone has ended well: its VM is there, whenever it is told of.
    pub fn cloned(&mut self, slot: Slot, machine: MachineId) {
        if let Some(record) = &mut self.record
            && let Some(entry) = record.get(slot)
        {
            self.members.insert(slot, (entry.incarnation, machine));
            self.awaited.insert(slot);
            // For how long the one before it was missing says nothing of this one.
            self.held.remove(&slot);
            record.see(slot);
        }
    }

    /// Nothing can be said of how long VMs have been missing: they were not looked for, or are just coming back.
    pub fn restart_clocks(&mut self, now: Timestamp) {
        self.held.values_mut().for_each(|(since, _)| *since = now);
    }

    /// Takes those for back that were missing at the last look and are shown now, by their instance UUIDs or ids, though the group
    /// can't be looked at. All others are missing as they were.
    pub fn note_shown(&mut self, uid: &str, is_shown: impl Fn(&str) -> bool, is_there: impl Fn(&MachineId) -> bool) {
        let (record, members) = (&self.record, &self.members);
        let is_back = |slot: Slot| {
            let record = record.as_ref();
            let entry = record.and_then(|record| record.get(slot)).map(|entry| entry.incarnation);
            let lost = record.and_then(|record| record.lost(slot));
            let is_it = |incarnation: Incarnation| {
                let known = members.get(&slot).filter(|(which, _)| *which == incarnation);
                // One from before records were kept is known by its id alone.
                let is_named = incarnation != Incarnation::default();
                is_named && is_shown(&names::instance(uid, slot, incarnation))
                    || known.is_some_and(|(_, id)| is_there(id))
            };
            entry.into_iter().chain(lost).any(is_it)
        };
        self.missing.retain(|slot, _| !is_back(*slot));
    }

    /// Notes which VMs of the record are missing before the group itself is looked at. Those from before records were kept are known by
    /// their ids alone, and nothing is said of them.
    pub fn foresee(&mut self, uid: &str, is_there: impl Fn(Slot, &str) -> bool, now: Timestamp) {
        let Some(record) = self.record.take() else { return };
        for (slot, entry) in record.entries() {
            let is_named = entry.incarnation != Incarnation::default() && entry.stage != Stage::Pending;
            if self.has_looked || !is_named || is_there(slot, &names::instance(uid, slot, entry.incarnation)) {
                continue;
            }
            self.held.insert(slot, (now, true));
            self.at_first.insert(slot);
            let counts = now.checked_add(self.patience_with(slot, entry)).unwrap_or(Timestamp::MAX);
            self.missing.insert(slot, (now, counts));
        }
        self.record = Some(record);
    }

    /// Whether VMs were missing at the last look.
    #[must_use]
    pub fn has_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    /// How many VMs the group of this UID has by its record, and those that are missing. One that was given up is until the one that
    /// takes its place is seen.
    #[must_use]
    pub fn losses<'a>(&self, group: &'a str) -> (usize, Vec<Missing<'a>>) {
        let members = self.record.as_ref().map_or(0, |record| record.made() + record.lost_slots());
        let missing = self.missing.iter().map(|(slot, (since, counts_from))| Missing {
            group,
            slot: *slot,
            since: *since,
            counts_from: *counts_from,
            at_first: self.at_first.contains(slot),
        });
        (members, missing.collect())
    }

    /// The slots whose clone may be on its way, because its VM has not been seen.
    #[must_use]
    pub fn pending(&self, found: &Identified) -> BTreeSet<Slot> {
        let is_pending =
            |(slot, entry): &(Slot, &Entry)| entry.stage == Stage::Pending && !found.members.contains_key(slot);
        self.record.iter().flat_map(Record::entries).filter(is_pending).map(|(slot, _)| slot).collect()
    }

    fn hold(
        &mut self,
        found: &Identified,
        called: impl Fn(&MachineId) -> String,
        now: Timestamp,
    ) -> BTreeMap<Slot, Held> {
        let mut held = BTreeMap::new();
        let mut given_up = BTreeSet::new();
        self.missing.clear();
        let Some(record) = self.record.take() else { return held };
        for (slot, entry) in record.entries() {
            if found.members.contains_key(&slot) {
                continue;
            }
            let standing = found.unproved.get(&slot).cloned();
            let standing = standing.or_else(|| found.unmarked.get(&slot).map(|id| vec![id.clone()]));
            let why = match standing {
                Some(ids) => HeldFor::Unproved(ids.iter().map(&called).collect()),
                None if entry.stage == Stage::Pending => {
                    if record.lost(slot).is_some() {
                        given_up.insert(slot);
                        self.missing.extend(self.held.get(&slot).map(|(since, _)| (slot, (*since, *since))));
                    }
                    continue;
                }
                None => HeldFor::Missing,
            };
            let is_missing = why == HeldFor::Missing;
            let (since, was_missing) = *self.held.entry(slot).or_insert((now, is_missing));
            // One that stood there, whatever it was, is missing only from now on.
            let since = if is_missing && !was_missing { now } else { since };
            self.held.insert(slot, (since, is_missing));
            if !self.has_looked {
                self.at_first.insert(slot);
            }
            if is_missing {
                let counts = since.checked_add(self.patience_with(slot, entry)).unwrap_or(Timestamp::MAX);
                self.missing.insert(slot, (since, counts));
            }
            held.insert(slot, Held { since, why });
        }
        self.held.retain(|slot, _| held.contains_key(slot) || given_up.contains(slot));
        self.at_first.retain(|slot| held.contains_key(slot));
        self.record = Some(record);
        held
    }

    /// How long a VM may be out of sight before it counts as missing. One that is about to be told of, made or destroyed as it was asked
    /// for, has longer.
    fn patience_with(&self, slot: Slot, entry: &Entry) -> Duration {
        let is_expected = matches!(entry.stage, Stage::Going(_)) || self.awaited.contains(&slot);
        match (is_expected, self.at_first.contains(&slot)) {
            (true, _) => Held::WORTH_A_WORD,
            (false, true) => Duration::ZERO,
            (false, false) => Held::SETTLING,
        }
    }
}

/// The slots whose VM was given up for lost and is there after all, while no other is, or is on its way.
fn recovered(uid: &str, record: &Record, sightings: &[Sighting], cloning: &BTreeSet<Slot>) -> Vec<Slot> {
    let is_back = |sighting: &&Sighting| {
        let Some(made) = sighting.claim.as_ref().and_then(|claim| claim.made.as_ref()) else { return false };
        !sighting.is_template && sighting.instance.as_ref() == Some(&made.instance)
    };
    let slot = |sighting: &Sighting| {
        let claim = sighting.claim.as_ref()?;
        let (slot, made) = (claim.slot, claim.made.as_ref()?);
        let lost = record.lost(slot)?;
        let is_it = lost == Incarnation::default() || made.instance == names::instance(uid, slot, lost);
        let successor = record.get(slot).map(|entry| names::instance(uid, slot, entry.incarnation));
        let is_followed = cloning.contains(&slot) || sightings.iter().any(|other| other.instance == successor);
        (made.incarnation == lost && is_it && !is_followed).then_some(slot)
    };
    sightings.iter().filter(is_back).filter_map(slot).collect()
}

/// The slots whose VM isn't seen, and is proved to be gone.
fn gone(
    record: &Record,
    members: &BTreeMap<Slot, (Incarnation, MachineId)>,
    found: &Identified,
    is_proved_gone: impl Fn(&MachineId) -> bool,
) -> Vec<Slot> {
    let is_gone = |slot: Slot, entry: &Entry| {
        let going = if let Stage::Going(id) = &entry.stage { Some(id) } else { None };
        let known = members.get(&slot).filter(|(incarnation, _)| *incarnation == entry.incarnation);
        let mut ids = known.map(|(_, id)| id).into_iter().chain(going);
        !found.members.contains_key(&slot) && !found.unproved.contains_key(&slot) && ids.any(&is_proved_gone)
    };
    record.entries().filter(|(slot, entry)| is_gone(*slot, entry)).map(|(slot, _)| slot).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmgroup::identity::{Claim, Made};

    const UID: &str = "uid";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A group of three whose VMs are all missing, the last one's successor being on its way.
    fn hidden() -> Membership {
        let mut membership = Membership::default();
        let mut record = Record::default();
        record.reserve([Slot(0), Slot(1), Slot(2)]);
        for slot in 0..3 {
            record.see(Slot(slot));
        }
        membership.set_record(record);
        let look = |membership: &mut Membership| {
            membership.look(UID, &[], &BTreeSet::new(), |_| false, |id| id.0.clone(), at(0))
        };
        look(&mut membership);
        membership.record_mut().unwrap().reserve([Slot(2)]);
        look(&mut membership);
        membership
    }

    fn missing(membership: &Membership) -> Vec<u32> {
        membership.losses(UID).1.iter().map(|one| one.slot.0).collect()
    }

    #[test]
    fn those_that_are_shown_while_the_group_can_not_be_looked_at_are_back_and_no_others() {
        let mut membership = hidden();
        assert_eq!(missing(&membership), [0, 1, 2]);
        membership.note_shown(UID, |_| false, |_| false);
        assert_eq!(missing(&membership), [0, 1, 2], "nothing says that they are back");
        let first = names::instance(UID, Slot(0), Incarnation(1));
        membership.note_shown(UID, |instance| instance == first, |_| false);
        assert_eq!(missing(&membership), [1, 2]);
        // It was given up, and is there after all.
        let third = names::instance(UID, Slot(2), Incarnation(1));
        membership.note_shown(UID, |instance| instance == third, |_| false);
        assert_eq!(missing(&membership), [1]);
        assert!(membership.has_missing() && membership.losses(UID).0 == 3, "it is counted among as many as before");
    }

    #[test]
    fn one_that_was_given_up_stays_so_once_another_has_taken_its_place() {
        let machine = |id: &str, incarnation: u32| {
            let instance = names::instance(UID, Slot(2), Incarnation(incarnation));
            let made = Made { instance: instance.clone(), incarnation: Incarnation(incarnation) };
            Sighting {
                id: MachineId(id.to_owned()),
                instance: Some(instance),
                claim: Some(Claim { slot: Slot(2), made: Some(made) }),
                in_place: None,
                is_template: false,
                is_legible: true,
            }
        };
        let look = |sightings: &[Sighting]| {
            hidden().look(UID, sightings, &BTreeSet::new(), |_| false, |id| id.0.clone(), at(1)).found
        };
        let (first, second) = (machine("vm-1", 1), machine("vm-2", 2));
        assert_eq!(look(std::slice::from_ref(&first)).members[&Slot(2)], first.id, "no other has come");
        let both = look(&[first.clone(), second.clone()]);
        assert_eq!((&both.members[&Slot(2)], both.returned), (&second.id, vec![first.id]));
    }

    #[test]
    fn one_that_takes_the_place_of_a_lost_one_is_waited_for_as_long_as_any() {
        let mut membership = hidden();
        membership.cloned(Slot(2), MachineId("vm-9".to_owned()));
        let held = membership.look(UID, &[], &BTreeSet::new(), |_| false, |id| id.0.clone(), at(500)).held;
        assert_eq!(held[&Slot(2)].since, at(500));
        assert_eq!(held[&Slot(1)].since, at(0));
    }

    #[test]
    fn what_is_missing_is_known_before_the_group_is_looked_at_and_the_look_keeps_its_time() {
        let mut membership = Membership::default();
        let mut record = Record::default();
        record.reserve([Slot(0), Slot(1), Slot(2)]);
        record.see(Slot(0));
        record.see(Slot(1));
        membership.set_record(record);
        membership.foresee(UID, |slot, _| slot == Slot(0), at(5));
        // The third is still to be made.
        assert_eq!(missing(&membership), [1]);
        let (_, losses) = membership.losses(UID);
        assert!(losses[0].at_first && losses[0].since == at(5) && losses[0].counts_from == at(5), "{losses:?}");
        membership.look(UID, &[], &BTreeSet::new(), |_| false, |id| id.0.clone(), at(7));
        let (_, losses) = membership.losses(UID);
        assert_eq!(losses.iter().map(|one| (one.slot.0, one.since)).collect::<Vec<_>>(), [(0, at(7)), (1, at(5))]);
        membership.foresee(UID, |_, _| true, at(9));
        assert_eq!(missing(&membership), [0, 1], "once it was looked at, only a look counts");
    }
}
