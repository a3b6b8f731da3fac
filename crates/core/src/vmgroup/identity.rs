//! Which of the VMs that vCenter shows are a group's members, and which only look like it.
//!
//! vCenter copies extraConfig into every clone, template and restored backup that a person makes of a member. So a marker counts only
//! on the one VM whose instance UUID it names, and only where the group's record expects that VM. Everything else is shown and left
//! alone: of two that could be a member, neither is destroyed.

use std::collections::BTreeMap;

use crate::{
    names::{self, Slot},
    vmgroup::{
        MachineId,
        record::{Entry, Incarnation, LARGEST, Record},
    },
};

/// What a VM's marker says of its place in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The slot.
    pub slot: Slot,
    /// The VM that the marker was written for. Markers of earlier versions don't say.
    pub made: Option<Made>,
}

/// The VM that a marker was written for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its instance UUID.
    pub instance: String,
    /// Which VM of its slot it is.
    pub incarnation: Incarnation,
}

/// A VM that may have to do with the group: it carries, or last carried, the group's marker, or it has the name of a member in the
/// group's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which VM.
    pub id: MachineId,
    /// Its instance UUID, as it was last read.
    pub instance: Option<String>,
    /// What its marker says, as it was last read. None where it never could be.
    pub claim: Option<Claim>,
    /// The slot whose name it has, where it is in the group's folder.
    pub in_place: Option<Slot>,
    /// Whether it is a template, which is never a member.
    pub is_template: bool,
    /// Whether all that it is known by can be read now.
    pub is_legible: bool,
}

/// What the VMs are to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identified {
    /// The VM of each slot, beyond doubt.
    pub members: BTreeMap<Slot, MachineId>,
    /// VMs that stand for a slot, and can't be proved to be its member. The slot is taken, and they are left alone.
    pub unproved: BTreeMap<Slot, Vec<MachineId>>,
    /// Members of an earlier version's making, whose markers have to be brought up to date.
    pub unmarked: BTreeMap<Slot, MachineId>,
    /// Copies that somebody made of a member.
    pub copies: Vec<MachineId>,
    /// VMs that were members, and came back when they were thought to be gone.
    pub returned: Vec<MachineId>,
}

/// Says what each VM is to a group. `known` are the VMs that were the slots' members when they were last seen.
#[must_use]
pub fn identify(uid: &str, record: &Record, known: &BTreeMap<Slot, MachineId>, sightings: &[Sighting]) -> Identified {
    let mut found = Identified::default();
    let mut proved: BTreeMap<Slot, Vec<&Sighting>> = BTreeMap::new();
    let mut unmarked: BTreeMap<Slot, Vec<&Sighting>> = BTreeMap::new();
    let mut doubtful: BTreeMap<Slot, Vec<&Sighting>> = BTreeMap::new();
    for sighting in sightings {
        let nature = match_kind(uid, record, known, sighting);
        match nature {
            MatchKind::Member(slot) => proved.entry(slot).or_default().push(sighting),
            MatchKind::Unmarked(slot) => unmarked.entry(slot).or_default().push(sighting),
            MatchKind::Doubtful(slot) => doubtful.entry(slot).or_default().push(sighting),
            MatchKind::Copy => found.copies.push(sighting.id.clone()),
            MatchKind::Returned => found.returned.push(sighting.id.clone()),
            MatchKind::Stranger => {}
        }
    }
    for (slot, seen) in proved {
        // A second one that matches in everything: a restored backup beside its original. Nobody can tell which is which.
        match &seen[..] {
            [only] => drop(found.members.insert(slot, only.id.clone())),
            several => found.doubt(slot, several),
        }
    }
    for (slot, seen) in unmarked {
        match &seen[..] {
            // Beside one that is proved, what carries an old marker is a copy of it from before.
            copies if found.members.contains_key(&slot) => found.copies.extend(ids(copies)),
            [only] if only.in_place == Some(slot) && !found.unproved.contains_key(&slot) => {
                found.unmarked.insert(slot, only.id.clone());
            }
            several => found.doubt(slot, several),
        }
    }
    for (slot, seen) in doubtful {
        match seen.iter().partition::<Vec<_>, _>(|sighting| sighting.claim.is_some()) {
            // Its slot's member is there, so this one isn't it, whatever it is.
            (claiming, others) if found.members.contains_key(&slot) => {
                found.copies.extend(ids(&claiming));
                drop(others);
            }
            _ => found.doubt(slot, &seen),
        }
    }
    found
}

