//! Elections on an API server that does what a test wants of it, in quick time.

use std::sync::atomic::{AtomicBool, Ordering};

use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::*;

const QUICK: Timing = Timing {
    lease: Duration::from_secs(2),
    deadline: Duration::from_secs(1),
    period: Duration::from_millis(100),
    look: Duration::from_millis(50),
    attempt: Duration::from_millis(400),
    turn: Duration::from_millis(600),
    keep: Duration::from_secs(5),
    settle: Duration::from_millis(300),
};

/// Leases, as an API server keeps them.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<(BTreeMap<String, Value>, u64)>>);

/// A way to the API server that can be cut.
#[derive(Clone, Default)]
struct Wire(Arc<AtomicBool>);

/// One of several replicas.
struct Replica {
    leadership: Leadership,
    changes: mpsc::UnboundedReceiver<Change>,
}

impl Store {
    fn answer(&self, method: &str, path: &str, body: &[u8]) -> (u16, Value) {
        let mut kept = lock(&self.0);
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default().to_owned();
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        let name =
            if name == "leases" { sent["metadata"]["name"].as_str().unwrap_or_default().to_owned() } else { name };
        let there = kept.0.get(&name);
        let fits = match method {
            "GET" if name.is_empty() => {
                let items: Vec<_> = kept.0.values().cloned().collect();
                return (200, json!({"kind": "LeaseList", "apiVersion": "v1", "metadata": {}, "items": items}));
            }
            "POST" => there.is_none(),
            "PUT" => there.is_some_and(|there| version(there) == version(&sent)),
            _ => panic!("{method} is not needed"),
        };
        if !fits {
            return status(409);
        }
        kept.1 += 1;
        let mut lease = sent;
        lease["metadata"]["resourceVersion"] = kept.1.to_string().into();
        kept.0.insert(name, lease.clone());
        (200, lease)
    }

    fn spec(&self, scope: &LeaseScope) -> Value {
        lock(&self.0).0.get(&scope.lease()).map(|lease| lease["spec"].clone()).unwrap_or_default()
    }

    /// Writes a lease as somebody does who isn't in the election.
    fn edit(&self, scope: &LeaseScope, change: impl FnOnce(&mut Value)) {
        let mut kept = lock(&self.0);
        kept.1 += 1;
        let version = kept.1.to_string();
        let lease = kept.0.entry(scope.lease()).or_insert_with(|| json!({"metadata": {"name": scope.lease()}}));
        change(lease);
        lease["metadata"]["resourceVersion"] = version.into();
    }

    fn api(&self, wire: &Wire) -> Api<Lease> {
        let (store, wire) = (self.clone(), wire.clone());
        let service = service_fn(move |request: http::Request<Body>| {
            let (store, wire) = (store.clone(), wire.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                if wire.0.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                let (code, answer) = store.answer(head.method.as_str(), head.uri.path(), &body);
                let answer =
                    http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?;
                Ok::<_, BoxError>(answer)
            }
        });
        Api::namespaced(Client::new(service, "default"), "default")
    }

    /// A replica that knows of these vCenters.
    fn replica(&self, identity: &str, vcenters: &[&str], wire: &Wire) -> Replica {
        let candidate = Candidate { identity: identity.to_owned(), lease: QUICK.lease };
        let (told, changes) = mpsc::unbounded_channel();
        let leadership = Leadership::with(self.api(wire), candidate, QUICK, &Loops::default(), told);
        for vcenter in vcenters {
            leadership.leases.declare(vcenter, None);
        }
        Replica { leadership, changes }
    }
}

impl Replica {
    fn claim(&self, scope: &LeaseScope) -> Claim {
        self.leadership.leases.claim(scope)
    }

    fn held(&self) -> usize {
        self.leadership.leases.held().iter().filter(|(_, is_held)| *is_held).count()
    }

    /// Waits until it has gained a lease.
    async fn gains(&mut self, scope: &LeaseScope) -> Epoch {
        loop {
            if let Change::Gained(gained, epoch) = soon(self.changes.recv()).await.unwrap()
                && gained == *scope
            {
                return epoch;
            }
        }
    }

