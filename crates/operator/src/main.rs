//! The `drover` binary: controllers, one live vCenter each, leadership, webhooks, metrics and commands.
//!
//! This is where decisions meet the world. Reconcilers read what is declared and what the vCenters say, ask
//! `drover-core` what to do, and do it; nothing is decided here.

mod crds;
mod environment;
mod fleet;
mod group;
mod info;
mod run;
mod vcenter;

use std::{env, error::Error, path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Runs groups of virtual machines on VMware vSphere, declared as Kubernetes resources.
#[derive(Parser)]
#[command(version, after_help = ENVIRONMENT)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: RunFlags,
}

const ENVIRONMENT: &str = "\
Without a command, it runs the operator.
The cluster is the one that KUBECONFIG names, or the pod's own. The vCenter is the one that VC_HOST, VC_USER and VC_PASS
name (or GOVMOMI_URL, GOVMOMI_USERNAME and GOVMOMI_PASSWORD); its certificate is checked against the machine's own
authorities, or those in the file VC_CA_FILE. RUST_LOG=debug says more.";

#[derive(Subcommand)]
enum Command {
    /// Run the operator until it is told to stop.
    Run(RunFlags),
    /// Print the custom resource definitions, to apply with `kubectl apply --server-side -f -`.
    Crds {
        /// Write each into a file `<group>_<plural>.yaml` of this folder instead.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
}

#[derive(Args)]
struct RunFlags {
    /// Connect to vCenter without checking its certificate: anybody on the way can read the password.
    #[arg(long)]
    insecure: bool,
    /// Keep a HostInfo for each host of the vCenter in this namespace.
    #[arg(long, value_name = "NAMESPACE")]
    publish_hosts: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(env::args().map(|argument| with_two_dashes(&argument)));
    let outcome = match arguments.command {
        Some(Command::Crds { output_dir: Some(dir) }) => crds::write(&dir).map_err(Into::into),
        Some(Command::Crds { output_dir: None }) => crds::print().map_err(Into::into),
        Some(Command::Run(flags)) => run(&flags),
        None => run(&arguments.run),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drover: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &RunFlags) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    Ok(runtime.block_on(run::run(flags.insecure, flags.publish_hosts.clone()))?)
}

/// Go's flags have one dash, and so people write them: `-insecure`.
fn with_two_dashes(argument: &str) -> String {
    match argument.strip_prefix('-') {
        Some(flag) if flag.len() > 1 && !flag.starts_with('-') => format!("--{flag}"),
        _ => argument.to_owned(),
    }
}
