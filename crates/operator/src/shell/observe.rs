//! What there is of a MyOwnShell, asked of the API server itself: what is somebody else's shows in no watch of ours.

use std::fmt::Debug;

use drover_core::shell::{APP, CR_LABEL, Desired, Machines, Seen, hosts_name, labels};
use k8s_openapi::{NamespaceResourceScope, api::discovery::v1::EndpointSlice};
use kube::{Api, Client, Resource, api::ListParams};
use serde::de::DeserializeOwned;

/// Looks at all that a MyOwnShell is made of.
pub(super) async fn observe(kube: &Client, desired: &Desired, machines: Machines) -> Result<Seen, kube::Error> {
    let namespace = &desired.namespace;
    let labels = labels(&desired.name);
    let selector = format!("{}={},{CR_LABEL}={}", APP.0, APP.1, labels[CR_LABEL]);
    let ours = ListParams::default().labels(&selector);
    let hosts = hosts_name(&desired.name);
    let pods = api(kube, namespace);
    let slices: Api<EndpointSlice> = api(kube, namespace);
    let autoscalers = api(kube, namespace);
    let everything = ListParams::default();
    let (deployment, file, service, pods, slices, autoscalers) = tokio::try_join!(
        async { api(kube, namespace).get_opt(&desired.name).await },
        async { api(kube, namespace).get_opt(&hosts).await },
        async { api(kube, namespace).get_opt(&hosts).await },
        pods.list(&ours),
        slices.list(&ours),
        autoscalers.list(&everything),
    )?;
    let (pods, slices, autoscalers) = (pods.items, slices.items, autoscalers.items);
    Ok(Seen { deployment, pods, autoscalers, machines, file, service, slices })
}

fn api<K>(kube: &Client, namespace: &str) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    Api::namespaced(kube.clone(), namespace)
}
