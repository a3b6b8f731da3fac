//! Servers that may not be the vCenter that was asked for.

use tokio::{io::AsyncWriteExt, net::TcpListener};
use vim25::{Client, Error, Settings, Thumbprint, TransportError, Trust};

use super::{
    beneath,
    certificates::{Authority, Certified},
    client_at, failure,
    server::Server,
    settings, time,
    vcenter::VCenter,
};

const HERE: &str = "127.0.0.1";

async fn vcenter(certified: Certified) -> Server {
    let vcenter = VCenter::default();
    Server::start(Some(certified.acceptor()), move |request| std::future::ready(vcenter.answer(&request))).await
}

/// A client that expects TLS.
fn client(server: &Server, trust: Trust) -> Client {
    client_at(&server.address.to_string(), Settings { trust, ..settings() })
}

/// The error of a client that must refuse, before it has said anything.
async fn refusal(server: &Server, trust: Trust) -> (String, Option<Thumbprint>) {
    let error = failure(&client(server, trust)).await;
    assert_eq!(server.requests(), 0, "{error}");
    let sentence = error.to_string();
    let Error::Transport(TransportError::Certificate { thumbprint, .. }) = beneath(&error) else {
        panic!("{error:?}");
    };
    (sentence, *thumbprint)
}

#[tokio::test]
async fn a_server_that_a_trusted_authority_vouches_for_is_believed() {
    let authority = Authority::new();
    let server = vcenter(authority.certify(HERE)).await;
    time(&client(&server, Trust::Authorities(authority.pem()))).await.unwrap();

    let both = [Authority::new().pem(), authority.pem()].concat();
    time(&client(&server, Trust::Authorities(both))).await.unwrap();
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let authority = Authority::new();
    let server = vcenter(authority.certify("vc.example.com")).await;
    let (sentence, _) = refusal(&server, Trust::Authorities(authority.pem())).await;
    assert!(sentence.contains("127.0.0.1") && sentence.contains("vc.example.com"), "{sentence}");
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let authority = Authority::new();
    let server = vcenter(authority.certify_in_the_past(HERE)).await;
    let (sentence, _) = refusal(&server, Trust::Authorities(authority.pem())).await;
    assert!(sentence.contains("it has expired on 1999-01-01"), "{sentence}");
}

#[tokio::test]
async fn an_unknown_authority_is_refused_with_the_thumbprint_to_pin() {
    let certified = Authority::new().certify(HERE);
    let shown = certified.thumbprint();
    let server = vcenter(certified).await;
    let (sentence, thumbprint) = refusal(&server, Trust::Authorities(Authority::new().pem())).await;
    assert_eq!(thumbprint, Some(shown));
    assert!(sentence.contains(&shown.to_string()) && sentence.contains("no authority that is trusted"), "{sentence}");

    // And what the sentence says helps.
    time(&client(&server, Trust::Thumbprint(shown))).await.unwrap();
}

#[tokio::test]
async fn a_pinned_certificate_is_believed_whatever_its_name_and_age() {
    let certified = Authority::new().certify_in_the_past("vc.example.com");
    let pinned = Trust::Thumbprint(certified.thumbprint());
    let server = vcenter(certified).await;
    time(&client(&server, pinned)).await.unwrap();
}

#[tokio::test]
async fn a_certificate_that_is_not_the_pinned_one_is_refused() {
    let authority = Authority::new();
    let (other, certified) = (authority.certify(HERE).thumbprint(), authority.certify(HERE));
    let shown = certified.thumbprint();
    let server = vcenter(certified).await;
    let (sentence, thumbprint) = refusal(&server, Trust::Thumbprint(other)).await;
    assert_eq!(thumbprint, Some(shown));
    assert!(sentence.contains("not the one that is pinned"), "{sentence}");
}

#[tokio::test]
async fn anything_is_believed_on_request() {
    let server = vcenter(Authority::new().certify_in_the_past("vc.example.com")).await;
    time(&client(&server, Trust::Insecure)).await.unwrap();
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_named_as_such() {
    let listener = TcpListener::bind((HERE, 0)).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await.unwrap();
        stream
    });
    let error = failure(&client_at(&address, settings())).await;
    drop(server);
    assert!(matches!(beneath(&error), Error::Transport(TransportError::Connect { .. })), "{error:?}");
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[tokio::test]
async fn tls_where_plain_http_is_expected_is_a_broken_connection() {
    let server = vcenter(Authority::new().certify(HERE)).await;
    let error = failure(&super::client(&server, settings())).await;
    assert!(matches!(beneath(&error), Error::Transport(TransportError::Broken { .. })), "{error:?}");
}
