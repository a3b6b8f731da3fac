//! Whether the kind VmGroup is itself being deleted. Whoever removes the kind removes Drover, and doesn't mean all VMs that there are: then
//! groups are let go, and their VMs stay as they are.

use std::time::{Duration, Instant};

use drover_api::VmGroup;
use drover_core::reasons::Reason;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, Resource, api::ObjectMeta};
use tokio::time::timeout;

use crate::{
    controllers::{Context, reconcile::Error},
    kube::scope::Controller,
};

/// The kind, as the API server calls it.
const KIND: &str = "vmgroups.vm.codeconnect.vmworld.com";
/// How much later than its groups an API server may say of the kind that it ends, and how long one that has just been started may say
/// nothing of it. What is declared is said at once.
const LAG: Duration = Duration::from_secs(10);

/// How long the API server may take to answer: others wait for it too.
const PATIENCE: Duration = Duration::from_secs(10);

/// What becomes of the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    Ends,
    /// It can't be told before so much time has passed.
    Unclear(Duration),
    /// Nobody can tell, for this reason.
    Unknown(String),
}

/// What becomes of the kind of a group that is being deleted, asked of the API server itself, and once: the kind is marked before its
/// groups are, so one that isn't has not deleted the group. An operator that may not read the kind asks what everybody may: whether
/// VmGroups can be created. It asks twice, because that is told a moment later.
pub(super) async fn fate(context: &Context, group: &VmGroup) -> Result<Fate, Error> {
    let uid = group.metadata.uid.as_deref().unwrap_or_default();
    if context.vmgroups.reported.goes_by_itself(uid) {
        return Ok(Fate::Stays);
    }
    let fate = match ask(context, uid).await {
        Ok(Some(kind)) if went_with(&kind, &group.metadata) => Fate::Ends,
        Ok(Some(_)) => Fate::Stays,
        Ok(None) => Fate::Ends,
        Err(Error::Kube(kube::Error::Api(refusal))) if refusal.code == 403 => {
            // Its rights may be gone before the operator is.
            if context.scope.runs(Controller::VCenter) {
                return Ok(Fate::Unknown(refusal.to_string()));
            }
            guessed(context, group, uid).await?
        }
        Err(error) => return Err(error),
    };
    if fate == Fate::Stays {
        context.vmgroups.reported.note_that_it_goes_by_itself(uid);
    }
    Ok(fate)
}

/// What becomes of a kind that may not be read.
async fn guessed(context: &Context, group: &VmGroup, uid: &str) -> Result<Fate, kube::Error> {
    let left = LAG.saturating_sub(context.vmgroups.reported.when_asked_for_kind(uid).elapsed());
    Ok(match can_be_created(&context.kube).await? {
        Some(false) => Fate::Ends,
        // An API server that has just been started doesn't tell of all kinds yet.
        None => Fate::Unclear(LAG),
        Some(true) if !left.is_zero() => Fate::Unclear(left),
        Some(true) if context.vmgroups.reported.was_alive(uid) || was_going(group) => Fate::Stays,
        Some(true) => Fate::Unknown(
            "it was deleted while no operator ran, perhaps with an earlier kind VmGroup, and this operator may not read the kind. To have \
             its VMs destroyed, let the operator get the CustomResourceDefinition vmgroups.vm.codeconnect.vmworld.com; to keep \
             them, annotate this VmGroup with vm.codeconnect.vmworld.com/abandon=true"
                .to_owned(),
        ),
    })
}

/// Whether an operator has begun with a group's end before.
fn was_going(group: &VmGroup) -> bool {
    let conditions = group.status.iter().flat_map(|status| &status.conditions);
    conditions.into_iter().any(|condition| condition.reason == Reason::Deleting.word())
}

/// What was last told of the kind, and when that was asked. Whoever asks waits for who asks already: many groups are often deleted at once.
pub(super) type Answer = tokio::sync::Mutex<Option<(Instant, Option<ObjectMeta>)>>;

/// The kind, if it is there, as it is or was since this group was seen to be deleted.
async fn ask(context: &Context, uid: &str) -> Result<Option<ObjectMeta>, Error> {
    let seen = context.vmgroups.reported.when_asked_for_kind(uid);
    let mut answer = context.vmgroups.kind.lock().await;
    if let Some((asked, kind)) = &*answer
        && *asked >= seen
    {
        return Ok(kind.clone());
    }
    let asked = Instant::now();
    let kinds = Api::<CustomResourceDefinition>::all(context.kube.clone());
    let kind = timeout(PATIENCE, kinds.get_metadata_opt(KIND)).await??;
    let kind = kind.map(|kind| kind.metadata);
    *answer = Some((asked, kind.clone()));
    Ok(kind)
}

/// Whether a group is deleted because its kind is, or one before it was.
fn went_with(kind: &ObjectMeta, group: &ObjectMeta) -> bool {
    kind.deletion_timestamp.is_some() || went_with_a_kind_before(kind, group)
}

/// Whether a group was deleted before its kind was created: then an earlier kind has gone, and left the group behind. That is so where
/// somebody has taken the finalizer off the kind, for want of an operator, and installed the kind again. Times are whole seconds: a group
/// that was created no earlier than the kind is of this kind, however soon it was deleted.
fn went_with_a_kind_before(kind: &ObjectMeta, group: &ObjectMeta) -> bool {
    kind.creation_timestamp.is_some()
        && group.deletion_timestamp <= kind.creation_timestamp
        && group.creation_timestamp < kind.creation_timestamp
}

/// Whether the API server lets VmGroups be created, which it doesn't while it deletes their kind. `None`: it doesn't tell of the kind.
async fn can_be_created(kube: &Client) -> Result<Option<bool>, kube::Error> {
    match kube.list_api_group_resources(&VmGroup::api_version(&())).await {
        Ok(list) => {
            let plural = VmGroup::plural(&());
            let kind = list.resources.iter().find(|resource| resource.name == plural);
            Ok(kind.map(|kind| kind.verbs.iter().any(|verb| verb == "create")))
        }
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    #[test]
    fn a_group_that_was_deleted_before_its_kind_was_created_went_with_another() {
        let time = |second| Some(Time(Timestamp::from_second(second).unwrap()));
        let kind = ObjectMeta { creation_timestamp: time(50), ..ObjectMeta::default() };
        let went = |created, deleted| {
            let (creation_timestamp, deletion_timestamp) = (time(created), time(deleted));
            let group = ObjectMeta { creation_timestamp, deletion_timestamp, ..ObjectMeta::default() };
            went_with_a_kind_before(&kind, &group)
        };
        assert_eq!([49, 50, 51].map(|deleted| went(40, deleted)), [true, true, false], "in doubt it did");
        assert!(!went(50, 50), "it is of this kind");
    }
}
