//! What wakes the controller of MyOwnShells, and the controller of the Deployments that nobody else lets go.

use std::{fs, sync::Arc, time::Duration, time::Instant};

use drover_api::MyOwnShell;
use drover_core::shell::{APP, is_held_for_nothing, labels};
use futures::{StreamExt, future, stream};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Pod, Service},
    discovery::v1::EndpointSlice,
};
// What wakes a controller need not be read whole: the code that reads a pod's insides is larger than all of this room's.
use kube::api::PartialObjectMeta as Meta;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        Controller,
        controller::{self, Action as Requeue},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use tokio::time::timeout;
use tracing::warn;

use super::{
    Context, Error, PATIENCE, RESYNC,
    act::drop_finalizer,
    members::{Key, Members},
    reconcile,
    report::Pace,
};
use crate::{
    fleet::Namespaces,
    guard::Guarded,
    loops::Loops,
    metrics::{Metrics, Outcome},
    shelf::{Shelf, backoff, drive},
};

/// Events that come together are one reason to look.
const TOGETHER: Duration = Duration::from_millis(50);

/// Keeps all MyOwnShells as they are declared, until told to stop.
pub(crate) async fn run(
    kube: Client,
    namespaces: Arc<Namespaces>,
    metrics: Metrics,
    told_to_stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
    loops: &Loops,
) {
    let members = Arc::new(Members::default());
    let changed = Arc::clone(&members).follow(&kube);
    let context = Arc::new(Context {
        kube: kube.clone(),
        namespaces,
        members,
        pace: Pace::default(),
        metrics,
        domain: fs::read_to_string("/etc/resolv.conf").ok().and_then(|text| domain(&text)).unwrap_or(DOMAIN.to_owned()),
    });
    let ours = watcher::Config::default().labels(&format!("{}={}", APP.0, APP.1));
    let config = || controller::Config::default().concurrency(16).debounce(TOGETHER);

    let (declared, writer) = Shelf::new();
    let told = declared.watch(&kube, writer, |_, _| {});
    let (all, of_pods) = (declared.store.clone(), declared.store.clone());
    let shells = Controller::for_stream(told, declared.store);
    let concerned = changed.flat_map(move |group| stream::iter(that_find(&all, &group)));
    let shells = shells
        // By its name, because one that has lost its owner is news too.
        .watches(Api::<Meta<Deployment>>::all(kube.clone()), ours.clone(), |deployment| {
            named(&deployment, &deployment.name_any())
        })
        .watches(Api::<Meta<Pod>>::all(kube.clone()), ours.clone(), move |pod| of_pod(&of_pods, &pod))
        .watches(Api::<Guarded<HorizontalPodAutoscaler>>::all(kube.clone()), watcher::Config::default(), |autoscaler| {
            of_autoscaler(&autoscaler.0.ok()?)
        })
        .owns(Api::<Meta<ConfigMap>>::all(kube.clone()), ours.clone())
        .owns(Api::<Meta<Service>>::all(kube.clone()), ours.clone())
        .owns(Api::<Meta<EndpointSlice>>::all(kube.clone()), ours.clone())
        .trigger_backoff(backoff())
        .with_config(config())
        .reconcile_on(concerned)
        .graceful_shutdown_on(told_to_stop.clone())
        .run(measured, on_error, Arc::clone(&context));

    let deployments = Controller::new(Api::<Meta<Deployment>>::all(kube), ours)
        .trigger_backoff(backoff())
        .with_config(config())
        .graceful_shutdown_on(told_to_stop)
        .run(release, on_error, context);
    future::join(drive(shells, loops.pulse("shells")), drive(deployments, loops.pulse("deployments"))).await;
}

/// Lets a Deployment go whose MyOwnShell may be gone already, and can't.
async fn release(deployment: Arc<Meta<Deployment>>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !is_held_for_nothing(&deployment.metadata) {
        return Ok(Requeue::await_change());
    }
    match timeout(PATIENCE, drop_finalizer(&context.kube, &*deployment)).await? {
        // It has changed, and the watch brings what it is now.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Requeue::requeue(RESYNC)),
        outcome => Ok(outcome.map(|()| Requeue::await_change())?),
    }
}

async fn measured(shell: Arc<MyOwnShell>, context: Arc<Context>) -> Result<Requeue, Error> {
    let (began, metrics) = (Instant::now(), context.metrics.clone());
    let outcome = reconcile(shell, context).await;
    metrics.reconciled("MyOwnShell", Outcome::of(&outcome), began.elapsed());
    outcome
}

/// What is done when a reconcile fails: the API server is asked again in a while.
#[allow(clippy::needless_pass_by_value, reason = "kube hands it over so")]
fn on_error<K: Resource<DynamicType = ()>>(object: Arc<K>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(kind = %K::kind(&()), namespace = object.namespace(), object = %object.name_any(), %error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}

fn named(object: &impl ResourceExt, shell: &str) -> Option<ObjectRef<MyOwnShell>> {
    Some(ObjectRef::new(shell).within(&object.namespace()?))
}

/// The MyOwnShells that find the machines of a group.
fn that_find(all: &Store<MyOwnShell>, (namespace, group): &Key) -> Vec<ObjectRef<MyOwnShell>> {
    let finds = |shell: &MyOwnShell| {
        shell.spec.vm_group_ref.as_ref().is_some_and(|named| named.name == *group)
            && shell.namespace().as_ref() == Some(namespace)
    };
    all.state().iter().filter(|shell| finds(shell)).map(|shell| ObjectRef::from_obj(&**shell)).collect()
}

fn of_pod(all: &Store<MyOwnShell>, pod: &Meta<Pod>) -> Option<ObjectRef<MyOwnShell>> {
    let is_its = |shell: &MyOwnShell| {
        let labels = labels(&shell.name_any());
        shell.namespace() == pod.namespace()
            && labels.iter().all(|(name, value)| pod.labels().get(*name) == Some(value))
    };
    all.find(is_its).map(|shell| ObjectRef::from_obj(&*shell))
}

fn of_autoscaler(autoscaler: &HorizontalPodAutoscaler) -> Option<ObjectRef<MyOwnShell>> {
    let target = &autoscaler.spec.as_ref()?.scale_target_ref;
    if target.kind == "Deployment" { named(autoscaler, &target.name) } else { None }
}

/// What most clusters are called in DNS.
const DOMAIN: &str = "cluster.local";

/// The cluster's domain, as a pod's own settings have it.
fn domain(settings: &str) -> Option<String> {
    let mut words = settings.lines().filter_map(|line| line.strip_prefix("search ")).flat_map(str::split_whitespace);
    words.find_map(|word| word.strip_prefix("svc.")).map(|domain| domain.trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clusters_domain_is_what_pods_search_in() {
        let settings = "nameserver 10.96.0.10\nsearch drover.svc.k8s.example.com svc.k8s.example.com k8s.example.com\n";
        assert_eq!(domain(settings).as_deref(), Some("k8s.example.com"));
        assert_eq!(domain("search example.com\nnameserver 1.1.1.1\n"), None);
    }
}