    /// Waits until it has lost a lease.
    async fn loses(&mut self, scope: &LeaseScope) {
        while soon(self.changes.recv()).await.unwrap() != Change::Lost(scope.clone()) {}
    }
}

fn status(code: u16) -> (u16, Value) {
    let reason = if code == 404 { "NotFound" } else { "Conflict" };
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason}),
    )
}

/// What never comes fails its test.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), what).await.expect("it comes within 20 s")
}

/// Ends a replica as a kill does: nothing is given back.
fn kill(replica: Replica, wire: &Wire) {
    wire.0.store(true, Ordering::Relaxed);
    drop(replica);
}

/// Waits until each replica holds so many leases.
async fn share(replicas: &[(&Replica, usize)]) {
    let are_shared = async {
        while replicas.iter().any(|(replica, share)| replica.held() != *share) {
            sleep(QUICK.look).await;
        }
    };
    soon(are_shared).await;
}

fn lab() -> LeaseScope {
    LeaseScope::VCenter("lab".to_owned())
}

#[tokio::test]
async fn replicas_share_the_leases_and_hand_them_over_at_once() {
    let store = Store::default();
    let vcenters = ["a", "b", "c", "d", "e"];
    let first = store.replica("first", &vcenters, &Wire::default());
    share(&[(&first, 6)]).await;
    let second = store.replica("second", &vcenters, &Wire::default());
    share(&[(&first, 3), (&second, 3)]).await;
    let third = store.replica("third", &vcenters, &Wire::default());
    share(&[(&first, 2), (&second, 2), (&third, 2)]).await;
    let asked = Instant::now();
    second.leadership.release().await;
    share(&[(&first, 3), (&third, 3)]).await;
    assert!(asked.elapsed() < QUICK.lease, "nobody has waited for a lease to run out");
    third.leadership.leases.dismiss("a");
    first.leadership.leases.dismiss("a");
    let is_shared = async {
        while first.held() + third.held() != 5 || first.held().abs_diff(third.held()) > 1 {
            sleep(QUICK.look).await;
        }
    };
    soon(is_shared).await;
    first.leadership.release().await;
    third.leadership.release().await;
    for lease in lock(&store.0).0.values() {
        assert_eq!(lease["spec"]["holderIdentity"], Value::Null, "{lease}");
    }
}

