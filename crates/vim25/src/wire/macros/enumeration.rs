//! Enums.

/// The wire form of an enum, which is text.
macro_rules! enumeration {
    ($name:ident, $wire:literal, {$($variant:ident $value:literal,)*}) => {
        impl $name {
            /// The value's name on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $value,)*
                    Self::Other(value) => value,
                }
            }
        }

        impl From<&str> for $name {
            fn from(value: &str) -> Self {
                match value {
                    $($value => Self::$variant,)*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        /// No value at all, which can't be written.
        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl $crate::wire::Element for $name {
            fn read(
                &mut self,
                tag: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<(), $crate::wire::ReadError> {
                *self = Self::from(reader.text(tag)?.trim());
                Ok(())
            }

            fn write(
                &self,
                name: &'static str,
                writer: &mut $crate::wire::Writer,
            ) -> Result<(), $crate::wire::WriteError> {
                match self.as_str() {
                    "" => Err($crate::wire::WriteError::Unset { element: name.to_owned() }),
                    value => writer.text(name, &[], value),
                }
            }
        }

        impl $crate::wire::Returned for $name {}

        impl $crate::any::FromAny for $name {
            fn from_any(any: $crate::Any) -> Result<Self, $crate::Any> {
                any.enum_value().map(Self::from).ok_or(any)
            }
        }

        impl From<$name> for $crate::Any {
            fn from(value: $name) -> Self {
                Self::Enum { type_name: $wire.into(), value: value.as_str().into() }
            }
        }
    };
}
pub(crate) use enumeration;
