//! What people are told beside what the status says: events, each by itself.
//!
//! kube's own recorder counts all events of one reason and object as the same, whatever they say.

use std::{
    sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use drover_core::{Timestamp, events::News, names, throttle::EventLimits};
use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tracing::warn;

use crate::kube::refusal::is_namespace_leaving;

const MANAGER: &str = "drover";

/// When an event is written again that an API server did not take.
const AGAIN: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(9)];

/// One for the whole operator: an object has so many events a minute, whoever tells them.
static LIMITS: LazyLock<Mutex<EventLimits>> = LazyLock::new(Mutex::default);

/// Whether a namespace is being deleted, as far as the operator knows. A command that a person runs doesn't.
static IS_ENDING: OnceLock<Box<LookAhead>> = OnceLock::new();
type LookAhead = dyn Fn(&str) -> bool + Send + Sync;

/// Whether this replica tells of what is told to all of them. A command that a person runs always does.
static TELLS: OnceLock<Box<dyn Fn() -> bool + Send + Sync>> = OnceLock::new();

/// Says where to ask whether a namespace is being deleted: nothing can be made in it, and who deletes it needs no events there.
pub(crate) fn look_ahead(is_ending: impl Fn(&str) -> bool + Send + Sync + 'static) {
    // An operator starts once.
    let _ = IS_ENDING.set(Box::new(is_ending));
}

/// Says where to ask whether this is the one of several replicas that tells of what is told to all of them.
pub(crate) fn tell_for_all_if(is_the_one: impl Fn() -> bool + Send + Sync + 'static) {
    let _ = TELLS.set(Box::new(is_the_one));
}

/// Whether this replica tells of what is told to all of them.
pub(crate) fn are_told_here() -> bool {
    TELLS.get().is_none_or(|is_the_one| is_the_one())
}

/// Tells what there is to tell of an object, or how much more of that there was in a minute. Nobody waits for it, and what can't be
/// told now is told by the status too.
pub(crate) fn tell<K: Resource<DynamicType = ()>>(kube: &Client, about: &K, news: &[News]) {
    let object = about.uid().unwrap_or_default();
    let (admitted, sum_at) = limits().admit(&object, news, Timestamp::now());
    if admitted.is_empty() && sum_at.is_none() {
        return;
    }
    // Events of what is in no namespace are kept in this one.
    let namespace = about.namespace().unwrap_or_else(|| "default".to_owned());
    let events: Api<Event> = Api::namespaced(kube.clone(), &namespace);
    let regarding = Regarding { name: about.name_any(), namespace, reference: about.object_ref(&()) };
    tokio::spawn(async move {
        for news in &admitted {
            write(&events, &regarding, news).await;
        }
        let Some(sum_at) = sum_at else { return };
        tokio::time::sleep(Duration::try_from(sum_at.duration_since(Timestamp::now())).unwrap_or_default()).await;
        let sum = limits().sum(&object, Timestamp::now());
        if let Some(sum) = sum {
            write(&events, &regarding, &sum).await;
        }
    });
}

fn limits() -> MutexGuard<'static, EventLimits> {
    LIMITS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What an event is about.
struct Regarding {
    name: String,
    /// The event's.
    namespace: String,
    reference: ObjectReference,
}

async fn write(events: &Api<Event>, regarding: &Regarding, news: &News) {
    if IS_ENDING.get().is_some_and(|is_ending| is_ending(&regarding.namespace)) {
        return;
    }
    let event = event(regarding, news);
    let mut outcome = events.create(&PostParams::default(), &event).await;
    for pause in AGAIN {
        // The object may be gone by the time that anybody would tell of it again.
        let passes = |error: &kube::Error| match error {
            kube::Error::Api(status) => status.code == 429 || status.code >= 500,
            _ => true,
        };
        if !outcome.as_ref().is_err_and(passes) {
            break;
        }
        tokio::time::sleep(pause).await;
        outcome = events.create(&PostParams::default(), &event).await;
    }
    if let Err(error) = outcome
        // It is being deleted since a moment ago.
        && !is_namespace_leaving(&error)
        // It was written, though nobody was told so.
        && !is_there(&error)
    {
        let Regarding { name, reference, .. } = regarding;
        let object = format!("{}/{name}", reference.namespace.as_deref().unwrap_or_default());
        warn!(kind = reference.kind.as_deref().map(display), %object, reason = news.reason, %error, "Event not written");
    }
}

fn is_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

fn event(regarding: &Regarding, news: &News) -> Event {
    let now = Timestamp::now();
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| MANAGER.to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", names::object(&names::label(&regarding.name)), now.as_nanosecond())),
            namespace: Some(regarding.namespace.clone()),
            ..ObjectMeta::default()
        },
        type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(news.reason.to_owned()),
        // The API server takes a kilobyte.
        note: Some(news.message[..news.message.floor_char_boundary(1000)].to_owned()),
        action: Some("Reconcile".to_owned()),
        regarding: Some(regarding.reference.clone()),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance),
        ..Event::default()
    }
}
