//! Why a vCenter can't be worked with.

use drover_core::{Timestamp, reasons::Reason};
use vim25::{Error, TransportError, faults::InvalidLogin};

use super::{Login, VCenterHandle};

/// Why, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Away {
    pub reason: Reason,
    pub why: String,
    pub since: Timestamp,
}

impl Away {
    /// The same, for those who look after it.
    pub(crate) fn sentence(&self) -> String {
        match self.reason {
            Reason::Connecting => self.why.clone(),
            _ => format!("{}; away since {}", self.why, self.since.strftime("%FT%TZ")),
        }
    }
}

impl VCenterHandle {
    /// Why vCenter can't be worked with now, if it can't, for people of the namespaces that it serves. Its address and its user are not for
    /// them.
    pub(crate) fn away_for_tenants(&self) -> Option<String> {
        self.away().map(|away| for_tenants(&self.name, self.login, &away))
    }
}

fn for_tenants(name: &str, login: Login, Away { reason, since, .. }: &Away) -> String {
    let look = match login {
        Login::Declared => "its condition Connected says why",
        Login::Environment => "the operator's log says why",
    };
    match reason {
        Reason::Connecting => format!("the VCenter {name:?} is being connected"),
        _ => format!(
            "the VCenter {name:?} is not connected ({}) since {}: {look}",
            reason.word(),
            since.strftime("%FT%TZ")
        ),
    }
}

/// What kind of obstacle an error is, with the sentence for those who look after the vCenter.
pub(super) fn obstacle(error: &Error) -> (Reason, String) {
    let reason = reason(error);
    let advice = match reason {
        Reason::VCenterMismatch => ": set spec.server back, or make another VCenter for it",
        _ => "",
    };
    (reason, format!("{error}{advice}"))
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
        Error::Transport(TransportError::Certificate { .. }) => Reason::CertificateUntrusted,
        Error::OtherInstance { .. } => Reason::VCenterMismatch,
        _ => Reason::VCenterUnreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_of_a_namespace_are_told_where_to_look_and_no_more() {
        let why = "logging in to vc.example.com as drover@vsphere.local: no".to_owned();
        let away = |reason| Away { reason, why: why.clone(), since: Timestamp::UNIX_EPOCH };
        assert_eq!(
            for_tenants("lab", Login::Declared, &away(Reason::LoginRefused)),
            "the VCenter \"lab\" is not connected (LoginRefused) since 1970-01-01T00:00:00Z: its condition Connected says why"
        );
        let environment = for_tenants("default", Login::Environment, &away(Reason::VCenterUnreachable));
        assert!(environment.ends_with("(VCenterUnreachable) since 1970-01-01T00:00:00Z: the operator's log says why"));
        assert_eq!(
            for_tenants("lab", Login::Declared, &away(Reason::Connecting)),
            "the VCenter \"lab\" is being connected"
        );
    }
}
