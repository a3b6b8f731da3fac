//! From a schema to what somebody might write: every field at its borders, beyond them, and as what it isn't.

use serde_json::{Map, Value, json};

/// No list or text is made longer than this for the sake of a border: the API server refuses requests that are too long as a whole.
const LONGEST: u64 = 70_000;
const MOST_ITEMS: u64 = 1_100;

/// A value of a schema with one field of it at a border, and which.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where it is, such as `.update.maxSurge`.
    pub field: String,
    /// The whole value.
    pub value: Value,
}

/// All that the schema's fields lead to, each beside fields that are all right: those of `base`, and what else is required.
#[must_use]
pub fn cases(schema: &Value, base: &Value) -> Vec<Case> {
    odd(schema, base).into_iter().map(|(field, value)| Case { field, value }).collect()
}

/// What a value of a schema may look like with one thing odd about it, and where that is.
fn odd(schema: &Value, base: &Value) -> Vec<(String, Value)> {
    let mut cases: Vec<_> = borders(schema).into_iter().map(|value| (String::new(), value)).collect();
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let known = base.get(name).cloned().unwrap_or_else(|| plain(field));
        for (path, value) in odd(field, &known) {
            let mut whole = if base.is_object() { base.clone() } else { plain(schema) };
            whole[name] = value;
            cases.push((format!(".{name}{path}"), whole));
        }
    }
    if let Some(items) = schema.get("items") {
        cases.extend(odd(items, &plain(items)).into_iter().map(|(path, value)| (format!("[0]{path}"), json!([value]))));
    }
    if let Some(values) = schema.get("additionalProperties") {
        let odd = odd(values, &plain(values)).into_iter();
        cases.extend(odd.map(|(path, value)| (format!("[key]{path}"), json!({"key": value}))));
    }
    cases
}

/// The plainest value that a schema takes.
fn plain(schema: &Value) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    match schema["type"].as_str() {
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(0)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            required.map(|name| (name.to_owned(), plain(&schema["properties"][name]))).collect::<Map<_, _>>().into()
        }
        Some(_) if schema["format"] == "date-time" => json!("2026-01-01T00:00:00Z"),
        Some(_) => schema["enum"].get(0).cloned().unwrap_or_else(|| json!("x".repeat(least(schema)))),
        None => json!(1),
    }
}

fn least(schema: &Value) -> usize {
    schema["minLength"].as_u64().unwrap_or(1).max(1).try_into().unwrap_or(1)
}

/// The borders of one field, and what is beyond them.
fn borders(schema: &Value) -> Vec<Value> {
    let mut values =
        vec![Value::Null, json!("seven"), json!(-1), json!(1.5), json!([[]]), json!({"no": "such"}), json!(true)];
    match schema["type"].as_str() {
        Some("integer") => values.extend(numbers(schema)),
        Some("string") => values.extend(texts(schema)),
        Some("boolean") => values.push(json!(false)),
        Some("array") => values.extend(lists(schema)),
        Some("object") if schema.get("additionalProperties").is_some() => values.extend(maps(schema)),
        Some("object") => values.push(json!({})),
        _ => {
            values.extend([0, 1, 10_000, 10_001, 3_000_000_000, i64::MAX].map(Value::from));
            values.extend(["", "0%", "100%", "999%", "1000%", "%", "٣%", "1e9", "-1", "1Ei"].map(Value::from));
        }
    }
    values
}

fn numbers(schema: &Value) -> Vec<Value> {
    let border = |name: &str| schema[name].as_i64();
    let near = |number: i64| [number.saturating_sub(1), number, number.saturating_add(1)];
    let borders = ["minimum", "maximum"].into_iter().filter_map(border).flat_map(near);
    let more = [0, i64::from(i32::MAX), i64::from(u32::MAX) + 1, i64::MIN, i64::MAX];
    borders.chain(more).map(Value::from).chain([json!(1e30), json!(2.0)]).collect()
}

fn texts(schema: &Value) -> Vec<Value> {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().cloned().chain(["NoSuchWord", "on"].map(Value::from)).collect();
    }
    if schema["format"] == "date-time" {
        let times = [
            "2026-02-30T00:00:00Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
            "9999-12-31T23:59:59-23:59",
            "2026-01-01T00:00:60Z",
            "2026-01-01t00:00:00z",
            "2026-01-01T00:00:00.123456789123Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01",
            "",
        ];
        return times.map(Value::from).into();
    }
    let most = schema["maxLength"].as_u64().unwrap_or(0).min(LONGEST);
    let long = |letter: &str, count: u64| json!(letter.repeat(count.try_into().unwrap_or(0)));
    let odd = [
        "",
        " ",
        "ü",
        "日本語",
        "🐑",
        "\u{202e}abc",
        "\u{0}",
        "a\nb",
        "../..",
        "%2f",
        "a.b.c",
        "-",
        "UPPER",
        "{{name}}",
        "'\"`$(x)",
    ];
    let long =
        [long("x", most), long("x", most + 1), long("ü", most), long("x", least(schema).saturating_sub(1) as u64)];
    odd.map(Value::from).into_iter().chain(long).collect()
}

fn lists(schema: &Value) -> Vec<Value> {
    let most = schema["maxItems"].as_u64().unwrap_or(0).min(MOST_ITEMS);
    let item = plain(&schema["items"]);
    let many = |count: u64| Value::Array((0..count).map(|_| item.clone()).collect());
    vec![json!([]), many(1), many(2), many(most), many(most + 1)]
}

fn maps(schema: &Value) -> Vec<Value> {
    let most = schema["maxProperties"].as_u64().unwrap_or(0).min(MOST_ITEMS);
    let value = plain(&schema["additionalProperties"]);
    let many =
        |count: u64| (0..count).map(|number| (format!("key{number}"), value.clone())).collect::<Map<_, _>>().into();
    let keyed = |key: &str| json!({key: value});
    vec![json!({}), many(most), many(most + 1), keyed(""), keyed("ü🐑"), keyed(&"k".repeat(300)), keyed("a b/c=d")]
}
