//! Statuses as they stand and as they are to be written, and what is between the two.

use drover_api::bounds;
use serde::Serialize;
use serde_json::{Map, Value};

/// A status as it stands there, in bounds or not: an older definition may have let in what is written over now.
#[must_use]
pub fn standing(status: &(impl Serialize + ?Sized)) -> Value {
    // Statuses have text for keys and plain numbers, so this can't fail.
    serde_json::to_value(status).unwrap_or_default()
}

/// A status as it is to be written, as much of it as its kind takes.
#[must_use]
pub fn value(status: &(impl Serialize + ?Sized)) -> Value {
    bounds::fit(standing(status))
}

/// What turns one status into another. What is gone is null.
#[must_use]
pub fn difference(before: &Value, after: &Value) -> Value {
    let empty = Map::new();
    let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| (name.clone(), Value::Null));
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value)).map(|(name, value)| {
        let inner = before.get(name).filter(|before| before.is_object() && value.is_object());
        (name.clone(), inner.map_or_else(|| value.clone(), |inner| difference(inner, value)))
    });
    Value::Object(gone.chain(changed).collect())
}

/// Makes a difference to a status.
pub fn merge(status: &mut Map<String, Value>, difference: &Value) {
    for (name, value) in difference.as_object().into_iter().flatten() {
        match (value, status.get_mut(name)) {
            (Value::Null, _) => drop(status.remove(name)),
            (Value::Object(_), Some(Value::Object(inner))) => merge(inner, value),
            _ => drop(status.insert(name.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let mut status = before.as_object().unwrap().clone();
        merge(&mut status, &expected);
        assert_eq!(Value::Object(status), after);
    }
}
