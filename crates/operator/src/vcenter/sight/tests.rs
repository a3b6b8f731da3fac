//! When a vCenter may be changed, and when not, on a server that lets users in and answers nothing else.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::Ordering,
    thread,
};

use tokio::sync::mpsc;
use vim25::{Client, Credentials, Settings};

use super::*;
use crate::{
    kube::leadership::Claim,
    loops::Loops,
    vcenter::{Login, VCenterHandle},
};

const CONTENT: &str = "<RetrieveServiceContentResponse><returnval><rootFolder type=\"Folder\">group-d1</rootFolder>\
    <propertyCollector type=\"PropertyCollector\">propertyCollector</propertyCollector>\
    <about><apiType>VirtualCenter</apiType><apiVersion>8.0.3.0</apiVersion></about>\
    <sessionManager type=\"SessionManager\">SessionManager</sessionManager>\
    <taskManager type=\"TaskManager\">TaskManager</taskManager></returnval></RetrieveServiceContentResponse>";
const USER: &str = "<LoginResponse><returnval><key>k</key><userName>jane</userName><fullName>Jane</fullName>\
    <loginTime>2026-01-02T03:04:05Z</loginTime><lastActiveTime>2026-01-02T03:04:05Z</lastActiveTime><locale>en</locale>\
    <messageLocale>en</messageLocale></returnval></LoginResponse>";

/// Answers the first request of a connection, if it is one of a login.
fn answer(mut client: &TcpStream) -> io::Result<()> {
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    while !request.contains("Envelope>") {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        request += &String::from_utf8_lossy(&buffer[..length]);
    }
    let body = match () {
        () if request.contains("<RetrieveServiceContent ") => CONTENT,
        () if request.contains("<Login ") => USER,
        // Until the client has enough of it.
        () => return io::copy(&mut client, &mut io::sink()).map(drop),
    };
    let body = format!(
        "<soapenv:Envelope xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\"><soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>"
    );
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\nSet-Cookie: vmware_soap_session=\"s\"\r\nConnection: close";
    client.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

/// A client of such a server.
fn client() -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || answer(&client));
        }
    });
    let settings = Settings { trust: vim25::Trust::Insecure, ..Settings::default() };
    Client::new(address.parse().unwrap(), Credentials::password("jane", "hush"), settings).unwrap()
}

/// A vCenter that is followed, with the claim to it, what ends the claim, and what is watched.
async fn followed() -> (Arc<VCenterHandle>, impl FnOnce(), Vec<WatchId>) {
    let (claim, end) = Claim::until_ended();
    let (triggers, _) = mpsc::unbounded_channel();
    let live = VCenterHandle::start("lab", client(), Login::Declared, None, claim, triggers, &Loops::default());
    while live.tasks().collector.is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let watches = live.sight().watches.keys().copied().collect();
    (live, end, watches)
}

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// A sight of everything, in a session.
fn see(sight: &mut Sight, watches: &[WatchId], session: &Arc<Session>) {
    for watch in watches {
        sight.sync(*watch);
    }
    assert!(sight.trust(Arc::clone(session)));
}

#[tokio::test]
async fn nothing_may_be_changed_out_of_sight_in_another_session_or_without_the_claim() {
    let (live, end_claim, watches) = followed().await;
    let session = live.client.session().await.unwrap();
    assert!(live.token().is_none(), "nothing has been told yet");
    let see = |session: &Arc<Session>| see(&mut live.sight(), &watches, session);
    let is_its = |session: &Arc<Session>| live.token().is_some_and(|Token(its)| Arc::ptr_eq(&its, session));
    see(&session);
    assert!(is_its(&session));

    live.sight().lose_watch(watches[0], "it was refused".to_owned(), now());
    assert!(live.token().is_none());
    assert!(!live.sight().trust(Arc::clone(&session)), "one of the watches has not been told");
    assert!(live.token().is_none());
    see(&session);
    live.sight().obstruct(Reason::VCenterMismatch, "it is another".to_owned(), now());
    assert!(live.token().is_none());
    see(&session);
    live.sight().lose("the session has ended".to_owned(), now());
    assert!(live.token().is_none());

    let next = client().session().await.unwrap();
    see(&next);
    assert!(is_its(&next) && !is_its(&session), "the proof is of the session in which everything was told");
    live.is_retired.store(true, Ordering::Release);
    assert!(live.token().is_none());
    live.is_retired.store(false, Ordering::Release);
    assert!(is_its(&next));
    end_claim();
    assert!(live.token().is_none() && live.is_in_sight());
}

#[tokio::test]
async fn what_is_in_the_way_is_said_since_when_and_a_moment_is_worth_no_word() {
    let (live, _end, watches) = followed().await;
    let session = live.client.session().await.unwrap();
    let later = |seconds: u64| now() + Duration::from_secs(seconds);
    let mut sight = Sight::new(now());
    for watch in &watches {
        sight.watch(*watch);
    }
    assert_eq!(sight.away(later(4)), None);
    assert_eq!(sight.away(later(5)).unwrap().reason, Reason::Connecting);
    assert_eq!(
        [sight.sync(watches[0]), sight.sync(watches[1])],
        [false, true],
        "all have been told, and not one alone"
    );
    see(&mut sight, &watches, &session);
    assert_eq!(sight.away(later(9)), None);

    sight.lose_watch(watches[0], "refused".to_owned(), later(10));
    sight.lose("gone".to_owned(), later(11));
    assert_eq!(sight.away(later(14)), None);
    let away = sight.away(later(15)).unwrap();
    assert_eq!((away.reason, away.why.as_str(), away.since), (Reason::VCenterUnreachable, "refused", later(10)));
    for (since, why) in [(20, "refused"), (30, "silent")] {
        sight.obstruct(Reason::LoginRefused, why.to_owned(), later(since));
        let away = sight.away(later(since)).unwrap();
        assert_eq!((away.reason, away.why.as_str(), away.since), (Reason::LoginRefused, why, later(20)));
    }
    see(&mut sight, &watches, &session);
    assert_eq!(sight.away(later(99)), None);
}
