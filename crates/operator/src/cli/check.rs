//! `drover check`: what works between here, the vCenters and the groups, and what doesn't, for a person to read.

use std::{
    io::{self, Write},
    time::Duration,
};

use drover_api::{VmGroup, vcenter::Enforce};
use drover_core::{reasons::Reason, vcenter::status::OPEN};
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{
    cli::{
        CheckFlags, ExitStatus, Output,
        offline::{BadManifest, Manifest, Offline, OfflineError, Stopped, until_stopped},
    },
    controllers::{
        binding::BoundVCenter,
        vmgroup::{self, Finding, Prospect},
    },
    vcenter::{self, connection::Connection},
};

/// How many objects are listed for a person to read.
const LISTED: usize = 20;
/// How long a server has to take a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why nothing could be checked, or what came of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    #[error(transparent)]
    Offline(#[from] OfflineError),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error(
        "no vCenter is named: set VC_HOST, VC_USER and VC_PASS, or create a VCenter, in the cluster or in the manifest of -f"
    )]
    NoVCenter,
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("printing: {0}")]
    Print(#[from] io::Error),
}

/// Checks the vCenters that there are, and the groups of a manifest, or else those of the cluster.
pub(crate) async fn check(flags: &CheckFlags) -> Result<ExitStatus, CheckError> {
    let manifest = flags.file.as_deref().map(Manifest::read).transpose()?.unwrap_or_default();
    let mut offline = Offline::find(&flags.look, manifest.vcenters, manifest.secrets).await?;
    if offline.connections.is_empty() {
        return Err(CheckError::NoVCenter);
    }
    let groups = flags.file.is_some().then_some(manifest.groups);
    let mut report = CheckReport { output: flags.look.output, sections: Vec::new() };
    let outcome = until_stopped(Box::pin(check_all(&mut offline, groups, flags, &mut report))).await;
    // Also after an error: nothing else would end the sessions.
    offline.farewell().await;
    outcome?;
    report.finish()
}

/// Checks all vCenters, and these groups or those of the cluster.
async fn check_all(
    offline: &mut Offline,
    groups: Option<Vec<VmGroup>>,
    flags: &CheckFlags,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    for (name, connection) in offline.connections.clone() {
        match connection {
            Err(why) => {
                report.begin(&format!("VCenter {name}"), json!({"kind": "VCenter", "name": name}))?;
                report.note("declaration", Err(why))?;
            }
            Ok(connection) => {
                let server = connection.endpoint.to_string();
                let about = json!({"kind": "VCenter", "name": name, "server": server});
                report.begin(&format!("VCenter {name} ({server})"), about)?;
                for finding in connect(offline, &connection).await {
                    report.note(finding.what, finding.outcome)?;
                }
                report.note("reach", Ok(reach(offline, &name)))?;
            }
        }
    }
    let tenant = flags.as_namespace.as_deref();
    if let Some(namespace) = tenant {
        show_as(offline, namespace, report).await?;
    }
    let groups = match groups {
        Some(groups) => groups,
        None => offline.cluster.groups(tenant.or(flags.look.namespace.as_deref())).await?,
    };
    for group in groups {
        let group = offline.cluster.known(group).await?;
        if tenant.is_some_and(|namespace| group.namespace().as_deref() != Some(namespace)) {
            continue;
        }
        let (namespace, name) = (group.namespace().unwrap_or_default(), group.name_any());
        let title = format!("VmGroup {namespace}/{name}");
        let mut about = json!({"kind": "VmGroup", "namespace": namespace, "name": name});
        match offline.bound(&group).await {
            Err(none) => {
                report.begin(&title, about)?;
                report.note("vCenter", Err(none.to_string()))?;
            }
            Ok(bound) => {
                let BoundVCenter { live, .. } = &bound;
                about["vcenter"] = json!(live.name);
                report.begin(&format!("{title} in {}", live.name), about)?;
                let secrets = offline.cluster.secrets(&namespace);
                for finding in vmgroup::preflight(&bound, secrets.as_ref(), &offline.cluster.id, &group).await {
                    report.note(finding.what, finding.outcome)?;
                }
            }
        }
    }
    Ok(())
}

