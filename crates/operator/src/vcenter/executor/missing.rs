//! What is known of all groups of a vCenter together: how many of their machines are missing, and whether that stops everything.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use drover_api::VmGroup;
use drover_core::{
    Timestamp,
    names::{self, Slot},
    vcenter::brake::{Incident, Losses, Missing},
    vmgroup::{MachineId, take_over::marker_uid},
};
use kube::ResourceExt;

use super::{Executor, Group};
use crate::vcenter::{inventory::machine_reference, mirror::Mirror};

impl Executor {
    /// Whether the records of all groups were taken up that are at home here. Before that, nobody knows how many VMs are missing.
    pub(crate) fn are_records_loaded(&self) -> bool {
        self.are_records_loaded
    }

    /// Takes up the records of all groups that are at home here, before any of them is looked at: one that is well must not go on while
    /// the VMs of many others are missing, whether those others can be looked at or not.
    pub(crate) fn load_records(&mut self, groups: &[Arc<VmGroup>], mirror: &Mirror, now: Timestamp) {
        let shown: HashSet<_> = mirror.machines.values().filter_map(|machine| machine.instance.as_deref()).collect();
        let named: HashSet<_> = mirror.machines.values().map(|machine| machine.name.as_str()).collect();
        for group in groups {
            let uid = group.uid().unwrap_or_default();
            if self.groups.contains_key(&uid) {
                continue;
            }
            let (name, marker_uid) = (group.name_any(), marker_uid(group));
            let in_flight = &mut self.group(&uid).in_flight;
            // One that can't be read says so when its turn comes.
            if in_flight.record.take_up(group, Instant::now()).is_ok() {
                // A VM that can't be read has a name still.
                let is_there = |slot: Slot, instance: &str| {
                    shown.contains(instance) || named.contains(names::member(&name, &marker_uid, slot).as_str())
                };
                in_flight.record.membership.foresee(&marker_uid, is_there, now);
                in_flight.is_unseen = true;
            }
        }
        self.are_records_loaded = true;
    }

    /// Takes those machines for back that the mirror shows again, of groups that can't be looked at: their groups can't say so.
    pub(crate) fn note_shown(&mut self, mirror: &Mirror) {
        let unseen = self.groups.iter_mut().filter(|(_, group)| group.in_flight.is_unseen);
        let mut unseen = unseen.filter(|(_, group)| group.in_flight.record.membership.has_missing()).peekable();
        if unseen.peek().is_none() {
            return;
        }
        let shown: HashSet<_> = mirror.machines.values().filter_map(|machine| machine.instance.as_deref()).collect();
        for (uid, group) in unseen {
            let is_there = |id: &MachineId| mirror.machines.contains_key(&machine_reference(id));
            let uid = group.context.as_ref().map_or(uid, |context| &context.desired.marker_uid);
            group.in_flight.record.membership.note_shown(uid, |instance| shown.contains(instance), is_there);
        }
    }

    /// How many machines are missing by now.
    pub(crate) fn missing(&self, now: Timestamp) -> usize {
        let (_, missing) = losses(&self.groups);
        missing.iter().filter(|one| one.counts_from <= now).count()
    }

    /// Whether anything that makes or destroys is stopped, in all of this vCenter or for one of its groups.
    pub(crate) fn is_stopped(&self) -> bool {
        self.incident.is_some() || self.groups.values().any(|group| group.in_flight.is_stopped)
    }

    /// How many machines carry a group's marker and aren't its members.
    pub(crate) fn lookalikes(&self) -> usize {
        let all = self.groups.values().map(|group| &group.in_flight.lookalikes);
        all.map(|found| found.copies.len() + found.returned.len()).sum()
    }

    /// Says whether everything that makes or destroys has to stop in this vCenter. `remembered` is the incident that a group's status tells of.
    pub(crate) fn judge(&mut self, vcenter: &str, remembered: Option<&str>, now: Timestamp) -> Option<Incident> {
        let own = self.remembered.clone();
        let remembered = own.as_deref().or(remembered);
        let all = self.released.clone();
        let released = all.iter().map(String::as_str).collect();
        let (members, missing) = losses(&self.groups);
        let losses = Losses { name: vcenter, members, missing, unexplained: 0, released, remembered };
        let before = std::mem::replace(&mut self.incident, self.brake.judge(&losses, now));
        if before.is_some() && self.incident.is_none() && !self.brake.was_released() {
            // They are coming back: those that are still missing have the time that any has.
            self.groups.values_mut().for_each(|group| group.in_flight.restart_clocks(now));
        }
        self.incident.clone()
    }

    /// Takes up which incidents somebody said to go on after, and says whether they are others than before.
    pub(crate) fn release(&mut self, incidents: Vec<String>) -> bool {
        let before = std::mem::replace(&mut self.released, incidents);
        before != self.released
    }

    /// The incidents that somebody said to go on after.
    pub(crate) fn released(&self) -> &[String] {
        &self.released
    }

    /// Takes up which incident the VCenter's status tells of.
    pub(crate) fn remember(&mut self, incident: Option<String>) {
        self.remembered = incident;
    }

    /// Why everything that makes or destroys is stopped in this vCenter, if it is.
    pub(crate) fn incident(&self) -> Option<&Incident> {
        self.incident.as_ref()
    }
}

/// How many machines all groups have, and those that are missing.
fn losses(groups: &HashMap<String, Group>) -> (usize, Vec<Missing<'_>>) {
    let all = groups.iter().map(|(uid, group)| group.in_flight.losses(uid));
    all.fold((0, Vec::new()), |(members, mut all), (more, missing)| {
        all.extend(missing);
        (members + more, all)
    })
}
