//! Statuses that another version, or somebody else, has written. A status says what is so, and is written anew: one word in it that
//! nobody here knows must not keep the object from being read.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

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
    use serde_json::json;

    use crate::{VmGroupStatus, vmgroup::Phase};

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
