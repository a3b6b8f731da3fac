//! The wire, in both directions.

mod broken;
mod faults;
mod golden;
mod order;
mod properties;
mod random;
mod reading;
mod round_trip;
mod schema;

use vim25::wire::{Element, Reader, Writer};
use vim25::{Limits, ReadError};

/// The value as the element `<value>`.
fn written<T: Element>(value: &T) -> String {
    let mut writer = Writer::default();
    value.write("value", &mut writer).expect("the value can be written");
    String::from_utf8(writer.into_bytes()).expect("what is written is UTF-8")
}

/// Reads one element.
fn read<T: Element>(xml: &str) -> Result<T, ReadError> {
    let mut reader = Reader::new(xml.as_bytes(), Limits::default());
    let tag = reader.next_child()?.expect("there is an element");
    let mut value = T::default();
    value.read(&tag, &mut reader)?;
    Ok(value)
}

/// An answer to `method`, as vCenter sends it.
fn answer(method: &str, result: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenc="http://schemas.xmlsoap.org/soap/encoding/"
 xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
<soapenv:Body>
<{method}Response xmlns="urn:vim25">{result}</{method}Response>
</soapenv:Body>
</soapenv:Envelope>"#
    )
}
