//! Objects are read one by one. What can't be read of one is said of that one, and keeps no other from being read.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

/// An object, or why it can't be read.
#[derive(Clone, Debug)]
pub struct Guarded<K>(pub Result<K, Unreadable>);

/// An object that can't be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    /// Whose it is.
    pub metadata: ObjectMeta,
    /// Where, and what is wrong there.
    pub why: String,
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut object = Value::deserialize(deserializer)?;
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            // Who wrote what takes up more memory than what was written.
            metadata.remove("managedFields");
        }
        let why = match serde_path_to_error::deserialize(&object) {
            Ok(object) => return Ok(Self(Ok(object))),
            Err(why) => why.to_string(),
        };
        let metadata = ObjectMeta::deserialize(&object["metadata"]).map_err(D::Error::custom)?;
        Ok(Self(Err(Unreadable { metadata, why })))
    }
}

impl<K: Resource> Resource for Guarded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(kind: &K::DynamicType) -> Cow<'_, str> {
        K::kind(kind)
    }

    fn group(kind: &K::DynamicType) -> Cow<'_, str> {
        K::group(kind)
    }

    fn version(kind: &K::DynamicType) -> Cow<'_, str> {
        K::version(kind)
    }

    fn plural(kind: &K::DynamicType) -> Cow<'_, str> {
        K::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.as_ref().map_or_else(|unreadable| &unreadable.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.as_mut().map_or_else(|unreadable| &mut unreadable.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use kube::{ResourceExt, core::ObjectList};
    use serde_json::json;

    use super::*;
    use crate::VmGroup;

    fn group(name: &str, surge: &Value) -> Value {
        json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"name": name, "namespace": "team", "uid": "u", "managedFields": [{"manager": "kubectl"}]},
            "spec": {"cpu": 1, "memory": 1, "replicas": 1, "template": "t", "update": {"maxSurge": surge}},
        })
    }

    #[test]
    fn one_that_cant_be_read_is_named_and_the_others_are_read() {
        let list = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroupList", "metadata": {},
            "items": [group("good", &json!(1)), group("bad", &json!([])), group("fine", &json!("25%"))],
        });
        let list: ObjectList<Guarded<VmGroup>> = serde_json::from_value(list).unwrap();
        let names: Vec<_> = list.items.iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, ["good", "bad", "fine"]);
        assert!(list.items[0].managed_fields().is_empty() && list.items[2].0.is_ok());
        let bad = list.items[1].0.as_ref().unwrap_err();
        assert!(bad.why.starts_with("spec.update.maxSurge: "), "{bad}");
        assert_eq!((bad.metadata.uid.as_deref(), list.items[1].namespace().as_deref()), (Some("u"), Some("team")));
    }
}
