//! `drover check`: what works between here, the vCenters and the groups, and what doesn't, for a person to read.

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use drover_api::VmGroup;
use drover_core::reasons::Reason;
use kube::ResourceExt;
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use crate::{
    connection::Connection,
    fleet::Seat,
    group::{self, Finding},
    scout::{BadManifest, Manifest, Scout, ScoutError, Stopped, until_stopped},
    vcenter,
};

/// How long a server has to take a connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why nothing could be checked, or what came of it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Manifest(#[from] BadManifest),
    #[error(transparent)]
    Scout(#[from] ScoutError),
    #[error("the Kubernetes cluster does not answer: {0}")]
    Kubernetes(#[from] kube::Error),
    #[error(
        "no vCenter is named: set VC_HOST, VC_USER and VC_PASS, or make a VCenter, in the cluster or in the manifest of -f"
    )]
    NoVCenter,
    #[error("{0} of these {1} checks failed")]
    Failed(usize, usize),
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("printing: {0}")]
    Print(#[from] io::Error),
}

/// Checks the vCenters that there are, and the groups of a manifest, or else those of the cluster.
pub(crate) async fn check(file: Option<&Path>, insecure: bool) -> Result<(), CheckError> {
    let manifest = file.map(Manifest::read).transpose()?.unwrap_or_default();
    let mut scout = Scout::find(insecure, manifest.vcenters, manifest.secrets).await?;
    if scout.connections.is_empty() {
        return Err(CheckError::NoVCenter);
    }
    let groups = file.is_some().then_some(manifest.groups);
    let outcome = until_stopped(Box::pin(check_all(&mut scout, groups))).await;
    // Also after an error: nothing else would end the sessions.
    scout.farewell().await;
    let Sheet { noted, failed } = outcome?;
    if failed == 0 { Ok(()) } else { Err(CheckError::Failed(failed, noted)) }
}

/// Checks all vCenters, and these groups or those of the cluster.
async fn check_all(scout: &mut Scout, groups: Option<Vec<VmGroup>>) -> Result<Sheet, CheckError> {
    let mut sheet = Sheet::default();
    for (name, connection) in scout.connections.clone() {
        match connection {
            Err(why) => sheet.title(&format!("VCenter {name}"))?.note("declaration", &Err(why))?,
            Ok(connection) => {
                sheet.title(&format!("VCenter {name} ({})", connection.endpoint))?;
                for finding in connect(scout, &connection).await {
                    sheet.note(finding.what, &finding.outcome)?;
                }
            }
        }
    }
    let groups = match groups {
        Some(groups) => groups,
        None => scout.cluster.groups().await?,
    };
    for group in groups {
        let group = scout.cluster.known(group).await?;
        let namespace = group.namespace().unwrap_or_default();
        let title = format!("VmGroup {namespace}/{}", group.name_any());
        match scout.seat(&group).await {
            Err(none) => sheet.title(&title)?.note("vCenter", &Err(none.to_string()))?,
            Ok(seat) => {
                let Seat { live, .. } = &seat;
                sheet.title(&format!("{title} in {}", live.name))?;
                let secrets = scout.cluster.secrets(&namespace);
                for finding in group::survey(&seat, secrets.as_ref(), &scout.cluster.id, &group).await {
                    sheet.note(finding.what, &finding.outcome)?;
                }
            }
        }
    }
    Ok(sheet)
}

/// Goes the way to a vCenter, step by step, until one fails.
async fn connect(scout: &mut Scout, connection: &Connection) -> Vec<Finding> {
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
    scout.remember(&client);
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
            let who = format!("{}, {} build {}", session.user.user_name, about.full_name, about.build);
            found.push(finding("login", Ok(who)));
            let _ = client.logout().await;
        }
        Err(error) => match vcenter::reason(&error) {
            Reason::Untrusted => found.push(finding("certificate", Err(error.to_string()))),
            Reason::LoginRefused => found.extend([trusted(), finding("login", Err(error.to_string()))]),
            _ => found.push(finding("vCenter", Err(error.to_string()))),
        },
    }
    found
}

/// What is printed, line by line as it is found.
#[derive(Default)]
struct Sheet {
    noted: usize,
    failed: usize,
}

impl Sheet {
    fn title(&mut self, title: &str) -> io::Result<&mut Self> {
        writeln!(io::stdout(), "{title}")?;
        Ok(self)
    }

    fn note(&mut self, what: &str, outcome: &Result<String, String>) -> io::Result<()> {
        self.noted += 1;
        self.failed += usize::from(outcome.is_err());
        let (mark, words) = match outcome {
            Ok(words) => ("ok  ", words),
            Err(words) => ("FAIL", words),
        };
        writeln!(io::stdout(), "  {mark} {what:13} {words}")
    }
}
