//! The commands that a person runs once, beside the operator itself: their flags, examples and exit codes.

pub(crate) mod check;
pub(crate) mod cluster;
pub(crate) mod crds;
pub(crate) mod flags;
mod offline;
pub(crate) mod plan;
mod prepare;
pub(crate) mod release;
pub(crate) mod run;

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args, Command, CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

use crate::{Arguments, cli::cluster::ClusterFlags};

/// What `drover plan` and `drover check` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// There is nothing to do, or nothing is wrong.
    Clean,
    /// There is something to do, or something is wrong.
    Findings,
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Clean => Self::SUCCESS,
            ExitStatus::Findings => Self::from(2),
        }
    }
}

/// How something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines for a person to read.
    #[default]
    Text,
    /// One JSON document, whose fields docs/command-line.md lists.
    Json,
}

/// What `drover plan` and `drover check` look at.
#[derive(Args, Debug)]
pub(crate) struct LookFlags {
    /// Output format. Default: text.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "text", hide_default_value = true)]
    pub output: Output,
    /// Namespace of objects in the manifest that name none. `check` without a manifest checks the VmGroups of this namespace only.
    /// Default: the kubeconfig's; `check` without a manifest checks all namespaces.
    #[arg(short, long, value_name = "NAME")]
    pub namespace: Option<String>,
    /// The operator's own namespace, where the Secrets of VCenters are that name no namespace, and where Secrets need not name the server
    /// that they are for. Default: `POD_NAMESPACE`, then drover-system where that exists, then the kubeconfig's, as for `drover run`.
    #[arg(long, value_name = "NAME")]
    pub operator_namespace: Option<String>,
    /// Id of the Kubernetes cluster, as the operator has it. Default: the UID of the namespace kube-system.
    #[arg(long, value_name = "ID")]
    pub cluster_id: Option<String>,
    /// Read no Kubernetes cluster: every VmGroup of the manifest counts as new.
    #[arg(long, conflicts_with_all = ["kubeconfig", "context"])]
    pub no_cluster: bool,
    /// Skip certificate verification for the environment's vCenter. Exposes the password to interception.
    #[arg(long)]
    pub insecure: bool,
    #[command(flatten)]
    pub cluster: ClusterFlags,
}

impl LookFlags {
    /// The operator's own namespace, as far as somebody says it.
    pub(crate) fn operator_namespace(&self) -> Option<String> {
        let given = self.operator_namespace.clone().or_else(|| env::var("POD_NAMESPACE").ok());
        given.filter(|name| !name.is_empty())
    }
}

/// The flags of `drover plan`.
#[derive(Args, Debug)]
pub(crate) struct PlanFlags {
    /// Manifest with the VmGroups, and with VCenters and Secrets that go before those of the cluster. Other objects are passed over.
    /// `-` is standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub look: LookFlags,
}

/// The flags of `drover check`.
#[derive(Args, Debug)]
pub(crate) struct CheckFlags {
    /// Show what this namespace may use in each vCenter that serves the namespace, and check the VmGroups of this namespace only.
    #[arg(long = "as", value_name = "NAMESPACE", conflicts_with_all = ["namespace", "no_cluster"])]
    pub as_namespace: Option<String>,
    /// Manifest with VmGroups to check in place of the cluster's, and with VCenters and Secrets that go before the cluster's. `-` is
    /// standard input.
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub look: LookFlags,
}

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  # Run on the current context of the kubeconfig, for the vCenter of the environment:
  VC_HOST=vc.example.com VC_USER=administrator@vsphere.local VC_PASS=… drover run
  # Serve two namespaces only, and no shells:
  drover run --namespaces=team-a,team-b --controllers='*,-myownshell'
  # Read nothing that is cluster-scoped:
  drover run --namespaces=team-a --controllers='*,-vcenter' --cluster-id=prod-1";

pub(crate) const PLAN_EXAMPLES: &str = "\
Examples:
  # Show what would be done to the VMs of a VmGroup:
  drover plan -f vmgroup.yaml
  # Fail a pipeline that would change a VM:
  drover plan -f vmgroup.yaml --context=prod -o json > plan.json

Exit codes: 0 nothing to do, 1 error, 2 something to do.";

pub(crate) const CHECK_EXAMPLES: &str = "\
Examples:
  # Check all vCenters and all VmGroups of the cluster:
  drover check
  # Check a VCenter with its Secret before they are created:
  drover check -f vcenter.yaml
  # Show what a namespace may use:
  drover check --as team-a

Exit codes: 0 nothing is wrong, 1 error, 2 a check failed.";

pub(crate) const RELEASE_EXAMPLES: &str = "\
Examples:
  # See which VmGroups are stopped, and by which incident:
  kubectl get vmgroups -A -o custom-columns=NAME:.metadata.name,INCIDENT:.status.incident
  drover release vc-abcdefgh";

pub(crate) const CRDS_EXAMPLES: &str = "\
Examples:
  drover crds | kubectl apply --server-side -f -";

pub(crate) const PRIVILEGES_EXAMPLES: &str = "\
Examples:
  drover vcenter privileges | sh";

pub(crate) const COMPLETION_EXAMPLES: &str = "\
Examples:
  source <(drover completion bash)
  drover completion zsh > \"${fpath[1]}/_drover\"
  drover completion fish > ~/.config/fish/completions/drover.fish";

pub(crate) const MAN_EXAMPLES: &str = "\
Examples:
  drover man | man -l -
  drover man --output-dir /usr/local/share/man/man1";

/// Prints what has a shell complete commands and flags.
pub(crate) fn completion(shell: Shell) -> io::Result<()> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "drover", &mut script);
    io::stdout().write_all(&script)
}

/// Prints the man page of `drover`, or writes those of all commands into a folder.
pub(crate) fn man(dir: Option<&Path>) -> io::Result<()> {
    let command = Arguments::command();
    match dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            write_pages(&command, "drover", dir)
        }
        None => io::stdout().write_all(&page(command, "drover")?),
    }
}

fn write_pages(command: &Command, name: &str, dir: &Path) -> io::Result<()> {
    std::fs::write(dir.join(format!("{name}.1")), page(command.clone(), name)?)?;
    let mut subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    subcommands.try_for_each(|command| write_pages(command, &format!("{name}-{}", command.get_name()), dir))
}

fn page(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.display_name(name)).title(name).render(&mut page)?;
    Ok(page)
}

/// Whether these arguments are of a command whose exit code 2 says something else than that they make no sense.
pub(crate) fn tells_by_code(arguments: &[String]) -> bool {
    let command = arguments.iter().skip(1).find(|argument| !argument.starts_with('-'));
    command.is_some_and(|command| command == "plan" || command == "check")
}
