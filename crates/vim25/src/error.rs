//! The crate's one error.

use crate::fault::{Fault, LocalizedMethodFault, SoapFault};
use crate::property::PropertyError;
use crate::reference::WrongType;
use crate::wire::{ReadError, WriteError};

/// What can go wrong between a request and its result. Each prints as a sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// vCenter refused the call.
    #[error("{0}")]
    Fault(Box<SoapFault>),
    /// vCenter accepted the call, and the task it started failed.
    #[error("{0}")]
    Task(Box<LocalizedMethodFault>),
    /// vCenter's answer could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The request could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A property's value is not of the declared type.
    #[error(transparent)]
    Property(#[from] PropertyError),
    /// A reference is to an object of another type.
    #[error(transparent)]
    WrongType(#[from] WrongType),
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl From<LocalizedMethodFault> for Error {
    fn from(failure: LocalizedMethodFault) -> Self {
        Self::Task(Box::new(failure))
    }
}

impl Error {
    /// The fault, if that is what it is and vCenter sent its details.
    #[must_use]
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Fault(soap) => soap.fault.as_ref(),
            Self::Task(failure) => Some(&failure.fault),
            _ => None,
        }
    }
}
