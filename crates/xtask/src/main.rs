//! The project's own chores, run as `cargo xtask <chore>`.

mod benchmarks;
mod bundle;
mod codegen;
mod docs;
mod files;
mod reliability;
mod rooms;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "\
usage: cargo xtask codegen [--check]
       cargo xtask docs [--check]
       cargo xtask bundle [--check] KUSTOMIZE
       cargo xtask benchmarks --check
       cargo xtask benchmarks RESULTS
       cargo xtask reliability --check
       cargo xtask reliability STORM...
       cargo xtask rooms

  codegen     write the vSphere types of crates/vim25 from pyVmomi's type info
  docs        write docs/api.md from the CRDs, and docs/reasons.md from the reasons
  bundle      write the bundle for the Operator Lifecycle Manager from config/, with the kustomize at this path
  benchmarks  write docs/benchmarks.md and its plots from results, as `make bench-full` leaves them in target/bench/results.json
  reliability write the table of storms in docs/reliability.md from what `make soak` leaves of each in target/soak/SEED.json
  rooms       exit with 1 when folders of a crate depend on each other in circles
  --check     exit with 1 when the committed files differ from what would be written";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome: Result<String, Box<dyn std::error::Error>> = match arguments.as_slice() {
        ["codegen"] => codegen::write().map_err(Box::from),
        ["codegen", "--check"] => codegen::check().map_err(Box::from),
        ["docs"] => docs::write().map_err(Box::from),
        ["docs", "--check"] => docs::check().map_err(Box::from),
        ["bundle", "--check", kustomize] => bundle::check(kustomize).map_err(Box::from),
        ["bundle", kustomize] => bundle::write(kustomize).map_err(Box::from),
        ["benchmarks", "--check"] => benchmarks::check().map_err(Box::from),
        ["benchmarks", results] => benchmarks::write(results).map_err(Box::from),
        ["reliability", "--check"] => reliability::check().map_err(Box::from),
        ["reliability", storms @ ..] if !storms.is_empty() => reliability::write(storms).map_err(Box::from),
        ["rooms"] => rooms::check().map_err(Box::from),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: two levels above this crate.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
