//! The controller of groups. A reconcile is five verbs: dereference, validate, plan, act, report.

mod act;
mod diary;
mod memory;
mod networks;
mod preview;
mod report;
mod source;
mod survey;
mod works;

use std::{sync::Arc, time::Duration};

use drover_api::{VmGroup, VmGroupSpec, vmgroup::Placement};
use drover_core::{
    Action, Counts, Plan, Trouble,
    group::{DeletionPolicy, Desired, Observed, Timestamp},
    home::NoVCenter,
    names, plan,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::controller::Action as Requeue,
};
use serde_json::json;
use tracing::{info, warn};
use vim25::{LookupError, ManagedObject};

use crate::{
    events,
    fleet::{Fleet, Housing, Seat},
    info::Infos,
    vcenter::Live,
};
use act::Scene;
use diary::Diaries;
use memory::View;
pub(crate) use preview::preview;
pub(crate) use source::Unusable;
use source::{Found, Source};
pub(crate) use survey::{Finding, survey};
pub(crate) use works::{Works, start_what_may};

const FINALIZER: &str = "vm.codeconnect.vmworld.com/finalizer";
/// On a group that is being deleted: whatever is left of it in vCenter stays there.
const ABANDON: &str = "vm.codeconnect.vmworld.com/abandon";
/// What a group names is looked for again after this long, if it wasn't there.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A group is planned again after this long, whatever was told. It costs vCenter nothing.
const RESYNC: Duration = Duration::from_mins(5);

/// What every reconcile needs.
pub(crate) struct Context {
    pub kube: Client,
    pub fleet: Fleet,
    /// The id of this Kubernetes cluster: its `kube-system` namespace's UID.
    pub cluster: String,
    pub infos: Infos,
    diaries: Diaries,
}

impl Context {
    pub(crate) fn new(kube: Client, fleet: Fleet, cluster: String, infos: Infos) -> Self {
        Self { kube, fleet, cluster, infos, diaries: Diaries::default() }
    }
}

/// Why a reconcile failed: the API server didn't answer as it should. It is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
}

/// Brings one group closer to what it declares.
pub(crate) async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let groups: Api<VmGroup> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let is_ours = group.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    if group.metadata.deletion_timestamp.is_some() && !is_ours {
        return Ok(Requeue::await_change());
    }
    if !is_ours {
        set_finalizers(&groups, &group, |finalizers| finalizers.push(FINALIZER.to_owned())).await?;
        return Ok(Requeue::await_change());
    }
    let desired = match Desired::of(&group) {
        Ok(desired) => desired,
        Err(invalid) => {
            report::write(&groups, &group, report::invalid(&group, &invalid)).await?;
            return Ok(Requeue::await_change());
        }
    };
    let housing = context.fleet.house(&group, &context.cluster);
    let abandoned = desired.deletion.is_some() && is_abandoned(&group);
    let mut turn = match &housing {
        _ if abandoned => over(),
        Ok(Housing::Here(seat)) => advance(&Site::new(&context, seat, &group), &group, &desired).await,
        Ok(Housing::Settle(name)) => {
            report::settle(&groups, &group, Some(name)).await?;
            return Ok(Requeue::await_change());
        }
        Ok(Housing::Leave(seat)) => {
            let leaving = Desired { deletion: Some(DeletionPolicy::Delete), ..desired.clone() };
            let turn = advance(&Site::new(&context, seat, &group), &group, &leaving).await;
            if turn.is_over() {
                seat.live.forget(&desired.uid, &group);
                report::settle(&groups, &group, None).await?;
                return Ok(Requeue::await_change());
            }
            turn
        }
        // It was never at home anywhere, so nothing is left of it.
        Err(_) if desired.deletion.is_some() && was_nowhere(&group) => over(),
        Err(none) => stuck(homeless(none), RESYNC),
    };
    if abandoned {
        report::abandoned(&context.kube, &group);
    }
    if desired.deletion.is_some() && turn.is_over() {
        info!(group = %group.name_any(), "the group's end is reached");
        set_finalizers(&groups, &group, |finalizers| finalizers.retain(|finalizer| finalizer != FINALIZER)).await?;
        context.diaries.forget(&desired.uid);
        if let Ok(Housing::Here(seat)) = &housing {
            seat.live.forget(&desired.uid, &group);
        }
        return Ok(Requeue::await_change());
    }
    let page = context.diaries.page(&desired, &group, &mut turn);
    events::tell(&context.kube, &*group, &page.news);
    let status = report::status(&group, &desired, &turn, &page.verdict);
    if let Some(wait) = context.diaries.wait_to_write(&group, &status) {
        return Ok(Requeue::requeue(wait.min(turn.wake)));
    }
    report::write(&groups, &group, status).await?;
    Ok(Requeue::requeue(turn.wake))
}

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.annotations().get(ABANDON).is_some_and(|value| value == "true")
}

