//! Data objects of any type behind one pointer.

use std::any::Any as StdAny;
use std::fmt::Debug;

use crate::wire::{Element, Fields, ReadError, Reader, Tag};

/// A data object whose type is known at compile time. The generated types implement it.
pub trait Typed: Fields + Element + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// The type's name on the wire.
    const TYPE: &'static str;

    /// The part of it that is its base type.
    fn base(&self) -> Option<&dyn DataObject>;

    /// The part of it that is its base type, to be changed.
    fn base_mut(&mut self) -> Option<&mut dyn DataObject>;
}

/// A data object of some type.
pub trait DataObject: StdAny + Fields + Debug + Send + Sync {
    /// The type's name on the wire.
    fn type_name(&self) -> &'static str;

    /// The part of it that is its base type.
    fn base_object(&self) -> Option<&dyn DataObject>;

    /// The part of it that is its base type, to be changed.
    fn base_object_mut(&mut self) -> Option<&mut dyn DataObject>;

    /// The fields, for writing.
    fn as_fields(&self) -> &dyn Fields;

    /// A copy.
    fn boxed_clone(&self) -> Box<dyn DataObject>;

    /// Whether the other is of the same type and equal.
    fn equals(&self, other: &dyn DataObject) -> bool;
}

impl<T: Typed> DataObject for T {
    fn type_name(&self) -> &'static str {
        T::TYPE
    }

    fn base_object(&self) -> Option<&dyn DataObject> {
        self.base()
    }

    fn base_object_mut(&mut self) -> Option<&mut dyn DataObject> {
        self.base_mut()
    }

    fn as_fields(&self) -> &dyn Fields {
        self
    }

    fn boxed_clone(&self) -> Box<dyn DataObject> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn DataObject) -> bool {
        let other: &dyn StdAny = other;
        other.downcast_ref::<T>() == Some(self)
    }
}

impl Clone for Box<dyn DataObject> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

impl PartialEq for Box<dyn DataObject> {
    fn eq(&self, other: &Self) -> bool {
        (**self).equals(&**other)
    }
}

/// The object as a `T`, if it is one or extends it.
#[must_use]
pub fn downcast_ref<T: DataObject>(mut object: &dyn DataObject) -> Option<&T> {
    loop {
        let any: &dyn StdAny = object;
        match any.downcast_ref() {
            Some(found) => return Some(found),
            None => object = object.base_object()?,
        }
    }
}

/// The object as a `T` that can be changed, if it is one or extends it.
#[must_use]
pub fn downcast_mut<T: DataObject>(mut object: &mut dyn DataObject) -> Option<&mut T> {
    loop {
        let any: &dyn StdAny = object;
        if any.is::<T>() {
            let any: &mut dyn StdAny = object;
            return any.downcast_mut();
        }
        object = object.base_object_mut()?;
    }
}

/// The object as a `T`, or back. Of one that extends `T`, the part that is a `T` is taken.
pub(super) fn take<T: Typed>(object: Box<dyn DataObject>) -> Result<T, Box<dyn DataObject>> {
    match downcast_ref::<T>(&*object) {
        Some(found) => Ok(found.clone()),
        None => Err(object),
    }
}

pub(crate) fn read_box<T: Element>(tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<Box<T>, ReadError> {
    reader.charge(size_of::<T>())?;
    let mut value = empty_box::<T>();
    value.as_mut().read(tag, reader)?;
    Ok(value)
}

/// Apart, so that the value that is moved into the box is off the stack before what it holds is read.
#[inline(never)]
fn empty_box<T: Default>() -> Box<T> {
    Box::default()
}

pub(crate) fn read_object<T: Typed>(tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<Box<dyn DataObject>, ReadError> {
    Ok(read_box::<T>(tag, reader)?)
}
