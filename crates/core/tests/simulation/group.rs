//! One group in the simulation: what the API server keeps of it, what its vCenter has of it, and the operator's state for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
};

use drover_core::{
    Action, Timestamp,
    names::{self, Slot},
    vcenter::budget::Ticket,
    vmgroup::{Desired, FolderId},
};
use serde_json::json;

use crate::{
    Course,
    model::{
        chance::Chance,
        operator::{Decided, Mishaps, Operator, Place},
        stored::Stored,
        world::{BASE, Time, World, timestamp},
    },
};

/// A host, by its number.
pub(crate) type Host = u32;

pub(crate) struct Group {
    pub ground: Ground,
    pub operator: Operator,
    /// Its folder, as of the last look.
    folder: Option<FolderId>,
    /// What is under way, with its place in the queue.
    tickets: BTreeMap<Action, Ticket>,
    /// Where its VMs are, or will be.
    pub hosts: BTreeMap<Slot, Host>,
    /// When it was first as declared.
    pub settled: Option<Time>,
}

/// What is there whichever replica looks at it.
pub(crate) struct Ground {
    pub desired: Desired,
    pub stored: Stored,
    /// What its vCenter has of it. Groups of one vCenter share hosts and the queue, and nothing else.
    pub world: World,
    chance: Chance,
    course: Course,
    marked: BTreeSet<String>,
    counts: BTreeMap<&'static str, u64>,
}

impl Ground {
    /// How often its record was written.
    pub(crate) fn writes(&self) -> u64 {
        let version = self.stored.group.metadata.resource_version.as_ref().and_then(|version| version.parse().ok());
        version.unwrap_or(1) - 1
    }

    /// Where a reconcile happens. Nothing goes wrong there by chance but that clones are left off: what else does is the same for all groups
    /// of a vCenter.
    fn place(&mut self, others_are_cloned: bool, takes: Option<Time>) -> Place<'_> {
        Place {
            desired: &self.desired,
            stored: &mut self.stored,
            world: &mut self.world,
            seen: None,
            room: None,
            marked: &self.marked,
            released: &[],
            skew: 0,
            mishaps: Mishaps { left_off: if self.course == Course::Eventful { 20 } else { 0 }, ..Mishaps::default() },
            chance: &mut self.chance,
            others_are_cloned,
            takes,
            is_cut_off: false,
            met: 0,
            counts: &mut self.counts,
        }
    }
}

impl Group {
    pub(crate) fn new(namespace: &str, name: &str, replicas: u32, seed: u64, course: Course) -> Self {
        let group = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {
                "namespace": namespace, "name": name, "uid": format!("uid-of-{namespace}-{name}"),
                "generation": 1, "resourceVersion": "1",
            },
            "spec": {"cpu": 1, "memory": 1, "replicas": replicas, "template": "t"},
        });
        let stored = Stored::of(serde_json::from_value(group).unwrap());
        let mut world = World::default();
        world.folders.insert(BASE.to_owned(), ("base".to_owned(), "dc".to_owned()));
        let ground = Ground {
            desired: Desired::of(&stored.group).unwrap(),
            stored,
            world,
            chance: Chance::from_seed(seed),
            course,
            marked: BTreeSet::new(),
            counts: BTreeMap::new(),
        };
        let (operator, tickets, hosts) = (Operator::start(0), BTreeMap::new(), BTreeMap::new());
        Self { ground, operator, folder: None, tickets, hosts, settled: None }
    }

    /// Another replica takes over, which knows nothing but what is written.
    pub(crate) fn start_anew(&mut self, now: Time) {
        self.operator = Operator::start(now);
        self.tickets.clear();
    }

    /// vCenter was away, and everything of it is read anew.
    pub(crate) fn read_again(&mut self, now: Time) {
        self.operator.in_flight.vcenter_is_back();
        self.operator.in_flight.restart_clocks(timestamp(now));
    }

    /// Time passes. Returns the places in the queue of what has ended.
    pub(crate) fn pass(&mut self, now: Time) -> Vec<Ticket> {
        loop {
            for (task, outcome) in self.ground.world.advance(now) {
                self.operator.learn(task, outcome, timestamp(now), &mut self.ground.chance);
            }
            if self.ground.world.now >= now {
                return self.ended();
            }
        }
    }

    fn ended(&mut self) -> Vec<Ticket> {
        let is_under_way: BTreeSet<_> = self.operator.tasks.values().collect();
        let tickets = mem::take(&mut self.tickets).into_iter();
        let (under_way, ended): (BTreeMap<_, _>, BTreeMap<_, _>) =
            tickets.partition(|(action, _)| is_under_way.contains(action));
        self.tickets = under_way;
        ended.into_values().collect()
    }

    /// Looks, plans, writes and tells. Returns what may be begun, and when to look again.
    pub(crate) fn reconcile(&mut self, others_are_cloned: bool) -> (Vec<Action>, Time) {
        let mut place = self.ground.place(others_are_cloned, None);
        let Decided { done, orders, folder } = self.operator.decide(&mut place);
        assert!(self.operator.tell(&mut place, &done), "nothing crashes while it writes");
        self.folder = folder;
        self.operator.in_flight.note_ordered(&orders);
        let now = self.ground.world.now;
        if done.plan.settled && done.plan.counts.ready == self.ground.desired.replicas {
            self.settled.get_or_insert(now);
        }
        let wakes = [done.plan.wake, self.operator.in_flight.wake(timestamp(now))];
        let wake = wakes.into_iter().flatten().map(seconds).chain(self.ground.world.next()).min();
        (orders, wake.unwrap_or(now + 300).max(now + 1))
    }

    /// Asks vCenter for something, which takes this long there if that isn't left to chance. Returns the places of what has ended at once.
    pub(crate) fn begin(
        &mut self,
        action: Action,
        ticket: Ticket,
        host: Option<Host>,
        takes: Option<Time>,
    ) -> Vec<Ticket> {
        if let (Some(slot), Some(host)) = (action.cloned_slot(), host) {
            self.hosts.entry(slot).or_insert(host);
        }
        self.operator.act(&action, self.folder.as_ref(), &mut self.ground.place(false, takes));
        self.tickets.insert(action, ticket);
        self.ended()
    }

    /// Whether a VM has the name of a slot's, or is about to, so that vCenter refuses another.
    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        let Ground { desired, world, .. } = &self.ground;
        let name = names::member(&desired.name, &desired.marker_uid, slot);
        self.folder.as_ref().is_some_and(|folder| world.is_reserved(&folder.0, &name))
    }

    /// When the last of its clones that are under way ends.
    pub(crate) fn last_clone(&self) -> Option<Time> {
        let world = &self.ground.world;
        let clones: BTreeSet<_> = world.clones().map(|(task, _)| task).collect();
        world.tasks.iter().filter(|task| clones.contains(&task.id)).map(|task| task.due).max()
    }
}

/// The first whole second at which a time has come.
fn seconds(time: Timestamp) -> Time {
    let since = time.duration_since(timestamp(0));
    since.as_secs() + Time::from(since.subsec_nanos() > 0)
}
