//! Who may read the metrics: those whom the API server lets get the URL `/metrics`. It is asked, and nobody else decides.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use hyper::{
    HeaderMap, StatusCode,
    header::{AUTHORIZATION, HeaderValue},
};
use k8s_openapi::api::{
    authentication::v1::{TokenReview, TokenReviewSpec, UserInfo},
    authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kube::{Api, Client, api::PostParams};
use ring::digest::{SHA256, digest};
use tokio::{sync::Semaphore, time::timeout};
use tracing::warn;

/// How long the API server may take for both of its answers.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many questions it is asked at once.
const QUESTIONS: usize = 4;
/// For how long somebody is let in, and kept out, by the same answer. A right that is given is soon felt.
const ALLOWED: Duration = Duration::from_mins(1);
const REFUSED: Duration = Duration::from_secs(10);
/// How many answers of each kind are kept.
const ANSWERS: usize = 256;

/// Who may read the metrics. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access(Option<Arc<Asked>>);

struct Asked {
    kube: OnceLock<Client>,
    allowed: Mutex<Answers<()>>,
    refused: Mutex<Answers<Refusal>>,
    questions: Semaphore,
}

/// Why somebody may not read them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("a bearer token is needed, such as that of a ServiceAccount which may get the URL /metrics")]
    NoToken,
    #[error("the API server does not accept this token: it has expired, or is of another cluster")]
    BadToken,
    #[error(
        "{0} may not get the URL /metrics: bind it to a ClusterRole with nonResourceURLs [/metrics] and verbs [get]"
    )]
    Forbidden(String),
    #[error("the API server can't be asked who may read the metrics; the operator's log says why")]
    Unknown,
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Unknown => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl Access {
    /// Anybody may.
    pub(crate) fn open() -> Self {
        Self(None)
    }

    /// Those may whom the API server lets, once there is one to ask.
    pub(crate) fn guarded() -> Self {
        Self(Some(Arc::new(Asked {
            kube: OnceLock::new(),
            allowed: Mutex::new(Answers::new(ALLOWED)),
            refused: Mutex::new(Answers::new(REFUSED)),
            questions: Semaphore::new(QUESTIONS),
        })))
    }

    /// From now on, asks this API server.
    pub(crate) fn ask(&self, kube: &Client) {
        if let Some(asked) = &self.0 {
            // The first is the one.
            let _ = asked.kube.set(kube.clone());
        }
    }

    /// Whether whoever sends these headers may.
    pub(super) async fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match &self.0 {
            Some(asked) => asked.check(token(headers).ok_or(Refusal::NoToken)?).await,
            None => Ok(()),
        }
    }
}

/// The bearer token that a request comes with.
fn token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION).map(HeaderValue::to_str)?.ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

impl Asked {
    async fn check(&self, token: &str) -> Result<(), Refusal> {
        let key = Key::of(token);
        if let Some(answer) = self.known(&key) {
            return answer;
        }
        let kube = self.kube.get().ok_or(Refusal::Unknown)?;
        // Questions that wait too long are given up with their connections.
        let Ok(_question) = self.questions.acquire().await else { return Err(Refusal::Unknown) };
        // The one before may have been the same.
        if let Some(answer) = self.known(&key) {
            return answer;
        }
        let answer = match timeout(PATIENCE, review(kube, token)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                warn!(%error, "the API server can't be asked who may read the metrics: the operator has to be allowed to \
                               create tokenreviews and subjectaccessreviews");
                return Err(Refusal::Unknown);
            }
            Err(_) => {
                warn!("API server did not answer in time who may read the metrics");
                return Err(Refusal::Unknown);
            }
        };
        let now = Instant::now();
        match &answer {
            Ok(()) => lock(&self.allowed).keep(key, (), now),
            Err(refusal) => lock(&self.refused).keep(key, refusal.clone(), now),
        }
        answer
    }

    /// What was answered a moment ago.
    fn known(&self, key: &Key) -> Option<Result<(), Refusal>> {
        let now = Instant::now();
        let refused = lock(&self.refused).get(key, now).map(Err);
        lock(&self.allowed).get(key, now).map(Ok).or(refused)
    }
}

