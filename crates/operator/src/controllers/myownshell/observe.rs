//! What there is of a MyOwnShell, asked of the API server itself: what is somebody else's shows in no watch of ours.

use std::fmt::Debug;

use drover_core::shell::{APP, CR_LABEL, Desired, Machines, Seen, former_hosts_name, is_shell, labels};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod},
        discovery::v1::EndpointSlice,
    },
};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use crate::kube::guard::Guarded;

/// Looks at all that a MyOwnShell is made of.
pub(super) async fn observe(kube: &Client, desired: &Desired, machines: Machines) -> Result<Seen, kube::Error> {
    let namespace = &desired.namespace;
    let labels = labels(&desired.name);
    let selector = format!("{}={},{CR_LABEL}={}", APP.0, APP.1, labels[CR_LABEL]);
    let ours = ListParams::default().labels(&selector);
    let pods: Api<Pod> = api(kube, namespace);
    let slices: Api<EndpointSlice> = api(kube, namespace);
    let autoscalers: Api<Guarded<HorizontalPodAutoscaler>> = api(kube, namespace);
    let everything = ListParams::default();
    let (deployment, file, service, pods, slices, autoscalers) = tokio::try_join!(
        async { api(kube, namespace).get_opt(&desired.name).await },
        async { api(kube, namespace).get_opt(&desired.hosts).await },
        async { api(kube, namespace).get_opt(&desired.hosts).await },
        pods.list(&ours),
        slices.list(&ours),
        autoscalers.list(&everything),
    )?;
    let (mut pods, slices) = (pods.items, slices.items);
    // They may be anybody's: one that can't be read hides no other.
    let autoscalers = autoscalers.items.into_iter().filter_map(|autoscaler| autoscaler.0.ok()).collect();
    pods.retain(|pod| is_shell(&pod.metadata, &desired.name));
    Ok(Seen { deployment, pods, autoscalers, machines, file, service, slices })
}

/// Finds out whether a MyOwnShell has a hosts file by the name that earlier versions gave.
pub(super) async fn keep_former_hosts(kube: &Client, desired: &mut Desired) -> Result<(), kube::Error> {
    let Some(former) = former_hosts_name(&desired.name) else { return Ok(()) };
    let there = api::<ConfigMap>(kube, &desired.namespace).get_metadata_opt(&former).await?;
    desired.keep_former_hosts(there.as_ref().map(|file| &file.metadata));
    Ok(())
}

fn api<K>(kube: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    Api::namespaced(kube.clone(), namespace)
}
