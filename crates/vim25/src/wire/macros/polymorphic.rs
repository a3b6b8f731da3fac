//! Slots that take subtypes.

/// A slot that takes a type or one of its subtypes, told apart by `xsi:type`.
macro_rules! polymorphic {
    ($name:ident: $base:ident, $wire:literal, {$($variant:ident $element:literal,)*}) => {
        impl $name {
            /// The type's name on the wire.
            #[must_use]
            pub fn type_name(&self) -> &str {
                match self {
                    Self::$base(_) => $wire,
                    $(Self::$variant(_) => $element,)*
                    Self::Other { type_name, .. } => type_name,
                }
            }

            /// The value as a `T`, if it is one or extends it.
            #[must_use]
            pub fn downcast_ref<T: $crate::any::DataObject>(&self) -> Option<&T> {
                $crate::any::downcast_ref(self.object())
            }

            /// The value as a `T` that can be changed, if it is one or extends it.
            #[must_use]
            pub fn downcast_mut<T: $crate::any::DataObject>(&mut self) -> Option<&mut T> {
                $crate::any::downcast_mut(match self {
                    Self::$base(value) | Self::Other { base: value, .. } => &mut **value,
                    $(Self::$variant(value) => &mut **value,)*
                })
            }

            fn object(&self) -> &dyn $crate::any::DataObject {
                match self {
                    Self::$base(value) | Self::Other { base: value, .. } => &**value,
                    $(Self::$variant(value) => &**value,)*
                }
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::$base(Box::default())
            }
        }

        impl std::ops::Deref for $name {
            type Target = $base;
            fn deref(&self) -> &$base {
                match self {
                    Self::$base(value) | Self::Other { base: value, .. } => value,
                    $(Self::$variant(value) => value,)*
                }
            }
        }

        impl std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut $base {
                match self {
                    Self::$base(value) | Self::Other { base: value, .. } => value,
                    $(Self::$variant(value) => value,)*
                }
            }
        }

        impl $crate::wire::Element for $name {
            fn read(
                &mut self,
                tag: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<(), $crate::wire::ReadError> {
                use $crate::any::read_box;
                *self = match tag.xsi_type()?.as_deref() {
                    None | Some($wire) => Self::$base(read_box(tag, reader)?),
                    $(Some($element) => Self::$variant(read_box(tag, reader)?),)*
                    Some(other) => Self::Other { type_name: other.into(), base: read_box(tag, reader)? },
                };
                Ok(())
            }

            fn write(
                &self,
                name: &'static str,
                writer: &mut $crate::wire::Writer,
            ) -> Result<(), $crate::wire::WriteError> {
                writer.object(name, Some(self.type_name()), self.object().as_fields())
            }
        }

        impl $crate::wire::Returned for $name {}

        impl $crate::any::FromAny for $name {
            fn from_any(any: $crate::Any) -> Result<Self, $crate::Any> {
                match any.object_type() {
                    Some($wire) => any.into_object().map(|value| Self::$base(Box::new(value))),
                    $(Some($element) => any.into_object().map(|value| Self::$variant(Box::new(value))),)*
                    _ => Err(any),
                }
            }
        }

        impl From<$base> for $name {
            fn from(value: $base) -> Self {
                Self::$base(Box::new(value))
            }
        }

        $(
            impl From<$variant> for $name {
                fn from(value: $variant) -> Self {
                    Self::$variant(Box::new(value))
                }
            }
        )*
    };
}
pub(crate) use polymorphic;