fn lock<T>(answers: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    answers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked")
    }
}

/// Asks the API server whose token this is, and whether he may.
async fn review(kube: &Client, token: &str) -> Result<Result<(), Refusal>, kube::Error> {
    let spec = TokenReviewSpec { token: Some(token.to_owned()), audiences: None };
    let asked = TokenReview { spec, ..TokenReview::default() };
    let reviews = Api::<TokenReview>::all(kube.clone());
    let status = reviews.create(&PostParams::default(), &asked).await?.status.unwrap_or_default();
    let Some(UserInfo { username: Some(user), groups, uid, extra }) =
        status.user.filter(|_| status.authenticated == Some(true))
    else {
        return Ok(Err(Refusal::BadToken));
    };
    let url = NonResourceAttributes { path: Some("/metrics".to_owned()), verb: Some("get".to_owned()) };
    let spec = SubjectAccessReviewSpec {
        user: Some(user.clone()),
        groups,
        uid,
        extra,
        non_resource_attributes: Some(url),
        ..SubjectAccessReviewSpec::default()
    };
    let asked = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews = Api::<SubjectAccessReview>::all(kube.clone());
    let status = reviews.create(&PostParams::default(), &asked).await?.status.unwrap_or_default();
    // One who is denied is so, whatever else allows it.
    let may = status.allowed && status.denied != Some(true);
    Ok(if may { Ok(()) } else { Err(Refusal::Forbidden(user)) })
}

/// What stands for a token. The token itself is kept nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key([u8; 32]);

impl Key {
    fn of(token: &str) -> Self {
        let mut key = [0; 32];
        // SHA-256 has as many bytes.
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(key)
    }
}

/// The answers of the last moment, and no more of them than fit.
#[derive(Debug)]
struct Answers<T> {
    last: Duration,
    kept: HashMap<Key, (Instant, T)>,
}

impl<T: Clone> Answers<T> {
    /// None yet. Each lasts so long.
    fn new(last: Duration) -> Self {
        Self { last, kept: HashMap::new() }
    }

    fn get(&self, key: &Key, now: Instant) -> Option<T> {
        let (at, answer) = self.kept.get(key)?;
        (now.saturating_duration_since(*at) < self.last).then(|| answer.clone())
    }

    fn keep(&mut self, key: Key, answer: T, now: Instant) {
        self.kept.retain(|_, (at, _)| now.saturating_duration_since(*at) < self.last);
        if self.kept.len() >= ANSWERS
            && let Some(oldest) = self.kept.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| *key)
        {
            self.kept.remove(&oldest);
        }
        self.kept.insert(key, (now, answer));
    }
}

#[cfg(test)]
mod tests {
    use kube::client::Body;
    use serde_json::{Value, json};
    use tower::{BoxError, service_fn};

    use super::*;

    /// An API server that knows the tokens `reader` and `other`, of which the first may, with the questions that it was asked. Told
    /// to be away, it refuses all.
    fn server(is_away: bool) -> (Client, Arc<Mutex<Vec<Value>>>) {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let questions = Arc::clone(&asked);
        let service = service_fn(move |request: http::Request<Body>| {
            let questions = Arc::clone(&questions);
            async move {
                let sent: Value = serde_json::from_slice(&request.into_body().collect_bytes().await?)?;
                let token = sent["spec"]["token"].as_str().unwrap_or_default().to_owned();
                let mut answer = sent.clone();
                answer["status"] = if sent["kind"] == "TokenReview" {
                    let is_known = ["reader", "other"].contains(&token.as_str());
                    json!({"authenticated": is_known, "user": {"username": token, "groups": ["g"], "uid": "7", "extra": {"k": ["v"]}}})
                } else {
                    json!({"allowed": sent["spec"]["user"] == "reader"})
                };
                questions.lock().unwrap().push(sent);
                let status = if is_away { 503 } else { 201 };
                let body = Body::from(answer.to_string().into_bytes());
                Ok::<_, BoxError>(http::Response::builder().status(status).body(body)?)
            }
        });
        (Client::new(service, "default"), asked)
    }

