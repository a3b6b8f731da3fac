//! Reads elements from a message in memory, within limits.

use std::borrow::Cow;

use quick_xml::errors::{IllFormedError, SyntaxError};
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Error as XmlError, XmlVersion};

use super::{Fields, ReadError};

/// How much a message may ask for. The size of the message itself is for whoever received it to limit.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Elements inside one another.
    pub depth: usize,
    /// Bytes of text in one element.
    pub text: usize,
    /// Bytes of memory for the items of lists and for boxed values, as far as they can be foretold.
    pub memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 64, text: 16 << 20, memory: 96 << 20 }
    }
}

/// The start tag of an element, with its attributes.
#[derive(Debug)]
pub struct Tag<'a>(BytesStart<'a>);

impl Tag<'_> {
    /// The element's name, without the prefix of its namespace: each server chooses its own prefixes.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.0.name().into_inner();
        name.split_once(':').map_or(name, |(_, local)| local)
    }

    /// The type that `xsi:type` names, without a prefix. What is left has no colon, so that it is the same when it was written and read again.
    pub fn xsi_type(&self) -> Result<Option<Cow<'_, str>>, ReadError> {
        let value = self.attribute(|prefix, local| prefix.is_some() && local == "type")?;
        Ok(value.map(|value| match value {
            Cow::Borrowed(name) => Cow::Borrowed(name.rsplit_once(':').map_or(name, |(_, local)| local)),
            Cow::Owned(name) => Cow::Owned(name.rsplit_once(':').map_or(name.as_str(), |(_, local)| local).to_owned()),
        }))
    }

    /// The attribute `type` of a reference.
    pub fn reference_type(&self) -> Result<Option<Cow<'_, str>>, ReadError> {
        self.attribute(|prefix, local| prefix.is_none() && local == "type")
    }

    /// Whether `xsi:nil` says that there is no value.
    pub fn is_nil(&self) -> Result<bool, ReadError> {
        let value = self.attribute(|prefix, local| prefix.is_some() && local == "nil")?;
        Ok(value.is_some_and(|value| matches!(value.trim(), "true" | "1")))
    }

    fn attribute(&self, wanted: impl Fn(Option<&str>, &str) -> bool) -> Result<Option<Cow<'_, str>>, ReadError> {
        if self.0.attributes_raw().is_empty() {
            return Ok(None);
        }
        for attribute in self.0.attributes().with_checks(false) {
            let attribute = attribute.map_err(|error| self.bad_attribute(&error))?;
            let name = attribute.key.into_inner();
            let (prefix, local) = name.split_once(':').map_or((None, name), |(prefix, local)| (Some(prefix), local));
            if prefix != Some("xmlns") && wanted(prefix, local) {
                return self.value(attribute).map(Some);
            }
        }
        Ok(None)
    }

    fn value<'t>(&self, attribute: Attribute<'t>) -> Result<Cow<'t, str>, ReadError> {
        if attribute.value.contains(['&', '\n', '\r', '\t']) {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0);
            return value.map_err(|error| self.bad_attribute(&error));
        }
        Ok(attribute.value)
    }

    fn bad_attribute(&self, error: &dyn std::fmt::Display) -> ReadError {
        ReadError::Xml { offset: 0, reason: format!("an attribute of <{}>: {error}", self.name()) }
    }

    /// The error for text that does not fit the element's type.
    #[must_use]
    pub fn bad_value(&self, value: &str, expected: &'static str) -> ReadError {
        let value = value.chars().take(64).collect();
        ReadError::BadValue { element: self.name().to_owned(), value, expected }
    }
}

