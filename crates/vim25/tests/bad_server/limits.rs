//! Answers without an end, and answers that never come.

use std::{
    io::Write,
    time::{Duration, Instant},
};

use flate2::{Compression, write::GzEncoder};
use vim25::{
    Client, Error, Inventory, Limits, Settings, TransportError,
    methods::CurrentTime,
    refs::{FolderRef, ServiceInstanceRef},
};

use super::{
    beneath, client, failure,
    server::{Reply, Request, Server, head},
    settings, time,
    vcenter::{VCenter, content, now, result},
};

const XML: &str = "text/xml; charset=utf-8";
const SOON: Duration = Duration::from_millis(500);
/// Much more than what a test here waits for, and much less than what it must not wait for.
const LONG: Duration = Duration::from_secs(10);

fn small() -> Settings {
    Settings { max_response: 1 << 20, ..settings() }
}

fn hasty() -> Settings {
    Settings { request_timeout: SOON, ..settings() }
}

fn assert_too_large(error: &Error) {
    assert!(matches!(beneath(error), Error::Transport(TransportError::TooLarge { .. })), "{error:?}");
    assert!(error.to_string().contains("larger than 1048576 bytes"), "{error}");
}

fn assert_timeout(error: &Error) {
    assert!(matches!(beneath(error), Error::Transport(TransportError::Timeout { .. })), "{error:?}");
    assert!(error.to_string().contains("has not answered within 500ms"), "{error}");
}

/// A vCenter that answers this to a question for the time.
async fn server<F: Future<Output = Reply> + Send + 'static>(
    answer: impl Fn(Request) -> F + Send + Sync + Clone + 'static,
) -> Server {
    let vcenter = VCenter::default();
    Server::start(None, move |request| {
        let (vcenter, answer) = (vcenter.clone(), answer.clone());
        async move { if request.calls("CurrentTime") { answer(request).await } else { vcenter.answer(&request) } }
    })
    .await
}

#[test]
fn the_defaults_are_finite() {
    let settings = Settings::default();
    assert!(settings.max_response <= 256 << 20, "{settings:?}");
    assert!(settings.connect_timeout <= Duration::from_secs(30), "{settings:?}");
    assert!(settings.request_timeout <= Duration::from_mins(2), "{settings:?}");
}

#[test]
fn an_answer_takes_less_memory_than_a_replica_may_have() {
    // The answer as it comes, unpacked, and read. The manifests limit a replica to 256 MiB.
    let most = 2 * Settings::default().max_response + Limits::default().memory;
    assert!(most <= 192 << 20, "{most}");
}

#[tokio::test]
async fn whitespace_without_an_end_is_read_up_to_the_limit() {
    for headers in ["Connection: close", "Content-Length: 4294967296"] {
        let beginning = format!("HTTP/1.1 200 OK\r\nContent-Type: {XML}\r\n{headers}\r\n\r\n");
        let server = Server::always(Reply::Endless(beginning.into(), vec![b' '; 64 << 10])).await;
        assert_too_large(&failure(&client(&server, small())).await);
    }
}

#[tokio::test]
async fn headers_without_an_end_break_the_connection() {
    let header = format!("X-More: {}\r\n", "x".repeat(8000));
    let server = Server::always(Reply::Endless("HTTP/1.1 200 OK\r\n".into(), header.into())).await;
    let error = failure(&client(&server, small())).await;
    assert!(matches!(beneath(&error), Error::Transport(TransportError::Broken { .. })), "{error:?}");
}

#[tokio::test]
async fn gzip_that_unpacks_to_far_more_is_unpacked_up_to_the_limit() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
    for _ in 0..64 {
        bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < small().max_response, "{} bytes", bomb.len());
    let server = Server::always(Reply::new("200 OK", XML, &["Content-Encoding: gzip"], bomb)).await;
    assert_too_large(&failure(&client(&server, small())).await);
}

#[tokio::test]
async fn an_answer_that_drips_ends_with_the_timeout() {
    let vcenter = server(|_| async {
        let mut bytes = head("200 OK", XML, &[], 1000);
        bytes.extend_from_slice(b"<soapenv:Envelope>");
        Reply::Whole(bytes)
    })
    .await;
    assert_timeout(&failure(&client(&vcenter, hasty())).await);
}

