//! What a newcomer reads of each field: `kubectl explain` alone has to do.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};

/// Makes one line of each paragraph: where a line ends is for those to say who show it.
pub(crate) fn unwrap(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let schemas = crd.spec.versions.iter_mut().filter_map(|version| version.schema.as_mut());
    schemas.filter_map(|schema| schema.open_api_v3_schema.as_mut()).for_each(unwrap_schema);
    crd
}

fn unwrap_schema(schema: &mut JSONSchemaProps) {
    if let Some(text) = &mut schema.description {
        let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
        *text = paragraphs.collect::<Vec<_>>().join("\n\n");
    }
    schema.properties.iter_mut().flat_map(|properties| properties.values_mut()).for_each(unwrap_schema);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        unwrap_schema(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        unwrap_schema(values);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    /// What Kubernetes describes in its own words.
    const FOREIGN: [&str; 3] = [".status.conditions[]", ".spec.namespaces.", ".spec.allow[].namespaces."];
    /// What begins a sentence that doesn't begin with what the field is.
    const NO_NOUNS: [&str; 15] = [
        "The ", "A ", "An ", "It ", "Its ", "What ", "Which ", "Whether ", "How ", "When ", "Where ", "Who ", "All ",
        "This ", "Left ",
    ];
    /// Words that mean something else, or nothing, to those who know vSphere and Kubernetes.
    const UNUSUAL: [&str; 5] = ["machine", "Left out", "exec'ed", "makes no sense", "look on"];

    /// What is wrong with the words of a schema and all below it.
    fn flaws(path: &str, schema: &Value, found: &mut Vec<String>) {
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{name}");
            if FOREIGN.iter().any(|foreign| path.contains(foreign))
                || path.matches('.').count() == 1 && name != "spec" && name != "status"
            {
                continue;
            }
            let text = field["description"].as_str().unwrap_or_default();
            if !text.starts_with(char::is_uppercase) || NO_NOUNS.iter().any(|word| text.starts_with(word)) {
                found.push(format!("{path} does not begin with a noun: {text:?}"));
            }
            if !text.ends_with('.') || UNUSUAL.iter().any(|word| text.contains(word)) {
                found.push(format!("{path} is not said plainly: {text:?}"));
            }
            let values = field["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
            found.extend(
                values
                    .filter(|value| !text.contains(&format!("`{value}`")))
                    .map(|value| format!("{path} does not explain {value}")),
            );
            // A default that is no empty object is told, and so is what absence means.
            let is_told = text.contains("Default: ") || text.contains("(default)");
            if let Some(default) = field.get("default").filter(|_| path.contains(".spec.") && field["type"] != "object")
                && !is_told
            {
                found.push(format!("{path} does not tell its default {default}"));
            }
            flaws(&path, field, found);
        }
        if let Some(items) = schema.get("items") {
            flaws(&format!("{path}[]"), items, found);
        }
    }

    #[test]
    fn every_field_begins_with_what_it_is_and_explains_its_values_and_its_default() {
        let mut found = Vec::new();
        for crd in crate::crds() {
            let crd = serde_json::to_value(crd).unwrap();
            let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
            flaws(kind, &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut found);
            assert_eq!(crd["spec"]["names"]["categories"], serde_json::json!(["drover"]), "{kind}");
        }
        assert!(found.is_empty(), "{found:#?}");
    }
}