/// A position in a message.
pub struct Reader<'a> {
    xml: quick_xml::Reader<&'a [u8]>,
    limits: Limits,
    depth: usize,
    memory: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `message`.
    #[must_use]
    pub fn new(message: &'a [u8], limits: Limits) -> Self {
        let mut xml = quick_xml::Reader::from_reader(message);
        xml.config_mut().expand_empty_elements = true;
        Self { xml, limits, depth: 0, memory: 0 }
    }

    fn event(&mut self) -> Result<Event<'a>, ReadError> {
        match self.xml.read_event() {
            Ok(Event::Eof) if self.depth > 0 => Err(ReadError::Truncated { length: self.xml.buffer_position() }),
            Ok(event) => Ok(event),
            Err(error) => Err(self.broken(&error)),
        }
    }

    fn broken(&self, error: &XmlError) -> ReadError {
        let offset = self.xml.error_position();
        match error {
            XmlError::Encoding(_) => ReadError::NotUtf8 { offset },
            XmlError::Syntax(SyntaxError::InvalidBangMarkup) => {
                ReadError::Xml { offset, reason: "markup that is no comment, section or declaration".to_owned() }
            }
            // The rest is about tags, comments and sections that are still open at the message's end.
            XmlError::Syntax(_) => ReadError::Truncated { length: self.xml.buffer_position() },
            other => ReadError::Xml { offset, reason: other.to_string() },
        }
    }

    /// The next element inside the current one, or `None` at the current one's end. Text between elements is skipped.
    pub fn next_child(&mut self) -> Result<Option<Tag<'a>>, ReadError> {
        loop {
            match self.event()? {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > self.limits.depth {
                        return Err(too_much("elements nested too deeply", self.limits.depth));
                    }
                    return Ok(Some(Tag(start)));
                }
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(None);
                }
                Event::Eof => return Ok(None),
                Event::DocType(_) => {
                    return Err(ReadError::NotSoap { expected: "an envelope", found: "a DOCTYPE".to_owned() });
                }
                // `Empty` does not occur: empty elements arrive as a start and an end.
                Event::Empty(_)
                | Event::Text(_)
                | Event::CData(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::GeneralRef(_) => {}
            }
        }
    }

    /// Reads the elements of the current one into their fields, and skips those that have none.
    pub fn fields(&mut self, value: &mut dyn Fields) -> Result<(), ReadError> {
        while let Some(tag) = self.next_child()? {
            if !value.read_field(&tag, self)? {
                self.skip(&tag)?;
            }
        }
        Ok(())
    }

    /// Skips the element that `tag` opened, to its end.
    pub fn skip(&mut self, tag: &Tag<'_>) -> Result<(), ReadError> {
        let skipped = self.xml.read_to_end(tag.0.name());
        self.depth = self.depth.saturating_sub(1);
        match skipped {
            Ok(_) => Ok(()),
            Err(XmlError::IllFormed(IllFormedError::MissingEndTag(_))) => {
                Err(ReadError::Truncated { length: self.xml.buffer_position() })
            }
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// The text of the element that `tag` opened, to its end. Elements inside are skipped.
    pub fn text(&mut self, tag: &Tag<'_>) -> Result<Cow<'a, str>, ReadError> {
        let mut text = Cow::Borrowed("");
        loop {
            let piece = match self.event()? {
                Event::End(_) => {
                    self.depth = self.depth.saturating_sub(1);
                    return Ok(text);
                }
                Event::Text(piece) => piece.xml10_content(),
                Event::CData(piece) => piece.xml10_content(),
                Event::GeneralRef(reference) => resolve(tag, &reference)?,
                Event::Start(inner) => {
                    self.depth += 1;
                    self.skip(&Tag(inner))?;
                    continue;
                }
                _ => continue,
            };
            if text.len() + piece.len() > self.limits.text {
                return Err(too_much("too much text in one element", self.limits.text));
            }
            if text.is_empty() {
                text = piece;
            } else {
                text.to_mut().push_str(&piece);
            }
        }
    }

    /// Counts `bytes` that are about to be allocated against the limit.
    pub fn charge(&mut self, bytes: usize) -> Result<(), ReadError> {
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > self.limits.memory {
            return Err(too_much("more values than fit the memory allowed", self.limits.memory));
        }
        Ok(())
    }
}

fn too_much(what: &'static str, limit: usize) -> ReadError {
    ReadError::TooMuch { what, limit }
}

fn resolve(tag: &Tag<'_>, reference: &BytesRef<'_>) -> Result<Cow<'static, str>, ReadError> {
    match reference.resolve_char_ref() {
        Ok(Some(character)) => Ok(Cow::Owned(character.to_string())),
        Ok(None) => match quick_xml::escape::resolve_xml_entity(reference) {
            Some(text) => Ok(Cow::Borrowed(text)),
            None => Err(ReadError::UnknownEntity { name: reference.chars().take(64).collect() }),
        },
        Err(_) => Err(tag.bad_value(reference, "character reference")),
    }
}
