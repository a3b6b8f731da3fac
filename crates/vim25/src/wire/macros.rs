//! What the generated files say in one line for each type.

/// The wire form of a struct, whose fields are listed in the order of the schema after those of its base.
macro_rules! data_object {
    ($name:ident $(: $base:ty)?, $wire:literal, {$($field:ident $element:literal,)*}) => {
        #[allow(unused_variables, unreachable_code, clippy::match_single_binding, reason = "some have no fields")]
        impl $crate::wire::Fields for $name {
            fn read_field(
                &mut self,
                tag: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<bool, $crate::wire::ReadError> {
                use $crate::wire::Element as _;
                match tag.name() {
                    $($element => self.$field.read(tag, reader)?,)*
                    _ => {
                        $(return <$base as $crate::wire::Fields>::read_field(&mut self.base, tag, reader);)?
                        return Ok(false);
                    }
                }
                Ok(true)
            }

            fn write_fields(&self, writer: &mut $crate::wire::Writer) -> Result<(), $crate::wire::WriteError> {
                use $crate::wire::Element as _;
                $(<$base as $crate::wire::Fields>::write_fields(&self.base, writer)?;)?
                $(self.$field.write($element, writer)?;)*
                Ok(())
            }
        }

        impl $crate::wire::Element for $name {
            fn read(
                &mut self,
                _: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<(), $crate::wire::ReadError> {
                reader.fields(self)
            }

            fn write(
                &self,
                name: &'static str,
                writer: &mut $crate::wire::Writer,
            ) -> Result<(), $crate::wire::WriteError> {
                writer.object(name, None, self)
            }
        }

        impl $crate::wire::Returned for $name {}

        impl $crate::any::Typed for $name {
            const TYPE: &'static str = $wire;

            fn base(&self) -> Option<&dyn $crate::any::DataObject> {
                $({
                    let base: &$base = &self.base;
                    return Some(base);
                })?
                #[allow(unreachable_code, reason = "reached by those without a base")]
                None
            }

            fn base_mut(&mut self) -> Option<&mut dyn $crate::any::DataObject> {
                $({
                    let base: &mut $base = &mut self.base;
                    return Some(base);
                })?
                #[allow(unreachable_code, reason = "reached by those without a base")]
                None
            }
        }

        impl $crate::any::FromAny for $name {
            fn from_any(any: $crate::Any) -> Result<Self, $crate::Any> {
                any.into_object()
            }
        }

        $(
            impl std::ops::Deref for $name {
                type Target = $base;
                fn deref(&self) -> &$base {
                    &self.base
                }
            }

            impl std::ops::DerefMut for $name {
                fn deref_mut(&mut self) -> &mut $base {
                    &mut self.base
                }
            }
        )?
    };
}
pub(crate) use data_object;

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

/// A reference to a managed object of one type or of those that extend it.
macro_rules! reference {
    ($name:ident, $wire:literal, [$($ancestor:ident),*]) => {
        #[doc = concat!("A reference to a `", $wire, "`.")]
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name($crate::ManagedObjectReference);

        impl $name {
            /// A reference by the value it has on the wire, such as `vm-42`.
            #[must_use]
            pub fn new(value: impl AsRef<str>) -> Self {
                Self($crate::ManagedObjectReference::of_static_type($wire, value.as_ref()))
            }

            /// The value on the wire.
            #[must_use]
            pub fn value(&self) -> &str {
                self.0.value()
            }
        }

        impl $crate::ManagedObject for $name {
            const TYPE: &'static str = $wire;
            fn reference(&self) -> &$crate::ManagedObjectReference {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$name> for $crate::ManagedObjectReference {
            fn from(reference: $name) -> Self {
                reference.0
            }
        }

        impl TryFrom<$crate::ManagedObjectReference> for $name {
            type Error = $crate::WrongType;
            fn try_from(reference: $crate::ManagedObjectReference) -> Result<Self, $crate::WrongType> {
                reference.check_type($wire)?;
                Ok(Self(reference))
            }
        }

        $(
            impl From<$name> for $ancestor {
                fn from(reference: $name) -> Self {
                    Self(reference.0)
                }
            }

            impl TryFrom<$ancestor> for $name {
                type Error = $crate::WrongType;
                fn try_from(reference: $ancestor) -> Result<Self, $crate::WrongType> {
                    reference.0.try_into()
                }
            }
        )*

        impl $crate::wire::Element for $name {
            fn read(
                &mut self,
                tag: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<(), $crate::wire::ReadError> {
                self.0.read_as($wire, tag, reader)
            }

            fn write(
                &self,
                name: &'static str,
                writer: &mut $crate::wire::Writer,
            ) -> Result<(), $crate::wire::WriteError> {
                self.0.write(name, writer)
            }

            fn is_absent(&self) -> bool {
                self.0.is_absent()
            }
        }

        impl $crate::wire::Returned for $name {}

        impl $crate::any::FromAny for $name {
            fn from_any(any: $crate::Any) -> Result<Self, $crate::Any> {
                let reference = $crate::ManagedObjectReference::from_any(any)?;
                Self::try_from(reference).map_err(|wrong| $crate::Any::Reference(wrong.reference))
            }
        }

        impl $crate::any::ArrayItem for $name {
            const ARRAY: &'static str = "ArrayOfManagedObjectReference";
            const ITEM: &'static str = "ManagedObjectReference";
            fn from_array(any: $crate::Any) -> Result<Vec<Self>, $crate::Any> {
                $crate::any::typed_references(any)
            }
        }
    };
}
pub(crate) use reference;

/// The request for a method.
macro_rules! method {
    (
        $name:ident, $wire:literal, $response:ty, $privilege:expr,
        [$($privileges:expr,)*], {$($field:ident $element:literal,)*}
    ) => {
        impl $crate::wire::Fields for $name {
            fn read_field(
                &mut self,
                tag: &$crate::wire::Tag<'_>,
                reader: &mut $crate::wire::Reader<'_>,
            ) -> Result<bool, $crate::wire::ReadError> {
                use $crate::wire::Element as _;
                match tag.name() {
                    "_this" => self.this.read(tag, reader)?,
                    $($element => self.$field.read(tag, reader)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }

            fn write_fields(&self, writer: &mut $crate::wire::Writer) -> Result<(), $crate::wire::WriteError> {
                use $crate::wire::Element as _;
                self.this.write("_this", writer)?;
                $(self.$field.write($element, writer)?;)*
                Ok(())
            }
        }

        impl $crate::wire::Method for $name {
            const NAME: &'static str = $wire;
            const PRIVILEGE: Option<&'static str> = $privilege;
            const PARAMETER_PRIVILEGES: &'static [(&'static str, &'static str)] = &[$($privileges),*];
            type Response = $response;

            fn this(&self) -> &$crate::ManagedObjectReference {
                $crate::ManagedObject::reference(&self.this)
            }
        }
    };
}
pub(crate) use method;

/// How a list of the type stands in an `xsd:anyType`.
macro_rules! array_item {
    ($name:ty, $array:literal, $item:literal) => {
        impl $crate::any::ArrayItem for $name {
            const ARRAY: &'static str = $array;
            const ITEM: &'static str = $item;
        }
    };
}
pub(crate) use array_item;
