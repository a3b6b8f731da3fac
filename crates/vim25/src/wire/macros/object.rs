//! Data objects.

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
                // One result for all arms keeps the frame small where types nest in each other.
                let read: Result<(), $crate::wire::ReadError> = match tag.name() {
                    $($element => self.$field.read(tag, reader),)*
                    _ => {
                        $(return <$base as $crate::wire::Fields>::read_field(&mut self.base, tag, reader);)?
                        return Ok(false);
                    }
                };
                read.map(|()| true)
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
