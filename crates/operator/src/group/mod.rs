//! The controller of groups. A reconcile is five verbs: dereference, validate, plan, act, report.

mod act;
mod diary;
mod memory;
mod networks;
mod preview;
mod record;
mod report;
mod source;
mod survey;
mod view;
mod works;

use std::{sync::Arc, time::Duration};

use drover_api::{
    VmGroup, VmGroupSpec, VmGroupStatus,
    vmgroup::{self, Placement, RELEASE_ANNOTATION},
};
use drover_core::{
    Action, Counts, Plan, Trouble,
    brake::{Incident, Toll, is_of_outdated},
    group::{DeletionPolicy, Desired, Folder, MachineId, Observed, Timestamp},
    home::NoVCenter,
    names, plan,
    plan::{to_be_replaced, trouble_with_unseen},
};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::controller::Action as Requeue,
};
use serde_json::json;
use tracing::{info, warn};
use vim25::LookupError;

use crate::{
    events,
    fleet::{Fleet, Housing, Seat},
    info::Infos,
    vcenter::{Live, Trigger},
};
use act::Scene;
use diary::Diaries;
use memory::MadeOf;
pub(crate) use preview::preview;
pub(crate) use source::Unusable;
use source::{CloudInit, Found};
pub(crate) use survey::{Finding, survey};
use view::View;
pub(crate) use works::{Works, start_what_may};

const FINALIZER: &str = "vm.codeconnect.vmworld.com/finalizer";
/// On a group that is being deleted: whatever is left of it in vCenter stays there.
const ABANDON: &str = "vm.codeconnect.vmworld.com/abandon";
/// What a group names is looked for again after this long, if it wasn't there.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// After a write that met another, the watch brings what is there now, mostly before this.
const CONFLICT: Duration = Duration::from_millis(500);
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
    #[error(
        "the kind VmGroup is older than this operator, and drops its record: drover crds | kubectl apply --server-side -f -"
    )]
    OldKind,
}

