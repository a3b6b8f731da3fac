//! SOAP messages over HTTP: one request, one answer, within limits of time and size.

use std::{
    error::Error as StdError,
    io::Read,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, Error as ClientError, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};

use crate::wire::NOT_SHOWN;

use super::{
    Call, Endpoint, Observer, Settings,
    connect::Within,
    trust::{BadTrust, Shown, Thumbprint, client_config, objection},
};

/// Why there is no answer that could be read. Each says what to look at.
///
/// Whoever answers at an address need not be a vCenter, so no sentence repeats what was answered. The fields have it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// No connection could be made.
    #[error("connecting to {endpoint}: {reason}")]
    Connect {
        /// The vCenter.
        endpoint: String,
        /// What the system says.
        reason: String,
    },
    /// The server's certificate isn't trusted.
    #[error(
        "the certificate of {endpoint} is not trusted: {reason}; trust its authority, or pin its SHA-256 thumbprint{}",
        .thumbprint.map(|thumbprint| format!(" {thumbprint}")).unwrap_or_default()
    )]
    Certificate {
        /// The vCenter.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
        /// The thumbprint of the certificate that was shown.
        thumbprint: Option<Thumbprint>,
    },
    /// The connection ended before the answer did.
    #[error("the connection to {endpoint} broke: {reason}")]
    Broken {
        /// The vCenter.
        endpoint: String,
        /// What the system says.
        reason: String,
    },
    /// The answer took too long.
    #[error("{endpoint} has not answered within {after:?}")]
    Timeout {
        /// The vCenter.
        endpoint: String,
        /// How long was waited.
        after: Duration,
    },
    /// The server answered, but not as a vCenter that is ready does.
    #[error("{endpoint} answered with HTTP {status}: it is a vCenter that is not ready, or none")]
    Http {
        /// The vCenter.
        endpoint: String,
        /// The status.
        status: StatusCode,
        /// How the answer begins.
        beginning: String,
    },
    /// The server says that the API is elsewhere. Calls carry a session, so they don't follow.
    #[error("{endpoint} redirects to another address: use the vCenter's own")]
    Redirect {
        /// The vCenter.
        endpoint: String,
        /// Where to.
        location: String,
    },
    /// The answer is no XML: perhaps a proxy's page.
    #[error("{endpoint} answered with something else than XML, as a proxy or a web server does")]
    NotXml {
        /// The vCenter.
        endpoint: String,
        /// What the answer says that it is.
        content_type: String,
        /// How the answer begins.
        beginning: String,
    },
    /// The answer is larger than allowed.
    #[error("the answer of {endpoint} is larger than {limit} bytes")]
    TooLarge {
        /// The vCenter.
        endpoint: String,
        /// The limit.
        limit: usize,
    },
}

impl TransportError {
    /// The same without what was answered.
    pub(super) fn unquoted(mut self) -> Self {
        match &mut self {
            Self::Http { beginning, .. } => NOT_SHOWN.clone_into(beginning),
            Self::Redirect { location, .. } => NOT_SHOWN.clone_into(location),
            Self::NotXml { content_type, beginning, .. } => {
                NOT_SHOWN.clone_into(content_type);
                NOT_SHOWN.clone_into(beginning);
            }
            Self::Connect { .. }
            | Self::Certificate { .. }
            | Self::Broken { .. }
            | Self::Timeout { .. }
            | Self::TooLarge { .. } => {}
        }
        self
    }
}

/// What came back: XML, with the session's cookie where there is one.
pub(super) struct Answer {
    pub body: Vec<u8>,
    pub cookie: Option<String>,
}

#[derive(Debug)]
pub(super) struct Transport {
    client: Client<Within<HttpsConnector<HttpConnector>>, Full<Bytes>>,
    endpoint: Endpoint,
    shown: Shown,
    settings: Settings,
}

