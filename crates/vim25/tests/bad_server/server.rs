//! A server on loopback that reads HTTP requests and does with each what the test's script says.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// What a client has sent.
#[derive(Debug)]
pub(crate) struct Request {
    /// The session's cookie, if there is one.
    pub cookie: Option<String>,
    /// The envelope.
    pub body: String,
}

impl Request {
    /// Whether the envelope calls the method.
    pub(crate) fn calls(&self, method: &str) -> bool {
        self.body.contains(&format!("<{method} "))
    }
}

/// What to answer, as bytes on the wire.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// An answer, after which the connection goes on.
    Whole(Vec<u8>),
    /// An answer, after which the connection is closed.
    Last(Vec<u8>),
    /// A beginning, and then the same bytes over and over, until the client has had enough.
    Endless(Vec<u8>, Vec<u8>),
}

impl Reply {
    /// An answer with a body, and headers beside those that describe it.
    pub(crate) fn new(status: &str, content_type: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut bytes = head(status, content_type, headers, body.len());
        bytes.extend_from_slice(body);
        Self::Whole(bytes)
    }
}

/// The head of an answer whose body has so many bytes.
pub(crate) fn head(status: &str, content_type: &str, headers: &[&str], length: usize) -> Vec<u8> {
    let (status, content_type) = (format!("HTTP/1.1 {status}"), format!("Content-Type: {content_type}"));
    let length = format!("Content-Length: {length}");
    let lines = [&[&*status, &content_type, &length], headers, &["\r\n"]].concat();
    lines.join("\r\n").into()
}

/// The server. It ends with the test.
pub(crate) struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    listening: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Server {
    /// Answers everything in the same way.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start(None, move |_| std::future::ready(reply.clone())).await
    }

    /// Answers each request as the script says.
    pub(crate) async fn start<F>(
        tls: Option<TlsAcceptor>,
        script: impl Fn(Request) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Reply> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (accepted, received) = (Arc::clone(&connections), Arc::clone(&requests));
        let script = Arc::new(move |request| {
            received.fetch_add(1, Ordering::SeqCst);
            script(request)
        });
        let listening = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(connection(stream, tls.clone(), Arc::clone(&script)));
            }
        });
        Self { address, connections, requests, listening }
    }

    /// How many connections have been made.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// How many requests have come.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

async fn connection<F: Future<Output = Reply>>(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    script: Arc<impl Fn(Request) -> F>,
) {
    // A client that does not like the server hangs up at any point, which is no error here.
    match tls {
        None => _ = converse(stream, &*script).await,
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                _ = converse(stream, &*script).await;
            }
        }
    }
}

async fn converse<F: Future<Output = Reply>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &impl Fn(Request) -> F,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream).await? {
        match script(request).await {
            Reply::Whole(bytes) => stream.write_all(&bytes).await?,
            Reply::Last(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Reply::Endless(beginning, again) => {
                stream.write_all(&beginning).await?;
                loop {
                    stream.write_all(&again).await?;
                }
            }
        }
        stream.flush().await?;
    }
    Ok(())
}

async fn read(stream: &mut BufReader<impl AsyncRead + Unpin>) -> std::io::Result<Option<Request>> {
    let (mut length, mut cookie) = (0, None);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(": ").map(|(name, value)| (name.to_lowercase(), value)) {
            Some((name, value)) if name == "content-length" => length = value.parse().unwrap_or(0),
            Some((name, value)) if name == "cookie" => cookie = Some(value.to_owned()),
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(Request { cookie, body: String::from_utf8_lossy(&body).into_owned() }))
}
