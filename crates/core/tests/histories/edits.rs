//! What users declare, and how they change their minds.

use std::time::Duration;

use drover_core::vmgroup::{DeletionPolicy, Desired, Hardware, Power, Revision, Room, ScaleIn, Strategy, UpdatePolicy};

use super::{
    chance::Chance,
    history::{History, LOST_AFTER},
};

impl History<'_> {
    /// The user changes their mind.
    pub(crate) fn edit(&mut self) {
        let chance = &mut self.chance;
        let desired = &mut self.desired;
        match chance.below(if desired.deletion.is_some() { 0 } else { 9 }) {
            0 => desired.replicas = u32::try_from(chance.below(6)).unwrap(),
            1 | 2 => desired.revision = Revision(chance.below(3)),
            3 => desired.hardware = hardware(chance),
            4 => desired.update = update(chance),
            5 => desired.power = *chance.pick(&[Power::On, Power::On, Power::Off, Power::Suspended]).unwrap(),
            6 => desired.paused = chance.percent(30),
            7 => desired.scale_in = *chance.pick(&[ScaleIn::Newest, ScaleIn::Oldest]).unwrap(),
            _ if chance.percent(10) => {
                let policies =
                    [DeletionPolicy::Delete, DeletionPolicy::Delete, DeletionPolicy::PowerOff, DeletionPolicy::Retain];
                desired.deletion = Some(*chance.pick(&policies).unwrap());
            }
            _ => desired.shutdown_grace = grace(chance),
        }
        self.stored.note_edit();
        self.count("edit");
        self.tell(format_args!("{:?}", self.desired));
    }
}

pub(crate) fn first_desired(chance: &mut Chance) -> Desired {
    Desired {
        uid: "uid".to_owned(),
        marker_uid: "uid".to_owned(),
        namespace: "ns".to_owned(),
        name: "group".to_owned(),
        replicas: u32::try_from(chance.below(6)).unwrap(),
        hardware: hardware(chance),
        revision: Revision(0),
        power: Power::On,
        update: update(chance),
        scale_in: ScaleIn::Newest,
        shutdown_grace: grace(chance),
        deletion: None,
        lost_after: Some(Duration::from_secs(LOST_AFTER.unsigned_abs())),
        paused: false,
    }
}

/// A grace that is sometimes there.
pub(crate) fn grace(chance: &mut Chance) -> Duration {
    Duration::from_secs(if chance.percent(50) { 0 } else { 8 })
}

/// Some room, or as much as is declared.
pub(crate) fn room(chance: &mut Chance) -> Option<Room> {
    let some = Room {
        clones: u32::try_from(chance.below(3)).unwrap(),
        replacements: chance.percent(50),
        growths: u32::try_from(chance.below(3)).unwrap(),
    };
    *chance.pick(&[None, Some(Room::NONE), Some(some)]).unwrap()
}

pub(crate) fn hardware(chance: &mut Chance) -> Hardware {
    Hardware { cpus: 1 + u32::try_from(chance.below(3)).unwrap(), memory_mib: 1024 * (1 + chance.below(2)) }
}

pub(crate) fn update(chance: &mut Chance) -> UpdatePolicy {
    let strategies = [Strategy::InPlaceFirst, Strategy::InPlaceFirst, Strategy::Replace, Strategy::OnDelete];
    let max_unavailable = u32::try_from(chance.below(3)).unwrap();
    let max_surge = u32::try_from(chance.below(3)).unwrap();
    UpdatePolicy {
        strategy: *chance.pick(&strategies).unwrap(),
        // One of them has to allow something, or no update could ever begin.
        max_unavailable: if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable },
        max_surge,
        min_ready: Duration::from_secs(if chance.percent(70) { 0 } else { 10 }),
        progress_deadline: Duration::from_mins(10),
    }
}
