//! How much a field may hold. Whatever is admitted is listed, decoded and kept by the operator of everybody, so no field is without end.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use serde_json::Value;

use crate::pending::{self, GENERATION};

/// The most VMs of a group, and the most shells of a `MyOwnShell`.
pub const REPLICAS: i32 = 10_000;
/// The most hosts that a placement names. Each is looked up by itself.
pub const HOSTS: usize = 64;
/// The most networks that a group names: as many adapters as a VM may have.
pub const NETWORKS: usize = 10;
/// The largest disk, in GiB: the 62 TiB that vSphere allows.
pub const DISK_GIB: i32 = 63_488;
/// The most keys of extraConfig that a group sets.
pub const KEYS: usize = 64;
/// The most characters of a text that says nothing else: what Kubernetes allows the message of a condition.
pub const TEXT: u32 = 32_768;
/// The most items of a list or a map that says nothing else: as many slots as a record may have.
pub const ITEMS: u32 = 100_000;
/// The greatest number that every reader of JSON takes for what it is.
pub const NUMBER: i64 = (1 << 53) - 1;

/// Gives every field bounds that has none of its own, and lets no field be null: left out says the same.
pub(crate) fn close(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(close_schema);
    crd
}

fn close_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    match schema.type_.as_deref() {
        Some("integer") => {
            let greatest = if schema.format.as_deref() == Some("int32") { i32::MAX.into() } else { NUMBER };
            schema.minimum.get_or_insert(0.0);
            // Exact: it is below 2^53.
            #[allow(clippy::cast_precision_loss)]
            schema.maximum.get_or_insert(greatest as f64);
        }
        // What is one of a few words needs no other end, and a time has its format.
        Some("string") if schema.enum_.is_none() && schema.format.is_none() => {
            schema.max_length.get_or_insert(i64::from(TEXT));
        }
        Some("array") => {
            schema.max_items.get_or_insert(i64::from(ITEMS));
        }
        _ => {}
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(close_schema);
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(items)) => close_schema(items),
        Some(JSONSchemaPropsOrArray::Schemas(items)) => items.iter_mut().for_each(close_schema),
        None => {}
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        schema.max_properties.get_or_insert(i64::from(ITEMS));
        close_schema(values);
    }
}

/// A status that the API server takes, whatever vCenter has told: what is beyond the bounds is cut off.
#[must_use]
pub fn fit(status: Value) -> Value {
    let is_unseen = status.get(GENERATION).and_then(Value::as_i64) == Some(pending::NONE);
    let mut fitted = cut(status);
    if is_unseen {
        fitted[GENERATION] = pending::NONE.into();
    }
    fitted
}

fn cut(value: Value) -> Value {
    match value {
        Value::String(mut text) => {
            if let Some((end, _)) = text.char_indices().nth(TEXT as usize) {
                text.truncate(end);
            }
            Value::String(text)
        }
        Value::Number(number) => number.as_i64().map_or(Value::Number(number), |number| number.clamp(0, NUMBER).into()),
        Value::Array(items) => Value::Array(items.into_iter().take(ITEMS as usize).map(cut).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().take(ITEMS as usize).map(|(name, value)| (name, cut(value))).collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is wrong with a schema and all below it.
    fn open_ends(path: &str, schema: &Value, found: &mut Vec<String>) {
        let has = |name: &str| schema.get(name).is_some();
        let missing: &[&str] = match schema["type"].as_str() {
            Some("integer") => &["minimum", "maximum"],
            Some("string") if !has("enum") && !has("format") => &["maxLength"],
            Some("array") => &["maxItems"],
            Some("object") if has("additionalProperties") => &["maxProperties"],
            Some("string" | "object" | "boolean") => &[],
            _ if has("x-kubernetes-int-or-string") && has("x-kubernetes-validations") => &[],
            _ if has("x-kubernetes-int-or-string") => &["minimum", "maximum", "maxLength"],
            other => panic!("{path} is {other:?}, of which this test knows nothing"),
        };
        found.extend(missing.iter().filter(|name| !has(name)).map(|name| format!("{path}: {name}")));
        if has("nullable") {
            found.push(format!("{path}: nullable"));
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            open_ends(&format!("{path}.{name}"), field, found);
        }
        for below in ["items", "additionalProperties"] {
            if let Some(schema) = schema.get(below) {
                open_ends(&format!("{path}[]"), schema, found);
            }
        }
    }

    #[test]
    fn no_field_of_any_kind_is_without_end_or_null() {
        let mut found = Vec::new();
        for crd in crate::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
            open_ends(crd["spec"]["names"]["kind"].as_str().unwrap(), schema, &mut found);
        }
        assert!(found.is_empty(), "{found:#?}");
    }

    #[test]
    fn a_status_is_cut_where_the_schema_ends() {
        let long = "ü".repeat(TEXT as usize + 1);
        let fitted = fit(json!({"a": [long, "short"], "b": {"c": -1, "d": i64::MAX, "e": 7}, "f": null, "g": true}));
        assert_eq!(fitted["a"], json!(["ü".repeat(TEXT as usize), "short"]));
        assert_eq!(fitted["b"], json!({"c": 0, "d": NUMBER, "e": 7}));
        assert_eq!((&fitted["f"], &fitted["g"]), (&Value::Null, &json!(true)));
    }

    #[test]
    fn a_status_that_is_about_no_generation_stays_so_and_a_condition_has_one() {
        let fitted = |generation: i64| fit(json!({"observedGeneration": generation}))["observedGeneration"].clone();
        assert_eq!([-2, -1, 0, 1].map(fitted), [0, -1, 0, 1]);
        let conditions = json!({"observedGeneration": -1, "conditions": [{"observedGeneration": -1}]});
        assert_eq!(fit(conditions)["conditions"][0]["observedGeneration"], 0);
    }
}
