//! The one session of a client: who logs in, when, and when not.

use std::convert::identity;
use std::sync::{
    Arc, Mutex as SyncMutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::Duration;

use tokio::{
    sync::{Mutex, Notify},
    time::{Instant, sleep_until},
};

use super::{
    refusals::{Pauses, Refusals},
    transport::{Answer, Transport, TransportError},
};
use crate::{
    API_VERSION, Envelope, Error, Method, Result, Secret, Timestamp,
    faults::InvalidLogin,
    methods::{Login, LoginByToken, Logout, RetrieveServiceContent},
    read_response,
    refs::{ServiceInstanceRef, SessionManagerRef},
    types::{ServiceContent, UserSession},
};

/// What to log in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A user of vCenter or its directory.
    Password {
        /// Such as `administrator@vsphere.local`.
        user: String,
        /// The user's password.
        password: Secret,
    },
    /// A SAML bearer token, as the security token service issues it: the `Assertion` element.
    Token(Secret),
}

impl Credentials {
    /// A user and password.
    pub fn password(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Password { user: user.into(), password: Secret::new(password) }
    }

    /// Whom they are for, as far as that can be shown.
    fn user(&self) -> &str {
        match self {
            Self::Password { user, .. } => user,
            Self::Token(_) => "the bearer of a token",
        }
    }
}

/// A login that vCenter has accepted.
#[derive(Debug)]
pub struct Session {
    /// The service's root objects and what it says of itself.
    pub content: ServiceContent,
    /// Who is logged in, since when.
    pub user: UserSession,
    pub(super) cookie: Secret,
    /// The `SOAPAction` header: the version of the API that both sides speak.
    pub(super) action: String,
}

impl Session {
    /// What tells the vCenter from others, as far as it says.
    #[must_use]
    pub fn instance_uuid(&self) -> Option<&str> {
        self.content.about.instance_uuid.as_deref()
    }
}

/// Sees to it that there is at most one session, and one attempt at a time to have one.
#[derive(Debug)]
pub(super) struct Sessions {
    state: Mutex<State>,
    attempts: AtomicU64,
    credentials: SyncMutex<Versioned>,
    /// The vCenter that credentials are for, once that is known.
    instance: SyncMutex<Option<String>>,
    replaced: Notify,
    is_closed: AtomicBool,
    /// Whether there is a session, for those who can't wait for a login to end.
    is_live: AtomicBool,
}

#[derive(Debug)]
struct State {
    live: Option<Arc<Session>>,
    /// The last attempt that failed, for those who waited for it.
    failed: Option<(u64, Arc<Error>)>,
    refusals: Refusals,
}

#[derive(Clone, Debug)]
struct Versioned {
    version: u64,
    credentials: Credentials,
    /// Which writing of them this is, once that has been said.
    stamp: Option<String>,
}

impl Sessions {
    pub(super) fn new(credentials: Credentials, pauses: Pauses) -> Self {
        Self {
            state: Mutex::new(State { live: None, failed: None, refusals: Refusals::new(pauses) }),
            attempts: AtomicU64::new(0),
            credentials: SyncMutex::new(Versioned { version: 0, credentials, stamp: None }),
            instance: SyncMutex::default(),
            replaced: Notify::new(),
            is_closed: AtomicBool::new(false),
            is_live: AtomicBool::new(false),
        }
    }

    pub(super) async fn get(self: &Arc<Self>, transport: &Arc<Transport>) -> Result<Arc<Session>> {
        let before = self.attempts.load(Ordering::Acquire);
        if let Some(session) = &self.state.lock().await.live {
            return Ok(Arc::clone(session));
        }
        // A login goes on where its caller gives up. Otherwise the next caller would try a wrong password again, and
        // vCenter would keep a session that nobody knows.
        let (sessions, endpoint) = (Arc::clone(self), transport.endpoint().to_string());
        let transport = Arc::clone(transport);
        let login = tokio::spawn(async move { sessions.get_or_log_in(&transport, before).await });
        login.await.unwrap_or_else(|ended| {
            Err(TransportError::Broken { endpoint, reason: format!("the login did not end: {ended}") }.into())
        })
    }

