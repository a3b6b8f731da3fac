//! A typed constant for each wanted property path.

use std::fmt::Write as _;

use super::Context;
use crate::codegen::CodegenError;
use crate::codegen::names;

pub(super) fn emit(context: &Context<'_>) -> Result<String, CodegenError> {
    let mut out = String::new();
    let mut module = "";
    for ((object, path), field) in &context.selection.properties {
        let wire = context.info.wire(object);
        if module != wire {
            if !module.is_empty() {
                _ = writeln!(out, "}}\n");
            }
            module = wire;
            _ = writeln!(out, "/// The properties of a `{wire}`.\npub mod {} {{", names::snake(wire));
            _ = writeln!(out, "use crate::generated::{{enums::*, refs::*, types::*}};");
            _ = writeln!(
                out,
                "use crate::{{Any, LocalizedMethodFault, ManagedObjectReference, Property, Timestamp}};\n"
            );
        }
        let item = context.item_type(field)?;
        let ty = if field.array { format!("Vec<{item}>") } else { item };
        let constant = names::constant(path);
        _ = writeln!(out, "pub const {constant}: Property<{wire}Ref, {ty}> = Property::new({path:?});");
    }
    _ = writeln!(out, "}}");
    Ok(out)
}
