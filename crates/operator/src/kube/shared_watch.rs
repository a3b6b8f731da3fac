//! One watch on all objects of a kind, and the controllers that live on it.

use std::{
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use backon::ExponentialBuilder;
use futures::{
    Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use kube::{
    Api, Resource,
    api::ObjectMeta,
    runtime::{
        WatchStreamExt, controller,
        reflector::{self, ObjectRef, Store, store::Writer},
        utils::{Backoff, ResetTimerBackoff},
        watcher::{self, Event, watcher},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::{
    events::Recorder,
    guard::{self, Guarded, Unreadable},
    merged::{Named, WatchItem, merged},
};
use crate::{loops::Pulse, telemetry::log::named};

/// A store of all objects of a kind, and whether all that there was at first is in it.
#[derive(Clone)]
pub(crate) struct SharedWatch<K: Resource<DynamicType = ()> + 'static> {
    pub store: Store<K>,
    // The store can be waited for too, but only by one: kube wakes the last who asks, and that has to be the controller.
    is_filled: Arc<watch::Sender<bool>>,
    /// Other controllers of the same objects.
    others: Arc<Mutex<Vec<mpsc::UnboundedSender<Arc<K>>>>>,
    /// Those who are told all that the watch tells.
    listeners: Arc<Mutex<Vec<Listener<K>>>>,
}

type Listener<K> = mpsc::UnboundedSender<Event<Guarded<K>>>;

impl<K: Resource<DynamicType = ()> + Clone + 'static> SharedWatch<K> {
    /// An empty one, and where to write into it.
    pub(crate) fn new() -> (Self, Writer<K>) {
        let (store, writer) = reflector::store();
        (Self { store, is_filled: Arc::default(), others: Arc::default(), listeners: Arc::default() }, writer)
    }

    pub(crate) fn is_filled(&self) -> bool {
        *self.is_filled.borrow()
    }

    /// Returns once all that there was at first is in the store.
    pub(crate) async fn filled(&self) {
        // It lives as long as this does.
        let _ = self.is_filled.subscribe().wait_for(|is_filled| *is_filled).await;
    }

    /// What another controller of the same objects is to reconcile. It runs once the store is [filled](Self::filled).
    pub(crate) fn for_another(&self) -> impl Stream<Item = Result<K, watcher::Error>> + Send + use<K>
    where
        K: Send + Sync,
    {
        let (told, others) = mpsc::unbounded_channel();
        self.others.lock().unwrap_or_else(PoisonError::into_inner).push(told);
        received(others).map(|object| Ok(Arc::unwrap_or_clone(object)))
    }

    /// All that the watch tells, for somebody who asks before it begins.
    pub(crate) fn told(&self) -> BoxStream<'static, Event<Guarded<K>>>
    where
        K: Send + Sync,
    {
        let (tell, told) = mpsc::unbounded_channel();
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(tell);
        received(told).boxed()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = Arc<K>> + use<K> {
        self.store.state().into_iter()
    }

    /// The watch that fills it, for those that nobody else tells of what can't be read. `notice` sees each event before the store does.
    pub(crate) fn watch(
        &self,
        recorder: &Recorder,
        from: Vec<Api<Guarded<K>>>,
        writer: Writer<K>,
        mut notice: impl FnMut(&Event<Guarded<K>>, &Store<K>) + Send + 'static,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
    where
        K: Debug + DeserializeOwned + Send + Sync,
    {
        let (recorder, mut told) = (recorder.clone(), HashMap::new());
        self.follow(from, writer, move |event, store| {
            match event {
                Event::Apply(object) | Event::InitApply(object) => tell(object, &mut told, &recorder),
                Event::Delete(object) => drop(told.remove(object.meta().uid.as_deref().unwrap_or_default())),
                Event::Init | Event::InitDone => {}
            }
            notice(event, store);
        })
    }

    /// The watch that fills it. What can't be read isn't in the store.
    pub(crate) fn follow(
        &self,
        from: Vec<Api<Guarded<K>>>,
        writer: Writer<K>,
        mut notice: impl FnMut(&Event<Guarded<K>>, &Store<K>) + Send + 'static,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
    where
        K: Debug + DeserializeOwned + Send + Sync,
    {
        let (store, listeners) = (self.store.clone(), Arc::clone(&self.listeners));
        // A controller that is told of a failure takes nothing up for a while, from anybody.
        let events = told(from, &watcher::Config::default()).filter_map(move |event| {
            notice(&event, &store);
            for listener in listeners.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // One that has ended ends the operator.
                let _ = listener.send(event.clone());
            }
            future::ready(readable(event, &store))
        });
        self.to_reconcile(events, writer)
    }

    /// What is to be reconciled, each once it is in the store: who looks there when told of what a list has, before the list has ended,
    /// finds what was there before it, or nothing.
    fn to_reconcile(
        &self,
        events: impl Stream<Item = Event<K>> + Send + 'static,
        writer: Writer<K>,
    ) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
    where
        K: Send + Sync,
    {
        let (is_filled, others, store) = (Arc::clone(&self.is_filled), Arc::clone(&self.others), self.store.clone());
        events.map(Ok).reflect(writer).flat_map(move |event: Result<_, watcher::Error>| {
            let stored = match event {
                Ok(Event::Apply(object)) => vec![Arc::new(object)],
                Ok(Event::InitDone) => {
                    is_filled.send_replace(true);
                    store.state()
                }
                _ => Vec::new(),
            };
            for other in others.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                for object in &stored {
                    // One that has ended ends the operator.
                    let _ = other.send(Arc::clone(object));
                }
            }
            stream::iter(stored.into_iter().map(|object| Ok(Arc::unwrap_or_clone(object))))
        })
    }
}

/// What there is of a kind in some places, and what becomes of it, for as long as the operator runs: a watch that fails is logged, and
/// begins anew.
pub(crate) fn told<K>(from: Vec<Api<K>>, config: &watcher::Config) -> impl Stream<Item = Event<K>> + use<K>
where
    K: Named + Clone + Debug + DeserializeOwned + Send + 'static,
{
    told_by(from.into_iter().map(|api| (api, config.clone())).collect())
}

/// The same, with what is looked for in each place.
pub(crate) fn told_by<K>(from: Vec<(Api<K>, watcher::Config)>) -> impl Stream<Item = Event<K>> + Send + 'static
where
    K: Named + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let said = |(api, config)| {
        watcher(api, config).backoff(backoff()).filter_map(|event| {
            future::ready(match event {
                Ok(event) => Some(WatchItem::Event(event)),
                Err(error) => {
                    warn_of_watch(&K::kind(&()), &error);
                    is_forbidden(&error).then_some(WatchItem::Forbidden)
                }
            })
        })
    };
    if from.len() > 1 {
        return merged(from.into_iter().map(said).collect()).left_stream();
    }
    let only = stream::iter(from).flat_map(said).filter_map(|said| {
        future::ready(match said {
            WatchItem::Event(event) => Some(event),
            WatchItem::Forbidden => None,
        })
    });
    only.right_stream()
}

/// Whether a watch lacks a right.
pub(crate) fn is_forbidden(error: &watcher::Error) -> bool {
    let (watcher::Error::InitialListFailed(kube::Error::Api(status))
    | watcher::Error::WatchStartFailed(kube::Error::Api(status))
    | watcher::Error::WatchFailed(kube::Error::Api(status))) = error
    else {
        return false;
    };
    status.code == 403
}

/// How long a watch that has failed waits before it begins anew: an API server that is back is noticed soon.
pub(crate) fn backoff() -> impl Backoff + 'static {
    let (first, longest) = (Duration::from_millis(250), Duration::from_secs(2));
    let growing =
        ExponentialBuilder::new().with_min_delay(first).with_max_delay(longest).without_max_times().with_jitter();
    ResetTimerBackoff::new(watcher::ExponentialBackoff::from(growing), Duration::from_secs(10))
}

fn warn_of_watch(kind: &str, error: &impl std::error::Error) {
    warn!(%kind, %error, "Watch failed; it starts again");
}

/// Tells of an object that it can't be read, once for each reason.
fn tell<K>(object: &Guarded<K>, told: &mut HashMap<String, String>, recorder: &Recorder)
where
    K: Resource<DynamicType = ()>,
{
    let uid = object.meta().uid.clone().unwrap_or_default();
    let Err(unreadable) = &object.0 else {
        told.remove(&uid);
        return;
    };
    if told.insert(uid, unreadable.why.clone()).as_ref() != Some(&unreadable.why) {
        warn!(kind = %K::kind(&()), object = %named(object), error = %unreadable, "Object not readable");
        guard::tell::<K>(unreadable, recorder);
    }
}

/// What an event is to those who know only what can be read: one that can be read no more is gone from there.
fn readable<K>(event: Event<Guarded<K>>, store: &Store<K>) -> Option<Event<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    Some(match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(object.0.ok()?),
        Event::Apply(Guarded(Ok(object))) => Event::Apply(object),
        Event::Delete(Guarded(Ok(object))) => Event::Delete(object),
        Event::Apply(Guarded(Err(unreadable))) | Event::Delete(Guarded(Err(unreadable))) => {
            let Unreadable { metadata: ObjectMeta { name, namespace, .. }, .. } = unreadable;
            let mut key = ObjectRef::new(&name.unwrap_or_default());
            key.namespace = namespace;
            Event::Delete((*store.get(&key)?).clone())
        }
    })
}

