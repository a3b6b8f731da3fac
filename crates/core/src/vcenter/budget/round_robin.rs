//! Who is next: namespaces take turns, and so do the groups of each namespace.

use std::collections::BTreeMap;

/// Operations `K` that wait, of groups `G` in namespaces `N`, in order of arrival within a group.
#[derive(Clone, Debug)]
pub(super) struct RoundRobin<N, G, K> {
    namespaces: BTreeMap<N, Share<Groups<G, K>>>,
}

type Groups<G, K> = BTreeMap<G, Share<BTreeMap<u64, K>>>;

/// What a namespace or a group has waiting.
#[derive(Clone, Debug)]
struct Share<W> {
    /// When it was served last, or came.
    served: u64,
    waiting: W,
}

/// The operation of a group that has waited longest.
#[derive(Debug)]
pub(super) struct First<'a, N, G, K> {
    pub namespace: &'a N,
    pub group: &'a G,
    pub arrived: u64,
    pub operation: &'a K,
}

// Derived, it would be so only where what it refers to is.
impl<N, G, K> Clone for First<'_, N, G, K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N, G, K> Copy for First<'_, N, G, K> {}

impl<W: Default> Share<W> {
    /// Who comes, or comes again, is served after all that are there.
    fn starting(now: u64) -> Self {
        Self { served: now, waiting: W::default() }
    }
}

impl<'a, N, G, K> First<'a, N, G, K> {
    fn of(namespace: &'a N, group: &'a G, share: &'a Share<BTreeMap<u64, K>>) -> Option<Self> {
        let (arrived, operation) = share.waiting.first_key_value()?;
        Some(Self { namespace, group, arrived: *arrived, operation })
    }
}

impl<N: Ord + Clone, G: Ord + Clone, K> RoundRobin<N, G, K> {
    pub(super) fn new() -> Self {
        Self { namespaces: BTreeMap::new() }
    }

    pub(super) fn insert(&mut self, namespace: &N, group: &G, arrived: u64, operation: K, now: u64) {
        let namespace = self.namespaces.entry(namespace.clone()).or_insert_with(|| Share::starting(now));
        let group = namespace.waiting.entry(group.clone()).or_insert_with(|| Share::starting(now));
        group.waiting.insert(arrived, operation);
    }

    /// Takes an operation out. Who has nothing left that waits is forgotten.
    pub(super) fn remove(&mut self, namespace: &N, group: &G, arrived: u64) {
        let Some(groups) = self.namespaces.get_mut(namespace).map(|share| &mut share.waiting) else { return };
        if let Some(share) = groups.get_mut(group) {
            share.waiting.remove(&arrived);
            if share.waiting.is_empty() {
                groups.remove(group);
            }
        }
        if groups.is_empty() {
            self.namespaces.remove(namespace);
        }
    }

    /// A group is served, and with it its namespace.
    pub(super) fn serve(&mut self, namespace: &N, group: &G, now: u64) {
        if let Some(namespace) = self.namespaces.get_mut(namespace) {
            namespace.served = now;
            if let Some(group) = namespace.waiting.get_mut(group) {
                group.served = now;
            }
        }
    }

    /// A namespace goes without its turn. Its groups lose nothing by that.
    pub(super) fn pass(&mut self, namespace: &N, now: u64) {
        if let Some(namespace) = self.namespaces.get_mut(namespace) {
            namespace.served = now;
        }
    }

    /// When a namespace was served last, and when a group of it was. Who has the least is next.
    pub(super) fn served(&self, namespace: &N, group: &G) -> Option<(u64, u64)> {
        let namespace = self.namespaces.get(namespace)?;
        Some((namespace.served, namespace.waiting.get(group)?.served))
    }

    /// What is next.
    pub(super) fn next(&self) -> Option<First<'_, N, G, K>> {
        let (namespace, groups) = self.namespaces.iter().min_by_key(|(_, share)| share.served)?;
        let (group, share) = groups.waiting.iter().min_by_key(|(_, share)| share.served)?;
        First::of(namespace, group, share)
    }

    /// The first of each group.
    pub(super) fn firsts(&self) -> impl Iterator<Item = First<'_, N, G, K>> {
        self.namespaces.iter().flat_map(|(namespace, groups)| {
            groups.waiting.iter().filter_map(move |(group, share)| First::of(namespace, group, share))
        })
    }

    pub(super) fn len(&self) -> usize {
        self.namespaces.values().flat_map(|share| share.waiting.values()).map(|share| share.waiting.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }
}
