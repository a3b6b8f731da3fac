//! Why a vCenter can't be worked with.

use drover_core::{group::Timestamp, reasons::Reason};
use vim25::{Error, TransportError, faults::InvalidLogin};

/// Why, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    pub reason: Reason,
    pub why: String,
    pub since: Timestamp,
}

impl Away {
    /// The same, for those whose machines are in it.
    pub(crate) fn sentence(&self) -> String {
        match self.reason {
            Reason::NotReadYet => self.why.clone(),
            _ => format!("{}; away since {}", self.why, self.since.strftime("%FT%TZ")),
        }
    }
}

/// What kind of obstacle an error is.
pub(crate) fn reason(error: &Error) -> Reason {
    if error.fault().is_some_and(vim25::Fault::is::<InvalidLogin>) {
        return Reason::LoginRefused;
    }
    let mut cause = error;
    while let Error::Login { source, .. } = cause {
        cause = source;
    }
    match cause {
        Error::Transport(TransportError::Certificate { .. }) => Reason::Untrusted,
        _ => Reason::VCenterAway,
    }
}
