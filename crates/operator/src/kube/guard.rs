//! What can't be read of one object is said of that one, and keeps no other from being read.

use std::fmt::Debug;

pub(crate) use drover_api::{Guarded, Unreadable};
use drover_core::{events::Event, reasons::EventReason};
use kube::{Api, Resource, api::ListParams};
use serde::de::DeserializeOwned;

use super::events::Recorder;

/// Tells those who look at an object that it can't be read, for all replicas.
pub(crate) fn tell<K>(unreadable: &Unreadable, recorder: &Recorder)
where
    K: Resource<DynamicType = ()>,
{
    let message = format!("{unreadable}: nothing is done for this {} until that is changed", K::kind(&()));
    let event = Event::warning(EventReason::Unreadable, message);
    recorder.tell_for_all(&Guarded::<K>(Err(unreadable.clone())), &[event]);
}

/// All objects that can be read, and those that can't.
pub(crate) async fn list<K>(all: Api<Guarded<K>>) -> Result<(Vec<K>, Vec<Unreadable>), kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let found = all.list(&ListParams::default()).await?;
    let mut read = (Vec::new(), Vec::new());
    for Guarded(object) in found.items {
        match object {
            Ok(object) => read.0.push(object),
            Err(unreadable) => read.1.push(unreadable),
        }
    }
    Ok(read)
}

/// All objects that can be read, for a command that a person runs, who is told of the others.
pub(crate) async fn readable<K>(all: Api<Guarded<K>>) -> Result<Vec<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let (read, unreadable) = list(all).await?;
    for object in unreadable {
        let Unreadable { metadata, why } = &object;
        let namespace = metadata.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        eprintln!("drover: {} {namespace}{name} is passed over, because it can't be read: {why}", K::kind(&()));
    }
    Ok(read)
}
