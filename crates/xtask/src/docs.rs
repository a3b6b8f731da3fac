//! Writes the pages of `docs/` that are read from the code: the API reference and the reasons.

use std::{fmt::Write, fs};

use serde_json::Value;

use crate::{
    files::{self, FileError},
    root,
};

/// Why a page was not written, or is not what it should be.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DocsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0} is not what the code gives: run 'make manifests'")]
    Stale(&'static str),
}

/// Each page, with its path from the root of the repository.
fn pages() -> [(&'static str, String); 2] {
    [("docs/api.md", api()), ("docs/reasons.md", drover_core::reasons::page())]
}

/// Writes the pages.
pub(crate) fn write() -> Result<String, DocsError> {
    for (path, text) in pages() {
        files::write(path, &text)?;
    }
    Ok("wrote docs/api.md and docs/reasons.md".to_owned())
}

/// Compares the committed pages with what would be written.
pub(crate) fn check() -> Result<String, DocsError> {
    let is_stale = |page: &(&str, String)| fs::read_to_string(root().join(page.0)).ok().as_ref() != Some(&page.1);
    match pages().into_iter().find(is_stale) {
        Some((path, _)) => Err(DocsError::Stale(path)),
        None => Ok("docs/api.md and docs/reasons.md are current".to_owned()),
    }
}

const HEAD: &str = "\
<!-- Generated from the types in crates/api by `make manifests`. Do not edit. -->
# API reference

All fields of all kinds, as `kubectl explain` shows them. The kinds are in the category `drover`: `kubectl get drover` lists the objects of
all of them in a namespace.

A reference to an object is written `…Ref` where it can grow further fields: `credentialsSecretRef`, `secretKeyRef`, `vmGroupRef`. A VCenter
is named by its plain name everywhere (`vcenter`), because VCenters are in no namespace, and the same name stands in the annotation
`vm.codeconnect.vmworld.com/vcenter` of a namespace and in `status.vcenter`. What is in vCenter (`template`, `placement`, `networks`, `hostname`,
`nodename`) is named by its vCenter name or inventory path.
";

/// The API reference. Writing to a String can't fail.
fn api() -> String {
    let mut page = HEAD.to_owned();
    for crd in drover_api::crds() {
        // It has text for keys, so this can't fail.
        let crd = serde_json::to_value(crd).unwrap_or_default();
        let (spec, version) = (&crd["spec"], &crd["spec"]["versions"][0]);
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let schema = &version["schema"]["openAPIV3Schema"];
        let _ = writeln!(
            page,
            "\n## {}\n`{}/{}`, {}, `kubectl get {}`. {}\n\n| field | type | default | description |\n|---|---|---|---|",
            word(&spec["names"]["kind"]),
            word(&spec["group"]),
            word(&version["name"]),
            if spec["scope"] == "Cluster" { "cluster-scoped" } else { "namespaced" },
            word(spec["names"]["shortNames"].get(0).unwrap_or(&spec["names"]["plural"])),
            word(&schema["description"]),
        );
        for part in ["spec", "status"] {
            rows(&mut page, part, &schema["properties"][part]);
        }
    }
    page
}

/// A row for each field below a schema.
fn rows(page: &mut String, path: &str, schema: &Value) {
    let is_required =
        |name: &str| schema["required"].as_array().is_some_and(|required| required.iter().any(|it| it == name));
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let items = field.get("items");
        let default = match &field["default"] {
            Value::Null | Value::Object(_) if is_required(name) && path.starts_with("spec") => "required".to_owned(),
            Value::Null | Value::Object(_) => String::new(),
            default => format!("`{default}`"),
        };
        let text = field["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let _ = writeln!(page, "| `{path}` | {} | {default} | {text} |", kind(field));
        // What Kubernetes describes itself is not repeated.
        if name != "conditions" && !(name == "namespaces" && field.get("properties").is_some()) {
            rows(page, &path, field);
            if let Some(items) = items {
                rows(page, &format!("{path}[]"), items);
            }
        }
    }
}

fn kind(field: &Value) -> String {
    let word = |field: &Value| match (&field["type"], &field["format"]) {
        _ if field["x-kubernetes-int-or-string"] == true => "integer or string".to_owned(),
        (_, Value::String(format)) if format == "date-time" => "time".to_owned(),
        (Value::String(kind), _) => kind.clone(),
        _ => String::new(),
    };
    if let Some(items) = field.get("items") {
        return format!("list of {}", word(items));
    }
    match field.get("additionalProperties") {
        Some(values) if values.is_object() => format!("map to {}", word(values)),
        _ => word(field),
    }
}
