//! The fault of a SOAP message.

use std::fmt;

use super::{Fault, is_known, sentence};
use crate::any::Typed;
use crate::faults::InvalidLogin;
use crate::wire::{Element, Fields, NOT_SHOWN, ReadError, Reader, Tag, WriteError, Writer};

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SoapFault {
    /// SOAP's own code, such as `ServerFaultCode`.
    pub code: String,
    /// What vCenter says, in the session's language.
    pub message: String,
    /// The fault itself, unless vCenter sent none.
    pub fault: Option<Fault>,
}

impl fmt::Display for SoapFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Some(fault) => f.write_str(&sentence::of(fault, Some(&self.message))),
            None if self.message.trim().is_empty() => write!(f, "vCenter refused the call and gave no reason"),
            None => write!(f, "vCenter refused the call: {}", self.message.trim()),
        }
    }
}

impl std::error::Error for SoapFault {}

impl SoapFault {
    /// The same without what was answered, except which of the known faults it is.
    pub(crate) fn unquoted(&self) -> Self {
        let fault = self.fault.as_ref().and_then(Fault::known_name).map(Fault::named);
        Self { code: String::new(), message: NOT_SHOWN.to_owned(), fault }
    }

    /// The sentence for a fault of somebody who need not be a vCenter: it repeats nothing of what was answered.
    pub(crate) fn by_a_stranger(&self) -> String {
        match self.fault.as_ref().and_then(Fault::known_name) {
            Some(name) if name == InvalidLogin::TYPE => Fault::named(name).to_string(),
            Some(name) => format!("the call was refused with the fault {name}"),
            None => "the call was refused with a fault that is not known".to_owned(),
        }
    }
}

impl Fields for SoapFault {
    fn read_field(&mut self, tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<bool, ReadError> {
        match tag.name() {
            "faultcode" => self.code.read(tag, reader)?,
            "faultstring" => self.message.read(tag, reader)?,
            "detail" => {
                while let Some(inner) = reader.next_child()? {
                    self.fault = Some(read_detail(&inner, reader)?);
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

/// The element is called after the fault, such as `InvalidLoginFault`, and mostly has its type as well.
fn read_detail(tag: &Tag<'_>, reader: &mut Reader<'_>) -> Result<Fault, ReadError> {
    if let Some(ty) = tag.xsi_type()? {
        return Fault::read_named(&ty, tag, reader);
    }
    let name = tag.name();
    let short = name.strip_suffix("Fault").filter(|short| !short.is_empty() && !is_known(name));
    Fault::read_named(short.unwrap_or(name), tag, reader)
}
