//! The operator itself: it runs until it is told to stop.

use std::{collections::HashSet, fmt::Debug, panic::AssertUnwindSafe, sync::Arc, time::Instant};

use drover_api::{HostInfo, MyOwnShell, VCenter, VMInfo, VmGroup};
use drover_core::{group::Timestamp, reasons::Reason};
use futures::{
    FutureExt, StreamExt,
    future::{self, BoxFuture, Shared},
    stream,
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Config, Resource, ResourceExt,
    api::ListParams,
    runtime::{Controller, controller, reflector::ObjectRef, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tracing::{error, info};

use crate::{
    connection::{BadEnvironment, Connection},
    events,
    flags::{Flags, Serve},
    fleet::{self, DEFAULT, Fleet, Namespaces},
    group::{self, Context},
    guard::Guarded,
    info::{self, Infos},
    leadership::{LEASE, Leadership, Loss},
    loops::{Loops, ended},
    metrics::{Metrics, Outcome},
    serve::{self, Readiness, Told},
    shelf::{Shelf, drive, received, timely},
    shell,
    vcenter::{self, Trigger},
};

/// Why the operator can't start or go on, and what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error(transparent)]
    Serve(#[from] serve::Unavailable),
    #[error("no Kubernetes cluster is named: set KUBECONFIG, or run in a pod ({0})")]
    Kubeconfig(kube::Error),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(kube::Error),
    #[error("the kind {0} is not installed: drover crds | kubectl apply --server-side -f -")]
    NoKind(String),
    #[error(
        "no vCenter is named: set VC_HOST, VC_USER and VC_PASS (or GOVMOMI_URL, GOVMOMI_USERNAME and GOVMOMI_PASSWORD) in the \
         operator's environment, or make a VCenter: config/samples/vm_v1alpha1_vcenter.yaml shows how"
    )]
    NoVCenter,
    #[error("{0}; to connect without checking who answers, use --insecure")]
    Untrusted(vim25::Error),
    #[error("the lease {LEASE} is lost: {0}; this operator ends, and another or a restarted one goes on")]
    Lost(Loss),
    #[error("{0}")]
    Ended(String),
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Runs the operator.
pub(crate) async fn run(flags: &Flags) -> Result<(), RunError> {
    let (metrics, ready) = (Metrics::new(), Readiness::default());
    let environment = Connection::of_environment(flags.insecure)?;
    let environment = environment.map(|it| it.client(Some(metrics.observer(DEFAULT)))).transpose();
    let environment = environment.map_err(BadEnvironment::from)?;
    let outcome = Box::pin(run_with(flags, &metrics, &ready, environment.as_ref())).await;
    // Whatever it came to: a session that nobody ends stays until vCenter tires of it.
    log_out(environment.as_ref()).await;
    outcome
}

/// Runs the operator with the vCenter that the environment names, if it names one.
async fn run_with(
    flags: &Flags,
    metrics: &Metrics,
    ready: &Readiness,
    environment: Option<&vim25::Client>,
) -> Result<(), RunError> {
    // Before anybody logs in.
    let told_to_stop = told_to_stop()?;
    let loops = Loops::default();
    let _server = match &flags.metrics_addr {
        Serve::At(address) => {
            let told = Told { metrics: metrics.clone(), ready: ready.clone(), loops: loops.clone() };
            Some(serve::start(address, told).await?)
        }
        Serve::Nowhere => None,
    };
    let config = Config::infer().await.map_err(|error| RunError::Kubeconfig(kube::Error::InferConfig(error)))?;
    let kube = Client::try_from(config.clone()).map_err(RunError::Kubeconfig)?;
    check_kind::<VmGroup>(&kube).await?;
    check_kind::<HostInfo>(&kube).await?;
    check_kind::<VMInfo>(&kube).await?;
    check_kind::<MyOwnShell>(&kube).await?;
    let is_any_declared = check_kind::<VCenter>(&kube).await?;
    let cluster = Api::<Namespace>::all(kube.clone()).get("kube-system").await.map_err(RunError::Kubernetes)?;
    let stand_in = Api::<VCenter>::all(kube.clone()).get_metadata_opt(DEFAULT).await.map_err(RunError::Kubernetes)?;
    // That of the environment isn't needed where another has its place, unless that one goes.
    let needed = environment.filter(|_| stand_in.is_none());
    match needed {
        // Of several, only the one that works logs in: each refused login brings the account closer to its lock.
        Some(client) if !flags.enable_leader_election => tokio::select! {
            outcome = check_vcenter(client) => outcome?,
            () = told_to_stop.clone() => return Ok(()),
        },
        None if environment.is_none() && !is_any_declared => return Err(RunError::NoVCenter),
        _ => {}
    }
    ready.set();

    let leadership = if flags.enable_leader_election {
        Leadership::seek(&config).map_err(RunError::Kubeconfig)?
    } else {
        Leadership::alone()
    };
    let claim = leadership.claim();
    metrics.at_scrape({
        let claim = claim.clone();
        move |metrics| metrics.set_leader(claim.holds())
    });
    let (triggers, orders) = mpsc::unbounded_channel();
    let (namespaces, _watch) = Namespaces::follow(&kube, &loops, claim.clone(), triggers.clone());
    events::look_ahead({
        let namespaces = Arc::clone(&namespaces);
        move |namespace| namespaces.is_ending(namespace)
    });
    let shells = shell::run(kube.clone(), Arc::clone(&namespaces), metrics.clone(), told_to_stop.clone(), &loops);
    let fleet = Fleet::new(namespaces, claim.clone(), metrics.clone(), triggers, loops.clone());
    let (infos, writers) = Infos::new();
    let context = Arc::new(Context::new(kube, fleet, cluster.uid().unwrap_or_default(), infos, loops.clone()));
    let work = work(&context, environment.cloned(), orders, writers, metrics.clone(), told_to_stop.clone());
    let lead = async {
        claim.acquired().await;
        if let Some(client) = needed.filter(|_| flags.enable_leader_election) {
            check_vcenter(client).await?;
        }
        tokio::select! {
            outcome = future::try_join(work, shells.map(Ok)) => outcome.map(drop),
            // What is under way is dropped, because another may do it now.
            loss = claim.lost() => Err(RunError::Lost(loss)),
        }
    };
    let outcome = tokio::select! {
        // What panics here has told so.
        Ok(outcome) = AssertUnwindSafe(lead).catch_unwind() => outcome,
        () = told_to_stop => Ok(()),
        why = ended() => Err(RunError::Ended(why)),
    };
    leadership.release().await;
    context.fleet.farewell().await;
    outcome
}

async fn log_out(environment: Option<&vim25::Client>) {
    if let Some(client) = environment {
        fleet::log_out(client).await;
    }
}

/// Works until told to stop, and then ends what it has begun.
async fn work(
    context: &Arc<Context>,
    environment: Option<vim25::Client>,
    orders: mpsc::UnboundedReceiver<Trigger>,
    writers: info::Writers,
    metrics: Metrics,
    told_to_stop: impl Future<Output = ()> + Send + Sync + 'static,
) -> Result<(), RunError> {
    let (vcenters, vcenter_writer) = Shelf::new();
    let (others, _running) = info::start(context, writers, orders);
    context.fleet.muster(&context.kube, environment).await;
    let _running = fleet::start(context, &vcenters, vcenter_writer, others.vcenters);
    metrics.at_scrape({
        let context = Arc::clone(context);
        move |metrics| {
            for live in context.fleet.lives() {
                if live.is_in_sight() {
                    live.judge();
                }
                let works = live.works();
                let (queued, under_way) = works.load();
                metrics.set_queue(&live.name, queued);
                metrics.set_operations(&live.name, under_way);
                let missing = works.missing(Timestamp::now());
                metrics.set_doubts(&live.name, missing, works.is_stopped(), works.lookalikes());
            }
        }
    });
    let (groups, group_writer) = Shelf::<VmGroup>::new();
    let told = groups.watch(&context.kube, group_writer, {
        let context = Arc::clone(context);
        let mut there = HashSet::new();
        move |event, _| match event {
            watcher::Event::Delete(group) => {
                context.retain_groups(|uid| group.meta().uid.as_deref() != Some(uid));
            }
            watcher::Event::Init => there.clear(),
            watcher::Event::InitApply(group) => {
                if let Guarded(Err(unreadable)) = group {
                    group::cant_be_read(&context, unreadable);
                }
                there.insert(group.uid().unwrap_or_default());
            }
            // Those that went while nobody watched.
            watcher::Event::InitDone => context.retain_groups(|uid| there.contains(uid)),
            watcher::Event::Apply(Guarded(Err(unreadable))) => group::cant_be_read(&context, unreadable),
            watcher::Event::Apply(_) => {}
        }
    });
    let all = groups.store.clone();
    let controller = Controller::for_stream(told, groups.store.clone());
    metrics.at_scrape({
        let all = all.clone();
        move |metrics| metrics.set_groups(all.state().iter().map(|group| group.status.as_ref()?.phase))
    });
    let wanted = received(others.groups).flat_map(move |trigger| {
        stream::iter(if let Trigger::Group((namespace, name)) = &trigger {
            vec![ObjectRef::new(name).within(namespace)]
        } else {
            let all = all.state();
            all.iter().filter(|group| trigger.concerns(group)).map(|group| ObjectRef::from_obj(&**group)).collect()
        })
    });
    info!("drover runs");
    let controller = controller
        // As many as want to: those of a slow vCenter must not hold up the others. Each vCenter has a limit of its own.
        .with_config(controller::Config::default().concurrency(0))
        .reconcile_on(wanted)
        .graceful_shutdown_on(told_to_stop)
        .run(
            move |group, context| measured(metrics.clone(), timely(group::reconcile(group, context))),
            group::on_error,
            Arc::clone(context),
        );
    drive(controller, context.loops.pulse("groups")).await;
    Ok(())
}

/// Returns, to each who waits for it, once a signal has come that ends the operator.
fn told_to_stop() -> Result<Shared<BoxFuture<'static, ()>>, RunError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let either = async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    Ok(either.boxed().shared())
}

/// A reconcile of a group, counted.
async fn measured<T, E>(metrics: Metrics, reconcile: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let began = Instant::now();
    let outcome = reconcile.await;
    metrics.reconciled("VmGroup", Outcome::of(&outcome), began.elapsed());
    outcome
}

/// Whether there are objects of a kind.
async fn check_kind<K>(kube: &Client) -> Result<bool, RunError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match Api::<K>::all(kube.clone()).list_metadata(&ListParams::default().limit(1)).await {
        Ok(found) => Ok(!found.items.is_empty()),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(RunError::NoKind(K::kind(&()).into_owned())),
        Err(error) => Err(RunError::Kubernetes(error)),
    }
}

/// What a person has to mend is said at the start. A vCenter that is only away is waited for, and so is one that refuses the
/// login: whoever restarts this again and again would have the account locked.
async fn check_vcenter(vcenter: &vim25::Client) -> Result<(), RunError> {
    let Err(error) = vcenter.session().await else { return Ok(()) };
    match vcenter::reason(&error) {
        Reason::Untrusted => Err(RunError::Untrusted(error)),
        Reason::LoginRefused => {
            error!(%error, "no login is tried again before the operator is started with other credentials");
            Ok(())
        }
        _ => Ok(()),
    }
}
