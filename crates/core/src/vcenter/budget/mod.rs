//! One fair queue for all that is done to a vCenter, with limits.
//!
//! Namespaces take turns, and so do the groups of a namespace: neither a group of a thousand machines nor a namespace of a thousand
//! groups can starve a group of three. Within a group, first come is first served, but what has to wait for a host holds up
//! nothing else.

mod round_robin;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use round_robin::RoundRobin;

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

/// What waits for its turn and what is under way, of groups `G` in namespaces `N`, with operations `K` on their objects, on hosts `H`.
#[derive(Clone, Debug)]
pub struct Budget<N, G, K, H> {
    limits: Limits,
    /// Moves on with every arrival and every turn, so that no two are at the same time.
    clock: u64,
    groups: BTreeMap<G, Group<N, K, H>>,
    /// Whose turn it is of all.
    turns: RoundRobin<N, G, ()>,
    /// What waits for each host, and for none. Turns are taken on each host by itself: who does much elsewhere, and so was served
    /// just now, would otherwise never get a host that others wait for too.
    lanes: BTreeMap<Option<H>, RoundRobin<N, G, K>>,
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

/// Whose turn it is.
struct Chosen<G, K, H> {
    group: G,
    operation: K,
    /// The free hosts on which it is the namespace's turn. Whichever of them it takes, it has had its turn on all: its groups may
    /// have much to do before the one that is next on a host, and others wait for the host meanwhile.
    passed: Vec<H>,
}

/// What a group waits for.
#[derive(Clone, Debug)]
struct Group<N, K, H> {
    namespace: N,
    places: BTreeMap<K, Place<H>>,
}

#[derive(Clone, Debug)]
struct Place<H> {
    arrived: u64,
    host: Option<H>,
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

impl<N: Ord + Clone, G: Ord + Clone, K: Ord + Clone, H: Ord + Clone> Budget<N, G, K, H> {
    /// An empty queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            clock: 0,
            groups: BTreeMap::new(),
            turns: RoundRobin::new(),
            lanes: BTreeMap::new(),
            under_way: BTreeMap::new(),
        }
    }

    /// Sets other limits. What is under way goes on, even if it is more than they allow.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// How much may be done at once.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Queues an operation of a group, which is always in the same namespace, with its host if it is a clone whose host is known. One
    /// that is queued keeps its place, and one that is under way isn't queued again.
    pub fn enqueue(&mut self, namespace: &N, group: &G, operation: K, host: Option<H>) {
        if self.under_way.values().any(|other| other.operation == operation && other.group == *group) {
            return;
        }
        let now = self.tick();
        let waiting = self
            .groups
            .entry(group.clone())
            .or_insert_with(|| Group { namespace: namespace.clone(), places: BTreeMap::new() });
        let before = waiting.places.get(&operation).cloned();
        if before.as_ref().is_some_and(|place| place.host == host) {
            return;
        }
        let arrived = before.as_ref().map_or(now, |place| place.arrived);
        if let Some(place) = before {
            leave(&mut self.lanes, &waiting.namespace, group, &place);
        }
        waiting.places.insert(operation.clone(), Place { arrived, host: host.clone() });
        self.turns.insert(&waiting.namespace, group, arrived, (), now);
        let lane = self.lanes.entry(host).or_insert_with(RoundRobin::new);
        lane.insert(&waiting.namespace, group, arrived, operation, now);
    }

    /// The next operation that may be done, if any may. Call it until there is none.
    pub fn admit(&mut self) -> Option<Admitted<G, K, H>> {
        let Chosen { group, operation, passed } = self.choose()?;
        let now = self.tick();
        let waiting = self.groups.get(&group)?;
        let host = waiting.places.get(&operation)?.host.clone();
        self.turns.serve(&waiting.namespace, &group, now);
        for host in passed {
            if let Some(lane) = self.lanes.get_mut(&Some(host)) {
                lane.pass(&waiting.namespace, now);
            }
        }
        if let Some(lane) = self.lanes.get_mut(&host) {
            lane.serve(&waiting.namespace, &group, now);
        }
        self.remove(&group, &operation);
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
        let places = self.groups.get(group).into_iter().flat_map(|waiting| waiting.places.keys());
        let unwanted: Vec<K> = places.filter(|operation| !is_wanted(operation)).cloned().collect();
        for operation in &unwanted {
            self.remove(group, operation);
        }
    }

