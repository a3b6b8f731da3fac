//! The controller of groups. A reconcile is five verbs: dereference, validate, plan, act, report.

mod act;
mod memory;
mod report;
mod source;

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use drover_api::VmGroup;
use drover_core::{
    Action, Counts, Plan, Trouble,
    group::{Desired, Observed, Timestamp},
    plan, verdict,
};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::controller::Action as Requeue,
};
use serde_json::json;
use tokio::sync::Mutex as AsyncMutex;
use tracing::{info, warn};
use vim25::refs::VirtualMachineRef;

use crate::vcenter::Live;
use act::{Scene, Submitted};
use memory::{Memory, Place};
use source::{Base, Source, Unusable};

const FINALIZER: &str = "vm.codeconnect.vmworld.com/finalizer";
const MANAGER: &str = "drover";
/// How many submissions of one group are under way at once.
const SUBMISSIONS: usize = 16;
/// What a group names is looked for again after this long, if it wasn't there.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// A group is planned again after this long, whatever was told. It costs vCenter nothing.
const RESYNC: Duration = Duration::from_mins(5);

/// What every reconcile needs.
pub struct Context {
    pub kube: Client,
    pub live: Arc<Live>,
    /// The id of this Kubernetes cluster: its `kube-system` namespace's UID.
    pub cluster: String,
    groups: Mutex<HashMap<String, Arc<AsyncMutex<Group>>>>,
    chance: RandomState,
}

/// What is remembered of a group, all of which may be lost.
#[derive(Default)]
struct Group {
    memory: Memory,
    /// What the spec names, found in vCenter for this generation of it.
    found: Option<(i64, Found)>,
}

#[derive(Clone)]
struct Found {
    base: Base,
    /// The template, if there is one: clones of it may be on their way.
    template: Option<VirtualMachineRef>,
    source: Option<Source>,
}

/// Why a reconcile failed: the API server didn't answer as it should. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
}

impl Context {
    pub fn new(kube: Client, live: Arc<Live>, cluster: String) -> Self {
        Self { kube, live, cluster, groups: Mutex::default(), chance: RandomState::new() }
    }

    fn group(&self, uid: &str) -> Arc<AsyncMutex<Group>> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(groups.entry(uid.to_owned()).or_default())
    }

    fn forget(&self, uid: &str) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// Brings one group closer to what it declares.
pub async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let groups: Api<VmGroup> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let is_ours = group.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    if group.metadata.deletion_timestamp.is_some() && !is_ours {
        context.forget(&group.uid().unwrap_or_default());
        return Ok(Requeue::await_change());
    }
    if !is_ours {
        set_finalizers(&groups, &group, |finalizers| finalizers.push(FINALIZER.to_owned())).await?;
        return Ok(Requeue::await_change());
    }
    let desired = match Desired::of(&group) {
        Ok(desired) => desired,
        Err(invalid) => {
            report::invalid(&groups, &group, &invalid).await?;
            return Ok(Requeue::await_change());
        }
    };
    let state = context.group(&desired.uid);
    let mut state = state.lock().await;
    let (plan, trouble) = advance(&context, &group, &desired, &mut state).await;
    if desired.deletion.is_some() && plan.settled && trouble == Trouble::None {
        info!(group = %group.name_any(), "the group's end is reached");
        set_finalizers(&groups, &group, |finalizers| finalizers.retain(|finalizer| finalizer != FINALIZER)).await?;
        context.forget(&desired.uid);
        return Ok(Requeue::await_change());
    }
    report::status(&groups, &group, &desired, &plan, &verdict(&desired, &plan, &trouble)).await?;
    Ok(next(&plan, &trouble))
}

/// Plans, and submits what the plan says.
async fn advance(context: &Context, group: &VmGroup, desired: &Desired, state: &mut Group) -> (Plan, Trouble) {
    if let Some(why) = context.live.away() {
        return (nothing(), Trouble::VCenterAway(why));
    }
    let generation = group.metadata.generation.unwrap_or(0);
    state.memory.turn_to(generation);
    let found = match dereference(context, group, generation, state).await {
        Ok(found) => found,
        // Without its place and without machines, a group that is being deleted has nothing left to wait for.
        Err(_) if desired.deletion.is_some() && !has_machines(context, desired) => {
            return (Plan { settled: true, ..nothing() }, Trouble::None);
        }
        Err(unusable) => return (nothing(), Trouble::NotFound(unusable.to_string())),
    };
    let now = Timestamp::now();
    let (observed, folder) = observe(context, group, desired, state, &found, now);
    let plan = plan(desired, &observed, now);
    let mut trouble = Trouble::None;
    let mut source = found.source.clone();
    if source.is_none() && plan.actions.iter().any(|action| matches!(action, Action::Clone(_))) {
        match find_source(context, group, &found.base).await {
            Ok(here) => source = Some(here),
            Err(unusable) => trouble = Trouble::NotFound(unusable.to_string()),
        }
        state.found = Some((generation, Found { source: source.clone(), ..found.clone() }));
    }
    let scene = Scene {
        client: &context.live.client,
        desired,
        cluster: &context.cluster,
        base: &found.base,
        folder: act::folder(folder),
        source: source.as_ref(),
        extra_config: &group.spec.extra_config,
    };
    if plan.settled {
        state.memory.forgive();
    }
    submit(context, desired, state, &scene, &plan.actions).await;
    let problems = state.memory.problems();
    if trouble == Trouble::None && !problems.is_empty() {
        trouble = Trouble::TasksFail(problems);
    }
    (plan, trouble)
}

