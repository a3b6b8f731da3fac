//! A vCenter as it is declared, followed with what its Secret says now.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{
    VCenter,
    vcenter::{Limits as DeclaredLimits, SecretReference},
};
use drover_core::vcenter::budget::Limits;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use tracing::{info, warn};

use super::{
    DEFAULT, Known, VCenters,
    roster::{Declared, RULES_HOLD},
};
use crate::{
    kube::shared_watch,
    loops::Running,
    vcenter::{
        Trigger, VCenterHandle,
        connection::{BadDeclaration, Connection},
        executor::PATIENCE,
        inventory_names::Concerned,
    },
};

/// How long a Secret may be gone before its VCenter is left.
const REWRITING: Duration = Duration::from_secs(10);

/// A Secret, by its namespace and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SecretKey {
    namespace: String,
    name: String,
}

/// A VCenter that is looked after.
pub(super) struct Followed {
    secret: SecretKey,
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
    Followed(Box<Connection>, Arc<VCenterHandle>),
    Unusable(String),
}

impl Followed {
    pub(super) fn live(&self) -> Option<&Arc<VCenterHandle>> {
        self.usable().ok()
    }

    pub(super) fn usable(&self) -> Result<&Arc<VCenterHandle>, &str> {
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

impl Drop for Followed {
    fn drop(&mut self) {
        self.set_state(State::Waiting);
    }
}

/// How much may be done in a vCenter at once, and how long each may take, as it is declared.
pub(crate) fn limits(declared: DeclaredLimits) -> (Limits, Duration) {
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
    (limits, seconds.map_or(PATIENCE, |seconds| Duration::from_secs(seconds.into())))
}

impl VCenters {
    /// Follows a vCenter as it is declared now, or says why it can't be. `None`: that isn't known yet.
    pub(crate) fn follow(&self, vcenter: &VCenter, kube: &Client) -> Option<Result<Arc<VCenterHandle>, String>> {
        let name = vcenter.name_any();
        self.declare_lease(&vcenter.metadata);
        let mut known = self.known();
        let Declared { is_news, problem } = known.roster.declare(&name, &vcenter.spec);
        if is_news {
            let _ = self.triggers.send(Trigger::All);
        }
        if name == DEFAULT && vcenter.spec.is_of_environment() {
            return Some(self.follow_environments_own(&mut known, vcenter, problem));
        }
        if name == DEFAULT {
            known.leave_environment();
        }
        let Some(reference) = vcenter.spec.credentials_secret_ref.as_ref().map(|it| self.resolved(it)) else {
            // Only a definition of others lets that in.
            known.followed.remove(&name);
            return Some(Err(BadDeclaration::Incomplete.to_string()));
        };
        let reference = &reference;
        let is_watched = known.followed.get(&name).is_some_and(|followed| followed.secret == *reference);
        if !is_watched {
            let state =
                known.followed.remove(&name).map(|mut followed| std::mem::replace(&mut followed.state, State::Waiting));
            let state = state.unwrap_or(State::Waiting);
            known.followed.insert(name.clone(), self.watch_secret(&name, reference, state, kube));
        }
        let followed = known.followed.get_mut(&name)?;
        let seen = followed.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        if problem.is_none() && followed.is_being_rewritten(&seen) {
            return Some(followed.usable().cloned().map_err(ToOwned::to_owned));
        }
        let written = written(&seen);
        let connection = match problem {
            Some(problem) => Err(problem),
            None => connection(vcenter, &self.scope.namespace, reference, seen).map_err(|bad| bad.to_string()),
        };
        let before = followed.usable().map(Arc::as_ptr).map_err(ToOwned::to_owned);
        match (connection, &mut followed.state) {
            (Err(why), _) => followed.set_state(State::Unusable(why)),
            (Ok(connection), State::Followed(known, live)) if known.leads_where(&connection) => {
                // It takes no notice of what it knows.
                live.set_credentials(connection.credentials.clone(), &written);
                **known = connection;
            }
            (Ok(connection), _) => {
                let instance = vcenter.status.as_ref().and_then(|status| status.instance_uuid.clone());
                let incident = vcenter.status.as_ref().and_then(|status| status.incident.clone());
                let state = match self.connect(&name, &connection, instance) {
                    Ok(live) => {
                        live.executor().remember(incident);
                        State::Followed(Box::new(connection), live)
                    }
                    Err(why) => State::Unusable(why),
                };
                followed.set_state(state);
            }
        }
        let outlook = followed.usable().cloned().map_err(ToOwned::to_owned);
        if outlook.as_ref().map(Arc::as_ptr).map_err(Clone::clone) != before {
            match &outlook {
                Ok(_) => info!(vcenter = %name, "VCenter configured"),
                Err(error) => info!(vcenter = %name, error, "VCenter not usable"),
            }
            let _ = self.triggers.send(Trigger::VCenter(name));
        }
        Some(outlook)
    }

    /// Follows the vCenter that the environment names, by the rules of the VCenter that has its name.
    fn follow_environments_own(
        &self,
        known: &mut Known,
        vcenter: &VCenter,
        problem: Option<String>,
    ) -> Result<Arc<VCenterHandle>, String> {
        // It may have had a server of its own.
        known.followed.remove(DEFAULT);
        let there = known.environment.as_ref().map(|_| ());
        let usable = Connection::left_to_environment(&vcenter.spec, there).map_err(|bad| bad.to_string());
        if let Err(why) = problem.map_or(usable, Err) {
            known.leave_environment();
            return Err(why);
        }
        self.follow_environment(known, vcenter.status.as_ref());
        known.environment_live().ok_or_else(|| BadDeclaration::NoEnvironment.to_string())
    }

    /// There are no rules any more for the vCenter that the environment names.
    fn free_environment(&self, known: &mut Known) {
        if let Some(live) = known.environment_live() {
            let (limits, patience) = limits(DeclaredLimits::default());
            live.executor().set_limits(limits, patience);
            live.set_released(Vec::new());
        }
        self.follow_environment(known, None);
    }

    /// A Secret, with the namespace that it is in.
    fn resolved(&self, reference: &SecretReference) -> SecretKey {
        let namespace = reference.namespace.clone().unwrap_or_else(|| self.scope.namespace.clone());
        SecretKey { namespace, name: reference.name.clone() }
    }

    /// Watches a VCenter's Secret.
    fn watch_secret(&self, name: &str, secret: &SecretKey, state: State, kube: &Client) -> Followed {
        let seen: Arc<Mutex<Option<Seen>>> = Arc::default();
        let secrets: Api<Secret> = Api::namespaced(kube.clone(), &secret.namespace);
        let told = watcher::watch_object(secrets, &secret.name).backoff(shared_watch::backoff());
        let key = secret.clone();
        let watch = {
            let (seen, name, triggers) = (Arc::clone(&seen), name.to_owned(), self.triggers.clone());
            self.loops.start(format!("secret of {name}"), |pulse| async move {
                let mut told = std::pin::pin!(told.into_stream());
                while let Some(news) = pulse.wait(told.next()).await {
                    let news: Seen = news.map_err(|error| {
                        warn!(vcenter = %name, %error, "Watch of the Secret failed; it starts again");
                        key.unreadable(&error)
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
        Followed { secret: secret.clone(), seen, absent: None, _watch: watch, state }
    }

    /// Stops to follow those that are declared no more. Says whether one of them counts for a while though it is deleted.
    pub(crate) fn retain(&self, is_there: impl Fn(&str) -> bool) -> bool {
        let mut known = self.known();
        for name in known.roster.names().filter(|name| !is_there(name)) {
            self.leases.dismiss(name);
        }
        if known.roster.retain_unreadable(&is_there, Instant::now()) {
            let _ = self.triggers.send(Trigger::All);
        }
        let gone: Vec<_> = known.roster.names().filter(|name| !is_there(name)).map(ToOwned::to_owned).collect();
        for name in gone {
            info!(vcenter = %name, "VCenter deleted");
            known.roster.dismiss(&name, Instant::now());
            known.followed.remove(&name);
            let _ = self.triggers.send(Trigger::VCenter(name));
        }
        let holds = known.roster.has_held_rules();
        if !is_there(DEFAULT) && (holds || known.roster.has_environment()) {
            self.leases.declare(DEFAULT, None);
            if holds {
                warn!(
                    vcenter = DEFAULT,
                    seconds = RULES_HOLD.as_secs(),
                    "VCenter deleted; the vCenter of the environment is opened to nobody for a while"
                );
            } else {
                self.free_environment(&mut known);
            }
        }
        holds
    }

    /// The environment's vCenter serves everybody, unless its VCenter is there again.
    pub(crate) fn end_held_rules(&self) {
        let mut known = self.known();
        if known.roster.drop_held_rules(Instant::now()) {
            if known.roster.has_plain_environment() {
                self.free_environment(&mut known);
                info!(
                    vcenter = DEFAULT,
                    "No VCenter has rules for the vCenter of the environment; it serves every namespace"
                );
            }
            let _ = self.triggers.send(Trigger::All);
        }
    }
}

impl Known {
    fn environment_live(&self) -> Option<Arc<VCenterHandle>> {
        self.environment.as_ref().and_then(|(_, live)| live.clone())
    }

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

fn connection(vcenter: &VCenter, own: &str, key: &SecretKey, seen: Seen) -> Result<Connection, BadDeclaration> {
    let SecretKey { namespace, name } = key;
    let secret = seen.map_err(|error| BadDeclaration::Unreadable(format!("{namespace}/{name}"), error))?;
    Connection::declared(&vcenter.spec, own, secret.as_ref())
}

impl SecretKey {
    /// Why it can't be read, with what to do about it.
    fn unreadable(&self, error: &watcher::Error) -> String {
        if !shared_watch::is_forbidden(error) {
            return error.to_string();
        }
        let Self { namespace, name } = self;
        format!(
            "Drover's service account may not list and watch it: create the Role vcenter-secrets-role in the namespace {namespace}, with \
             the verbs list and watch on the Secret {name}, and bind it (config/components/vcenter-secrets); or move the Secret into the \
             operator's own namespace; {error}"
        )
    }
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
        assert_eq!(read(0), (usual.operations.get(), usual.clones_per_host.get(), PATIENCE));
        assert_eq!(read(7), (7, 7, Duration::from_secs(7)));
        assert_eq!(read(u32::MAX), (640, 64, Duration::from_hours(24)));
    }
}
