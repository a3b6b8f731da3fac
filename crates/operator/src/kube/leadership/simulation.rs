//! Replicas that come, go, stand still and are cut off, by chance: at no time do two hold one lease, and at rest all have a fair share.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::SystemTime,
};

use k8s_openapi::{api::coordination::v1::LeaseSpec, jiff::Timestamp};
use tokio::time::{Duration, Instant};

use super::{
    Timing,
    clock::Moment,
    election::Candidate,
    ledger::{Intent, Ledger, Read, Write},
};

const TIMING: Timing = Timing { keep: Duration::from_secs(20), ..super::TIMING };
const TICK: Duration = Duration::from_millis(100);
/// For how many ticks all goes wrong that can, and for how many nothing does after that.
const TROUBLE: u64 = 1500;
const REST: u64 = 1000;

/// Numbers that look like chance, and are the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

struct Replica {
    ledger: Ledger,
    /// The tick at which it goes on. It stands still, or nothing answers it, until then.
    next: u64,
    phase: Phase,
    is_cut_off: bool,
    clock_ahead: Duration,
    /// The leases in whose name nothing new is begun.
    let_go: BTreeSet<String>,
}

enum Phase {
    Look,
    /// These are on their way, asked for then, against these versions.
    Write(Vec<(Write, Option<u64>)>, Moment),
    /// These have been written, and their answers are on their way.
    Hear(Vec<Write>, Moment),
}

#[derive(Default)]
struct World {
    leases: BTreeMap<String, (LeaseSpec, u64)>,
    replicas: BTreeMap<String, Replica>,
    wanted: BTreeSet<String>,
    version: u64,
    tick: u64,
}

impl World {
    fn moment(&self, began: Instant, replica: &Replica) -> Moment {
        let time = TICK * u32::try_from(self.tick).unwrap();
        Moment {
            steady: began + time,
            wall: SystemTime::UNIX_EPOCH + Duration::from_hours(1) + time + replica.clock_ahead,
        }
    }

    /// One step of a replica's.
    fn step(&mut self, name: &str, began: Instant, chance: &mut Chance) {
        let Some(mut replica) = self.replicas.remove(name) else { return };
        let now = self.moment(began, &replica);
        let wall = Timestamp::from_millisecond(i64::try_from(self.tick).unwrap() * 100).unwrap();
        let is_slow = self.tick < TROUBLE && chance.below(10) == 0;
        let delay = 1 + if is_slow { chance.below(40) } else { chance.below(3) };
        replica.phase = match std::mem::replace(&mut replica.phase, Phase::Look) {
            Phase::Look if replica.is_cut_off => {
                replica.ledger.lapse(now);
                Phase::Look
            }
            Phase::Look => {
                let listed = self.leases.iter().map(|(name, (record, _))| (name.clone(), record.clone())).collect();
                let read = Read { listed: &listed, wanted: &self.wanted, is_of_before: false };
                let let_go = |name: &str| {
                    replica.let_go.insert(name.to_owned());
                    true
                };
                let steps = replica.ledger.look(&read, let_go, now, wall);
                let version = |write: &Write| self.leases.get(&write.name).map(|(_, version)| *version);
                let writes = steps.writes.into_iter().map(|write| {
                    let version = version(&write);
                    (write, version)
                });
                Phase::Write(writes.collect(), now)
            }
            Phase::Write(writes, asked) => {
                let mut written = Vec::new();
                for (write, version) in writes {
                    if self.leases.get(&write.name).map(|(_, version)| *version) == version {
                        self.version += 1;
                        self.leases.insert(write.name.clone(), (write.record.clone(), self.version));
                        written.push(write);
                    }
                }
                // An answer that is lost, or comes too late, is none.
                let is_heard = self.tick >= TROUBLE || chance.below(20) > 0;
                Phase::Hear(if is_heard { written } else { Vec::new() }, asked)
            }
            Phase::Hear(written, asked) => {
                for write in &written {
                    replica.ledger.written(write, asked, now);
                    if write.intent != Intent::Return {
                        replica.let_go.remove(&write.name);
                    }
                }
                Phase::Look
            }
        };
        replica.next = self.tick + if matches!(replica.phase, Phase::Look) { 10 } else { delay };
        self.replicas.insert(name.to_owned(), replica);
    }

