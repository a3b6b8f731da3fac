//! The controller of VCenters: each is followed as it is declared, with what its Secret says now.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{
    VCenter,
    vcenter::{Limits as DeclaredLimits, SecretReference},
    vmgroup::RELEASE_ANNOTATION,
};
use drover_core::{budget::Limits, group::Timestamp};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::Action as Requeue,
        reflector::{ObjectRef, store::Writer},
        watcher,
    },
};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::{DEFAULT, Fleet, Known, report, roster::Declared};
use crate::{
    connection::{BadDeclaration, Connection},
    group::{self, Context},
    guard::Guarded,
    info::{self, Publication},
    loops::Running,
    shelf::{self, Error, Shelf},
    vcenter::{Live, Trigger, rights, whereabouts::Concerned},
};

/// How often the figures of a VCenter are looked at. It costs nothing where they are the same.
const LOOK: Duration = Duration::from_secs(3);

/// How long a Secret may be gone before its VCenter is left.
const REWRITING: Duration = Duration::from_secs(10);

/// How long to wait for a vCenter that is being read.
const MOMENT: Duration = Duration::from_secs(1);

/// A VCenter that is looked after.
pub(super) struct Keeping {
    secret: SecretReference,
    seen: Arc<Mutex<Option<Seen>>>,
    /// Since when the Secret isn't there, though it was.
    absent: Option<Instant>,
    _watch: Running,
    state: State,
}

/// What the watch on a Secret has told: it, or that it isn't there, or why it can't be told.
type Seen = Result<Option<Secret>, String>;

enum State {
    /// Its Secret has not been read yet.
    Waiting,
    Followed(Box<Connection>, Arc<Live>),
    Unusable(String),
}

impl Keeping {
    pub(super) fn live(&self) -> Option<&Arc<Live>> {
        self.usable().ok()
    }

    pub(super) fn usable(&self) -> Result<&Arc<Live>, &str> {
        match &self.state {
            State::Followed(_, live) => Ok(live),
            State::Waiting => Err("its Secret has not been read yet"),
            State::Unusable(why) => Err(why),
        }
    }

    /// Whether the Secret of a VCenter that is followed went a moment ago: who deletes it may be about to write it anew.
    fn is_being_rewritten(&mut self, seen: &Seen) -> bool {
        if !matches!(seen, Ok(None)) || self.live().is_none() {
            self.absent = None;
            return false;
        }
        self.absent.get_or_insert_with(Instant::now).elapsed() < REWRITING
    }

    fn set_state(&mut self, state: State) {
        if let State::Followed(_, live) = std::mem::replace(&mut self.state, state) {
            live.retire();
        }
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.set_state(State::Waiting);
    }
}

/// Starts the controller of VCenters. `orders` are those that have to be looked at again.
pub(crate) fn start(
    context: &Arc<Context>,
    shelf: &Shelf<VCenter>,
    writer: Writer<VCenter>,
    orders: mpsc::UnboundedReceiver<ObjectRef<VCenter>>,
) -> Running {
    let mut there = BTreeSet::new();
    let told = shelf.watch(&context.kube, writer, {
        let context = Arc::clone(context);
        move |event, _| match event {
            watcher::Event::Delete(vcenter) => context.fleet.retain(|name| name != vcenter.name_any()),
            watcher::Event::Init => there.clear(),
            watcher::Event::InitApply(vcenter) => {
                if let Guarded(Err(unreadable)) = vcenter {
                    context.fleet.known().roster.note_unreadable(unreadable);
                }
                there.insert(vcenter.name_any());
            }
            // Those that went while nobody watched.
            watcher::Event::InitDone => context.fleet.retain(|name| there.contains(name)),
            watcher::Event::Apply(Guarded(Err(unreadable))) => context.fleet.known().roster.note_unreadable(unreadable),
            watcher::Event::Apply(_) => {}
        }
    });
    shelf::run(Controller::for_stream(told, shelf.store.clone()), orders, reconcile, context, "vcenters")
}

