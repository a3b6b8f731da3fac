//! The crate's one error.

use std::sync::Arc;

use crate::client::TransportError;
use crate::fault::{Fault, LocalizedMethodFault, SoapFault};
use crate::property::PropertyError;
use crate::reference::{ManagedObjectReference, WrongType};
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
    /// There is no answer from vCenter, or none that a vCenter gives.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The login failed. All who waited for it have the same cause.
    #[error("logging in to {endpoint} as {user}: {}", without_session(.source))]
    Login {
        /// The vCenter.
        endpoint: String,
        /// Who wanted in.
        user: String,
        /// Why not.
        source: Arc<Error>,
    },
    /// vCenter took the login, and gave no session for it.
    #[error("{endpoint} accepted the login without starting a session")]
    NoSession {
        /// The vCenter.
        endpoint: String,
    },
    /// The server is not the vCenter that [`Client::expect_instance`](crate::Client::expect_instance) names. It was not sent any
    /// credentials.
    #[error("{endpoint} is another vCenter than before: its instance UUID is not {expected}")]
    OtherInstance {
        /// The vCenter.
        endpoint: String,
        /// The instance UUID that it should have.
        expected: String,
        /// The instance UUID that it has.
        found: String,
    },
    /// The client has been closed, so that it logs in no more.
    #[error("the connection to {endpoint} is closed")]
    Closed {
        /// The vCenter.
        endpoint: String,
    },
    /// An answer in pages did not come to its end.
    #[error("{endpoint} has sent {objects} objects in {pages} pages, and would send more: ask for fewer objects")]
    TooManyObjects {
        /// The vCenter.
        endpoint: String,
        /// How many objects have come.
        objects: usize,
        /// In how many pages.
        pages: usize,
    },
    /// A task that was waited for is no more, so that its end can't be known.
    #[error("{task} was removed before its end was seen: look at what it was to do")]
    TaskGone {
        /// The task.
        task: ManagedObjectReference,
    },
    /// The collector was dropped while something waited for it.
    #[error("the property collector has ended")]
    CollectorEnded,
}

/// A result with this crate's [`Error`], unless it says otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What keeps somebody from a session. Until there is one, who answers need not be a vCenter.
fn without_session(cause: &Error) -> String {
    match cause {
        Error::Fault(soap) => soap.by_a_stranger(),
        cause => cause.to_string(),
    }
}

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
            Self::Login { source, .. } => source.fault(),
            _ => None,
        }
    }
}