#[tokio::test]
async fn a_replica_that_is_cut_off_stops_before_another_begins() {
    let (store, wire) = (Store::default(), Wire::default());
    let mut first = store.replica("first", &[], &wire);
    first.gains(&LeaseScope::General).await;
    let mut second = store.replica("second", &[], &Wire::default());
    sleep(QUICK.deadline * 2).await;
    let claim = first.claim(&LeaseScope::General);
    assert!(claim.holds(), "it is renewed for as long as it can be");
    let cut = Instant::now();
    wire.0.store(true, Ordering::Relaxed);
    while claim.holds() {
        assert!(!second.claim(&LeaseScope::General).holds(), "two hold it");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(cut.elapsed() <= QUICK.lease, "by its own clock");
    second.gains(&LeaseScope::General).await;
    assert_eq!(store.spec(&LeaseScope::General)["holderIdentity"], "second");
    // It comes back as one that stands by, and gets what is its share then.
    wire.0.store(false, Ordering::Relaxed);
    for replica in [&first, &second] {
        replica.leadership.leases.declare("lab", None);
    }
    share(&[(&first, 1), (&second, 1)]).await;
}

#[tokio::test]
async fn a_lease_that_somebody_else_touches_is_kept_and_one_that_is_taken_is_lost_and_can_be_gained_again() {
    let store = Store::default();
    let mut replica = store.replica("me", &["lab"], &Wire::default());
    let first = replica.gains(&lab()).await;
    store.edit(&lab(), |lease| lease["metadata"]["labels"]["team"] = "storage".into());
    sleep(QUICK.deadline * 2).await;
    assert!(replica.claim(&lab()).holds());
    store.edit(&lab(), |lease| lease["metadata"]["labels"] = json!({}));
    sleep(QUICK.deadline * 2).await;
    assert!(replica.claim(&lab()).holds());
    store.edit(&lab(), |lease| lease["spec"]["holderIdentity"] = "thief".into());
    replica.loses(&lab()).await;
    assert!(!replica.claim(&lab()).holds() && replica.claim(&LeaseScope::General).holds());
    let second = replica.gains(&lab()).await;
    assert_ne!(first, second, "what was begun before is void");
    assert_eq!(store.spec(&lab())["holderIdentity"], "me");
}

#[tokio::test]
async fn one_that_lapses_while_nobody_else_takes_it_is_gained_anew() {
    let (store, wire) = (Store::default(), Wire::default());
    let mut replica = store.replica("me", &["lab"], &wire);
    let first = replica.gains(&lab()).await;
    wire.0.store(true, Ordering::Relaxed);
    replica.loses(&lab()).await;
    wire.0.store(false, Ordering::Relaxed);
    assert_ne!(replica.gains(&lab()).await, first);
}

#[tokio::test]
async fn the_one_lease_of_an_earlier_version_is_respected_as_the_lease_of_everything() {
    let store = Store::default();
    let renew = |time: u64| {
        store.edit(&LeaseScope::General, |lease| {
            let renewed = format!("2026-01-02T03:04:05.{time:06}Z");
            lease["spec"] = json!({"holderIdentity": "old", "leaseDurationSeconds": 2, "renewTime": renewed});
        });
    };
    renew(0);
    let mut replica = store.replica("new", &["lab"], &Wire::default());
    for time in 1..8 {
        sleep(QUICK.lease / 4).await;
        assert_eq!(replica.held(), 0);
        renew(time);
    }
    replica.gains(&lab()).await;
    share(&[(&replica, 2)]).await;
    let general = lock(&store.0).0[&LeaseScope::General.lease()].clone();
    assert_eq!(general["metadata"]["labels"][names::LABEL], "general");

    // It is back, and has taken the lease while the new one didn't look: that it is there, the new one's own marks on it don't hide.
    renew(8);
    replica.loses(&lab()).await;
    for time in 9..16 {
        sleep(QUICK.lease / 4).await;
        assert_eq!(replica.held(), 0);
        renew(time);
    }
    share(&[(&replica, 2)]).await;
}

#[tokio::test]
async fn a_lease_that_goes_with_its_vcenter_is_not_made_again_to_be_given_back() {
    let store = Store::default();
    let mut replica = store.replica("me", &["lab"], &Wire::default());
    replica.gains(&lab()).await;
    {
        // Nobody looks while both happen.
        let mut kept = lock(&store.0);
        kept.0.remove(&lab().lease());
        replica.leadership.leases.dismiss("lab");
    }
    replica.loses(&lab()).await;
    sleep(QUICK.look * 4).await;
    assert_eq!(store.spec(&lab()), Value::Null);
}

#[tokio::test]
async fn one_that_starts_again_and_again_is_given_nothing() {
    let store = Store::default();
    let vcenters = ["a", "b", "c"];
    let steady = store.replica("steady", &vcenters, &Wire::default());
    share(&[(&steady, 4)]).await;
    for run in 0..4 {
        let wire = Wire::default();
        let unsteady = store.replica(&format!("unsteady-{run}"), &vcenters, &wire);
        sleep(QUICK.settle / 2).await;
        assert_eq!((steady.held(), unsteady.held()), (4, 0));
        kill(unsteady, &wire);
        sleep(QUICK.settle * 2).await;
        assert_eq!(steady.held(), 4);
    }
    let settled = store.replica("settled", &vcenters, &Wire::default());
    share(&[(&steady, 2), (&settled, 2)]).await;
}

#[tokio::test]
async fn a_call_that_is_being_made_keeps_its_lease_from_being_given_back_and_no_other() {
    let store = Store::default();
    let mut first = store.replica("first", &["lab"], &Wire::default());
    let epoch = first.gains(&lab()).await;
    share(&[(&first, 2)]).await;
    first.claim(&lab()).take_up(epoch, Arc::default());
    let mandate = first.claim(&lab()).mandate().unwrap();
    let call = mandate.begin().unwrap();
    let second = store.replica("second", &["lab"], &Wire::default());
    let released = tokio::spawn(first.leadership.release());
    share(&[(&second, 1)]).await;
    assert!(mandate.begin().is_none(), "nothing new is begun");
    drop(call);
    released.await.unwrap();
    share(&[(&second, 2)]).await;
}
