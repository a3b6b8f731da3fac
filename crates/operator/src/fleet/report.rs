//! What is written of a VCenter: only what differs from what stands there.

use std::sync::Arc;

use drover_api::{VCenter, VCenterStatus};
use drover_core::{conditions::Conditions, group::Timestamp, news::News, reasons::Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Api, Client};

use crate::{
    events,
    info::Publication,
    shelf::Error,
    status,
    vcenter::{Live, rights},
};

/// Whether each host has a HostInfo, where that is asked for.
const PUBLISHED: &str = "Published";

/// Brings the status of a VCenter up to what is so, and tells of what has changed for people.
pub(super) async fn write(
    kube: &Client,
    vcenter: &VCenter,
    outlook: Result<&Arc<Live>, &str>,
    publication: Publication,
) -> Result<(), Error> {
    let before = vcenter.status.clone().unwrap_or_default();
    let mut after = status(&before, vcenter.metadata.generation, outlook).await;
    after.conditions.extend(published(&before, vcenter.metadata.generation, publication));
    // As they are written: vCenter's times are finer than what the API server keeps of them, and would always differ.
    let (written, wanted) = (status::standing(&before), status::value(&after));
    if written == wanted {
        return Ok(());
    }
    let patch = status::difference(&written, &wanted);
    if status::write(&Api::all(kube.clone()), vcenter, patch).await?.is_none() {
        return Ok(());
    }
    events::tell(kube, vcenter, &news(&before, &after));
    Ok(())
}

async fn status(before: &VCenterStatus, generation: Option<i64>, outlook: Result<&Arc<Live>, &str>) -> VCenterStatus {
    let mut status = VCenterStatus {
        instance_uuid: before.instance_uuid.clone(),
        observed_generation: generation,
        ..VCenterStatus::default()
    };
    let (connected, authorized) = match outlook {
        Err(why) => ((Some(false), Reason::Invalid, why.to_owned()), unchecked()),
        Ok(live) => match live.away() {
            Some(away) if away.reason == Reason::NotReadYet => ((None, away.reason, away.why), unchecked()),
            Some(away) => ((Some(false), away.reason, away.sentence()), unchecked()),
            None if !live.is_in_sight() => ((None, Reason::NotReadYet, String::new()), unchecked()),
            None => {
                fill(&mut status, live).await;
                ((Some(true), Reason::LoggedIn, String::new()), authorization(live))
            }
        },
    };
    let held = match outlook {
        Ok(live) => hold(live, before),
        Err(_) => (None, Reason::Unchecked, String::new()),
    };
    status.incident = outlook.ok().and_then(|live| live.works().incident().map(|incident| incident.id.clone()));
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    status.conditions = [("Connected", connected), ("Authorized", authorized), ("SafetyHold", held)]
        .map(|(kind, (holds, reason, message))| conditions.judge(kind, holds, reason, message))
        .into();
    status
}

/// Whether the hosts are published, where that is asked for. Until it is known, what was known last stands.
fn published(before: &VCenterStatus, generation: Option<i64>, publication: Publication) -> Option<Condition> {
    let conditions = Conditions { before: &before.conditions, generation, now: Timestamp::now() };
    match publication {
        Publication::NotAsked => None,
        Publication::Unknown => before.conditions.iter().find(|condition| condition.type_ == PUBLISHED).cloned(),
        Publication::Whole => Some(conditions.judge(PUBLISHED, true, Reason::AsDeclared, "")),
        Publication::Ending(why) => Some(conditions.judge(PUBLISHED, None, Reason::Refused, why)),
        Publication::Incomplete(reason, why) => Some(conditions.judge(PUBLISHED, false, reason, why)),
    }
}

type Judgement = (Option<bool>, Reason, String);

fn unchecked() -> Judgement {
    (None, Reason::Unchecked, String::new())
}

/// Whether everything that makes or destroys is stopped. It is while vCenter is away, if it was before.
fn hold(live: &Live, before: &VCenterStatus) -> Judgement {
    if !live.is_in_sight() {
        let was =
            before.conditions.iter().find(|condition| condition.type_ == "SafetyHold" && condition.status == "True");
        return match was {
            Some(was) => (Some(true), Reason::SafetyHold, was.message.clone()),
            None => (None, Reason::Unchecked, String::new()),
        };
    }
    match live.works().incident() {
        Some(incident) => (Some(true), Reason::SafetyHold, incident.sentence()),
        None => (Some(false), Reason::NoneMissing, String::new()),
    }
}

fn authorization(live: &Live) -> Judgement {
    match live.rights().missing() {
        None => unchecked(),
        Some([]) => (Some(true), Reason::Granted, String::new()),
        Some(missing) => (Some(false), Reason::PrivilegesMissing, rights::sentence(missing)),
    }
}

/// What can be said of a vCenter that is there.
async fn fill(status: &mut VCenterStatus, live: &Live) {
    if let Some(about) = live.about() {
        status.version = Some(about.version);
        status.build = Some(about.build);
        status.instance_uuid = about.instance_uuid.or_else(|| status.instance_uuid.clone());
    }
    if let Some(session) = live.client.current_session().await {
        status.session_since = Some(Time(session.user.login_time));
    }
    let number = |count: usize| i64::try_from(count).ok();
    let (queued, under_way) = live.works().load();
    let mirror = live.mirror();
    status.machines = number(mirror.machines.len());
    status.hosts = number(mirror.hosts.len());
    status.queued = number(queued);
    status.under_way = number(under_way);
}

/// What people should come to know of, though they don't look: once for each change.
fn news(before: &VCenterStatus, after: &VCenterStatus) -> Vec<News> {
    let find = |status: &VCenterStatus, kind: &str| -> Option<Condition> {
        status.conditions.iter().find(|condition| condition.type_ == kind).cloned()
    };
    let mut news = Vec::new();
    for (kind, good, well) in [
        ("Connected", "True", "vCenter is there"),
        ("Authorized", "True", "all privileges that are needed are there"),
        ("SafetyHold", "False", "no more VMs are missing than may be: cloning and destroying go on"),
        (PUBLISHED, "True", "all hosts are published"),
    ] {
        let (Some(is), was) = (find(after, kind), find(before, kind)) else { continue };
        let is_same = was.as_ref().is_some_and(|was| was.status == is.status && was.reason == is.reason);
        let was_so = |status: &str| was.as_ref().is_some_and(|was| was.status == status);
        let reason = Reason::ALL.iter().find(|reason| reason.word() == is.reason).map_or("", |reason| reason.word());
        match is.status.as_str() {
            _ if is_same => {}
            // That nothing is missing is news only after something was.
            "False" if good == "False" && !was_so("True") => {}
            "True" if kind == PUBLISHED && !was_so("False") => {}
            "Unknown" => {}
            status if status == good => news.push(News { is_warning: false, reason, message: well.to_owned() }),
            _ => news.push(News { is_warning: true, reason, message: is.message }),
        }
    }
    news
}
