use std::time::SystemTime;

use tokio::time::Duration;

use super::*;

const LEASES: [&str; 4] = ["a", "b", "c", "d"];

/// Leases as an API server has them, and the ledger of the replica `me`.
struct Scene {
    ledger: Ledger,
    listed: BTreeMap<String, LeaseSpec>,
    began: Instant,
    second: u64,
}

impl Scene {
    fn new() -> Self {
        let candidate = Candidate { identity: "me".to_owned(), lease: super::super::TIMING.lease };
        let ledger = Ledger::new(candidate, super::super::TIMING);
        Self { ledger, listed: BTreeMap::new(), began: Instant::now(), second: 0 }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_second(i64::try_from(self.second).unwrap()).unwrap()
    }

    /// Has a replica hold leases and renew its presence, or give all back.
    fn write(&mut self, replica: &str, number: usize, leases: &[&str], holds: bool) {
        let candidate = Candidate { identity: replica.to_owned(), lease: super::super::TIMING.lease };
        for name in leases.iter().map(ToString::to_string).chain([names::presence(number)]) {
            let taken = candidate.taken(&LeaseSpec::default(), self.wall());
            let record = if holds { Some(taken) } else { candidate.returned(&taken, self.wall()) };
            self.listed.insert(name, record.unwrap());
        }
    }

    /// Lets a second pass, and has `me` look and write.
    fn look(&mut self) {
        self.second += 1;
        let time = Duration::from_secs(self.second);
        let now = Moment { steady: self.began + time, wall: SystemTime::UNIX_EPOCH + time };
        let wanted = LEASES.iter().map(ToString::to_string).collect();
        let read = Read { listed: &self.listed.clone(), wanted: &wanted, is_of_before: false };
        for write in self.ledger.look(&read, |_| true, now, self.wall()).writes {
            self.listed.insert(write.name.clone(), write.record.clone());
            self.ledger.written(&write, now, now);
        }
    }

    fn held(&self) -> usize {
        LEASES.iter().filter(|name| self.listed.get(**name).and_then(holder) == Some("me")).count()
    }
}

#[test]
fn where_nobody_has_been_there_for_long_the_one_that_came_first_takes_everything() {
    let mut scene = Scene::new();
    scene.write("old", 0, &LEASES, true);
    scene.look();
    scene.write("newer", 5, &[], true);
    scene.look();
    scene.write("old", 0, &LEASES, false);
    scene.look();
    assert_eq!(scene.held(), LEASES.len(), "the newer one leaves all of it to this one");
    let held = (0..15).map(|_| {
        scene.write("newer", 5, &[], true);
        scene.look();
        scene.held()
    });
    assert_eq!(held.min(), Some(2), "the newer one is given its share once it has stayed");
}

#[test]
fn one_that_was_killed_at_its_start_is_given_nothing_while_its_presence_runs_out() {
    let mut scene = Scene::new();
    scene.look();
    scene.look();
    assert_eq!(scene.held(), LEASES.len());
    scene.write("killed", 5, &[], true);
    for second in 0..20 {
        scene.look();
        assert_eq!(scene.held(), LEASES.len(), "after {second} s");
    }
}
