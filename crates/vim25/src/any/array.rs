//! Lists inside an `xsd:anyType`, which the wire calls `ArrayOf…`.

use std::fmt::Debug;

use jiff::Timestamp;

use super::{Any, DataObject, FromAny, ReadObject, Typed, read_object};
use crate::reference::{ManagedObjectReference, WrongType};
use crate::wire::macros::array_item;
use crate::wire::{Binary, Element, Fields, ReadError, Reader, Tag, WriteError, Writer};

/// A list, where a list has to be one value.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayOf<T>(pub Vec<T>);

/// A type that can stand in an [`ArrayOf`].
pub trait ArrayItem: Element + Clone + PartialEq + Debug + Send + Sync + 'static {
    /// The list's name on the wire, such as `ArrayOfString`.
    const ARRAY: &'static str;
    /// The element of one item, such as `string`.
    const ITEM: &'static str;

    /// The items of the list that `any` is, or the value back.
    fn from_array(any: Any) -> Result<Vec<Self>, Any> {
        any.into_object::<ArrayOf<Self>>().map(|array| array.0)
    }
}

impl<T> Default for ArrayOf<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ArrayItem> Fields for ArrayOf<T> {
    fn read_field(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<bool, ReadError> {
        self.0.read(tag, reader)?;
        Ok(true)
    }

    fn write_fields(&self, writer: &mut Writer) -> Result<(), WriteError> {
        self.0.write(T::ITEM, writer)
    }
}

impl<T: ArrayItem> Element for ArrayOf<T> {
    fn read(&mut self, _: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        reader.fields(self)
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        writer.object(name, Some(T::ARRAY), self)
    }
}

impl<T: ArrayItem> Typed for ArrayOf<T> {
    const TYPE: &'static str = T::ARRAY;

    fn base(&self) -> Option<&dyn DataObject> {
        None
    }

    fn base_mut(&mut self) -> Option<&mut dyn DataObject> {
        None
    }
}

array_item!(bool, "ArrayOfBoolean", "boolean");
array_item!(i8, "ArrayOfByte", "byte");
array_item!(i16, "ArrayOfShort", "short");
array_item!(i32, "ArrayOfInt", "int");
array_item!(i64, "ArrayOfLong", "long");
array_item!(f32, "ArrayOfFloat", "float");
array_item!(f64, "ArrayOfDouble", "double");
array_item!(String, "ArrayOfString", "string");
array_item!(Timestamp, "ArrayOfDateTime", "dateTime");
array_item!(Binary, "ArrayOfBase64Binary", "base64Binary");
array_item!(Any, "ArrayOfAnyType", "anyType");
array_item!(ManagedObjectReference, "ArrayOfManagedObjectReference", "ManagedObjectReference");

/// How to read a list of a built-in type.
pub(crate) fn builtin_array(ty: &str) -> Option<ReadObject> {
    Some(match ty {
        "ArrayOfManagedObjectReference" => read_object::<ArrayOf<ManagedObjectReference>>,
        "ArrayOfString" | "ArrayOfAnyURI" | "ArrayOfPropertyPath" | "ArrayOfTypeName" | "ArrayOfMethodName" => {
            read_object::<ArrayOf<String>>
        }
        "ArrayOfBoolean" => read_object::<ArrayOf<bool>>,
        "ArrayOfByte" => read_object::<ArrayOf<i8>>,
        "ArrayOfShort" => read_object::<ArrayOf<i16>>,
        "ArrayOfInt" => read_object::<ArrayOf<i32>>,
        "ArrayOfLong" => read_object::<ArrayOf<i64>>,
        "ArrayOfFloat" => read_object::<ArrayOf<f32>>,
        "ArrayOfDouble" => read_object::<ArrayOf<f64>>,
        "ArrayOfDateTime" => read_object::<ArrayOf<Timestamp>>,
        "ArrayOfBase64Binary" => read_object::<ArrayOf<Binary>>,
        "ArrayOfAnyType" => read_object::<ArrayOf<Any>>,
        _ => return None,
    })
}

/// The items of a list of references, if all are of one type.
pub(crate) fn typed_references<T>(any: Any) -> Result<Vec<T>, Any>
where
    T: TryFrom<ManagedObjectReference, Error = WrongType>,
{
    let references = Vec::<ManagedObjectReference>::from_any(any)?;
    let typed: Result<Vec<T>, WrongType> = references.into_iter().map(T::try_from).collect();
    typed.map_err(|wrong| Any::Reference(wrong.reference))
}
