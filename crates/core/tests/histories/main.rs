//! Thousands of histories: a group planned against a model of vCenter in virtual time, with edits, faults, drift, crashes and
//! stale views. A failure prints the seed that plays it again: `HISTORY=<seed> cargo test -p drover-core --test histories`.

mod chance;
mod history;
mod operator;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use history::{Kind, play};

/// Plays so many histories of a kind.
fn play_all(kind: Kind, count: u64) {
    if let Ok(seed) = std::env::var("HISTORY") {
        play(kind, seed.parse().expect("HISTORY is a number"), true);
        return;
    }
    for seed in 0..count {
        let played = catch_unwind(AssertUnwindSafe(|| play(kind, seed, false)));
        assert!(played.is_ok(), "history {seed} of {kind:?} went wrong: HISTORY={seed} plays it again, step by step");
    }
}

#[test]
fn edits_alone_keep_every_promise() {
    play_all(Kind::Edits, 3000);
}

#[test]
fn faults_and_stale_views_keep_every_promise() {
    play_all(Kind::Faults, 3000);
}

#[test]
fn crashes_and_two_operators_never_make_a_second_machine_for_a_slot() {
    play_all(Kind::Crashes, 3000);
}

#[test]
fn drift_is_put_right_and_strangers_are_left_alone() {
    play_all(Kind::Drift, 3000);
}
