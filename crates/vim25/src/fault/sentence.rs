//! A fault as a sentence that names what it is about.

use super::Fault;
use crate::faults::{
    DuplicateName, InvalidArgument, InvalidLogin, InvalidName, InvalidPowerState, InvalidProperty,
    ManagedObjectNotFound, NoDiskSpace, NoPermission, NotAuthenticated, SystemError, TaskInProgress,
};
use crate::reference::ManagedObjectReference;

/// The fault's name, what it is about, and vCenter's own words where they say more.
pub(super) fn of(fault: &Fault, said: Option<&str>) -> String {
    let said = said.map(str::trim).filter(|said| !said.is_empty()).or_else(|| message(fault));
    match (about(fault), said) {
        (Some(about), _) => format!("{}: {about}", fault.name()),
        (None, Some(said)) => format!("{}: {said}", fault.name()),
        (None, None) => format!("{}: vCenter gave no reason", fault.name()),
    }
}

impl Fault {
    /// The object that the fault is about, where it names one.
    #[must_use]
    pub fn object(&self) -> Option<&ManagedObjectReference> {
        if let Some(fault) = self.downcast_ref::<NoPermission>() {
            return fault.object.as_ref().or_else(|| fault.missing_privileges.first().map(|missing| &missing.entity));
        }
        if let Some(fault) = self.downcast_ref::<DuplicateName>() {
            return Some(&fault.object).filter(|object| !object.value().is_empty());
        }
        self.downcast_ref::<ManagedObjectNotFound>().map(|fault| &fault.obj)
    }

    /// The privileges whose lack the fault reports.
    #[must_use]
    pub fn privileges(&self) -> Vec<&str> {
        let Some(fault) = self.downcast_ref::<NoPermission>() else { return Vec::new() };
        let more = fault.missing_privileges.iter().flat_map(|missing| &missing.privilege_ids);
        let mut privileges: Vec<&str> = fault.privilege_id.iter().chain(more).map(String::as_str).collect();
        let mut seen = Vec::new();
        privileges.retain(|privilege| {
            !seen.contains(privilege) && {
                seen.push(*privilege);
                true
            }
        });
        privileges
    }
}

fn about(fault: &Fault) -> Option<String> {
    // Before `NoPermission`, which it extends.
    if fault.is::<NotAuthenticated>() {
        return Some("the session is not logged in, or no longer".to_owned());
    }
    if fault.is::<NoPermission>() {
        return Some(no_permission(fault));
    }
    if fault.name() == "InvalidLogin" && fault.is::<InvalidLogin>() {
        return Some("the user name or the password is wrong".to_owned());
    }
    if let Some(fault) = fault.downcast_ref::<ManagedObjectNotFound>() {
        return Some(format!("{} does not exist, or no longer", fault.obj));
    }
    if let Some(fault) = fault.downcast_ref::<DuplicateName>() {
        return Some(format!("the name {} is already taken by {}", fault.name, fault.object));
    }
    if let Some(fault) = fault.downcast_ref::<InvalidPowerState>() {
        let wanted = fault.requested_state.as_ref().map_or_else(String::new, |state| format!(" instead of {state}"));
        return Some(format!("the machine is {}{wanted}", fault.existing_state));
    }
    if let Some(fault) = fault.downcast_ref::<TaskInProgress>() {
        return Some(format!("another operation is under way ({})", fault.task));
    }
    if let Some(fault) = fault.downcast_ref::<NoDiskSpace>() {
        return Some(format!("the datastore {} is full", fault.datastore));
    }
    if let Some(fault) = fault.downcast_ref::<InvalidName>() {
        return Some(format!("the name {:?} is not allowed", fault.name));
    }
    if let Some(fault) = fault.downcast_ref::<InvalidProperty>() {
        return Some(format!("there is no property {}", fault.name));
    }
    if let Some(fault) = fault.downcast_ref::<SystemError>().filter(|fault| !fault.reason.is_empty()) {
        return Some(fault.reason.clone());
    }
    let argument = fault.downcast_ref::<InvalidArgument>()?.invalid_property.as_ref()?;
    Some(format!("the value of {argument} is not allowed"))
}

fn no_permission(fault: &Fault) -> String {
    let privileges = fault.privileges();
    let missing = match privileges.as_slice() {
        [] => "a privilege is missing".to_owned(),
        [one] => format!("the privilege {one} is missing"),
        many => format!("the privileges {} are missing", many.join(", ")),
    };
    match fault.object() {
        Some(object) => format!("{missing} on {object}"),
        None => missing,
    }
}

/// The first message that vCenter put inside the fault or its causes.
fn message(fault: &Fault) -> Option<&str> {
    let base = fault.method_fault()?;
    let own = base.fault_message.iter().find_map(|message| message.message.as_deref());
    own.or_else(|| base.fault_cause.as_ref()?.localized_message.as_deref())
        .map(str::trim)
        .filter(|message| !message.is_empty())
}
