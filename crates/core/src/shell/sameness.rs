//! Whether an object is as a manifest says, whatever else others have added to it.

use serde_json::Value;

/// Whether all that a manifest says stands in an object.
pub fn is_within(wanted: &Value, seen: &Value) -> bool {
    match (wanted, seen) {
        (Value::Object(wanted), Value::Object(seen)) => wanted.iter().all(|(name, wanted)| match seen.get(name) {
            Some(seen) if name == "finalizers" => contains(wanted, seen),
            Some(seen) => is_within(wanted, seen),
            None => is_empty(wanted),
        }),
        (Value::Array(wanted), Value::Array(seen)) => match wanted.iter().find_map(key) {
            Some(key) => {
                wanted.iter().all(|wanted| seen.iter().any(|seen| seen[key] == wanted[key] && is_within(wanted, seen)))
            }
            None => wanted.len() == seen.len() && wanted.iter().zip(seen).all(|(wanted, seen)| is_within(wanted, seen)),
        },
        _ => wanted == seen,
    }
}

/// What tells the elements of a list apart, if others may add to it.
fn key(element: &Value) -> Option<&'static str> {
    ["uid", "mountPath", "name"].into_iter().find(|key| element.get(key).is_some())
}

fn contains(wanted: &Value, seen: &Value) -> bool {
    let all = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let seen = all(seen);
    all(wanted).iter().all(|wanted| seen.contains(wanted))
}

/// The API server keeps nothing of what says nothing.
fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_others_add_changes_nothing() {
        let wanted = json!({
            "finalizers": ["ours"],
            "containers": [{"name": "busybox", "command": ["sh", "-c"], "resources": {}}],
        });
        let seen = json!({
            "finalizers": ["theirs", "ours"],
            "annotations": {"a": "b"},
            "containers": [{"name": "proxy"}, {"name": "busybox", "command": ["sh", "-c"], "env": [{"name": "A"}]}],
        });
        assert!(is_within(&wanted, &seen));
    }

    #[test]
    fn what_others_change_or_remove_is_noticed() {
        let wanted = json!({"replicas": 3, "containers": [{"name": "busybox", "command": ["sh", "-c"]}]});
        for seen in [
            json!({"replicas": 4, "containers": [{"name": "busybox", "command": ["sh", "-c"]}]}),
            json!({"replicas": 3, "containers": [{"name": "busybox", "command": ["sh", "-c", "ls"]}]}),
            json!({"replicas": 3, "containers": [{"name": "proxy", "command": ["sh", "-c"]}]}),
            json!({"containers": [{"name": "busybox", "command": ["sh", "-c"]}]}),
        ] {
            assert!(!is_within(&wanted, &seen), "{seen}");
        }
    }
}
