//! What is written of a group, where that differs from what stands there.

use drover_api::{VmGroup, VmGroupStatus, vmgroup::Phase, vminfo::GROUP_LABEL};
use drover_core::{
    Counts, Timestamp, Trouble, Verdict,
    conditions::Conditions,
    events::News,
    names,
    reasons::{EventReason, Reason},
    vcenter::binding::NoVCenter,
    vmgroup::{
        Desired,
        desired::Invalid,
        plan::Awaited,
        verdict::{ConditionUpdate, Obstacle},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{Api, Client, runtime::controller::Action as Requeue};
use serde_json::{Value, json};

use super::{Allowed, Latest, Outcome, Request, Stop, end::abandon, keys, record, validate::Valid};
use crate::{
    controllers::{Context, binding::Binding, reconcile::Error},
    kube::{events, status},
    telemetry::log::named,
};

/// Says how a group is: in events, in metrics and in its status, and writes down what was begun for it.
pub(super) async fn report(
    request: &Request<'_>,
    valid: &Valid,
    binding: &Result<Binding, NoVCenter>,
    mut outcome: Outcome,
) -> Result<Requeue, Stop> {
    let (Request { context, group, groups, mandate }, desired) = (request, &valid.desired);
    let reported = &context.vmgroups.reported;
    let said = reported.report(desired, group, &mut outcome, mandate.epoch());
    events::tell(&context.kube, *group, &said.news);
    if let Ok(Binding::Here(bound)) = binding {
        context.vcenters.metrics.drifted(&bound.live.name, &said.drift);
    }
    abandon(request, &said, &mut outcome).await?;
    let status = status(group, desired, &outcome, &said.verdict);
    if let Some(wait) = reported.wait_to_write(group, &status) {
        return Ok(Requeue::requeue(wait.min(outcome.wake)));
    }
    write(groups, &context.vmgroups.latest, group, status).await?;
    keys::tell_kept(&context.kube, group);
    tell_refusal(&context.kube, group, &outcome);
    if let Ok(Binding::Here(bound) | Binding::Leave(bound)) = binding {
        let kept = record::keep(groups, &context.vmgroups.latest, group, &bound.live, &desired.uid).await;
        // That it is refused is said, and nothing is begun meanwhile.
        let is_said = |error: &Error| error.is_refusal() && outcome.observed.is_none();
        kept.map(drop).or_else(|error| if is_said(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(Requeue::requeue(outcome.wake))
}

/// Whether the group names only what its namespace may use.
const ALLOWED: &str = "Allowed";

/// What is said of a group.
pub(super) fn status(group: &VmGroup, desired: &Desired, outcome: &Outcome, verdict: &Verdict) -> VmGroupStatus {
    // Where the group couldn't be seen, its machines are not taken for gone.
    let is_known = outcome.observed.is_some();
    let before = group.status.clone().unwrap_or_default();
    let number = |count: u32| i32::try_from(count).ok();
    let kept = |now: Option<i32>, before: Option<i32>| if is_known { now } else { before };
    let Counts { current, ready, available, updated } = outcome.plan.counts;
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
        vcenter_instance: before.vcenter_instance.or_else(|| outcome.instance.clone()),
        // It is written by itself.
        record: before.record,
        marker_uid: before.marker_uid,
        extra_config_kept: Some(keys::kept(group)),
        incident: if is_known { outcome.incident.clone() } else { before.incident },
        selector: Some(format!("{GROUP_LABEL}={}", names::label(&desired.name))),
        conditions: conditions(group, &verdict.conditions, &outcome.allowed),
        unknown: before.unknown,
    }
}

/// What is said of a group that makes no sense.
pub(super) fn invalid(group: &VmGroup, invalid: &Invalid) -> VmGroupStatus {
    let before = group.status.clone().unwrap_or_default();
    let message = invalid.to_string();
    let judge = |kind, holds, message: &str| ConditionUpdate {
        kind,
        holds,
        reason: Reason::Invalid,
        message: message.to_owned(),
    };
    let judgements =
        [judge("Ready", false, &message), judge("Reconciling", false, ""), judge("Stalled", true, &message)];
    VmGroupStatus {
        phase: Some(Phase::Error),
        last_message: Some(message.clone()),
        observed_generation: group.metadata.generation,
        conditions: conditions(group, &judgements, &Allowed::Unknown),
        extra_config_kept: Some(keys::kept(group)),
        ..before
    }
}

/// Writes a status, if it differs from what stands there, and nobody has said anything of a newer spec meanwhile.
pub(super) async fn write(
    groups: &Api<VmGroup>,
    latest: &Latest,
    group: &VmGroup,
    status: VmGroupStatus,
) -> Result<(), Error> {
    let before = group.status.clone().unwrap_or_default();
    let difference = status::difference(&status::standing(&before), &status::value(&status));
    if difference.as_object().is_some_and(|difference| !difference.is_empty()) {
        // Another replica may know the spec better: what is said of the older one would stand there as if it were about the newer.
        let observed = |now: &VmGroup| now.status.as_ref().and_then(|status| status.observed_generation);
        let is_meant = |now: &VmGroup| observed(now) <= group.metadata.generation;
        latest.change(groups, group, is_meant, |status| status::merge(status, &difference)).await?;
    }
    Ok(())
}

/// Writes down which vCenter the group is at home in, before anything is done there; or that it is in none. Says whether that was done:
/// not if the group has changed meanwhile. Another replica may have written another.
pub(super) async fn settle(
    groups: &Api<VmGroup>,
    latest: &Latest,
    group: &VmGroup,
    vcenter: Option<&str>,
) -> Result<bool, Error> {
    let difference = settled(group, vcenter);
    let recorded = |group: &VmGroup| group.status.as_ref().and_then(|status| status.vcenter.clone());
    let is_meant =
        |now: &VmGroup| recorded(now) == recorded(group) && now.metadata.generation == group.metadata.generation;
    let written = latest.change(groups, group, is_meant, |status| status::merge(status, &difference)).await?;
    Ok(written.is_some())
}

fn settled(group: &VmGroup, vcenter: Option<&str>) -> Value {
    let mut patch = json!({"vcenter": vcenter, "vcenterInstance": null, "extraConfigKept": keys::kept(group)});
    if group.status.as_ref().is_some_and(|status| status.record.is_some()) {
        // In another vCenter, their ids are those of others' folders.
        patch["record"] = json!({"folder": null, "leftFolders": null});
    }
    patch
}

/// Tells that the group's folder stays in vCenter.
pub(super) fn folder_kept(kube: &Client, group: &VmGroup) {
    let message = "the group's folder stays: something is in it that Drover can't see".to_owned();
    events::tell(kube, group, &[News { is_warning: true, reason: EventReason::FolderKept.word(), message }]);
}

/// Tells that the group goes without its VMs.
pub(super) fn vms_kept(kube: &Client, group: &VmGroup) {
    let message = "the kind VmGroup is being deleted: the VMs stay as they are, and nobody looks after them".to_owned();
    events::tell(kube, group, &[News { is_warning: true, reason: EventReason::VMsKept.word(), message }]);
}

/// Tells that the group is given up, and why it couldn't go on.
pub(super) fn abandoned(kube: &Client, group: &VmGroup, why: &str) {
    let message = format!(
        "given up as its annotation asks: what is left of it in vCenter stays there, unattended. It waited: {why}"
    );
    events::tell(kube, group, &[News { is_warning: true, reason: EventReason::Abandoned.word(), message }]);
}

/// Tells that the group isn't given up, though its annotation asks for that.
pub(super) fn not_abandoned(kube: &Client, group: &VmGroup, obstacle: Option<&Obstacle>, awaited: Option<Awaited>) {
    let why = match (obstacle, awaited) {
        (Some(Obstacle { message, .. }), _) => {
            &format!("what it waits for is no reason to leave VMs behind: {message}")
        }
        (None, Some(awaited)) => &format!("the group {awaited}"),
        (None, None) => "nothing stands in the way, and its VMs are being deleted or kept as spec.deletionPolicy says",
    };
    let message = format!("the annotation to abandon the group has no effect: {why}");
    events::tell(kube, group, &[News { is_warning: false, reason: EventReason::AbandonIgnored.word(), message }]);
}

/// Tells that the group names what it may not use, where nothing else does: no VM waits for that, or it is not refused yet.
pub(super) fn tell_refusal(kube: &Client, group: &VmGroup, outcome: &Outcome) {
    let Allowed::Judged(Err(why)) = &outcome.allowed else { return };
    let is_told = |allowed: &Condition| allowed.status == "False" && allowed.message == *why;
    if matches!(outcome.trouble, Trouble::NotAllowed(_)) || allowed_of(group).is_some_and(is_told) {
        return;
    }
    let news = News { is_warning: true, reason: Reason::NotAllowed.word(), message: why.clone() };
    events::tell(kube, group, &[news]);
}

/// The groups in a vCenter that name what they may not use there, whether or not that is refused. None before groups are read.
pub(crate) fn not_allowed_in(context: &Context, vcenter: &str) -> Option<Vec<String>> {
    let groups = context.groups.get().filter(|groups| groups.is_filled())?;
    let is_at_home = |group: &VmGroup| group.status.as_ref().is_some_and(|it| it.vcenter.as_deref() == Some(vcenter));
    let is_refused = |group: &VmGroup| allowed_of(group).is_some_and(|allowed| allowed.status == "False");
    let refused = groups.all().filter(|group| is_at_home(group) && is_refused(group));
    let mut names: Vec<_> = refused.map(|group| named(&*group)).collect();
    names.sort();
    Some(names)
}

fn allowed_of(group: &VmGroup) -> Option<&Condition> {
    group.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == ALLOWED)
}

fn conditions(group: &VmGroup, judgements: &[ConditionUpdate; 3], allowed: &Allowed) -> Vec<Condition> {
    let before = group.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let conditions = Conditions { before, generation: group.metadata.generation, now: Timestamp::now() };
    let judge = |said: &ConditionUpdate| conditions.judge(said.kind, said.holds, said.reason, said.message.clone());
    let allowed = match allowed {
        Allowed::Everything => None,
        Allowed::Unknown => allowed_of(group).cloned(),
        Allowed::Judged(Ok(())) => Some(conditions.judge(ALLOWED, true, Reason::Allowed, "")),
        Allowed::OverQuota(why) => Some(conditions.judge(ALLOWED, false, Reason::QuotaExceeded, why.clone())),
        Allowed::Judged(Err(why)) => Some(conditions.judge(ALLOWED, false, Reason::NotAllowed, why.clone())),
    };
    judgements.iter().map(judge).chain(allowed).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;

    /// A group whose spec was changed so often, with a status of this generation.
    fn at(generation: i64, observed: i64, version: &str) -> Value {
        json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"name": "web", "uid": "u", "generation": generation, "resourceVersion": version},
            "spec": {"cpu": 1, "memory": 1, "replicas": 2, "template": "t"},
            "status": {"observedGeneration": observed, "phase": "PENDING"},
        })
    }

    #[tokio::test]
    async fn what_is_said_of_a_spec_is_not_written_over_what_another_has_said_of_a_newer_one() {
        for (stands, is_written) in [(at(2, 2, "9"), false), (at(2, 1, "9"), true)] {
            let writes = Arc::new(Mutex::new(Vec::new()));
            let (noted, standing) = (Arc::clone(&writes), stands.clone());
            let answer = move |request: http::Request<Body>| {
                let (noted, standing) = (Arc::clone(&noted), standing.clone());
                async move {
                    let is_write = request.method() == http::Method::PATCH;
                    let body: Value =
                        serde_json::from_slice(&request.into_body().collect_bytes().await?).unwrap_or_default();
                    let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 409});
                    let list = json!({
                        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroupList", "metadata": {},
                        "items": [standing],
                    });
                    let (code, answer) = match is_write {
                        false => (200, list),
                        true if body["metadata"]["resourceVersion"] != "9" => (409, conflict),
                        true => {
                            noted.lock().unwrap().push(body);
                            (200, standing)
                        }
                    };
                    let answer = Body::from(answer.to_string().into_bytes());
                    Ok::<_, BoxError>(http::Response::builder().status(code).body(answer)?)
                }
            };
            let groups = Api::namespaced(Client::new(service_fn(answer), "team"), "team");
            let known: VmGroup = serde_json::from_value(at(1, 1, "7")).unwrap();
            let running = VmGroupStatus { phase: Some(Phase::Running), ..known.status.clone().unwrap() };
            write(&groups, &Latest::default(), &known, running).await.unwrap();
            assert_eq!(!writes.lock().unwrap().is_empty(), is_written, "{stands}");
        }
    }

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
        assert_eq!(settled(&group(record), None)["record"], json!({"folder": null, "leftFolders": null}));
        assert_eq!(
            settled(&group(json!({})), Some("b")),
            json!({"vcenter": "b", "vcenterInstance": null, "extraConfigKept": []})
        );
    }
}
