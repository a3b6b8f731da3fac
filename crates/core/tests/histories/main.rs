//! Thousands of histories: a group kept by the code that runs in production, on a model of vCenter in virtual time, with edits, faults,
//! drift, crashes, late news, outages and all else that may happen, combined by chance.
//!
//! Most of them are the same each time, and one in ten is new. A failure prints the seed that plays it again, step by step: `HISTORY=<seed> cargo
//! test -p drover-core --test histories -- --nocapture`. `HISTORIES=<number>` plays more, and `SEED=<number>` sets where the new ones begin.

mod bounds;
mod checks;
mod churn;
mod edits;
mod history;
#[path = "../model/mod.rs"]
mod model;
mod news;
mod plans;
mod rest;
mod strangers;
mod troubles;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    thread,
    time::SystemTime,
};

use history::{Counts, play};

/// What has to happen.
const EVENTS: &[&str] = &[
    "edit: more replicas",
    "edit: fewer replicas",
    "edit: template",
    "edit: hardware",
    "edit: InPlaceFirst",
    "edit: Replace",
    "edit: OnDelete",
    "edit: powered on",
    "edit: powered off",
    "edit: suspended",
    "edit: paused",
    "edit: no longer paused",
    "edit: scale-in order",
    "edit: lost VMs",
    "edit: shutdown grace",
    "edit: deleted with Delete",
    "edit: deleted with PowerOff",
    "edit: deleted with Retain",
    "all kinds of trouble in one history",
    "call refused",
    "no answer",
    "task fails",
    "task fails after its effect",
    "template deleted",
    "template deleted during a rollout",
    "template is back",
    "clone without its template",
    "mirror late",
    "update told late",
    "update lost until everything is read again",
    "older update told after a newer one",
    "end of a task told twice",
    "end of a task told late",
    "end of a task told to nobody",
    "crash at rest",
    "crash before an operation",
    "crash between two operations",
    "crash after an operation",
    "crash before a record's write",
    "crash after a record's write",
    "second operator",
    "outage",
    "outage during a plan",
    "operation left in the queue",
    "member powered off",
    "member suspended",
    "member's hardware changed",
    "member renamed",
    "member moved away",
    "member destroyed",
    "member copied",
    "member copied to a template",
    "member restored beside itself",
    "copy of a member in a member's place",
    "VM of another group in the folder",
    "VM of another cluster's group",
    "stranger in the folder",
    "stranger in a member's place",
    "member hidden",
    "member disconnected",
    "member inaccessible",
    "member unregistered",
    "all that were out of sight are back",
    "folder renamed",
    "folder moved",
    "folder destroyed",
    "clock set ahead by an hour or more",
    "clock set back by an hour or more",
    "quota",
    "mark",
    "given up",
    "given up and replaced",
    "incident released",
    "looked at again, and nothing to do",
];

fn number(variable: &str) -> Option<u64> {
    Some(std::env::var(variable).ok()?.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn whatever_happens_every_promise_is_kept() {
    let mut counts = Counts::new();
    if let Some(seed) = number("HISTORY") {
        return play(seed, true, &mut counts);
    }
    let all = number("HISTORIES").unwrap_or(10_000);
    let new = all / 10;
    let kept = all - new;
    let today = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let first = number("SEED").unwrap_or(today * 1_000_000);
    println!("histories 0 to {kept}, and {new} from SEED={first}");
    let seeds: Vec<u64> = (0..kept).chain(first..first + new).collect();
    let wrong = play_all(&seeds, &mut counts);
    assert!(wrong.is_empty(), "{wrong:?} went wrong, and there may be more");
    for (what, count) in &counts {
        println!("{count:>8} {what}");
    }
    let is_rare = |what: &&&str| counts.get(**what).copied().unwrap_or(0) < all / 2000;
    let rare: Vec<_> = EVENTS.iter().filter(is_rare).collect();
    assert!(rare.is_empty(), "{rare:?} happen too seldom to show anything");
}

/// Plays histories on all cores, and returns the seeds of those that went wrong, up to about ten.
fn play_all(seeds: &[u64], counts: &mut Counts) -> Vec<u64> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let wrong = Mutex::new(Vec::new());
    let play_some = |first: usize| {
        let mut counts = Counts::new();
        for seed in seeds.iter().skip(first).step_by(threads) {
            if wrong.lock().unwrap().len() >= 10 {
                break;
            }
            if catch_unwind(AssertUnwindSafe(|| play(*seed, false, &mut counts))).is_err() {
                println!("history {seed} went wrong: HISTORY={seed} plays it again, step by step");
                wrong.lock().unwrap().push(*seed);
            }
        }
        counts
    };
    thread::scope(|scope| {
        let players: Vec<_> = (0..threads).map(|first| scope.spawn(move || play_some(first))).collect();
        for player in players {
            for (what, count) in player.join().unwrap() {
                *counts.entry(what).or_default() += count;
            }
        }
    });
    wrong.into_inner().unwrap()
}
