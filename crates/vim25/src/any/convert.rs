//! Conversions between [`Any`] and the types it may hold.

use jiff::Timestamp;

use super::{Any, ArrayItem};
use crate::reference::ManagedObjectReference;
use crate::wire::Binary;

/// A type that can be taken out of an [`Any`].
pub trait FromAny: Sized {
    /// The typed value, or the value back if it is of another type.
    fn from_any(any: Any) -> Result<Self, Any>;
}

impl FromAny for Any {
    fn from_any(any: Any) -> Result<Self, Any> {
        Ok(any)
    }
}

impl<T: ArrayItem> FromAny for Vec<T> {
    fn from_any(any: Any) -> Result<Self, Any> {
        T::from_array(any)
    }
}

macro_rules! same {
    ($($ty:ty: $variant:ident),* $(,)?) => {$(
        impl FromAny for $ty {
            fn from_any(any: Any) -> Result<Self, Any> {
                match any {
                    Any::$variant(value) => Ok(value),
                    other => Err(other),
                }
            }
        }

        impl From<$ty> for Any {
            fn from(value: $ty) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}
same!(
    bool: Boolean,
    f32: Float,
    f64: Double,
    String: String,
    Timestamp: DateTime,
    Binary: Binary,
    ManagedObjectReference: Reference,
);

impl From<&str> for Any {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

/// Any integer that fits is taken: servers are not always exact about a number's width.
macro_rules! integers {
    ($($ty:ty: $variant:ident),* $(,)?) => {$(
        impl FromAny for $ty {
            fn from_any(any: Any) -> Result<Self, Any> {
                match any {
                    Any::Byte(value) => value.try_into().map_err(|_| any),
                    Any::Short(value) => value.try_into().map_err(|_| any),
                    Any::Int(value) => value.try_into().map_err(|_| any),
                    Any::Long(value) => value.try_into().map_err(|_| any),
                    other => Err(other),
                }
            }
        }

        impl From<$ty> for Any {
            fn from(value: $ty) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}
integers!(i8: Byte, i16: Short, i32: Int, i64: Long);
