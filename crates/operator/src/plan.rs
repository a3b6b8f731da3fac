//! `drover plan`: what would be done to reach a manifest, without touching anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use drover_api::{VMInfo, VmGroup};
use drover_core::{
    Action,
    desired::Invalid,
    group::{Desired, MachineId, Member},
    names,
};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::{
    environment::{self, BadEnvironment},
    group::{self, Unusable},
    info,
    leadership::Claim,
    vcenter::Live,
};

/// How long vCenter has to tell what it has.
const PATIENCE: Duration = Duration::from_mins(2);

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Yaml(PathBuf, Box<serde_saphyr::Error>),
    #[error("{0}: a VmGroup that can't be read: {1}")]
    Manifest(PathBuf, serde_json::Error),
    #[error("{0}: there is no VmGroup in it")]
    NoGroup(PathBuf),
    #[error("{0}: {1}")]
    Invalid(String, Invalid),
    #[error("{0}: {1}")]
    Unusable(String, Box<Unusable>),
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error("vCenter can't be read: {0}")]
    Away(String),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error("printing the plan: {0}")]
    Print(#[from] io::Error),
}

/// Prints what would be done to reach the groups of a manifest.
pub async fn plan(file: &Path, insecure: bool) -> Result<(), PlanError> {
    let groups = read(file)?;
    let cluster = Cluster::find().await?;
    let live = look(insecure).await?;
    for group in groups {
        let group = cluster.known(group).await?;
        let title = format!("VmGroup {}/{}", group.namespace().unwrap_or_default(), group.name_any());
        let desired = Desired::of(&group).map_err(|invalid| PlanError::Invalid(title.clone(), invalid))?;
        let secrets = cluster.secrets(&desired.namespace);
        let marked = cluster.marked(&desired.namespace).await?;
        let preview = group::preview(&live, secrets.as_ref(), &cluster.id, marked, &group, &desired).await;
        let preview = preview.map_err(|unusable| PlanError::Unusable(title.clone(), unusable.into()))?;
        print(&mut io::stdout().lock(), &title, &desired, &preview.members, &preview.actions)?;
    }
    // The session would otherwise stay until vCenter tires of it.
    let _ = live.client.logout().await;
    Ok(())
}

/// The groups in a file of YAML documents, or of `-`, which is standard input.
fn read(file: &Path) -> Result<Vec<VmGroup>, PlanError> {
    let text = if file == Path::new("-") { stdin() } else { fs::read_to_string(file) };
    let text = text.map_err(|error| PlanError::File(file.into(), error))?;
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&text).map_err(|error| PlanError::Yaml(file.into(), error.into()))?;
    let kind = VmGroup::kind(&());
    let groups = documents.into_iter().filter(|document| document["kind"] == *kind);
    let groups: Result<Vec<VmGroup>, _> = groups.map(serde_json::from_value).collect();
    let groups = groups.map_err(|error| PlanError::Manifest(file.into(), error))?;
    if groups.is_empty() { Err(PlanError::NoGroup(file.into())) } else { Ok(groups) }
}

fn stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The Kubernetes cluster, which knows the groups that are there already. Without one, every group is new.
struct Cluster {
    client: Option<Client>,
    id: String,
}

impl Cluster {
    async fn find() -> Result<Self, PlanError> {
        let Ok(client) = Client::try_default().await else {
            eprintln!("drover: no Kubernetes cluster is named (KUBECONFIG): every group is taken to be new");
            return Ok(Self { client: None, id: String::new() });
        };
        let system = Api::<Namespace>::all(client.clone()).get("kube-system").await?;
        Ok(Self { id: system.uid().unwrap_or_default(), client: Some(client) })
    }

    /// The group as the API server would have it after an apply: what it is named by stays, its spec is the manifest's.
    async fn known(&self, mut group: VmGroup) -> Result<VmGroup, PlanError> {
        let default = self.client.as_ref().map_or("default", Client::default_namespace);
        let namespace = group.namespace().unwrap_or_else(|| default.to_owned());
        group.metadata.namespace = Some(namespace.clone());
        let Some(client) = &self.client else { return Ok(group) };
        let there = match Api::<VmGroup>::namespaced(client.clone(), &namespace).get_opt(&group.name_any()).await {
            // The kind itself may not be installed yet.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            there => there?,
        };
        if let Some(there) = there {
            group.metadata = there.metadata;
        }
        Ok(group)
    }

    /// The members that are to go first.
    async fn marked(&self, namespace: &str) -> Result<BTreeSet<String>, PlanError> {
        let Some(client) = &self.client else { return Ok(BTreeSet::new()) };
        let infos: Api<VMInfo> = Api::namespaced(client.clone(), namespace);
        match infos.list(&ListParams::default()).await {
            Ok(infos) => Ok(infos.iter().filter(|info| info::is_marked(info)).map(ResourceExt::name_any).collect()),
            // The kind itself may not be installed yet.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeSet::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn secrets(&self, namespace: &str) -> Option<Api<Secret>> {
        self.client.clone().map(|client| Api::namespaced(client, namespace))
    }
}

/// Reads all of vCenter once.
async fn look(insecure: bool) -> Result<std::sync::Arc<Live>, PlanError> {
    let client = environment::vcenter(insecure, None)?;
    client.session().await.map_err(|error| PlanError::Away(error.to_string()))?;
    let (triggers, mut orders) = mpsc::unbounded_channel();
    // Nothing is ever changed, so it takes no turn.
    let live = Live::start(client, Claim::always(), triggers);
    let read = async { while live.away().is_some() && orders.recv().await.is_some() {} };
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(()) => Ok(live),
        Err(_) => Err(PlanError::Away(live.away().unwrap_or_default())),
    }
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
        Action::Destroy(id) => format!("destroy {}", name(id)),
    }
}
