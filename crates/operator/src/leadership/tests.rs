//! Elections on an API server that does what a test wants of it, in quick time.

use std::sync::{Arc, Mutex};

use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::{BoxError, service_fn};

use super::*;

const QUICK: Timing = Timing {
    lease: Duration::from_secs(2),
    deadline: Duration::from_secs(1),
    period: Duration::from_millis(100),
    attempt: Duration::from_millis(400),
};

/// One lease, as an API server keeps it.
#[derive(Clone, Default)]
struct Store(Arc<Mutex<Option<Value>>>);

/// A way to the API server that can be cut.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<bool>>);

impl Store {
    fn answer(&self, method: &str, body: &[u8]) -> (u16, Value) {
        let mut kept = self.0.lock().unwrap();
        let sent: Value = serde_json::from_slice(body).unwrap_or_default();
        let known = kept.as_ref().and_then(version);
        let fits = match method {
            "GET" => return kept.clone().map_or_else(|| status(404), |lease| (200, lease)),
            "POST" => known.is_none(),
            "PUT" => known.is_some() && version(&sent) == known,
            _ => panic!("{method} is not needed"),
        };
        if !fits {
            return status(409);
        }
        let lease = kept.insert(sent);
        lease["metadata"]["resourceVersion"] = (known.unwrap_or(0) + 1).to_string().into();
        (200, lease.clone())
    }

    fn spec(&self) -> Value {
        self.0.lock().unwrap().as_ref().map(|lease| lease["spec"].clone()).unwrap_or_default()
    }

    /// Writes the lease as somebody does who isn't in the election.
    fn edit(&self, change: impl FnOnce(&mut Value)) {
        let mut kept = self.0.lock().unwrap();
        let lease = kept.as_mut().unwrap();
        change(lease);
        let version = version(lease).unwrap();
        lease["metadata"]["resourceVersion"] = (version + 1).to_string().into();
    }

    fn leases(&self, wire: &Wire) -> Api<Lease> {
        let (store, wire) = (self.clone(), wire.clone());
        let service = service_fn(move |request: http::Request<Body>| {
            let (store, wire) = (store.clone(), wire.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                if *wire.0.lock().unwrap() {
                    std::future::pending::<()>().await;
                }
                let (code, answer) = store.answer(head.method.as_str(), &body);
                let answer =
                    http::Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?;
                Ok::<_, BoxError>(answer)
            }
        });
        Api::namespaced(Client::new(service, "default"), "default")
    }

    fn candidate(&self, identity: &str, wire: &Wire) -> Leadership {
        let candidate = Candidate { identity: identity.to_owned(), lease: QUICK.lease };
        Leadership::with(self.leases(wire), candidate, QUICK)
    }
}

impl Wire {
    /// From now on nothing is answered.
    fn cut(&self) {
        *self.0.lock().unwrap() = true;
    }
}

fn version(lease: &Value) -> Option<u64> {
    lease["metadata"]["resourceVersion"].as_str()?.parse().ok()
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

#[tokio::test]
async fn one_of_two_holds_the_lease_and_hands_it_over_at_once() {
    let store = Store::default();
    let (first, second) = (store.candidate("first", &Wire::default()), store.candidate("second", &Wire::default()));
    let (a, b) = (first.claim(), second.claim());
    let (leader, other, waiting) = tokio::select! {
        () = soon(a.acquired()) => (first, second, b.clone()),
        () = b.acquired() => (second, first, a.clone()),
    };
    sleep(QUICK.period * 5).await;
    assert!(leader.claim().holds() && !waiting.holds());
    let claim = leader.claim();
    let asked = Instant::now();
    leader.release().await;
    assert!(!claim.holds());
    assert_eq!(soon(claim.lost()).await, Loss::Returned);
    soon(waiting.acquired()).await;
    assert!(asked.elapsed() < QUICK.lease, "it has not waited for the lease to run out");
    assert_eq!(store.spec()["leaseTransitions"], 1);
    other.release().await;
    assert_eq!(store.spec()["holderIdentity"], Value::Null);
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_another_begins() {
    let (store, wire) = (Store::default(), Wire::default());
    let first = store.candidate("first", &wire);
    soon(first.claim().acquired()).await;
    let second = store.candidate("second", &Wire::default());
    sleep(QUICK.deadline * 2).await;
    assert!(first.claim().holds(), "it is renewed for as long as it can be");
    let cut = Instant::now();
    wire.cut();
    let (claim, other) = (first.claim(), second.claim());
    tokio::select! {
        loss = soon(claim.lost()) => assert_eq!(loss, Loss::Lapsed),
        () = other.acquired() => panic!("two lead"),
    }
    assert!(!claim.holds());
    assert!(cut.elapsed() <= QUICK.lease, "by its own clock");
    soon(other.acquired()).await;
    assert_eq!(store.spec()["holderIdentity"], "second");
}

#[tokio::test]
async fn a_lease_that_somebody_else_touches_is_kept_and_one_that_is_taken_is_lost() {
    let store = Store::default();
    let leadership = store.candidate("me", &Wire::default());
    let claim = leadership.claim();
    soon(claim.acquired()).await;
    store.edit(|lease| lease["metadata"]["labels"] = json!({"team": "storage"}));
    sleep(QUICK.deadline * 2).await;
    assert!(claim.holds());
    store.edit(|lease| lease["spec"]["holderIdentity"] = "thief".into());
    assert_eq!(soon(claim.lost()).await, Loss::Taken("thief".to_owned()));
    leadership.release().await;
    assert_eq!(store.spec()["holderIdentity"], "thief");
}

#[test]
fn a_claim_that_has_lapsed_does_not_come_back() {
    let now = Instant::now();
    let (past, future) = (now, now + QUICK.deadline);
    let after = |term: Term, outcome| next(&term, outcome, future, now);
    assert_eq!(after(Term::Until(past), Outcome::Written), Term::Over(Loss::Lapsed));
    assert_eq!(after(Term::Until(past), Outcome::Failed), Term::Over(Loss::Lapsed));
    assert_eq!(after(Term::Over(Loss::Lapsed), Outcome::Written), Term::Over(Loss::Lapsed));
    assert_eq!(after(Term::Awaited, Outcome::Written), Term::Until(future));
    assert_eq!(after(Term::Awaited, Outcome::HeldBy("other".to_owned())), Term::Awaited);
    let held = Term::Until(now + QUICK.period);
    assert_eq!(after(held.clone(), Outcome::Failed), held);
    assert_eq!(after(held.clone(), Outcome::Written), Term::Until(future));
    let taken = Term::Over(Loss::Taken("other".to_owned()));
    assert_eq!(after(held, Outcome::HeldBy("other".to_owned())), taken);
}
