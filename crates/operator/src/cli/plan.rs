//! `drover plan`: what would be done to reach a manifest, without touching anything.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::PathBuf,
};

use drover_api::VmGroup;
use drover_core::{
    Action, names,
    vmgroup::{Desired, MachineId, desired::Invalid},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::{
    cli::{
        ExitStatus, Output, PlanFlags,
        offline::{BadManifest, Manifest, NotBound, Offline, OfflineError, Stopped, until_stopped},
    },
    controllers::vmgroup::{self, Unusable},
};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PlanError {
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    #[error("{0}: there is no VmGroup in it")]
    NoGroup(PathBuf),
    #[error("{0}: {1}")]
    Invalid(String, Invalid),
    #[error("{0}: {1}")]
    NoVCenter(String, NotBound),
    #[error("{0}: {1}")]
    Unusable(String, Box<Unusable>),
    #[error(transparent)]
    Offline(#[from] OfflineError),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("printing the plan: {0}")]
    Print(#[from] io::Error),
}

/// Prints what would be done to reach the groups of a manifest.
pub(crate) async fn plan(flags: &PlanFlags) -> Result<ExitStatus, PlanError> {
    let manifest = Manifest::read(&flags.file)?;
    if manifest.groups.is_empty() {
        return Err(PlanError::NoGroup(flags.file.clone()));
    }
    let mut offline = Offline::find(&flags.look, manifest.vcenters, manifest.secrets).await?;
    let outcome = until_stopped(Box::pin(plan_all(&mut offline, manifest.groups))).await;
    // Also after an error: nothing else would end the sessions.
    offline.farewell().await;
    let plan = Plan { groups: outcome? };
    let mut out = io::stdout().lock();
    match flags.look.output {
        Output::Text => plan.groups.iter().try_for_each(|group| group.print(&mut out))?,
        Output::Json => writeln!(out, "{:#}", plan.json())?,
    }
    Ok(if plan.actions() == 0 { ExitStatus::Clean } else { ExitStatus::Findings })
}

async fn plan_all(offline: &mut Offline, groups: Vec<VmGroup>) -> Result<Vec<Planned>, PlanError> {
    let mut planned = Vec::new();
    for group in groups {
        let group = offline.cluster.known(group).await?;
        let title = format!("VmGroup {}/{}", group.namespace().unwrap_or_default(), group.name_any());
        let desired = Desired::of(&group).map_err(|invalid| PlanError::Invalid(title.clone(), invalid))?;
        let bound = offline.bound(&group).await.map_err(|none| PlanError::NoVCenter(title.clone(), none))?;
        let secrets = offline.cluster.secrets(&desired.namespace);
        let marked = offline.cluster.marked(&desired.namespace).await?;
        let groups = match bound.quota {
            Some(_) => offline.cluster.groups(Some(&desired.namespace)).await?,
            None => Vec::new(),
        };
        let id = &offline.cluster.id;
        let preview = vmgroup::preview(&bound, secrets.as_ref(), id, marked, &group, &desired, &groups).await;
        let preview = preview.map_err(|unusable| PlanError::Unusable(title.clone(), unusable.into()))?;
        let names: BTreeMap<_, _> = preview.members.iter().map(|member| (&member.id, member.name.as_str())).collect();
        let actions = preview.actions.iter().map(|action| (word(action), sentence(&desired, &names, action)));
        planned.push(Planned {
            namespace: desired.namespace.clone(),
            name: desired.name.clone(),
            vcenter: bound.live.name.clone(),
            is_new: desired.uid.is_empty(),
            vms: preview.members.len(),
            replicas: desired.replicas.into(),
            actions: actions.collect(),
            waiting: preview.waiting.clone(),
        });
    }
    Ok(planned)
}

/// What would be done.
struct Plan {
    groups: Vec<Planned>,
}

/// What would be done for one group.
struct Planned {
    namespace: String,
    name: String,
    vcenter: String,
    /// Whether the API server doesn't know it yet.
    is_new: bool,
    vms: usize,
    replicas: u64,
    /// Each as a word and as a sentence.
    actions: Vec<(&'static str, String)>,
    /// What would wait for the quota of the namespace.
    waiting: Option<String>,
}

impl Plan {
    fn actions(&self) -> usize {
        self.groups.iter().map(|group| group.actions.len()).sum()
    }

    /// As docs/command-line.md has it.
    fn json(&self) -> Value {
        let groups = self.groups.iter().map(|group| {
            let actions = group.actions.iter().map(|(word, sentence)| json!({"type": word, "message": sentence}));
            let mut shown = json!({
                "namespace": group.namespace,
                "name": group.name,
                "vcenter": group.vcenter,
                "new": group.is_new,
                "vms": group.vms,
                "replicas": group.replicas,
                "actions": actions.collect::<Vec<_>>(),
            });
            if let Some(waiting) = &group.waiting {
                shown["waiting"] = json!(waiting);
            }
            shown
        });
        json!({"kind": "Plan", "actions": self.actions(), "vmGroups": groups.collect::<Vec<_>>()})
    }
}

impl Planned {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { namespace, name, vms, replicas, actions, waiting, .. } = self;
        let vms = if *vms == 1 { "1 VM".to_owned() } else { format!("{vms} VMs") };
        writeln!(out, "VmGroup {namespace}/{name}: {vms} in vCenter, {replicas} declared")?;
        if let Some(waiting) = waiting {
            writeln!(out, "  {waiting}")?;
        }
        if actions.is_empty() {
            return writeln!(out, "  nothing to do");
        }
        actions.iter().try_for_each(|(_, sentence)| writeln!(out, "  {sentence}"))?;
        writeln!(out, "{} to do; nothing was changed", actions.len())
    }
}

/// What an action is called in JSON.
fn word(action: &Action) -> &'static str {
    match action {
        Action::CreateFolder => "CreateFolder",
        Action::DestroyFolder | Action::DestroyLeftFolder(_) => "DestroyFolder",
        Action::Clone(_) => "Clone",
        Action::PowerOn(_) => "PowerOn",
        Action::PowerOff(_) => "PowerOff",
        Action::ShutdownGuest(_) => "ShutdownGuest",
        Action::Suspend(_) => "Suspend",
        Action::Reconfigure(..) => "Reconfigure",
        Action::Rename(..) => "Rename",
        Action::MoveIntoFolder(_) => "MoveIntoFolder",
        Action::Mark(..) => "Mark",
        Action::Destroy(_) => "Destroy",
    }
}

fn sentence(desired: &Desired, names: &BTreeMap<&MachineId, &str>, action: &Action) -> String {
    let name = |id: &MachineId| names.get(id).map_or_else(|| id.0.clone(), |name| (*name).to_owned());
    match action {
        Action::CreateFolder => format!("create the folder {}", names::folder(&desired.namespace, &desired.name)),
        Action::DestroyFolder => format!("remove the folder {}", names::folder(&desired.namespace, &desired.name)),
        Action::DestroyLeftFolder(folder) => {
            format!("remove the empty folder {} that the VMs were moved out of", folder.0)
        }
        // A group that isn't there yet has no UID, and so its VMs have no names.
        Action::Clone(slot) if desired.uid.is_empty() => format!("clone a VM into slot {slot}"),
        Action::Clone(slot) => format!("clone {}", names::member(&desired.name, &desired.marker_uid, *slot)),
        Action::PowerOn(id) => format!("power on {}", name(id)),
        Action::PowerOff(id) => format!("power off {}", name(id)),
        Action::ShutdownGuest(id) => format!("shut down the guest of {}", name(id)),
        Action::Suspend(id) => format!("suspend {}", name(id)),
        Action::Reconfigure(id, to) => {
            format!("give {} {} CPUs and {} MiB of memory", name(id), to.cpus, to.memory_mib)
        }
        Action::Rename(id, to) => format!("rename {} to {to}", name(id)),
        Action::MoveIntoFolder(id) => format!("move {} into the group's folder", name(id)),
        Action::Mark(id, _) => format!("bring the marker of {} up to date", name(id)),
        Action::Destroy(id) => format!("destroy {}", name(id)),
    }
}
