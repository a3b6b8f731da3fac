//! Statuses as they are written: by a merge patch with what differs, and to nobody who is gone.

use std::fmt::Debug;

use drover_api::bounds;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

const MANAGER: &str = "drover";

/// Writes what is to change in an object's status, and returns the object as it is then, unless it is gone.
pub(crate) async fn write<K>(api: &Api<K>, object: &K, patch: Value) -> Result<Option<K>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch_status(&object.name_any(), &params, &Patch::Merge(json!({"status": patch}))).await {
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// A status as it stands there, in bounds or not: an older definition may have let in what is written over now.
pub(crate) fn standing(status: &(impl Serialize + ?Sized)) -> Value {
    // Statuses have text for keys and plain numbers, so this can't fail.
    serde_json::to_value(status).unwrap_or_default()
}

/// A status as it is to be written, as much of it as its kind takes.
pub(crate) fn value(status: &(impl Serialize + ?Sized)) -> Value {
    bounds::fit(standing(status))
}

/// The merge patch that turns one status into another. What is gone is null.
pub(crate) fn difference(before: &Value, after: &Value) -> Value {
    let empty = Map::new();
    let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value)).map(|(name, value)| {
        let inner = before.get(name).filter(|before| before.is_object() && value.is_object());
        (name.clone(), inner.map_or_else(|| value.clone(), |inner| difference(inner, value)))
    });
    Value::Object(gone.chain(changed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_there_out_of_bounds_is_written_over() {
        let (stands, wanted) = (json!({"queued": -1, "text": "x".repeat(40_000)}), json!({"queued": 0, "text": "x"}));
        assert_eq!(difference(&standing(&stands), &value(&wanted)), wanted);
        assert_eq!(value(&stands)["queued"], 0);
    }

    #[test]
    fn a_difference_says_what_is_new_what_changed_and_what_is_gone() {
        let before = json!({"same": 1, "changed": [1], "gone": true, "inner": {"a": 1, "b": 2}});
        let after = json!({"same": 1, "changed": [2], "new": "x", "inner": {"a": 1, "c": 3}});
        let expected = json!({"changed": [2], "gone": null, "new": "x", "inner": {"b": null, "c": 3}});
        assert_eq!(difference(&before, &after), expected);
    }
}
