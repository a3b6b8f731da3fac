//! What is known of a VCenter, and what is written of it, where that differs from what stands there.

use std::sync::Arc;

use drover_api::{VCenter, vcenter::QuotaUse};
use drover_core::{
    Timestamp,
    reasons::Reason,
    status::{standing, value},
    vcenter::status::{Authorization, Connection, Details, Hold, Observed, Publication, report},
};
use kube::Api;

use crate::{
    controllers::{Context, reconcile::Error},
    kube::status::{self, Reach},
    vcenter::{VCenterHandle, privileges},
};

/// What a reconcile has found out of a vCenter beside what its handle knows.
pub(super) struct Findings {
    pub publication: Publication,
    pub not_allowed: Option<Vec<String>>,
    pub quotas: Option<Vec<QuotaUse>>,
}

/// Brings the status of a VCenter up to what is so, and tells of what has changed for people.
pub(super) async fn write(
    context: &Context,
    vcenter: &VCenter,
    outlook: &Result<Arc<VCenterHandle>, String>,
    findings: Findings,
) -> Result<(), Error> {
    let observed = observe(outlook, findings).await;
    let (after, events) = report(vcenter, observed, Timestamp::now());
    // As they are written: vCenter's times are finer than what the API server keeps of them, and would always differ.
    let (written, wanted) = (standing(&vcenter.status.clone().unwrap_or_default()), value(&after));
    if written == wanted {
        return Ok(());
    }
    let outcome = status::apply(&Api::all(context.kube.clone()), vcenter, Reach::Status, wanted).await;
    if status::unless_overtaken(outcome)?.is_some() {
        context.events.tell(vcenter, &events);
    }
    Ok(())
}

async fn observe(outlook: &Result<Arc<VCenterHandle>, String>, findings: Findings) -> Observed {
    let Findings { publication, not_allowed, quotas } = findings;
    let (connection, authorization, hold) = match outlook {
        Err(why) => (Connection::Invalid(why.clone()), Authorization::NotChecked, Hold::NotChecked),
        Ok(live) => match connection(live).await {
            connection @ Connection::Connected(_) => (connection, authorization(live), hold(live)),
            connection => (connection, Authorization::NotChecked, hold(live)),
        },
    };
    Observed { connection, authorization, hold, publication, not_allowed, quotas }
}

async fn connection(live: &VCenterHandle) -> Connection {
    match live.away() {
        Some(away) if away.reason == Reason::Connecting => Connection::Connecting(away.why),
        Some(away) => Connection::Away(away.reason, away.sentence()),
        None if !live.is_in_sight() => Connection::Connecting(String::new()),
        None => Connection::Connected(details(live).await),
    }
}

async fn details(live: &VCenterHandle) -> Details {
    let session = live.current_session().await;
    let about = live.about();
    let number = |count: usize| i64::try_from(count).ok();
    let (queued, under_way) = live.executor().load();
    let mirror = live.mirror();
    Details {
        version: about.as_ref().map(|about| about.version.clone()),
        build: about.as_ref().map(|about| about.build.clone()),
        instance_uuid: about.and_then(|about| about.instance_uuid),
        session_since: session.map(|session| session.user.login_time),
        machines: number(mirror.machines.len()),
        hosts: number(mirror.hosts.len()),
        queued: number(queued),
        under_way: number(under_way),
    }
}

fn authorization(live: &VCenterHandle) -> Authorization {
    match live.privileges().missing() {
        None => Authorization::NotChecked,
        Some([]) => Authorization::Granted,
        Some(missing) => Authorization::Lacking(privileges::sentence(missing)),
    }
}

fn hold(live: &VCenterHandle) -> Hold {
    let executor = live.executor();
    if !live.is_in_sight() || !executor.are_records_loaded() {
        return Hold::Unknown;
    }
    match executor.incident() {
        Some(incident) => Hold::Held { incident: incident.id.clone(), message: incident.sentence() },
        None => Hold::Free,
    }
}
