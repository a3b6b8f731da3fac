//! What a command looks at that runs once: a manifest, the cluster if there is one, and the vCenters that groups are in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drover_api::{VCenter, VMInfo, VmGroup};
use drover_core::home::{self, NoVCenter};
use futures::future;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::{
    connection::{BadEnvironment, Connection},
    fleet::{self, Around, DEFAULT, Roster, Seat},
    guard::readable,
    info,
    leadership::Claim,
    loops::Loops,
    vcenter::{Live, Login},
};

/// How long vCenter has to tell what it has.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often it is looked whether it has.
const MOMENT: Duration = Duration::from_millis(20);

/// Why a manifest can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadManifest {
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    #[error("{0}: {1}")]
    Yaml(PathBuf, Box<serde_saphyr::Error>),
    #[error("{0}: a {1} that can't be read: {2}")]
    Object(PathBuf, String, serde_json::Error),
}

/// Why nothing can be looked at.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScoutError {
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
}

/// Why a command has come to no end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("stopped before it was done")]
    Signal,
    #[error("signals can't be received: {0}")]
    Deaf(io::Error),
}

/// Why a group can't be looked at in its vCenter.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoSeat {
    #[error(transparent)]
    None(#[from] NoVCenter),
    #[error("vCenter can't be read: {0}")]
    Away(String),
}

/// What a file of YAML documents has in it that matters here.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub groups: Vec<VmGroup>,
    pub vcenters: Vec<VCenter>,
    pub secrets: Vec<Secret>,
}

impl Manifest {
    /// Reads a file, or, as `-`, standard input.
    pub(crate) fn read(file: &Path) -> Result<Self, BadManifest> {
        let text = if file == Path::new("-") { stdin() } else { fs::read_to_string(file) };
        let text = text.map_err(|error| BadManifest::File(file.into(), error))?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| BadManifest::Yaml(file.into(), error.into()))?;
        Ok(Self {
            groups: objects(file, &documents)?,
            vcenters: objects(file, &documents)?,
            secrets: objects(file, &documents)?,
        })
    }
}

/// The objects of a kind among documents.
fn objects<K>(file: &Path, documents: &[Value]) -> Result<Vec<K>, BadManifest>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    let kind = K::kind(&());
    let found = documents.iter().filter(|document| document["kind"] == *kind).cloned();
    let found: Result<_, _> = found.map(serde_json::from_value).collect();
    found.map_err(|error| BadManifest::Object(file.into(), kind.into_owned(), error))
}

fn stdin() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

/// The Kubernetes cluster, which knows the groups that are there already. Without one, every group is new.
pub(crate) struct Cluster {
    client: Option<Client>,
    pub id: String,
}

impl Cluster {
    async fn find() -> Result<Self, kube::Error> {
        let Ok(client) = Client::try_default().await else {
            eprintln!("drover: no Kubernetes cluster is named (KUBECONFIG): every group is taken to be new");
            return Ok(Self { client: None, id: String::new() });
        };
        let system = Api::<Namespace>::all(client.clone()).get("kube-system").await?;
        Ok(Self { id: system.uid().unwrap_or_default(), client: Some(client) })
    }

    /// The group as the API server would have it after an apply: what it is named by stays, its spec is the manifest's.
    pub(crate) async fn known(&self, mut group: VmGroup) -> Result<VmGroup, kube::Error> {
        let default = self.client.as_ref().map_or("default", Client::default_namespace);
        let namespace = group.namespace().unwrap_or_else(|| default.to_owned());
        group.metadata.namespace = Some(namespace.clone());
        let Some(client) = &self.client else { return Ok(group) };
        let groups = Api::<VmGroup>::namespaced(client.clone(), &namespace);
        if let Some(there) = installed(groups.get_opt(&group.name_any()).await)?.flatten() {
            group.metadata = there.metadata;
            group.status = there.status;
        }
        Ok(group)
    }

    /// All the groups that there are.
    pub(crate) async fn groups(&self) -> Result<Vec<VmGroup>, kube::Error> {
        let Some(client) = &self.client else { return Ok(Vec::new()) };
        Ok(installed(readable(Api::all(client.clone())).await)?.unwrap_or_default())
    }

    /// The members that are to go first.
    pub(crate) async fn marked(&self, namespace: &str) -> Result<BTreeSet<String>, kube::Error> {
        let Some(client) = &self.client else { return Ok(BTreeSet::new()) };
        let infos: Vec<VMInfo> =
            installed(readable(Api::namespaced(client.clone(), namespace)).await)?.unwrap_or_default();
        Ok(infos.iter().filter(|info| info::is_marked(info)).map(ResourceExt::name_any).collect())
    }

    /// The Secrets of a namespace.
    pub(crate) fn secrets(&self, namespace: &str) -> Option<Api<Secret>> {
        self.client.clone().map(|client| Api::namespaced(client, namespace))
    }

    async fn around(&self, namespace: &str) -> Result<Around, kube::Error> {
        let Some(client) = &self.client else { return Ok(Around::default()) };
        let namespace = Api::<Namespace>::all(client.clone()).get_opt(namespace).await?;
        Ok(namespace.map(|namespace| Around::of(&namespace)).unwrap_or_default())
    }

    async fn vcenters(&self) -> Result<Vec<VCenter>, kube::Error> {
        let Some(client) = &self.client else { return Ok(Vec::new()) };
        Ok(installed(readable(Api::all(client.clone())).await)?.unwrap_or_default())
    }
}

