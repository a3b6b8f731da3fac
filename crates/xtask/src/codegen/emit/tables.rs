//! Enums, references to managed objects, and the table by which a value's `xsi:type` finds its reader.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Context;
use crate::codegen::CodegenError;
use crate::codegen::names;
use crate::codegen::select::{Kind, kind};
use crate::codegen::typeinfo::MANAGED_OBJECT;

pub(super) fn enums(context: &Context<'_>) -> String {
    let mut out = "use crate::wire::macros::{array_item, enumeration};\n\n".to_owned();
    for name in &context.selection.enums {
        let ty = &context.info.enums[*name];
        let wire = &ty.wire;
        _ = writeln!(out, "#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]\npub enum {wire} {{");
        for value in &ty.values {
            _ = writeln!(out, "{},", names::variant(value));
        }
        _ = writeln!(out, "/// A value this crate does not know.\nOther(String),\n}}");
        _ = writeln!(out, "enumeration!({wire}, {wire:?}, {{");
        for value in &ty.values {
            _ = writeln!(out, "    {} {value:?},", names::variant(value));
        }
        _ = writeln!(out, "}});\n");
    }
    out
}

pub(super) fn references(context: &Context<'_>) -> String {
    let info = context.info;
    let mut out = "use crate::wire::macros::reference;\n\n".to_owned();
    for name in &context.selection.references {
        let wire = info.wire(name);
        let ancestors = info.managed_ancestors(name).filter(|name| context.selection.references.contains(name));
        let ancestors: Vec<String> = ancestors.map(|name| format!("{}Ref", info.wire(name))).collect();
        _ = writeln!(out, "reference!({wire}Ref, {wire:?}, [{}]);", ancestors.join(", "));
    }
    let mut parents: Vec<(&str, &str)> = (info.managed.iter())
        .filter(|(name, _)| *name != MANAGED_OBJECT)
        .map(|(_, managed)| (managed.wire.as_str(), info.wire(&managed.parent)))
        .collect();
    parents.sort_unstable();
    _ = writeln!(out, "\n/// Every managed type with the one it extends, sorted by name.");
    _ = writeln!(out, "pub(crate) static PARENTS: &[(&str, &str)] = &[");
    for (name, parent) in parents {
        _ = writeln!(out, "({name:?}, {parent:?}),");
    }
    _ = writeln!(out, "];");
    out
}

pub(super) fn registry(context: &Context<'_>) -> Result<String, CodegenError> {
    let info = context.info;
    let mut entries = BTreeSet::new();
    for name in &context.selection.data {
        let wire = info.wire(name);
        entries.insert((wire.to_owned(), format!("Entry::Object(read_object::<{wire}>)")));
    }
    let fault = "LocalizedMethodFault".to_owned();
    entries.insert((fault, "Entry::Object(read_object::<LocalizedMethodFault>)".to_owned()));
    for name in &context.selection.enums {
        let wire = info.wire(name);
        entries.insert((wire.to_owned(), "Entry::Enum".to_owned()));
    }
    let mut arrays = String::new();
    for field in context.selection.properties.values().filter(|field| field.array) {
        let kind = kind(info, &field.ty)?;
        if kind == Kind::Data || kind == Kind::Enum {
            let (item, wire) = (context.item_type(field)?, info.wire(&field.ty));
            let array = format!("ArrayOf{wire}");
            let entry = (array.clone(), format!("Entry::Object(read_object::<ArrayOf<{item}>>)"));
            if entries.insert(entry) {
                _ = writeln!(arrays, "array_item!({item}, {array:?}, {wire:?});");
            }
        }
    }
    let mut out = "\
use super::enums::*;
use super::faults::*;
use super::types::*;
use crate::any::{read_object, ArrayOf, Entry};
use crate::fault::LocalizedMethodFault;
use crate::wire::macros::array_item;

"
    .to_owned();
    out += &arrays;
    _ = writeln!(out, "\n/// How to read a value of each known type, sorted by name.");
    _ = writeln!(out, "pub(crate) static ENTRIES: &[(&str, Entry)] = &[");
    for (name, entry) in entries {
        _ = writeln!(out, "({name:?}, {entry}),");
    }
    _ = writeln!(out, "];");
    Ok(out)
}
