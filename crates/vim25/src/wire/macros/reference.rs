//! References to managed objects.

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
