//! One vCenter in the simulation, with its hosts, its queue and its groups.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::{
    Action,
    vcenter::{backoff::Backoff, budget::Limits},
    vmgroup::{
        placement::{AVOIDED, Candidate},
        queue::{self, Hosts, Queue},
    },
};

use crate::{
    Course, Sizes,
    group::{Group, Host},
    model::{
        chance::Chance,
        world::{Time, timestamp},
    },
};

/// How many clones a host works on at a time. It keeps the rest waiting, first come, first served.
pub(crate) const PLACES: usize = 4;

pub(crate) struct VCenter {
    pub groups: Vec<Group>,
    by_uid: BTreeMap<String, usize>,
    queue: Queue<Host>,
    failing: Backoff<Host>,
    /// When each place on each host is free.
    hosts: Vec<[Time; PLACES]>,
    clone_seconds: Time,
    course: Course,
    chance: Chance,
    /// The replica that works here, if any does.
    pub holder: Option<String>,
    pub is_away: bool,
    /// Whether it was away, or without a replica, at some time.
    pub was_disturbed: bool,
    /// Until when clones run that the replica which works here doesn't know of.
    unknown_until: Time,
    pub calls: Calls,
    /// The seconds of work that hosts have had with clones.
    pub work: Time,
    /// When something was told last, and how often in all: what happens in one second is told at once.
    told: (Time, u64),
}

/// The calls to a vCenter that change something there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub clones: u64,
    pub refused: u64,
    pub others: u64,
}

impl VCenter {
    pub(crate) fn new(sizes: &Sizes, groups: Vec<Group>, seed: u64) -> Self {
        let by_uid = groups.iter().enumerate().map(|(index, group)| (group.ground.desired.uid.clone(), index));
        Self {
            by_uid: by_uid.collect(),
            groups,
            queue: Queue::new(Limits::default()),
            failing: Backoff::new(AVOIDED),
            hosts: vec![[0; PLACES]; sizes.hosts as usize],
            clone_seconds: sizes.clone_seconds,
            course: sizes.course,
            chance: Chance::from_seed(seed),
            holder: None,
            is_away: false,
            was_disturbed: false,
            unknown_until: 0,
            calls: Calls::default(),
            work: 0,
            told: (-1, 0),
        }
    }

    /// Whether somebody works here, and can.
    pub(crate) fn is_served(&self) -> bool {
        self.holder.is_some() && !self.is_away
    }

    /// What the replica that has worked here knew is lost.
    pub(crate) fn lose_state(&mut self, now: Time) {
        self.queue = Queue::new(Limits::default());
        self.failing.reset();
        for group in &mut self.groups {
            group.start_anew(now);
        }
        self.unknown_until = self.groups.iter().filter_map(Group::last_clone).max().unwrap_or(0);
        self.was_disturbed = true;
    }

    /// It was away, and everything is read anew.
    pub(crate) fn come_back(&mut self, now: Time) {
        self.is_away = false;
        self.was_disturbed = true;
        self.failing.reset();
        for group in &mut self.groups {
            group.read_again(now);
        }
    }

    /// Reconciles those groups that something has happened to, and begins what may be begun. Returns when to look at which again.
    pub(crate) fn step(&mut self, due: &BTreeSet<usize>, now: Time) -> Vec<(Time, usize)> {
        if self.told.0 < now {
            self.told = (now, self.told.1 + 1);
        }
        let mut later = Vec::new();
        for index in due {
            for ticket in self.groups[*index].pass(now) {
                self.queue.finished(ticket);
            }
        }
        for index in due {
            let (orders, wake) = self.groups[*index].reconcile(now < self.unknown_until);
            self.order(*index, &orders, now);
            later.push((wake, *index));
        }
        while let Some(admitted) = self.queue.admit() {
            let index = self.by_uid[&admitted.group];
            for ticket in self.groups[index].pass(now) {
                self.queue.finished(ticket);
            }
            let takes = self.takes(index, &admitted.operation, admitted.host, now);
            let group = &mut self.groups[index];
            let ended = group.begin(admitted.operation, admitted.ticket, admitted.host, takes);
            if !ended.is_empty() {
                later.push((now, index));
            }
            later.extend(group.ground.world.next().map(|time| (time, index)));
            for ticket in ended {
                self.queue.finished(ticket);
            }
        }
        later
    }

    fn order(&mut self, index: usize, orders: &[Action], now: Time) {
        let group = &self.groups[index];
        let candidate = |host: Host| Candidate {
            host,
            name: format!("host-{host}"),
            obstacle: None,
            members: 0,
            load: 0,
            failed_until: None,
        };
        let hosts = 0..Host::try_from(self.hosts.len()).unwrap();
        let has_clones = orders.iter().any(|action| action.cloned_slot().is_some());
        let hosts = if has_clones {
            Hosts { candidates: hosts.map(candidate).collect(), members: group.hosts.clone() }
        } else {
            Hosts::default()
        };
        queue::order(&mut self.queue, &group.ground.desired, orders, &hosts, &self.failing, timestamp(now));
    }

    /// How long a call's task takes: that of a clone as long as its host has others before it, and then its own time. Of all else, chance
    /// decides.
    fn takes(&mut self, index: usize, action: &Action, host: Option<Host>, now: Time) -> Option<Time> {
        let Some((slot, host)) = action.cloned_slot().zip(host) else {
            self.calls.others += 1;
            return None;
        };
        self.calls.clones += 1;
        if self.groups[index].is_taken(slot) {
            self.calls.refused += 1;
            return Some(1);
        }
        let percent = match self.course {
            Course::Eventful => Time::try_from(80 + self.chance.below(41)).unwrap(),
            Course::Calm => 100,
        };
        let takes = (self.clone_seconds * percent / 100).max(1);
        self.work += takes;
        let place = self.hosts[host as usize].iter_mut().min().unwrap();
        *place = (*place).max(now) + takes;
        Some(*place - now)
    }

    /// The time that its hosts need for all clones, if none is ever idle.
    pub(crate) fn limit(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "a simulation has far less than 2^52 seconds of work")]
        let (work, places) = (self.work as f64, (PLACES * self.hosts.len()) as f64);
        work / places
    }

    /// In how many seconds something was told.
    pub(crate) fn told(&self) -> u64 {
        self.told.1
    }
}