/// Follows a vCenter as it is declared.
async fn reconcile(vcenter: Arc<VCenter>, context: Arc<Context>) -> Result<Requeue, Error> {
    let outlook = context.fleet.tend(&vcenter, &context.kube);
    let Some(outlook) = outlook else { return Ok(Requeue::await_change()) };
    let mut publication = Publication::Unknown;
    if let Ok(live) = &outlook {
        let (limits, patience) = limits(vcenter.spec.limits);
        live.works().set_limits(limits, patience);
        let released = vcenter.annotations().get(RELEASE_ANNOTATION).map(String::as_str).unwrap_or_default();
        live.set_released(
            released.split(',').map(|incident| incident.trim().to_owned()).filter(|it| !it.is_empty()).collect(),
        );
        live.turn_queue();
        if live.away().is_none() && !live.is_in_sight() && vcenter.status.is_some() {
            // It is being read, and in a moment there is something to say of it.
            return Ok(Requeue::requeue(MOMENT));
        }
        if live.is_in_sight() {
            live.judge();
            check_rights(live, &vcenter).await;
            publication = info::publish_hosts(&context, live, &vcenter).await;
        }
    }
    report::write(&context.kube, &vcenter, outlook.as_ref().map_err(String::as_str), publication).await?;
    Ok(Requeue::requeue(LOOK))
}

async fn check_rights(live: &Arc<Live>, vcenter: &VCenter) {
    group::concern_defaults(live, &vcenter.spec.defaults).await;
    if live.works().take_refusal() {
        live.rights().doubt();
    }
    let lacks = || live.rights().missing().is_some_and(|missing| !missing.is_empty());
    let lacked = lacks();
    if let Err(error) = rights::check(live).await {
        warn!(vcenter = %live.name, %error, "the privileges could not be checked");
    }
    if lacked && !lacks() {
        // What was refused may well be done now.
        live.works().start_over(Timestamp::now());
        live.trigger(Trigger::VCenter(live.name.clone()));
    }
}

fn limits(declared: DeclaredLimits) -> (Limits, Duration) {
    let usual = Limits::default();
    // No more than a vCenter bears, though an older definition may have let more in.
    let or = |number: Option<u32>, most: u32, usual| {
        number.and_then(|number| NonZeroUsize::new(usize::try_from(number.min(most)).ok()?)).unwrap_or(usual)
    };
    let limits = Limits {
        operations: or(declared.operations, 640, usual.operations),
        clones_per_host: or(declared.clones_per_host, 64, usual.clones_per_host),
    };
    let seconds = declared.operation_seconds.filter(|seconds| *seconds > 0).map(|seconds| seconds.min(86400));
    (limits, seconds.map_or(group::PATIENCE, |seconds| Duration::from_secs(seconds.into())))
}

impl Fleet {
    /// Follows a vCenter as it is declared now, or says why it can't be. `None`: that isn't known yet.
    pub(super) fn tend(&self, vcenter: &VCenter, kube: &Client) -> Option<Result<Arc<Live>, String>> {
        let name = vcenter.name_any();
        let mut known = self.known();
        let Declared { is_news, problem } = known.roster.declare(&name, &vcenter.spec);
        if is_news {
            let _ = self.triggers.send(Trigger::All);
        }
        if name == DEFAULT {
            known.leave_environment();
        }
        let reference = &vcenter.spec.credentials_secret_ref;
        let is_watched = known.kept.get(&name).is_some_and(|keeping| keeping.secret == *reference);
        if !is_watched {
            let state =
                known.kept.remove(&name).map(|mut keeping| std::mem::replace(&mut keeping.state, State::Waiting));
            let state = state.unwrap_or(State::Waiting);
            known.kept.insert(name.clone(), self.keep(&name, reference, state, kube));
        }
        let keeping = known.kept.get_mut(&name)?;
        let seen = keeping.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if problem.is_none() && keeping.is_being_rewritten(&seen) {
            return Some(keeping.usable().cloned().map_err(ToOwned::to_owned));
        }
        let written = written(&seen);
        let connection = match problem {
            Some(problem) => Err(problem),
            None => connection(vcenter, seen).map_err(|bad| bad.to_string()),
        };
        let before = keeping.usable().map(Arc::as_ptr).map_err(ToOwned::to_owned);
        match (connection, &mut keeping.state) {
            (Err(why), _) => keeping.set_state(State::Unusable(why)),
            (Ok(connection), State::Followed(known, live)) if known.leads_where(&connection) => {
                // It takes no notice of what it knows.
                live.client.set_credentials(connection.credentials.clone(), &written);
                **known = connection;
            }
            (Ok(connection), _) => {
                let instance = vcenter.status.as_ref().and_then(|status| status.instance_uuid.clone());
                let incident = vcenter.status.as_ref().and_then(|status| status.incident.clone());
                let state = match self.connect(&name, &connection, instance) {
                    Ok(live) => {
                        live.remember(incident);
                        State::Followed(Box::new(connection), live)
                    }
                    Err(why) => State::Unusable(why),
                };
                keeping.set_state(state);
            }
        }
        let outlook = keeping.usable().cloned().map_err(ToOwned::to_owned);
        if outlook.as_ref().map(Arc::as_ptr).map_err(Clone::clone) != before {
            info!(vcenter = %name, why = outlook.as_ref().err(), "the VCenter is taken up as it is declared");
            let _ = self.triggers.send(Trigger::VCenter(name));
        }
        Some(outlook)
    }

