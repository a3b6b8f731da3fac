//! `make soak`: a storm of everything that may happen, chosen by chance from a seed, on one sandbox. In the end all faults are lifted, and
//! the world has to be exactly as declared. `docs/reliability.md` says what is done and what is checked.

mod actions;
mod checks;
mod crashes;
mod drift;
mod edits;
mod faults;
mod memory;
mod model;
mod people;
mod report;
mod storm;

use std::{
    collections::BTreeMap,
    env, fs,
    io::Write,
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Chance, Gate, Sandbox};
use memory::Watch;
use report::WHOLE;
use serde_json::json;
use storm::Storm;

/// How often the world is looked at during the storm.
const LOOK: Duration = Duration::from_secs(2);
/// How long it rages at a stretch, by a chance of its own.
const ROUND: Duration = Duration::from_secs(100);
/// How long nothing happens after it, so that it can be seen what groups say of themselves, and which VMs they keep from then on.
const LULL: Duration = Duration::from_secs(22);
/// In this last part of the storm no operator is ended, so that the memory of one can be watched.
const WATCHED: f64 = 0.6;
/// For how long nothing may be done any more in the end: longer than a long poll lasts; and after a long storm, so long that everything is
/// looked at again by itself.
const REST: Duration = Duration::from_secs(50);
const LONG_REST: Duration = Duration::from_secs(330);
const LONG: Duration = Duration::from_mins(30);

fn main() -> ExitCode {
    let time =
        env::var("T").ok().filter(|time| !time.is_empty()).map_or(Duration::from_hours(1), |time| duration(&time));
    let seed = Chance::seed();
    println!("soak: SEED={seed}, {} s", time.as_secs());
    let sandbox: &'static Sandbox = Box::leak(Box::new(start(&mut Chance::from_seed(seed))));
    let mut storm = set_up(sandbox, seed);
    let kept = kept(seed);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let watch = rage(&mut storm, seed, time, &kept);
        settle(&mut storm, &watch, time)
    }));
    if let Ok(memory) = outcome {
        report::write(&storm, seed, time, &memory, &kept.with_extension("json"));
        println!("soak: survived, SEED={seed}");
        return ExitCode::SUCCESS;
    }
    keep_logs(sandbox, &kept);
    println!("{}", report::table(&storm.counts, &storm.hits));
    println!(
        "soak: FAILED: have the same actions again with SEED={seed} T={}s, at other moments; logs and what was done are in {}",
        time.as_secs(),
        kept.display()
    );
    ExitCode::FAILURE
}

/// Such as `90s`, `10m` or `1h`.
fn duration(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number: u64 = number.parse().expect("T is such as 90s, 10m or 1h");
    match unit {
        "s" => Duration::from_secs(number),
        "m" => Duration::from_mins(number),
        "h" => Duration::from_hours(number),
        _ => panic!("T={text}: give such as 90s, 10m or 1h"),
    }
}

/// A sandbox whose clones take as long, and wait for each other as much, as chance gives.
fn start(chance: &mut Chance) -> Sandbox {
    let delay = format!("--clone-delay={}ms", chance.between(1, 10) * 100);
    let turns = format!("--clones-per-host={}", chance.between(2, 8));
    let restart = ["--restart=kube-apiserver", "--restart=etcd"];
    let flags = [&["--hosts=3", &delay, &turns][..], &restart].concat();
    Sandbox::start("soak", &flags).unwrap_or_else(|failure| panic!("{failure}"))
}

fn set_up(sandbox: &'static Sandbox, seed: u64) -> Storm {
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter().clone();
    vcenter.declare(sandbox, "default", &json!({"namespaces": {}}));
    let namespaces = edits::NAMESPACES.map(|name| (name.to_owned(), sandbox.namespace(name)));
    let mut storm = Storm {
        sandbox,
        vcenter,
        gate: Gate::open(sandbox),
        chance: Chance::from_seed(seed),
        namespaces: BTreeMap::from(namespaces),
        model: model::Model::default(),
        replicas: Vec::new(),
        troubles: Vec::new(),
        hidden: Vec::new(),
        hidden_folders: Vec::new(),
        seen: Instant::now(),
        open_hosts: Vec::new(),
        out: Vec::new(),
        lull: None,
        counts: BTreeMap::new(),
        hits: BTreeMap::new(),
        round: 0,
    };
    drift::foreign(&mut storm);
    storm.start_all(1);
    edits::create_witness(&mut storm);
    for _ in 0..5 {
        edits::create(&mut storm);
    }
    storm
}