impl Transport {
    pub(super) fn new(endpoint: Endpoint, settings: Settings) -> Result<Self, BadTrust> {
        let (tls, shown) = client_config(&settings.trust)?;
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_connect_timeout(Some(settings.connect_timeout));
        // A long poll is silent for minutes: this is what notices that the other side is gone.
        http.set_keepalive(Some(Duration::from_secs(30)));
        http.set_keepalive_interval(Some(Duration::from_secs(10)));
        http.set_keepalive_retries(Some(3));
        let https =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_mins(1))
            .pool_max_idle_per_host(8)
            .build(Within { limit: settings.connect_timeout, connector: https });
        Ok(Self { client, endpoint, shown, settings })
    }

    pub(super) fn thumbprint(&self) -> Option<Thumbprint> {
        self.shown.get()
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// How long a call may take that does not wait by itself.
    pub(super) fn request_timeout(&self) -> Duration {
        self.settings.request_timeout
    }

    /// Makes a call, and tells the observer of its end.
    pub(super) async fn observed<M: crate::Method, T>(
        &self,
        call: impl Future<Output = crate::Result<T>>,
    ) -> crate::Result<T> {
        let Some(Observer(tell)) = &self.settings.observer else { return call.await };
        let began = Instant::now();
        let outcome = call.await;
        tell(Call { method: M::NAME, took: began.elapsed(), error: outcome.as_ref().err() });
        outcome
    }

    /// Sends a message and returns the answer, which may take as long as the limit.
    pub(super) async fn post(
        &self,
        message: Vec<u8>,
        action: &str,
        cookie: Option<&str>,
        limit: Duration,
    ) -> Result<Answer, TransportError> {
        match tokio::time::timeout(limit, self.exchange(message, action, cookie)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(TransportError::Timeout { endpoint: self.name(), after: limit }),
        }
    }

    async fn exchange(&self, message: Vec<u8>, action: &str, cookie: Option<&str>) -> Result<Answer, TransportError> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.endpoint.uri())
            .header(header::CONTENT_TYPE, "text/xml; charset=utf-8")
            .header("SOAPAction", action)
            .header(header::ACCEPT_ENCODING, "gzip")
            .header(header::USER_AGENT, &self.settings.user_agent);
        if let Some(cookie) = cookie {
            request = request.header(header::COOKIE, cookie);
        }
        let broken = |reason: String| TransportError::Broken { endpoint: self.name(), reason };
        // Only a user agent or a cookie with characters that no header can have gets here.
        let request = request.body(Full::from(message)).map_err(|error| broken(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| self.no_response(&error))?;
        self.read(response).await
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Answer, TransportError> {
        let (head, body) = response.into_parts();
        let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if head.status.is_redirection() {
            return Err(TransportError::Redirect {
                endpoint: self.name(),
                location: text(header::LOCATION).chars().take(BEGINNING).collect(),
            });
        }
        let body = Limited::new(body, self.settings.max_response).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                return self.too_large();
            }
            TransportError::Broken { endpoint: self.name(), reason: cause(&*error).to_string() }
        })?;
        let mut body: Vec<u8> = body.to_bytes().into();
        if text(header::CONTENT_ENCODING) == "gzip" {
            body = self.unzip(&body)?;
        }
        let beginning = || String::from_utf8_lossy(&body[..body.len().min(BEGINNING)]).into_owned();
        let content_type = text(header::CONTENT_TYPE);
        // What says nothing of itself may still be XML; the reader will tell.
        let is_xml = content_type.is_empty() || content_type.contains("xml");
        // vCenter answers a fault with status 500. Any other status is not its SOAP service speaking.
        let is_answer = head.status.is_success() || is_xml && head.status == StatusCode::INTERNAL_SERVER_ERROR;
        if !is_answer {
            return Err(TransportError::Http { endpoint: self.name(), status: head.status, beginning: beginning() });
        }
        if !is_xml {
            let content_type = content_type.chars().take(BEGINNING).collect();
            return Err(TransportError::NotXml { endpoint: self.name(), content_type, beginning: beginning() });
        }
        let cookies = head.headers.get_all(header::SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
        let session = cookies.filter_map(|cookie| cookie.split(';').next()).find(|pair| pair.starts_with(COOKIE));
        Ok(Answer { cookie: session.map(ToOwned::to_owned), body })
    }

    fn unzip(&self, body: &[u8]) -> Result<Vec<u8>, TransportError> {
        let mut plain = Vec::with_capacity((body.len() * 4).min(self.settings.max_response));
        let limit = self.settings.max_response as u64;
        let read = flate2::read::MultiGzDecoder::new(body).take(limit + 1).read_to_end(&mut plain);
        read.map_err(|error| TransportError::Broken { endpoint: self.name(), reason: error.to_string() })?;
        if plain.len() > self.settings.max_response { Err(self.too_large()) } else { Ok(plain) }
    }

    fn no_response(&self, error: &ClientError) -> TransportError {
        let endpoint = self.name();
        let reason = cause(error);
        if let Some(rustls::Error::InvalidCertificate(problem)) = find::<rustls::Error>(error) {
            return TransportError::Certificate { endpoint, reason: objection(problem), thumbprint: self.shown.get() };
        }
        if let Some(rustls::Error::InvalidMessage(_)) = find(error) {
            let reason = "it does not answer with TLS; is this an HTTP port, or a proxy?".to_owned();
            return TransportError::Connect { endpoint, reason };
        }
        if error.is_connect() {
            return TransportError::Connect { endpoint, reason: reason.to_string() };
        }
        TransportError::Broken { endpoint, reason: reason.to_string() }
    }

    fn too_large(&self) -> TransportError {
        TransportError::TooLarge { endpoint: self.name(), limit: self.settings.max_response }
    }

    fn name(&self) -> String {
        self.endpoint.to_string()
    }
}

const COOKIE: &str = "vmware_soap_session=";
/// How much of an answer is kept that can't be used.
const BEGINNING: usize = 200;

/// The innermost error, which says what happened; those around it say where in the HTTP client.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    std::iter::successors(Some(error), |&error| error.source()).last().unwrap_or(error)
}

fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    // An io::Error hides what it wraps from source().
    std::iter::successors(Some(error), |&error| {
        let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        wrapped.map_or_else(|| error.source(), |inner| Some(inner as &(dyn StdError + 'static)))
    })
    .find_map(|error| error.downcast_ref())
}
