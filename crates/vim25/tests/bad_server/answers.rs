//! Answers that no vCenter gives.

use std::{
    fmt::Write,
    sync::{Arc, Mutex},
};

use vim25::{Error, ReadError, Settings, TransportError, client::Observer};

use super::{
    PASSWORD, client, failure,
    server::{Reply, Server, head},
    settings,
    vcenter::{self, VCenter, envelope},
};

const XML: &str = "text/xml; charset=utf-8";
const PAGE: &str = "<!DOCTYPE html>\n<html><head><title>Proxy</title></head><body>Who are you?</body></html>";

/// What a call meets that gets this answer. At the login it is the same, and says who wanted in.
async fn met_with(reply: Reply) -> Error {
    let vcenter = VCenter::default();
    let bad = reply.clone();
    let server = Server::start(None, move |request| {
        let reply = if request.calls("CurrentTime") { bad.clone() } else { vcenter.answer(&request) };
        std::future::ready(reply)
    })
    .await;
    let error = failure(&client(&server, settings())).await;

    let bad = Server::always(reply).await;
    let at_login = failure(&client(&bad, settings())).await.to_string();
    let sentence = error.to_string().replace(&server.address.to_string(), &bad.address.to_string());
    assert_eq!(at_login, format!("logging in to {} as jane: {sentence}", bad.address));
    assert_eq!(bad.requests(), 1, "what failed is not tried again");
    error
}

fn assert_says(error: &Error, words: &[&str]) {
    let sentence = error.to_string();
    for word in words {
        assert!(sentence.contains(word), "{word:?} is not in: {sentence}");
    }
}

#[tokio::test]
async fn xml_that_is_cut_off_is_never_taken_for_a_whole_answer() {
    let whole = envelope("<CurrentTimeResponse><returnval>2026-01-02T03:04:05Z</returnval></CurrentTimeResponse>");
    for length in [1, 40, whole.len() / 2, whole.len() - 1] {
        let error = met_with(Reply::new("200 OK", XML, &[], &whole[..length])).await;
        assert!(matches!(error, Error::Read(_)), "{length}: {error:?}");
    }
    let error = met_with(Reply::new("200 OK", XML, &[], &whole[..whole.len() - 20])).await;
    assert!(matches!(error, Error::Read(ReadError::Truncated { .. })), "{error:?}");
    assert_says(&error, &["cut off after"]);
}

#[tokio::test]
async fn an_empty_answer_is_no_soap() {
    let error = met_with(Reply::new("200 OK", XML, &[], "")).await;
    assert!(matches!(error, Error::Read(_)), "{error:?}");
}

#[tokio::test]
async fn a_connection_that_ends_within_the_body_is_a_broken_one() {
    let mut bytes = head("200 OK", XML, &[], 1000);
    bytes.extend_from_slice(b"<soapenv:Envelope>");
    let error = met_with(Reply::Last(bytes)).await;
    assert!(matches!(error, Error::Transport(TransportError::Broken { .. })), "{error:?}");
    assert_says(&error, &["the connection to 127.0.0.1:", "broke"]);
}

#[tokio::test]
async fn a_connection_that_ends_without_an_answer_is_a_broken_one() {
    let error = met_with(Reply::Last(Vec::new())).await;
    assert!(matches!(error, Error::Transport(TransportError::Broken { .. })), "{error:?}");
}

#[tokio::test]
async fn a_page_of_a_proxy_is_told_from_an_answer() {
    let error = met_with(Reply::new("200 OK", "text/html", &[], PAGE)).await;
    assert!(matches!(error, Error::Transport(TransportError::NotXml { .. })), "{error:?}");
    assert_says(&error, &["something else than XML", "a proxy"]);

    let error = met_with(Reply::new("502 Bad Gateway", "text/html", &[], PAGE)).await;
    assert!(matches!(error, Error::Transport(TransportError::Http { status, .. }) if status == 502), "{error:?}");
    assert_says(&error, &["502 Bad Gateway"]);
}

#[tokio::test]
async fn a_page_that_says_it_is_xml_is_no_soap() {
    let error = met_with(Reply::new("200 OK", "application/xhtml+xml", &[], PAGE)).await;
    assert!(matches!(error, Error::Read(ReadError::NotSoap { .. })), "{error:?}");
    assert_says(&error, &["not SOAP"]);
}

