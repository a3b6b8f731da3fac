//! What is served to whom, and that nobody gets more of it than is good for the others.

use rustls::{ClientConfig, RootCertStore, pki_types::CertificateDer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, duplex},
    net::{TcpSocket, TcpStream},
    time::Instant,
};
use tokio_rustls::TlsConnector;

use super::*;
use crate::http::flags::BadAddress;

fn sources() -> Sources {
    Sources { metrics: Metrics::new(), ready: Readiness::default(), loops: Loops::default() }
}

fn site(endpoints: Endpoints, access: Access) -> Arc<Site> {
    Arc::new(Site { endpoints, sources: sources(), access, certificates: None })
}

fn serving(secure: bool) -> Serving {
    Serving { metrics_secure: secure, metrics_cert_dir: None, health_probe_bind_address: Serve::Nowhere }
}

#[test]
fn addresses_are_taken_as_go_writes_them() {
    for text in [":8080", "0.0.0.0:8080", "127.0.0.1:8080", "localhost:8080", "[::1]:8080"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for text in ["", "8080", "localhost", "127.0.0.1:http", ":70000", "::1:8080"] {
        assert_eq!(text.parse::<Address>(), Err(BadAddress), "{text}");
    }
}

async fn status(site: &Site, method: Method, path: &str) -> u16 {
    site.tell(&method, path, &HeaderMap::new()).await.status().as_u16()
}

#[tokio::test]
async fn it_is_well_from_the_start_and_ready_when_it_says_so() {
    let site = site(Endpoints::Both, Access::open());
    assert_eq!(status(&site, Method::GET, "/healthz").await, 200);
    assert_eq!(status(&site, Method::GET, "/readyz").await, 503);
    site.sources.ready.set();
    assert_eq!(status(&site, Method::GET, "/readyz").await, 200);
    assert_eq!(status(&site, Method::HEAD, "/metrics").await, 200);
    assert_eq!(status(&site, Method::POST, "/metrics").await, 405);
    assert_eq!(status(&site, Method::GET, "/").await, 404);
}

#[tokio::test]
async fn metrics_and_health_may_be_apart() {
    let (metrics, health) = (site(Endpoints::Metrics, Access::open()), site(Endpoints::Health, Access::open()));
    for (path, on_metrics, on_health) in [("/metrics", 200, 404), ("/healthz", 404, 200), ("/readyz", 404, 503)] {
        assert_eq!(status(&metrics, Method::GET, path).await, on_metrics, "{path}");
        assert_eq!(status(&health, Method::GET, path).await, on_health, "{path}");
    }
}

#[tokio::test]
async fn who_may_not_read_metrics_may_ask_for_health() {
    let site = site(Endpoints::Both, Access::guarded());
    let refused = site.tell(&Method::GET, "/metrics", &HeaderMap::new()).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()[WWW_AUTHENTICATE]), (401, &"Bearer".parse().unwrap()));
    assert_eq!(status(&site, Method::GET, "/healthz").await, 200);
}

#[tokio::test]
async fn a_port_in_use_is_said_in_one_line_with_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: Address = taken.local_addr().unwrap().to_string().parse().unwrap();
    let refused = start(&Serve::At(address.clone()), &serving(false), &sources()).await.unwrap_err().to_string();
    assert!(refused.starts_with(&format!("--metrics-addr: {address} can't be listened on: ")), "{refused}");
    assert!(refused.ends_with("choose another, or 0 for none") && refused.lines().count() == 1, "{refused}");
}

#[tokio::test]
async fn a_certificate_that_would_not_be_used_is_refused() {
    let flags = Serving { metrics_cert_dir: Some("/certs".into()), ..serving(false) };
    assert!(matches!(start(&Serve::Nowhere, &flags, &sources()).await, Err(Unavailable::NotSecure)));
}

