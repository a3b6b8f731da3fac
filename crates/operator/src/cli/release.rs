//! `drover release`: somebody says to go on after an incident, though VMs are missing.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    io::{self, Write},
};

use drover_api::{VCenter, VmGroup, vmgroup::RELEASE_ANNOTATION};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    cli::cluster::{BadCluster, ClusterFlags},
    kube::guard::readable,
};

/// Why nothing was released.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReleaseError {
    #[error(transparent)]
    Cluster(#[from] BadCluster),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error("there is no incident {0}: the status of VmGroups and VCenters names those that there are")]
    Unknown(String),
    #[error("printing: {0}")]
    Print(#[from] io::Error),
}

/// Writes down on all that an incident holds that it may go on.
///
/// In one namespace, those of its VmGroups that the incident holds: VCenters are in none, and are not looked at.
pub(crate) async fn release(
    incident: &str,
    namespace: Option<&str>,
    cluster: &ClusterFlags,
) -> Result<(), ReleaseError> {
    let kube = cluster.client().await?;
    let vcenters: Vec<VCenter> = match namespace {
        Some(_) => Vec::new(),
        None => readable(Api::all(kube.clone())).await?,
    };
    let groups: Vec<VmGroup> = readable(match namespace {
        Some(namespace) => Api::namespaced(kube.clone(), namespace),
        None => Api::all(kube.clone()),
    })
    .await?;
    let mut released = 0;
    let names = |group: &VmGroup| group.status.as_ref().and_then(|status| status.incident.as_deref()) == Some(incident);
    let home = |group: &VmGroup| group.status.as_ref().and_then(|status| status.vcenter.clone());
    // An incident of a whole vCenter stops all its groups, also those that name one of their own.
    let stopped: BTreeSet<_> =
        groups.iter().filter(|group| incident.starts_with("vc-") && names(group)).filter_map(home).collect();
    for vcenter in vcenters {
        if vcenter.status.as_ref().and_then(|status| status.incident.as_deref()) == Some(incident) {
            annotate(&Api::<VCenter>::all(kube.clone()), &vcenter, incident).await?;
            writeln!(io::stdout(), "VCenter {}: {incident} is released", vcenter.name_any())?;
            released += 1;
        }
    }
    for group in groups {
        if names(&group) || home(&group).is_some_and(|vcenter| stopped.contains(&vcenter)) {
            let namespace = group.namespace().unwrap_or_default();
            annotate(&Api::<VmGroup>::namespaced(kube.clone(), &namespace), &group, incident).await?;
            writeln!(io::stdout(), "VmGroup {namespace}/{}: {incident} is released", group.name_any())?;
            released += 1;
        }
    }
    if released == 0 { Err(ReleaseError::Unknown(incident.to_owned())) } else { Ok(()) }
}

/// Adds an incident to those that an object is released from.
async fn annotate<K>(api: &Api<K>, object: &K, incident: &str) -> Result<(), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let before = object.annotations().get(RELEASE_ANNOTATION).map(String::as_str).unwrap_or_default();
    let mut incidents: Vec<_> =
        before.split(',').map(str::trim).filter(|one| !one.is_empty() && *one != incident).collect();
    // Few are ever needed at once, and an annotation has its limits.
    incidents.drain(..incidents.len().saturating_sub(3));
    incidents.push(incident);
    let patch = json!({"metadata": {"annotations": {RELEASE_ANNOTATION: incidents.join(",")}}});
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}
