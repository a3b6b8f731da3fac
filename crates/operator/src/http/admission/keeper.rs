//! The certificates of one replica: made here, never written anywhere but for the public half, which the API server is told to trust before
//! the replica shows it.

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_core::Timestamp;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::bundle::{self, Entry};
use crate::{
    http::serve::{BadCertificate, Certificates, Pair, Readiness},
    kube::scope::Scope,
    loops::Pulse,
};

/// Which configurations are Drover's.
const LABEL: &str = "app.kubernetes.io/name=drover";
const MANAGER: &str = "drover-webhook";
/// How often it is looked whether all is as it should be, and how often before the API server trusts in this replica.
const LOOK: Duration = Duration::from_secs(5);
const AT_FIRST: Duration = Duration::from_millis(500);
/// How long the API server may take to answer.
const LONGEST: Duration = Duration::from_secs(20);
/// How long all API servers have to learn of a new certificate before it is shown.
const SPREAD: Duration = Duration::from_secs(3);
/// For how long a replica is not ready because no API server trusts in it. It works all the same.
const PATIENCE: Duration = Duration::from_secs(30);
const DAY: Duration = Duration::from_hours(24);

/// Keeps the certificates of this replica.
pub(super) struct Keeper {
    configurations: Api<DynamicObject>,
    /// The operator's own namespace.
    namespace: String,
    owner: String,
    rotation: Duration,
    certificates: Arc<Certificates>,
    ready: Readiness,
    /// Whom the certificates are for.
    names: Vec<String>,
    own: Vec<Own>,
    began: Instant,
    /// What was said last of what is in the way.
    trouble: String,
}

/// A certificate of this replica. The last one is the newest.
struct Own {
    pair: Pair,
    entry: Entry,
    /// Since when it is in the bundle.
    trusted: Option<Instant>,
    /// Since when it is shown.
    shown: Option<Instant>,
}

/// A configuration, as much as matters of it.
struct Configuration {
    name: String,
    version: String,
    hooks: Vec<String>,
    bundle: Vec<Entry>,
    hosts: Vec<String>,
}

impl Keeper {
    pub(super) fn new(
        kube: &Client,
        scope: &Scope,
        rotation: Duration,
        ready: Readiness,
    ) -> Result<Self, BadCertificate> {
        let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration");
        let owner = env::var("POD_NAME").ok().filter(|name| !name.is_empty() && !name.contains(char::is_whitespace));
        let owner = owner.unwrap_or_else(|| {
            format!("{}-{}", hostname::get().unwrap_or_default().to_string_lossy(), std::process::id())
        });
        // Nobody trusts in this one yet.
        let first = Pair::make(vec!["localhost".to_owned()], None)?;
        ready.set_distrusted(true);
        Ok(Self {
            configurations: Api::all_with(kube.clone(), &ApiResource::from_gvk(&kind)),
            namespace: scope.namespace.clone(),
            owner,
            rotation,
            certificates: Arc::new(Certificates::of_pair(first)),
            ready,
            names: Vec::new(),
            own: Vec::new(),
            began: Instant::now(),
            trouble: String::new(),
        })
    }

    pub(super) fn certificates(&self) -> Arc<Certificates> {
        Arc::clone(&self.certificates)
    }

    /// Keeps them until the operator ends.
    pub(super) async fn keep(mut self, pulse: Pulse) {
        loop {
            let trouble = match pulse.wait(timeout(LONGEST, self.look())).await {
                Ok(Ok(0)) => format!("no ValidatingWebhookConfiguration with the label {LABEL} is for this operator"),
                Ok(Ok(_)) => String::new(),
                Ok(Err(error)) => error,
                Err(late) => late.to_string(),
            };
            if trouble != self.trouble {
                if !trouble.is_empty() {
                    warn!(
                        error = trouble,
                        "Admission webhook not known to the API server; what is not allowed is refused later"
                    );
                }
                self.trouble = trouble;
            }
            let is_shown = self.own.iter().any(|own| own.shown.is_some());
            if is_shown || self.began.elapsed() > PATIENCE {
                self.ready.set_distrusted(false);
            }
            let is_new = !is_shown && self.began.elapsed() < PATIENCE;
            pulse.wait(tokio::time::sleep(if is_new { AT_FIRST } else { LOOK })).await;
        }
    }

