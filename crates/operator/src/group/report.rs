//! What is written of a group: only what differs from what stands there.

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Phase, vminfo::GROUP_LABEL};
use drover_core::{
    Counts, Verdict, desired::Invalid, group::Desired, names, news::News, reasons::Reason, verdict::Judgement,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{Error, MANAGER, Turn};
use crate::events;

/// What is said of a group.
pub fn status(group: &VmGroup, desired: &Desired, turn: &Turn, verdict: &Verdict) -> VmGroupStatus {
    // Where the group couldn't be seen, its machines are not taken for gone.
    let is_known = turn.observed.is_some();
    let before = group.status.clone().unwrap_or_default();
    let number = |count: u32| i32::try_from(count).ok();
    let kept = |now: Option<i32>, before: Option<i32>| if is_known { now } else { before };
    let Counts { current, ready, available, updated } = turn.plan.counts;
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
        vcenter: before.vcenter,
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

/// Writes down which vCenter the group is at home in, before anything is done there; or that it is in none.
pub async fn settle(groups: &Api<VmGroup>, group: &VmGroup, vcenter: Option<&str>) -> Result<(), Error> {
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let patch = json!({"status": {"vcenter": vcenter}});
    match groups.patch_status(&group.name_any(), &params, &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(gone)) if gone.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Tells that the group is given up.
pub fn abandoned(kube: &Client, group: &VmGroup) {
    let message = "given up as its annotation asks: what is left of it in vCenter stays there, unattended".to_owned();
    events::tell(kube, group, &[News { is_warning: true, reason: "Abandoned", message }]);
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
