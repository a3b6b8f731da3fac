//! What was done and what came of it: while it goes on, and in the end.

use std::{
    collections::BTreeMap,
    fs,
    io::{IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{actions::ACTIONS, storm::Storm};

/// How often a line is printed where nobody watches.
const LINE: Duration = Duration::from_secs(20);
/// In a storm that lasts so long, everything should have happened.
pub(crate) const WHOLE: Duration = Duration::from_mins(10);

/// Says how it stands: on one line where somebody watches, else now and then.
pub(crate) fn tell(storm: &Storm, elapsed: Duration, time: Duration, told: &mut Instant) {
    let is_watched = std::io::stdout().is_terminal();
    if !is_watched && told.elapsed() < LINE {
        return;
    }
    *told = Instant::now();
    let sum = |prefix: &str| -> u64 {
        storm.counts.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    };
    let line = format!(
        "soak: {} of {} s: survived {} edits, {} groups deleted or created, {} drifts, {} of others, {} faults of vCenter, {} of the API server, {} of operators, which met {} calls; {} groups, {} troubles now",
        elapsed.as_secs(),
        time.as_secs(),
        sum("edit"),
        sum("group"),
        sum("drift"),
        sum("others"),
        sum("fault"),
        sum("API server"),
        sum("operator"),
        storm.hits.values().sum::<u64>(),
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

/// Prints how often what was done, and how many calls each fault met, and writes the same for `cargo xtask reliability`.
pub(crate) fn write(storm: &Storm, seed: u64, time: Duration, memory: &str, file: &Path) {
    println!("{}", table(&storm.counts, &storm.hits));
    let is_missing = |name: &&str| !storm.counts.contains_key(name);
    let never: Vec<_> = ACTIONS.iter().map(|action| action.name).filter(is_missing).collect();
    if time >= WHOLE && !never.is_empty() {
        println!("soak: never happened: {}", never.join("; "));
    }
    let idle: Vec<_> = storm.hits.iter().filter(|(_, hits)| **hits == 0).map(|(name, _)| *name).collect();
    if !idle.is_empty() {
        println!("soak: met nothing: {}", idle.join("; "));
    }
    let results = json!({
        "seed": seed, "seconds": time.as_secs(), "memory": memory, "times": storm.counts, "calls": storm.hits, "never": never,
    });
    fs::write(file, format!("{results:#}\n")).expect("the target folder can be written to");
}

pub(crate) fn table(counts: &BTreeMap<&'static str, u64>, hits: &BTreeMap<&'static str, u64>) -> String {
    let met = |name: &str| hits.get(name).map_or(String::new(), ToString::to_string);
    let lines = counts.iter().map(|(name, count)| format!("| {name} | {count} | {} |", met(name)));
    let (all, calls): (u64, u64) = (counts.values().sum(), hits.values().sum());
    let lines = lines.collect::<Vec<_>>().join("\n");
    format!("| what | times | calls met |\n|---|---|---|\n{lines}\n| all | {all} | {calls} |")
}
