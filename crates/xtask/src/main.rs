//! The project's own chores, run as `cargo xtask <chore>`.

mod codegen;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask codegen [--check]

  codegen          write the vSphere types of crates/vim25 from pyVmomi's type info
  codegen --check  exit with 1 when the committed files differ from what would be written";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        ["codegen"] => codegen::write(),
        ["codegen", "--check"] => codegen::check(),
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