/// What a VM is, seen by itself.
enum MatchKind {
    Member(Slot),
    Unmarked(Slot),
    Doubtful(Slot),
    Copy,
    Returned,
    Stranger,
}

fn match_kind(uid: &str, record: &Record, known: &BTreeMap<Slot, MachineId>, sighting: &Sighting) -> MatchKind {
    let Some(claim) = &sighting.claim else {
        // It stands where a member should, and can't be read, or is the one but for its marker. Any other is only in the next clone's way.
        let may_be = |slot: Slot| {
            let expected = record.get(slot).map(|entry| names::instance(uid, slot, entry.incarnation));
            expected.is_some() && (!sighting.is_legible || expected == sighting.instance)
        };
        return match sighting.in_place {
            Some(slot) if may_be(slot) && !sighting.is_template => MatchKind::Doubtful(slot),
            _ => MatchKind::Stranger,
        };
    };
    if sighting.is_template {
        return MatchKind::Copy;
    }
    let slot = claim.slot;
    let entry = record.get(slot);
    let stands_for_it = sighting.in_place == Some(slot) || known.get(&slot) == Some(&sighting.id);
    match (&claim.made, entry) {
        (Some(made), Some(entry)) if is_the_one(uid, slot, entry, made, sighting) => MatchKind::Member(slot),
        (Some(made), _) if sighting.instance.as_deref() == Some(made.instance.as_str()) => MatchKind::Returned,
        (None, Some(entry)) if entry.incarnation == Incarnation::default() => MatchKind::Unmarked(slot),
        // vCenter gives another UUID where two have the same.
        (_, Some(_)) if stands_for_it => MatchKind::Doubtful(slot),
        _ => MatchKind::Copy,
    }
}

/// Whether a VM is the one that the record has for its slot.
fn is_the_one(uid: &str, slot: Slot, entry: &Entry, made: &Made, sighting: &Sighting) -> bool {
    let names_itself = sighting.instance.as_deref() == Some(made.instance.as_str());
    // One from before records were kept has the UUID that vCenter gave it.
    let is_expected =
        entry.incarnation == Incarnation::default() || made.instance == names::instance(uid, slot, entry.incarnation);
    names_itself && is_expected && made.incarnation == entry.incarnation
}

fn ids(sightings: &[&Sighting]) -> Vec<MachineId> {
    sightings.iter().map(|sighting| sighting.id.clone()).collect()
}

impl Identified {
    fn doubt(&mut self, slot: Slot, sightings: &[&Sighting]) {
        self.unproved.entry(slot).or_default().extend(ids(sightings));
    }
}