/// What was asked for, or `None` where its kind is not installed yet.
fn installed<T>(outcome: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match outcome {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// The vCenters, as the operator would see them.
pub(crate) struct Scout {
    pub cluster: Cluster,
    roster: Roster,
    /// How to connect to each, or why that can't be.
    pub connections: BTreeMap<String, Result<Connection, String>>,
    lives: BTreeMap<String, Arc<Live>>,
    /// What else may have a session.
    clients: Vec<vim25::Client>,
}

impl Scout {
    /// Finds out which vCenters there are: those of the manifest go before those of the cluster.
    pub(crate) async fn find(insecure: bool, given: Vec<VCenter>, secrets: Vec<Secret>) -> Result<Self, ScoutError> {
        let cluster = Cluster::find().await?;
        let mut roster = Roster::default();
        let mut connections = BTreeMap::new();
        if let Some(environment) = Connection::of_environment(insecure)? {
            roster.set_environment();
            connections.insert(DEFAULT.to_owned(), Ok(environment));
        }
        for vcenter in cluster.vcenters().await?.into_iter().chain(given) {
            let name = vcenter.name_any();
            let problem = roster.declare(&name, &vcenter.spec).problem;
            let secret = secret(&cluster, &secrets, &vcenter).await;
            let connection = secret
                .and_then(|secret| Connection::declared(&vcenter.spec, secret.as_ref()).map_err(|bad| bad.to_string()));
            connections.insert(name, problem.map_or(connection, Err));
        }
        Ok(Self { cluster, roster, connections, lives: BTreeMap::new(), clients: Vec::new() })
    }

    /// The vCenter of a group, with all that is in it.
    pub(crate) async fn seat(&mut self, group: &VmGroup) -> Result<Seat, NoSeat> {
        let around = self.cluster.around(&group.namespace().unwrap_or_default()).await;
        let around = around.map_err(|error| NoSeat::Away(error.to_string()))?;
        let recorded = group.status.as_ref().and_then(|status| status.vcenter.as_deref());
        let named = group.spec.vcenter.as_deref().or(recorded);
        let name = home::choose(&self.roster.candidates(&around), around.names(named))?.to_owned();
        let live = self.live(&name).await?;
        Ok(Seat { live, defaults: self.roster.defaults(&name) })
    }

    /// Reads all of a vCenter, once.
    async fn live(&mut self, name: &str) -> Result<Arc<Live>, NoSeat> {
        let live = self.follow(name).map_err(|why| NoVCenter::Unusable { name: name.to_owned(), why })?;
        live.client.session().await.map_err(|error| NoSeat::Away(error.to_string()))?;
        let read = async {
            while !live.is_in_sight() {
                tokio::time::sleep(MOMENT).await;
            }
        };
        if tokio::time::timeout(PATIENCE, read).await.is_err() {
            return Err(NoSeat::Away(live.away().map(|away| away.why).unwrap_or_default()));
        }
        Ok(live)
    }

    /// Begins to follow a vCenter, unless that has begun. Whatever comes of it, its session is ended in the end.
    fn follow(&mut self, name: &str) -> Result<Arc<Live>, String> {
        if let Some(live) = self.lives.get(name) {
            return Ok(Arc::clone(live));
        }
        let connection = self.connections.get(name).cloned().unwrap_or_else(|| Err("it isn't there".to_owned()))?;
        let client = connection.client(None).map_err(|bad| bad.to_string())?;
        // Nobody takes a turn, because nothing is ever changed.
        let (triggers, _) = mpsc::unbounded_channel();
        let live = Live::start(name, client, Login::Declared, None, Claim::always(), triggers, &Loops::default());
        self.lives.insert(name.to_owned(), Arc::clone(&live));
        Ok(live)
    }

    /// Takes note of what may have a session.
    pub(crate) fn remember(&mut self, client: &vim25::Client) {
        self.clients.push(client.clone());
    }

    /// Ends the sessions, which would otherwise stay until the vCenters tire of them.
    pub(crate) async fn farewell(self) {
        let lives = future::join_all(self.lives.values().map(|live| live.leave()));
        future::join(lives, future::join_all(self.clients.iter().map(fleet::close))).await;
    }
}

/// What a command comes to, unless somebody ends it before: it has sessions to end.
pub(crate) async fn until_stopped<T, E: From<Stopped>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Stopped::Deaf)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Stopped::Deaf)?;
    tokio::select! {
        outcome = work => outcome,
        _ = terminate.recv() => Err(Stopped::Signal.into()),
        _ = interrupt.recv() => Err(Stopped::Signal.into()),
    }
}

async fn secret(cluster: &Cluster, given: &[Secret], vcenter: &VCenter) -> Result<Option<Secret>, String> {
    let reference = &vcenter.spec.credentials_secret_ref;
    let is_it = |secret: &&Secret| {
        secret.name_any() == reference.name && secret.namespace().as_deref().unwrap_or("default") == reference.namespace
    };
    if let Some(secret) = given.iter().find(is_it) {
        return Ok(Some(with_data(secret.clone())));
    }
    let Some(secrets) = cluster.secrets(&reference.namespace) else { return Ok(None) };
    secrets.get_opt(&reference.name).await.map_err(|error| format!("spec.credentialsSecretRef: {error}"))
}

/// A Secret as the API server would have it: what a manifest gives as text is data there.
fn with_data(mut secret: Secret) -> Secret {
    let text = secret.string_data.take().unwrap_or_default().into_iter();
    let text = text.map(|(name, value)| (name, k8s_openapi::ByteString(value.into_bytes())));
    secret.data.get_or_insert_default().extend(text);
    secret
}
