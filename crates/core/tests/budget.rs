//! The queue in front of a vCenter: its promises one by one, and all of them in random histories.

#[path = "model/chance.rs"]
mod chance;

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroUsize,
};

use chance::Chance;
use drover_core::vcenter::budget::{Admitted, Budget, Limits};

type Host = u64;
type Operation = (&'static str, u64);
type Queue = Budget<u64, u64, Operation, Host>;

/// The namespace of those who have only one.
const HERE: u64 = 0;
const BIG: u64 = 0;
const SMALL: u64 = 1;

fn limits(operations: u64, clones_per_host: u64) -> Limits {
    let limit = |number| NonZeroUsize::new(usize::try_from(number).unwrap()).unwrap();
    Limits { operations: limit(operations), clones_per_host: limit(clones_per_host) }
}

fn admit_all(budget: &mut Queue) -> Vec<Admitted<u64, Operation, Host>> {
    std::iter::from_fn(|| budget.admit()).collect()
}

#[test]
fn no_more_is_under_way_than_the_limits_allow() {
    let mut budget = Queue::new(limits(10, 2));
    for number in 0..20 {
        budget.enqueue(&HERE, &BIG, ("clone", number), Some(number % 2));
    }
    assert_eq!(admit_all(&mut budget).len(), 4, "two on each of two hosts");
    for number in 0..20 {
        budget.enqueue(&HERE, &BIG, ("clone on a host that isn't known", number), None);
    }
    assert_eq!(admit_all(&mut budget).len(), 6, "ten in all");
    assert_eq!((budget.in_use(), budget.queued()), (10, 30));
}

#[test]
fn what_hangs_gives_its_place_to_others_but_not_without_end() {
    let mut budget = Queue::new(limits(3, 2));
    for number in 0..20 {
        budget.enqueue(&HERE, &BIG, ("clone", number), Some(number % 2));
    }
    let hanging = admit_all(&mut budget);
    assert_eq!(hanging.len(), 3);
    assert!(hanging.iter().all(|it| budget.pass_over(&it.ticket)));
    assert!(!budget.pass_over(&hanging[0].ticket), "it has no place to give any more");
    budget.enqueue(&HERE, &BIG, ("clone", hanging[0].operation.1), Some(0));
    let others = admit_all(&mut budget);
    assert!(others.iter().all(|it| hanging.iter().all(|hangs| hangs.operation != it.operation)), "none is begun twice");
    assert_eq!((others.len(), budget.in_use()), (3, 6));
    assert!(others.iter().all(|it| budget.pass_over(&it.ticket)));
    assert_eq!(admit_all(&mut budget).len(), 0, "twice what is allowed is under way");
    for it in hanging {
        budget.finished(it.ticket);
    }
    assert_eq!(admit_all(&mut budget).len(), 3, "what has ended after all makes room");
}

#[test]
fn a_host_has_before_it_what_waits_and_what_is_under_way() {
    let mut budget = Queue::new(limits(10, 1));
    for number in 0..3 {
        budget.enqueue(&HERE, &number, ("clone", number), Some(0));
    }
    assert_eq!(admit_all(&mut budget).len(), 1);
    assert_eq!((budget.load_of(&0), budget.load_of(&1)), (3, 0));
}

#[test]
fn a_group_knows_which_hosts_its_own_operations_are_for() {
    let mut budget = Queue::new(limits(10, 1));
    for number in 0..4 {
        budget.enqueue(&HERE, &BIG, ("clone", number), Some(number % 2));
    }
    budget.enqueue(&HERE, &BIG, ("power", 9), None);
    budget.enqueue(&HERE, &SMALL, ("clone", 0), Some(0));
    assert_eq!(admit_all(&mut budget).len(), 3);
    let on_hosts: BTreeMap<_, _> = budget.on_hosts(&BIG).collect();
    let clones = [("clone", 0), ("clone", 1), ("clone", 2), ("clone", 3)];
    assert_eq!(on_hosts, clones.iter().zip([&0, &1, &0, &1]).collect());
}

#[test]
fn what_waits_for_a_host_holds_up_nothing_else_of_its_group() {
    let mut budget = Queue::new(limits(10, 1));
    budget.enqueue(&HERE, &BIG, ("clone", 0), Some(0));
    budget.enqueue(&HERE, &BIG, ("clone", 1), Some(0));
    budget.enqueue(&HERE, &BIG, ("clone", 2), Some(1));
    budget.enqueue(&HERE, &BIG, ("power", 3), None);
    let admitted: Vec<_> = admit_all(&mut budget).into_iter().map(|admitted| admitted.operation).collect();
    assert_eq!(admitted, [("clone", 0), ("clone", 2), ("power", 3)]);
}

#[test]
fn first_come_is_first_served_within_a_group() {
    let mut budget = Queue::new(limits(1, 1));
    for number in [3, 1, 2] {
        budget.enqueue(&HERE, &BIG, ("power", number), None);
    }
    for number in [3, 1, 2] {
        let admitted = budget.admit().unwrap();
        assert_eq!(admitted.operation, ("power", number));
        budget.finished(admitted.ticket);
    }
}

#[test]
fn asking_twice_is_asking_once_until_it_has_finished() {
    let mut budget = Queue::new(limits(10, 1));
    budget.enqueue(&HERE, &BIG, ("power", 0), None);
    budget.enqueue(&HERE, &BIG, ("power", 0), None);
    assert_eq!(budget.queued(), 1);
    let admitted = budget.admit().unwrap();
    budget.enqueue(&HERE, &BIG, ("power", 0), None);
    assert_eq!(budget.queued(), 0);
    budget.enqueue(&HERE, &SMALL, ("power", 0), None);
    assert_eq!(budget.queued(), 1, "another group's is another");
    budget.finished(admitted.ticket);
    budget.enqueue(&HERE, &BIG, ("power", 0), None);
    assert_eq!(budget.queued(), 2);
}

#[test]
fn an_operation_that_is_asked_for_on_another_host_keeps_its_place() {
    let mut budget = Queue::new(limits(1, 1));
    budget.enqueue(&HERE, &BIG, ("clone", 0), Some(0));
    budget.enqueue(&HERE, &BIG, ("clone", 1), Some(1));
    budget.enqueue(&HERE, &BIG, ("clone", 0), Some(1));
    let admitted = budget.admit().unwrap();
    assert_eq!((admitted.operation, admitted.host), (("clone", 0), Some(1)));
}

#[test]
fn what_is_forgotten_or_no_longer_wanted_leaves_the_queue_and_what_is_under_way_still_counts() {
    let mut budget = Queue::new(limits(2, 1));
    for number in 0..6 {
        budget.enqueue(&HERE, &BIG, ("power", number), None);
    }
    let tickets: Vec<_> = admit_all(&mut budget).into_iter().map(|admitted| admitted.ticket).collect();
    budget.retain(&BIG, |(_, number)| *number < 4);
    assert_eq!((budget.in_use(), budget.queued()), (2, 2));
    budget.forget(&BIG);
    assert_eq!((budget.in_use(), budget.queued()), (2, 0));
    budget.enqueue(&HERE, &SMALL, ("power", 0), None);
    assert_eq!(budget.admit(), None);
    for ticket in tickets {
        budget.finished(ticket);
    }
    assert_eq!(budget.in_use(), 0);
    assert!(budget.admit().is_some());
}

#[test]
fn a_thousand_machines_do_not_starve_three() {
    for host in [None, Some(0)] {
        let mut budget = Queue::new(limits(8, 4));
        (0..1000).for_each(|number| budget.enqueue(&HERE, &BIG, ("clone", number), host));
        let mut under_way: Vec<_> = admit_all(&mut budget);
        (0..3).for_each(|number| budget.enqueue(&HERE, &SMALL, ("clone", number), host));
        let mut order = Vec::new();
        for _ in 0..6 {
            budget.finished(under_way.remove(0).ticket);
            under_way.extend(admit_all(&mut budget));
            order.extend(under_way.last().map(|admitted| admitted.group));
        }
        assert_eq!(order.iter().filter(|group| **group == SMALL).count(), 3, "{order:?}");
    }
}

#[test]
fn a_group_that_does_much_elsewhere_still_has_its_turns_on_a_host_that_all_want() {
    let mut budget = Queue::new(limits(100, 1));
    (0..10).for_each(|number| budget.enqueue(&HERE, &BIG, ("clone", number), Some(0)));
    let mut on_host = budget.admit().unwrap();
    budget.enqueue(&HERE, &SMALL, ("clone", 0), Some(0));
    let mut order = Vec::new();
    for number in 0..3 {
        // With this the small group has always had its turn later than the big one.
        budget.enqueue(&HERE, &SMALL, ("power", number), None);
        assert_eq!(budget.admit().unwrap().operation, ("power", number));
        budget.finished(on_host.ticket);
        on_host = budget.admit().unwrap();
        order.push(on_host.group);
    }
    assert_eq!(order, [BIG, SMALL, BIG]);
}

#[test]
fn a_group_that_comes_again_and_again_waits_for_the_others_each_time() {
    let mut budget = Queue::new(limits(1, 1));
    (0..10).for_each(|number| budget.enqueue(&HERE, &BIG, ("power", number), None));
    let mut order = Vec::new();
    for number in 0..6 {
        budget.enqueue(&HERE, &SMALL, ("power", number), None);
        let admitted = budget.admit().unwrap();
        order.push(admitted.group);
        budget.finished(admitted.ticket);
        if admitted.group == SMALL {
            budget.forget(&SMALL);
        }
    }
    assert_eq!(order, [BIG, SMALL, BIG, SMALL, BIG, SMALL]);
}

#[test]
fn a_late_group_waits_for_one_round_of_the_others_at_a_time() {
    for seed in 0..300 {
        let chance = &mut Chance::from_seed(seed);
        let mut budget = Queue::new(limits(1 + chance.below(20), 1 + chance.below(4)));
        let groups = 1 + chance.below(8);
        let late = groups;
        for group in 0..groups {
            for number in 0..50 + chance.below(100) {
                let host = chance.percent(70).then(|| chance.below(3));
                budget.enqueue(&HERE, &group, ("any", number), host);
            }
        }
        let mut under_way = admit_all(&mut budget);
        let host = chance.percent(50).then_some(0);
        (0..3).for_each(|number| budget.enqueue(&HERE, &late, ("any", number), host));
        let mut served: BTreeMap<u64, usize> = BTreeMap::new();
        let mut rounds = 0;
        while rounds < 3 {
            let index = usize::try_from(chance.below(under_way.len() as u64)).unwrap();
            budget.finished(under_way.swap_remove(index).ticket);
            for admitted in admit_all(&mut budget) {
                if admitted.group == late {
                    rounds += 1;
                } else if host.is_none() || admitted.host == host {
                    let turns = served.entry(admitted.group).or_default();
                    *turns += 1;
                    assert!(*turns <= rounds + 1, "seed {seed}: group {} goes before its turn", admitted.group);
                }
                under_way.push(admitted);
            }
        }
    }
}

#[test]
fn a_namespace_of_a_hundred_groups_delays_another_by_one_turn() {
    const SMALL: u64 = 100;
    let namespace_of = |group: u64| u64::from(group == SMALL);
    for (operations, hosts) in [1, 2, 7, 20].into_iter().flat_map(|most| [0, 1, 3].map(|hosts| (most, hosts))) {
        let mut budget = Queue::new(limits(operations, operations));
        let host_of = |group: u64, number: u64| (group + number).checked_rem(hosts);
        for (group, number) in (0..100).flat_map(|group| (0..100).map(move |number| (group, number))) {
            budget.enqueue(&namespace_of(group), &group, ("clone", number), host_of(group, number));
        }
        let mut under_way: Vec<_> = admit_all(&mut budget);
        for number in 0..8 {
            budget.enqueue(&namespace_of(SMALL), &SMALL, ("clone", number), host_of(0, number / 2));
        }
        let mut order = Vec::new();
        for _ in 0..16 {
            budget.finished(under_way.remove(0).ticket);
            under_way.extend(admit_all(&mut budget));
            order.extend(under_way.last().map(|admitted| namespace_of(admitted.group)));
        }
        assert_eq!(order, [0, 1].repeat(8), "{operations} at once, on {hosts} hosts");
    }
}

#[test]
fn the_groups_of_a_namespace_share_its_turns() {
    for host in [None, Some(0)] {
        let mut budget = Queue::new(limits(1, 1));
        (0..100).for_each(|number| budget.enqueue(&0, &BIG, ("clone", number), host));
        (0..3).for_each(|number| budget.enqueue(&0, &SMALL, ("clone", number), host));
        (0..100).for_each(|number| budget.enqueue(&1, &2, ("clone", number), host));
        let mut order = Vec::new();
        for _ in 0..8 {
            let admitted = budget.admit().unwrap();
            order.push(admitted.group);
            budget.finished(admitted.ticket);
        }
        assert_eq!(order, [BIG, 2, SMALL, 2, BIG, 2, SMALL, 2]);
    }
}

#[test]
fn a_namespace_that_does_much_elsewhere_still_has_its_turns_on_a_host_that_all_want() {
    let mut budget = Queue::new(limits(100, 1));
    // Two groups in one namespace, and one in another that has always been served later than they.
    (0..10).for_each(|number| budget.enqueue(&0, &(number % 2), ("clone", number), Some(0)));
    let mut on_host = budget.admit().unwrap();
    budget.enqueue(&1, &2, ("clone", 0), Some(0));
    budget.enqueue(&1, &2, ("clone", 1), Some(0));
    let mut order = Vec::new();
    for number in 0..5 {
        budget.enqueue(&1, &2, ("power", number), None);
        assert_eq!(budget.admit().unwrap().operation, ("power", number));
        budget.finished(on_host.ticket);
        on_host = budget.admit().unwrap();
        order.push(on_host.group);
    }
    assert_eq!(order, [1, 2, 0, 2, 1]);
}

#[test]
fn a_late_namespace_waits_for_one_round_of_the_others_at_a_time() {
    for seed in 0..300 {
        let chance = &mut Chance::from_seed(seed);
        let mut budget = Queue::new(limits(1 + chance.below(20), 1 + chance.below(4)));
        let namespaces = 1 + chance.below(5);
        let late = namespaces;
        // A group's namespace is its number's hundreds.
        for namespace in 0..namespaces {
            for group in 0..=chance.below(8) {
                for number in 0..20 + chance.below(40) {
                    let host = chance.percent(70).then(|| chance.below(3));
                    budget.enqueue(&namespace, &(100 * namespace + group), ("any", number), host);
                }
            }
        }
        let mut under_way = admit_all(&mut budget);
        let host = chance.percent(50).then_some(0);
        (0..3).for_each(|number| budget.enqueue(&late, &(100 * late), ("any", number), host));
        let mut served: BTreeMap<u64, usize> = BTreeMap::new();
        let mut rounds = 0;
        while rounds < 3 {
            let index = usize::try_from(chance.below(under_way.len() as u64)).unwrap();
            budget.finished(under_way.swap_remove(index).ticket);
            for admitted in admit_all(&mut budget) {
                let namespace = admitted.group / 100;
                if namespace == late {
                    rounds += 1;
                } else if host.is_none() || admitted.host == host {
                    let turns = served.entry(namespace).or_default();
                    *turns += 1;
                    assert!(*turns <= rounds + 1, "seed {seed}: namespace {namespace} goes before its turn");
                }
                under_way.push(admitted);
            }
        }
    }
}

#[test]
fn nothing_starves_however_much_more_is_asked_for() {
    const GROUPS: u64 = 12;
    for seed in 0..50 {
        let chance = &mut Chance::from_seed(seed);
        let mut budget = Queue::new(limits(1 + chance.below(8), 1 + chance.below(3)));
        let namespaces = 1 + chance.below(4);
        // What waits, with how many may be admitted before it: on its host, or at all where it waits for none.
        let mut left: BTreeMap<(u64, Operation), (Option<Host>, u64)> = BTreeMap::new();
        let mut under_way = Vec::new();
        let mut number = 0;
        for _ in 0..600 {
            // More comes than can be done, also of groups that have nothing left.
            for _ in 0..2 {
                number += 1;
                let (group, host) = (chance.below(GROUPS), chance.percent(70).then(|| chance.below(3)));
                let ahead = left.keys().filter(|(other, _)| *other == group).count() as u64;
                left.insert((group, ("any", number)), (host, 2 * GROUPS * (ahead + 2)));
                budget.enqueue(&(group % namespaces), &group, ("any", number), host);
            }
            for admitted in admit_all(&mut budget) {
                left.remove(&(admitted.group, admitted.operation));
                for (waiting, (host, before)) in &mut left {
                    if host.is_none() || *host == admitted.host {
                        *before = before.checked_sub(1).unwrap_or_else(|| panic!("seed {seed}: {waiting:?} starves"));
                    }
                }
                under_way.push(admitted);
            }
            let index = usize::try_from(chance.below(under_way.len() as u64)).unwrap();
            budget.finished(under_way.swap_remove(index).ticket);
        }
    }
}

/// What the queue should know, kept in the plainest way.
#[derive(Default)]
struct Model {
    queued: BTreeMap<(u64, Operation), Option<Host>>,
    under_way: Vec<Admitted<u64, Operation, Host>>,
}

impl Model {
    fn is_under_way(&self, key: &(u64, Operation)) -> bool {
        self.under_way.iter().any(|other| (other.group, other.operation) == *key)
    }

    fn is_full(&self, host: Option<Host>, limits: Limits) -> bool {
        let clones = self.under_way.iter().filter(|other| other.host == host).count();
        self.under_way.len() >= limits.operations.get() || host.is_some() && clones >= limits.clones_per_host.get()
    }

    /// Admits all that can be, and checks each; nothing that could go is left.
    fn admit(&mut self, budget: &mut Queue, limits: Limits) {
        while let Some(admitted) = budget.admit() {
            assert!(!self.is_full(admitted.host, limits), "{admitted:?} is over the limits");
            let key = (admitted.group, admitted.operation);
            assert!(!self.is_under_way(&key), "{admitted:?} is under way already");
            assert_eq!(self.queued.remove(&key), Some(admitted.host), "{admitted:?} isn't what was asked for");
            self.under_way.push(admitted);
        }
        let left: BTreeSet<_> = self.queued.values().copied().collect();
        assert!(left.into_iter().all(|host| self.is_full(host, limits)), "something waits that could go");
    }
}

fn play(seed: u64) {
    let chance = &mut Chance::from_seed(seed);
    let mut now = limits(1 + chance.below(12), 1 + chance.below(3));
    let (mut budget, mut model) = (Queue::new(now), Model::default());
    let namespaces = 1 + seed % 3;
    for _ in 0..300 {
        let group = chance.below(4);
        match chance.below(10) {
            0..5 => {
                let kind = chance.pick(&["clone", "power", "destroy"]).copied().unwrap_or("clone");
                let operation = (kind, chance.below(8));
                let host = (kind == "clone" && chance.percent(80)).then(|| chance.below(3));
                budget.enqueue(&(group % namespaces), &group, operation, host);
                if !model.is_under_way(&(group, operation)) {
                    model.queued.insert((group, operation), host);
                }
            }
            5..8 if !model.under_way.is_empty() => {
                let index = usize::try_from(chance.below(model.under_way.len() as u64)).unwrap();
                budget.finished(model.under_way.swap_remove(index).ticket);
            }
            8 if chance.percent(20) => {
                budget.forget(&group);
                model.queued.retain(|(other, _), _| *other != group);
            }
            8 => {
                budget.retain(&group, |(_, number)| number % 3 != 0);
                model.queued.retain(|(other, (_, number)), _| *other != group || number % 3 != 0);
            }
            9 if chance.percent(20) => {
                now = limits(1 + chance.below(12), 1 + chance.below(3));
                budget.set_limits(now);
            }
            _ => model.admit(&mut budget, now),
        }
        assert_eq!((budget.in_use(), budget.queued()), (model.under_way.len(), model.queued.len()));
    }
    // When things end, all that was asked for is admitted.
    for _ in 0..=model.queued.len() {
        model.under_way.drain(..).for_each(|admitted| budget.finished(admitted.ticket));
        model.admit(&mut budget, now);
    }
    assert_eq!((budget.queued(), model.queued.len()), (0, 0));
}

#[test]
fn every_history_keeps_the_limits_loses_nothing_and_does_nothing_twice() {
    for seed in 0..1000 {
        let played = std::panic::catch_unwind(|| play(seed));
        assert!(played.is_ok(), "history {seed} went wrong");
    }
}
