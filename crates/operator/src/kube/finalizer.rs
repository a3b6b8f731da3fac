//! Finalizers: what keeps an object from being gone before its end is reached.

use std::fmt::Debug;

use kube::{
    Api, Error,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::refusal::is_stale;

/// Whether an object has a finalizer.
pub(crate) fn is_on(object: &ObjectMeta, finalizer: &str) -> bool {
    object.finalizers.iter().flatten().any(|it| it == finalizer)
}

/// Puts a finalizer on an object, and says whether that was done: not if the object has changed meanwhile.
pub(crate) async fn put_on<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    object: &ObjectMeta,
    finalizer: &str,
) -> Result<bool, Error> {
    set(api, object, |finalizers| finalizers.push(finalizer.to_owned())).await
}

/// Takes a finalizer off an object, which is gone then if it is being deleted and has no other. Says whether that was done.
pub(crate) async fn take_off<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    object: &ObjectMeta,
    finalizer: &str,
) -> Result<bool, Error> {
    set(api, object, |finalizers| finalizers.retain(|it| it != finalizer)).await
}

async fn set<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    object: &ObjectMeta,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<bool, Error> {
    let mut finalizers = object.finalizers.clone().unwrap_or_default();
    change(&mut finalizers);
    // With the version it was read at, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": object.resource_version}});
    let name = object.name.as_deref().unwrap_or_default();
    match api.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        // One that is gone has none.
        Err(Error::Api(status)) if status.code == 404 => Ok(true),
        Err(error) if is_stale(&error) => Ok(false),
        Err(error) => Err(error),
    }
}
