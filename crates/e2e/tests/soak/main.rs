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
mod storm;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{IsTerminal, Write},
    panic::{self, AssertUnwindSafe},
    path::{Path, PathBuf},
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Chance, Gate, Sandbox};
use memory::Watch;
use serde_json::json;
use storm::Storm;

/// How often the world is looked at during the storm.
const LOOK: Duration = Duration::from_secs(2);
/// In this last part of the storm no operator is ended, so that the memory of one can be watched.
const WATCHED: f64 = 0.5;
/// How often a line is printed where nobody watches.
const LINE: Duration = Duration::from_secs(20);

fn main() -> ExitCode {
    let time =
        env::var("T").ok().filter(|time| !time.is_empty()).map_or(Duration::from_hours(1), |time| duration(&time));
    let seed = Chance::seed();
    println!("soak: SEED={seed}, {} s", time.as_secs());
    let sandbox: &'static Sandbox = Box::leak(Box::new(start()));
    let mut storm = set_up(sandbox, seed);
    let kept = kept(seed);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| {
        let watch = rage(&mut storm, time, &kept);
        settle(&mut storm, &watch);
    }));
    if outcome.is_ok() {
        println!("{}", table(&storm.counts));
        println!("soak: survived, SEED={seed}");
        return ExitCode::SUCCESS;
    }
    keep_logs(sandbox, &kept);
    println!("{}", table(&storm.counts));
    println!(
        "soak: FAILED: have it again with SEED={seed} T={}s; logs and what was done are in {}",
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

fn start() -> Sandbox {
    let restart = ["--restart=kube-apiserver", "--restart=etcd"];
    let flags = [&["--hosts=3", "--clone-delay=300ms"][..], &restart].concat();
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
        seen: Instant::now(),
        open_hosts: Vec::new(),
        out: Vec::new(),
        counts: BTreeMap::new(),
        round: 0,
    };
    drift::foreign(&mut storm);
    storm.start_all(1);
    for _ in 0..5 {
        edits::create(&mut storm);
    }
    storm
}

/// Does one thing after the other until the time is over, and looks meanwhile.
fn rage(storm: &mut Storm, time: Duration, kept: &Path) -> Watch {
    let began = Instant::now();
    let watched = time.mul_f64(1.0 - WATCHED);
    let mut log = fs::File::create(kept.join("soak.log")).expect("the target folder can be written to");
    let mut watch: Option<Watch> = None;
    let (mut looked, mut told, mut vms) = (began, began, 0);
    while began.elapsed() < time {
        storm.lift(false);
        tidy(storm);
        if watch.is_none() && began.elapsed() > watched {
            storm.lift(true);
            storm.start_all(1);
            watch = Some(Watch::begin());
        }
        let action = actions::choose(storm, watch.is_some());
        if let Some(what) = (action.act)(storm) {
            *storm.counts.entry(action.name).or_default() += 1;
            let _ = writeln!(log, "{:7.1} {}: {what}", began.elapsed().as_secs_f64(), action.name);
        }
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            vms = checks::sample(storm).map_or(vms, |world| world.vms.len());
            let memory = storm.replicas[0].operator.as_ref().and_then(drover_e2e::Operator::own_memory);
            if let (Some(watch), Some(memory)) = (&mut watch, memory) {
                watch.sample(vms, memory);
            }
            checks::help(storm);
            tell(storm, began.elapsed(), time, &mut told);
        }
        thread::sleep(Duration::from_millis(storm.chance.between(50, 700)));
    }
    println!();
    watch.unwrap_or_else(Watch::begin)
}

/// What can be done only while vCenter can be asked.
fn tidy(storm: &mut Storm) {
    drift::bring_back_all(storm);
    faults::open_hosts(storm);
    edits::bury(storm);
}

/// Lifts all faults, says once more what is declared, and waits for it.
fn settle(storm: &mut Storm, watch: &Watch) {
    storm.lift(true);
    tidy(storm);
    assert!(storm.open_hosts.is_empty(), "these hosts stay in maintenance: {:?}", storm.open_hosts);
    for index in 0..storm.replicas.len() {
        if storm.replicas[index].operator.is_none() {
            storm.start(index);
        }
    }
    // An edit says that something was mended, so nothing waits until it is tried again.
    let keys: Vec<_> = storm.model.groups.keys().cloned().collect();
    let going: Vec<_> = storm.model.going.iter().map(|going| going.key.clone()).collect();
    for key in keys.iter().chain(&going) {
        let mended = json!({"spec": {"update": {"progressDeadlineSeconds": 599}}});
        let patched = storm.namespaces[&key.0].patch("vg", &key.1, &mended);
        // One that was being deleted may be gone by now.
        assert!(patched.is_ok() || going.contains(key), "{patched:?}");
    }
    checks::calm(storm);
    storm.assert_all_run();
    let (words, grows) = watch.verdict();
    println!("soak: {words}");
    assert!(!grows, "{words}");
    storm.sandbox.assert_nothing_tells(&["another-password"]);
}

/// Says how it stands: on one line where somebody watches, else now and then.
fn tell(storm: &Storm, elapsed: Duration, time: Duration, told: &mut Instant) {
    let is_watched = std::io::stdout().is_terminal();
    if !is_watched && told.elapsed() < LINE {
        return;
    }
    *told = Instant::now();
    let sum = |prefix: &str| -> u64 {
        storm.counts.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    };
    let line = format!(
        "soak: {} of {} s: survived {} edits, {} groups deleted or created, {} drifts, {} of others, {} faults of vCenter, {} of the API server, {} of operators; {} groups, {} troubles now",
        elapsed.as_secs(),
        time.as_secs(),
        sum("edit"),
        sum("group"),
        sum("drift"),
        sum("others"),
        sum("fault"),
        sum("API server"),
        sum("operator"),
        storm.model.groups.len(),
        storm.troubles.len()
    );
    if is_watched {
        print!("\r{line}\u{1b}[K");
        let _ = std::io::stdout().flush();
    } else {
        println!("{line}");
    }
}

fn table(counts: &BTreeMap<&'static str, u64>) -> String {
    let lines = counts.iter().map(|(name, count)| format!("| {name} | {count} |"));
    let all: u64 = counts.values().sum();
    format!("| what | times |\n|---|---|\n{}\n| all | {all} |", lines.collect::<Vec<_>>().join("\n"))
}

/// A folder that no other run removes, for what was done and for the logs.
fn kept(seed: u64) -> PathBuf {
    let program = env::current_exe().expect("a program runs from a file");
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target")).join(format!("soak/seed-{seed}"));
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
