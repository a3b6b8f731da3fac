//! A request for each wanted method.

use std::fmt::Write as _;

use super::Context;
use crate::codegen::CodegenError;
use crate::codegen::names;
use crate::codegen::typeinfo::Method;

const PRELUDE: &str = "\
use jiff::Timestamp;

use super::enums::*;
use super::refs::*;
use super::types::*;
use crate::any::Any;
use crate::reference::ManagedObjectReference;
use crate::wire::macros::method;
use crate::wire::{Binary, Secret};

";

pub(super) fn emit(context: &Context<'_>) -> Result<String, CodegenError> {
    let mut out = PRELUDE.to_owned();
    for (owner, method) in context.selection.methods.values() {
        request(context, owner, method, &mut out)?;
    }
    Ok(out)
}

fn request(context: &Context<'_>, owner: &str, method: &Method, out: &mut String) -> Result<(), CodegenError> {
    let owner = context.info.wire(owner);
    let request = names::request(&method.wire);
    _ = writeln!(out, "/// `{}` of a `{owner}`.", method.wire);
    let faults: Vec<&str> = method.faults.iter().map(|fault| context.info.wire(fault)).collect();
    if !faults.is_empty() {
        _ = writeln!(out, "///\n/// Faults it declares: {}.", faults.join(", "));
    }
    _ = writeln!(out, "#[derive(Debug, Clone, PartialEq, Default)]\npub struct {request} {{\npub this: {owner}Ref,");
    for parameter in &method.parameters {
        let ty = context.slot_type(None, &parameter.field)?;
        _ = writeln!(out, "pub {}: {ty},", names::field(&parameter.field.name));
    }
    _ = writeln!(out, "}}");
    let response = context.slot_type(None, &method.returns)?;
    _ = write!(out, "method!({request}, {:?}, {response}, {:?}, [", method.wire, method.privilege);
    for parameter in &method.parameters {
        if let Some(privilege) = &parameter.privilege {
            _ = write!(out, "({:?}, {privilege:?}), ", parameter.field.name);
        }
    }
    _ = writeln!(out, "], {{");
    for parameter in &method.parameters {
        _ = writeln!(out, "    {} {:?},", names::field(&parameter.field.name), parameter.field.name);
    }
    _ = writeln!(out, "}});\n");
    Ok(())
}