/// Whether no vCenter has ever been written down as the group's.
fn was_nowhere(group: &VmGroup) -> bool {
    group.status.as_ref().is_none_or(|status| status.vcenter.is_none() && status.current_replicas.unwrap_or(0) == 0)
}

fn homeless(none: &NoVCenter) -> Trouble {
    match none {
        NoVCenter::Unusable { .. } => Trouble::VCenterAway(none.to_string()),
        NoVCenter::Moved { .. } => Trouble::Invalid(none.to_string()),
        _ => Trouble::NoVCenter(none.to_string()),
    }
}

/// What a reconcile came to.
struct Turn {
    plan: Plan,
    /// The group as it is, where that could be seen.
    observed: Option<Observed>,
    trouble: Trouble,
    /// When to come back, if nothing changes before.
    wake: Duration,
}

impl Turn {
    /// Whether a group that goes has gone.
    fn is_over(&self) -> bool {
        self.plan.settled && self.trouble == Trouble::None
    }
}

/// Nothing can be done, or even seen, now.
fn stuck(trouble: Trouble, wake: Duration) -> Turn {
    Turn { plan: nothing(), observed: None, trouble, wake }
}

/// Nothing is left to be done for a group that is being deleted.
fn over() -> Turn {
    Turn { plan: Plan { settled: true, ..nothing() }, ..stuck(Trouble::None, RESYNC) }
}

/// Where a group is at home, and what it declares there.
struct Site<'a> {
    context: &'a Context,
    live: &'a Arc<Live>,
    /// With what it leaves open as its vCenter says.
    spec: VmGroupSpec,
}

impl<'a> Site<'a> {
    fn new(context: &'a Context, seat: &'a Seat, group: &VmGroup) -> Self {
        Self { context, live: &seat.live, spec: source::with_defaults(&group.spec, &seat.defaults) }
    }
}

/// Plans, and orders what the plan says.
async fn advance(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Turn {
    if let Some(away) = site.live.away() {
        return stuck(Trouble::VCenterAway(away.sentence()), RESYNC);
    }
    let mut found = match dereference(site, group, desired).await {
        Ok(found) => found,
        // Without its place and without machines, a group that is being deleted has nothing left to wait for.
        Err(Unusable::Lookup(_, LookupError::NotFound { .. }))
            if desired.deletion.is_some() && !site.live.mirror().has_members(&desired.uid, &site.context.cluster) =>
        {
            return over();
        }
        Err(unusable) => return stuck(trouble_of(&unusable), look_again(&unusable)),
    };
    let mut decision = decide(site, group, desired, &found, Search::ToCome);
    if decision.lacks_source {
        let sought = find_source(site, group, &found).await.map(|source| found.source = Some(source));
        decision = decide(site, group, desired, &found, Search::Over);
        match sought {
            Ok(()) => remember(site, group, desired, &found),
            Err(unusable) => {
                decision.trouble = trouble_of(&unusable);
                decision.wake = decision.wake.min(look_again(&unusable));
            }
        }
    }
    works::start_what_may(site.live);
    let Decision { plan, observed, wake, trouble, .. } = decision;
    Turn { plan, observed: Some(observed), trouble, wake }
}

/// Whether what machines are cloned from has been looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Search {
    ToCome,
    Over,
}

struct Decision {
    plan: Plan,
    observed: Observed,
    /// Machines are to be cloned, and what from is not known.
    lacks_source: bool,
    wake: Duration,
    trouble: Trouble,
}

