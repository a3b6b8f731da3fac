//! The wanted faults as structs, and the ancestry of every fault there is.

use std::fmt::Write as _;

use super::{Context, objects};
use crate::codegen::CodegenError;
use crate::codegen::typeinfo::METHOD_FAULT;

const PRELUDE: &str = "\
use jiff::Timestamp;

use super::enums::*;
use super::refs::*;
use super::types::*;
use crate::any::Any;
use crate::fault::{FaultType, LocalizedMethodFault};
use crate::reference::ManagedObjectReference;
use crate::wire::macros::data_object;
use crate::wire::Binary;

";

pub(super) fn emit(context: &Context<'_>) -> Result<String, CodegenError> {
    let info = context.info;
    let mut out = PRELUDE.to_owned();
    for name in context.selection.data.iter().filter(|name| info.is_fault(name)) {
        objects::object(context, name, &mut out)?;
        let wire = info.wire(name);
        _ = writeln!(out, "impl FaultType for {wire} {{}}\n");
    }
    let mut faults: Vec<(&str, &str)> = (info.data.iter())
        .filter(|(name, _)| info.is_fault(name))
        .map(|(name, data)| (data.wire.as_str(), if name == METHOD_FAULT { "" } else { info.wire(&data.parent) }))
        .collect();
    faults.sort_unstable();
    _ = writeln!(out, "/// Every fault with the one it extends, sorted by name.");
    _ = writeln!(out, "pub(crate) static PARENTS: &[(&str, &str)] = &[");
    for (fault, parent) in faults {
        _ = writeln!(out, "({fault:?}, {parent:?}),");
    }
    _ = writeln!(out, "];");
    Ok(out)
}