    /// The session of whoever was faster, or a new one. An attempt that failed after `before` is the caller's too.
    async fn get_or_log_in(&self, transport: &Transport, before: u64) -> Result<Arc<Session>> {
        let mut state = self.state.lock().await;
        if let Some(session) = &state.live {
            return Ok(Arc::clone(session));
        }
        self.check_open(transport)?;
        let Versioned { version, credentials, .. } = self.latest();
        let failure = |source: &Arc<Error>| Error::Login {
            endpoint: transport.endpoint().to_string(),
            user: credentials.user().to_owned(),
            source: Arc::clone(source),
        };
        if let Some((attempt, error)) = &state.failed
            && *attempt > before
        {
            return Err(failure(error));
        }
        if let Some((until, error)) = state.refusals.until(credentials.user(), version)
            && until > Instant::now()
        {
            return Err(failure(error));
        }
        let outcome = log_in(transport, &credentials, self.expected()).await;
        let attempt = self.attempts.fetch_add(1, Ordering::AcqRel) + 1;
        match outcome {
            Ok(session) => {
                state.failed = None;
                state.refusals.forget(credentials.user());
                if let Err(closed) = self.check_open(transport) {
                    // Whoever closed it may not have waited. If this fails, vCenter ends the session in half an hour.
                    let _ = log_out(transport, &session).await;
                    return Err(closed);
                }
                let session = Arc::new(session);
                state.live = Some(Arc::clone(&session));
                self.is_live.store(true, Ordering::Release);
                Ok(session)
            }
            Err(error) => {
                let refused = error.fault().is_some_and(crate::Fault::is::<InvalidLogin>);
                let error = Arc::new(error);
                if refused {
                    state.refusals.note(credentials.user(), version, Arc::clone(&error));
                }
                state.failed = Some((attempt, Arc::clone(&error)));
                Err(failure(&error))
            }
        }
    }

