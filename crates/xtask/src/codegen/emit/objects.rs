//! Data objects, and an enum for each that has subtypes.

use std::fmt::Write as _;

use super::Context;
use crate::codegen::CodegenError;
use crate::codegen::names;
use crate::codegen::typeinfo::is_root;

const PRELUDE: &str = "\
use jiff::Timestamp;
use smol_str::SmolStr;

use super::enums::*;
use super::refs::*;
use crate::any::Any;
use crate::fault::LocalizedMethodFault;
use crate::reference::ManagedObjectReference;
use crate::wire::macros::{array_item, data_object, polymorphic};
use crate::wire::{Binary, Secret};

";

pub(super) fn emit(context: &Context<'_>) -> Result<String, CodegenError> {
    let mut out = PRELUDE.to_owned();
    let info = context.info;
    for name in context.selection.data.iter().filter(|name| !info.is_fault(name)) {
        object(context, name, &mut out)?;
    }
    for (base, subtypes) in context.selection.polymorphic(info) {
        let base = info.wire(base);
        _ = writeln!(out, "/// A `{base}` or one of the types that extend it.");
        _ = writeln!(out, "#[derive(Debug, Clone, PartialEq)]\npub enum Any{base} {{\n{base}(Box<{base}>),");
        for subtype in &subtypes {
            _ = writeln!(out, "{0}(Box<{0}>),", info.wire(subtype));
        }
        _ = writeln!(out, "/// A type this crate does not know, read as its base.");
        _ = writeln!(out, "Other {{ type_name: SmolStr, base: Box<{base}> }},\n}}");
        _ = writeln!(out, "polymorphic!(Any{base}: {base}, {base:?}, {{");
        for subtype in &subtypes {
            let wire = info.wire(subtype);
            _ = writeln!(out, "    {wire} {wire:?},");
        }
        _ = writeln!(out, "}});\n");
    }
    Ok(out)
}

/// A struct with its base first, and how it stands on the wire.
pub(super) fn object(context: &Context<'_>, name: &str, out: &mut String) -> Result<(), CodegenError> {
    let data = &context.info.data[name];
    let wire = &data.wire;
    let base = Some(data.parent.as_str()).filter(|parent| !is_root(parent)).map(|parent| context.info.wire(parent));
    let dropped: Vec<String> = (data.fields.iter().filter(|field| context.wanted.is_dropped(wire, &field.name)))
        .map(|field| format!("`{}`", field.name))
        .collect();
    if !dropped.is_empty() {
        _ = writeln!(out, "/// Without {}: skipped when read, never written.", dropped.join(", "));
    }
    _ = writeln!(out, "#[derive(Debug, Clone, PartialEq, Default)]\npub struct {wire} {{");
    if let Some(base) = base {
        _ = writeln!(out, "pub base: {base},");
    }
    for field in context.kept(data) {
        _ = writeln!(out, "pub {}: {},", names::field(&field.name), context.slot_type(Some(name), field)?);
    }
    _ = writeln!(out, "}}");
    let extends = base.map_or_else(String::new, |base| format!(": {base}"));
    _ = writeln!(out, "data_object!({wire}{extends}, {wire:?}, {{");
    for field in context.kept(data) {
        _ = writeln!(out, "    {} {:?},", names::field(&field.name), field.name);
    }
    _ = writeln!(out, "}});\n");
    Ok(())
}
