//! The small web server for those who watch the operator, Prometheus and the kubelet that asks whether it is well, and for the API server
//! that asks what to admit.
//!
//! Anybody in the cluster may reach it, so nobody gets much of it: few connections, short headers, little time. Who asks at once is
//! answered, unless hundreds come in that very moment from many addresses.

mod access;
mod certificates;
mod flags;
mod places;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::future::BoxFuture;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use tracing::{debug, info, warn};

use crate::{
    http::flags::{Address, Serve},
    loops::{Loops, Pulse, Running, trial},
    telemetry::metrics::{Format, Metrics},
};
pub(crate) use access::Access;
pub(crate) use certificates::{BadCertificate, Certificates, Pair};
pub(crate) use flags::Serving;
use places::Places;

/// How long somebody may take to say what he wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a connection lasts, whatever is done with it. Whoever reads too slowly doesn't get to the end.
const LONGEST: Duration = Duration::from_secs(15);
/// How many connections there are at once.
const CONNECTIONS: usize = 256;
/// How long a request may be, and how many headers it may have.
const REQUEST: usize = 16 << 10;
const HEADERS: usize = 64;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unavailable {
    #[error("{flag}: {address} can't be listened on: {source}; choose another, or 0 for none")]
    Taken { flag: &'static str, address: Address, source: io::Error },
    #[error("--metrics-cert-dir is for --metrics-secure: without it, metrics are served without a certificate")]
    NotSecure,
    #[error(transparent)]
    Certificate(#[from] BadCertificate),
}

/// Whether the operator is ready to work, and to be asked. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<(AtomicBool, AtomicBool)>);

impl Readiness {
    /// From now on it is ready to work.
    pub(crate) fn set(&self) {
        self.0.0.store(true, Ordering::Relaxed);
    }

    /// Whether nobody trusts yet in what it answers.
    pub(crate) fn set_distrusted(&self, is_so: bool) {
        self.0.1.store(is_so, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) && !self.0.1.load(Ordering::Relaxed)
    }
}

/// Who answers at an address.
pub(crate) trait Handler: Send + Sync {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>>;

    /// What is shown to those who connect. `None`: it is spoken in clear text.
    fn shown(&self) -> Option<Arc<ServerConfig>>;
}

/// What is told of the operator.
#[derive(Clone)]
pub(crate) struct Sources {
    pub metrics: Metrics,
    pub ready: Readiness,
    pub loops: Loops,
}

/// What is served at one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoints {
    Metrics,
    Health,
    Both,
}

/// One address, and what is served there, to whom.
struct Site {
    endpoints: Endpoints,
    sources: Sources,
    access: Access,
    certificates: Option<Certificates>,
}

/// Serves `/metrics`, `/healthz` and `/readyz` as the flags say, until what this returns is dropped. Who may read the metrics is
/// asked of the API server, once there is one to ask.
pub(crate) async fn start(
    metrics: &Serve,
    serving: &Serving,
    sources: &Sources,
) -> Result<(Vec<Running>, Access), Unavailable> {
    if serving.metrics_cert_dir.is_some() && !serving.metrics_secure {
        return Err(Unavailable::NotSecure);
    }
    let mut running = Vec::new();
    let mut endpoints = Endpoints::Both;
    if let Serve::At(address) = &serving.health_probe_bind_address {
        let site =
            Site { endpoints: Endpoints::Health, sources: sources.clone(), access: Access::open(), certificates: None };
        running.push(listen("--health-probe-bind-address", address, site).await?);
        endpoints = Endpoints::Metrics;
    }
    let access = if serving.metrics_secure { Access::guarded() } else { Access::open() };
    if let Serve::At(address) = metrics {
        let certificates = serving
            .metrics_secure
            .then(|| Certificates::of_metrics(serving.metrics_cert_dir.as_deref()))
            .transpose()?;
        let site = Site { endpoints, sources: sources.clone(), access: access.clone(), certificates };
        running.push(listen("--metrics-addr", address, site).await?);
    }
    Ok((running, access))
}

async fn listen(flag: &'static str, address: &Address, site: Site) -> Result<Running, Unavailable> {
    let (loops, is_health) = (site.sources.loops.clone(), site.endpoints == Endpoints::Health);
    let name = if is_health { "health server" } else { "server" };
    let (at, running) = open(flag, address, name, &loops, Arc::new(site)).await?;
    if is_health {
        info!(address = %at, "Health served");
    } else {
        info!(address = %at, "Metrics served");
    }
    Ok(running)
}

/// Has somebody answer at an address, until what this returns is dropped.
pub(crate) async fn open(
    flag: &'static str,
    address: &Address,
    name: &str,
    loops: &Loops,
    handler: Arc<dyn Handler>,
) -> Result<(SocketAddr, Running), Unavailable> {
    let taken = |source| Unavailable::Taken { flag, address: address.clone(), source };
    let listener = address.bind().await.map_err(taken)?;
    let at = listener.local_addr().map_err(taken)?;
    Ok((at, loops.start(name, |pulse| take_in(listener, handler, pulse))))
}

/// Answers those who come, side by side. Nobody answers when this ends.
async fn take_in(listener: TcpListener, handler: Arc<dyn Handler>, pulse: Pulse) {
    let mut places = Places::new(CONNECTIONS);
    let mut conversations = JoinSet::new();
    loop {
        while conversations.try_join_next().is_some() {}
        match pulse.wait(listener.accept()).await {
            Ok((stream, from)) => {
                let conversation = conversations.spawn(serve_client(stream, Arc::clone(&handler)));
                places.give(from.ip(), conversation);
                // Whoever has asked already is heard before others come who could have him sent away.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                warn!(%error, "Connection not accepted");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

/// Answers one question: they come seldom, and nobody keeps a connection for nothing.
async fn serve_client(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, handler: Arc<dyn Handler>) {
    let conversation = async {
        let Some(config) = handler.shown() else { return answer(stream, handler).await };
        match timeout(PATIENCE, TlsAcceptor::from(config).accept(stream)).await {
            Ok(Ok(stream)) => answer(stream, handler).await,
            Ok(Err(error)) => debug!(%error, "a connection could not be secured"),
            Err(_) => debug!("a connection was not secured in time"),
        }
    };
    if timeout(LONGEST, conversation).await.is_err() {
        debug!("a connection took too long");
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, handler: Arc<dyn Handler>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.answer(request).await) }
    });
    let mut server = http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    server.max_buf_size(REQUEST).max_headers(HEADERS);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), answer).await {
        debug!(%error, "a connection broke");
    }
}