#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_no_longer_than_the_timeout() {
    let silent = Server::start(None, |_| std::future::pending()).await;
    let began = Instant::now();
    assert_timeout(&failure(&client(&silent, hasty())).await);
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_never_shakes_hands_is_waited_for_no_longer_than_a_connection_may_take() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings { connect_timeout: SOON, request_timeout: Duration::from_mins(5), ..settings() };
    let client = super::client_at(&listener.local_addr().unwrap().to_string(), settings);
    let began = Instant::now();
    let error = failure(&client).await;
    assert!(matches!(beneath(&error), Error::Transport(TransportError::Connect { .. })), "{error:?}");
    assert!(error.to_string().contains("no connection within 500ms"), "{error}");
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
}

#[tokio::test]
async fn an_answer_after_the_timeout_is_not_taken_for_that_of_the_next_call() {
    let late = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let vcenter = server(move |_| {
        let late = late.swap(false, std::sync::atomic::Ordering::SeqCst);
        async move {
            if late {
                tokio::time::sleep(2 * SOON).await;
                return content();
            }
            now()
        }
    })
    .await;
    let client = client(&vcenter, hasty());
    assert_timeout(&failure(&client).await);
    tokio::time::sleep(2 * SOON).await;
    assert_eq!(time(&client).await.unwrap().to_string(), "2026-01-02T03:04:05Z");
}

#[tokio::test]
async fn a_long_poll_may_take_longer_than_other_calls() {
    let vcenter = server(|_| async {
        tokio::time::sleep(2 * SOON).await;
        now()
    })
    .await;
    let client = client(&vcenter, hasty());
    patient(&client, LONG).await.unwrap();
    assert_timeout(&failure(&client).await);
}

#[tokio::test]
async fn pages_without_an_end_are_read_up_to_a_limit() {
    let vcenter = VCenter::default();
    let server = Server::start(None, move |request| {
        let page = |method| result(method, "<token>more</token>", &[]);
        std::future::ready(match () {
            () if request.calls("RetrievePropertiesEx") => page("RetrievePropertiesEx"),
            () if request.calls("ContinueRetrievePropertiesEx") => page("ContinueRetrievePropertiesEx"),
            () => vcenter.answer(&request),
        })
    })
    .await;
    let error = client(&server, settings()).retrieve(Vec::new()).await.unwrap_err();
    assert!(matches!(error, Error::TooManyObjects { pages: 1000, .. }), "{error:?}");
}

#[tokio::test]
async fn an_object_that_is_inside_itself_has_a_path_with_an_end() {
    let vcenter = VCenter::default();
    let server = Server::start(None, move |request| {
        let folder = |id: &str, parent: &str| {
            let property = |name: &str, value: &str| format!("<propSet><name>{name}</name>{value}</propSet>");
            let name = property("name", &format!("<val xsi:type=\"xsd:string\">{id}</val>"));
            let parent =
                property("parent", &format!("<val type=\"Folder\" xsi:type=\"ManagedObjectReference\">{parent}</val>"));
            format!("<objects><obj type=\"Folder\">{id}</obj>{name}{parent}</objects>")
        };
        let folders = [folder("a", "b"), folder("b", "c"), folder("c", "b")].concat();
        std::future::ready(match () {
            () if request.calls("RetrievePropertiesEx") => result("RetrievePropertiesEx", &folders, &[]),
            () => vcenter.answer(&request),
        })
    })
    .await;
    let inventory = Inventory::new(client(&server, settings()));
    assert_eq!(inventory.path_of(&FolderRef::new("a").into()).await.unwrap(), "/c/b/a");
}

#[tokio::test]
async fn patience_without_an_end_is_no_panic() {
    let vcenter = server(|_| async { now() }).await;
    patient(&client(&vcenter, settings()), Duration::MAX).await.unwrap();
}

async fn patient(client: &Client, patience: Duration) -> vim25::Result<vim25::Timestamp> {
    client.call_patiently(&CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") }, patience).await
}
