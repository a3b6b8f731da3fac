//! Statuses that another version, or somebody else, has written. A status says what is so, and is written anew: one word in it that
//! nobody here knows must not keep the object from being read. A field that nobody here knows is a newer version's, and stays.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A status, which may say more than this version knows.
pub trait Tolerant {
    /// Adds to a status that is to be written in the place of this one what this one says and this version doesn't know. Of an object that
    /// is left out in it, nothing stays; items of lists are written as this version knows them.
    fn keep_unknown(&self, status: &mut Map<String, Value>);
}

/// The fields of an object that this version doesn't know. They are kept, and decide nothing here: whatever they say, two objects that
/// differ in nothing else are equal.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Unknown(BTreeMap<String, Value>);

impl Unknown {
    pub(crate) fn keep(&self, object: &mut Map<String, Value>) {
        for (name, value) in &self.0 {
            object.entry(name).or_insert_with(|| value.clone());
        }
    }
}

impl PartialEq for Unknown {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Unknown {}

/// A value, if it is one that is known here.
pub(crate) fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Option<T>, D::Error> {
    Ok(serde_json::from_value(Value::deserialize(from)?).ok())
}

/// Those items of a list that are known here.
pub(crate) fn those_known<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<Vec<T>, D::Error> {
    let items = Option::<Vec<Value>>::deserialize(from)?.unwrap_or_default();
    Ok(items.into_iter().filter_map(|item| serde_json::from_value(item).ok()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{DeserializeOwned, Tolerant};
    use crate::{HostInfoStatus, MyOwnShellStatus, VCenterStatus, VMInfoStatus, VmGroupStatus, vmgroup::Phase};

    /// Puts a field that nobody knows into each object of a status, as its schema has them. Those in lists are written anew.
    fn add_unknown(status: &mut Value, schema: &Value) {
        status["newer"] = json!({"said": [1]});
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if field["properties"].is_object() {
                add_unknown(&mut status[name.as_str()], field);
            }
        }
    }

    fn keeps_unknown<S: DeserializeOwned + serde::Serialize + Tolerant>(kind: &str) {
        let crds = crate::crds().into_iter().map(|crd| serde_json::to_value(crd).unwrap());
        let crd = crds.into_iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"];
        let mut written = json!({"observedGeneration": 1});
        add_unknown(&mut written, schema);
        let read: S = serde_json::from_value(written.clone()).unwrap();
        let mut again = serde_json::to_value(&read).unwrap();
        assert_eq!(again["newer"], Value::Null, "{kind}: it is no part of what this version says");
        read.keep_unknown(again.as_object_mut().unwrap());
        // What this version adds of its own is no matter here.
        if kind == "VmGroup" {
            written["record"]["incarnation"] = json!(0);
        }
        assert_eq!(again, written, "{kind}");
        let mut other = json!({"newer": "own"});
        read.keep_unknown(other.as_object_mut().unwrap());
        assert_eq!(
            other,
            json!({"newer": "own"}),
            "{kind}: what is left out stays out, and what is said is not said otherwise"
        );
    }

    #[test]
    fn what_a_newer_version_says_anywhere_in_a_status_is_kept() {
        keeps_unknown::<VmGroupStatus>("VmGroup");
        keeps_unknown::<VCenterStatus>("VCenter");
        keeps_unknown::<HostInfoStatus>("HostInfo");
        keeps_unknown::<VMInfoStatus>("VMInfo");
        keeps_unknown::<MyOwnShellStatus>("MyOwnShell");
    }

    #[test]
    fn a_word_that_nobody_knows_is_left_out_and_the_rest_is_read() {
        let read = |phase: &str| serde_json::from_value::<VmGroupStatus>(json!({"phase": phase, "currentReplicas": 3}));
        assert_eq!(read("RUNNING").unwrap().phase, Some(Phase::Running));
        let other = read("DANCING").unwrap();
        assert_eq!((other.phase, other.current_replicas), (None, Some(3)));
    }

    #[test]
    fn a_condition_of_no_time_is_left_out_and_the_others_are_read() {
        let condition = |kind: &str, time: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
        let conditions = [condition("Ready", "2026-01-01T00:00:00Z"), condition("Stalled", "9999999-01-01T00:00:00Z")];
        let status: VmGroupStatus = serde_json::from_value(json!({ "conditions": conditions })).unwrap();
        let kinds: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(kinds, ["Ready"]);
    }
}
