//! Whether an object is as a manifest says, whatever else others have added to it.

use serde_json::Value;

/// Whether all that a manifest says stands in an object.
pub(super) fn is_within(wanted: &Value, seen: &Value) -> bool {
    match (wanted, seen) {
        (Value::Object(wanted), Value::Object(seen)) => wanted.iter().all(|(name, wanted)| match seen.get(name) {
            Some(seen) if name == "finalizers" => contains(wanted, seen),
            Some(seen) if name == "requests" || name == "limits" => are_as_much(wanted, seen),
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

/// Whether each amount is there, however it is written: the API server keeps `1000m` as `1`.
fn are_as_much(wanted: &Value, seen: &Value) -> bool {
    let is_as_much = |(name, wanted): (&String, &Value)| match (wanted.as_str(), seen[name].as_str()) {
        (Some(wanted), Some(seen)) if wanted != seen => match (amount(wanted), amount(seen)) {
            (Some(wanted), Some(seen)) => (wanted - seen).abs() <= f64::EPSILON * wanted.abs(),
            _ => false,
        },
        (wanted, seen) => wanted == seen,
    };
    wanted.as_object().is_some_and(|wanted| wanted.iter().all(is_as_much))
}

/// The number that an amount such as `100m`, `64Mi` or `1e3` stands for.
fn amount(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 16] = [
        ("Ki", 1024.0),
        ("Mi", 1_048_576.0),
        ("Gi", 1_073_741_824.0),
        ("Ti", 1_099_511_627_776.0),
        ("Pi", 1_125_899_906_842_624.0),
        ("Ei", 1_152_921_504_606_846_976.0),
        ("n", 1e-9),
        ("u", 1e-6),
        ("m", 1e-3),
        ("k", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("P", 1e15),
        ("E", 1e18),
        ("", 1.0),
    ];
    let split = |(unit, factor): &(&str, f64)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor);
    UNITS.iter().find_map(split)
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
    fn an_amount_is_the_same_however_it_is_written() {
        let is_same = |wanted: &str, seen: &str| {
            is_within(&json!({"limits": {"cpu": wanted}}), &json!({"limits": {"cpu": seen}}))
        };
        for (wanted, seen) in
            [("1000m", "1"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1e3", "1k"), ("2E", "2E"), ("1.5Gi", "1536Mi")]
        {
            assert!(is_same(wanted, seen), "{wanted} {seen}");
        }
        for (wanted, seen) in [("1000m", "2"), ("1G", "1Gi"), ("1", "none")] {
            assert!(!is_same(wanted, seen), "{wanted} {seen}");
        }
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