fn reach(offline: &Offline, vcenter: &str) -> String {
    match offline.roster.enforcement(vcenter) {
        None => format!("Open: {OPEN}"),
        Some(Enforce::Warn) => "Restricted, but nothing is refused, because spec.enforce is Warn".to_owned(),
        Some(Enforce::Enforce) => "Restricted".to_owned(),
    }
}

/// Shows what a namespace may use in each vCenter that serves it.
async fn show_as(offline: &mut Offline, namespace: &str, report: &mut CheckReport) -> Result<(), CheckError> {
    let about = json!({"kind": "Namespace", "name": namespace});
    let title = format!("Namespace {namespace}");
    let missing = match offline.bindings(namespace).await? {
        None => Some("there is no such namespace, so nobody can say which entries of spec.allow select it"),
        Some(bindings) if bindings.is_empty() => Some("no VCenter serves this namespace"),
        Some(bindings) => {
            for (vcenter, bound) in bindings {
                let mut about = about.clone();
                about["vcenter"] = json!(vcenter);
                report.begin(&format!("{title} in {vcenter}"), about)?;
                match bound {
                    Err(none) => report.note("vCenter", Err(none.to_string()))?,
                    Ok(bound) => {
                        let groups = offline.cluster.groups(Some(namespace)).await?;
                        show_binding(offline, &bound, namespace, &groups, report)?;
                    }
                }
            }
            None
        }
    };
    if let Some(why) = missing {
        report.begin(&title, about)?;
        report.note("namespace", Err(why.to_owned()))?;
    }
    Ok(())
}

fn show_binding(
    offline: &Offline,
    bound: &BoundVCenter,
    namespace: &str,
    groups: &[VmGroup],
    report: &mut CheckReport,
) -> io::Result<()> {
    report.note("reach", Ok(reach(offline, &bound.live.name)))?;
    let quota = Prospect::of(bound, &bound.live.mirror(), &offline.cluster.id, namespace, groups, None);
    report.note("quota", Ok(quota.map_or_else(|| "none".to_owned(), |quota| quota.in_words())))?;
    let usable = bound.rules.as_ref().map(|rules| vmgroup::usable(&bound.live.mirror(), rules, &bound.defaults));
    for (list, paths) in usable.into_iter().flatten() {
        report.allow(list, &paths.into_iter().collect::<Vec<_>>())?;
    }
    // Those that every VmGroup may set are the same everywhere.
    let keys = bound.keys.allowed.iter().flat_map(|entry| entry.iter()).map(ToString::to_string);
    report.allow("extraConfig", &keys.collect::<Vec<_>>())
}

/// Goes the way to a vCenter, step by step, until one fails.
async fn connect(offline: &mut Offline, connection: &Connection) -> Vec<Finding> {
    let finding = |what, outcome| Finding { what, outcome };
    let mut found = Vec::new();
    let uri = connection.endpoint.uri();
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    let addresses: Vec<_> = match lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => return vec![finding("name", Err(format!("{host} has no address: {error}")))],
    };
    let listed: Vec<_> = addresses.iter().map(|address| address.ip().to_string()).collect();
    found.push(finding("name", Ok(format!("{host} is {}", listed.join(", ")))));
    match timeout(PATIENCE, TcpStream::connect(&addresses[..])).await {
        Ok(Ok(_)) => found.push(finding("connection", Ok(format!("port {port} answers")))),
        Ok(Err(error)) => found.push(finding("connection", Err(format!("port {port}: {error}")))),
        Err(_) => found.push(finding("connection", Err(format!("port {port} has not answered within {PATIENCE:?}")))),
    }
    if found.last().is_some_and(|last| last.outcome.is_err()) {
        return found;
    }
    let client = match connection.client(None) {
        Ok(client) => client,
        Err(bad) => {
            found.push(finding("certificate", Err(bad.to_string())));
            return found;
        }
    };
    offline.remember(&client);
    let session = client.session().await;
    let trusted = || {
        let trusted = if connection.trust == vim25::Trust::Insecure { "not checked" } else { "trusted" };
        let pin = client.thumbprint().map(|thumbprint| format!("; to pin it: {thumbprint}"));
        finding("certificate", Ok(format!("{trusted}{}", pin.unwrap_or_default())))
    };
    match session {
        Ok(session) => {
            let about = &session.content.about;
            found.push(trusted());
            // The full name has the build in it.
            let who = format!("{}, {}", session.user.user_name, about.full_name);
            found.push(finding("login", Ok(who)));
            let _ = client.logout().await;
        }
        Err(error) => match vcenter::reason(&error) {
            Reason::CertificateUntrusted => found.push(finding("certificate", Err(error.to_string()))),
            Reason::LoginRefused => found.extend([trusted(), finding("login", Err(error.to_string()))]),
            _ => found.push(finding("vCenter", Err(error.to_string()))),
        },
    }
    found
}

