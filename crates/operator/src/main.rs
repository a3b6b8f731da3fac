//! The `drover` binary: controllers, one live vCenter each, leadership, webhooks, metrics and commands.
//!
//! This is where decisions meet the world. Reconcilers read what is declared and what the vCenters say, ask
//! `drover-core` what to do, and do it; nothing is decided here.

// What is spawned belongs to `loops`, but in tests.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod cli;
mod controllers;
mod http;
mod kube;
mod loops;
mod telemetry;
mod vcenter;

use std::{
    env,
    error::Error,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use cli::{
    CheckFlags, ExitStatus, PlanFlags, check,
    cluster::ClusterFlags,
    crds,
    flags::{self, Flags},
    plan, release, run,
};
use telemetry::{
    log::{self, Log},
    traces::Exporter,
};

/// Runs groups of virtual machines on VMware vSphere, declared as Kubernetes resources.
#[derive(Parser)]
#[command(name = "drover", version, after_help = ENVIRONMENT, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Flags,
}

const ENVIRONMENT: &str = "\
Without a command, drover runs the operator: drover -insecure is drover run --insecure.

Cluster: the one that --kubeconfig, KUBECONFIG or ~/.kube/config names, or the pod's own.
vCenters: those that VCenter objects declare, and one called default that the environment names:
  VC_HOST, VC_USER, VC_PASS, VC_CA_FILE, or else
  GOVMOMI_URL, GOVMOMI_USERNAME, GOVMOMI_PASSWORD, GOVMOMI_TLS_CA_CERTS, or else
  GOVC_URL, GOVC_USERNAME, GOVC_PASSWORD, GOVC_TLS_CA_CERTS, GOVC_INSECURE.";

#[derive(Subcommand)]
enum Command {
    /// Run the operator until it is told to stop.
    #[command(after_help = cli::RUN_EXAMPLES)]
    Run(Box<Flags>),
    /// Print what would be done to the VMs of a manifest's VmGroups, and do none of it.
    #[command(after_help = cli::PLAN_EXAMPLES)]
    Plan(PlanFlags),
    /// Connect as the operator would, and print what works and what doesn't: names, TLS, login, privileges, and all that each
    /// VmGroup names.
    #[command(after_help = cli::CHECK_EXAMPLES)]
    Check(CheckFlags),
    /// Go on after an incident: clone and destroy again, though VMs are missing. The status of the VmGroups and the VCenter that are
    /// stopped names the incident.
    #[command(after_help = cli::RELEASE_EXAMPLES)]
    Release {
        /// The incident, such as vc-abcdefgh.
        incident: String,
        /// Release VmGroups of this namespace only. Default: all namespaces.
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
        #[command(flatten)]
        cluster: ClusterFlags,
    },
    /// Print what a vCenter has to be told about Drover.
    #[command(name = "vcenter", subcommand)]
    VCenter(VCenterCommand),
    /// Print the custom resource definitions.
    #[command(after_help = cli::CRDS_EXAMPLES)]
    Crds {
        /// Folder to write each definition into, as `<group>_<plural>.yaml`, instead of printing them.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
    /// Print a script that has a shell complete commands and flags.
    #[command(after_help = cli::COMPLETION_EXAMPLES)]
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the man page.
    #[command(after_help = cli::MAN_EXAMPLES)]
    Man {
        /// Folder to write the man page of each command into, instead of printing one.
        #[arg(long, value_name = "DIR")]
        output_dir: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
enum VCenterCommand {
    /// Print the least privileges that Drover needs, as a role to create with govc.
    #[command(after_help = cli::PRIVILEGES_EXAMPLES)]
    Privileges,
}

fn main() -> ExitCode {
    let words: Vec<_> = env::args().map(flags::with_two_dashes).collect();
    let arguments = match Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && cli::tells_by_code(&words) => {
            // Nobody is there to be told, if this fails.
            let _ = error.print();
            return ExitCode::FAILURE;
        }
        Err(error) => error.exit(),
    };
    match execute(arguments) {
        Ok(status) => status.into(),
        Err(error) => {
            log::fail(&*error);
            ExitCode::FAILURE
        }
    }
}

fn execute(arguments: Arguments) -> Result<ExitStatus, Box<dyn Error>> {
    match arguments.command {
        Some(Command::Plan(flags)) => return Ok(runtime()?.block_on(plan::plan(&flags))?),
        Some(Command::Check(flags)) => return Ok(runtime()?.block_on(check::check(&flags))?),
        Some(Command::Crds { output_dir: Some(dir) }) => crds::write(&dir)?,
        Some(Command::Crds { output_dir: None }) => crds::print()?,
        Some(Command::Release { incident, namespace, cluster }) => {
            runtime()?.block_on(release::release(&incident, namespace.as_deref(), &cluster))?;
        }
        Some(Command::VCenter(VCenterCommand::Privileges)) => privileges()?,
        Some(Command::Completion { shell }) => cli::completion(shell)?,
        Some(Command::Man { output_dir }) => cli::man(output_dir.as_deref())?,
        Some(Command::Run(flags)) => run(&flags)?,
        None => run(&arguments.run)?,
    }
    Ok(ExitStatus::Clean)
}

fn run(flags: &Flags) -> Result<(), Box<dyn Error>> {
    let (log, level) = Log::start(&flags.log);
    loops::end_at_panics();
    let mut traces = Exporter::start(&flags.traces)?;
    Ok(runtime()?.block_on(async {
        let outcome = tokio::select! {
            outcome = run::run(flags) => outcome,
            never = log.sum_up() => match never {},
            never = level.follow() => match never {},
            never = traces.run() => match never {},
        };
        traces.flush().await;
        outcome
    })?)
}

fn privileges() -> Result<(), Box<dyn Error>> {
    Ok(io::stdout().write_all(vcenter::privileges::role().as_bytes())?)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}
