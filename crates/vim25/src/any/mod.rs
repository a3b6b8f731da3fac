//! Values whose type only the message tells: `xsd:anyType`.

mod array;
mod convert;
mod object;

pub use array::{ArrayItem, ArrayOf};
pub(crate) use array::{builtin_array, typed_references};
pub use convert::FromAny;
pub use object::{DataObject, Typed, downcast_mut, downcast_ref};
pub(crate) use object::{read_box, read_object};

use jiff::Timestamp;
use smol_str::SmolStr;

use crate::generated::registry::ENTRIES;
use crate::reference::ManagedObjectReference;
use crate::wire::{Binary, Element, ReadError, Reader, Tag, WriteError, Writer};

/// A value that says its own type.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum Any {
    /// No value: `xsi:nil`.
    #[default]
    Nil,
    /// `xsd:boolean`.
    Boolean(bool),
    /// `xsd:byte`.
    Byte(i8),
    /// `xsd:short`.
    Short(i16),
    /// `xsd:int`.
    Int(i32),
    /// `xsd:long`.
    Long(i64),
    /// `xsd:float`.
    Float(f32),
    /// `xsd:double`.
    Double(f64),
    /// `xsd:string`, and the API's own kinds of text.
    String(String),
    /// `xsd:dateTime`.
    DateTime(Timestamp),
    /// `xsd:base64Binary`.
    Binary(Binary),
    /// A reference to a managed object.
    Reference(ManagedObjectReference),
    /// A value of an enum.
    Enum {
        /// The enum.
        type_name: SmolStr,
        /// Its value on the wire.
        value: SmolStr,
    },
    /// A data object, or a list as an [`ArrayOf`].
    Object(Box<dyn DataObject>),
    /// A value of a type this crate does not know.
    Unknown {
        /// The type.
        type_name: SmolStr,
        /// Its text, if it is no object: an unknown enum's value.
        text: String,
    },
}

impl Any {
    /// Wraps a data object.
    pub fn object(value: impl DataObject) -> Self {
        Self::Object(Box::new(value))
    }

    /// The name of the value's type on the wire.
    #[must_use]
    pub fn type_name(&self) -> &str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Byte(_) => "byte",
            Self::Short(_) => "short",
            Self::Int(_) => "int",
            Self::Long(_) => "long",
            Self::Float(_) => "float",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::DateTime(_) => "dateTime",
            Self::Binary(_) => "base64Binary",
            Self::Reference(_) => "ManagedObjectReference",
            Self::Enum { type_name, .. } | Self::Unknown { type_name, .. } => type_name,
            Self::Object(object) => object.type_name(),
        }
    }

    /// The value as a data object of the type `T`, if it is one or extends it.
    #[must_use]
    pub fn downcast_ref<T: DataObject>(&self) -> Option<&T> {
        match self {
            Self::Object(object) => downcast_ref(&**object),
            _ => None,
        }
    }

    /// The type of the data object this is, if it is one.
    pub(crate) fn object_type(&self) -> Option<&'static str> {
        match self {
            Self::Object(object) => Some(object.type_name()),
            _ => None,
        }
    }

    /// The data object this is, or the value back.
    pub(crate) fn into_object<T: Typed>(self) -> Result<T, Self> {
        match self {
            Self::Object(object) => object::take(object).map_err(Self::Object),
            other => Err(other),
        }
    }

    /// The text of an enum's value, known or not.
    pub(crate) fn enum_value(&self) -> Option<&str> {
        match self {
            Self::Enum { value, .. } => Some(value),
            Self::String(text) | Self::Unknown { text, .. } => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    fn read_typed(ty: &str, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<Self, ReadError> {
        fn scalar<T: Element>(tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<T, ReadError> {
            let mut value = T::default();
            value.read(tag, reader)?;
            Ok(value)
        }
        Ok(match ty {
            "string" | "anyURI" | "PropertyPath" | "TypeName" | "MethodName" => Self::String(scalar(tag, reader)?),
            "boolean" => Self::Boolean(scalar(tag, reader)?),
            "byte" => Self::Byte(scalar(tag, reader)?),
            "short" => Self::Short(scalar(tag, reader)?),
            "int" => Self::Int(scalar(tag, reader)?),
            "long" => Self::Long(scalar(tag, reader)?),
            "float" => Self::Float(scalar(tag, reader)?),
            "double" => Self::Double(scalar(tag, reader)?),
            "dateTime" => Self::DateTime(scalar(tag, reader)?),
            "base64Binary" => Self::Binary(scalar(tag, reader)?),
            "ManagedObjectReference" => Self::Reference(scalar(tag, reader)?),
            _ => match entry(ty) {
                Some(Entry::Object(read)) => Self::Object(read(tag, reader)?),
                Some(Entry::Enum) => Self::Enum { type_name: ty.into(), value: SmolStr::new(reader.text(tag)?.trim()) },
                None => match builtin_array(ty) {
                    Some(read) => Self::Object(read(tag, reader)?),
                    None => Self::Unknown { type_name: ty.into(), text: reader.text(tag)?.into_owned() },
                },
            },
        })
    }
}

/// Reads a data object of a type that was found by its name.
pub(crate) type ReadObject = fn(&Tag<'_>, &mut Reader<'_>) -> Result<Box<dyn DataObject>, ReadError>;

/// What the generated table knows of a type.
#[derive(Clone, Copy)]
pub(crate) enum Entry {
    Object(ReadObject),
    Enum,
}

pub(crate) fn entry(ty: &str) -> Option<Entry> {
    let found = ENTRIES.binary_search_by_key(&ty, |(name, _)| name).ok()?;
    Some(ENTRIES[found].1)
}

impl Element for Any {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        if tag.is_nil()? {
            *self = Self::Nil;
            return reader.skip(tag);
        }
        *self = match tag.xsi_type()? {
            Some(ty) => Self::read_typed(&ty, tag, reader)?,
            // Schema says that text without a type is text.
            None => Self::String(reader.text(tag)?.into_owned()),
        };
        Ok(())
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        use crate::wire::Scalar;
        let mut scalar = |ty: &str, text: &str| writer.text(name, &[("xsi:type", ty)], text);
        match self {
            Self::Nil => writer.text(name, &[("xsi:nil", "true")], ""),
            Self::Boolean(value) => scalar("xsd:boolean", &value.print()),
            Self::Byte(value) => scalar("xsd:byte", &value.print()),
            Self::Short(value) => scalar("xsd:short", &value.print()),
            Self::Int(value) => scalar("xsd:int", &value.print()),
            Self::Long(value) => scalar("xsd:long", &value.print()),
            Self::Float(value) => scalar("xsd:float", &value.print()),
            Self::Double(value) => scalar("xsd:double", &value.print()),
            Self::String(value) => scalar("xsd:string", value),
            Self::DateTime(value) => scalar("xsd:dateTime", &value.print()),
            Self::Binary(value) => scalar("xsd:base64Binary", &value.print()),
            Self::Enum { type_name, value } => scalar(type_name, value),
            Self::Reference(value) => {
                let ty = value.type_name();
                writer.text(name, &[("xsi:type", "ManagedObjectReference"), ("type", ty)], value.value())
            }
            Self::Object(value) => writer.object(name, Some(value.type_name()), &**value),
            Self::Unknown { type_name, text } if text.trim().is_empty() => {
                Err(WriteError::UnknownContent { element: name.to_owned(), type_name: type_name.to_string() })
            }
            Self::Unknown { type_name, text } => scalar(type_name, text),
        }
    }
}
