//! A group's plan in the queue of its vCenter, each clone with the host that it goes to.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Action, Timestamp,
    names::Slot,
    vcenter::{backoff::Backoff, budget::Budget},
    vmgroup::{
        Desired,
        placement::{self, Candidate},
    },
};

/// What waits for its turn in a vCenter and what is under way, by the groups' namespaces and UIDs.
pub type Queue<H> = Budget<String, String, Action, H>;

/// The hosts that a group's clones can go to, as they are now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts<H> {
    /// Each of them. What is on its way to them is counted when a plan is queued.
    pub candidates: Vec<Candidate<H>>,
    /// Where the group's machines are.
    pub members: BTreeMap<Slot, H>,
}

impl<H> Default for Hosts<H> {
    fn default() -> Self {
        Self { candidates: Vec::new(), members: BTreeMap::new() }
    }
}

/// Queues what a group's plan says, in place of what its last plan said. A clone that waits keeps its host, unless nothing can be cloned
/// there any more. `failing` are the hosts that clones have failed on.
pub fn order<H: Ord + Clone>(
    queue: &mut Queue<H>,
    desired: &Desired,
    actions: &[Action],
    hosts: &Hosts<H>,
    failing: &Backoff<H>,
    now: Timestamp,
) {
    let uid = &desired.uid;
    let wanted: BTreeSet<_> = actions.iter().collect();
    queue.retain(uid, |action| wanted.contains(action));
    let before = hosts_of_clones(queue, uid);
    let mut candidates = candidates(queue, hosts, &before, failing);
    for action in actions {
        let mut host = None;
        if let Action::Clone(slot) = action {
            let stays = before.get(slot).filter(|host| placement::stays(&candidates, host, now)).cloned();
            host = stays.or_else(|| take_place(&mut candidates, uid, *slot, now));
        }
        queue.enqueue(&desired.namespace, uid, action.clone(), host);
    }
}

/// Which host each clone of a group is for that waits or is under way.
fn hosts_of_clones<H: Ord + Clone>(queue: &Queue<H>, uid: &String) -> BTreeMap<Slot, H> {
    queue.on_hosts(uid).filter_map(|(action, host)| Some((action.cloned_slot()?, host.clone()))).collect()
}

/// The hosts, with all that is on its way to them.
fn candidates<H: Ord + Clone>(
    queue: &Queue<H>,
    hosts: &Hosts<H>,
    clones: &BTreeMap<Slot, H>,
    failing: &Backoff<H>,
) -> Vec<Candidate<H>> {
    let there = hosts.members.iter().filter(|(slot, _)| !clones.contains_key(slot));
    let mut members: BTreeMap<_, usize> = BTreeMap::new();
    for (_, host) in there.chain(clones) {
        *members.entry(host).or_default() += 1;
    }
    let mut candidates = hosts.candidates.clone();
    for candidate in &mut candidates {
        candidate.members = members.get(&candidate.host).copied().unwrap_or(0);
        candidate.load = queue.load_of(&candidate.host);
        candidate.failed_until = failing.not_before(&candidate.host);
    }
    candidates
}

/// Chooses a host for the machine of a slot, and counts it there.
fn take_place<H: Clone>(candidates: &mut [Candidate<H>], group: &str, slot: Slot, now: Timestamp) -> Option<H> {
    let chosen = candidates.get_mut(placement::place(candidates, group, slot, now).ok()?)?;
    chosen.members += 1;
    chosen.load += 1;
    Some(chosen.host.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        vcenter::{backoff::Pace, budget::Limits},
        vmgroup::desired::tests::desired,
    };

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn hosts(names: &[&'static str]) -> Hosts<&'static str> {
        let candidate = |host: &&'static str| Candidate {
            host: *host,
            name: (*host).to_owned(),
            obstacle: None,
            members: 0,
            load: 0,
            failed_until: None,
        };
        Hosts { candidates: names.iter().map(candidate).collect(), ..Hosts::default() }
    }

    #[test]
    fn a_clone_that_waits_keeps_its_host_until_another_has_failed_there() {
        let desired = desired(&json!({"replicas": 4}));
        let (mut queue, mut failing) = (Queue::new(Limits::default()), Backoff::new(placement::AVOIDED));
        let clones: Vec<_> = (0..4).map(|slot| Action::Clone(Slot(slot))).collect();
        let mut order = |hosts: &Hosts<_>, failing: &_| {
            order(&mut queue, &desired, &clones, hosts, failing, NOW);
            hosts_of_clones(&queue, &desired.uid)
        };
        let first = order(&hosts(&["a", "b"]), &failing);
        assert_eq!(first.values().filter(|host| **host == "a").count(), 2, "they are spread: {first:?}");
        assert_eq!(order(&hosts(&["a", "b", "c"]), &failing), first, "none of them moves for a host that is new");
        failing.failed("a", NOW, 0, Pace::Normal);
        let later = order(&hosts(&["a", "b"]), &failing);
        assert!(later.values().all(|host| *host == "b"), "none waits for a host that fails: {later:?}");
    }

    #[test]
    fn what_a_plan_no_longer_says_waits_no_longer() {
        let desired = desired(&json!({"replicas": 2}));
        let (mut queue, failing) = (Queue::new(Limits::default()), Backoff::new(placement::AVOIDED));
        for number in [2, 1] {
            let clones: Vec<_> = (0..number).map(|slot| Action::Clone(Slot(slot))).collect();
            order(&mut queue, &desired, &clones, &hosts(&["a"]), &failing, NOW);
            assert_eq!(queue.queued(), clones.len());
        }
    }
}