/// Asks for health over TLS, and trusts this certificate only.
async fn ask_securely(site: Arc<Site>, trusted: CertificateDer<'static>) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let (here, there) = duplex(32 << 10);
    tokio::spawn(serve_client(there, site));
    let name = certificates::tests::NAME.try_into().unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, here).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn those_who_connect_see_the_certificate_in_the_folder() {
    let dir = certificates::tests::folder("seen");
    let (first, other) = (certificates::tests::write(&dir), certificates::tests::folder("other"));
    let certificates = Some(Certificates::of_metrics(Some(&dir)).unwrap());
    let site = Arc::new(Site { endpoints: Endpoints::Both, sources: sources(), access: Access::open(), certificates });
    let answer = ask_securely(Arc::clone(&site), first).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let refused = ask_securely(site, certificates::tests::write(&other)).await.unwrap_err().to_string();
    assert!(refused.contains("certificate"), "{refused}");
    for dir in [dir, other] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_shake_hands_is_cut_off() {
    let certificates = Some(Certificates::of_metrics(None).unwrap());
    let site = Arc::new(Site { endpoints: Endpoints::Both, sources: sources(), access: Access::open(), certificates });
    let (mut here, there) = duplex(32 << 10);
    let conversation = tokio::spawn(serve_client(there, site));
    let began = Instant::now();
    assert_eq!(here.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    conversation.await.unwrap();
    assert!(began.elapsed() <= PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());
}

/// Sends this over a wire that holds few bytes, reads so many of the answer, and returns it with how long the conversation lasted.
async fn say(request: &[u8], read: usize) -> (String, Duration) {
    let (mut here, there) = duplex(32 << 10);
    let began = Instant::now();
    let site = site(Endpoints::Both, Access::open());
    let conversation = tokio::spawn(serve_client(there, site));
    here.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    (&mut here).take(read as u64).read_to_end(&mut answer).await.unwrap();
    conversation.await.unwrap();
    (String::from_utf8(answer).unwrap(), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_his_time_to_ask_is_cut_off() {
    for said in ["", "GET /metrics HTTP/1.1\r\nHost: d"] {
        let (answer, lasted) = say(said.as_bytes(), usize::MAX).await;
        assert!(
            lasted <= PATIENCE + Duration::from_secs(1) && !answer.contains("drover_leader"),
            "{lasted:?}: {answer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_reads_too_slowly_is_cut_off() {
    let (mut here, there) = duplex(64);
    let site = site(Endpoints::Both, Access::open());
    let conversation = tokio::spawn(serve_client(there, site));
    here.write_all(b"GET /metrics HTTP/1.1\r\nHost: d\r\n\r\n").await.unwrap();
    let began = Instant::now();
    let mut one = [0; 1];
    let mut read = 0;
    // A byte a second keeps a connection busy for ever.
    while here.read(&mut one).await.unwrap() > 0 {
        read += 1;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(began.elapsed() < LONGEST * 10, "it is not cut off");
    }
    conversation.await.unwrap();
    assert!(read < 200, "what was on the wire: {read}");
}

#[tokio::test]
async fn headers_have_an_end() {
    let many = "X: y\r\n".repeat(HEADERS + 1);
    let long = format!("X: {}\r\n", "y".repeat(REQUEST));
    for headers in [many, long] {
        let (answer, _) = say(format!("GET /metrics HTTP/1.1\r\nHost: d\r\n{headers}\r\n").as_bytes(), 32).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
}

/// What a connection from an address is answered.
async fn asked_from(from: &str, address: std::net::SocketAddr) -> io::Result<String> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(format!("{from}:0").parse().unwrap())?;
    let mut stream = socket.connect(address).await?;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::test]
async fn those_who_keep_connections_keep_nobody_out_who_asks() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let site = site(Endpoints::Both, Access::open());
    let loops = site.sources.loops.clone();
    let _running = loops.start("server", |pulse| take_in(listener, site, pulse));
    let mut kept = Vec::new();
    for _ in 0..CONNECTIONS * 2 {
        kept.push(TcpStream::connect(address).await.unwrap());
    }
    for from in ["127.0.0.1", "127.0.0.2"] {
        let answer = asked_from(from, address).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ok\n"), "{answer}");
    }
    // There is an end to what they keep: the oldest were sent away.
    let mut first = kept.remove(0);
    let sent_away = timeout(PATIENCE / 2, first.read(&mut [0])).await.expect("before its time is over");
    assert!(matches!(sent_away, Ok(0) | Err(_)), "{sent_away:?}");
    let mut last = kept.pop().unwrap();
    last.write_all(b"GET /healthz HTTP/1.1\r\nHost: d\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    last.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("ok\n"), "{answer}");
}
