//! What is decided of one group, by how many members it has.

use std::{hint::black_box, time::Instant};

use divan::Bencher;
use drover_core::{
    Trouble,
    names::{self, Incarnation, Slot},
    plan,
    vmgroup::{
        in_flight::{InFlight, SourceState, plan_unless},
        outcome::{Outcome, RESYNC},
        record::Record,
        report::Reporter,
    },
};

use super::site::{Site, now};

const MEMBERS: [u32; 3] = [100, 1000, 10_000];

/// A benchmark that measures something else than its name says would be worse than none: what each plans is asserted first.
fn bench_plan(bencher: Bencher<'_, '_>, site: &Site, actions: usize) {
    let (_, observed) = site.looked();
    assert_eq!(plan(&site.desired, &observed, now()).actions.len(), actions);
    bencher.bench_local(|| plan(black_box(&site.desired), black_box(&observed), now()));
}

#[divan::bench(args = MEMBERS)]
fn plan_at_rest(bencher: Bencher<'_, '_>, members: u32) {
    bench_plan(bencher, &Site::at_rest(members), 0);
}

/// By default, one at a time is replaced.
#[divan::bench(args = MEMBERS)]
fn plan_half_to_replace(bencher: Bencher<'_, '_>, members: u32) {
    bench_plan(bencher, &Site::half_outdated(members), 1);
}

/// Each is powered on at once.
#[divan::bench(args = MEMBERS)]
fn plan_half_to_power_on(bencher: Bencher<'_, '_>, members: u32) {
    bench_plan(bencher, &Site::half_off(members), members as usize / 2);
}

/// Clones are asked for in batches of at most 2000.
#[divan::bench(args = MEMBERS)]
fn plan_from_nothing(bencher: Bencher<'_, '_>, members: u32) {
    bench_plan(bencher, &Site::empty(members), members.min(2000) as usize);
}

/// The look of an operator that has looked before.
#[divan::bench(args = MEMBERS)]
fn look(bencher: Bencher<'_, '_>, members: u32) {
    let site = Site::at_rest(members);
    let (mut in_flight, observed) = site.looked();
    assert_eq!(observed.members.len(), members as usize);
    let read = Instant::now();
    bencher.bench_local(|| site.look(&mut in_flight, read));
}

/// The look of one that was just started: the record is read.
#[divan::bench(args = MEMBERS)]
fn look_first(bencher: Bencher<'_, '_>, members: u32) {
    let site = Site::at_rest(members);
    bencher.bench_local(|| site.looked());
}

/// All that a reconcile of a group at rest decides and says: look, judge, plan, order, report.
#[divan::bench(args = MEMBERS)]
fn reconcile(bencher: Bencher<'_, '_>, members: u32) {
    let site = Site::at_rest(members);
    let (mut in_flight, _) = site.looked();
    let (mut reporter, read) = (Reporter::default(), Instant::now());
    bencher.bench_local(|| reconcile_once(&site, &mut in_flight, &mut reporter, read));
}

fn reconcile_once(site: &Site, in_flight: &mut InFlight, reporter: &mut Reporter, read: Instant) {
    let (group, desired) = (&site.group, &site.desired);
    let observed = site.look(in_flight, read);
    let incident = in_flight.judge_group(group, desired, &observed, &[], now());
    let plan = plan_unless(None, desired, &observed, now());
    in_flight.note_plan(desired, &plan, false, now());
    black_box(in_flight.order(desired, &observed, &plan, SourceState::Known));
    let incident = incident.map(|incident| incident.id);
    let outcome = Outcome { plan, observed: Some(observed), incident, ..Outcome::stuck(Trouble::None, RESYNC) };
    black_box(reporter.report(group, desired, outcome, (now(), read)));
    black_box(in_flight.record.to_write());
}

/// A record as it is written and read again, with a gap at every third slot.
#[divan::bench(args = MEMBERS)]
fn record(bencher: Bencher<'_, '_>, members: u32) {
    let mut record = Record::default();
    record.reserve((0..members).map(|slot| Slot(slot + slot / 2)));
    bencher.bench_local(|| Record::read(&black_box(&record).write()));
}

/// The names and instance UUIDs of all members.
#[divan::bench(args = MEMBERS)]
fn names_of_members(bencher: Bencher<'_, '_>, members: u32) {
    let uid = "c7ff0546-b9f0-49b5-8ea6-748b1f10d039";
    bencher.bench_local(|| {
        for slot in (0..members).map(Slot) {
            black_box(names::member("vmgroup-sample", uid, slot));
            black_box(names::instance(uid, slot, Incarnation(1)));
        }
    });
}