/// The record of a group that has none yet: one that is new, or was made by an earlier version. What is there by then, and in its
/// place, is taken up; so is what is said to have been there and isn't seen.
#[must_use]
pub fn first_record(sightings: &[Sighting], current_replicas: u32) -> Record {
    let mut record = Record::default();
    for sighting in sightings.iter().filter(|sighting| !sighting.is_template) {
        let Some(claim) = &sighting.claim else { continue };
        let is_itself = |made: &&Made| sighting.instance.as_deref() == Some(made.instance.as_str());
        match claim.made.as_ref() {
            Some(made) => {
                if let Some(made) = Some(made).filter(is_itself) {
                    record.adopt(claim.slot, made.incarnation);
                }
            }
            None => record.adopt(claim.slot, Incarnation::default()),
        }
    }
    // Slots are filled from below. A status may say anything.
    let unseen = (current_replicas as usize).saturating_sub(record.made()).min(LARGEST);
    let free: Vec<_> = (0..).map(Slot).filter(|slot| record.get(*slot).is_none()).take(unseen).collect();
    for slot in free {
        record.adopt(slot, Incarnation::default());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "uid";

    fn instance(slot: u32, incarnation: u32) -> String {
        names::instance(UID, Slot(slot), Incarnation(incarnation))
    }

    /// A VM with a marker for a slot and an incarnation, in its place.
    fn member(id: &str, slot: u32, incarnation: u32) -> Sighting {
        let made = Made { instance: instance(slot, incarnation), incarnation: Incarnation(incarnation) };
        Sighting {
            id: MachineId(id.to_owned()),
            instance: Some(made.instance.clone()),
            claim: Some(Claim { slot: Slot(slot), made: Some(made) }),
            in_place: Some(Slot(slot)),
            is_template: false,
            is_legible: true,
        }
    }

    fn copy_of(sighting: &Sighting, id: &str) -> Sighting {
        Sighting {
            id: MachineId(id.to_owned()),
            instance: Some("its-own".to_owned()),
            in_place: None,
            ..sighting.clone()
        }
    }

    /// One from before records were kept.
    fn legacy(id: &str, slot: u32) -> Sighting {
        let claim = Some(Claim { slot: Slot(slot), made: None });
        Sighting { claim, instance: Some(format!("{id}-uuid")), ..member(id, slot, 0) }
    }

    fn record_of(slots: &[u32]) -> Record {
        let mut record = Record::default();
        record.reserve(slots.iter().copied().map(Slot));
        for slot in slots {
            record.see(Slot(*slot));
        }
        record
    }

    fn seen(record: &Record, sightings: &[Sighting]) -> Identified {
        identify(UID, record, &BTreeMap::new(), sightings)
    }

    fn vm(id: &str) -> MachineId {
        MachineId(id.to_owned())
    }

    #[test]
    fn a_member_is_the_vm_that_its_marker_names_and_the_record_expects() {
        let found = seen(&record_of(&[0, 1]), &[member("vm-1", 0, 1), member("vm-2", 1, 1)]);
        let expected = BTreeMap::from([(Slot(0), vm("vm-1")), (Slot(1), vm("vm-2"))]);
        assert_eq!(found, Identified { members: expected, ..Identified::default() });
    }

    #[test]
    fn a_clone_or_template_of_a_member_is_a_copy_with_and_without_its_original() {
        let original = member("vm-99", 0, 1);
        let copy = copy_of(&original, "vm-100");
        let template = Sighting { is_template: true, ..copy_of(&original, "vm-101") };
        let found = seen(&record_of(&[0]), &[copy.clone(), template.clone(), original]);
        assert_eq!((found.members.len(), found.copies), (1, vec![vm("vm-100"), vm("vm-101")]));
        let found = seen(&record_of(&[0]), &[copy, template]);
        assert_eq!((found.members.len(), found.copies.len(), found.unproved.len()), (0, 2, 0));
    }

    #[test]
    fn a_member_that_was_marked_as_a_template_is_none_any_more() {
        let found = seen(&record_of(&[0]), &[Sighting { is_template: true, ..member("vm-1", 0, 1) }]);
        assert!(found.members.is_empty() && found.copies == [vm("vm-1")]);
    }

    #[test]
    fn what_comes_back_after_its_slot_was_given_up_is_returned_and_no_member() {
        let mut record = record_of(&[0, 1]);
        record.remove(Slot(1));
        record.reserve([Slot(0)]);
        let found = seen(&record, &[member("vm-1", 0, 1), member("vm-2", 1, 1), member("vm-3", 0, 2)]);
        assert_eq!(found.members, BTreeMap::from([(Slot(0), vm("vm-3"))]));
        assert_eq!(found.returned, [vm("vm-1"), vm("vm-2")]);
    }

    #[test]
    fn of_two_that_match_one_slot_neither_is_a_member() {
        let found = seen(&record_of(&[0]), &[member("vm-1", 0, 1), member("vm-2", 0, 1)]);
        assert_eq!(found.unproved, BTreeMap::from([(Slot(0), vec![vm("vm-1"), vm("vm-2")])]));
        assert!(found.members.is_empty());
    }

    #[test]
    fn a_vm_in_its_place_with_another_uuid_keeps_its_slot_and_is_left_alone() {
        let other = Sighting { instance: Some("reassigned".to_owned()), ..member("vm-1", 0, 1) };
        assert_eq!(
            seen(&record_of(&[0]), std::slice::from_ref(&other)).unproved,
            BTreeMap::from([(Slot(0), vec![vm("vm-1")])])
        );
        let moved = Sighting { in_place: None, ..other };
        let known = BTreeMap::from([(Slot(0), vm("vm-1"))]);
        let found = identify(UID, &record_of(&[0]), &known, &[moved]);
        assert_eq!(found.unproved, BTreeMap::from([(Slot(0), vec![vm("vm-1")])]));
    }

    #[test]
    fn what_can_not_be_read_keeps_the_slot_whose_name_it_has() {
        let unread = Sighting { claim: None, instance: None, is_legible: false, ..member("vm-1", 0, 1) };
        assert_eq!(seen(&record_of(&[0]), std::slice::from_ref(&unread)).unproved.len(), 1);
        assert_eq!(
            seen(&record_of(&[1]), &[unread]),
            Identified::default(),
            "a slot that nobody has isn't taken by it"
        );
    }

    #[test]
    fn a_stranger_with_a_members_name_keeps_no_slot_but_a_member_without_its_marker_does() {
        let stranger = Sighting { claim: None, instance: Some("its-own".to_owned()), ..member("vm-1", 0, 1) };
        assert_eq!(seen(&record_of(&[0]), &[stranger]), Identified::default());
        let stripped = Sighting { claim: None, ..member("vm-1", 0, 1) };
        assert_eq!(seen(&record_of(&[0]), &[stripped]).unproved, BTreeMap::from([(Slot(0), vec![vm("vm-1")])]));
    }

    #[test]
    fn members_from_before_are_marked_where_they_are_alone_and_in_place() {
        let sightings = [legacy("vm-1", 0), Sighting { in_place: None, ..legacy("vm-2", 1) }];
        let record = first_record(&sightings, 0);
        let found = seen(&record, &sightings);
        assert_eq!(found.unmarked, BTreeMap::from([(Slot(0), vm("vm-1"))]));
        assert_eq!(found.unproved, BTreeMap::from([(Slot(1), vec![vm("vm-2")])]));
        let twins = [legacy("vm-1", 0), Sighting { in_place: None, ..legacy("vm-3", 0) }];
        let found = seen(&first_record(&twins, 0), &twins);
        assert_eq!(found.unproved, BTreeMap::from([(Slot(0), vec![vm("vm-1"), vm("vm-3")])]));
    }

    #[test]
    fn a_marked_member_from_before_has_the_uuid_that_vcenter_gave_it_and_its_copies_have_not() {
        let record = first_record(&[legacy("vm-1", 0)], 0);
        let made = Made { instance: "vm-1-uuid".to_owned(), incarnation: Incarnation(0) };
        let marked = Sighting { claim: Some(Claim { slot: Slot(0), made: Some(made) }), ..legacy("vm-1", 0) };
        let old_copy = Sighting { in_place: None, ..legacy("vm-9", 0) };
        let found = seen(&record, &[marked.clone(), copy_of(&marked, "vm-8"), old_copy]);
        assert_eq!(found.members, BTreeMap::from([(Slot(0), vm("vm-1"))]));
        assert_eq!((found.copies, found.unproved.len()), (vec![vm("vm-8"), vm("vm-9")], 0));
    }

    #[test]
    fn a_first_record_has_what_was_there_though_it_is_not_seen() {
        let record = first_record(&[legacy("vm-1", 1)], 3);
        assert_eq!(record.write().made, ["0-2@0"]);
        assert_eq!(first_record(&[], u32::MAX).made(), LARGEST, "what makes no sense fills no memory");
    }

    #[test]
    fn a_record_that_was_lost_is_found_again_in_the_markers() {
        let record = first_record(&[member("vm-1", 0, 4), copy_of(&member("vm-1", 2, 4), "vm-2")], 0);
        assert_eq!((record.write().made, record.write().incarnation), (vec!["0@4".to_owned()], 4));
    }
}
