//! What the API server asks before it stores a VmGroup: whether to, and what to warn of.
//!
//! What is refused here the operator refuses itself, from what is stored. It can't see there what a value was before: so of kept keys of
//! extraConfig that no VCenter can allow, changed values are refused only here and by the rules of the kind.

mod bundle;
mod flags;
mod keeper;
mod review;

use std::{
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use drover_api::{VmGroup, VmGroupSpec, bounds};
use drover_core::vmgroup::Room;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::{Client, runtime::reflector::ObjectRef};
use rustls::ServerConfig;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use tokio::{sync::Semaphore, time::timeout};
use tracing::info;

use crate::{
    controllers::{
        Context,
        vmgroup::{Foretold, Objection, foretell, objection},
    },
    http::{
        flags::Serve,
        serve::{self, Certificates, Handler, Readiness, Unavailable},
    },
    kube::scope::Scope,
    loops::{Loops, Running, attempt},
};
pub(crate) use flags::AdmissionFlags;
use keeper::Keeper;
use review::{Answer, Operation, Question};

/// The longest question: an object of the API server's own limit as it was and as it is to be, and some.
const QUESTION: usize = 4 << 20;
/// How many are listened to at once, how long one may take to ask, and how long one may wait for a place. Whoever reaches the port may ask.
const AT_ONCE: usize = 8;
const PATIENCE: Duration = Duration::from_secs(2);
/// Where the API server asks.
const PATH: &str = "/validate";

/// Who answers the API server.
pub(crate) struct Admission {
    certificates: Arc<Certificates>,
    /// What is known, once the operator works.
    context: OnceLock<Arc<Context>>,
    places: Semaphore,
    /// Held by who is answered: one after the other, because an answer may take much memory, and keeps others from what it looks at.
    outcome: Mutex<()>,
}

/// Serves the API server as the flags say, until what this returns is dropped.
pub(crate) async fn start(
    flags: &AdmissionFlags,
    kube: &Client,
    scope: &Scope,
    ready: &Readiness,
    loops: &Loops,
) -> Result<Option<(Arc<Admission>, Vec<Running>)>, Unavailable> {
    let Serve::At(address) = &flags.webhook_addr else { return Ok(None) };
    let (certificates, keeper) = if let Some(dir) = &flags.webhook_cert_dir {
        (Arc::new(Certificates::open(dir, "--webhook-cert-dir")?), None)
    } else {
        let keeper = Keeper::new(kube, scope, flags.webhook_rotation, ready.clone())?;
        (keeper.certificates(), Some(keeper))
    };
    let admission = Arc::new(Admission {
        certificates,
        context: OnceLock::new(),
        places: Semaphore::new(AT_ONCE),
        outcome: Mutex::default(),
    });
    let handler = Arc::clone(&admission) as Arc<dyn Handler>;
    let (at, server) = serve::open("--webhook-addr", address, "webhook", loops, handler).await?;
    info!(address = %at, "Admission webhook served");
    let keeper = keeper.map(|keeper| loops.start("webhook certificates", |pulse| keeper.keep(pulse)));
    Ok(Some((admission, [Some(server), keeper].into_iter().flatten().collect())))
}

impl Handler for Admission {
    fn answer(self: Arc<Self>, request: Request<Incoming>) -> BoxFuture<'static, Response<Full<Bytes>>> {
        Box::pin(async move {
            let (status, text) = if request.uri().path() != PATH {
                (StatusCode::NOT_FOUND, format!("there is {PATH}\n"))
            } else if request.method() != Method::POST {
                (StatusCode::METHOD_NOT_ALLOWED, "only POST\n".to_owned())
            } else {
                timeout(PATIENCE, self.hear(request.into_body()))
                    .await
                    .unwrap_or_else(|_| (StatusCode::SERVICE_UNAVAILABLE, "others are asking\n".to_owned()))
            };
            let mut response = Response::new(Full::from(text));
            *response.status_mut() = status;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        })
    }

    fn shown(&self) -> Option<Arc<ServerConfig>> {
        Some(self.certificates.config())
    }
}

impl Admission {
    /// Hears a question to its end, and answers it.
    async fn hear(&self, body: Incoming) -> (StatusCode, String) {
        let _place = self.places.acquire().await;
        match Limited::new(body, QUESTION).collect().await {
            Ok(body) => {
                let _turn = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
                match review::read(&body.to_bytes()) {
                    Ok(question) => (StatusCode::OK, review::write(&question.uid, &self.review(&question))),
                    Err(error) => (StatusCode::BAD_REQUEST, format!("no AdmissionReview: {error}\n")),
                }
            }
            Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")),
        }
    }

