//! What all controllers share: how a reconcile fails, what is done then, and how it is timed, counted and traced.

use std::{
    borrow::Cow,
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{
    Resource,
    runtime::{
        Controller,
        controller::{self, Action as Requeue},
        reflector::ObjectRef,
    },
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::mpsc,
    time::{error::Elapsed, timeout},
};
use tracing::warn;

use super::Context;
use crate::{
    kube::{
        refusal,
        shared_watch::{drive, received},
    },
    loops::Running,
    telemetry::{
        log::named,
        metrics::{Metrics, Outcome},
        traces,
    },
};

/// How long a reconcile may take.
const LONGEST: Duration = Duration::from_mins(2);
/// When one that failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Why a reconcile failed: the API server didn't answer as it should. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the API server: {}", refusal::words(.0))]
    Kube(#[from] kube::Error),
    #[error(
        "the kind VmGroup is older than this operator, and drops its record: drover crds | kubectl apply --server-side -f -"
    )]
    OldKind,
    #[error("it took too long")]
    Late(#[from] Elapsed),
}

impl Error {
    /// Whether the API server has refused what was to be written, and would do so again.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::OldKind => true,
            // What is wrong on the server's side passes.
            Self::Kube(kube::Error::Api(status)) => {
                (400..500).contains(&status.code) && !matches!(status.code, 401 | 404 | 408 | 409 | 429)
            }
            Self::Kube(_) | Self::Late(_) => false,
        }
    }
}

/// What is done when a reconcile fails: the API server is asked again in a while.
#[allow(clippy::needless_pass_by_value, reason = "kube hands it over so")]
pub(crate) fn on_error<K: Resource<DynamicType = ()>, C>(object: Arc<K>, error: &Error, _: Arc<C>) -> Requeue {
    warn!(kind = %K::kind(&()), object = %named(&*object), %error, "Reconcile failed");
    Requeue::requeue(AGAIN)
}

/// A reconcile, which takes its place among others for so long and no longer. What it has begun by then is found by the next.
pub(crate) async fn timely(reconcile: impl Future<Output = Result<Requeue, Error>>) -> Result<Requeue, Error> {
    timeout(LONGEST, reconcile).await?
}

/// A reconcile of an object, which is timely, counted and traced.
pub(crate) async fn measured<K: Resource<DynamicType = ()>>(
    metrics: Metrics,
    object: Arc<K>,
    reconcile: impl Future<Output = Result<Requeue, Error>>,
) -> Result<Requeue, Error> {
    let began = Instant::now();
    let outcome = traces::reconcile(object, timely(reconcile)).await;
    // The names of kinds are in the code.
    if let Cow::Borrowed(kind) = K::kind(&()) {
        metrics.reconciled(kind, Outcome::of(&outcome), began.elapsed());
    }
    outcome
}

/// Runs a controller for as long as the operator runs.
pub(crate) fn run<K, F>(
    controller: Controller<K>,
    orders: mpsc::UnboundedReceiver<ObjectRef<K>>,
    mut reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F + Send + 'static,
    context: &Arc<Context>,
    name: &str,
) -> Running
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Requeue, Error>> + Send + 'static,
{
    let controller =
        controller.with_config(controller::Config::default().concurrency(16)).reconcile_on(received(orders)).run(
            move |object, context| {
                let metrics = context.vcenters.metrics.clone();
                measured(metrics, Arc::clone(&object), reconcile(object, context))
            },
            on_error,
            Arc::clone(context),
        );
    context.loops.start(name, |pulse| drive(controller, pulse))
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_the_api_server_refuses_is_told_from_what_goes_wrong_there() {
        let is_refusal =
            |code: u16| Error::Kube(kube::Error::Api(Box::new(Status { code, ..Status::default() }))).is_refusal();
        assert!([400, 403, 413, 422].into_iter().all(is_refusal));
        assert!(![401, 404, 408, 409, 429, 500, 502, 503, 504].into_iter().any(is_refusal));
    }
}
