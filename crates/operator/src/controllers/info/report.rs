//! What is written of a host or a VM, where that differs from what stands there, and each thing in its time.

use std::fmt::Debug;

use drover_api::{Tolerant, VCenter, VmGroup};
use drover_core::{
    Timestamp,
    info::{
        figures::When,
        status::{Draft, Observation},
    },
    reasons::Reason,
    status::standing,
};
use k8s_openapi::{NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, Resource, ResourceExt, core::object::HasStatus, runtime::controller::Action as Requeue};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{MOMENT, controller};
use crate::{
    controllers::{Context, binding::BoundVCenter, reconcile::Error},
    kube::status::{self, Reach},
    vcenter::mirror::Mirror,
};

/// What there is to see, and in which vCenter.
pub(super) struct View<S> {
    vcenter: Option<String>,
    sight: Observation<S>,
}

/// Looks for what an object is about in the vCenter that it names, or its namespace is given to.
pub(super) fn look<K, S>(
    context: &Context,
    info: &K,
    named: Option<&str>,
    see: impl FnOnce(&Mirror, &BoundVCenter) -> Observation<S>,
) -> View<S>
where
    K: Resource<Scope = NamespaceResourceScope>,
{
    if !context.vcenters.are_read() {
        // Everybody's turn comes when the vCenters have been read.
        let sight = Observation::Away { why: "the vCenters are being read".to_owned(), since: Timestamp::now() };
        return View { vcenter: None, sight };
    }
    let namespace = info.meta().namespace.as_deref().unwrap_or_default();
    let bound = match context.vcenters.choose(namespace, named) {
        Ok(bound) => bound,
        Err(none) => {
            let sight = Observation::Unclear { reason: Reason::NoVCenter, message: none.to_string() };
            return View { vcenter: None, sight };
        }
    };
    let live = &bound.live;
    let sight = match live.away() {
        Some(away) => Observation::Away { why: live.away_for_tenants().unwrap_or_default(), since: away.since },
        // It is being read, and everybody's turn comes when it has been.
        None if !live.is_in_sight() => {
            Observation::Away { why: "vCenter is being read".to_owned(), since: Timestamp::now() }
        }
        None => see(&live.mirror(), &bound),
    };
    View { vcenter: Some(live.name.clone()), sight }
}

/// Brings the status of an object up to what is seen, if it is time to, and says when to come back.
pub(super) async fn show<K, S>(
    context: &Context,
    info: &K,
    before: Option<&S>,
    View { vcenter, sight }: View<S>,
    now: Timestamp,
) -> Result<Requeue, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + HasStatus<Status: Serialize + Tolerant>
        + Clone
        + Debug
        + DeserializeOwned,
    S: Serialize,
{
    if context.vcenters.is_ending(&info.namespace().unwrap_or_default()) {
        // Who deletes all that is in it needs no word of what becomes of it until then.
        return Ok(Requeue::await_change());
    }
    if let Some(rest) = sight.grace(now) {
        return Ok(Requeue::requeue(rest));
    }
    if matches!(sight, Observation::Here { are_read: false, .. }) {
        context.infos.want_figures();
    }
    if context.infos.is_outdated(info) {
        return Ok(Requeue::requeue(MOMENT));
    }
    let before = before.map_or(Value::Null, standing);
    let draft = Draft::new(before, sight, info.meta().generation, is_published(info), now);
    let when = match draft.when(now) {
        When::Now if !draft.facts_differ() => context.infos.ask_turn(vcenter.as_deref(), info),
        when => {
            context.infos.leave_turn(vcenter.as_deref(), info);
            when
        }
    };
    match when {
        When::Never => return Ok(Requeue::await_change()),
        When::In(rest) => return Ok(Requeue::requeue(rest)),
        When::Now => {}
    }
    let infos: Api<K> = Api::namespaced(context.kube.clone(), &info.namespace().unwrap_or_default());
    let outcome = status::apply(&infos, info, Reach::Object, draft.whole(now)).await;
    let Some(written) = status::unless_overtaken(outcome)? else {
        return Ok(Requeue::await_change());
    };
    context.infos.note_write(info, &written);
    context.events.tell(info, draft.event().as_slice());
    Ok(Requeue::await_change())
}

/// Whether Drover has made an object, and removes it when what it is about is gone. No person has to see to it.
fn is_published<K: Resource>(info: &K) -> bool {
    let of_drover = [(VmGroup::kind(&()), VmGroup::api_version(&())), (VCenter::kind(&()), VCenter::api_version(&()))];
    let is_drovers = |owner: &OwnerReference| {
        of_drover.iter().any(|(kind, version)| owner.kind == *kind && owner.api_version == *version)
    };
    controller(info).is_some_and(is_drovers)
}

#[cfg(test)]
mod tests {
    use drover_api::VMInfo;
    use serde_json::json;

    #[test]
    fn an_object_is_published_only_if_one_of_drovers_kinds_has_made_it() {
        let is_published = |kind: &str, version: &str, controller: bool| {
            let owner = json!({"kind": kind, "apiVersion": version, "name": "x", "uid": "x", "controller": controller});
            let metadata = json!({"name": "x", "ownerReferences": [owner]});
            super::is_published::<VMInfo>(
                &serde_json::from_value(json!({"metadata": metadata, "spec": {"nodename": "x"}})).unwrap(),
            )
        };
        let version = "vm.codeconnect.vmworld.com/v1alpha1";
        assert!(is_published("VmGroup", version, true) && is_published("VCenter", version, true));
        assert!(!is_published("VmGroup", version, false) && !is_published("VmGroup", "example.com/v1", true));
        assert!(!is_published("ConfigMap", "v1", true));
    }
}