    /// Watches a VCenter's Secret.
    fn keep(&self, name: &str, secret: &SecretReference, state: State, kube: &Client) -> Keeping {
        let seen: Arc<Mutex<Option<Seen>>> = Arc::default();
        let secrets: Api<Secret> = Api::namespaced(kube.clone(), &secret.namespace);
        let told = watcher::watch_object(secrets, &secret.name).backoff(shelf::backoff());
        let watch = {
            let (seen, name, triggers) = (Arc::clone(&seen), name.to_owned(), self.triggers.clone());
            self.loops.start(format!("secret of {name}"), |pulse| async move {
                let mut told = std::pin::pin!(told.into_stream());
                while let Some(news) = pulse.wait(told.next()).await {
                    let news: Seen = news.map_err(|error| {
                        warn!(vcenter = %name, %error, "the Secret's watch failed, and begins anew");
                        error.to_string()
                    });
                    {
                        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                        // A watch that breaks off says nothing about the Secret: what was seen last holds.
                        if news.is_ok() || !matches!(*seen, Some(Ok(_))) {
                            *seen = Some(news);
                        }
                    }
                    // The receiver lives as long as the operator.
                    let _ = triggers.send(Trigger::Infos(name.clone(), Concerned::default()));
                }
            })
        };
        Keeping { secret: secret.clone(), seen, absent: None, _watch: watch, state }
    }

    /// Stops to follow those that are declared no more.
    fn retain(&self, is_there: impl Fn(&str) -> bool) {
        let mut known = self.known();
        if known.roster.retain_unreadable(&is_there) {
            let _ = self.triggers.send(Trigger::All);
        }
        let gone: Vec<_> = known.kept.keys().filter(|name| !is_there(name)).cloned().collect();
        for name in gone {
            info!(vcenter = %name, "the VCenter is declared no more");
            known.roster.dismiss(&name);
            known.kept.remove(&name);
            if name == DEFAULT {
                self.follow_environment(&mut known);
            }
            let _ = self.triggers.send(Trigger::VCenter(name));
        }
    }
}

impl Known {
    /// A VCenter has the name of the one that the environment gives.
    fn leave_environment(&mut self) {
        if let Some((_, live)) = &mut self.environment
            && let Some(live) = live.take()
        {
            live.retire();
        }
    }
}

/// Which writing of the Secret was seen: refused credentials that are written again are tried again.
fn written(seen: &Seen) -> String {
    let secret = seen.as_ref().ok().and_then(Option::as_ref);
    secret.and_then(ResourceExt::resource_version).unwrap_or_default()
}

fn connection(vcenter: &VCenter, seen: Seen) -> Result<Connection, BadDeclaration> {
    let SecretReference { namespace, name } = &vcenter.spec.credentials_secret_ref;
    let secret = seen.map_err(|error| BadDeclaration::Unreadable(format!("{namespace}/{name}"), error))?;
    Connection::declared(&vcenter.spec, secret.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_what_a_vcenter_bears_whatever_an_older_definition_let_in() {
        let declared = |number| DeclaredLimits {
            operations: Some(number),
            clones_per_host: Some(number),
            operation_seconds: Some(number),
        };
        let read = |number| {
            let (limits, patience) = limits(declared(number));
            (limits.operations.get(), limits.clones_per_host.get(), patience)
        };
        let usual = Limits::default();
        assert_eq!(read(0), (usual.operations.get(), usual.clones_per_host.get(), group::PATIENCE));
        assert_eq!(read(7), (7, 7, Duration::from_secs(7)));
        assert_eq!(read(u32::MAX), (640, 64, Duration::from_hours(24)));
    }
}
