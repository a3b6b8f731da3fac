//! Traces, where somebody asks for them: a span for each reconcile, and one for each operation in vCenter below the reconcile that ordered
//! it. Nobody ever waits for the collector: what it can't take in time is dropped, and counted.

mod export;

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use clap::Args;
use drover_core::Timestamp;
use kube::Resource;
use tokio::{sync::mpsc, task_local};
use tracing::debug;

use crate::telemetry::log::named;
pub(crate) use export::Exporter;

/// How many spans wait for the collector. Each takes about half a kilobyte.
const QUEUE: usize = 4096;

/// Where traces are sent.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TraceFlags {
    /// URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://collector:4318`. Traces are sent to /v1/traces there.
    /// Default: the environment variable `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or `OTEL_EXPORTER_OTLP_ENDPOINT`, else no traces.
    #[arg(long, value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// Where spans go, once somebody wants them.
static SPANS: OnceLock<mpsc::Sender<Span>> = OnceLock::new();
/// How many were dropped since that was last told.
static DROPPED: AtomicU64 = AtomicU64::new(0);

task_local! {
    /// The span that what is done here is a part of.
    static CURRENT: Context;
}

/// What tells a span from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    trace: u128,
    span: u64,
}

/// A span that is over.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    context: Context,
    parent: Option<u64>,
    name: String,
    began: Timestamp,
    ended: Timestamp,
    attributes: Vec<(&'static str, String)>,
    error: Option<String>,
}

/// A span that has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Started {
    context: Context,
    parent: Option<u64>,
    began: Timestamp,
}

impl Started {
    /// Begins a span, if anybody wants traces: below another, or with a trace of its own.
    pub(crate) fn begin(parent: Option<Context>) -> Option<Self> {
        SPANS.get()?;
        let trace = parent.map_or_else(|| u128::from(id()) << 64 | u128::from(id()), |parent| parent.trace);
        let context = Context { trace, span: id() };
        Some(Self { context, parent: parent.map(|parent| parent.span), began: Timestamp::now() })
    }

    /// Ends it. What has no value is left out.
    pub(crate) fn end(self, name: String, attributes: Vec<(&'static str, Option<String>)>, error: Option<String>) {
        let Self { context, parent, began } = self;
        let attributes = attributes.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        let span = Span { context, parent, name, began, ended: Timestamp::now(), attributes, error };
        if SPANS.get().is_some_and(|spans| spans.try_send(span).is_err()) {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The span that what is done here is a part of, if there is one.
pub(crate) fn current() -> Option<Context> {
    CURRENT.try_with(|context| *context).ok()
}

/// A reconcile of an object, with a span of its own.
pub(crate) async fn reconcile<K, T, E>(object: Arc<K>, reconcile: impl Future<Output = Result<T, E>>) -> Result<T, E>
where
    K: Resource<DynamicType = ()>,
    E: fmt::Display,
{
    let (began, started) = (Instant::now(), Started::begin(None));
    // Some are large, and would be kept here twice.
    let reconcile = Box::pin(reconcile);
    let outcome = match started {
        Some(started) => CURRENT.scope(started.context, reconcile).await,
        None => reconcile.await,
    };
    debug!(kind = %K::kind(&()), object = %named(&*object), seconds = began.elapsed().as_secs_f64(), "Reconciled");
    let Some(started) = started else { return outcome };
    let error = outcome.as_ref().err().map(ToString::to_string);
    let result = if error.is_some() { "error" } else { "success" };
    let attributes = vec![
        ("drover.kind", Some(K::kind(&()).into_owned())),
        ("drover.object", Some(named(&*object))),
        ("drover.result", Some(result.to_owned())),
    ];
    started.end(format!("reconcile {}", K::kind(&())), attributes, error);
    outcome
}

/// A number that is not 0, as good as any other.
fn id() -> u64 {
    static CHANCE: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    CHANCE.hash_one((NEXT.fetch_add(1, Ordering::Relaxed), Timestamp::now())).max(1)
}
