//! What people are told beside what the status says: events, each by itself.
//!
//! kube's own recorder counts all events of one reason and object as the same, whatever they say.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use drover_core::{Timestamp, events::Event, names, throttle::EventLimits};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tracing::warn;

use super::refusal::{is_namespace_leaving, is_stale};
use crate::loops::Loops;

const MANAGER: &str = "drover";

/// When an event is written again that an API server did not take.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// By which everything is told. Clones are the same.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Shared>);

struct Shared {
    kube: Client,
    /// An object has so many events a minute, whoever tells them.
    limits: Mutex<EventLimits>,
    /// Whether this replica tells what all replicas are told.
    tells_for_all: Box<dyn Fn() -> bool + Send + Sync>,
    /// Nothing can be made in one that is being deleted, and who deletes it needs no events there.
    is_ending: Box<dyn Fn(&str) -> bool + Send + Sync>,
    loops: Loops,
}

impl Recorder {
    /// `tells_for_all` says whether this replica tells what all replicas are told, and `is_ending` whether a namespace is being deleted.
    pub(crate) fn new(
        kube: &Client,
        loops: &Loops,
        tells_for_all: impl Fn() -> bool + Send + Sync + 'static,
        is_ending: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            kube: kube.clone(),
            limits: Mutex::default(),
            tells_for_all: Box::new(tells_for_all),
            is_ending: Box::new(is_ending),
            loops: loops.clone(),
        }))
    }

    /// Tells what all replicas are told, if this is the one of them that does.
    pub(crate) fn tell_for_all<K: Resource<DynamicType = ()>>(&self, about: &K, told: &[Event]) {
        if (self.0.tells_for_all)() {
            self.tell(about, told);
        }
    }

    /// Tells what there is to tell of an object, or how much more of that there was in a minute. Nobody waits for it, and what can't be
    /// told now is told by the status too.
    pub(crate) fn tell<K: Resource<DynamicType = ()>>(&self, about: &K, told: &[Event]) {
        let object = about.uid().unwrap_or_default();
        let (admitted, sum_at) = self.limits().admit(&object, told, Timestamp::now());
        if admitted.is_empty() && sum_at.is_none() {
            return;
        }
        // Events of what is in no namespace are kept in this one.
        let namespace = about.namespace().unwrap_or_else(|| "default".to_owned());
        let regarding = Regarding { name: about.name_any(), namespace, reference: about.object_ref(&()) };
        let this = self.clone();
        self.0.loops.finish(async move {
            for event in &admitted {
                this.write(&regarding, event).await;
            }
            let Some(sum_at) = sum_at else { return };
            this.0.loops.pause(Duration::try_from(sum_at.duration_since(Timestamp::now())).unwrap_or_default()).await;
            let sum = this.limits().sum(&object, Timestamp::now());
            if let Some(sum) = sum {
                this.write(&regarding, &sum).await;
            }
        });
    }

    fn limits(&self) -> MutexGuard<'_, EventLimits> {
        self.0.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write(&self, regarding: &Regarding, told: &Event) {
        if (self.0.is_ending)(&regarding.namespace) {
            return;
        }
        let events: Api<events::v1::Event> = Api::namespaced(self.0.kube.clone(), &regarding.namespace);
        let event = event(regarding, told);
        let mut outcome = events.create(&PostParams::default(), &event).await;
        for pause in AGAIN {
            // The object may be gone by the time that anybody would tell of it again.
            let passes = |error: &kube::Error| match error {
                kube::Error::Api(status) => status.code == 429 || status.code >= 500,
                _ => true,
            };
            if !outcome.as_ref().is_err_and(passes) || !self.0.loops.pause(pause).await {
                break;
            }
            outcome = events.create(&PostParams::default(), &event).await;
        }
        if let Err(error) = outcome
            // It is being deleted since a moment ago.
            && !is_namespace_leaving(&error)
            // It was written, though nobody was told so.
            && !is_stale(&error)
        {
            let Regarding { name, reference, .. } = regarding;
            let object = format!("{}/{name}", reference.namespace.as_deref().unwrap_or_default());
            warn!(kind = reference.kind.as_deref().map(display), %object, reason = told.reason, %error, "Event not written");
        }
    }
}

/// What an event is about.
struct Regarding {
    name: String,
    /// The event's.
    namespace: String,
    reference: ObjectReference,
}

fn event(regarding: &Regarding, told: &Event) -> events::v1::Event {
    let now = Timestamp::now();
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| MANAGER.to_owned());
    events::v1::Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", names::object(&names::label(&regarding.name)), now.as_nanosecond())),
            namespace: Some(regarding.namespace.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(if told.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(told.reason.to_owned()),
        // The API server takes a kilobyte.
        note: Some(told.message[..told.message.floor_char_boundary(1000)].to_owned()),
        action: Some("Reconcile".to_owned()),
        regarding: Some(regarding.reference.clone()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance),
        ..events::v1::Event::default()
    }
}
