//! Faults: what vCenter refuses with, from a call or from a task.

mod sentence;
mod soap;

pub use soap::SoapFault;

use std::fmt;

use smol_str::SmolStr;

use crate::any::{DataObject, Entry, Typed, downcast_ref, entry};
use crate::faults::MethodFault;
use crate::generated::faults::PARENTS;
use crate::wire::macros::data_object;
use crate::wire::{Element, ReadError, Reader, Tag, WriteError, Writer};

/// A fault whose type is known at compile time. The structs in [`faults`](crate::faults) implement it.
pub trait FaultType: Typed {}

/// A fault of any type, known or not.
///
/// A fault this crate has no struct for is read as the nearest of its ancestors that has one, and keeps its name.
#[derive(Clone)]
pub struct Fault {
    name: SmolStr,
    value: Box<dyn DataObject>,
}

impl Fault {
    /// A fault of a known type.
    pub fn new<T: FaultType>(value: T) -> Self {
        Self { name: SmolStr::new_static(T::TYPE), value: Box::new(value) }
    }

    /// A fault of which only the name is known.
    pub(crate) fn named(name: &'static str) -> Self {
        Self { name: SmolStr::new_static(name), value: Box::new(MethodFault::default()) }
    }

    /// The fault's name, if it is one that vCenters are known to have.
    pub(crate) fn known_name(&self) -> Option<&'static str> {
        position(&self.name).map(|found| PARENTS[found].0)
    }

    /// The fault's name, such as `NoPermission`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the fault is a `T` or extends it: a `NotAuthenticated` is also a `NoPermission`.
    #[must_use]
    pub fn is<T: FaultType>(&self) -> bool {
        self.is_named(T::TYPE)
    }

    /// [`Fault::is`] by name, for faults without a struct.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.lineage().any(|ancestor| ancestor == name)
    }

    /// The fault's name and those of the faults it extends, up to `MethodFault`.
    pub fn lineage(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.name()), |name| parent(name))
    }

    /// The fault as a `T`, if it is one or extends it.
    #[must_use]
    pub fn downcast_ref<T: FaultType>(&self) -> Option<&T> {
        downcast_ref(&*self.value)
    }

    /// What every fault has: its cause and messages.
    #[must_use]
    pub fn method_fault(&self) -> Option<&MethodFault> {
        downcast_ref(&*self.value)
    }

    /// The fault that led to this one.
    #[must_use]
    pub fn cause(&self) -> Option<&Fault> {
        self.method_fault()?.fault_cause.as_ref().map(|cause| &cause.fault)
    }

    fn read_named(name: &str, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        let known = std::iter::successors(Some(name), |name| parent(name));
        let reads = known.filter(|name| is_known(name)).find_map(|name| match entry(name) {
            Some(Entry::Object(read)) => Some(read),
            _ => None,
        });
        let value = match reads {
            Some(read) => read(tag, reader)?,
            None => crate::any::read_object::<MethodFault>(tag, reader)?,
        };
        Ok(Self { name: name.into(), value })
    }
}

fn position(name: &str) -> Option<usize> {
    PARENTS.binary_search_by_key(&name, |(name, _)| name).ok()
}

fn is_known(name: &str) -> bool {
    position(name).is_some()
}

fn parent(name: &str) -> Option<&'static str> {
    match position(name) {
        Some(found) => Some(PARENTS[found].1).filter(|parent| !parent.is_empty()),
        // A fault newer than the table extends at least the root of all faults.
        None => Some("MethodFault"),
    }
}

impl PartialEq for Fault {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value.equals(&*other.value)
    }
}

impl Default for Fault {
    fn default() -> Self {
        Self::new(MethodFault::default())
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fault({}: {:?})", self.name, self.value)
    }
}

/// A sentence that names the object, the privilege or the field.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence::of(self, None))
    }
}

impl std::error::Error for Fault {}

impl Element for Fault {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        let name = tag.xsi_type()?;
        *self = Self::read_named(name.as_deref().unwrap_or("MethodFault"), tag, reader)?;
        Ok(())
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        writer.object(name, Some(&self.name), self.value.as_fields())
    }
}

/// A fault with vCenter's own words for it: why a task failed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LocalizedMethodFault {
    /// The fault.
    pub fault: Fault,
    /// What vCenter says of it, in the session's language.
    pub localized_message: Option<String>,
}
data_object!(LocalizedMethodFault, "LocalizedMethodFault", {
    fault "fault",
    localized_message "localizedMessage",
});

impl fmt::Display for LocalizedMethodFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&sentence::of(&self.fault, self.localized_message.as_deref()))
    }
}

impl std::error::Error for LocalizedMethodFault {}
