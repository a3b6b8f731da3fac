//! Spans on their way to a collector: OTLP as JSON over HTTP, in batches.

use std::{convert::Infallible, env, fs, io, mem, sync::atomic::Ordering, time::Duration};

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Uri,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT},
};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use tracing::warn;

use super::{DROPPED, QUEUE, SPANS, Span, TraceFlags};

/// How many spans are sent at once, at most.
const BATCH: usize = 512;
/// How long spans are gathered before they are sent.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a collector may take when the operator ends.
const FAREWELL: Duration = Duration::from_secs(1);
/// How long nothing is sent to a collector that has failed.
const PAUSE: Duration = Duration::from_secs(5);
/// How much of an answer is read.
const LONGEST: usize = 64 * 1024;

/// The variables that say where to send them: traces, or all that a program has to tell.
const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// Why traces can't be sent as asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadEndpoint {
    #[error("{0}: {1:?} is no URL such as http://collector:4318")]
    Url(&'static str, String),
    #[error("OTEL_EXPORTER_OTLP_HEADERS is no list such as name=value,name=value")]
    Headers,
    #[error("OTEL_EXPORTER_OTLP_CERTIFICATE: {0}: {1}")]
    Certificate(String, String),
    #[error("traces can't be sent over TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends spans to a collector, or does nothing where nobody asks for it.
pub(crate) struct Exporter(Option<Sender>);

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

struct Sender {
    spans: mpsc::Receiver<Span>,
    /// Those that are being gathered.
    pending: Vec<Span>,
    client: HttpClient,
    /// The request that is under way.
    sending: Option<JoinHandle<Result<(), String>>>,
    uri: Uri,
    headers: Vec<(HeaderName, HeaderValue)>,
    resource: Value,
}

impl Exporter {
    /// Begins to take spans, if a flag or the environment says where to send them.
    pub(crate) fn start(flags: &TraceFlags) -> Result<Self, BadEndpoint> {
        let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let below = |name: &'static str, url: String| {
            let whole = format!("{}/v1/traces", url.trim_end_matches('/'));
            endpoint(&whole).ok_or(BadEndpoint::Url(name, url))
        };
        let uri = match (&flags.otlp_endpoint, set(TRACES), set(ALL)) {
            (Some(url), ..) => below("--otlp-endpoint", url.clone())?,
            (None, Some(url), _) => endpoint(&url).ok_or(BadEndpoint::Url(TRACES, url))?,
            (None, None, Some(url)) => below(ALL, url)?,
            (None, None, None) => return Ok(Self(None)),
        };
        let headers = set("OTEL_EXPORTER_OTLP_HEADERS").map_or(Some(Vec::new()), |text| headers(&text));
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(set("OTEL_EXPORTER_OTLP_CERTIFICATE"))?)
            .https_or_http()
            .enable_http1()
            .build();
        let service = set("OTEL_SERVICE_NAME").unwrap_or_else(|| "drover".to_owned());
        let mut resource =
            vec![attribute("service.name", &service), attribute("service.version", env!("CARGO_PKG_VERSION"))];
        resource.extend(set("POD_NAME").map(|pod| attribute("service.instance.id", &pod)));
        let (sender, spans) = mpsc::channel(QUEUE);
        // An operator starts once.
        let _ = SPANS.set(sender);
        Ok(Self(Some(Sender {
            spans,
            pending: Vec::new(),
            sending: None,
            client: Client::builder(TokioExecutor::new()).build(connector),
            uri,
            headers: headers.ok_or(BadEndpoint::Headers)?,
            resource: json!({"attributes": resource}),
        })))
    }

    /// Sends what there is, for as long as the operator runs.
    pub(crate) async fn run(&mut self) -> Infallible {
        let Some(sender) = &mut self.0 else { return std::future::pending().await };
        loop {
            sender.gather().await;
            let outcome = sender.send(PATIENCE).await;
            let dropped = DROPPED.swap(0, Ordering::Relaxed);
            if dropped > 0 {
                warn!(spans = dropped, "Trace spans dropped; the collector is too slow");
            }
            if let Err(error) = outcome {
                warn!(collector = %sender.uri.host().unwrap_or_default(), error, "Traces not sent");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Sends what is left, if the collector takes it at once.
    pub(crate) async fn flush(&mut self) {
        let Some(sender) = &mut self.0 else { return };
        let until = Instant::now() + FAREWELL;
        loop {
            while sender.pending.len() < BATCH
                && let Ok(span) = sender.spans.try_recv()
            {
                sender.pending.push(span);
            }
            let left = until.saturating_duration_since(Instant::now());
            let is_all = sender.pending.is_empty() && sender.sending.is_none();
            if is_all || sender.send(left).await.is_err() {
                return;
            }
        }
    }
}

impl Sender {
    /// Waits for a span, and then a little for others.
    async fn gather(&mut self) {
        if self.pending.is_empty() {
            match self.spans.recv().await {
                Some(span) => self.pending.push(span),
                // The other end is never dropped.
                None => std::future::pending().await,
            }
        }
        let until = Instant::now() + GATHER;
        while self.pending.len() < BATCH
            && let Ok(Some(span)) = timeout_at(until, self.spans.recv()).await
        {
            self.pending.push(span);
        }
    }

    /// Sends what was gathered, by a task of its own: who stops to wait for it, when the operator ends, neither loses it nor sends it
    /// again. Whatever comes of it, it is not sent again: a collector that takes a batch and answers late would have it twice.
    async fn send(&mut self, within: Duration) -> Result<(), String> {
        if self.sending.is_none() {
            let body = body(&self.resource, &mem::take(&mut self.pending)).to_string();
            let mut request = Request::post(self.uri.clone())
                .header(CONTENT_TYPE, "application/json")
                .header(USER_AGENT, concat!("drover/", env!("CARGO_PKG_VERSION")));
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            let request = request.body(Full::from(body)).map_err(|error| error.to_string())?;
            #[expect(clippy::disallowed_methods, reason = "it is awaited or aborted below")]
            let sending = tokio::spawn(deliver(self.client.clone(), request));
            self.sending = Some(sending);
        }
        let Some(sending) = &mut self.sending else { return Ok(()) };
        let outcome = timeout(within, &mut *sending).await;
        if outcome.is_err() {
            sending.abort();
        }
        self.sending = None;
        match outcome {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panicked)) => Err(panicked.to_string()),
            Err(_) => Err(format!("the collector has not answered within {within:?}")),
        }
    }
}

