//! `drover plan`: what would be done to reach a manifest, without touching anything.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    path::{Path, PathBuf},
};

use drover_api::VmGroup;
use drover_core::{
    Action,
    desired::Invalid,
    group::{Desired, MachineId, Member},
    names,
};
use kube::ResourceExt;

use crate::{
    group::{self, Unusable},
    scout::{BadManifest, Manifest, NoSeat, Scout, ScoutError, Stopped, until_stopped},
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
    NoVCenter(String, NoSeat),
    #[error("{0}: {1}")]
    Unusable(String, Box<Unusable>),
    #[error(transparent)]
    Scout(#[from] ScoutError),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("printing the plan: {0}")]
    Print(#[from] io::Error),
}

/// Prints what would be done to reach the groups of a manifest.
pub(crate) async fn plan(file: &Path, insecure: bool) -> Result<(), PlanError> {
    let manifest = Manifest::read(file)?;
    if manifest.groups.is_empty() {
        return Err(PlanError::NoGroup(file.into()));
    }
    let mut scout = Scout::find(insecure, manifest.vcenters, manifest.secrets).await?;
    let outcome = until_stopped(Box::pin(plan_all(&mut scout, manifest.groups))).await;
    // Also after an error: nothing else would end the sessions.
    scout.farewell().await;
    outcome
}

async fn plan_all(scout: &mut Scout, groups: Vec<VmGroup>) -> Result<(), PlanError> {
    for group in groups {
        let group = scout.cluster.known(group).await?;
        let title = format!("VmGroup {}/{}", group.namespace().unwrap_or_default(), group.name_any());
        let desired = Desired::of(&group).map_err(|invalid| PlanError::Invalid(title.clone(), invalid))?;
        let seat = scout.seat(&group).await.map_err(|none| PlanError::NoVCenter(title.clone(), none))?;
        let secrets = scout.cluster.secrets(&desired.namespace);
        let marked = scout.cluster.marked(&desired.namespace).await?;
        let preview = group::preview(&seat, secrets.as_ref(), &scout.cluster.id, marked, &group, &desired).await;
        let preview = preview.map_err(|unusable| PlanError::Unusable(title.clone(), unusable.into()))?;
        print(&mut io::stdout().lock(), &title, &desired, &preview.members, &preview.actions)?;
    }
    Ok(())
}

fn print(
    out: &mut impl Write,
    title: &str,
    desired: &Desired,
    members: &[Member],
    actions: &[Action],
) -> io::Result<()> {
    let machines = |number: usize| if number == 1 { "1 machine".to_owned() } else { format!("{number} machines") };
    writeln!(out, "{title}: {} in vCenter, {} declared", machines(members.len()), desired.replicas)?;
    if actions.is_empty() {
        return writeln!(out, "  nothing to do");
    }
    let names: BTreeMap<_, _> = members.iter().map(|member| (&member.id, member.name.as_str())).collect();
    for action in actions {
        writeln!(out, "  {}", sentence(desired, &names, action))?;
    }
    writeln!(out, "{} to do; nothing was changed", actions.len())
}

fn sentence(desired: &Desired, names: &BTreeMap<&MachineId, &str>, action: &Action) -> String {
    let name = |id: &MachineId| names.get(id).map_or_else(|| id.0.clone(), |name| (*name).to_owned());
    match action {
        Action::CreateFolder => format!("make the folder {}", names::folder(&desired.namespace, &desired.name)),
        Action::DestroyFolder => format!("remove the folder {}", names::folder(&desired.namespace, &desired.name)),
        Action::DestroyLeftFolder(folder) => {
            format!("remove the empty folder {} that the machines were moved out of", folder.0)
        }
        // A group that isn't there yet has no UID, and so its machines have no names.
        Action::Clone(slot) if desired.uid.is_empty() => format!("clone a machine into slot {slot}"),
        Action::Clone(slot) => format!("clone {}", names::member(&desired.name, &desired.uid, *slot)),
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