    fn join(&mut self, number: u64, chance: &mut Chance) {
        let candidate = Candidate { identity: format!("r{number}"), lease: TIMING.lease };
        let replica = Replica {
            ledger: Ledger::new(candidate, TIMING),
            next: self.tick,
            phase: Phase::Look,
            is_cut_off: false,
            let_go: BTreeSet::new(),
            clock_ahead: Duration::from_secs(chance.below(100_000)),
        };
        self.replicas.insert(format!("r{number}"), replica);
    }

    /// Who holds each lease by their own clocks.
    fn holders(&self, began: Instant) -> BTreeMap<String, Vec<String>> {
        let mut holders: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, replica) in &self.replicas {
            let now = self.moment(began, replica);
            for lease in replica.ledger.held_at(now).filter(|lease| !replica.let_go.contains(*lease)) {
                holders.entry(lease.to_owned()).or_default().push(name.clone());
            }
        }
        holders
    }
}

fn history(seed: u64) {
    let (mut world, mut chance, began) = (World::default(), Chance(seed), Instant::now());
    world.wanted = (0..=chance.below(7)).map(|number| format!("lease-{number}")).collect();
    let mut joined = 0;
    while world.tick < TROUBLE + REST {
        world.tick += 1;
        let names: Vec<_> = world.replicas.keys().cloned().collect();
        if world.tick < TROUBLE && chance.below(40) == 0 {
            let some =
                |chance: &mut Chance| names.get(usize::try_from(chance.below(names.len().max(1) as u64)).unwrap());
            match (chance.below(6), some(&mut chance)) {
                (0 | 1, _) if names.len() < 4 => {
                    joined += 1;
                    world.join(joined, &mut chance);
                }
                (2, Some(name)) => drop(world.replicas.remove(name)),
                (3, Some(name)) => world.replicas.get_mut(name).unwrap().next += chance.below(400),
                (4, Some(name)) => world.replicas.get_mut(name).unwrap().is_cut_off ^= true,
                (5, _) => {
                    let lease = format!("lease-{}", chance.below(8));
                    if !world.wanted.remove(&lease) {
                        world.wanted.insert(lease);
                    }
                }
                _ => {}
            }
        }
        if world.tick == TROUBLE {
            joined += 1;
            world.join(joined, &mut chance);
            for replica in world.replicas.values_mut() {
                replica.is_cut_off = false;
                replica.next = replica.next.min(TROUBLE);
            }
        }
        for name in names {
            if world.replicas.get(&name).is_some_and(|replica| replica.next <= world.tick) {
                world.step(&name, began, &mut chance);
            }
        }
        for (lease, holders) in world.holders(began) {
            assert!(holders.len() < 2, "seed {seed}, tick {}: {holders:?} hold {lease}", world.tick);
        }
    }
    let holders = world.holders(began);
    let mut shares: BTreeMap<&str, usize> = world.replicas.keys().map(|name| (name.as_str(), 0)).collect();
    for lease in &world.wanted {
        let holder = holders.get(lease).and_then(|holders| holders.first());
        let holder = holder.unwrap_or_else(|| panic!("seed {seed}: nobody holds {lease}"));
        *shares.get_mut(holder.as_str()).unwrap() += 1;
    }
    let (most, fewest) = (shares.values().max().unwrap(), shares.values().min().unwrap());
    assert!(most - fewest <= 1, "seed {seed}: {shares:?}");
}

#[test]
fn at_no_time_do_two_hold_one_lease_and_at_rest_all_have_a_fair_share() {
    (0..60).for_each(history);
}
