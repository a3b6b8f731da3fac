//! References to managed objects.

use std::fmt;

use smol_str::SmolStr;

use crate::generated::refs::PARENTS;
use crate::wire::{Element, ReadError, Reader, Returned, Tag, WriteError, Writer};

/// A reference to an object of any type. Cheap to clone, compare and hash: neither part needs the heap in practice.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct ManagedObjectReference {
    ty: SmolStr,
    value: SmolStr,
}

/// A reference whose type is known.
pub trait ManagedObject: Into<ManagedObjectReference> + TryFrom<ManagedObjectReference, Error = WrongType> {
    /// The type's name on the wire, such as `VirtualMachine`.
    const TYPE: &'static str;

    /// The reference without its static type.
    fn reference(&self) -> &ManagedObjectReference;
}

/// A reference was to an object of another type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reference} is no {expected}")]
pub struct WrongType {
    /// What was there.
    pub reference: ManagedObjectReference,
    /// The type it should have.
    pub expected: &'static str,
}

impl ManagedObjectReference {
    /// A reference by type and value, such as `VirtualMachine` and `vm-42`.
    pub fn new(ty: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        Self { ty: SmolStr::new(ty), value: SmolStr::new(value) }
    }

    pub(crate) fn of_static_type(ty: &'static str, value: &str) -> Self {
        Self { ty: SmolStr::new_static(ty), value: SmolStr::new(value) }
    }

    /// The object's type, such as `VirtualMachine`. It may extend the type of the slot the reference came from.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.ty
    }

    /// The object's name on the wire, such as `vm-42`.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the object's type is `ty` or extends it.
    #[must_use]
    pub fn is_a(&self, ty: &str) -> bool {
        let mut name = self.ty.as_str();
        while name != ty {
            match PARENTS.binary_search_by_key(&name, |(name, _)| name) {
                Ok(found) => name = PARENTS[found].1,
                Err(_) => return false,
            }
        }
        true
    }

    pub(crate) fn check_type(&self, expected: &'static str) -> Result<(), WrongType> {
        if self.is_a(expected) { Ok(()) } else { Err(WrongType { reference: self.clone(), expected }) }
    }

    /// Reads a reference in a slot for `slot`, whose type is taken where the element names none.
    pub(crate) fn read_as(
        &mut self,
        slot: &'static str,
        tag: &Tag<'_>,
        reader: &mut Reader<'_>,
    ) -> Result<(), ReadError> {
        self.ty = match tag.reference_type()? {
            Some(ty) if ty != slot => SmolStr::new(ty),
            _ => SmolStr::new_static(slot),
        };
        self.value = SmolStr::new(reader.text(tag)?.trim());
        Ok(())
    }
}

/// `VirtualMachine vm-42`.
impl fmt::Display for ManagedObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.ty, self.value)
    }
}

impl fmt::Debug for ManagedObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ty, self.value)
    }
}

impl Element for ManagedObjectReference {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        self.read_as("ManagedObject", tag, reader)
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        if self.is_absent() || self.ty.is_empty() {
            return Err(WriteError::Unset { element: name.to_owned() });
        }
        writer.text(name, &[("type", &self.ty)], &self.value)
    }

    fn is_absent(&self) -> bool {
        self.value.is_empty()
    }
}

impl Returned for ManagedObjectReference {}
