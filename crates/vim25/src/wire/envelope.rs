//! SOAP envelopes: a request goes out in one, and a result or a fault comes back in one.

use super::{Fields, Limits, Method, ReadError, Reader, Returned, Tag, WriteError, Writer};
use crate::error::Error;
use crate::fault::SoapFault;

const NAMESPACES: [(&str, &str); 3] = [
    ("xmlns:soapenv", "http://schemas.xmlsoap.org/soap/envelope/"),
    ("xmlns:xsd", "http://www.w3.org/2001/XMLSchema"),
    ("xmlns:xsi", "http://www.w3.org/2001/XMLSchema-instance"),
];

/// The envelope of a request, for those that need more than [`to_envelope`].
#[derive(Debug)]
pub struct Envelope<'a, M> {
    request: &'a M,
    operation_id: Option<&'a str>,
    header: Option<&'a str>,
}

impl<'a, M: Method> Envelope<'a, M> {
    /// An envelope without a header.
    pub fn new(request: &'a M) -> Self {
        Self { request, operation_id: None, header: None }
    }

    /// A name for the call, which vCenter writes beside it in its logs.
    #[must_use]
    pub fn operation_id(mut self, id: &'a str) -> Self {
        self.operation_id = Some(id);
        self
    }

    /// XML to put in the header as it is, such as the `Security` element of a login by token.
    #[must_use]
    pub fn header(mut self, xml: &'a str) -> Self {
        self.header = Some(xml);
        self
    }

    /// The bytes to send.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WriteError> {
        let mut writer = Writer::default();
        writer.raw("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        writer.open("soapenv:Envelope", &NAMESPACES)?;
        if self.operation_id.is_some() || self.header.is_some() {
            writer.open("soapenv:Header", &[])?;
            if let Some(id) = self.operation_id {
                writer.text("operationID", &[], id)?;
            }
            writer.raw(self.header.unwrap_or_default());
            writer.close("soapenv:Header");
        }
        writer.open("soapenv:Body", &[])?;
        writer.open(M::NAME, &[("xmlns", "urn:vim25")])?;
        self.request.write_fields(&mut writer)?;
        writer.close(M::NAME);
        writer.close("soapenv:Body");
        writer.close("soapenv:Envelope");
        Ok(writer.into_bytes())
    }
}

/// Writes the envelope of a request. The `SOAPAction` that goes with it is `urn:vim25/` and the version of the API
/// that the session speaks.
pub fn to_envelope<M: Method>(request: &M) -> Result<Vec<u8>, WriteError> {
    Envelope::new(request).to_bytes()
}

/// Reads what `M` returned, or the fault that it ended with.
pub fn read_response<M: Method>(message: &[u8]) -> Result<M::Response, Error> {
    read_response_within::<M>(message, Limits::default())
}

/// [`read_response`] with limits of one's own.
pub fn read_response_within<M: Method>(message: &[u8], limits: Limits) -> Result<M::Response, Error> {
    let mut body = Body { result: M::Response::default(), returned: false, fault: None };
    read_body(&mut Reader::new(message, limits), &mut body)?;
    if let Some(fault) = body.fault {
        return Err(Error::Fault(fault));
    }
    if M::Response::REQUIRED && !body.returned {
        return Err(ReadError::NoResult { method: M::NAME }.into());
    }
    Ok(body.result)
}

/// What stands in the body: the method's response element, or a fault.
struct Body<R> {
    result: R,
    returned: bool,
    fault: Option<Box<SoapFault>>,
}

fn read_body(reader: &mut Reader<'_>, body: &mut dyn Fields) -> Result<(), ReadError> {
    expect(reader, "Envelope", "an envelope")?;
    loop {
        match reader.next_child()? {
            Some(tag) if tag.name() == "Body" => break,
            Some(tag) => reader.skip(&tag)?,
            None => return Err(not_soap("a body", "nothing")),
        }
    }
    let answer = reader.next_child()?.ok_or_else(|| not_soap("a response or a fault", "nothing"))?;
    if !body.read_field(&answer, reader)? {
        return Err(not_soap("a response or a fault", &format!("<{}>", answer.name())));
    }
    // To the end, so that a message that was cut off is never taken for a whole one.
    while let Some(tag) = reader.next_child()? {
        reader.skip(&tag)?;
    }
    while let Some(tag) = reader.next_child()? {
        reader.skip(&tag)?;
    }
    Ok(())
}

fn expect(reader: &mut Reader<'_>, name: &str, said_as: &'static str) -> Result<(), ReadError> {
    match reader.next_child()? {
        Some(tag) if tag.name() == name => Ok(()),
        Some(tag) => Err(not_soap(said_as, &format!("<{}>", tag.name()))),
        None => Err(not_soap(said_as, "nothing")),
    }
}

fn not_soap(expected: &'static str, found: &str) -> ReadError {
    ReadError::NotSoap { expected, found: found.chars().take(64).collect() }
}

impl<R: Returned> Fields for Body<R> {
    fn read_field(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<bool, ReadError> {
        match tag.name() {
            "Fault" => {
                let fault = self.fault.insert(Box::default());
                reader.fields(&mut **fault)?;
            }
            // A response is called after its method; the one that was called is known to the caller.
            name if name.ends_with("Response") => {
                while let Some(inner) = reader.next_child()? {
                    if inner.name() == "returnval" {
                        self.result.read(&inner, reader)?;
                        self.returned = true;
                    } else {
                        reader.skip(&inner)?;
                    }
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn write_fields(&self, _: &mut Writer) -> Result<(), WriteError> {
        Ok(())
    }
}