/// Plans from what is true now, and puts the plan's actions in place of the last one's.
///
/// Not so while what to clone from is still to be looked for: what is begun meanwhile would be missing from the plan that
/// follows, and nobody would be told of it.
fn decide(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found, search: Search) -> Decision {
    let live = site.live;
    let now = Timestamp::now();
    let mut works = live.works();
    let mut mirror = live.mirror();
    works.learn(&mut mirror, now);
    mirror
        .awaited
        .insert(names::folder(&desired.namespace, &desired.name), (desired.namespace.clone(), desired.name.clone()));
    let template = found.template.as_ref().map(ManagedObject::reference);
    let unknown_clones = mirror.running.iter().any(|(task, entity)| Some(entity) == template && !works.is_known(task));
    let view = View {
        desired,
        readiness: group.spec.readiness,
        mirror: &mirror,
        base: &found.base.folder,
        cluster: &site.context.cluster,
        unknown_clones,
        marked: site.context.infos.marked(&desired.uid),
    };
    let memory = &mut works.group(&desired.uid).memory;
    memory.turn_to(group.metadata.generation.unwrap_or(0));
    let observed = memory.observe(&view, now);
    let conflict = view.conflict().filter(|_| desired.deletion.is_none());
    let mut plan = plan(desired, &observed, now);
    if conflict.is_some() {
        plan.actions.clear();
        plan.settled = false;
    }
    if plan.settled {
        memory.forgive();
    }
    let is_clone = |action: &Action| matches!(action, Action::Clone(_));
    let lacks_source = found.source.is_none() && plan.actions.iter().any(is_clone);
    let mut orders = plan.actions.clone();
    orders.retain(|action| found.source.is_some() || !is_clone(action));
    let wake = [plan.wake, memory.wake(now)].into_iter().flatten().min();
    let problems = memory.problems();
    let trouble = match conflict {
        Some(conflict) => Trouble::Conflict(conflict),
        None if problems.is_empty() => Trouble::None,
        None => Trouble::TasksFail(problems),
    };
    let scene = Scene {
        client: live.client.clone(),
        desired: desired.clone(),
        cluster: site.context.cluster.clone(),
        base: found.base.clone(),
        folder: act::folder(view.group_folder()),
        source: found.source.clone(),
        extra_config: group.spec.extra_config.clone(),
    };
    if !lacks_source || search == Search::Over {
        works.order(scene, &orders);
    }
    Decision { plan, observed, lacks_source, wake: until(wake, now), trouble }
}

/// How long to sleep. A little longer than asked for, so that the time has come when it is looked at.
fn until(wake: Option<Timestamp>, now: Timestamp) -> Duration {
    let wait = wake.and_then(|time| Duration::try_from(time.duration_since(now)).ok());
    wait.map_or(RESYNC, |wait| (wait + Duration::from_millis(50)).min(RESYNC))
}

/// When to look again for what could not be found. Nothing tells of most of it.
fn look_again(unusable: &Unusable) -> Duration {
    match unusable {
        Unusable::Lookup(_, LookupError::Call(error)) if error.is_passing() => Duration::from_secs(1),
        _ => LOOK_AGAIN,
    }
}

fn trouble_of(unusable: &Unusable) -> Trouble {
    match unusable {
        Unusable::Lookup(_, LookupError::Call(error)) if error.fault().is_none() => {
            Trouble::VCenterAway(unusable.to_string())
        }
        Unusable::Lookup(_, LookupError::Call(_)) => Trouble::TasksFail(vec![unusable.to_string()]),
        _ => Trouble::NotFound(unusable.to_string()),
    }
}

/// What the spec names, found once for each generation of it.
async fn dereference(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Result<Found, Unusable> {
    let generation = group.metadata.generation.unwrap_or(0);
    if let Some((known, placement, found)) = &site.live.works().group(&desired.uid).found
        && *known == generation
        && *placement == site.spec.placement
    {
        return Ok(found.clone());
    }
    let _turn = site.live.lookups.acquire().await;
    let base = source::base(&site.live.inventory, &site.spec.placement).await?;
    base.concern(site.live, &site.spec.placement);
    let template = source::find_template(site.live, &base, &site.spec.template).await.ok();
    let found = Found { base, template, source: None };
    remember(site, group, desired, &found);
    Ok(found)
}

fn remember(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found) {
    let found = (group.metadata.generation.unwrap_or(0), site.spec.placement.clone(), found.clone());
    site.live.works().group(&desired.uid).found = Some(found);
}

async fn find_source(site: &Site<'_>, group: &VmGroup, found: &Found) -> Result<Source, Unusable> {
    let secrets: Api<Secret> = Api::namespaced(site.context.kube.clone(), &group.namespace().unwrap_or_default());
    let _turn = site.live.lookups.acquire().await;
    let source = source::source(site.live, Some(&secrets), &found.base, found.template.clone(), &site.spec).await?;
    source.concern(site.live, &site.spec);
    Ok(source)
}

/// Notes where rights are needed in a vCenter before any group says so.
pub(crate) async fn concern_defaults(live: &Live, defaults: &Placement) {
    let is_wanted = live.rights().wants_defaults();
    if is_wanted && let Ok(base) = source::base(&live.inventory, defaults).await {
        base.concern(live, defaults);
    }
}

/// A plan for when vCenter can't be looked at.
fn nothing() -> Plan {
    Plan { actions: Vec::new(), counts: Counts::default(), settled: false, wake: None }
}

async fn set_finalizers(
    groups: &Api<VmGroup>,
    group: &VmGroup,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<(), Error> {
    let mut finalizers = group.finalizers().to_vec();
    change(&mut finalizers);
    // With the version it was read at, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": group.resource_version()}});
    match groups.patch(&group.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // It has changed or gone: the watch brings what it is now.
        Err(kube::Error::Api(status)) if status.code == 409 || status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// What is done when a reconcile fails: the API server is asked again in a while.
pub(crate) fn on_error(_: Arc<VmGroup>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(%error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
