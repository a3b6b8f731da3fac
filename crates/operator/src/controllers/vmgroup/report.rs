//! What is written of a group, where that differs from what stands there.

use drover_api::{VmGroup, VmGroupStatus};
use drover_core::{
    reasons::ConditionType,
    vcenter::binding::NoVCenter,
    vmgroup::{extra_config, outcome::Outcome, status::standing},
};
use kube::{Api, runtime::controller::Action as Requeue};
use serde_json::{Value, json};

use super::{Latest, Request, Stop, end::let_go, record, validate::Valid};
use crate::{
    controllers::{Context, binding::Binding, reconcile::Error},
    kube::status,
    telemetry::log::named,
};

/// Says how a group is: in events, in metrics and in its status, and writes down what was begun for it.
pub(super) async fn report(
    request: &Request<'_>,
    valid: &Valid,
    binding: &Result<Binding, NoVCenter>,
    outcome: Outcome,
) -> Result<Requeue, Stop> {
    let (Request { context, group, groups, mandate }, desired) = (request, &valid.desired);
    let is_seen = outcome.observed.is_some();
    let reported = &context.vmgroups.reported;
    let report = reported.report(desired, group, outcome, mandate.epoch());
    context.events.tell(*group, &report.events);
    if let Ok(Binding::Here(bound)) = binding {
        context.vcenters.metrics.drifted(&bound.live.name, &report.drift);
    }
    if report.is_given_up {
        return Err(Stop::Early(let_go(request).await?));
    }
    if let Some(wait) = reported.wait_to_write(group, &report.status) {
        return Ok(Requeue::requeue(wait.min(report.wake)));
    }
    write(groups, &context.vmgroups.latest, group, report.status).await?;
    context.events.tell(*group, &report.events_after_write);
    if let Ok(Binding::Here(bound) | Binding::Leave(bound)) = binding {
        let kept = record::keep(groups, &context.vmgroups.latest, group, &bound.live, &desired.uid).await;
        // That it is refused is said, and nothing is begun meanwhile.
        let is_said = |error: &Error| error.is_refusal() && !is_seen;
        kept.map(drop).or_else(|error| if is_said(&error) { Ok(()) } else { Err(error) })?;
    }
    Ok(Requeue::requeue(report.wake))
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
    let mut patch = json!({"vcenter": vcenter, "vcenterInstance": null, "extraConfigKept": extra_config::kept(group)});
    if group.status.as_ref().is_some_and(|status| status.record.is_some()) {
        // In another vCenter, their ids are those of others' folders.
        patch["record"] = json!({"folder": null, "leftFolders": null});
    }
    patch
}

/// The groups in a vCenter that name what they may not use there, whether or not that is refused. None before groups are read.
pub(crate) fn not_allowed_in(context: &Context, vcenter: &str) -> Option<Vec<String>> {
    if !context.groups.is_filled() {
        return None;
    }
    let is_at_home = |group: &VmGroup| group.status.as_ref().is_some_and(|it| it.vcenter.as_deref() == Some(vcenter));
    let is_refused =
        |group: &VmGroup| standing(group, ConditionType::Allowed).is_some_and(|allowed| allowed.status == "False");
    let refused = context.groups.all().filter(|group| is_at_home(group) && is_refused(group));
    let mut names: Vec<_> = refused.map(|group| named(&*group)).collect();
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use drover_api::vmgroup::Phase;
    use kube::{Client, client::Body};
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
