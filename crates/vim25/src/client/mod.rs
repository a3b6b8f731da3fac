//! A vCenter that can be called: one session, logged in when needed, shared by any number of callers.

mod connect;
mod endpoint;
mod refusals;
mod retrieve;
mod session;
mod transport;
mod trust;

use std::{fmt, sync::Arc, time::Duration};

pub use endpoint::{BadEndpoint, Endpoint};
pub use session::{Credentials, Session};
pub use transport::TransportError;
pub use trust::{BadThumbprint, BadTrust, Thumbprint, Trust};

use crate::{
    Error, Limits, Method, Result,
    faults::{ConcurrentAccess, HostCommunication, NotAuthenticated, TaskInProgress},
    read_response_within, to_envelope,
    types::ServiceContent,
};
use refusals::Pauses;
use session::Sessions;
use transport::Transport;

/// How to talk to a vCenter. The defaults suit a vCenter that other people use too.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which certificates are believed.
    pub trust: Trust,
    /// How long making a connection may take.
    pub connect_timeout: Duration,
    /// How long a call may take. What a long poll waits for comes on top.
    pub request_timeout: Duration,
    /// After vCenter has refused a login, how long the account is not tried, whatever its credentials are: vCenter locks accounts.
    pub login_pause: Duration,
    /// How often refused credentials are tried again: vCenter refuses right ones too while its directory is out of reach.
    pub login_retry: Duration,
    /// How many bytes an answer may have.
    pub max_response: usize,
    /// How the client calls itself in vCenter's list of sessions.
    pub user_agent: String,
    /// Who is told of each call.
    pub observer: Option<Observer>,
}