/// Brings one group closer to what it declares.
pub(crate) async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let groups: Api<VmGroup> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let is_ours = group.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    if group.metadata.deletion_timestamp.is_some() && !is_ours {
        return Ok(Requeue::await_change());
    }
    if !is_ours {
        let is_set = set_finalizers(&groups, &group, |finalizers| finalizers.push(FINALIZER.to_owned())).await?;
        return Ok(if is_set { Requeue::await_change() } else { Requeue::requeue(CONFLICT) });
    }
    if group.metadata.deletion_timestamp.is_some() && is_abandoned(&group) && Desired::of(&group).is_err() {
        report::abandoned(&context.kube, &group);
        let is_set = set_finalizers(&groups, &group, |all| all.retain(|finalizer| finalizer != FINALIZER)).await?;
        return Ok(if is_set { Requeue::await_change() } else { Requeue::requeue(CONFLICT) });
    }
    let desired = match Desired::of(&group) {
        Ok(desired) => desired,
        Err(invalid) => {
            context.fleet.withdraw(group.metadata.uid.as_deref().unwrap_or_default());
            report::write(&groups, &group, report::invalid(&group, &invalid)).await?;
            return Ok(Requeue::await_change());
        }
    };
    let housing = context.fleet.house(&group, &context.cluster);
    let abandoned = desired.deletion.is_some() && is_abandoned(&group);
    let mut turn = match &housing {
        _ if abandoned => over(),
        Ok(Housing::Here(seat)) => advance(&Site::new(&context, seat, &group), &group, &desired).await?,
        Ok(Housing::Settle(name)) => {
            report::settle(&groups, &group, Some(name)).await?;
            return Ok(Requeue::await_change());
        }
        Ok(Housing::Leave(seat)) => {
            let leaving = Desired { deletion: Some(DeletionPolicy::Delete), ..desired.clone() };
            let turn = advance(&Site::new(&context, seat, &group), &group, &leaving).await?;
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
    if turn.observed.is_none() {
        // Nothing was planned, so nothing that was planned before is to be done.
        context.fleet.withdraw(&desired.uid);
    }
    if let (Ok(Housing::Here(seat)), None, false) = (&housing, &turn.observed, turn.is_blind) {
        seat.live.works().forget_missing(&desired.uid);
    }
    if turn.is_blind {
        return Ok(Requeue::requeue(turn.wake));
    }
    if abandoned {
        report::abandoned(&context.kube, &group);
    }
    if desired.deletion.is_some() && turn.is_over() {
        let is_set =
            set_finalizers(&groups, &group, |finalizers| finalizers.retain(|finalizer| finalizer != FINALIZER)).await?;
        if !is_set {
            return Ok(Requeue::requeue(CONFLICT));
        }
        info!(group = %group.name_any(), "the group's end is reached");
        if turn.observed.as_ref().is_some_and(|observed| observed.folder == Folder::OccupiedUnseen) {
            report::folder_kept(&context.kube, &group);
        }
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
    if let Ok(Housing::Here(seat) | Housing::Leave(seat)) = &housing {
        keep_record(&groups, &group, &seat.live, &desired.uid).await?;
    }
    Ok(Requeue::requeue(turn.wake))
}

/// Writes down what has become of the machines. It is in no hurry: what is about to be begun has been written before.
async fn keep_record(groups: &Api<VmGroup>, group: &VmGroup, live: &Live, uid: &str) -> Result<(), Error> {
    let (before, record) = {
        let mut works = live.works();
        let recorded = &works.group(uid).memory.record;
        let Some(record) = recorded.to_write() else { return Ok(()) };
        (recorded.written().cloned(), record)
    };
    let outcome = record::write(groups, group, before.as_ref(), &record).await?;
    let mut works = live.works();
    let recorded = &mut works.group(uid).memory.record;
    match outcome {
        record::Outcome::Written(version) => recorded.note_written(record, version),
        // The watch brings it.
        record::Outcome::Overtaken => {}
    }
    Ok(())
}

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.annotations().get(ABANDON).is_some_and(|value| value == "true")
}

/// Whether no vCenter has ever been written down as the group's.
fn was_nowhere(group: &VmGroup) -> bool {
    let is_empty = |status: &VmGroupStatus| status.vcenter.is_none() && status.current_replicas.unwrap_or(0) == 0;
    !is_on_record(group) && group.status.as_ref().is_none_or(is_empty)
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
    /// What keeps everything from being made or destroyed, if something does.
    incident: Option<String>,
    /// Whether nothing can be said of the group at this moment.
    is_blind: bool,
    /// What tells the vCenter from others that the group was seen in.
    instance: Option<String>,
}

impl Turn {
    /// Whether a group that goes has gone.
    fn is_over(&self) -> bool {
        self.plan.settled && self.trouble == Trouble::None
    }
}

/// Nothing can be done, or even seen, now.
fn stuck(trouble: Trouble, wake: Duration) -> Turn {
    Turn { plan: nothing(), observed: None, trouble, wake, incident: None, is_blind: false, instance: None }
}

/// vCenter is being read anew, which takes a moment: there is nothing to do or to say until it has been.
fn blind() -> Turn {
    Turn { is_blind: true, ..stuck(Trouble::None, Duration::from_secs(1)) }
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

    /// Whether the group has machines here, as far as anybody knows: by its record, or by what vCenter shows.
    fn has_members(&self, group: &VmGroup) -> bool {
        // One that an earlier version made has no record yet.
        let status = group.status.as_ref();
        let was_said = status.is_some_and(|status| status.record.is_none() && status.current_replicas.unwrap_or(0) > 0);
        is_on_record(group)
            || was_said
            || self.live.mirror().has_members(group.metadata.uid.as_deref().unwrap_or_default(), &self.context.cluster)
    }
}

/// Whether a group's record has machines, or some that may be on their way.
pub(crate) fn is_on_record(group: &VmGroup) -> bool {
    let record = group.status.as_ref().and_then(|status| status.record.as_ref());
    record.is_some_and(|record| !(record.made.is_empty() && record.pending.is_empty() && record.going.is_empty()))
}

/// Plans, and orders what the plan says, once all that it needs is known and all that it begins is written down.
async fn advance(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Result<Turn, Error> {
    if let Some(away) = site.live.away() {
        return Ok(stuck(Trouble::VCenterAway(away.sentence()), RESYNC));
    }
    if !site.live.is_in_sight() {
        return Ok(blind());
    }
    let instance = site.live.about().and_then(|about| about.instance_uuid);
    let was = group.status.as_ref().and_then(|status| status.vcenter_instance.clone());
    if let (Some(was), Some(is)) = (&was, &instance)
        && was != is
    {
        let why =
            format!("{} is another vCenter ({is}) than the group's VMs are in ({was})", site.live.client.endpoint());
        return Ok(stuck(Trouble::VCenterAway(why), RESYNC));
    }
    let mut found = match dereference(site, group, desired).await {
        Ok(found) => found,
        // Without its place and without machines, a group that is being deleted has nothing left to wait for.
        Err(Unusable::Lookup(_, LookupError::NotFound { .. }))
            if desired.deletion.is_some() && !site.has_members(group) =>
        {
            return Ok(over());
        }
        // What stays as it is need not be found.
        Err(Unusable::Lookup(_, LookupError::NotFound { .. })) if desired.deletion == Some(DeletionPolicy::Retain) => {
            return Ok(over());
        }
        Err(unusable) => return Ok(stuck(trouble_of(&unusable), look_again(&unusable))),
    };
    let groups: Api<VmGroup> = Api::namespaced(site.context.kube.clone(), &desired.namespace);
    let mut sought = None;
    loop {
        match decide(site, group, desired, &found, sought.is_some()) {
            Next::Find => {
                sought = Some(find_source(site, group, &mut found).await);
                remember(site, group, desired, &found);
            }
            Next::Write { before, record } => {
                let outcome = record::write(&groups, group, before.as_ref(), &record).await?;
                let mut works = site.live.works();
                let recorded = &mut works.group(&desired.uid).memory.record;
                match outcome {
                    record::Outcome::Written(version) => recorded.note_written(record, version),
                    // Another has written it: the next turn begins with what is there by then.
                    record::Outcome::Overtaken => return Ok(blind()),
                }
            }
            Next::Stuck(trouble) => return Ok(stuck(trouble, RESYNC)),
            Next::Ordered(mut turn) => {
                turn.instance = instance;
                if let Some(Err(unusable)) = sought {
                    turn.trouble = trouble_of(&unusable);
                    turn.wake = turn.wake.min(look_again(&unusable));
                }
                works::start_what_may(site.live);
                return Ok(turn);
            }
        }
    }
}

/// What a decision leads to.
enum Next {
    /// Machines are to be cloned, and what from is not known yet.
    Find,
    /// What is to be begun has to be written down first, in the place of what was.
    Write { before: Option<vmgroup::Record>, record: vmgroup::Record },
    /// Nothing can be decided.
    Stuck(Trouble),
    /// What is to be done is queued.
    Ordered(Turn),
}

/// Plans from what is true now, and puts the plan's actions in place of the last one's.
///
/// Not so while what to clone from is still to be looked for: what is begun meanwhile would be missing from the plan that
/// follows, and nobody would be told of it.
fn decide(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found, is_sought: bool) -> Next {
    let live = site.live;
    let now = Timestamp::now();
    let generation = group.metadata.generation.unwrap_or(0);
    let status = group.status.clone().unwrap_or_default();
    let mut works = live.works();
    let mut mirror = live.mirror();
    works.learn(&mut mirror, now);
    mirror
        .awaited
        .insert(names::folder(&desired.namespace, &desired.name), (desired.namespace.clone(), desired.name.clone()));
    let has_unknown_clones = mirror.has_unknown_clone(&live.user(), |task| works.is_known(task));
    let view = View {
        desired,
        readiness: group.spec.readiness,
        mirror: &mirror,
        base: &found.base.folder,
        cluster: &site.context.cluster,
        has_unknown_clones,
        marked: site.context.infos.marked(&desired.uid),
    };
    let memory = &mut works.group(&desired.uid).memory;
    memory.turn_to(generation);
    if let Err(bad) = memory.record.take_up(group) {
        works.withdraw(&desired.uid);
        return Next::Stuck(Trouble::Invalid(bad.to_string()));
    }
    let before = status.current_replicas.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
    let mut observed = memory.observe(&view, before, now);
    let incident = stop(&mut works, site, group, desired, &observed, now);
    observed.is_stopped = incident.is_some();
    let memory = &mut works.group(&desired.uid).memory;
    let conflict = view.conflict().filter(|_| desired.deletion.is_none());
    let mut plan = plan(desired, &observed, now);
    if conflict.is_some() {
        plan.actions.clear();
        plan.settled = false;
    }
    memory.give_up(&plan, has_unknown_clones);
    if plan.settled {
        memory.forgive();
        memory.settled = Some(MadeOf::of(desired));
    }
    let is_clone = |action: &Action| matches!(action, Action::Clone(_));
    let clones = plan.actions.iter().any(is_clone);
    let is_known = found.source.is_some() && found.cloud_init.is_some();
    if clones && !is_known && !is_sought {
        return Next::Find;
    }
    let hosts = found.source.as_ref().filter(|_| clones);
    let hosts = hosts.map(|source| source.hosts.now(&mirror, &desired.uid, now)).transpose();
    let no_host = hosts.as_ref().err().cloned();
    let mut orders = plan.actions.clone();
    orders.retain(|action| is_known && no_host.is_none() || !is_clone(action));
    if !memory.record.announce(&orders, &observed.members)
        && let Some(record) = memory.record.to_write()
    {
        return Next::Write { before: memory.record.written().cloned(), record };
    }
    let look_again = no_host.is_some().then(|| now + LOOK_AGAIN);
    let wake = [plan.wake, memory.wake(now), look_again].into_iter().flatten().min();
    let problems = memory.problems();
    let trouble = match (incident.as_ref(), conflict, trouble_with_unseen(desired, &observed, now)) {
        (Some(incident), ..) => Trouble::Stopped(incident.sentence()),
        (None, Some(conflict), _) => Trouble::Conflict(conflict),
        (None, None, Trouble::None) if let Some(no_host) = no_host => trouble_of(&no_host.into()),
        (None, None, Trouble::None) if !problems.is_empty() => Trouble::TasksFail(problems),
        (None, None, unseen) => unseen,
    };
    let slots = orders.iter().filter_map(|action| if let Action::Clone(slot) = action { Some(*slot) } else { None });
    let record = memory.record.now();
    let incarnations = slots.filter_map(|slot| Some((slot, record?.get(slot)?.incarnation))).collect();
    let instance = |id: &MachineId| Some((id.clone(), mirror.machines.get(&view::reference(id))?.instance.clone()?));
    let scene = Scene {
        live: Arc::clone(live),
        desired: desired.clone(),
        cluster: site.context.cluster.clone(),
        base: found.base.clone(),
        folder: act::folder(view.group_folder()),
        source: found.source.clone(),
        hosts: hosts.ok().flatten().unwrap_or_default(),
        cloud_init: found.cloud_init.clone().unwrap_or_default(),
        extra_config: group.spec.extra_config.clone(),
        incarnations,
        instances: observed.unmarked.values().filter_map(instance).collect(),
    };
    works.order(scene, &orders, now);
    let incident = incident.map(|incident| incident.id);
    Next::Ordered(Turn {
        plan,
        observed: Some(observed),
        trouble,
        wake: until(wake, now),
        incident,
        is_blind: false,
        instance: None,
    })
}

/// Says whether everything that makes or destroys has to stop: for this group, or for all of its vCenter.
fn stop(
    works: &mut Works,
    site: &Site<'_>,
    group: &VmGroup,
    desired: &Desired,
    observed: &Observed,
    now: Timestamp,
) -> Option<Incident> {
    let remembered = group.status.as_ref().and_then(|status| status.incident.as_deref());
    let by_group: Vec<_> = group
        .annotations()
        .get(RELEASE_ANNOTATION)
        .map(|names| names.split(',').map(str::trim).collect())
        .unwrap_or_default();
    let by_vcenter = site.live.released();
    let by_vcenter: Vec<_> = by_vcenter.iter().map(String::as_str).collect();
    let memory = &mut works.group(&desired.uid).memory;
    if memory.settled != Some(MadeOf::of(desired)) {
        memory.settled = None;
    }
    if diary::was_settled(group) || remembered.is_some_and(is_of_outdated) && diary::is_current(group) {
        memory.settled = Some(MadeOf::of(desired));
    }
    // What was up to date and isn't any more, nobody has asked to be replaced.
    let is_explained = desired.deletion.is_some() || memory.settled != Some(MadeOf::of(desired));
    let unexplained = if is_explained { 0 } else { to_be_replaced(desired, observed, now) };
    let (members, missing) = memory.toll(now);
    let released = by_group.iter().chain(&by_vcenter).copied().collect();
    let toll = Toll { name: &desired.uid, members, missing, unexplained, released, remembered };
    let own = memory.judge(&toll, now);
    let before = works.incident().map(|incident| incident.id.clone());
    let of_vcenter = site.live.remembered();
    let whole = works.judge(&site.live.name, by_vcenter, of_vcenter.as_deref().or(remembered), now);
    if whole.as_ref().map(|incident| &incident.id) != before.as_ref() {
        site.live.trigger(Trigger::VCenter(site.live.name.clone()));
    }
    let goes_on = whole.as_ref().is_some_and(|incident| by_group.contains(&incident.id.as_str()));
    works.group(&desired.uid).memory.goes_on = goes_on;
    own.or(whole.filter(|_| !goes_on))
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
        return Ok(Found { cloud_init: CloudInit::inline(&site.spec), ..found.clone() });
    }
    let _turn = site.live.lookups.acquire().await;
    let base = source::base(&site.live.inventory, &site.spec.placement).await?;
    base.concern(site.live, &site.spec.placement);
    let template = source::find_template(site.live, &base, &site.spec.template).await.ok();
    let found = Found { base, template, source: None, cloud_init: CloudInit::inline(&site.spec) };
    remember(site, group, desired, &found);
    Ok(found)
}

fn remember(site: &Site<'_>, group: &VmGroup, desired: &Desired, found: &Found) {
    let found = Found { cloud_init: None, ..found.clone() };
    let found = (group.metadata.generation.unwrap_or(0), site.spec.placement.clone(), found);
    site.live.works().group(&desired.uid).found = Some(found);
}

/// Looks for all that clones need and isn't known.
async fn find_source(site: &Site<'_>, group: &VmGroup, found: &mut Found) -> Result<(), Unusable> {
    if found.source.is_none() {
        let _turn = site.live.lookups.acquire().await;
        let source = source::source(site.live, &found.base, found.template.clone(), &site.spec).await?;
        source.concern(site.live, &site.spec);
        found.source = Some(source);
    }
    let secrets: Api<Secret> = Api::namespaced(site.context.kube.clone(), &group.namespace().unwrap_or_default());
    found.cloud_init = Some(source::cloud_init(Some(&secrets), &site.spec).await?);
    Ok(())
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
    Plan { actions: Vec::new(), counts: Counts::default(), settled: false, wake: None, given_up: Vec::new() }
}

/// Changes a group's finalizers, and says whether that was done: not if the group has changed meanwhile.
async fn set_finalizers(
    groups: &Api<VmGroup>,
    group: &VmGroup,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<bool, Error> {
    let mut finalizers = group.finalizers().to_vec();
    change(&mut finalizers);
    // With the version it was read at, so that nobody else's finalizer is lost.
    let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": group.resource_version()}});
    match groups.patch(&group.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(true),
        // One that is gone has none.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What is done when a reconcile fails: the API server is asked again in a while.
pub(crate) fn on_error(_: Arc<VmGroup>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(%error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