    /// Brings all configurations up to date, and shows what they say. Returns how many there are.
    async fn look(&mut self) -> Result<usize, String> {
        let listed = self.configurations.list(&ListParams::default().labels(LABEL)).await;
        let listed = listed.map_err(|error| error.to_string())?;
        let all: Vec<_> =
            listed.items.iter().filter_map(|object| Configuration::read(object, &self.namespace)).collect();
        if all.is_empty() {
            return Ok(0);
        }
        self.renew(&all).map_err(|error| error.to_string())?;
        let entries: Vec<_> = self.own.iter().map(|own| own.entry.clone()).collect();
        let (mut is_written, mut refused, mut trusting) = (true, None, 0);
        for configuration in &all {
            let wanted = bundle::renewed(&configuration.bundle, &self.owner, &entries, Timestamp::now());
            let outcome = match wanted {
                Some(wanted) => self.write(configuration, &wanted).await,
                None => Ok(true),
            };
            match outcome {
                Ok(is_done) => {
                    is_written &= is_done;
                    trusting += 1;
                }
                // It may be somebody else's, and keeps nobody from trusting in this replica.
                Err(error) => refused = Some(error),
            }
        }
        if is_written && trusting > 0 {
            self.show();
        }
        refused.map_or(Ok(trusting), Err)
    }

    /// Makes a certificate where there is none for these names, or the newest was shown for long enough, and lets go those that nobody is
    /// shown any more.
    fn renew(&mut self, all: &[Configuration]) -> Result<(), BadCertificate> {
        let mut names: Vec<_> = all.iter().flat_map(|configuration| configuration.hosts.clone()).collect();
        names.sort();
        names.dedup();
        let is_over = |own: &Own| own.shown.is_some_and(|shown| shown.elapsed() >= self.rotation);
        if names != self.names || self.own.last().is_none_or(is_over) {
            // A day is the least that is told apart.
            let valid = (self.rotation * 3).max(DAY * 2);
            let until = Timestamp::now().checked_add(valid).unwrap_or(Timestamp::MAX);
            let text = until.to_string();
            let day = |from: usize, to: usize| text.get(from..to).and_then(|part| part.parse().ok());
            let day = day(0, 4).zip(day(5, 7)).zip(day(8, 10));
            let day = day
                .map(|((year, month), day)| (year, u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1)));
            let pair = Pair::make(names.clone(), day)?;
            let entry = Entry::new(&self.owner, until, &pair.certificate);
            self.own.push(Own { pair, entry, trusted: None, shown: None });
            self.names = names;
        }
        let is_done = |own: &Own| own.shown.is_some_and(|shown| shown.elapsed() > SPREAD * 2);
        if let Some(newest) = self.own.iter().rposition(is_done) {
            self.own.drain(..newest);
        }
        Ok(())
    }

    /// Shows the newest certificate once every API server has had time to learn of it.
    fn show(&mut self) {
        let Some(newest) = self.own.last_mut() else { return };
        let trusted = *newest.trusted.get_or_insert_with(Instant::now);
        if newest.shown.is_none() && trusted.elapsed() >= SPREAD {
            newest.shown = Some(Instant::now());
            self.certificates.replace(&newest.pair);
            info!(until = %newest.entry.until, "Certificate of the admission webhook changed");
        }
    }

    /// Writes a bundle over the one that was read. Returns whether it is written: another replica may have written since.
    async fn write(&self, configuration: &Configuration, bundle: &[Entry]) -> Result<bool, String> {
        let text = BASE64_STANDARD.encode(bundle::write(bundle));
        let hooks: Vec<_> =
            configuration.hooks.iter().map(|name| json!({"name": name, "clientConfig": {"caBundle": text}})).collect();
        let patch = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": configuration.name, "resourceVersion": configuration.version}, "webhooks": hooks,
        });
        let parameters = PatchParams::apply(MANAGER).force();
        match self.configurations.patch(&configuration.name, &parameters, &Patch::Apply(patch)).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => {
                debug!(configuration = configuration.name, "somebody was faster");
                Ok(false)
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Configuration {
    /// Reads one, if it is for the operator in this namespace.
    fn read(object: &DynamicObject, namespace: &str) -> Option<Self> {
        let hooks = object.data["webhooks"].as_array()?;
        let host = |hook: &Value| {
            let client = &hook["clientConfig"];
            let service = &client["service"];
            match (service["name"].as_str(), client["url"].as_str()) {
                (Some(name), _) => (service["namespace"] == namespace).then(|| format!("{name}.{namespace}.svc")),
                // Whoever names an address runs the operator outside of the cluster.
                (None, url) => url?.parse::<hyper::Uri>().ok()?.host().map(ToOwned::to_owned),
            }
        };
        let hosts: Vec<_> = hooks.iter().filter_map(host).collect();
        if hosts.len() != hooks.len() || hosts.is_empty() {
            return None;
        }
        let text = hooks[0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
        let is_same = |hook: &Value| hook["clientConfig"]["caBundle"] == hooks[0]["clientConfig"]["caBundle"];
        let text = BASE64_STANDARD.decode(text).ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
        Some(Self {
            name: object.metadata.name.clone()?,
            version: object.metadata.resource_version.clone()?,
            hooks: hooks.iter().filter_map(|hook| hook["name"].as_str().map(ToOwned::to_owned)).collect(),
            // Where they differ, all are written.
            bundle: if hooks.iter().all(is_same) { bundle::read(&text) } else { Vec::new() },
            hosts,
        })
    }
}
