//! What users declare, and how they change their minds.

use std::{sync::Arc, time::Duration};

use drover_api::vmgroup::{GuestNetwork, MacAddresses};
use drover_core::vmgroup::{
    DeletionPolicy, Desired, Hardware, Power, Revision, Room, ScaleIn, Slots, Strategy, UpdatePolicy,
    adapters::{Adapter, Cidr},
};

use super::{
    history::{History, LOST_AFTER},
    model::chance::Chance,
};

impl History<'_> {
    /// The user changes their mind.
    pub(crate) fn edit(&mut self) {
        let before = self.desired.clone();
        let what = match self.desired.deletion {
            None => self.edit_spec(),
            // Even then a spec can be edited, and nobody goes back on a deletion.
            Some(_) => self.scale(),
        };
        make_sense(&mut self.desired);
        if self.desired != before {
            self.stored.note_edit();
            self.count(what);
            self.tell(format_args!("{:?}", self.desired));
        }
    }

    fn edit_spec(&mut self) -> &'static str {
        let chance = &mut self.chance;
        let desired = &mut self.desired;
        // Nobody pauses a group for long: nothing more could be seen of it.
        if desired.paused && chance.percent(40) {
            desired.paused = false;
            return "edit: no longer paused";
        }
        match chance.below(22) {
            20 => {
                let had = !desired.adapters.is_empty();
                desired.adapters = adapters(chance, if had { 50 } else { 0 });
                match (had, desired.adapters.is_empty()) {
                    (true, true) => "edit: no addresses any more",
                    (false, _) => "edit: addresses",
                    (true, false) => "edit: other addresses",
                }
            }
            0..3 => self.scale(),
            3..6 => {
                desired.revision = Revision(chance.below(3));
                "edit: template"
            }
            6..8 => {
                desired.hardware = hardware(chance);
                "edit: hardware"
            }
            8..11 => {
                desired.update = update(chance);
                match desired.update.strategy {
                    Strategy::InPlaceFirst => "edit: InPlaceFirst",
                    Strategy::Replace => "edit: Replace",
                    Strategy::OnDelete => "edit: OnDelete",
                }
            }
            11..13 => {
                desired.power = *chance.pick(&[Power::On, Power::On, Power::Off, Power::Suspended]).unwrap();
                match desired.power {
                    Power::On => "edit: powered on",
                    Power::Off => "edit: powered off",
                    Power::Suspended => "edit: suspended",
                }
            }
            13..15 => {
                desired.paused = true;
                "edit: paused"
            }
            15 => {
                desired.scale_in = *chance.pick(&[ScaleIn::Newest, ScaleIn::Oldest]).unwrap();
                "edit: scale-in order"
            }
            16 => {
                desired.lost_after = if desired.lost_after.is_some() { None } else { Some(lost_after()) };
                "edit: lost VMs"
            }
            17 if chance.percent(30) => {
                let policies =
                    [DeletionPolicy::Delete, DeletionPolicy::Delete, DeletionPolicy::PowerOff, DeletionPolicy::Retain];
                let policy = *chance.pick(&policies).unwrap();
                desired.deletion = Some(policy);
                match policy {
                    DeletionPolicy::Delete => "edit: deleted with Delete",
                    DeletionPolicy::PowerOff => "edit: deleted with PowerOff",
                    DeletionPolicy::Retain => "edit: deleted with Retain",
                }
            }
            _ => {
                desired.shutdown_grace = grace(chance);
                "edit: shutdown grace"
            }
        }
    }

    fn scale(&mut self) -> &'static str {
        let before = self.desired.replicas;
        self.desired.replicas = u32::try_from(self.chance.below(6)).unwrap();
        if self.desired.replicas < before { "edit: fewer replicas" } else { "edit: more replicas" }
    }
}

/// For how long a VM that isn't seen is waited for, where that has an end.
pub(crate) fn lost_after() -> Duration {
    Duration::from_secs(LOST_AFTER.unsigned_abs())
}

/// With addresses, slots are fixed and none is too many, as the API server sees to.
fn make_sense(desired: &mut Desired) {
    if desired.adapters.is_empty() {
        desired.slots = Slots::Any;
        return;
    }
    desired.slots = Slots::Fixed;
    desired.update.max_surge = 0;
    desired.update.max_unavailable = desired.update.max_unavailable.max(1);
}

/// No addresses in so many of a hundred cases, or some for each slot that there may be, of which any may be another the next time.
fn adapters(chance: &mut Chance, percent_none: u64) -> Arc<[Adapter]> {
    if chance.percent(percent_none) {
        return Arc::default();
    }
    let address = |slot: u64| {
        let text = format!("10.0.{}.{slot}/16", chance.below(2));
        text.parse::<Cidr>().unwrap()
    };
    let adapter = Adapter {
        mac: MacAddresses::PerSlot,
        addresses: (0..6).map(address).collect(),
        gateway4: None,
        gateway6: None,
        nameservers: Vec::new(),
        search_domains: Vec::new(),
    };
    [adapter].into()
}

pub(crate) fn first_desired(chance: &mut Chance) -> Desired {
    let mut desired = Desired {
        uid: "uid".to_owned(),
        marker_uid: "uid".to_owned(),
        namespace: "ns".to_owned(),
        name: "group".to_owned(),
        replicas: u32::try_from(chance.below(6)).unwrap(),
        hardware: hardware(chance),
        revision: Revision(0),
        slots: Slots::Any,
        adapters: adapters(chance, 70),
        hostname: None,
        guest_network: GuestNetwork::default(),
        power: Power::On,
        update: update(chance),
        scale_in: ScaleIn::Newest,
        shutdown_grace: grace(chance),
        deletion: None,
        lost_after: Some(lost_after()),
        paused: false,
    };
    make_sense(&mut desired);
    desired
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
