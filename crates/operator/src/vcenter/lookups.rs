//! Turns to look for objects in a vCenter, so that a slow one is not asked everything at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many groups may look for what they name at once.
const ALL: usize = 16;
/// How many of one namespace: whatever its groups name, and however long that takes, others have turns.
const EACH: usize = 4;

/// The turns of all namespaces.
#[derive(Debug)]
pub(crate) struct Lookups {
    all: Arc<Semaphore>,
    /// Those of each namespace that has or awaits one.
    own: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn, until it is dropped.
pub(crate) type LookupTurn = [Option<OwnedSemaphorePermit>; 2];

impl Default for Lookups {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ALL)), own: Mutex::default() }
    }
}

impl Lookups {
    /// Waits for a turn of a namespace: first among its own, and so no namespace has more than those in the line of all.
    pub(crate) async fn turn(&self, namespace: &str) -> LookupTurn {
        // Neither is ever closed.
        let own = self.own(namespace).acquire_owned().await.ok();
        [own, Arc::clone(&self.all).acquire_owned().await.ok()]
    }

    fn own(&self, namespace: &str) -> Arc<Semaphore> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever has or awaits a turn has a share of its namespace's.
        own.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(own.entry(namespace.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(EACH))))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    /// The turns that a namespace gets at once, of so many.
    fn taken(lookups: &Lookups, namespace: &str, wanted: usize) -> Vec<LookupTurn> {
        (0..wanted).map_while(|_| lookups.turn(namespace).now_or_never()).collect()
    }

    #[test]
    fn a_namespace_that_looks_for_much_leaves_turns_to_others() {
        let lookups = Lookups::default();
        let greedy = taken(&lookups, "greedy", 100);
        assert_eq!(greedy.len(), EACH);
        let small = taken(&lookups, "small", 1);
        assert_eq!(small.len(), 1);
        assert_eq!(taken(&lookups, "greedy", 1).len(), 0);
        drop(greedy);
        assert_eq!(taken(&lookups, "greedy", 100).len(), EACH);
    }

    #[test]
    fn all_together_have_no_more_than_a_vcenter_bears_and_nobody_is_kept_who_left() {
        let lookups = Lookups::default();
        let held: Vec<_> = (0..100).flat_map(|number| taken(&lookups, &format!("team-{number}"), 100)).collect();
        assert_eq!(held.len(), ALL);
        // One that waits is the next, whoever comes later.
        let mut waits = Box::pin(lookups.turn("waits"));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(held);
        assert_eq!(taken(&lookups, "late", 100).len(), EACH);
        assert!(waits.now_or_never().is_some());
        drop(taken(&lookups, "last", 1));
        assert!(lookups.own.lock().unwrap().len() <= 2, "{:?}", lookups.own);
    }
}
