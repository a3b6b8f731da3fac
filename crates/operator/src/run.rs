//! The operator itself: it runs until it is told to stop.

use std::{
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use drover_api::{HostInfo, MyOwnShell, VMInfo, VmGroup};
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
    time::timeout,
};
use tracing::info;

use crate::{
    environment::{self, BadEnvironment},
    flags::{Flags, Serve},
    fleet::{DEFAULT, Fleet},
    group::{self, Context},
    info::{self, Infos},
    leadership::{Claim, LEASE, Leadership, Loss},
    metrics::{Metrics, Outcome},
    serve::{self, Readiness},
    shell,
    vcenter::{Live, Trigger},
};

/// An operator that has not had its turn after this long stands by, perhaps for months, and takes up no session.
const STAND_BY: Duration = Duration::from_secs(5);
/// How long vCenter may take to end a session.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why the operator can't start or go on, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
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
    #[error("{0}; to connect without checking who answers, use --insecure")]
    Untrusted(vim25::Error),
    #[error("{0}")]
    Refused(vim25::Error),
    #[error("the lease {LEASE} is lost: {0}; this operator ends, and another or a restarted one goes on")]
    Lost(Loss),
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Runs the operator.
pub async fn run(flags: &Flags) -> Result<(), RunError> {
    let (metrics, ready) = (Metrics::new(), Readiness::default());
    let vcenter = environment::vcenter(flags.insecure, Some(metrics.observer(DEFAULT)))?;
    if let Serve::At(address) = &flags.metrics_addr {
        serve::start(address, metrics.clone(), ready.clone()).await?;
    }
    let config = Config::infer().await.map_err(|error| RunError::Kubeconfig(kube::Error::InferConfig(error)))?;
    let kube = Client::try_from(config.clone()).map_err(RunError::Kubeconfig)?;
    check_kind::<VmGroup>(&kube).await?;
    check_kind::<HostInfo>(&kube).await?;
    check_kind::<VMInfo>(&kube).await?;
    check_kind::<MyOwnShell>(&kube).await?;
    let cluster = Api::<Namespace>::all(kube.clone()).get("kube-system").await.map_err(RunError::Kubernetes)?;
    check_vcenter(&vcenter).await?;
    ready.set();

    let told_to_stop = told_to_stop()?;
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
    let cluster = cluster.uid().unwrap_or_default();
    let shells = shell::run(kube.clone(), metrics.clone(), told_to_stop.clone());
    let work =
        work(kube, vcenter.clone(), claim.clone(), flags.publish_hosts.clone(), cluster, metrics, told_to_stop.clone());
    let outcome = tokio::select! {
        () = turn(&claim, &vcenter) => tokio::select! {
            _ = future::join(work, shells) => Ok(()),
            // What is under way is dropped, because another may do it now.
            loss = claim.lost() => Err(RunError::Lost(loss)),
        },
        () = told_to_stop => Ok(()),
    };
    leadership.release().await;
    log_out(&vcenter).await;
    outcome
}

/// Waits until this operator is the one to work.
async fn turn(claim: &Claim, vcenter: &vim25::Client) {
    if timeout(STAND_BY, claim.acquired()).await.is_err() {
        log_out(vcenter).await;
        claim.acquired().await;
    }
}

/// Ends the session, which would otherwise stay until vCenter tires of it. Nothing waits long for that.
async fn log_out(vcenter: &vim25::Client) {
    let _ = timeout(FAREWELL, vcenter.logout()).await;
}

/// Works until told to stop, and then ends what it has begun.
async fn work(
    kube: Client,
    vcenter: vim25::Client,
    claim: Claim,
    publish_hosts: Option<String>,
    cluster: String,
    metrics: Metrics,
    told_to_stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    let (triggers, orders) = mpsc::unbounded_channel();
    let live = Live::start(vcenter, claim, triggers);
    let controller = Controller::new(Api::<VmGroup>::all(kube.clone()), watcher::Config::default());
    let (infos, writers) = Infos::new(&kube);
    let context = Arc::new(Context::new(kube, Fleet::new(Arc::clone(&live)), cluster, infos));
    metrics.at_scrape(move |metrics| {
        let (queued, under_way) = live.works().load();
        metrics.set_queue(DEFAULT, queued);
        metrics.set_operations(DEFAULT, under_way);
    });
    let all = controller.store();
    metrics.at_scrape({
        let all = all.clone();
        move |metrics| metrics.set_groups(all.state().iter().map(|group| group.status.as_ref()?.phase))
    });
    let orders = info::start(&context, writers, orders, publish_hosts);
    let wanted = stream::unfold(orders, |mut orders| async { orders.recv().await.map(|order| (order, orders)) });
    let wanted = wanted.flat_map(move |trigger| {
        stream::iter(match trigger {
            Trigger::Group((namespace, name)) => vec![ObjectRef::new(&name).within(&namespace)],
            Trigger::Infos(_) => Vec::new(),
            Trigger::All => all.state().iter().map(|group| ObjectRef::from_obj(&**group)).collect(),
        })
    });
    info!("drover runs");
    controller
        .with_config(controller::Config::default().concurrency(32))
        .reconcile_on(wanted)
        .graceful_shutdown_on(told_to_stop)
        .run(
            move |group, context| measured(metrics.clone(), group::reconcile(group, context)),
            group::on_error,
            context,
        )
        .for_each(|_| async {})
        .await;
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

async fn check_kind<K>(kube: &Client) -> Result<(), RunError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match Api::<K>::all(kube.clone()).list_metadata(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(RunError::NoKind(K::kind(&()).into_owned())),
        Err(error) => Err(RunError::Kubernetes(error)),
    }
}

/// What a person has to mend is said at the start. A vCenter that is only away is waited for.
async fn check_vcenter(vcenter: &vim25::Client) -> Result<(), RunError> {
    let Err(error) = vcenter.session().await else { return Ok(()) };
    let mut cause = &error;
    while let vim25::Error::Login { source, .. } = cause {
        cause = source;
    }
    match cause {
        vim25::Error::Transport(vim25::TransportError::Certificate { .. }) => Err(RunError::Untrusted(error)),
        vim25::Error::Fault(_) => Err(RunError::Refused(error)),
        _ => Ok(()),
    }
}
