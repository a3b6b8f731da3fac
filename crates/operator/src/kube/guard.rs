//! Objects are read one by one. What can't be read of one is said of that one, and keeps no other from being read.

use std::{borrow::Cow, fmt::Debug};

use drover_core::{events::Event, reasons::EventReason};
use kube::{
    Api, Resource,
    api::{ListParams, ObjectMeta},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error as _},
};
use serde_json::Value;

use super::events::Recorder;

/// An object, or why it can't be read.
#[derive(Clone, Debug)]
pub(crate) struct Guarded<K>(pub Result<K, Unreadable>);

/// An object that can't be read.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub(crate) struct Unreadable {
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

impl Unreadable {
    /// Tells those who look at the object, for all replicas.
    pub(crate) fn tell<K>(&self, recorder: &Recorder)
    where
        K: Resource<DynamicType = ()>,
    {
        let message = format!("{self}: nothing is done for this {} until that is changed", K::kind(&()));
        let event = Event::warning(EventReason::Unreadable, message);
        recorder.tell_for_all(&Guarded::<K>(Err(self.clone())), &[event]);
    }
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

#[cfg(test)]
mod tests {
    use drover_api::VmGroup;
    use kube::{ResourceExt, core::ObjectList};
    use serde_json::json;

    use super::*;

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
