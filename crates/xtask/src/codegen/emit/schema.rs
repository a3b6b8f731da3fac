//! The order of elements as plain text, for the tests. It comes straight from the type info, so that a mistake in the
//! generated Rust shows as a difference.

use std::fmt::Write as _;

use super::Context;
use crate::codegen::CodegenError;
use crate::codegen::select::{Kind, kind};
use crate::codegen::typeinfo::{Field, is_root};

const LEGEND: &str = "\
# object NAME [BASE] / method NAME OWNER RESULT / enum NAME VALUE…, then one line for each element in its order:
#   NAME KIND:TYPE and ? for optional, * for a list, ! for required, - for one that is dropped.

";

pub(super) fn emit(context: &Context<'_>) -> Result<String, CodegenError> {
    let info = context.info;
    let mut out = LEGEND.to_owned();
    for name in &context.selection.data {
        let data = &info.data[*name];
        let base = if is_root(&data.parent) { "" } else { info.wire(&data.parent) };
        _ = writeln!(out, "{}", format!("object {} {base}", data.wire).trim_end());
        for field in &data.fields {
            let dropped = context.wanted.is_dropped(&data.wire, &field.name);
            _ = writeln!(out, "  {}", element(context, field, dropped)?);
        }
    }
    for (owner, method) in context.selection.methods.values() {
        let (owner, returns) = (info.wire(owner), slot(context, &method.returns)?);
        _ = writeln!(out, "method {} {owner} {returns}", method.wire);
        _ = writeln!(out, "  _this ref:{owner} !");
        for parameter in &method.parameters {
            _ = writeln!(out, "  {}", element(context, &parameter.field, false)?);
        }
    }
    for name in &context.selection.enums {
        let ty = &info.enums[*name];
        _ = writeln!(out, "enum {} {}", ty.wire, ty.values.join(" "));
    }
    Ok(out)
}

fn element(context: &Context<'_>, field: &Field, dropped: bool) -> Result<String, CodegenError> {
    let slot = if dropped { format!("dropped:{}", context.info.wire(&field.ty)) } else { slot(context, field)? };
    let count = match (dropped, field.array, field.optional) {
        (true, ..) => '-',
        (_, true, _) => '*',
        (_, _, true) => '?',
        _ => '!',
    };
    Ok(format!("{} {slot} {count}", field.name))
}

fn slot(context: &Context<'_>, field: &Field) -> Result<String, CodegenError> {
    let wire = context.info.wire(&field.ty);
    Ok(match kind(context.info, &field.ty)? {
        Kind::Primitive(name) => format!("xsd:{name}"),
        Kind::Any => "any:anyType".to_owned(),
        Kind::Enum => format!("enum:{wire}"),
        Kind::Managed => format!("ref:{wire}"),
        Kind::Fault => format!("fault:{wire}"),
        Kind::Data => format!("object:{wire}"),
    })
}
