//! Requests.

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