impl Handler for Site {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> {
        Box::pin(async move { self.tell(request.method(), request.uri().path(), request.headers()).await })
    }

    fn shown(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.as_ref().map(Certificates::config)
    }
}

impl Site {
    async fn tell(&self, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
        const PLAIN: &str = "text/plain; charset=utf-8";
        let (metrics, health) = (self.endpoints != Endpoints::Health, self.endpoints != Endpoints::Metrics);
        let (status, media_type, text) = match path {
            _ if method == Method::POST && trial::tell(path) => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
            _ if method != Method::GET && method != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned())
            }
            "/metrics" if metrics => match self.access.check(headers).await {
                Ok(()) => {
                    let format = Format::accepted(headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()));
                    match self.sources.metrics.scrape(format) {
                        Ok(text) => (StatusCode::OK, format.media_type(), text),
                        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
                    }
                }
                Err(refusal) => (refusal.status(), PLAIN, format!("{refusal}\n")),
            },
            "/healthz" if health => {
                let still = self.sources.loops.still();
                if still.is_empty() {
                    (StatusCode::OK, PLAIN, "ok\n".to_owned())
                } else {
                    (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{}\n", still.join("; ")))
                }
            }
            "/readyz" if health && self.sources.ready.get() => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
            "/readyz" if health => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting\n".to_owned()),
            _ => (StatusCode::NOT_FOUND, PLAIN, self.endpoints.sentence().to_owned()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl Endpoints {
    /// What there is, for those who ask for something else.
    fn sentence(self) -> &'static str {
        match self {
            Self::Metrics => "there is /metrics\n",
            Self::Health => "there are /healthz and /readyz\n",
            Self::Both => "there are /metrics, /healthz and /readyz\n",
        }
    }
}

#[cfg(test)]
mod tests;