    /// Takes all that a group has out of the queue. What is under way goes on, and counts until it has finished.
    pub fn forget(&mut self, group: &G) {
        self.retain(group, |_| false);
    }

    /// How many operations are under way.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.under_way.len()
    }

    /// How many operations are under way on the host that has most of them.
    #[must_use]
    pub fn most_on_a_host(&self) -> usize {
        let mut hosts: BTreeMap<_, usize> = BTreeMap::new();
        for host in self.under_way.values().filter_map(|operation| operation.host.as_ref()) {
            *hosts.entry(host).or_default() += 1;
        }
        hosts.into_values().max().unwrap_or(0)
    }

    /// How many operations a host has before it, those under way included.
    #[must_use]
    pub fn load_of(&self, host: &H) -> usize {
        let queued = self.lanes.get(&Some(host.clone())).map_or(0, RoundRobin::len);
        let under_way = self.under_way.values().filter(|operation| operation.host.as_ref() == Some(host));
        queued + under_way.count()
    }

    /// A group's operations that load a host, those under way included, each with its host.
    pub fn on_hosts<'a>(&'a self, group: &'a G) -> impl Iterator<Item = (&'a K, &'a H)> {
        let places = self.groups.get(group).into_iter().flat_map(|waiting| &waiting.places);
        let queued = places.filter_map(|(operation, place)| Some((operation, place.host.as_ref()?)));
        let under_way = self.under_way.values().filter(move |other| other.group == *group);
        queued.chain(under_way.filter_map(|other| Some((&other.operation, other.host.as_ref()?))))
    }

    /// How many operations wait.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.groups.values().map(|waiting| waiting.places.len()).sum()
    }

    /// Of the namespaces that could do something, the one that was served longest ago; of its groups that could, the one that was;
    /// and of that group, the first that it can do.
    fn choose(&self) -> Option<Chosen<G, K, H>> {
        let most = self.limits.operations.get();
        if self.placed().count() >= most || self.under_way.len() >= OVERFULL * most {
            return None;
        }
        let full = self.full_hosts();
        let hosts = self.lanes.iter().filter_map(|(host, lane)| Some((host.as_ref()?, lane)));
        let free = hosts.filter(|(host, _)| !full.contains(host));
        let heads: Vec<_> = free.filter_map(|(host, lane)| Some((host, lane.next()?))).collect();
        let elsewhere = self.lanes.get(&None).into_iter().flat_map(RoundRobin::firsts);
        let ready = heads.iter().map(|(_, first)| *first).chain(elsewhere);
        let chosen = ready.min_by_key(|first| (self.turns.served(first.namespace, first.group), first.arrived))?;
        let passed = heads.iter().filter(|(_, first)| first.namespace == chosen.namespace);
        let passed = passed.map(|(host, _)| (*host).clone()).collect();
        Some(Chosen { group: chosen.group.clone(), operation: chosen.operation.clone(), passed })
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

    fn remove(&mut self, group: &G, operation: &K) {
        let Some(waiting) = self.groups.get_mut(group) else { return };
        if let Some(place) = waiting.places.remove(operation) {
            leave(&mut self.lanes, &waiting.namespace, group, &place);
            self.turns.remove(&waiting.namespace, group, place.arrived);
        }
        if waiting.places.is_empty() {
            self.groups.remove(group);
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

/// Gives up a group's place among those that wait for a host, or for none.
fn leave<N: Ord + Clone, G: Ord + Clone, K, H: Ord>(
    lanes: &mut BTreeMap<Option<H>, RoundRobin<N, G, K>>,
    namespace: &N,
    group: &G,
    place: &Place<H>,
) {
    if let Some(lane) = lanes.get_mut(&place.host) {
        lane.remove(namespace, group, place.arrived);
        if lane.is_empty() {
            lanes.remove(&place.host);
        }
    }
}
