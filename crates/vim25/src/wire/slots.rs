//! How many values a slot takes: perhaps one, many, one behind a pointer, or none.

use super::{Element, ReadError, Reader, Returned, Tag, WriteError, Writer};

impl<T: Element> Element for Option<T> {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        if tag.is_nil()? {
            *self = None;
            return reader.skip(tag);
        }
        let value = self.get_or_insert_default();
        value.read(tag, reader)?;
        if value.is_absent() {
            *self = None;
        }
        Ok(())
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        self.as_ref().map_or(Ok(()), |value| value.write(name, writer))
    }
}

impl<T: Element> Element for Vec<T> {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        if tag.is_nil()? {
            return reader.skip(tag);
        }
        reader.charge(size_of::<T>())?;
        let value = push_empty(self);
        value.read(tag, reader)?;
        if value.is_absent() {
            self.pop();
        }
        Ok(())
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        self.iter().try_for_each(|value| value.write(name, writer))
    }
}

/// Apart, so that the value that is moved into the list is off the stack before what it holds is read.
#[inline(never)]
fn push_empty<T: Default>(list: &mut Vec<T>) -> &mut T {
    list.push_mut(T::default())
}

impl<T: Element> Element for Box<T> {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        reader.charge(size_of::<T>())?;
        self.as_mut().read(tag, reader)
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        self.as_ref().write(name, writer)
    }
}

impl Element for () {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        reader.skip(tag)
    }

    fn write(&self, _: &'static str, _: &mut Writer) -> Result<(), WriteError> {
        Ok(())
    }
}

impl<T: Element> Returned for Option<T> {
    const REQUIRED: bool = false;
}

impl<T: Element> Returned for Vec<T> {
    const REQUIRED: bool = false;
}

impl Returned for () {
    const REQUIRED: bool = false;
}

macro_rules! returned {
    ($($ty:ty),*) => {$(impl Returned for $ty {})*};
}
returned!(bool, i8, i16, i32, i64, f32, f64, String, jiff::Timestamp, super::Binary, crate::Any);
