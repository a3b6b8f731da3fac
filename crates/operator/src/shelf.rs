//! One watch on all objects of a kind, and the controllers that live on it.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action as Requeue},
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tracing::warn;

use crate::group::Context;

/// Why a reconcile failed: the API server didn't answer as it should. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
}

/// A store of all objects of a kind, and whether all that there was at first is in it.
pub(crate) struct Shelf<K: Resource<DynamicType = ()> + 'static> {
    pub store: Store<K>,
    // The store can be waited for too, but only by one: kube wakes the last who asks, and that has to be the controller.
    is_filled: Arc<AtomicBool>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Shelf<K> {
    /// An empty one, and where to write into it.
    pub(crate) fn new() -> (Self, Writer<K>) {
        let (store, writer) = reflector::store();
        (Self { store, is_filled: Arc::default() }, writer)
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<K>> + use<K> {
        self.store.state().into_iter()
    }

    /// The watch that fills it. `notice` sees each event before the store does.
    pub(crate) fn watch(
        &self,
        kube: &Client,
        writer: Writer<K>,
        mut notice: impl FnMut(&watcher::Event<K>, &Store<K>) + Send + 'static,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
    where
        K: Debug + DeserializeOwned + Send + Sync,
    {
        let events = watcher(Api::all(kube.clone()), watcher::Config::default()).default_backoff();
        // Who wrote what takes up more memory than what was written.
        let events = events.modify(|object: &mut K| object.managed_fields_mut().clear());
        let store = self.store.clone();
        let noticed = events.inspect(move |event| {
            if let Ok(event) = event {
                notice(event, &store);
            }
        });
        let is_filled = Arc::clone(&self.is_filled);
        let stored = noticed.reflect(writer).inspect(move |event| {
            if let Ok(watcher::Event::InitDone) = event {
                is_filled.store(true, Ordering::Release);
            }
        });
        stored.applied_objects()
    }
}

/// Runs a controller for as long as the operator runs.
pub(crate) fn run<K, F>(
    controller: Controller<K>,
    orders: mpsc::UnboundedReceiver<ObjectRef<K>>,
    reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F + Send + 'static,
    context: &Arc<Context>,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Requeue, Error>> + Send + 'static,
{
    let controller = controller
        .with_config(controller::Config::default().concurrency(16))
        .reconcile_on(received(orders))
        .run(reconcile, on_error, Arc::clone(context));
    tokio::spawn(controller.for_each(|_| async {}));
}

/// What is received, as a stream.
pub(crate) fn received<T: Send + 'static>(
    orders: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(orders, |mut orders| async { orders.recv().await.map(|order| (order, orders)) })
}

/// What is done when a reconcile fails: the API server is asked again in a while.
#[allow(clippy::needless_pass_by_value, reason = "kube hands it over so")]
fn on_error<K: Resource<DynamicType = ()>>(object: Arc<K>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(kind = %K::kind(&()), namespace = object.namespace(), object = %object.name_any(), %error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
