//! A small collector of traces: it takes OTLP as JSON over HTTP, and remembers each span.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use serde_json::Value;

/// A collector of traces, for as long as the test runs.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Span>>>,
}

/// A span as the collector has received it.
#[derive(Clone, Debug)]
pub struct Span {
    /// What it is of.
    pub name: String,
    /// The trace that it is in.
    pub trace: String,
    /// Its id.
    pub id: String,
    /// The span that it is below, if it is below one.
    pub parent: Option<String>,
    /// What is said of it.
    pub attributes: BTreeMap<String, String>,
    /// What is said of the program that it is from.
    pub resource: BTreeMap<String, String>,
    /// How long it took, in nanoseconds.
    pub lasted: u64,
}

impl Collector {
    /// Starts one.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let received: Arc<Mutex<Vec<Span>>> = Arc::default();
        let store = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let store = Arc::clone(&store);
                // Whoever sends breaks off when it is killed.
                thread::spawn(move || drop(converse(&stream, &store)));
            }
        });
        Ok(Self { address, received })
    }

    /// What to give as the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it has received so far.
    #[must_use]
    pub fn spans(&self) -> Vec<Span> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers one request after another.
fn converse(stream: &TcpStream, store: &Mutex<Vec<Span>>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header)?;
            if header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let status = match serde_json::from_slice(&body) {
            Ok(request) if first.starts_with("POST /v1/traces ") => {
                store.lock().unwrap_or_else(PoisonError::into_inner).extend(spans(&request));
                "200 OK"
            }
            _ => "400 Bad Request",
        };
        write!(&mut &*stream, "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}")?;
    }
}

fn spans(request: &Value) -> Vec<Span> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attributes = |of: &Value| -> BTreeMap<String, String> {
        list(&of["attributes"]).iter().map(|one| (text(&one["key"]), text(&one["value"]["stringValue"]))).collect()
    };
    let nanoseconds = |value: &Value| text(value).parse::<u64>().unwrap_or(0);
    let mut spans = Vec::new();
    for of_resource in list(&request["resourceSpans"]) {
        for of_scope in list(&of_resource["scopeSpans"]) {
            for span in list(&of_scope["spans"]) {
                spans.push(Span {
                    name: text(&span["name"]),
                    trace: text(&span["traceId"]),
                    id: text(&span["spanId"]),
                    parent: span["parentSpanId"].as_str().map(ToOwned::to_owned),
                    attributes: attributes(&span),
                    resource: attributes(&of_resource["resource"]),
                    lasted: nanoseconds(&span["endTimeUnixNano"]) - nanoseconds(&span["startTimeUnixNano"]),
                });
            }
        }
    }
    spans
}
