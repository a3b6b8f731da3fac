//! Writes elements, escaped.

use std::borrow::Cow;

use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use super::Fields;

/// Why a request could not be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// XML has no way to say this character, not even escaped.
    #[error("<{element}> has the character U+{:04X}, which XML does not allow", u32::from(*character))]
    ForbiddenCharacter {
        /// The element.
        element: String,
        /// The character.
        character: char,
    },
    /// A required reference or enum was left at its default.
    #[error("<{element}> is required and was not set")]
    Unset {
        /// The element.
        element: String,
    },
    /// A value of an unknown type was read only by its name, so there is nothing to write.
    #[error("<{element}> has a value of the type {type_name}, whose content this crate does not know")]
    UnknownContent {
        /// The element.
        element: String,
        /// The type.
        type_name: String,
    },
}

/// A message under construction.
#[derive(Debug, Default)]
pub struct Writer {
    out: Vec<u8>,
}

impl Writer {
    /// The bytes written so far.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Opens the element `name` with attributes whose names are known to be well-formed.
    pub fn open(&mut self, name: &str, attributes: &[(&str, &str)]) -> Result<(), WriteError> {
        let mut start = BytesStart::new(name);
        for (key, value) in attributes {
            check(name, value)?;
            start.push_attribute((*key, *value));
        }
        self.event(Event::Start(start));
        Ok(())
    }

    /// Closes the element `name`.
    pub fn close(&mut self, name: &str) {
        self.event(Event::End(BytesEnd::new(name)));
    }

    /// Writes an element that holds text.
    pub fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) -> Result<(), WriteError> {
        check(name, text)?;
        self.open(name, attributes)?;
        self.event(Event::Text(BytesText::from_escaped(escape(text))));
        self.close(name);
        Ok(())
    }

    /// Writes an element that holds the fields of a value, with `xsi:type` where one is given.
    pub fn object(&mut self, name: &str, xsi_type: Option<&str>, value: &dyn Fields) -> Result<(), WriteError> {
        match xsi_type {
            Some(ty) => self.open(name, &[("xsi:type", ty)])?,
            None => self.open(name, &[])?,
        }
        value.write_fields(self)?;
        self.close(name);
        Ok(())
    }

    /// Adds text that is XML already.
    pub fn raw(&mut self, xml: &str) {
        self.out.extend_from_slice(xml.as_bytes());
    }

    fn event(&mut self, event: Event<'_>) {
        // Writing to a `Vec` has no way to fail.
        _ = quick_xml::Writer::new(&mut self.out).write_event(event);
    }
}

/// A reader turns a bare carriage return into a line feed, so it has to be escaped too.
fn escape(text: &str) -> Cow<'_, str> {
    let escaped = quick_xml::escape::partial_escape(text);
    if escaped.contains('\r') { Cow::Owned(escaped.replace('\r', "&#13;")) } else { escaped }
}

fn check(element: &str, text: &str) -> Result<(), WriteError> {
    let forbidden = |c: char| {
        let control = c < ' ' && !matches!(c, '\t' | '\n' | '\r');
        control || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    match text.chars().find(|c| forbidden(*c)) {
        Some(character) => Err(WriteError::ForbiddenCharacter { element: element.to_owned(), character }),
        None => Ok(()),
    }
}
