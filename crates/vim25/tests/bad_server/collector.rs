//! A stream from a vCenter that stops answering.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};
use std::time::Duration;

use tokio::{sync::Notify, time::Instant};
use vim25::{
    Collector, Error, Event, Scope, TransportError, Update, Updates, Watch, props::folder, refs::FolderRef,
    types::PropertySpec,
};

use super::{
    client,
    server::{Reply, Request, Server},
    settings,
    vcenter::{VCenter, nothing, result},
};

/// A vCenter with a collector that has one folder to tell of, and may fall silent.
#[derive(Clone, Default)]
struct Collecting {
    vcenter: VCenter,
    polls: Arc<AtomicUsize>,
    is_silent: Arc<AtomicBool>,
    /// A call is met with silence.
    met: Arc<Notify>,
}

impl Collecting {
    async fn serve(&self) -> Server {
        let collecting = self.clone();
        Server::start(None, move |request| {
            let collecting = collecting.clone();
            async move { collecting.answer(&request).await }
        })
        .await
    }

    async fn answer(&self, request: &Request) -> Reply {
        if self.is_silent.load(Ordering::SeqCst) || request.body.contains("<maxWaitSeconds>45<") {
            self.met.notify_one();
            return std::future::pending().await;
        }
        if request.calls("CreatePropertyCollector") {
            return result("CreatePropertyCollector", "collector-1", &[]);
        }
        if request.calls("CreateFilter") {
            return result("CreateFilter", "filter-1", &[]);
        }
        if request.calls("WaitForUpdatesEx") {
            assert!(request.body.contains("<maxObjectUpdates>100<"), "{}", request.body);
            return match self.polls.fetch_add(1, Ordering::SeqCst) {
                0 => result("WaitForUpdatesEx", FOLDER, &[]),
                _ => nothing("WaitForUpdatesEx"),
            };
        }
        self.vcenter.answer(request)
    }
}

const FOLDER: &str = "<version>1</version><filterSet><filter type=\"PropertyFilter\">filter-1</filter><objectSet>\
    <kind>enter</kind><obj type=\"Folder\">group-1</obj></objectSet></filterSet>";

fn watch() -> Watch {
    let scope = Scope::Object(FolderRef::new("group-1").into());
    Watch { scope, properties: vec![PropertySpec::of(&[&folder::NAME])] }
}

async fn synced(updates: &mut Updates, watch: vim25::WatchId) {
    while let Some(Event::Updates(news)) = updates.next().await {
        if news.iter().any(|update| matches!(update, Update::Synced { watch: synced } if *synced == watch)) {
            return;
        }
    }
    panic!("it is never synced");
}

/// From here on the clock goes on by itself whenever nothing else does.
async fn assert_noticed(updates: &mut Updates) {
    tokio::time::pause();
    let began = Instant::now();
    let first = updates.next().await;
    let Some(Event::Blind(error)) = first else { panic!("{first:?}") };
    assert!(matches!(*error, Error::Transport(TransportError::Timeout { .. })), "{error:?}");
    let second = updates.next().await;
    assert!(matches!(second, Some(Event::Down(_))), "{second:?}");
    assert!(began.elapsed() <= Duration::from_secs(75), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_vcenter_that_falls_silent_during_a_poll_is_said_to_be_away_within_75_seconds() {
    let vcenter = Collecting::default();
    let server = vcenter.serve().await;
    let (collector, mut updates) = Collector::start(client(&server, settings()));
    let watch = collector.watch(watch());
    synced(&mut updates, watch).await;
    vcenter.met.notified().await;
    assert_noticed(&mut updates).await;
}

#[tokio::test]
async fn a_vcenter_that_falls_silent_before_a_watch_is_set_up_is_noticed_too() {
    let vcenter = Collecting::default();
    let server = vcenter.serve().await;
    let (collector, mut updates) = Collector::start(client(&server, settings()));
    synced(&mut updates, collector.watch(watch())).await;
    vcenter.met.notified().await;
    // The poll is cancelled for another watch, and neither is answered.
    vcenter.is_silent.store(true, Ordering::SeqCst);
    collector.watch(watch());
    vcenter.met.notified().await;
    assert_noticed(&mut updates).await;
}

#[tokio::test]
async fn a_collector_that_is_stopped_while_its_poll_waits_ends_at_once_and_nobody_logs_in_after_it() {
    let vcenter = Collecting::default();
    let server = vcenter.serve().await;
    let client = client(&server, settings());
    let (collector, mut updates) = Collector::start(client.clone());
    synced(&mut updates, collector.watch(watch())).await;
    vcenter.met.notified().await;
    let began = std::time::Instant::now();
    collector.stop().await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(updates.next().await.is_none(), "the stream ends");
    client.close().await.unwrap();
    let asked = server.requests();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((server.requests(), vcenter.vcenter.logins()), (asked, 1));
}
