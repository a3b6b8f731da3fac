//! What operations are called where people look for them: in the log and in traces.

use drover_core::{Action, Subject, names};

use super::OperationContext;
use crate::vcenter::{inventory::machine_reference, mirror::Mirror};

/// Which operation it is.
pub(super) fn kind(action: &Action) -> &'static str {
    match action {
        Action::CreateFolder => "CreateFolder",
        Action::DestroyFolder | Action::DestroyLeftFolder(_) => "DestroyFolder",
        Action::Clone(_) => "Clone",
        Action::PowerOn(_) => "PowerOn",
        Action::PowerOff(_) => "PowerOff",
        Action::ShutdownGuest(_) => "ShutdownGuest",
        Action::Suspend(_) => "Suspend",
        Action::Reconfigure(..) => "Reconfigure",
        Action::Rename(..) => "Rename",
        Action::MoveIntoFolder(_) => "MoveIntoFolder",
        Action::Mark(..) => "Mark",
        Action::Destroy(_) => "Destroy",
    }
}

/// The name of the VM that it is done to, or its id where the name is not known.
pub(super) fn vm(action: &Action, context: &OperationContext, mirror: Option<&Mirror>) -> Option<String> {
    match action.subject() {
        Subject::Slot(slot) => Some(names::member(&context.desired.name, &context.desired.marker_uid, slot)),
        Subject::Machine(id) => {
            let machine = mirror.and_then(|mirror| mirror.machines.get(&machine_reference(&id)));
            Some(machine.map_or_else(|| id.0.clone(), |machine| machine.name.clone()))
        }
        Subject::Folder | Subject::LeftFolder(_) => None,
    }
}
