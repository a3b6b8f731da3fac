//! Text that must not be printed.

use std::fmt;

use super::{Element, ReadError, Reader, Tag, WriteError, Writer};

/// A password or a key. Printing it shows that there is one, and nothing more.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that has to send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Element for Secret {
    fn read(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<(), ReadError> {
        self.0.read(tag, reader)
    }

    fn write(&self, name: &'static str, writer: &mut Writer) -> Result<(), WriteError> {
        self.0.write(name, writer)
    }
}
