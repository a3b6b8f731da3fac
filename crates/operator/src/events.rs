//! What people are told beside what the status says: events, each by itself.
//!
//! kube's own recorder counts all events of one reason and object as the same, whatever they say.

use drover_core::{names, news::News};
use k8s_openapi::{api::events::v1::Event, apimachinery::pkg::apis::meta::v1::MicroTime};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, PostParams},
};
use tracing::warn;

use crate::refusal::is_namespace_leaving;

const MANAGER: &str = "drover";

/// Tells what there is to tell of an object. Nobody waits for it, and what can't be told now is told by the status too.
pub(crate) fn tell<K: Resource<DynamicType = ()>>(kube: &Client, about: &K, news: &[News]) {
    // Events of what is in no namespace are kept in this one.
    let namespace = about.namespace().unwrap_or_else(|| "default".to_owned());
    let events: Api<Event> = Api::namespaced(kube.clone(), &namespace);
    let written: Vec<_> = news.iter().map(|news| event(about, &namespace, news)).collect();
    tokio::spawn(async move {
        for event in written {
            if let Err(error) = events.create(&PostParams::default(), &event).await
                // Who deletes a namespace needs no events in it.
                && !is_namespace_leaving(&error)
            {
                warn!(%error, reason = event.reason, "an event could not be written");
            }
        }
    });
}

fn event<K: Resource<DynamicType = ()>>(about: &K, namespace: &str, news: &News) -> Event {
    let now = k8s_openapi::jiff::Timestamp::now();
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| MANAGER.to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", names::object(&names::label(&about.name_any())), now.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(news.reason.to_owned()),
        // The API server takes a kilobyte.
        note: Some(news.message[..news.message.floor_char_boundary(1000)].to_owned()),
        action: Some("Reconcile".to_owned()),
        regarding: Some(about.object_ref(&())),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance),
        ..Event::default()
    }
}
