//! What a command looks at that runs once: a manifest, the cluster if there is one, and the vCenters that groups are in.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use drover_api::{VCenter, VCenterSpec, VMInfo, VmGroup, vcenter::SecretReference};
use drover_core::vcenter::binding::{self, NoVCenter, Serves};
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
    cli::{LookFlags, cluster::BadCluster},
    controllers::{
        binding::{self as vcenters, Around, BoundVCenter, DEFAULT, Roster},
        info,
    },
    kube::{guard::readable, leadership::Claim},
    loops::Loops,
    vcenter::{
        Login, VCenterHandle,
        connection::{BadEnvironment, Connection},
    },
};

/// The namespace that the operator is installed to, if nobody has chosen another.
const INSTALLED: &str = "drover-system";

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
pub(crate) enum OfflineError {
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error("{0}; to look at vCenter alone, as if no VmGroup existed, use --no-cluster")]
    NoCluster(BadCluster),
    #[error(transparent)]
    Cluster(BadCluster),
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
pub(crate) enum NotBound {
    #[error(transparent)]
    None(#[from] NoVCenter),
    #[error("the VCenter {0:?} can't be used: {1}")]
    Unusable(String, String),
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

/// Where the operator is, if nobody says so: where it is installed, or else where one would be that is run here.
async fn likely_operator(client: &Client) -> String {
    let installed = Api::<Namespace>::all(client.clone()).get_opt(INSTALLED).await;
    // To whom may not look, it is installed where all are.
    if matches!(installed, Ok(None)) { client.default_namespace().to_owned() } else { INSTALLED.to_owned() }
}

/// The Kubernetes cluster, which knows the groups that are there already. Without one, every group is new.
pub(crate) struct Cluster {
    client: Option<Client>,
    pub id: String,
    /// The namespace of objects that name none.
    namespace: String,
    /// The operator's own namespace.
    operator: String,
}

impl Cluster {
    async fn find(flags: &LookFlags) -> Result<Self, OfflineError> {
        let operator = flags.operator_namespace();
        let id = flags.cluster_id.clone();
        if flags.no_cluster {
            let operator = operator.unwrap_or_else(|| INSTALLED.to_owned());
            let namespace = flags.namespace.clone().unwrap_or_else(|| "default".to_owned());
            return Ok(Self { client: None, id: id.unwrap_or_default(), namespace, operator });
        }
        let client = flags.cluster.client().await.map_err(|bad| match bad {
            BadCluster::None => OfflineError::NoCluster(bad),
            _ => OfflineError::Cluster(bad),
        })?;
        let id = match id {
            Some(id) => id,
            None => Api::<Namespace>::all(client.clone()).get("kube-system").await?.uid().unwrap_or_default(),
        };
        let namespace = flags.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let operator = match operator {
            Some(operator) => operator,
            None => likely_operator(&client).await,
        };
        Ok(Self { client: Some(client), id, namespace, operator })
    }

    /// The group as the API server would have it after an apply: what it is named by stays, its spec is the manifest's.
    pub(crate) async fn known(&self, mut group: VmGroup) -> Result<VmGroup, kube::Error> {
        let namespace = group.namespace().unwrap_or_else(|| self.namespace.clone());
        group.metadata.namespace = Some(namespace.clone());
        let Some(client) = &self.client else { return Ok(group) };
        let groups = Api::<VmGroup>::namespaced(client.clone(), &namespace);
        if let Some(there) = installed(groups.get_opt(&group.name_any()).await)?.flatten() {
            group.metadata = there.metadata;
            group.status = there.status;
        }
        Ok(group)
    }

    /// All the groups that there are, or those of one namespace.
    pub(crate) async fn groups(&self, namespace: Option<&str>) -> Result<Vec<VmGroup>, kube::Error> {
        let Some(client) = &self.client else { return Ok(Vec::new()) };
        let groups = match namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        };
        Ok(installed(readable(groups).await)?.unwrap_or_default())
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

    /// What a namespace says, if there is one of that name.
    async fn around(&self, namespace: &str) -> Result<Option<Around>, kube::Error> {
        let Some(client) = &self.client else { return Ok(None) };
        let namespace = Api::<Namespace>::all(client.clone()).get_opt(namespace).await?;
        Ok(namespace.map(|namespace| Around::of(&namespace)))
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
pub(crate) struct Offline {
    pub cluster: Cluster,
    pub roster: Roster,
    /// How to connect to each, or why that can't be.
    pub connections: BTreeMap<String, Result<Connection, String>>,
    lives: BTreeMap<String, Arc<VCenterHandle>>,
    /// What else may have a session.
    clients: Vec<vim25::Client>,
}

impl Offline {
    /// Finds out which vCenters there are: those of the manifest go before those of the cluster.
    pub(crate) async fn find(
        flags: &LookFlags,
        given: Vec<VCenter>,
        secrets: Vec<Secret>,
    ) -> Result<Self, OfflineError> {
        let environment = Connection::of_environment(flags.insecure)?;
        let cluster = Cluster::find(flags).await?;
        let mut roster = Roster::default();
        let mut connections = BTreeMap::new();
        if let Some(environment) = environment.clone() {
            roster.set_environment();
            connections.insert(DEFAULT.to_owned(), Ok(environment));
        }
        for vcenter in cluster.vcenters().await?.into_iter().chain(given) {
            let name = vcenter.name_any();
            let problem = roster.declare(&name, &vcenter.spec).problem;
            let spec = &vcenter.spec;
            let connection = if name == DEFAULT && spec.is_of_environment() {
                Connection::left_to_environment(spec, environment.clone()).map_err(|bad| bad.to_string())
            } else {
                secret(&cluster, &secrets, spec).await.and_then(|secret| {
                    Connection::declared(spec, &cluster.operator, secret.as_ref()).map_err(|bad| bad.to_string())
                })
            };
            connections.insert(name, problem.map_or(connection, Err));
        }
        Ok(Self { cluster, roster, connections, lives: BTreeMap::new(), clients: Vec::new() })
    }

    /// The vCenter of a group, with all that is in it.
    pub(crate) async fn bound(&mut self, group: &VmGroup) -> Result<BoundVCenter, NotBound> {
        let namespace = group.namespace().unwrap_or_default();
        let around = self.cluster.around(&namespace).await;
        let around = around.map_err(|error| NotBound::Away(error.to_string()))?.unwrap_or_default();
        let recorded = group.status.as_ref().and_then(|status| status.vcenter.as_deref());
        let named = group.spec.vcenter.as_deref().or(recorded);
        let name = binding::choose(&self.roster.candidates(&around), around.names(named))?.to_owned();
        self.bound_to(&name, &namespace, &around).await
    }

    /// The vCenters that serve a namespace, by name, with all that is in each. `None`: there is no such namespace.
    pub(crate) async fn bindings(
        &mut self,
        namespace: &str,
    ) -> Result<Option<Vec<(String, Result<BoundVCenter, NotBound>)>>, kube::Error> {
        let Some(around) = self.cluster.around(namespace).await? else { return Ok(None) };
        let candidates = self.roster.candidates(&around).into_iter();
        let serving = candidates.filter(|it| it.serves != Serves::Others).map(|it| it.name.to_owned());
        let mut bindings = Vec::new();
        for name in serving.collect::<Vec<_>>() {
            let bound = self.bound_to(&name, namespace, &around).await;
            bindings.push((name, bound));
        }
        Ok(Some(bindings))
    }

    async fn bound_to(&mut self, name: &str, namespace: &str, around: &Around) -> Result<BoundVCenter, NotBound> {
        let live = self.live(name).await?;
        let rules = self.roster.rules(name, namespace, around);
        let keys = self.roster.keys(name, around);
        let quota = self.roster.quota(name, around);
        Ok(BoundVCenter { live, defaults: self.roster.defaults(name), rules, keys, quota })
    }

    /// Reads all of a vCenter, once.
    async fn live(&mut self, name: &str) -> Result<Arc<VCenterHandle>, NotBound> {
        let live = self.follow(name).map_err(|why| NotBound::Unusable(name.to_owned(), why))?;
        live.log_in().await.map_err(|error| NotBound::Away(error.to_string()))?;
        let read = async {
            while !live.is_in_sight() {
                tokio::time::sleep(MOMENT).await;
            }
        };
        if tokio::time::timeout(PATIENCE, read).await.is_err() {
            return Err(NotBound::Away(live.away().map(|away| away.why).unwrap_or_default()));
        }
        Ok(live)
    }

    /// Begins to follow a vCenter, unless that has begun. Whatever comes of it, its session is ended in the end.
    fn follow(&mut self, name: &str) -> Result<Arc<VCenterHandle>, String> {
        if let Some(live) = self.lives.get(name) {
            return Ok(Arc::clone(live));
        }
        let connection = self.connections.get(name).cloned().unwrap_or_else(|| Err("it isn't there".to_owned()))?;
        let client = connection.client(None).map_err(|bad| bad.to_string())?;
        // Nobody takes a turn, because nothing is ever changed.
        let (triggers, _) = mpsc::unbounded_channel();
        let live =
            VCenterHandle::start(name, client, Login::Declared, None, Claim::always(), triggers, &Loops::default());
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
        future::join(lives, future::join_all(self.clients.iter().map(vcenters::close))).await;
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

async fn secret(cluster: &Cluster, given: &[Secret], spec: &VCenterSpec) -> Result<Option<Secret>, String> {
    let Some(SecretReference { namespace, name }) = &spec.credentials_secret_ref else { return Ok(None) };
    let namespace = namespace.as_ref().unwrap_or(&cluster.operator);
    let is_it = |secret: &&Secret| {
        secret.name_any() == *name && secret.namespace().as_ref().unwrap_or(&cluster.namespace) == namespace
    };
    if let Some(secret) = given.iter().find(is_it) {
        return Ok(Some(with_data(secret.clone())));
    }
    let Some(secrets) = cluster.secrets(namespace) else { return Ok(None) };
    secrets.get_opt(name).await.map_err(|error| format!("spec.credentialsSecretRef: {error}"))
}

/// A Secret as the API server would have it: what a manifest gives as text is data there.
fn with_data(mut secret: Secret) -> Secret {
    let text = secret.string_data.take().unwrap_or_default().into_iter();
    let text = text.map(|(name, value)| (name, k8s_openapi::ByteString(value.into_bytes())));
    secret.data.get_or_insert_default().extend(text);
    secret
}