fn has_machines(context: &Context, desired: &Desired) -> bool {
    let mirror = context.live.mirror();
    let mut markers = mirror.machines.values().filter_map(|machine| machine.marker.as_ref());
    markers.any(|marker| marker.group == desired.uid && marker.cluster == context.cluster)
}

async fn dereference(
    context: &Context,
    group: &VmGroup,
    generation: i64,
    state: &mut Group,
) -> Result<Found, Unusable> {
    if let Some((known, found)) = &state.found
        && *known == generation
    {
        return Ok(found.clone());
    }
    if let Some(name) = group.spec.vcenter.as_ref().filter(|name| *name != "default") {
        let why = format!("there is no VCenter {name:?}: the environment gives one called default");
        return Err(Unusable::Field("vcenter", why));
    }
    let base = source::base(&context.live.inventory, &group.spec).await?;
    let template = source::template(&context.live.inventory, &base, &group.spec.template).await.ok();
    let found = Found { base, template, source: None };
    state.found = Some((generation, found.clone()));
    Ok(found)
}

async fn find_source(context: &Context, group: &VmGroup, base: &Base) -> Result<Source, Unusable> {
    let secrets: Api<Secret> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    source::source(&context.live.client, &context.live.inventory, &secrets, base, &group.spec).await
}

fn observe(
    context: &Context,
    group: &VmGroup,
    desired: &Desired,
    state: &mut Group,
    found: &Found,
    now: Timestamp,
) -> (Observed, Option<vim25::ManagedObjectReference>) {
    let place = Place { base: found.base.folder.clone(), template: found.template.clone().map(Into::into) };
    let mut mirror = context.live.mirror();
    state.memory.learn(&mut mirror, now, context.chance.hash_one(now));
    let observed = state.memory.observe(desired, group.spec.readiness, &mirror, &place, &context.cluster);
    (observed, place.group_folder(desired, &mirror))
}

/// Submits actions side by side: vCenter takes many, and each takes a round trip.
async fn submit(context: &Context, desired: &Desired, state: &mut Group, scene: &Scene<'_>, actions: &[Action]) {
    let submissions = stream::iter(actions.to_vec()).map(|action| async move {
        let outcome = scene.submit(&action).await;
        (action, outcome)
    });
    let mut outcomes = submissions.buffer_unordered(SUBMISSIONS);
    let owner = (desired.namespace.clone(), desired.name.clone());
    while let Some((action, outcome)) = outcomes.next().await {
        let now = Timestamp::now();
        let work = act::work(&action);
        match outcome {
            Ok(Submitted::Task(task)) => {
                info!(group = %desired.name, ?action, task = task.value(), "submitted");
                state.memory.begin(task.clone(), work);
                context.live.submitted(&task, &owner);
            }
            Ok(Submitted::Done) => {}
            Ok(Submitted::Occupied(folder, children)) => context.live.found_in(&folder, children, &owner),
            Err(error) => {
                warn!(group = %desired.name, ?action, %error, "refused");
                state.memory.failed(&work, &error, now, context.chance.hash_one(now));
            }
        }
        if let Action::ShutdownGuest(id) = &action {
            // One that refuses to be asked is powered off when its time is over, like one that never gets there.
            state.memory.asked_to_shut_down(id.clone(), now);
        }
    }
}

/// A plan for when vCenter can't be looked at.
fn nothing() -> Plan {
    Plan { actions: Vec::new(), counts: Counts::default(), settled: false, wake: None }
}

fn next(plan: &Plan, trouble: &Trouble) -> Requeue {
    let wake = plan.wake.map(|time| time.duration_since(Timestamp::now()));
    let wake = wake.and_then(|wait| Duration::try_from(wait).ok()).map(|wait| wait + Duration::from_millis(50));
    Requeue::requeue(match trouble {
        Trouble::NotFound(_) => LOOK_AGAIN,
        // A new folder is told of by its name, which may be too long to say whose it is.
        _ if plan.actions.contains(&Action::CreateFolder) => Duration::from_secs(1),
        _ => wake.unwrap_or(RESYNC).min(RESYNC),
    })
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
pub fn on_error(_: Arc<VmGroup>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(%error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
