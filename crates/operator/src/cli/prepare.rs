//! What has to be there before an operator can work. What isn't there yet is waited for: whoever installs Drover may apply the
//! Deployment before the kinds or the roles, and an operator that ended would be restarted ever more slowly. `/readyz` says meanwhile
//! that the operator is not ready, so that a rollout stops before the old version is gone.

use std::{collections::BTreeSet, fmt::Debug, time::Duration};

use drover_api::{HostInfo, MyOwnShell, VCenter, VMInfo, VmGroup};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::Namespace};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use crate::kube::{
    scope::{Controller, Scope},
    shared_watch::backoff,
};

/// What an operator has to know before it begins.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The id of this cluster.
    pub cluster: String,
    /// The names of the VCenters that there are.
    pub vcenters: BTreeSet<String>,
}

/// Waits until the kinds are installed that the operator looks after, and reads what it has to know.
pub(crate) async fn prepare(kube: &Client, scope: &Scope, cluster: Option<&str>) -> Prepared {
    patiently(|| missing_kinds(kube, scope)).await;
    let cluster = match cluster {
        Some(id) => id.to_owned(),
        None => patiently(|| cluster_id(kube)).await,
    };
    let vcenters = if scope.runs(Controller::VCenter) { patiently(|| vcenters(kube)).await } else { BTreeSet::new() };
    Prepared { cluster, vcenters }
}

/// Tries until there is something, and says what is missing.
async fn patiently<T, F>(attempt: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, Missing>>,
{
    let mut pauses = backoff();
    let mut has_waited = false;
    loop {
        match attempt().await {
            Ok(found) => {
                if has_waited {
                    info!("What was missing is there");
                }
                return found;
            }
            Err(missing) => missing.say(),
        }
        has_waited = true;
        tokio::time::sleep(pauses.next().unwrap_or(Duration::from_secs(2))).await;
    }
}

/// What is waited for.
enum Missing {
    Kinds(Vec<String>),
    Id(kube::Error),
    VCenters(kube::Error),
    Cluster(kube::Error),
}

impl Missing {
    fn say(&self) {
        match self {
            Self::Kinds(kinds) => warn!(
                kinds = kinds.join(","),
                "kinds are not installed, and are waited for: drover crds | kubectl apply --server-side -f -"
            ),
            Self::Id(error) => warn!(
                %error,
                "the namespace kube-system, whose UID is the cluster's id, can't be read, and is waited for: grant get on it \
                 (config/rbac), or give --cluster-id"
            ),
            Self::VCenters(error) => warn!(
                %error,
                "the VCenters can't be read, and are waited for: grant list and watch on vcenters (config/rbac), or run without \
                 them: --controllers='*,-vcenter'"
            ),
            Self::Cluster(error) => warn!(%error, "Kubernetes cluster not readable; waiting for it"),
        }
    }
}

/// Whether the kinds are installed that the operator looks after. Whether it may read them is another matter: of each that it may not,
/// its watch tells.
async fn missing_kinds(kube: &Client, scope: &Scope) -> Result<(), Missing> {
    let mut missing = Vec::new();
    if scope.runs(Controller::VmGroup) {
        missing.extend(lacks(namespaced::<VmGroup>(kube, scope)).await?);
    }
    if scope.runs(Controller::HostInfo) {
        missing.extend(lacks(namespaced::<HostInfo>(kube, scope)).await?);
    }
    if scope.runs(Controller::VMInfo) {
        missing.extend(lacks(namespaced::<VMInfo>(kube, scope)).await?);
    }
    if scope.runs(Controller::MyOwnShell) {
        missing.extend(lacks(namespaced::<MyOwnShell>(kube, scope)).await?);
    }
    if scope.runs(Controller::VCenter) {
        missing.extend(lacks(Some(Api::<VCenter>::all(kube.clone()))).await?);
    }
    if missing.is_empty() { Ok(()) } else { Err(Missing::Kinds(missing)) }
}

fn namespaced<K>(kube: &Client, scope: &Scope) -> Option<Api<K>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    scope.reach.apis(kube).into_iter().next()
}

/// The name of a kind that is not installed.
async fn lacks<K>(api: Option<Api<K>>) -> Result<Option<String>, Missing>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let Some(api) = api else { return Ok(None) };
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(K::kind(&()).into_owned())),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
        Err(error) => Err(Missing::Cluster(error)),
        Ok(_) => Ok(None),
    }
}

async fn cluster_id(kube: &Client) -> Result<String, Missing> {
    let system = Api::<Namespace>::all(kube.clone()).get("kube-system").await.map_err(Missing::Id)?;
    Ok(system.uid().unwrap_or_default())
}

async fn vcenters(kube: &Client) -> Result<BTreeSet<String>, Missing> {
    let all = Api::<VCenter>::all(kube.clone()).list_metadata(&ListParams::default()).await;
    Ok(all.map_err(Missing::VCenters)?.items.iter().map(ResourceExt::name_any).collect())
}