    /// From now on it can be said what a change does.
    pub(crate) fn begin(&self, context: &Arc<Context>) {
        let _ = self.context.set(Arc::clone(context));
    }

    /// Answers, whatever is asked. What can't be told is admitted.
    fn review(&self, question: &Question) -> Answer {
        let Some(context) = self.context.get() else { return Answer::default() };
        // It changes nothing, so one that panics harms nobody else.
        attempt(|| of_vm_group(context, question)).unwrap_or_default()
    }
}

fn of_vm_group(context: &Context, question: &Question) -> Answer {
    let Some(group) = changed(context, question) else { return Answer::default() };
    let is_lasting = question.operation != Operation::Delete;
    let before = read::<VmGroup>(question.old_object.as_deref()).filter(|_| question.sub_resource.is_empty());
    let before = before.filter(is_bounded).map(|before| VmGroup { status: group.status.clone(), ..before });
    // What it names may not be allowed any more, though this change leaves it as it was. Then nothing new is made for it.
    let standing = is_lasting.then(|| objection(context, &group, None)).flatten();
    let room = matches!(standing, Some(Objection::Refused(_))).then_some(Room::NONE);
    let mut warnings = match foretell(context, &group, room) {
        // Who only tries wants to know all. Who means it is warned of what can't be undone.
        Foretold::Impact(impact, waiting) if question.dry_run || impact.is_harsh() => {
            impact.sentences().into_iter().chain(waiting).collect()
        }
        Foretold::Impact(_, waiting) => waiting.into_iter().collect(),
        Foretold::Words(words) => vec![words],
    };
    let of_change = before.as_ref().filter(|_| is_lasting).and_then(|before| objection(context, &group, Some(before)));
    let is_new = before.is_none() && question.sub_resource.is_empty();
    match (of_change, standing) {
        (Some(Objection::Refused(why)), _) => return Answer { refusal: Some(why), warnings: Vec::new() },
        (None, Some(Objection::Refused(why))) if is_new => return Answer { refusal: Some(why), warnings: Vec::new() },
        (_, Some(Objection::Refused(why) | Objection::Warning(why))) => warnings.push(why),
        (_, None) => {}
    }
    Answer { warnings, ..Answer::default() }
}

/// The object of a question.
fn read<T: DeserializeOwned>(object: Option<&RawValue>) -> Option<T> {
    serde_json::from_str(object?.get()).ok()
}

/// Whether a group names no more than its kind lets it. What names more never comes from the API server.
fn is_bounded(group: &VmGroup) -> bool {
    let VmGroupSpec { networks, extra_config, placement, .. } = &group.spec;
    networks.len() <= bounds::NETWORKS && extra_config.len() <= bounds::KEYS && placement.hosts.len() <= bounds::HOSTS
}

/// The group as it would be, if its VMs may have to do with what is asked. What it is and has is known here, whatever the question says of that.
fn changed(context: &Context, question: &Question) -> Option<VmGroup> {
    let is_plain = question.sub_resource.is_empty();
    let known = || {
        let reference = ObjectRef::new(&question.name).within(&question.namespace);
        context.groups.store.get(&reference).map(|group| (*group).clone())
    };
    let of_question = |object: &Option<Box<RawValue>>| read::<VmGroup>(object.as_deref()).filter(is_bounded);
    match question.operation {
        _ if question.resource.resource != "vmgroups" => None,
        Operation::Create if is_plain => {
            let mut group = of_question(&question.object)?;
            group.metadata.namespace = Some(question.namespace.clone());
            group.status = None;
            Some(group)
        }
        Operation::Update if question.sub_resource == "scale" => {
            let mut group = known()?;
            let scale: Scale = read(question.object.as_deref())?;
            (group.spec.replicas != scale.spec.replicas).then(|| {
                group.spec.replicas = scale.spec.replicas;
                group
            })
        }
        Operation::Update if is_plain => {
            let (now, before) = (of_question(&question.object)?, of_question(&question.old_object)?);
            let mut group = known().filter(|group| group.metadata.uid == before.metadata.uid)?;
            (now.spec != before.spec).then(|| {
                group.spec = now.spec;
                group
            })
        }
        Operation::Delete => {
            let mut group = known().filter(|group| group.metadata.deletion_timestamp.is_none())?;
            group.metadata.deletion_timestamp = Some(Time(Timestamp::now()));
            Some(group)
        }
        _ => None,
    }
}

/// How many VMs somebody wants, as `kubectl scale` asks.
#[derive(Deserialize)]
struct Scale {
    spec: ScaleSpec,
}

#[derive(Deserialize)]
struct ScaleSpec {
    // None is written for 0.
    #[serde(default)]
    replicas: i32,
}