/// A storm while it rages.
struct Rage<'a> {
    storm: &'a mut Storm,
    began: Instant,
    time: Duration,
    log: fs::File,
    watch: Option<Watch>,
    looked: Instant,
    told: Instant,
    vms: usize,
}

/// Does one thing after the other until the time is over, and looks meanwhile.
fn rage(storm: &mut Storm, seed: u64, time: Duration, kept: &Path) -> Watch {
    let log = fs::File::create(kept.join("soak.log")).expect("the target folder can be written to");
    let began = Instant::now();
    let mut rage = Rage { storm, began, time, log, watch: None, looked: began, told: began, vms: 0 };
    for round in 1.. {
        // What went on before changes nothing of what is chosen now, but to whom it can be done.
        rage.storm.chance = Chance::from_seed(seed.wrapping_mul(1_000_003).wrapping_add(round));
        rage.round(round);
        if rage.began.elapsed() >= time {
            break;
        }
        rage.lull();
    }
    println!();
    rage.watch.unwrap_or_else(Watch::begin)
}

impl Rage<'_> {
    /// Has things happen by chance.
    fn round(&mut self, number: u64) {
        let end = Instant::now() + ROUND;
        let _ = writeln!(self.log, "{:7.1} round {number}", self.began.elapsed().as_secs_f64());
        while self.began.elapsed() < self.time && Instant::now() < end {
            self.storm.lift(false);
            tidy(self.storm);
            if self.watch.is_none() && self.began.elapsed() > self.time.mul_f64(1.0 - WATCHED) {
                self.storm.lift(true);
                self.storm.start_all(1);
                self.watch = Some(Watch::begin());
            }
            let action = actions::choose(self.storm, self.watch.is_some());
            if let Some(what) = (action.act)(self.storm) {
                *self.storm.counts.entry(action.name).or_default() += 1;
                let _ = writeln!(self.log, "{:7.1} {}: {what}", self.began.elapsed().as_secs_f64(), action.name);
            }
            self.look();
            thread::sleep(Duration::from_millis(self.storm.chance.between(50, 700)));
        }
    }

    /// Lifts all faults, and lets groups come to rest.
    fn lull(&mut self) {
        self.storm.lift(true);
        self.storm.lull = Some(Instant::now());
        while self.storm.lull.is_some_and(|lull| lull.elapsed() < LULL) {
            tidy(self.storm);
            self.look();
            thread::sleep(Duration::from_millis(300));
        }
        self.storm.lull = None;
    }

    /// Looks at the world, if it is time to.
    fn look(&mut self) {
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        self.vms = checks::sample(self.storm).map_or(self.vms, |world| world.vms.len());
        let memory = self.storm.replicas[0].operator.as_ref().and_then(drover_e2e::Operator::own_memory);
        if let (Some(watch), Some(memory)) = (&mut self.watch, memory) {
            watch.sample(self.vms, memory);
        }
        people::help(self.storm);
        report::tell(self.storm, self.began.elapsed(), self.time, &mut self.told);
    }
}

/// What can be done only while vCenter can be asked.
fn tidy(storm: &mut Storm) {
    drift::bring_back_all(storm);
    faults::open_hosts(storm);
    edits::bury(storm);
}

/// Lifts all faults, and waits for what is declared. Returns what is to be said of the operator's memory.
fn settle(storm: &mut Storm, watch: &Watch, time: Duration) -> String {
    storm.lift(true);
    tidy(storm);
    assert!(storm.open_hosts.is_empty(), "these hosts stay in maintenance: {:?}", storm.open_hosts);
    for index in 0..storm.replicas.len() {
        if storm.replicas[index].operator.is_none() {
            storm.start(index);
        }
    }
    checks::calm(storm, if time >= LONG { LONG_REST } else { REST });
    storm.assert_all_run();
    let (words, is_wrong) = watch.verdict(time >= WHOLE);
    println!("soak: {words}");
    assert!(!is_wrong, "{words}");
    storm.sandbox.assert_nothing_tells(&["another-password"]);
    words
}

/// A folder that no other run removes, for what was done and for the logs.
fn kept(seed: u64) -> PathBuf {
    let program = env::current_exe().expect("a program runs from a file");
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target")).join(format!("soak/{seed}"));
    let _ = fs::remove_dir_all(&target);
    fs::create_dir_all(&target).expect("the target folder can be written to");
    target
}

fn keep_logs(sandbox: &Sandbox, kept: &Path) {
    for entry in fs::read_dir(sandbox.dir().join("log")).into_iter().flatten().flatten() {
        let _ = fs::copy(entry.path(), kept.join(entry.file_name()));
    }
    let _ = fs::write(kept.join("world.txt"), sandbox.dump());
}
