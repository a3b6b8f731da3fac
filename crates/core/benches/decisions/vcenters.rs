//! What is decided of all groups of a vCenter together.

use std::{collections::VecDeque, hint::black_box};

use divan::Bencher;
use drover_core::{
    Action,
    names::Slot,
    vcenter::{
        brake::{Brake, Losses, Scope},
        budget::{Budget, Limits, Ticket},
    },
    vmgroup::in_flight::InFlight,
};

use super::site::{Site, now};

/// How many hosts a vCenter has here.
const HOSTS: u32 = 32;
/// How many operations wait. Each group has ten of them, and each namespace ten groups.
const QUEUED: [u32; 3] = [50, 500, 5000];

/// The group whose operations are under way at first.
const ANOTHER: u32 = 1_000_000;

type Queue = Budget<u32, u32, Action, u32>;

fn clone_of(group: u32, slot: u32) -> (Action, Option<u32>) {
    (Action::Clone(Slot(slot)), Some((10 * group + slot) % HOSTS))
}

fn enqueue(queue: &mut Queue, group: u32, slot: u32) {
    let (action, host) = clone_of(group, slot);
    queue.enqueue(&(group / 10), &group, action, host);
}

/// A queue in which so many wait, while as much is under way as may be.
fn busy_queue(queued: u32) -> (Queue, VecDeque<(Ticket, u32, u32)>) {
    let mut queue = Queue::new(Limits::default());
    let places = u32::try_from(Limits::default().operations.get()).expect("few operations are done at once");
    for place in 0..places {
        enqueue(&mut queue, ANOTHER, place);
    }
    let mut under_way = VecDeque::new();
    while let Some(admitted) = queue.admit() {
        let slot = admitted.operation.cloned_slot().map_or(0, |slot| slot.0);
        under_way.push_back((admitted.ticket, admitted.group, slot));
    }
    for number in 0..queued {
        enqueue(&mut queue, number / 10, number % 10);
    }
    assert_eq!((queue.queued(), under_way.len()), (queued as usize, places as usize));
    (queue, under_way)
}

/// One operation ends, and of all that wait, the one is chosen whose turn it is. The one that has ended waits again, so that their number
/// stays.
#[divan::bench(args = QUEUED)]
fn budget_next_turn(bencher: Bencher<'_, '_>, queued: u32) {
    let (mut queue, mut under_way) = busy_queue(queued);
    bencher.bench_local(|| {
        if let Some((ticket, group, slot)) = under_way.pop_front() {
            queue.finished(ticket);
            enqueue(&mut queue, group, slot);
        }
        let admitted = queue.admit().expect("something waits, and there is a place for it");
        let slot = admitted.operation.cloned_slot().map_or(0, |slot| slot.0);
        under_way.push_back((admitted.ticket, admitted.group, slot));
    });
}

/// A plan of ten actions is queued again, as each reconcile does.
#[divan::bench(args = QUEUED)]
fn budget_order_again(bencher: Bencher<'_, '_>, queued: u32) {
    let (mut queue, _under_way) = busy_queue(queued);
    let wanted: Vec<_> = (0..10).map(|slot| clone_of(0, slot)).collect();
    bencher.bench_local(|| {
        queue.retain(&0, |action| wanted.iter().any(|(other, _)| other == action));
        for (action, host) in &wanted {
            queue.enqueue(&0, &0, action.clone(), *host);
        }
    });
}

/// Whether so many VMs are missing that everything has to stop, of groups of 20 with so many members together.
#[divan::bench(args = [100, 1000, 10_000])]
fn brake_of_vcenter(bencher: Bencher<'_, '_>, members: u32) {
    let groups: Vec<_> = (0..members / 20).map(|number| Site::named(&format!("group-{number}"), 20)).collect();
    let groups: Vec<_> = groups.iter().map(|site| (site.desired.uid.clone(), site.looked().0)).collect();
    let mut brake = Brake::new(Scope::VCenter);
    bencher.bench_local(|| {
        let losses = losses(black_box(&groups));
        assert_eq!(losses.members, members as usize);
        brake.judge(&losses, now())
    });
}

fn losses(groups: &[(String, InFlight)]) -> Losses<'_> {
    let mut all = Losses { name: "vcenter", ..Losses::default() };
    for (uid, in_flight) in groups {
        let (members, missing) = in_flight.losses(uid);
        all.members += members;
        all.missing.extend(missing);
    }
    all
}
