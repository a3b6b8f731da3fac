//! The small web server for those who watch the operator: Prometheus, and the kubelet that asks whether it is well.

use std::{
    convert::Infallible,
    fmt, io,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::CONTENT_TYPE,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tracing::{debug, info, warn};

use crate::{
    loops::{Loops, Running, trial},
    metrics::{self, Metrics},
};

/// How long somebody may take to say what he wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where to listen, as Go writes it: `:8080` is every address of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

/// Text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write :PORT, HOST:PORT, or 0 for none")]
pub(crate) struct BadAddress;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[error("--metrics-addr: {address} can't be listened on: {source}; choose another, or 0 for none")]
pub(crate) struct Unavailable {
    address: Address,
    source: io::Error,
}

/// Whether the operator is ready to work. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// From now on it is.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn get(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is told of the operator.
#[derive(Clone)]
pub(crate) struct Told {
    pub metrics: Metrics,
    pub ready: Readiness,
    pub loops: Loops,
}

/// Serves `/metrics`, `/healthz` and `/readyz` until it is dropped.
pub(crate) async fn start(address: &Address, told: Told) -> Result<Running, Unavailable> {
    let unavailable = |source| Unavailable { address: address.clone(), source };
    let listener = address.bind().await.map_err(unavailable)?;
    info!(address = %listener.local_addr().map_err(unavailable)?, "metrics are served");
    let loops = told.loops.clone();
    Ok(loops.start("server", |pulse| async move {
        // Those who ask are answered side by side; nobody answers when this ends.
        let mut conversations = JoinSet::new();
        loop {
            match pulse.wait(listener.accept()).await {
                Ok((stream, _)) => drop(conversations.spawn(converse(stream, told.clone()))),
                Err(error) => {
                    warn!(%error, "a connection for metrics could not be taken");
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            }
            while conversations.try_join_next().is_some() {}
        }
    }))
}

async fn converse(stream: TcpStream, told: Told) {
    let answer = service_fn(|request: Request<Incoming>| {
        let answer = answer(request.method(), request.uri().path(), &told);
        async { Ok::<_, Infallible>(answer) }
    });
    // One question a connection: they come seldom, and nobody keeps a connection for nothing.
    let mut server = http1::Builder::new();
    server.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    if let Err(error) = server.serve_connection(TokioIo::new(stream), answer).await {
        debug!(%error, "a connection for metrics broke");
    }
}

fn answer(method: &Method, path: &str, told: &Told) -> Response<Full<Bytes>> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    let still = told.loops.still();
    let (status, format, text) = match path {
        _ if method == Method::POST && trial::tell(path) => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        _ if method != Method::GET && method != Method::HEAD => {
            (StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_owned())
        }
        "/metrics" => match told.metrics.scrape() {
            Ok(text) => (StatusCode::OK, metrics::FORMAT, text),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{error}\n")),
        },
        "/healthz" if still.is_empty() => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/healthz" => (StatusCode::INTERNAL_SERVER_ERROR, PLAIN, format!("{}\n", still.join("; "))),
        "/readyz" if told.ready.get() => (StatusCode::OK, PLAIN, "ok\n".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, PLAIN, "starting\n".to_owned()),
        _ => (StatusCode::NOT_FOUND, PLAIN, "there are /metrics, /healthz and /readyz\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(format));
    response
}

impl Address {
    async fn bind(&self) -> io::Result<TcpListener> {
        if !self.host.is_empty() {
            return TcpListener::bind((self.host.as_str(), self.port)).await;
        }
        match TcpListener::bind(("::", self.port)).await {
            // There are machines without IPv6.
            Err(error) if error.kind() != io::ErrorKind::AddrInUse => TcpListener::bind(("0.0.0.0", self.port)).await,
            outcome => outcome,
        }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(BadAddress)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bare.is_none() && host.contains(':') {
            // Whether the last part of an IPv6 address is a port can't be told without the brackets.
            return Err(BadAddress);
        }
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port: port.parse().map_err(|_| BadAddress)? })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_go_writes_them() {
        for text in [":8080", "0.0.0.0:8080", "127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "8080", "localhost", "127.0.0.1:http", ":70000", "::1:8080"] {
            assert_eq!(text.parse::<Address>(), Err(BadAddress), "{text}");
        }
    }

    #[test]
    fn it_is_well_from_the_start_and_ready_when_it_says_so() {
        let told = Told { metrics: Metrics::new(), ready: Readiness::default(), loops: Loops::default() };
        let status = |method: Method, path| answer(&method, path, &told).status().as_u16();
        assert_eq!(status(Method::GET, "/healthz"), 200);
        assert_eq!(status(Method::GET, "/readyz"), 503);
        told.ready.set();
        assert_eq!(status(Method::GET, "/readyz"), 200);
        assert_eq!(status(Method::HEAD, "/metrics"), 200);
        assert_eq!(status(Method::POST, "/metrics"), 405);
        assert_eq!(status(Method::GET, "/"), 404);
    }

    #[tokio::test]
    async fn a_port_in_use_is_said_in_one_line_with_what_to_do() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: Address = taken.local_addr().unwrap().to_string().parse().unwrap();
        let told = Told { metrics: Metrics::new(), ready: Readiness::default(), loops: Loops::default() };
        let refused = start(&address, told).await.unwrap_err().to_string();
        assert!(refused.starts_with(&format!("--metrics-addr: {address} can't be listened on: ")), "{refused}");
        assert!(refused.ends_with("choose another, or 0 for none") && refused.lines().count() == 1, "{refused}");
    }
}