async fn deliver(client: HttpClient, request: Request<Full<Bytes>>) -> Result<(), String> {
    let answer = client.request(request).await.map_err(|error| sentence(&error))?;
    let status = answer.status();
    // So that the connection can be used again.
    let _ = Limited::new(answer.into_body(), LONGEST).collect().await;
    if status.is_success() { Ok(()) } else { Err(format!("the collector answered with {status}")) }
}

/// An error with what it comes from.
fn sentence(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |sentence, cause| format!("{sentence}: {cause}"))
}

fn endpoint(url: &str) -> Option<Uri> {
    let uri: Uri = url.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    (is_http && uri.host().is_some_and(|host| !host.is_empty())).then_some(uri)
}

fn headers(text: &str) -> Option<Vec<(HeaderName, HeaderValue)>> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=')?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name.trim().to_ascii_lowercase().parse().ok()?, value))
        })
        .collect()
}

/// Whom to believe: the authorities in a file, or those that the machine trusts.
fn tls(file: Option<String>) -> Result<ClientConfig, BadEndpoint> {
    let mut roots = RootCertStore::empty();
    match file {
        Some(file) => {
            let bad = |error: String| BadEndpoint::Certificate(file.clone(), error);
            let text = fs::read(&file).map_err(|error: io::Error| bad(error.to_string()))?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let certificate = certificate.map_err(|error| bad(error.to_string()))?;
                roots.add(certificate).map_err(|error| bad(error.to_string()))?;
            }
        }
        // Where there are none, only plain HTTP can be used.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    let provider = rustls::crypto::ring::default_provider();
    let config = ClientConfig::builder_with_provider(provider.into()).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A request of OTLP, as its JSON encoding has it: ids in hexadecimal digits, times as text.
fn body(resource: &Value, spans: &[Span]) -> Value {
    let spans: Vec<_> = spans.iter().map(span).collect();
    let scope = json!({"name": "drover", "version": env!("CARGO_PKG_VERSION")});
    json!({"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]})
}

fn span(span: &Span) -> Value {
    const INTERNAL: u32 = 1;
    let (ok, error) = (1, 2);
    let attributes: Vec<_> = span.attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    let mut written = json!({
        "traceId": format!("{:032x}", span.context.trace),
        "spanId": format!("{:016x}", span.context.span),
        "name": span.name,
        "kind": INTERNAL,
        "startTimeUnixNano": span.began.as_nanosecond().to_string(),
        "endTimeUnixNano": span.ended.as_nanosecond().to_string(),
        "attributes": attributes,
        "status": match &span.error {
            Some(why) => json!({"code": error, "message": why}),
            None => json!({"code": ok}),
        },
    });
    if let Some(parent) = span.parent {
        written["parentSpanId"] = format!("{parent:016x}").into();
    }
    written
}

#[cfg(test)]
mod tests {
    use drover_core::Timestamp;

    use super::{super::Context, *};

    #[test]
    fn a_span_is_written_as_collectors_read_it() {
        let whole = Span {
            context: Context { trace: 0xab, span: 0xcd },
            parent: Some(0xef),
            name: "Clone".to_owned(),
            began: Timestamp::from_second(1).unwrap(),
            ended: Timestamp::from_second(3).unwrap(),
            attributes: vec![("drover.vm", "web-1".to_owned())],
            error: Some("no room".to_owned()),
        };
        let written = body(&json!({"attributes": []}), std::slice::from_ref(&whole));
        let expected = json!({
            "traceId": "000000000000000000000000000000ab", "spanId": "00000000000000cd", "parentSpanId": "00000000000000ef",
            "name": "Clone", "kind": 1, "startTimeUnixNano": "1000000000", "endTimeUnixNano": "3000000000",
            "attributes": [{"key": "drover.vm", "value": {"stringValue": "web-1"}}],
            "status": {"code": 2, "message": "no room"},
        });
        assert_eq!(written["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([expected]));
        let well = span(&Span { parent: None, error: None, ..whole });
        assert_eq!((&well["status"], well.get("parentSpanId")), (&json!({"code": 1}), None));
    }

    #[test]
    fn where_to_send_and_with_which_headers_is_read_as_the_standard_says() {
        assert_eq!(endpoint("http://collector:4318/v1/traces").unwrap().path(), "/v1/traces");
        for nonsense in ["collector:4318", "ftp://collector", "http://", "grpc"] {
            assert_eq!(endpoint(nonsense), None, "{nonsense}");
        }
        let read = headers("Authorization=Bearer a=b, x-team = ops,").unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(read, [("authorization", "Bearer a=b"), ("x-team", "ops")]);
        assert!(headers("nonsense").is_none() && headers("b a d=1").is_none());
    }
}
