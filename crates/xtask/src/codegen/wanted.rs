//! The list of what Drover uses of the API, and the check that the API has it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::CodegenError;
use super::typeinfo::{Field, Method, TypeInfo};

/// What `crates/vim25/codegen/wanted.toml` says. The file explains its own tables.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Wanted {
    pub source: Package,
    pub methods: BTreeMap<String, Vec<String>>,
    pub properties: BTreeMap<String, Vec<String>>,
    pub types: Types,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Package {
    pub package: String,
    pub version: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Types {
    pub subtypes: Vec<String>,
    pub faults: Vec<String>,
    pub dropped: Vec<String>,
}

impl Wanted {
    pub(super) fn load(path: &Path) -> Result<Self, CodegenError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| CodegenError::File { path: path.to_owned(), error })?;
        toml::from_str(&text).map_err(|error| CodegenError::WantedSyntax {
            line: error.span().map_or(0, |span| text[..span.start].lines().count()),
            reason: error.message().to_owned(),
        })
    }

    pub(super) fn is_dropped(&self, wire: &str, field: &str) -> bool {
        self.types.dropped.iter().any(|dropped| dropped.split_once('.') == Some((wire, field)))
    }
}

/// The method `name` of the managed type that the wire calls `object`.
pub(super) fn find_method<'a>(
    info: &'a TypeInfo,
    object: &str,
    name: &str,
) -> Result<(&'a str, &'a Method), CodegenError> {
    let managed = managed_type(info, object)?;
    let method = info.managed[managed].methods.iter().find(|method| method.wire == name);
    method.map(|method| (managed, method)).ok_or_else(|| unknown("method", format!("{object}.{name}")))
}

/// The dotted name of a wanted managed type.
pub(super) fn managed_type<'a>(info: &'a TypeInfo, object: &str) -> Result<&'a str, CodegenError> {
    let found = info.named(object).filter(|name| info.managed.contains_key(*name));
    found.ok_or_else(|| unknown("managed type", object.to_owned()))
}

/// The dotted name of a wanted data type.
pub(super) fn data_type<'a>(info: &'a TypeInfo, wire: &str) -> Result<&'a str, CodegenError> {
    let found = info.named(wire).filter(|name| info.data.contains_key(*name));
    found.ok_or_else(|| unknown("type", wire.to_owned()))
}

/// The last field on the way of a property path such as `config.hardware.numCPU`.
pub(super) fn find_property<'a>(info: &'a TypeInfo, object: &str, path: &str) -> Result<&'a Field, CodegenError> {
    let missing = || unknown("property", format!("{object}.{path}"));
    let managed = managed_type(info, object)?;
    let mut steps = path.split('.');
    let first = steps.next().unwrap_or(path);
    let mut field = std::iter::once(managed)
        .chain(info.managed_ancestors(managed))
        .find_map(|ty| info.managed[ty].properties.iter().find(|property| property.name == first))
        .ok_or_else(missing)?;
    for step in steps {
        if field.array {
            return Err(missing());
        }
        field = std::iter::once(field.ty.as_str())
            .chain(info.ancestors(&field.ty))
            .filter_map(|ty| info.data.get(ty))
            .find_map(|data| data.fields.iter().find(|field| field.name == step))
            .ok_or_else(missing)?;
    }
    Ok(field)
}

fn unknown(what: &'static str, name: String) -> CodegenError {
    CodegenError::Unknown { what, name }
}
