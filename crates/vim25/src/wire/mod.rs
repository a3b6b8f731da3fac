//! How values stand on the wire, in both directions.
//!
//! Reading fills a value in place: [`Element::read`] is called once for each element of the value's name, so a list
//! collects what a single value would replace, and no large value travels over the stack.

mod envelope;
pub(crate) mod macros;
mod read_error;
mod reader;
mod scalars;
mod secret;
mod slots;
mod writer;

pub use envelope::{Envelope, read_response, read_response_within, to_envelope};
pub(crate) use read_error::NOT_SHOWN;
pub use read_error::ReadError;
pub use reader::{Limits, Reader, Tag};
pub use scalars::Binary;
pub(crate) use scalars::Scalar;
pub use secret::Secret;
pub use writer::{WriteError, Writer};

/// A value that stands in an element.
pub trait Element: Default {
    /// Reads the element that `tag` opened, to its end.
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError>;

    /// Writes the value as the element `name`.
    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError>;

    /// Whether what was read stands for nothing, as an empty `<returnval/>` in the place of a reference does.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A value whose content is a sequence of elements.
pub trait Fields {
    /// Reads the element that `tag` opened into its field, and says whether there is one; if not, nothing is read.
    fn read_field(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<bool, ReadError>;

    /// Writes the fields that are set, in the order of the schema.
    fn write_fields(&self, writer: &mut Writer) -> Result<(), WriteError>;
}

/// A method of the API: its fields are the parameters.
pub trait Method: Fields {
    /// The name on the wire, such as `CloneVM_Task`.
    const NAME: &'static str;
    /// The privilege it needs on the object it is called on, where the API names one.
    const PRIVILEGE: Option<&'static str>;
    /// The privileges it needs on objects given as parameters: the parameter's name and the privilege.
    const PARAMETER_PRIVILEGES: &'static [(&'static str, &'static str)];
    /// What it returns.
    type Response: Returned;

    /// The object it is called on.
    fn this(&self) -> &crate::ManagedObjectReference;
}

/// What a method can return: a value, perhaps a value, a list, or nothing.
pub trait Returned: Element {
    /// Whether an answer without a value is an error.
    const REQUIRED: bool = true;
}
