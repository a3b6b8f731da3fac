//! What wakes the controller of MyOwnShells, and the controller of the Deployments that nobody else lets go.

use std::{fs, sync::Arc, time::Duration};

use drover_api::{MyOwnShell, VMInfo, VmGroup};
use drover_core::shell::{APP, FINALIZER, is_held_for_nothing, labels};
use futures::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{ConfigMap, Pod, Service},
    discovery::v1::EndpointSlice,
};
// What wakes a controller need not be read whole: the code that reads a pod's insides is larger than all of this room's.
use kube::api::PartialObjectMeta as Meta;
use kube::{
    Client, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action as Requeue},
        reflector::{self, ObjectRef, Store},
        watcher::{self, Event},
    },
};
use tokio::sync::{Notify, mpsc};

use super::{
    Context, RESYNC,
    act::of_its_kind,
    members::{Key, Members},
    reconcile,
};
use crate::{
    controllers::{
        binding::Namespaces,
        reconcile::{Attempts, Error, mandated},
    },
    kube::{
        events::Recorder,
        finalizer,
        guard::Guarded,
        leadership::Claim,
        scope::Scope,
        shared_watch::{SharedWatch, backoff, drive, received, told as watched},
        status::Throttle,
    },
    loops::Loops,
    telemetry::metrics::Metrics,
};

/// Events that come together are one reason to look.
const TOGETHER: Duration = Duration::from_millis(50);

/// What the watches of groups and of VMInfos tell.
pub(crate) type Told =
    (BoxStream<'static, watcher::Event<Guarded<VmGroup>>>, BoxStream<'static, watcher::Event<Guarded<VMInfo>>>);

/// When a replica works on MyOwnShells.
pub(crate) struct Duty {
    /// Held while it does.
    pub claim: Claim,
    /// Says when all are to be looked at.
    pub again: Arc<Notify>,
    /// By which everything is told.
    pub events: Recorder,
    /// The groups and VMInfos, where this operator reads both.
    pub told: Option<Told>,
}

/// Keeps all MyOwnShells as they are declared, until told to stop, while this replica has the claim.
pub(crate) async fn run(
    kube: Client,
    scope: &Scope,
    Duty { claim, again, events, told }: Duty,
    namespaces: Arc<Namespaces>,
    metrics: Metrics,
    told_to_stop: impl Future<Output = ()> + Clone + Send + Sync + 'static,
    loops: &Loops,
) {
    let reach = &scope.reach;
    let members = Arc::new(if told.is_some() { Members::default() } else { Members::unread() });
    let changed = match told {
        Some((groups, infos)) => Arc::clone(&members).follow(groups, infos).left_stream(),
        None => stream::pending().right_stream(),
    };
    let context = Arc::new(Context {
        kube: kube.clone(),
        events: events.clone(),
        claim,
        namespaces,
        members,
        pace: Throttle::default(),
        metrics,
        domain: fs::read_to_string("/etc/resolv.conf").ok().and_then(|text| domain(&text)).unwrap_or(DOMAIN.to_owned()),
    });
    // Each of both controllers, whichever is asked first.
    let (for_shells, for_deployments) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let pass_on = {
        let (for_shells, for_deployments) = (Arc::clone(&for_shells), Arc::clone(&for_deployments));
        async move {
            loop {
                again.notified().await;
                for_shells.notify_one();
                for_deployments.notify_one();
            }
        }
    };
    let ours = watcher::Config::default().labels(&format!("{}={}", APP.0, APP.1));
    let config = || controller::Config::default().concurrency(16).debounce(TOGETHER);

    let (declared, writer) = SharedWatch::new();
    let told_of = declared.watch(&events, reach.apis(&kube), writer, |_, _| {});
    let (all, of_pods) = (declared.store.clone(), declared.store.clone());
    let mut shells = Controller::for_stream(told_of, declared.store);
    for pods in reach.apis::<Meta<Pod>>(&kube) {
        let of_pods = of_pods.clone();
        shells = shells.watches(pods, ours.clone(), move |pod| of_pod(&of_pods, &pod));
    }
    for autoscalers in reach.apis::<Guarded<HorizontalPodAutoscaler>>(&kube) {
        shells =
            shells.watches(autoscalers, watcher::Config::default(), |autoscaler| of_autoscaler(&autoscaler.0.ok()?));
    }
    for files in reach.apis::<Meta<ConfigMap>>(&kube) {
        shells = shells.owns(files, ours.clone());
    }
    for services in reach.apis::<Meta<Service>>(&kube) {
        shells = shells.owns(services, ours.clone());
    }
    for slices in reach.apis::<Meta<EndpointSlice>>(&kube) {
        shells = shells.owns(slices, ours.clone());
    }
    let (tell, of_deployments) = mpsc::unbounded_channel();
    let concerned = changed.flat_map(move |group| stream::iter(that_find(&all, &group)));
    let attempts = Attempts::new(&context.metrics, "MyOwnShell");
    let on_error = attempts.on_error();
    let shells = shells
        .trigger_backoff(backoff())
        .with_config(config())
        .reconcile_on(concerned)
        .reconcile_on(received(of_deployments))
        .reconcile_all_on(notified(for_shells))
        .graceful_shutdown_on(told_to_stop.clone())
        .run(
            move |shell, context| attempts.clone().run(Arc::clone(&shell), reconcile(shell, context)),
            on_error,
            Arc::clone(&context),
        );

    let (made, writer) = reflector::store();
    let those = watched(reach.apis::<Meta<Deployment>>(&kube), &ours).inspect(move |event| {
        if let Event::Apply(deployment) | Event::InitApply(deployment) | Event::Delete(deployment) = event
            // By its name, because one that has lost its owner is news too.
            && let Some(shell) = named(deployment, &deployment.name_any())
        {
            // That one has ended ends the operator.
            let _ = tell.send(shell);
        }
    });
    let those = those.map(Ok).reflect(writer).applied_objects();
    let releases = Attempts::new(&context.metrics, "Deployment");
    let not_released = releases.on_error();
    let deployments = Controller::for_stream(those, made)
        .with_config(config())
        .reconcile_all_on(notified(for_deployments))
        .graceful_shutdown_on(told_to_stop)
        .run(
            move |deployment, context| releases.clone().run(Arc::clone(&deployment), release(deployment, context)),
            not_released,
            context,
        );
    let both = future::join(drive(shells, loops.pulse("shells")), drive(deployments, loops.pulse("deployments")));
    tokio::select! {
        _ = both => {}
        () = pass_on => {}
    }
}

fn notified(notify: Arc<Notify>) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(notify, |notify| async {
        notify.notified().await;
        Some(((), notify))
    })
}

/// Lets a Deployment go whose MyOwnShell may be gone already, and can't.
async fn release(deployment: Arc<Meta<Deployment>>, context: Arc<Context>) -> Result<Requeue, Error> {
    if !is_held_for_nothing(&deployment.metadata) {
        return Ok(Requeue::await_change());
    }
    let deployments = of_its_kind(&context.kube, &*deployment);
    let let_go = async {
        // What has changed is what the watch brings.
        let is_done = finalizer::take_off(&deployments, &deployment.metadata, FINALIZER).await?;
        Ok(if is_done { Requeue::await_change() } else { Requeue::requeue(RESYNC) })
    };
    mandated(context.claim.mandate(), |_| let_go).await
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