/// Has a controller run, and says that it does.
pub(crate) async fn drive<T, E, Q>(controller: impl Stream<Item = Result<T, controller::Error<E, Q>>>, pulse: Pulse)
where
    E: std::error::Error + 'static,
    Q: std::error::Error + 'static,
{
    let mut controller = std::pin::pin!(controller);
    while let Some(outcome) = pulse.wait(controller.next()).await {
        match outcome {
            Err(controller::Error::QueueError(error)) => warn_of_watch(pulse.name(), &error),
            Err(error @ controller::Error::RunnerError(_)) => {
                warn!(controller = %pulse.name(), %error, "Controller failed");
            }
            // A reconcile that failed is told of where it is tried again, and what was to be reconciled may have gone meanwhile.
            _ => {}
        }
    }
}

/// What is received, as a stream.
pub(crate) fn received<T: Send + 'static>(
    orders: mpsc::UnboundedReceiver<T>,
) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(orders, |mut orders| async { orders.recv().await.map(|order| (order, orders)) })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;

    #[tokio::test]
    async fn what_a_list_has_is_reconciled_when_the_store_has_it() {
        let object = |version: &str| {
            let metadata = ObjectMeta {
                name: Some("a".to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            };
            ConfigMap { metadata, ..ConfigMap::default() }
        };
        let (shared, writer) = SharedWatch::<ConfigMap>::new();
        let (tell, told) = mpsc::unbounded_channel();
        let mut another = std::pin::pin!(shared.for_another());
        let mut reconciled = std::pin::pin!(shared.to_reconcile(received(told), writer));
        let stored = || shared.store.state().first().and_then(|object| object.resource_version());
        // The second list is of a watch that has begun anew.
        for (version, before) in [("1", None), ("2", Some("1".to_owned()))] {
            tell.send(Event::Init).unwrap();
            tell.send(Event::InitApply(object(version))).unwrap();
            assert!(futures::poll!(reconciled.next()).is_pending(), "the list goes on");
            assert_eq!(stored(), before);
            tell.send(Event::InitDone).unwrap();
            let next = reconciled.next().await.unwrap().unwrap();
            assert_eq!((next.resource_version(), stored()), (Some(version.to_owned()), Some(version.to_owned())));
            shared.filled().await;
            assert_eq!(another.next().await.unwrap().unwrap().resource_version().as_deref(), Some(version));
        }
        tell.send(Event::Apply(object("3"))).unwrap();
        assert_eq!(reconciled.next().await.unwrap().unwrap().resource_version().as_deref(), Some("3"));
    }
}
