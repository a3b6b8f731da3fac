//! What a mirror shows otherwise than it is.
//!
//! vCenter tells of each object by itself, so some may be behind while others are not. What it has told is lost only with the watch,
//! and then everything is read again. Only the hardware is read beside the watch, so of that alone something older may be told after
//! something newer.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::vmgroup::{Hardware, MachineId};

use super::{
    history::History,
    model::{
        machine::Machine,
        world::{Time, World, timestamp},
    },
    troubles::Trial,
};

/// What the mirror shows of some VMs otherwise than they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct News {
    /// The VMs of which it shows what was before, if anything was, and until when.
    behind: BTreeMap<MachineId, (Option<Machine>, Time)>,
    /// The VMs of which it shows again what they had before, from when and until when.
    again: BTreeMap<MachineId, (Hardware, Time, Time)>,
    /// When everything is read again, if something that was told was lost.
    read_again: Option<Time>,
}

impl News {
    /// What the mirror shows, if that is not how it is.
    pub(crate) fn shown(&self, world: &World) -> Option<World> {
        let is_again = |(_, from, _): &&(Hardware, Time, Time)| *from <= world.now;
        if self.behind.is_empty() && !self.again.values().any(|one| is_again(&one)) {
            return None;
        }
        let mut shown = world.clone();
        for (id, (hardware, ..)) in self.again.iter().filter(|(_, again)| is_again(again)) {
            if let Some(machine) = shown.machines.get_mut(id) {
                machine.hardware = *hardware;
            }
        }
        for (id, (machine, _)) in &self.behind {
            match machine {
                Some(machine) => drop(shown.machines.insert(id.clone(), machine.clone())),
                None => drop(shown.machines.remove(id)),
            }
        }
        Some(shown)
    }

    /// Whether all that there is to be told has been.
    pub(crate) fn is_all_told(&self) -> bool {
        self.behind.is_empty() && self.again.is_empty()
    }
}

impl History<'_> {
    /// What has changed since these were told of may be told late, be lost, or be followed by what was told before.
    pub(crate) fn tell_news(&mut self, before: &BTreeMap<MachineId, Machine>) {
        let now = self.world.now;
        let is_over = self.news.read_again.is_some_and(|time| time <= now);
        if is_over {
            self.read_again();
        }
        self.news.behind.retain(|_, (_, until)| *until > now);
        self.news.again.retain(|_, (_, _, until)| *until > now);
        let ids: BTreeSet<_> = before.keys().chain(self.world.machines.keys()).cloned().collect();
        for id in ids {
            let (was, is) = (before.get(&id).cloned(), self.world.machines.get(&id));
            if was.as_ref() == is {
                continue;
            }
            let had = was.as_ref().map(|machine| machine.hardware);
            let had = had.filter(|had| is.is_some_and(|machine| machine.hardware != *had));
            // What a task has made shows in a moment, or the mirror stands still.
            let longest = if was.is_some() { 10 } else { 2 };
            let soon = now + 1 + i64::try_from(self.chance.below(longest)).unwrap();
            match () {
                () if self.has(Trial::LateNews, 15) => {
                    self.news.behind.entry(id).or_insert((was, soon));
                    self.count("update told late");
                }
                () if was.is_some() && self.has(Trial::LateNews, 5) => {
                    self.news.behind.entry(id).or_insert((was, Time::MAX));
                    self.news.read_again.get_or_insert(soon + 10);
                    self.count("update lost until everything is read again");
                }
                () if had.is_some() && self.has(Trial::LateNews, 50) => {
                    self.news.again.extend(had.map(|had| (id, (had, now + 1, soon + 1))));
                    self.count("older update told after a newer one");
                }
                () => {}
            }
        }
    }

    /// The mirror begins anew, with all that there is.
    pub(crate) fn read_again(&mut self) {
        (self.stale, self.news) = (None, News::default());
        let now = timestamp(self.clock());
        for operator in &mut self.operators {
            operator.in_flight.vcenter_is_back();
            operator.in_flight.restart_clocks(now);
        }
    }
}
