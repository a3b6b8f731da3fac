//! What all controllers share: how a reconcile fails, what is done then, and how it is timed, counted and traced.

use std::{
    collections::BTreeSet,
    fmt::Debug,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_core::{
    Timestamp,
    vcenter::backoff::{Backoff, Pace, Paces},
};
use futures::future;
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
        leadership::Mandate,
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
/// How often those that are gone are forgotten.
const SWEEP: Duration = Duration::from_mins(1);
/// An object that was to be tried again, and was not for so long, is gone.
const GONE: Duration = Duration::from_mins(10);

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

/// How the objects of a kind are reconciled: timely, counted, traced, and later each time while that fails. Clones are the same.
#[derive(Clone)]
pub(crate) struct Attempts {
    metrics: Metrics,
    /// What they are counted as.
    kind: &'static str,
    /// The objects, by UID, whose last reconcile failed.
    failing: Arc<Mutex<Failing>>,
}

#[derive(Default)]
struct Failing {
    waits: Backoff<String>,
    /// When those that are gone were last forgotten.
    swept: Option<Instant>,
}

impl Attempts {
    pub(crate) fn new(metrics: &Metrics, kind: &'static str) -> Self {
        Self { metrics: metrics.clone(), kind, failing: Arc::default() }
    }

    /// A reconcile of an object, which takes its place among others for so long and no longer. What it has begun by then is found by the next.
    pub(crate) async fn run<K: Resource<DynamicType = ()>>(
        self,
        object: Arc<K>,
        reconcile: impl Future<Output = Result<Requeue, Error>>,
    ) -> Result<Requeue, Error> {
        let (began, uid) = (Instant::now(), object.meta().uid.clone().unwrap_or_default());
        let timely = async { timeout(LONGEST, reconcile).await? };
        let outcome = traces::reconcile(object, timely).await;
        if outcome.is_ok() {
            self.failing().waits.succeeded(&uid);
        }
        self.metrics.reconciled(self.kind, Outcome::of(&outcome), began.elapsed());
        outcome
    }

    /// What is done when a reconcile fails: it is tried again in a while.
    pub(crate) fn on_error<K, C>(&self) -> impl Fn(Arc<K>, &Error, Arc<C>) -> Requeue + use<K, C>
    where
        K: Resource<DynamicType = ()>,
    {
        let this = self.clone();
        move |object, error, _| {
            warn!(kind = %K::kind(&()), object = %named(&*object), %error, "Reconcile failed");
            let uid = object.meta().uid.clone().unwrap_or_default();
            Requeue::requeue(this.failed(uid, Timestamp::now(), RandomState::new().hash_one(())))
        }
    }

    fn failed(&self, uid: String, now: Timestamp, draw: u64) -> Duration {
        let mut failing = self.failing();
        if failing.swept.is_none_or(|swept| swept.elapsed() > SWEEP) {
            failing.swept = Some(Instant::now());
            let is_gone = |until: Timestamp| Duration::try_from(now.duration_since(until)).is_ok_and(|ago| ago > GONE);
            let waits = failing.waits.waits();
            let gone: BTreeSet<_> = waits.filter(|(_, until)| is_gone(*until)).map(|(uid, _)| uid.clone()).collect();
            failing.waits.retain(|uid| !gone.contains(uid));
        }
        let until = failing.waits.failed(uid, now, draw, Pace::Soon);
        // The clock may have been set back.
        Duration::try_from(until.duration_since(now)).unwrap_or_default().min(Paces::OF_OBJECTS.soon.limit)
    }

    fn failing(&self) -> MutexGuard<'_, Failing> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reconciles an object in the name of a mandate, if this replica has one. Where the lease is lost meanwhile, whoever gains it looks at
/// everything.
pub(crate) async fn mandated<F>(
    mandate: Option<Mandate>,
    reconcile: impl FnOnce(Mandate) -> F,
) -> Result<Requeue, Error>
where
    F: Future<Output = Result<Requeue, Error>>,
{
    let Some(mandate) = mandate else { return Ok(Requeue::await_change()) };
    let reconciled = mandate.during(Box::pin(reconcile(mandate.clone()))).await;
    reconciled.unwrap_or_else(|| Ok(Requeue::await_change()))
}

/// Runs a controller for as long as the operator runs. Its reconciles are counted as those of a kind.
pub(crate) fn run<K, F>(
    controller: Controller<K>,
    orders: mpsc::UnboundedReceiver<ObjectRef<K>>,
    reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F + Send + 'static,
    context: &Arc<Context>,
    name: (&str, &'static str),
) -> Running
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Requeue, Error>> + Send + 'static,
{
    run_after(future::ready(()), controller, orders, reconcile, context, name)
}

/// The same, once something has happened.
pub(crate) fn run_after<K, F>(
    event: impl Future<Output = ()> + Send + 'static,
    controller: Controller<K>,
    orders: mpsc::UnboundedReceiver<ObjectRef<K>>,
    mut reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F + Send + 'static,
    context: &Arc<Context>,
    (name, kind): (&str, &'static str),
) -> Running
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Requeue, Error>> + Send + 'static,
{
    let attempts = Attempts::new(&context.vcenters.metrics, kind);
    let on_error = attempts.on_error();
    let controller =
        controller.with_config(controller::Config::default().concurrency(16)).reconcile_on(received(orders)).run(
            move |object, context| attempts.clone().run(Arc::clone(&object), reconcile(object, context)),
            on_error,
            Arc::clone(context),
        );
    context.loops.start(name, |pulse| async move {
        pulse.wait(event).await;
        drive(controller, pulse).await;
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn what_fails_again_and_again_is_tried_less_often_and_what_is_gone_is_forgotten() {
        let attempts = Attempts::new(&Metrics::new(), "VmGroup");
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let fail = |uid: &str, second| attempts.failed(uid.to_owned(), at(second), u64::MAX).as_millis().div_ceil(1000);
        assert_eq!([fail("a", 0), fail("b", 1), fail("a", 2), fail("a", 5), fail("a", 10)], [1, 1, 2, 4, 8]);
        assert_eq!(fail("a", -3600), 30, "the clock was set back");
        attempts.failing().waits.succeeded(&"a".to_owned());
        assert_eq!(fail("a", 20), 1);
        attempts.failing().swept = None;
        fail("c", 1000);
        assert_eq!(attempts.failing().waits.waits().count(), 1, "nobody tries a and b any more");
    }

    #[test]
    fn what_the_api_server_refuses_is_told_from_what_goes_wrong_there() {
        let is_refusal =
            |code: u16| Error::Kube(kube::Error::Api(Box::new(Status { code, ..Status::default() }))).is_refusal();
        assert!([400, 403, 413, 422].into_iter().all(is_refusal));
        assert!(![401, 404, 408, 409, 429, 500, 502, 503, 504].into_iter().any(is_refusal));
    }
}
