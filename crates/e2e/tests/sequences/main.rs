//! Declarations in sequence, as Acto makes them: edits of objects of every kind, from the schemas themselves, valid, at a border, beyond it
//! and contradictory. Each is refused with a sentence, or comes to what it declares or to an error that the object tells; and the next valid
//! declaration is always reached.
//!
//! `make sequences N=500 SEED=7` plays more of them, and `SEQUENCE=17` with the same seed one alone.

mod contradictions;
mod plans;
mod play;

use std::{
    env,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use drover_e2e::{Chance, Operator, Sandbox};
use plans::{Catalogue, Plan};
use play::{Tally, play};
use serde_json::json;

/// How many are played at once: they wait more than they work.
const PLAYERS: usize = 10;
/// How many there are where nobody says: the same each time.
const FEW: u64 = 40;
/// No namespace may have more VMs than this, so that a group of 10000 is none of the sandbox's troubles.
const QUOTA: u64 = 4;

#[test]
fn every_sequence_of_declarations_ends_as_declared_or_says_why_not() {
    let number = |name: &str| {
        env::var(name).ok().filter(|text| !text.is_empty()).map(|text| text.parse().expect("it is a number"))
    };
    let is_part_of_all = number("N").is_none() && number("SEED").is_none();
    let (count, seed) = (number("N").unwrap_or(FEW), if is_part_of_all { 1 } else { Chance::seed() });
    let sandbox = Sandbox::start("sequences", &["--clone-delay=50ms", "--hosts=2"]).unwrap();
    sandbox.install_kinds();
    sandbox.vcenter().declare(&sandbox, "default", &json!({"namespaces": {}, "allow": [{"quota": {"vms": QUOTA}}]}));
    let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    let catalogue = Catalogue::read(&sandbox);
    let wanted = number("SEQUENCE").map_or(0..count, |one: u64| one..one + 1);
    let plans: Vec<_> = wanted.map(|number| catalogue.plan(seed, number)).collect();
    eprintln!("{count} sequences, SEED={seed}");
    let began = Instant::now();
    // A VCenter may come to serve everybody's namespaces, so these are played when the others are done.
    let (vcenters, others): (Vec<_>, Vec<_>) = plans.into_iter().partition(|plan| plan.kind == "VCenter");
    let mut wrong = Vec::new();
    let mut sum = Tally::default();
    for plans in [others, vcenters] {
        wrong.extend(play_all(&sandbox, &plans, &mut sum));
    }
    eprintln!("{count} sequences in {:.0} s: {sum:?}", began.elapsed().as_secs_f64());
    let admitted = sum.ready + sum.stalled + sum.at_work;
    assert!(wrong.is_empty(), "{} sequences go wrong:\n\n{}", wrong.len(), wrong.join("\n\n"));
    let is_one = number("SEQUENCE").is_some();
    assert!(is_one || admitted > (admitted + sum.refused) / 4, "hardly anything was let in: {sum:?}");
}

/// Plays sequences side by side, and returns what is wrong with which.
fn play_all(sandbox: &Sandbox, plans: &[Plan], sum: &mut Tally) -> Vec<String> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                let mut namespace = None;
                while let Some(plan) = plans.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let own = namespace.take().unwrap_or_else(|| sandbox.namespace(&format!("s-{}", plan.number)));
                    let result = play(sandbox, &own, plan);
                    // One that went wrong may have left something.
                    namespace = result.is_ok().then_some(own);
                    results.lock().expect("nobody panics with it").push((plan, result));
                }
            });
        }
    });
    let mut wrong = Vec::new();
    for (plan, result) in results.into_inner().expect("nobody has panicked with it") {
        match result {
            Ok(tally) => {
                sum.refused += tally.refused;
                sum.ready += tally.ready;
                sum.stalled += tally.stalled;
                sum.at_work += tally.at_work;
            }
            Err(error) => {
                let fields: Vec<_> = plan.edits.iter().map(|edit| edit.fields.join(" and ")).collect();
                wrong.push(format!("SEED={} SEQUENCE={} {} {fields:?}: {error}", plan.seed, plan.number, plan.kind));
            }
        }
    }
    wrong
}