    fn check_open(&self, transport: &Transport) -> Result<()> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(Error::Closed { endpoint: transport.endpoint().to_string() });
        }
        Ok(())
    }

    pub(super) async fn current(&self) -> Option<Arc<Session>> {
        self.state.lock().await.live.clone()
    }

    pub(super) fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    pub(super) async fn forget(&self, session: &Session) {
        let mut state = self.state.lock().await;
        if state.live.as_ref().is_some_and(|live| live.cookie == session.cookie) {
            state.live = None;
            self.is_live.store(false, Ordering::Release);
        }
    }

    pub(super) async fn logout(&self, transport: &Transport) -> Result<()> {
        let session = {
            let mut state = self.state.lock().await;
            self.is_live.store(false, Ordering::Release);
            state.live.take()
        };
        let Some(session) = session else { return Ok(()) };
        log_out(transport, &session).await
    }

    pub(super) async fn close(&self, transport: &Transport) -> Result<()> {
        self.is_closed.store(true, Ordering::Release);
        self.logout(transport).await
    }

    pub(super) fn set_credentials(&self, credentials: Credentials, stamp: &str) {
        let mut current = self.credentials.lock().unwrap_or_else(PoisonError::into_inner);
        let is_written_anew = current.stamp.as_ref().is_some_and(|before| before != stamp);
        let is_news = is_written_anew || current.credentials != credentials;
        let version = current.version + u64::from(is_news);
        *current = Versioned { version, credentials, stamp: Some(stamp.to_owned()) };
        drop(current);
        if is_news {
            self.replaced.notify_waiters();
        }
    }

    pub(super) fn expect_instance(&self, uuid: Option<String>) {
        *self.instance.lock().unwrap_or_else(PoisonError::into_inner) = uuid;
    }

    fn expected(&self) -> Option<String> {
        self.instance.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns once the credentials may be tried.
    pub(super) async fn login_allowed(&self) {
        loop {
            // From here on, so that no replacement is missed.
            let replaced = self.replaced.notified();
            let Versioned { version, credentials, .. } = self.latest();
            let until = self.state.lock().await.refusals.until(credentials.user(), version).map(|(until, _)| until);
            match until {
                Some(until) if until > Instant::now() => tokio::select! {
                    () = replaced => {}
                    () = sleep_until(until) => {}
                },
                _ => return,
            }
        }
    }

    fn latest(&self) -> Versioned {
        self.credentials.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn log_out(transport: &Transport, session: &Session) -> Result<()> {
    let Some(this) = session.content.session_manager.clone() else { return Ok(()) };
    let message = crate::to_envelope(&Logout { this })?;
    let limit = transport.request_timeout();
    let call = async {
        let answer = transport.post(message, &session.action, Some(session.cookie.expose()), limit).await?;
        match read_response::<Logout>(&answer.body) {
            Err(error) if error.is_session_lost() => Ok(()),
            outcome => outcome,
        }
    };
    transport.observed::<Logout, _>(call).await
}

/// Any vCenter that still runs speaks this version, so the first question is asked in it.
const FIRST_ACTION: &str = "urn:vim25/6.0";

async fn log_in(transport: &Transport, credentials: &Credentials, expected: Option<String>) -> Result<Session> {
    let this = ServiceInstanceRef::new("ServiceInstance");
    let question = RetrieveServiceContent { this };
    let (content, _) = ask(transport, Envelope::new(&question), FIRST_ACTION, identity).await?;
    let found = content.about.instance_uuid.clone().unwrap_or_default();
    if let Some(expected) = expected.filter(|expected| !expected.eq_ignore_ascii_case(&found)) {
        return Err(Error::OtherInstance { endpoint: transport.endpoint().to_string(), expected, found });
    }
    let action = format!("urn:vim25/{}", spoken(&content.about.api_version));
    // A server without one has no users: nothing to log in to.
    let this = content.session_manager.clone().unwrap_or_else(|| SessionManagerRef::new("SessionManager"));
    let (user, answer) = match credentials {
        Credentials::Password { user, password } => {
            let login = Login { this, user_name: user.clone(), password: password.clone(), locale: None };
            ask(transport, Envelope::new(&login), &action, unquoted).await?
        }
        Credentials::Token(token) => {
            let header = security(token.expose(), Timestamp::now());
            let login = LoginByToken { this, locale: None };
            ask(transport, Envelope::new(&login).header(&header), &action, unquoted).await?
        }
    };
    let cookie = Secret::new(answer.cookie.ok_or(Error::NoSession { endpoint: transport.endpoint().to_string() })?);
    Ok(Session { content, user, cookie, action })
}

/// Calls without a session. `told` is what is told of an error, also to the observer.
async fn ask<M: Method>(
    transport: &Transport,
    envelope: Envelope<'_, M>,
    action: &str,
    told: fn(Error) -> Error,
) -> Result<(M::Response, Answer)> {
    let message = envelope.to_bytes()?;
    let call = async {
        let answer = transport.post(message, action, None, transport.request_timeout()).await;
        let answer = answer.map_err(|error| told(error.into()))?;
        Ok((read_response::<M>(&answer.body).map_err(told)?, answer))
    };
    transport.observed::<M, _>(call).await
}

/// An answer to a login may repeat the request, password and all.
fn unquoted(error: Error) -> Error {
    match error {
        Error::Transport(error) => Error::Transport(error.unquoted()),
        Error::Read(error) => Error::Read(error.unquoted()),
        Error::Fault(soap) => Error::Fault(Box::new(soap.unquoted())),
        error => error,
    }
}

/// The older of the server's version and the one that the types are from.
fn spoken(server: &str) -> &str {
    let numbers = |version: &str| version.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    if numbers(server) < numbers(API_VERSION) { server } else { API_VERSION }
}

/// The SOAP header of a login by bearer token.
fn security(token: &str, now: Timestamp) -> String {
    let expires = now + Duration::from_mins(10);
    let wss = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity";
    format!(
        "<wsse:Security xmlns:wsse=\"{wss}-secext-1.0.xsd\"><wsu:Timestamp xmlns:wsu=\"{wss}-utility-1.0.xsd\">\
         <wsu:Created>{now:.3}</wsu:Created><wsu:Expires>{expires:.3}</wsu:Expires></wsu:Timestamp>{token}</wsse:Security>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_version_is_spoken() {
        assert_eq!(spoken("6.5"), "6.5");
        assert_eq!(spoken("8.0.3.0"), "8.0.3.0");
        assert_eq!(spoken("99.0"), API_VERSION);
        assert_eq!(spoken(API_VERSION), API_VERSION);
    }

    #[test]
    fn credentials_show_whose_they_are_and_no_more() {
        let shown = format!("{:?}", Credentials::password("jane", "hunter2"));
        assert!(shown.contains("jane") && !shown.contains("hunter2"), "{shown}");
        assert!(!format!("{:?}", Credentials::Token(Secret::new("<Assertion/>"))).contains("Assertion"));
    }
}
