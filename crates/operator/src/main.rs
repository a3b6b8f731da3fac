//! The `drover` binary: controllers, one live vCenter each, leadership, webhooks, metrics and commands.
//!
//! This is where decisions meet the world. Reconcilers read what is declared and what the vCenters say, ask
//! `drover-core` what to do, and do it; nothing is decided here.

mod check;
mod connection;
mod crds;
mod events;
mod flags;
mod fleet;
mod group;
mod guard;
mod info;
mod leadership;
mod log;
mod loops;
mod metrics;
mod plan;
mod refusal;
mod release;
mod run;
mod scout;
mod serve;
mod shelf;
mod shell;
mod status;
mod vcenter;

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Args, Parser, Subcommand};

use flags::Flags;
use log::Log;

/// Runs groups of virtual machines on VMware vSphere, declared as Kubernetes resources.
#[derive(Parser)]
#[command(version, after_help = ENVIRONMENT, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Flags,
}

const ENVIRONMENT: &str = "\
Without a command, it runs the operator.
The cluster is the one that KUBECONFIG names, or the pod's own. The vCenters are those that VCenter objects declare, and
one called default that VC_HOST, VC_USER and VC_PASS name (or GOVMOMI_URL, GOVMOMI_USERNAME and GOVMOMI_PASSWORD); its
certificate is checked against the machine's own authorities, or those in the file VC_CA_FILE. RUST_LOG=debug says more.";

#[derive(Subcommand)]
enum Command {
    /// Run the operator until it is told to stop.
    Run(Flags),
    /// Print what would be done to reach a manifest from what is in vCenter now, and do none of it.
    Plan(PlanFlags),
    /// Connect as the operator would, and print what works and what doesn't: names, TLS, login, privileges, and all that each
    /// group names.
    Check(CheckFlags),
    /// Go on after an incident: clone and destroy again, though VMs are missing. The status of the VmGroups and the VCenter that are
    /// stopped names the incident.
    Release {
        /// The incident, such as vc-abcdefgh.
        incident: String,
    },
    /// What a vCenter has to be told about Drover.
    #[command(name = "vcenter", subcommand)]
    VCenter(VCenterCommand),
    /// Print the custom resource definitions, to apply with `kubectl apply --server-side -f -`.
    Crds {
        /// Write each into a file `<group>_<plural>.yaml` of this folder instead.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum VCenterCommand {
    /// Print the least privileges that Drover needs, as a role to create with govc.
    Privileges,
}

#[derive(Args)]
struct CheckFlags {
    /// Check the groups of this manifest, with the VCenters and Secrets in it, in place of the cluster's. `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Connect to the environment's vCenter without checking its certificate: anybody on the way can read the password.
    #[arg(long)]
    insecure: bool,
}

#[derive(Args)]
struct PlanFlags {
    /// The manifest with the groups; other objects in it are passed over. `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Connect to vCenter without checking its certificate: anybody on the way can read the password.
    #[arg(long)]
    insecure: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse_from(env::args().map(flags::with_two_dashes));
    let outcome = match arguments.command {
        Some(Command::Crds { output_dir: Some(dir) }) => crds::write(&dir).map_err(Into::into),
        Some(Command::Crds { output_dir: None }) => crds::print().map_err(Into::into),
        Some(Command::Plan(flags)) => plan(&flags),
        Some(Command::Check(flags)) => check(&flags),
        Some(Command::Release { incident }) => release(&incident),
        Some(Command::VCenter(VCenterCommand::Privileges)) => privileges(),
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

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let log = Log::start();
    loops::end_at_panics();
    Ok(runtime()?.block_on(async {
        tokio::select! {
            outcome = run::run(flags) => outcome,
            never = log.sum_up() => match never {},
        }
    })?)
}

fn plan(flags: &PlanFlags) -> Result<(), Box<dyn Error>> {
    Ok(runtime()?.block_on(plan::plan(&flags.file, flags.insecure))?)
}

fn check(flags: &CheckFlags) -> Result<(), Box<dyn Error>> {
    Ok(runtime()?.block_on(check::check(flags.file.as_deref(), flags.insecure))?)
}

fn release(incident: &str) -> Result<(), Box<dyn Error>> {
    Ok(runtime()?.block_on(release::release(incident))?)
}

fn privileges() -> Result<(), Box<dyn Error>> {
    Ok(io::stdout().write_all(vcenter::rights::role().as_bytes())?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
