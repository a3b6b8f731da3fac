//! What is written of a group: only what differs from what stands there.

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Phase, vminfo::GROUP_LABEL};
use drover_core::{
    Counts, Plan, Verdict, desired::Invalid, group::Desired, names, news::News, reasons::Reason, verdict::Judgement,
};
use k8s_openapi::{
    api::events::v1::Event,
    apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, Time},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tracing::warn;

use super::{Error, MANAGER};

/// What is said of a group.
pub fn status(group: &VmGroup, desired: &Desired, plan: &Plan, verdict: &Verdict) -> VmGroupStatus {
    let counts = plan.counts;
    let is_known = verdict.conditions[2].reason != Reason::VCenterAway;
    let before = group.status.clone().unwrap_or_default();
    let number = |count: u32| i32::try_from(count).ok();
    let kept = |now: Option<i32>, before: Option<i32>| if is_known { now } else { before };
    let Counts { current, ready, available, updated } = counts;
    VmGroupStatus {
        phase: Some(verdict.phase),
        current_replicas: kept(number(current), before.current_replicas),
        desired_replicas: number(desired.replicas),
        last_message: Some(verdict.message.clone()),
        observed_generation: group.metadata.generation,
        ready_replicas: kept(number(ready), before.ready_replicas),
        updated_replicas: kept(number(updated), before.updated_replicas),
        available_replicas: kept(number(available), before.available_replicas),
        revision: Some(format!("{:016x}", desired.revision.0)),
        selector: Some(format!("{GROUP_LABEL}={}", names::label(&desired.name))),
        conditions: verdict
            .conditions
            .iter()
            .map(|judgement| condition(judgement, group, &before.conditions))
            .collect(),
    }
}

/// What is said of a group that makes no sense.
pub fn invalid(group: &VmGroup, invalid: &Invalid) -> VmGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let message = invalid.to_string();
    let judge =
        |kind, holds, message: &str| Judgement { kind, holds, reason: Reason::Invalid, message: message.to_owned() };
    let judgements =
        [judge("Ready", false, &message), judge("Progressing", false, ""), judge("Stalled", true, &message)];
    VmGroupStatus {
        phase: Some(Phase::Error),
        last_message: Some(message.clone()),
        observed_generation: group.metadata.generation,
        conditions: judgements.iter().map(|judgement| condition(judgement, group, &before.conditions)).collect(),
        ..before
    }
}

pub async fn write(groups: &Api<VmGroup>, group: &VmGroup, status: VmGroupStatus) -> Result<(), Error> {
    if group.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let patch = json!({"status": status});
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    match groups.patch_status(&group.name_any(), &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tells what there is to tell. Nobody waits for it, and what can't be told now is told by the status too.
pub fn news(kube: &Client, group: &VmGroup, news: Vec<News>) {
    let events: Api<Event> = Api::namespaced(kube.clone(), &group.namespace().unwrap_or_default());
    let group = group.clone();
    tokio::spawn(async move {
        for news in news {
            if let Err(error) = events.create(&PostParams::default(), &event(&group, &news)).await {
                warn!(%error, reason = news.reason, "an event could not be written");
            }
        }
    });
}

/// An event by itself. A recorder would count all events of one reason as the same, whatever they say.
fn event(group: &VmGroup, news: &News) -> Event {
    let now = k8s_openapi::jiff::Timestamp::now();
    let instance = std::env::var("POD_NAME").unwrap_or_else(|_| MANAGER.to_owned());
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", group.name_any(), now.as_nanosecond())),
            namespace: group.namespace(),
            ..ObjectMeta::default()
        },
        type_: Some(if news.is_warning { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(news.reason.to_owned()),
        note: Some(cut(news.message.clone())),
        action: Some("Reconcile".to_owned()),
        regarding: Some(group.object_ref(&())),
        event_time: Some(MicroTime(now)),
        reporting_controller: Some(MANAGER.to_owned()),
        reporting_instance: Some(instance),
        ..Event::default()
    }
}

/// Tells that the group is given up.
pub fn abandoned(kube: &Client, group: &VmGroup) {
    let message = "given up as its annotation asks: what is left of it in vCenter stays there, unattended".to_owned();
    news(kube, group, vec![News { is_warning: true, reason: "Abandoned", message }]);
}

/// An event's note has at most a kilobyte.
fn cut(mut message: String) -> String {
    const LONGEST: usize = 1000;
    if message.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push('…');
    }
    message
}

/// A condition's time is that of its last change.
fn condition(judgement: &Judgement, group: &VmGroup, before: &[Condition]) -> Condition {
    let status = if judgement.holds { "True" } else { "False" };
    let same = before.iter().find(|condition| condition.type_ == judgement.kind && condition.status == status);
    Condition {
        type_: judgement.kind.to_owned(),
        status: status.to_owned(),
        reason: judgement.reason.word().to_owned(),
        message: judgement.message.clone(),
        observed_generation: group.metadata.generation,
        last_transition_time: same
            .map_or_else(|| Time(k8s_openapi::jiff::Timestamp::now()), |same| same.last_transition_time.clone()),
    }
}
