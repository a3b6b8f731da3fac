//! The controller of groups. A reconcile is five verbs: validate, bind, advance (find what is named, plan, order), end, report.

mod advance;
mod bar;
mod decide;
mod dereference;
mod end;
mod foretell;
mod keys;
mod kind;
mod latest;
mod macs;
mod networks;
mod objection;
mod preflight;
mod preview;
mod prospect;
mod reach;
mod record;
mod report;
mod reported;
mod root_disk;
mod run;
mod source;
mod take_over;
mod usable;
mod usage;
mod validate;

use std::{sync::Arc, time::Duration};

use drover_api::{VmGroup, vmgroup::ABANDON_ANNOTATION as ABANDON};
use kube::{Api, ResourceExt, runtime::controller::Action as Requeue};
use tracing::warn;

use crate::{
    controllers::{
        Context,
        reconcile::{Error, mandated},
    },
    kube::{finalizer, guard::Unreadable, leadership::Mandate, shared_watch::backoff},
};
pub(crate) use advance::load_records;
use advance::{Site, advance};
pub(crate) use dereference::require_defaults;
use end::end;
pub(crate) use foretell::{Foretold, foretell};
use latest::Latest;
pub(crate) use objection::{Objection, objection};
pub(crate) use preflight::{Finding, preflight};
pub(crate) use preview::preview;
pub(crate) use prospect::Prospect;
pub(crate) use report::not_allowed_in;
use report::report;
use reported::Reported;
pub(crate) use run::run;
pub(crate) use source::Unusable;
pub(crate) use usable::usable;
pub(crate) use usage::{quotas, read_disks};
use validate::validate;

/// What keeps a group from being gone before its end in vCenter is reached.
const FINALIZER: &str = "vm.codeconnect.vmworld.com/finalizer";
/// How long to wait for a watch that doesn't know yet what another replica has written.
const BEHIND: Duration = Duration::from_millis(100);
/// After a write that met another, the watch brings what is there now, mostly before this.
const CONFLICT: Duration = Duration::from_millis(500);

/// What was last said and written of each group. All of it may be lost.
#[derive(Debug, Default)]
pub(super) struct Memory {
    reported: Reported,
    latest: Latest,
    kind: kind::Answer,
}

impl Memory {
    /// Takes note of a group that is there and not being deleted.
    pub(super) fn note_alive(&self, uid: &str) {
        self.reported.note_alive(uid);
    }

    /// Forgets the groups that are gone.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.reported.retain(is_there);
    }
}

/// Brings one group closer to what it declares, if that is for this replica to do.
pub(crate) async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let mandate = context.vcenters.mandate_for(&group);
    if mandate.is_none() {
        context.vcenters.withdraw(&group.uid().unwrap_or_default());
    }
    mandated(mandate, |mandate| reconcile_as(mandate, group, context)).await
}

async fn reconcile_as(mandate: Mandate, group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    if mandate.is_behind(&group.metadata) {
        return Ok(Requeue::requeue(BEHIND));
    }
    let groups = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let request = Request { context: &context, group: &group, groups, mandate: &mandate };
    match five_verbs(&request).await {
        Ok(requeue) | Err(Stop::Early(requeue)) => Ok(requeue),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// The reconcile itself. Each verb may say that nothing more is to be done now.
async fn five_verbs(request: &Request<'_>) -> Result<Requeue, Stop> {
    let valid = validate(request).await?;
    let binding = request.context.vcenters.bind(request.group, &request.context.cluster);
    let outcome = advance(request, &valid, &binding).await?;
    let outcome = end(request, &valid, outcome).await?;
    report(request, &valid, &binding, outcome).await
}

/// A group that is to be reconciled now.
struct Request<'a> {
    context: &'a Context,
    group: &'a VmGroup,
    groups: Api<VmGroup>,
    /// In whose name all of it is done.
    mandate: &'a Mandate,
}

/// Why a reconcile goes no further.
enum Stop {
    /// Nothing more is to be done until then.
    Early(Requeue),
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl Stop {
    /// What follows a write, which was done or has met another.
    fn after_write(is_done: bool) -> Self {
        Self::Early(if is_done { Requeue::await_change() } else { Requeue::requeue(CONFLICT) })
    }
}

/// A group can't be read, so nobody knows what it wants: nothing is begun for it. If it is being deleted, it can be given up.
pub(crate) fn cant_be_read(context: &Arc<Context>, group: &Unreadable) {
    context.vcenters.withdraw(group.metadata.uid.as_deref().unwrap_or_default());
    let is_given_up =
        group.metadata.annotations.as_ref().and_then(|all| all.get(ABANDON)).is_some_and(|it| it == "true");
    let general = context.vcenters.general_mandate();
    if let Some(mandate) = general.filter(|_| is_given_up && group.metadata.deletion_timestamp.is_some()) {
        let (context, metadata) = (Arc::clone(context), group.metadata.clone());
        let loops = context.loops.clone();
        loops.spawn(async move {
            let groups: Api<VmGroup> =
                Api::namespaced(context.kube.clone(), metadata.namespace.as_deref().unwrap_or_default());
            for pause in backoff() {
                match mandate.during(finalizer::take_off(&groups, &metadata, FINALIZER)).await {
                    // It has changed, and is told of anew; or it is another replica's to let go.
                    Some(Ok(_)) | None => return,
                    Some(Err(error)) => {
                        let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
                        let vmgroup = format!("{}/{}", namespace.unwrap_or_default(), name.unwrap_or_default());
                        warn!(%vmgroup, %error, "Finalizer not removed");
                    }
                }
                tokio::time::sleep(pause).await;
            }
        });
    }
}
