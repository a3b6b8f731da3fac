//! The `drover` binary: controllers, one live vCenter each, leadership, webhooks, metrics and commands.
//!
//! This is where decisions meet the world. Reconcilers read what is declared and what the vCenters say, ask
//! `drover-core` what to do, and do it; nothing is decided here.

mod crds;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

/// Runs groups of virtual machines on VMware vSphere, declared as Kubernetes resources.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print the custom resource definitions, to apply with `kubectl apply --server-side -f -`.
    Crds {
        /// Write each into a file `<group>_<plural>.yaml` of this folder instead.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Crds { output_dir: Some(dir) } => crds::write(&dir),
        Command::Crds { output_dir: None } => crds::print(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover: {error}");
            ExitCode::FAILURE
        }
    }
}
