//! What is written of a group: only what differs from what stands there.

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Phase, vminfo::GROUP_LABEL};
use drover_core::{
    Counts, Verdict,
    conditions::Conditions,
    desired::Invalid,
    group::{Desired, Timestamp},
    names,
    news::News,
    reasons::Reason,
    verdict::Judgement,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{Error, Turn};
use crate::{events, status};

/// What is said of a group.
pub(super) fn status(group: &VmGroup, desired: &Desired, turn: &Turn, verdict: &Verdict) -> VmGroupStatus {
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
        vcenter_instance: before.vcenter_instance.or_else(|| turn.instance.clone()),
        // It is written by itself.
        record: before.record,
        incident: if is_known { turn.incident.clone() } else { before.incident },
        selector: Some(format!("{GROUP_LABEL}={}", names::label(&desired.name))),
        conditions: conditions(group, &verdict.conditions),
    }
}

/// What is said of a group that makes no sense.
pub(super) fn invalid(group: &VmGroup, invalid: &Invalid) -> VmGroupStatus {
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
        conditions: conditions(group, &judgements),
        ..before
    }
}

/// Writes what differs from what stands there.
pub(super) async fn write(groups: &Api<VmGroup>, group: &VmGroup, status: VmGroupStatus) -> Result<(), Error> {
    let before = group.status.clone().unwrap_or_default();
    let patch = status::difference(&status::standing(&before), &status::value(&status));
    if patch.as_object().is_some_and(|patch| !patch.is_empty()) {
        status::write(groups, group, patch).await?;
    }
    Ok(())
}

/// Writes down which vCenter the group is at home in, before anything is done there; or that it is in none.
pub(super) async fn settle(groups: &Api<VmGroup>, group: &VmGroup, vcenter: Option<&str>) -> Result<(), Error> {
    status::write(groups, group, settled(group, vcenter)).await?;
    Ok(())
}

fn settled(group: &VmGroup, vcenter: Option<&str>) -> Value {
    let mut patch = json!({"vcenter": vcenter, "vcenterInstance": null});
    if group.status.as_ref().is_some_and(|status| status.record.is_some()) {
        // In another vCenter, their ids are those of others' folders.
        patch["record"] = json!({"folder": null, "leftFolders": []});
    }
    patch
}

/// Tells that the group's folder stays in vCenter.
pub(super) fn folder_kept(kube: &Client, group: &VmGroup) {
    let message = "the group's folder stays: something is in it that Drover can't see".to_owned();
    events::tell(kube, group, &[News { is_warning: true, reason: "FolderKept", message }]);
}

/// Tells that the group is given up, and why it couldn't go on.
pub(super) fn abandoned(kube: &Client, group: &VmGroup, why: &str) {
    let message = format!(
        "given up as its annotation asks: what is left of it in vCenter stays there, unattended. It waited: {why}"
    );
    events::tell(kube, group, &[News { is_warning: true, reason: "Abandoned", message }]);
}

/// Tells that the group isn't given up, though its annotation asks for that.
pub(super) fn not_abandoned(kube: &Client, group: &VmGroup) {
    let message = "the annotation to abandon the group has no effect: nothing stands in the way, and its VMs are being deleted or \
                   kept as spec.deletionPolicy says"
        .to_owned();
    events::tell(kube, group, &[News { is_warning: false, reason: "AbandonIgnored", message }]);
}

fn conditions(group: &VmGroup, judgements: &[Judgement; 3]) -> Vec<Condition> {
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let conditions = Conditions { before, generation: group.metadata.generation, now: Timestamp::now() };
    let judge = |said: &Judgement| conditions.judge(said.kind, said.holds, said.reason, said.message.clone());
    judgements.iter().map(judge).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_no_folder_along_to_another_vcenter() {
        let group = |status: Value| -> VmGroup {
            serde_json::from_value(json!({
                "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": {"name": "web"},
                "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"}, "status": status,
            }))
            .unwrap()
        };
        let record = json!({"record": {"incarnation": 3, "folder": "group-v7", "leftFolders": ["group-v6"]}});
        assert_eq!(settled(&group(record), None)["record"], json!({"folder": null, "leftFolders": []}));
        assert_eq!(settled(&group(json!({})), Some("b")), json!({"vcenter": "b", "vcenterInstance": null}));
    }
}