#[tokio::test]
async fn a_vcenter_that_is_not_ready_shows_its_status() {
    for (content_type, body) in [("text/plain", "starting"), (XML, "<starting/>"), ("text/plain", "")] {
        let error = met_with(Reply::new("503 Service Unavailable", content_type, &[], body)).await;
        assert!(matches!(error, Error::Transport(TransportError::Http { status, .. }) if status == 503), "{error:?}");
        assert_says(&error, &["503 Service Unavailable", "not ready"]);
    }
}

#[tokio::test]
async fn an_answer_of_another_content_type_is_not_read() {
    let soap = envelope("<CurrentTimeResponse><returnval>2026-01-02T03:04:05Z</returnval></CurrentTimeResponse>");
    let error = met_with(Reply::new("200 OK", "application/json", &[], &soap)).await;
    let Error::Transport(TransportError::NotXml { content_type, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(content_type, "application/json");
}

#[tokio::test]
async fn only_the_beginning_of_a_page_is_kept() {
    let location = format!("Location: http://{}", "x".repeat(5000));
    for (status, content_type) in [("200 OK", "text/html"), ("404 Not Found", "text/html"), ("302 Found", "text/html")]
    {
        let error = met_with(Reply::new(status, content_type, &[&location], "ä".repeat(100_000))).await;
        assert!(format!("{error} {error:?}").len() < 1000, "{error:?}");
    }
}

/// Stands for what only the answerer knows.
const THEIRS: &str = "theirs-and-nobody-elses";

/// Answers that have it wherever an answer can have words.
fn answers_with(words: &str) -> Vec<Reply> {
    let cookie: &str = &format!("Set-Cookie: {words}=1");
    let fault = |name: &str| {
        let xml = format!(
            "<soapenv:Fault><faultcode>{words}</faultcode><faultstring>{words}</faultstring><detail><{name}Fault xsi:type=\"{name}\">\
             <faultMessage><message>{words}</message></faultMessage><reason>{words}</reason><name>{words}</name></{name}Fault></detail>\
             </soapenv:Fault>"
        );
        Reply::new("500 Internal Server Error", XML, &[], envelope(&xml))
    };
    let xml = |body: &str| Reply::new("200 OK", XML, &[cookie], body);
    vec![
        Reply::new("200 OK", "text/html", &[cookie], words),
        Reply::new("200 OK", &format!("text/{words}"), &[cookie], words),
        Reply::new("404 Not Found", "text/html", &[], words),
        Reply::new(&format!("404 {words}"), "text/html", &[], words),
        Reply::new("302 Found", "text/html", &[&format!("Location: http://{words}/")], ""),
        xml(words),
        xml(&format!("<{words}/>")),
        xml(&format!("<{words}></other>")),
        xml(&format!("<Envelope><Body><{words}/></Body></Envelope>")),
        xml(&envelope(&format!("<LoginResponse><returnval><key>&{words};</key></returnval></LoginResponse>"))),
        xml(&envelope(&format!("<LoginResponse><returnval><key>&#x{words};</key></returnval></LoginResponse>"))),
        xml(&envelope(&format!(
            "<LoginResponse><returnval><loginTime>{words}</loginTime></returnval></LoginResponse>"
        ))),
        xml(&envelope(&format!("<LoginResponse><returnval {words}=x/></LoginResponse>"))),
        fault("SystemError"),
        fault("DuplicateName"),
        fault("InvalidLogin"),
        fault(words),
    ]
}

#[tokio::test]
async fn nothing_of_a_strangers_answer_is_in_the_error() {
    for (number, reply) in answers_with(THEIRS).into_iter().enumerate() {
        let stranger = Server::always(reply.clone()).await;
        let error = failure(&client(&stranger, settings())).await;
        assert!(!error.to_string().contains(THEIRS), "{number}: {error}");

        let server = Server::start(None, move |request| {
            std::future::ready(if request.calls("Login") { reply.clone() } else { vcenter::content() })
        })
        .await;
        let error = failure(&client(&server, settings())).await;
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(THEIRS), "{number}, which answers a login: {shown}");
    }
}

#[tokio::test]
async fn a_fault_at_the_login_is_known_by_its_name() {
    for (name, words) in [
        ("InvalidLogin", "InvalidLogin: the user name or the password is wrong"),
        ("NoPermission", "the call was refused with the fault NoPermission"),
        ("Unheard", "the call was refused with a fault that is not known"),
    ] {
        let server = Server::start(None, move |request| {
            std::future::ready(if request.calls("Login") { vcenter::fault(name, "no") } else { vcenter::content() })
        })
        .await;
        let error = failure(&client(&server, settings())).await;
        assert!(error.to_string().ends_with(words), "{error}");
    }
}

#[tokio::test]
async fn a_redirect_is_kept_and_not_followed() {
    let elsewhere = Server::always(vcenter::now()).await;
    let location = format!("http://{}/sdk", elsewhere.address);
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let error = met_with(Reply::new(status, "text/html", &[&format!("Location: {location}")], "")).await;
        let Error::Transport(TransportError::Redirect { location: kept, .. }) = &error else { panic!("{error:?}") };
        assert_eq!(*kept, location);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_redirect_to_itself_ends_after_one_request() {
    // That it is one request is what `met_with` sees to.
    let error = met_with(Reply::new("302 Found", "text/html", &["Location: /sdk"], "")).await;
    assert!(matches!(error, Error::Transport(TransportError::Redirect { .. })), "{error:?}");
}

#[tokio::test]
async fn garbage_instead_of_http_is_a_broken_connection() {
    for garbage in ["SSH-2.0-OpenSSH_9.9\r\n", "\0\0\0\0", "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"] {
        let error = met_with(Reply::Last(garbage.into())).await;
        assert!(matches!(error, Error::Transport(TransportError::Broken { .. })), "{garbage:?}: {error:?}");
    }
}

#[tokio::test]
async fn gzip_that_is_none_is_a_typed_error() {
    let error = met_with(Reply::new("200 OK", XML, &["Content-Encoding: gzip"], "<soapenv:Envelope/>")).await;
    assert!(matches!(error, Error::Transport(TransportError::Broken { .. })), "{error:?}");
    assert_says(&error, &["gzip"]);
}

#[tokio::test]
async fn a_server_that_echoes_the_login_gives_no_password_away() {
    for (number, reply) in answers_with(PASSWORD).into_iter().enumerate() {
        let server = Server::start(None, move |request| {
            std::future::ready(if request.calls("Login") { reply.clone() } else { vcenter::content() })
        })
        .await;
        let told = Arc::new(Mutex::new(String::new()));
        let observer = {
            let told = Arc::clone(&told);
            Observer::new(move |call| write!(told.lock().unwrap(), "{call:?}").unwrap())
        };
        failure(&client(&server, Settings { observer: Some(observer), ..settings() })).await;
        let told = told.lock().unwrap();
        assert!(told.contains("Login") && !told.contains(PASSWORD), "{number}: {told}");
    }
}

#[tokio::test]
async fn a_login_without_a_cookie_is_no_session() {
    let server = Server::start(None, |request| {
        std::future::ready(if request.calls("Login") { vcenter::logged_in(&[]) } else { vcenter::content() })
    })
    .await;
    let error = failure(&client(&server, settings())).await;
    assert!(matches!(super::beneath(&error), Error::NoSession { .. }), "{error:?}");
    assert_says(&error, &["accepted the login without starting a session"]);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_named() {
    // Too long for a part of a name, so that no resolver has to be asked.
    let name = "x".repeat(64);
    let error = failure(&super::client_at(&format!("http://{name}.invalid"), settings())).await;
    assert!(matches!(super::beneath(&error), Error::Transport(TransportError::Connect { .. })), "{error:?}");
    assert_says(&error, &[&name, "lookup"]);
}

#[tokio::test]
async fn a_port_where_nobody_listens_refuses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = failure(&super::client_at(&address, settings())).await;
    assert!(matches!(super::beneath(&error), Error::Transport(TransportError::Connect { .. })), "{error:?}");
    assert_says(&error, &[&address, "refused"]);
}