/// What is found: printed line by line as it is, or as one document in the end.
struct CheckReport {
    output: Output,
    /// What each was about, and what was found of it.
    sections: Vec<(Value, Vec<Finding>)>,
}

impl CheckReport {
    /// Goes on to something else.
    fn begin(&mut self, title: &str, about: Value) -> io::Result<()> {
        self.sections.push((about, Vec::new()));
        if self.output == Output::Text { writeln!(io::stdout(), "{title}") } else { Ok(()) }
    }

    fn note(&mut self, what: &'static str, outcome: Result<String, String>) -> io::Result<()> {
        if self.output == Output::Text {
            let (mark, words) = match &outcome {
                Ok(words) => ("ok  ", words),
                Err(words) => ("FAIL", words),
            };
            writeln!(io::stdout(), "  {mark} {what:13} {words}")?;
        }
        if let Some((_, findings)) = self.sections.last_mut() {
            findings.push(Finding { what, outcome });
        }
        Ok(())
    }

    /// Notes what a list of a VCenter allows.
    fn allow(&mut self, list: &'static str, all: &[String]) -> io::Result<()> {
        let words = match all.len() {
            0 => "none".to_owned(),
            1..=LISTED => all.join(", "),
            more => format!("{} and {} more", all[..LISTED].join(", "), more - LISTED),
        };
        self.note(list, Ok(words))?;
        if let Some((about, _)) = self.sections.last_mut() {
            about["allowed"][list] = json!(all);
        }
        Ok(())
    }

    /// Says what came of it.
    fn finish(self) -> Result<ExitStatus, CheckError> {
        let findings = || self.sections.iter().flat_map(|(_, findings)| findings);
        let (noted, failed) = (findings().count(), findings().filter(|finding| finding.outcome.is_err()).count());
        if self.output == Output::Json {
            writeln!(io::stdout(), "{:#}", self.json(noted, failed))?;
        } else if failed > 0 {
            eprintln!("drover: {failed} of these {noted} checks failed");
        }
        Ok(if failed == 0 { ExitStatus::Clean } else { ExitStatus::Findings })
    }

    /// As docs/command-line.md has it.
    fn json(&self, noted: usize, failed: usize) -> Value {
        let sections = self.sections.iter().map(|(about, findings)| {
            let checks = findings.iter().map(|finding| {
                let (is_ok, message) = match &finding.outcome {
                    Ok(message) => (true, message),
                    Err(message) => (false, message),
                };
                json!({"name": finding.what, "ok": is_ok, "message": message})
            });
            let mut section = about.clone();
            section["checks"] = checks.collect();
            section
        });
        json!({"kind": "Check", "checks": noted, "failed": failed, "objects": sections.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_what_was_found_of_each_object_and_how_much_of_it_failed() {
        let found = |what, outcome: Result<&str, &str>| Finding {
            what,
            outcome: outcome.map(ToOwned::to_owned).map_err(ToOwned::to_owned),
        };
        let lab = json!({"kind": "VCenter", "name": "lab"});
        let sections = vec![(lab, vec![found("name", Ok("is there")), found("login", Err("is refused"))])];
        let report = CheckReport { output: Output::Json, sections };
        let expected = json!({
            "kind": "Check", "checks": 2, "failed": 1,
            "objects": [{"kind": "VCenter", "name": "lab", "checks": [
                {"name": "name", "ok": true, "message": "is there"},
                {"name": "login", "ok": false, "message": "is refused"},
            ]}],
        });
        assert_eq!(report.json(2, 1), expected);
        assert_eq!(report.finish().unwrap(), ExitStatus::Findings);
    }
}
