//! One fair queue for all that is done to a vCenter, with limits.
//!
//! Groups take turns, so that a group of a thousand machines can't starve one of three. Within a group, first come is first
//! served, but what has to wait for a host holds up nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

/// How much may be done at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Operations in all.
    pub operations: NonZeroUsize,
    /// Clones on one host.
    pub clones_per_host: NonZeroUsize,
}

/// However many operations are passed over, no more than so many times the limits are under way.
const OVERFULL: usize = 2;

/// What waits for its turn and what is under way, of groups `G`, with operations `K` on their objects, on hosts `H`.
#[derive(Clone, Debug)]
pub struct Budget<G, K, H> {
    limits: Limits,
    /// Moves on with every arrival and every turn, so that no two are at the same time.
    clock: u64,
    lines: BTreeMap<G, Line<K, H>>,
    under_way: BTreeMap<u64, UnderWay<G, K, H>>,
}

/// The right to do one operation. It counts against the limits until it is given to [`Budget::finished`].
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "an operation that is never finished takes up its place for ever"]
pub struct Ticket(u64);

/// An operation whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Admitted<G, K, H> {
    /// To be given back when the operation has ended, one way or the other.
    pub ticket: Ticket,
    /// Whose it is.
    pub group: G,
    /// What it is.
    pub operation: K,
    /// The host that it loads.
    pub host: Option<H>,
}

#[derive(Clone, Debug)]
struct UnderWay<G, K, H> {
    group: G,
    operation: K,
    host: Option<H>,
    /// Whether others wait for it no more.
    is_passed_over: bool,
}

/// What a group waits for.
#[derive(Clone, Debug)]
struct Line<K, H> {
    /// When the group had its last turn, or came.
    turn: u64,
    places: BTreeMap<K, Place<H>>,
    lanes: BTreeMap<Option<H>, Lane<K>>,
}

#[derive(Clone, Debug)]
struct Place<H> {
    arrived: u64,
    host: Option<H>,
}

/// What a group waits for on one host, or on none.
#[derive(Clone, Debug)]
struct Lane<K> {
    /// When the group had its last turn on the host, or came to it.
    turn: u64,
    by_arrival: BTreeMap<u64, K>,
}

impl Default for Limits {
    /// Well below what a vCenter bears (about 640 operations, others' included). A host works on four full clones at a time and
    /// keeps the rest waiting: eight keep it busy without a long line inside vCenter, where nothing is fair.
    fn default() -> Self {
        // Neither is zero, which is found out when this is compiled.
        const OPERATIONS: NonZeroUsize = NonZeroUsize::new(256).unwrap();
        const CLONES_PER_HOST: NonZeroUsize = NonZeroUsize::new(8).unwrap();
        Self { operations: OPERATIONS, clones_per_host: CLONES_PER_HOST }
    }
}

