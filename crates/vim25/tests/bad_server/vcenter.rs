//! As much of a vCenter as a session needs: it lets users in, tells the time, and forgets sessions on command.

use std::sync::{Arc, Mutex, PoisonError};

use super::server::{Reply, Request};

/// The state of the vCenter, which the test looks at and changes.
#[derive(Clone, Default)]
pub(crate) struct VCenter(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    password: Option<String>,
    instance: Option<&'static str>,
    logins: usize,
    logouts: usize,
    session: Option<String>,
}

impl VCenter {
    /// Lets in only those who know the password.
    pub(crate) fn wants(self, password: &str) -> Self {
        self.change(|state| state.password = Some(password.to_owned()));
        self
    }

    /// Says to be this instance from now on.
    pub(crate) fn become_instance(&self, uuid: &'static str) {
        self.change(|state| state.instance = Some(uuid));
    }

    /// How many logins have been tried.
    pub(crate) fn logins(&self) -> usize {
        self.change(|state| state.logins)
    }

    /// How many sessions have been ended by their users.
    pub(crate) fn logouts(&self) -> usize {
        self.change(|state| state.logouts)
    }

    /// Forgets the session.
    pub(crate) fn expire(&self) {
        self.change(|state| state.session = None);
    }

    pub(crate) fn answer(&self, request: &Request) -> Reply {
        if request.calls("RetrieveServiceContent") {
            return content_of(self.change(|state| state.instance));
        }
        self.change(|state| {
            if request.calls("Login") {
                return state.log_in(request);
            }
            if state.session.is_none() || state.session != request.cookie {
                return fault("NotAuthenticated", "The session is not authenticated.");
            }
            if request.calls("Logout") {
                state.logouts += 1;
                state.session = None;
                return nothing("Logout");
            }
            now()
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl State {
    fn log_in(&mut self, request: &Request) -> Reply {
        self.logins += 1;
        if self.password.as_ref().is_some_and(|password| !request.body.contains(&format!(">{password}<"))) {
            return fault("InvalidLogin", "Cannot complete login due to an incorrect user name or password.");
        }
        let cookie = format!("vmware_soap_session=\"session-{}\"", self.logins);
        let header = format!("Set-Cookie: {cookie}; Path=/; HttpOnly; Secure;");
        self.session = Some(cookie);
        logged_in(&[&header])
    }
}

pub(crate) fn content() -> Reply {
    content_of(None)
}

fn content_of(instance: Option<&str>) -> Reply {
    let instance = instance.map(|uuid| format!("<instanceUuid>{uuid}</instanceUuid>")).unwrap_or_default();
    let value = format!(
        "<rootFolder type=\"Folder\">group-d1</rootFolder>\
         <propertyCollector type=\"PropertyCollector\">propertyCollector</propertyCollector>\
         <about><apiType>VirtualCenter</apiType><apiVersion>8.0.3.0</apiVersion>{instance}</about>\
         <sessionManager type=\"SessionManager\">SessionManager</sessionManager>"
    );
    result("RetrieveServiceContent", &value, &[])
}

/// The answer to a login, with whatever headers it has.
pub(crate) fn logged_in(headers: &[&str]) -> Reply {
    result("Login", "<key>52-ab</key><userName>jane</userName>", headers)
}

pub(crate) fn now() -> Reply {
    result("CurrentTime", "2026-01-02T03:04:05Z", &[])
}

pub(crate) fn fault(name: &str, message: &str) -> Reply {
    let xml = format!(
        "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{message}</faultstring>\
         <detail><{name}Fault xmlns=\"urn:vim25\" xsi:type=\"{name}\"/></detail></soapenv:Fault>"
    );
    Reply::new("500 Internal Server Error", "text/xml; charset=utf-8", &[], envelope(&xml))
}

pub(crate) fn envelope(body: &str) -> String {
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>"
    )
}

/// The answer of a method without a result.
pub(crate) fn nothing(method: &str) -> Reply {
    let xml = format!("<{method}Response xmlns=\"urn:vim25\"/>");
    Reply::new("200 OK", "text/xml; charset=utf-8", &[], envelope(&xml))
}

pub(crate) fn result(method: &str, value: &str, headers: &[&str]) -> Reply {
    let xml = format!("<{method}Response xmlns=\"urn:vim25\"><returnval>{value}</returnval></{method}Response>");
    Reply::new("200 OK", "text/xml; charset=utf-8", headers, envelope(&xml))
}