/// Is told of each call that has ended, logins and logouts included.
#[derive(Clone)]
pub struct Observer(Arc<dyn Fn(Call<'_>) + Send + Sync>);

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The method's name.
    pub method: &'static str,
    /// How long it took.
    pub took: Duration,
    /// Why there is no answer, or none without a fault.
    pub error: Option<&'a Error>,
}

impl Observer {
    /// Has a function told.
    pub fn new(tell: impl Fn(Call<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_mins(1),
            login_pause: Duration::from_mins(1),
            login_retry: Duration::from_mins(15),
            // A page of what is watched has 100 objects, and of what is asked for 1000.
            max_response: 48 << 20,
            user_agent: concat!("vim25/", env!("CARGO_PKG_VERSION")).to_owned(),
            observer: None,
        }
    }
}

/// A vCenter. Clones share its one session.
#[derive(Clone, Debug)]
pub struct Client {
    transport: Arc<Transport>,
    sessions: Arc<Sessions>,
}

impl Client {
    /// A client that has not said anything yet: the first call connects and logs in.
    pub fn new(endpoint: Endpoint, credentials: Credentials, settings: Settings) -> Result<Self, BadTrust> {
        let pauses = Pauses { any: settings.login_pause, same: settings.login_retry };
        let transport = Arc::new(Transport::new(endpoint, settings)?);
        Ok(Self { sessions: Arc::new(Sessions::new(credentials, pauses)), transport })
    }

    /// The vCenter's address.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        self.transport.endpoint()
    }

    /// The session, after a login if there is none.
    pub async fn session(&self) -> Result<Arc<Session>> {
        self.sessions.get(&self.transport).await
    }

    /// The session, if there is one.
    pub async fn current_session(&self) -> Option<Arc<Session>> {
        self.sessions.current().await
    }

    /// Whether there is a session, as far as is known: vCenter may have ended it without a word.
    #[must_use]
    pub fn is_logged_in(&self) -> bool {
        self.sessions.is_live()
    }

    /// The thumbprint of the certificate that the server showed last, trusted or not.
    #[must_use]
    pub fn thumbprint(&self) -> Option<Thumbprint> {
        self.transport.thumbprint()
    }

    /// The service's root objects and what it says of itself.
    pub async fn content(&self) -> Result<ServiceContent> {
        Ok(self.session().await?.content.clone())
    }

    /// Calls a method. Where the session has expired, logs in again and calls once more.
    pub async fn call<M: Method>(&self, request: &M) -> Result<M::Response> {
        self.call_patiently(request, Duration::ZERO).await
    }

    /// [`Client::call`] for a method that waits by itself for up to `patience` before it answers.
    pub async fn call_patiently<M: Method>(&self, request: &M, patience: Duration) -> Result<M::Response> {
        let limit = self.transport.request_timeout().saturating_add(patience);
        let session = self.session().await?;
        match self.call_in(&session, request, limit).await {
            Err(error) if error.is_session_lost() => {
                // vCenter refused before it did anything, so the call can be made again.
                self.sessions.forget(&session).await;
                let session = self.session().await?;
                self.call_in(&session, request, limit).await
            }
            outcome => outcome,
        }
    }

    /// Calls a method in this very session. Where it has expired, that is the error: nothing is called in another session, which
    /// may be of another vCenter at the same address. The next [`Client::call`] logs in again.
    pub async fn call_within<M: Method>(&self, session: &Session, request: &M) -> Result<M::Response> {
        let outcome = self.call_in(session, request, self.transport.request_timeout()).await;
        if outcome.as_ref().is_err_and(Error::is_session_lost) {
            self.sessions.forget(session).await;
        }
        outcome
    }

    /// Calls a method in this session and no other, which may take so long.
    pub(crate) async fn call_in<M: Method>(
        &self,
        session: &Session,
        request: &M,
        limit: Duration,
    ) -> Result<M::Response> {
        let message = to_envelope(request)?;
        let call = async {
            let answer = self.transport.post(message, &session.action, Some(session.cookie.expose()), limit).await?;
            read_response_within::<M>(&answer.body, Limits::default())
        };
        self.transport.observed::<M, _>(call).await
    }

    /// Gives the session up if it is this one, so that the next call logs in.
    pub(crate) async fn forget(&self, session: &Session) {
        self.sessions.forget(session).await;
    }

    /// Replaces the credentials, of which `stamp` says which writing they are. The session goes on; the next login uses the new ones.
    ///
    /// Where vCenter has refused the last login, other credentials, and the same ones with another stamp, are tried once
    /// [`Settings::login_pause`] is over. The same ones with the same stamp, or the first one, change nothing.
    pub fn set_credentials(&self, credentials: Credentials, stamp: &str) {
        self.sessions.set_credentials(credentials, stamp);
    }

    /// Says which vCenter the credentials are for, by its instance UUID: from the next login on, a server that says to be another one
    /// gets none of them. `None`: any.
    pub fn expect_instance(&self, uuid: Option<String>) {
        self.sessions.expect_instance(uuid);
    }

    /// Returns once a login may be tried: at once, unless vCenter has refused the last one. Then it is when other credentials, or
    /// the same in another writing, and [`Settings::login_pause`] have passed, or [`Settings::login_retry`] without any.
    pub async fn login_allowed(&self) {
        self.sessions.login_allowed().await;
    }

    /// Ends the session, if there is one. A later call would log in again.
    pub async fn logout(&self) -> Result<()> {
        self.sessions.logout(&self.transport).await
    }

    /// Ends the session, if there is one, for good: whatever would have to log in from now on, from whichever clone, gets
    /// [`Error::Closed`].
    pub async fn close(&self) -> Result<()> {
        self.sessions.close(&self.transport).await
    }
}

impl Error {
    /// Whether asking again in a moment may help: the connection broke, or something else was under way.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        let under_way = |fault: &crate::Fault| {
            fault.is::<TaskInProgress>() || fault.is::<ConcurrentAccess>() || fault.is::<HostCommunication>()
        };
        matches!(self, Self::Transport(TransportError::Broken { .. })) || self.fault().is_some_and(under_way)
    }

    /// Whether vCenter no longer knows the session.
    #[must_use]
    pub fn is_session_lost(&self) -> bool {
        matches!(self, Self::Fault(_)) && self.fault().is_some_and(crate::Fault::is::<NotAuthenticated>)
    }
}