impl<G: Ord + Clone, K: Ord + Clone, H: Ord + Clone> Budget<G, K, H> {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, clock: 0, lines: BTreeMap::new(), under_way: BTreeMap::new() }
    }

    /// Sets other limits. What is under way goes on, even if it is more than they allow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Queues an operation, with its host if it is a clone whose host is known. One that is queued keeps its place, and one that
    /// is under way isn't queued again.
    pub fn enqueue(&mut self, group: G, operation: K, host: Option<H>) {
        if self.under_way.values().any(|other| other.operation == operation && other.group == group) {
            return;
        }
        let now = self.tick();
        let line = self.lines.entry(group).or_insert_with(|| Line::starting(now));
        let arrived = match line.places.get(&operation) {
            Some(place) if place.host == host => return,
            Some(place) => place.arrived,
            None => now,
        };
        line.remove(&operation);
        line.insert(operation, Place { arrived, host }, now);
    }

    /// The next operation that may be done, if any may. Call it until there is none.
    pub fn admit(&mut self) -> Option<Admitted<G, K, H>> {
        let (group, operation) = self.choose()?;
        let now = self.tick();
        let line = self.lines.get_mut(&group)?;
        let host = line.take_turn(&operation, now)?.host;
        self.drop_if_empty(&group);
        let under_way =
            UnderWay { group: group.clone(), operation: operation.clone(), host: host.clone(), is_passed_over: false };
        self.under_way.insert(now, under_way);
        Some(Admitted { ticket: Ticket(now), group, operation, host })
    }

    /// Gives back the place of an operation that has ended.
    #[allow(clippy::needless_pass_by_value, reason = "a ticket is good for one time")]
    pub fn finished(&mut self, ticket: Ticket) {
        self.under_way.remove(&ticket.0);
    }

    /// Gives the place of an operation to others, though it is still under way, and says whether it had one.
    pub fn pass_over(&mut self, ticket: &Ticket) -> bool {
        self.under_way.get_mut(&ticket.0).is_some_and(|it| !std::mem::replace(&mut it.is_passed_over, true))
    }

    /// What takes up a place.
    fn placed(&self) -> impl Iterator<Item = &UnderWay<G, K, H>> {
        self.under_way.values().filter(|operation| !operation.is_passed_over)
    }

    /// Takes out of the queue what a group no longer wants. What is under way goes on.
    pub fn retain(&mut self, group: &G, mut is_wanted: impl FnMut(&K) -> bool) {
        let Some(line) = self.lines.get_mut(group) else { return };
        let unwanted: Vec<K> = line.places.keys().filter(|operation| !is_wanted(operation)).cloned().collect();
        for operation in &unwanted {
            line.remove(operation);
        }
        self.drop_if_empty(group);
    }

    /// Takes all that a group has out of the queue. What is under way goes on, and counts until it has finished.
    pub fn forget(&mut self, group: &G) {
        self.lines.remove(group);
    }

    /// How many operations are under way.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.under_way.len()
    }

    /// How many operations a host has before it, those under way included.
    #[must_use]
    pub fn load_of(&self, host: &H) -> usize {
        let lanes = self.lines.values().filter_map(|line| line.lanes.get(&Some(host.clone())));
        let under_way = self.under_way.values().filter(|operation| operation.host.as_ref() == Some(host));
        lanes.map(|lane| lane.by_arrival.len()).sum::<usize>() + under_way.count()
    }

    /// A group's operations that load a host, those under way included, each with its host.
    pub fn on_hosts<'a>(&'a self, group: &'a G) -> impl Iterator<Item = (&'a K, &'a H)> {
        let places = self.lines.get(group).into_iter().flat_map(|line| &line.places);
        let queued = places.filter_map(|(operation, place)| Some((operation, place.host.as_ref()?)));
        let under_way = self.under_way.values().filter(move |other| other.group == *group);
        queued.chain(under_way.filter_map(|other| Some((&other.operation, other.host.as_ref()?))))
    }

    /// How many operations wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.lines.values().map(|line| line.places.len()).sum()
    }

    /// Of the groups that could do something, the one whose last turn is longest ago, and of that, the first that it can do.
    fn choose(&self) -> Option<(G, K)> {
        let most = self.limits.operations.get();
        if self.placed().count() >= most || self.under_way.len() >= OVERFULL * most {
            return None;
        }
        let full = self.full_hosts();
        let turns = self.turns_on_hosts();
        let may_go = |host: &Option<H>, lane: &Lane<K>| {
            host.as_ref().is_none_or(|host| !full.contains(host) && turns.get(host) == Some(&lane.turn))
        };
        let first_of = |line: &Line<K, H>| {
            let lanes = line.lanes.iter().filter(|(host, lane)| may_go(host, lane));
            let (_, operation) = lanes.filter_map(|(_, lane)| lane.by_arrival.first_key_value()).min()?;
            Some(operation.clone())
        };
        let ready = self.lines.iter().filter_map(|(group, line)| Some((line.turn, group, first_of(line)?)));
        ready.min_by_key(|(turn, ..)| *turn).map(|(_, group, operation)| (group.clone(), operation))
    }

    fn full_hosts(&self) -> BTreeSet<&H> {
        let mut clones: BTreeMap<_, (usize, usize)> = BTreeMap::new();
        for (host, operation) in self.under_way.values().filter_map(|it| Some((it.host.as_ref()?, it))) {
            let (placed, all) = clones.entry(host).or_default();
            *placed += usize::from(!operation.is_passed_over);
            *all += 1;
        }
        let most = self.limits.clones_per_host.get();
        clones.retain(|_, (placed, all)| *placed >= most || *all >= OVERFULL * most);
        clones.into_keys().collect()
    }

    /// Whose turn it is on each host. Groups take turns on a host by themselves: one that does much elsewhere, and so had its
    /// last turn just now, would otherwise never get a host that others wait for too.
    fn turns_on_hosts(&self) -> BTreeMap<&H, u64> {
        let mut turns = BTreeMap::new();
        for (host, lane) in self.lines.values().flat_map(|line| &line.lanes) {
            if let Some(host) = host {
                let turn = turns.entry(host).or_insert(lane.turn);
                *turn = lane.turn.min(*turn);
            }
        }
        turns
    }

    fn drop_if_empty(&mut self, group: &G) {
        if self.lines.get(group).is_some_and(|line| line.places.is_empty()) {
            self.lines.remove(group);
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

impl<K: Ord + Clone, H: Ord + Clone> Line<K, H> {
    /// A group that comes, or comes again, has its turn after all that are there.
    fn starting(now: u64) -> Self {
        Self { turn: now, places: BTreeMap::new(), lanes: BTreeMap::new() }
    }

    fn insert(&mut self, operation: K, place: Place<H>, now: u64) {
        let lane = self.lanes.entry(place.host.clone());
        let lane = lane.or_insert_with(|| Lane { turn: now, by_arrival: BTreeMap::new() });
        lane.by_arrival.insert(place.arrived, operation.clone());
        self.places.insert(operation, place);
    }

    fn take_turn(&mut self, operation: &K, now: u64) -> Option<Place<H>> {
        self.turn = now;
        let place = self.remove(operation)?;
        if let Some(lane) = self.lanes.get_mut(&place.host) {
            lane.turn = now;
        }
        Some(place)
    }

    fn remove(&mut self, operation: &K) -> Option<Place<H>> {
        let place = self.places.remove(operation)?;
        if let Some(lane) = self.lanes.get_mut(&place.host) {
            lane.by_arrival.remove(&place.arrived);
            if lane.by_arrival.is_empty() {
                self.lanes.remove(&place.host);
            }
        }
        Some(place)
    }
}