    fn headers(authorization: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !authorization.is_empty() {
            headers.insert(AUTHORIZATION, authorization.parse().unwrap());
        }
        headers
    }

    #[tokio::test]
    async fn only_those_may_whom_the_api_server_lets() {
        let access = Access::guarded();
        let (kube, asked) = server(false);
        access.ask(&kube);
        for (authorization, answer) in [
            ("", Err(Refusal::NoToken)),
            ("Basic cmVhZGVy", Err(Refusal::NoToken)),
            ("Bearer ", Err(Refusal::NoToken)),
            ("Bearer stranger", Err(Refusal::BadToken)),
            ("Bearer other", Err(Refusal::Forbidden("other".to_owned()))),
            ("Bearer reader", Ok(())),
            ("bearer reader", Ok(())),
        ] {
            assert_eq!(access.check(&headers(authorization)).await, answer, "{authorization}");
        }
        let asked = asked.lock().unwrap();
        let spec = json!({
            "user": "reader", "groups": ["g"], "uid": "7", "extra": {"k": ["v"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(asked.last().unwrap()["spec"], spec);
        assert_eq!(asked.len(), 5, "the last was known");
    }

    #[tokio::test]
    async fn nobody_may_while_the_api_server_cant_be_asked() {
        let access = Access::guarded();
        assert_eq!(access.check(&headers("Bearer reader")).await, Err(Refusal::Unknown), "there is none yet");
        let (kube, asked) = server(true);
        access.ask(&kube);
        for _ in 0..2 {
            assert_eq!(access.check(&headers("Bearer reader")).await, Err(Refusal::Unknown));
        }
        assert_eq!(asked.lock().unwrap().len(), 2, "that is no answer to be remembered");
        assert_eq!(Access::open().check(&headers("")).await, Ok(()));
    }

    #[test]
    fn refusals_are_said_with_a_status_and_what_to_do() {
        let said = |refusal: &Refusal| (refusal.status().as_u16(), refusal.to_string());
        assert_eq!(said(&Refusal::NoToken).0, 401);
        assert_eq!(said(&Refusal::BadToken).0, 401);
        assert_eq!(said(&Refusal::Unknown).0, 503);
        let (status, text) = said(&Refusal::Forbidden("system:serviceaccount:a:b".to_owned()));
        assert_eq!(status, 403);
        assert!(text.starts_with("system:serviceaccount:a:b may not get the URL /metrics: bind it"), "{text}");
    }

    #[test]
    fn answers_last_for_their_time_and_take_no_more_than_their_room() {
        let (began, last) = (Instant::now(), Duration::from_secs(10));
        let mut answers = Answers::new(last);
        let at = |second| began + Duration::from_secs(second);
        answers.keep(Key::of("a"), 1, at(0));
        assert_eq!(answers.get(&Key::of("a"), at(9)), Some(1));
        assert_eq!(answers.get(&Key::of("a"), at(10)), None);
        assert_eq!(answers.get(&Key::of("b"), at(0)), None);
        for number in 0..ANSWERS {
            answers.keep(Key::of(&number.to_string()), 2, at(1));
        }
        assert_eq!(answers.kept.len(), ANSWERS);
        assert_eq!(answers.get(&Key::of("a"), at(2)), None, "the oldest makes room");
        answers.keep(Key::of("z"), 3, at(11));
        assert_eq!(answers.kept.len(), 1, "those whose time is over are forgotten");
    }
}
