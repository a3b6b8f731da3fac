//! What is written of a VCenter: only what differs from what stands there.

use std::sync::Arc;

use drover_api::{VCenter, VCenterStatus};
use drover_core::{news::News, reasons::Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    events,
    shelf::Error,
    vcenter::{Live, rights},
};

const MANAGER: &str = "drover";

/// Brings the status of a VCenter up to what is so, and tells of what has changed for people.
pub async fn write(kube: &Client, vcenter: &VCenter, outlook: Result<&Arc<Live>, &str>) -> Result<(), Error> {
    let before = vcenter.status.clone().unwrap_or_default();
    let status = status(&before, vcenter.metadata.generation, outlook).await;
    if before == status {
        return Ok(());
    }
    let vcenters: Api<VCenter> = Api::all(kube.clone());
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    // Sent whole, with what is gone as null.
    let mut patch = json!({"version": null, "build": null, "sessionSince": null, "machines": null, "hosts": null,
        "queued": null, "underWay": null});
    if let (Some(patch), Ok(serde_json::Value::Object(fields))) = (patch.as_object_mut(), serde_json::to_value(&status))
    {
        patch.extend(fields);
    }
    match vcenters.patch_status(&vcenter.name_any(), &params, &Patch::Merge(json!({"status": patch}))).await {
        Ok(_) => {}
        Err(kube::Error::Api(gone)) if gone.code == 404 => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    events::tell(kube, vcenter, &news(&before, &status));
    Ok(())
}

async fn status(before: &VCenterStatus, generation: Option<i64>, outlook: Result<&Arc<Live>, &str>) -> VCenterStatus {
    let mut status = VCenterStatus {
        instance_uuid: before.instance_uuid.clone(),
        observed_generation: generation,
        ..VCenterStatus::default()
    };
    let (connected, authorized) = match outlook {
        Err(why) => (("False", Reason::Invalid, why.to_owned()), unchecked()),
        Ok(live) => match live.away() {
            Some(away) if away.reason == Reason::NotReadYet => (("Unknown", away.reason, away.why), unchecked()),
            Some(away) => (("False", away.reason, away.sentence()), unchecked()),
            None => {
                fill(&mut status, live).await;
                (("True", Reason::LoggedIn, String::new()), authorization(live))
            }
        },
    };
    status.conditions = [("Connected", connected), ("Authorized", authorized)]
        .map(|(kind, (holds, reason, message))| {
            let same = before.conditions.iter().find(|condition| condition.type_ == kind && condition.status == holds);
            Condition {
                type_: kind.to_owned(),
                status: holds.to_owned(),
                reason: reason.word().to_owned(),
                message,
                observed_generation: generation,
                last_transition_time: same.map_or_else(
                    || Time(k8s_openapi::jiff::Timestamp::now()),
                    |same| same.last_transition_time.clone(),
                ),
            }
        })
        .into();
    status
}

type Judgement = (&'static str, Reason, String);

fn unchecked() -> Judgement {
    ("Unknown", Reason::Unchecked, String::new())
}

fn authorization(live: &Live) -> Judgement {
    match live.rights().missing() {
        None => unchecked(),
        Some([]) => ("True", Reason::Granted, String::new()),
        Some(missing) => ("False", Reason::PrivilegesMissing, rights::sentence(missing)),
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
    for (kind, well) in [("Connected", "vCenter is there"), ("Authorized", "all privileges that are needed are there")]
    {
        let (Some(is), was) = (find(after, kind), find(before, kind)) else { continue };
        let is_same = was.as_ref().is_some_and(|was| was.status == is.status && was.reason == is.reason);
        let reason = Reason::ALL.iter().find(|reason| reason.word() == is.reason).map_or("", |reason| reason.word());
        match is.status.as_str() {
            _ if is_same => {}
            "False" => news.push(News { is_warning: true, reason, message: is.message }),
            "True" => news.push(News { is_warning: false, reason, message: well.to_owned() }),
            _ => {}
        }
    }
    news
}
