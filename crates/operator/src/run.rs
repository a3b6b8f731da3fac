//! The operator itself: it runs until it is told to stop.

use std::sync::Arc;

use drover_api::VmGroup;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    runtime::{Controller, controller, reflector::ObjectRef, watcher},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tracing::info;

use crate::{
    environment::{self, BadEnvironment},
    fleet::Fleet,
    group::{self, Context},
    info::{self, Infos},
    vcenter::{Live, Trigger},
};

/// Why the operator can't start, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Environment(#[from] BadEnvironment),
    #[error("no Kubernetes cluster is named: set KUBECONFIG, or run in a pod ({0})")]
    Kubeconfig(kube::Error),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(kube::Error),
    #[error("the kind VmGroup is not installed: drover crds | kubectl apply --server-side -f -")]
    NoCrds,
    #[error("{0}; to connect without checking who answers, use --insecure")]
    Untrusted(vim25::Error),
    #[error("{0}")]
    Refused(vim25::Error),
    #[error("signals can't be received: {0}")]
    Signals(#[from] std::io::Error),
}

/// Runs the operator.
pub async fn run(insecure: bool, publish_hosts: Option<String>) -> Result<(), RunError> {
    let vcenter = environment::vcenter(insecure)?;
    let kube = Client::try_default().await.map_err(RunError::Kubeconfig)?;
    let groups: Api<VmGroup> = Api::all(kube.clone());
    check_kind(&groups).await?;
    let cluster = Api::<Namespace>::all(kube.clone()).get("kube-system").await.map_err(RunError::Kubernetes)?;
    check_vcenter(&vcenter).await?;

    let (triggers, orders) = mpsc::unbounded_channel();
    let live = Live::start(vcenter.clone(), triggers);
    let (infos, writers) = Infos::new(&kube);
    let cluster = cluster.uid().unwrap_or_default();
    let context = Arc::new(Context { kube, fleet: Fleet::new(live), cluster, infos });
    let controller = Controller::new(groups, watcher::Config::default());
    let all = controller.store();
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
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    controller
        .with_config(controller::Config::default().concurrency(32))
        .reconcile_on(wanted)
        .graceful_shutdown_on(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        })
        .run(group::reconcile, group::on_error, context)
        .for_each(|_| async {})
        .await;
    // The session would otherwise stay until vCenter tires of it.
    let _ = vcenter.logout().await;
    Ok(())
}

async fn check_kind(groups: &Api<VmGroup>) -> Result<(), RunError> {
    match groups.list(&ListParams::default().limit(1)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Err(RunError::NoCrds),
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
