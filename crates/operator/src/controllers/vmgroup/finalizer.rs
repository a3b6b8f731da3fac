//! What keeps a group from being gone before its end in vCenter is reached.

use drover_api::VmGroup;
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::json;

use crate::controllers::reconcile::Error;

const FINALIZER: &str = "vm.codeconnect.vmworld.com/finalizer";

/// Whether a group has it.
pub(super) fn is_on(group: &VmGroup) -> bool {
    group.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Puts it on a group, and says whether that was done: not if the group has changed meanwhile.
pub(super) async fn put_on(groups: &Api<VmGroup>, group: &ObjectMeta) -> Result<bool, Error> {
    set(groups, group, |finalizers| finalizers.push(FINALIZER.to_owned())).await
}

/// Takes it off a group, which is gone then, and says whether that was done.
pub(super) async fn take_off(groups: &Api<VmGroup>, group: &ObjectMeta) -> Result<bool, Error> {
    set(groups, group, |finalizers| finalizers.retain(|finalizer| finalizer != FINALIZER)).await
}

async fn set(groups: &Api<VmGroup>, group: &ObjectMeta, change: impl FnOnce(&mut Vec<String>)) -> Result<bool, Error> {
    let mut finalizers = group.finalizers.clone().unwrap_or_default();
    change(&mut finalizers);
    // With the version it was read at, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": group.resource_version}});
    let name = group.name.as_deref().unwrap_or_default();
    match groups.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        // One that is gone has none.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error.into()),
    }
}
