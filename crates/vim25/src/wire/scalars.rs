//! The built-in types of XML schema.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{Element, ReadError, Reader, Tag, WriteError, Writer};

/// Bytes, which the wire has in base 64.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Binary(pub Vec<u8>);

/// A built-in type, as text.
pub(crate) trait Scalar: Sized {
    /// What an error calls the type.
    const NAME: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn print(&self) -> Cow<'_, str>;
}

impl Scalar for bool {
    const NAME: &'static str = "boolean";
    fn parse(text: &str) -> Option<Self> {
        match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
    fn print(&self) -> Cow<'_, str> {
        Cow::Borrowed(if *self { "true" } else { "false" })
    }
}

macro_rules! integers {
    ($($ty:ty = $name:literal),*) => {$(
        impl Scalar for $ty {
            const NAME: &'static str = $name;
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn print(&self) -> Cow<'_, str> {
                Cow::Owned(self.to_string())
            }
        }
    )*};
}
integers!(i8 = "byte", i16 = "short", i32 = "int", i64 = "long");

macro_rules! floats {
    ($($ty:ty = $name:literal),*) => {$(
        impl Scalar for $ty {
            const NAME: &'static str = $name;
            fn parse(text: &str) -> Option<Self> {
                match text {
                    "INF" => Some(Self::INFINITY),
                    "-INF" => Some(Self::NEG_INFINITY),
                    _ => text.parse().ok(),
                }
            }
            fn print(&self) -> Cow<'_, str> {
                match *self {
                    Self::INFINITY => Cow::Borrowed("INF"),
                    Self::NEG_INFINITY => Cow::Borrowed("-INF"),
                    value => Cow::Owned(value.to_string()),
                }
            }
        }
    )*};
}
floats!(f32 = "float", f64 = "double");

impl Scalar for Timestamp {
    const NAME: &'static str = "dateTime";
    fn parse(text: &str) -> Option<Self> {
        // A time without a zone is taken as UTC, which is what vCenter speaks.
        text.parse().ok().or_else(|| {
            let civil: jiff::civil::DateTime = text.parse().ok()?;
            Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
        })
    }
    fn print(&self) -> Cow<'_, str> {
        let mut text = String::with_capacity(32);
        // Writing to a `String` has no way to fail.
        _ = write!(text, "{self}");
        Cow::Owned(text)
    }
}

impl Scalar for Binary {
    const NAME: &'static str = "base64Binary";
    fn parse(text: &str) -> Option<Self> {
        let text: Cow<'_, str> = if text.contains(char::is_whitespace) {
            Cow::Owned(text.split_whitespace().collect())
        } else {
            Cow::Borrowed(text)
        };
        STANDARD.decode(text.as_bytes()).ok().map(Binary)
    }
    fn print(&self) -> Cow<'_, str> {
        Cow::Owned(STANDARD.encode(&self.0))
    }
}

macro_rules! elements {
    ($($ty:ty),*) => {$(
        impl Element for $ty {
            fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
                let text = reader.text(tag)?;
                *self = Scalar::parse(text.trim()).ok_or_else(|| tag.bad_value(&text, <Self as Scalar>::NAME))?;
                Ok(())
            }

            fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
                writer.text(name, &[], &self.print())
            }
        }
    )*};
}
elements!(bool, i8, i16, i32, i64, f32, f64, Timestamp, Binary);

impl Element for String {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        *self = reader.text(tag)?.into_owned();
        Ok(())
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        writer.text(name, &[], self)
    }
}
