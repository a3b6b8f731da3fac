//! The controller of groups. A reconcile is five verbs: dereference, validate, plan, act, report.

mod act;
mod decide;
mod dereference;
mod diary;
mod finalizer;
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

use drover_api::{VmGroup, VmGroupSpec, VmGroupStatus};
use drover_core::{
    Counts, Plan, Trouble,
    group::{DeletionPolicy, Desired, Folder, Observed, Timestamp},
    home::NoVCenter,
};
use kube::{Api, Client, ResourceExt, runtime::controller::Action as Requeue};
use tracing::{info, warn};
use vim25::LookupError;

use crate::{
    events,
    fleet::{Fleet, Housing, Seat},
    guard::Unreadable,
    info::Infos,
    loops::Loops,
    shelf::backoff,
    vcenter::Live,
};
use decide::{Next, decide};
pub(crate) use dereference::concern_defaults;
use dereference::{LOOK_AGAIN, dereference, find_source, look_again, remember, trouble_of};
use diary::Diaries;
pub(crate) use preview::preview;
use record::Outcome;
pub(crate) use record::is_kept_of;
pub(crate) use source::Unusable;
pub(crate) use survey::{Finding, survey};
pub(crate) use works::{PATIENCE, Works, serve_queue};

/// On a group that is being deleted and can't go on by itself: whatever is left of it in vCenter stays there.
const ABANDON: &str = "vm.codeconnect.vmworld.com/abandon";
/// After a write that met another, the watch brings what is there now, mostly before this.
const CONFLICT: Duration = Duration::from_millis(500);
/// What stands in the way for no longer than this may pass by itself, and is no reason to give anything up.
const PASSING: Duration = Duration::from_secs(10);
/// A group is planned again after this long, whatever was told. It costs vCenter nothing.
const RESYNC: Duration = Duration::from_mins(5);

/// What every reconcile needs.
pub(crate) struct Context {
    pub kube: Client,
    pub fleet: Fleet,
    /// The id of this Kubernetes cluster: its `kube-system` namespace's UID.
    pub cluster: String,
    pub infos: Infos,
    pub loops: Loops,
    diaries: Diaries,
}

impl Context {
    pub(crate) fn new(kube: Client, fleet: Fleet, cluster: String, infos: Infos, loops: Loops) -> Self {
        Self { kube, fleet, cluster, infos, loops, diaries: Diaries::default() }
    }

    /// Forgets the groups that are gone, whatever was to be done for them.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        self.diaries.retain(&is_there);
        self.fleet.retain_groups(&is_there);
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
    #[error("it took too long")]
    Late(#[from] tokio::time::error::Elapsed),
}

impl Error {
    /// Whether the API server has refused what was to be written, and would do so again.
    fn is_refusal(&self) -> bool {
        match self {
            Self::OldKind => true,
            Self::Kube(kube::Error::Api(status)) => !matches!(status.code, 401 | 404 | 409 | 429 | 503 | 504),
            Self::Kube(_) | Self::Late(_) => false,
        }
    }
}

fn unwritten(error: &Error) -> String {
    format!("nothing is cloned, moved or destroyed, because the group's record can't be written first: {error}")
}

/// Brings one group closer to what it declares.
pub(crate) async fn reconcile(group: Arc<VmGroup>, context: Arc<Context>) -> Result<Requeue, Error> {
    let groups: Api<VmGroup> = Api::namespaced(context.kube.clone(), &group.namespace().unwrap_or_default());
    let is_deleted = group.metadata.deletion_timestamp.is_some();
    if !finalizer::is_on(&group) {
        let is_done = is_deleted || finalizer::put_on(&groups, &group.metadata).await?;
        return Ok(if is_done { Requeue::await_change() } else { Requeue::requeue(CONFLICT) });
    }
    let desired = match Desired::of(&group) {
        Ok(desired) => desired,
        Err(invalid) => {
            context.fleet.withdraw(&group.uid().unwrap_or_default());
            report::write(&groups, &group, report::invalid(&group, &invalid)).await?;
            return Ok(Requeue::await_change());
        }
    };
    let housing = context.fleet.house(&group, &context.cluster);
    let mut turn = match &housing {
        Ok(Housing::Here(seat)) => advance(&Site::new(&context, seat, &group), &group, &desired).await?,
        Ok(Housing::Settle(name)) => {
            report::settle(&groups, &group, Some(name)).await?;
            return Ok(Requeue::await_change());
        }
        Ok(Housing::Leave(seat)) => {
            let leaving = Desired { deletion: Some(DeletionPolicy::Delete), ..desired.clone() };
            let turn = advance(&Site::new(&context, seat, &group), &group, &leaving).await?;
            if turn.is_over() {
                seat.live.retain_groups(|uid| uid != desired.uid);
                report::settle(&groups, &group, None).await?;
                return Ok(Requeue::await_change());
            }
            turn
        }
        // It was never at home anywhere, so nothing is left of it.
        Err(_) if desired.deletion.is_some() && was_nowhere(&group) => over(),
        Err(NoVCenter::NamespaceNotRead(_)) if context.fleet.is_new() || is_new(&group) => blind(),
        Err(none) => stuck(homeless(none), RESYNC),
    };
    if turn.observed.is_none() {
        // Nothing was planned, so nothing that was planned before is to be done.
        context.fleet.withdraw(&desired.uid);
    }
    if let (Ok(Housing::Here(seat)), None, false) = (&housing, &turn.observed, turn.is_blind) {
        // What of it was missing is so for its vCenter too, until it is shown.
        seat.live.judge();
    }
    if turn.is_blind {
        return Ok(Requeue::requeue(turn.wake));
    }
    if desired.deletion.is_some() && turn.is_over() {
        if turn.observed.as_ref().is_some_and(|observed| observed.folder == Folder::OccupiedUnseen) {
            report::folder_kept(&context.kube, &group);
        }
        return let_go(&context, &groups, &group).await;
    }
    let is_abandoned = is_deleted && is_abandoned(&group);
    if is_deleted && !is_abandoned {
        turn.trouble = with_way_out(turn.trouble);
    }
    let page = context.diaries.page(&desired, &group, &mut turn);
    events::tell(&context.kube, &*group, &page.news);
    if is_abandoned && turn.trouble == Trouble::None {
        if context.diaries.is_first_refusal(&desired.uid) {
            report::not_abandoned(&context.kube, &group);
        }
    } else if is_abandoned && diary::has_been_stalled(&group, PASSING) {
        // It can't go on by itself, and has said why for a while.
        report::abandoned(&context.kube, &group, &page.verdict.message);
        return let_go(&context, &groups, &group).await;
    } else if is_abandoned {
        turn.wake = turn.wake.min(PASSING);
    }
    let status = report::status(&group, &desired, &turn, &page.verdict);
    if let Some(wait) = context.diaries.wait_to_write(&group, &status) {
        return Ok(Requeue::requeue(wait.min(turn.wake)));
    }
    report::write(&groups, &group, status).await?;
    if let Ok(Housing::Here(seat) | Housing::Leave(seat)) = &housing {
        match record::keep(&groups, &group, &seat.live, &desired.uid).await {
            // That is said, and nothing is begun meanwhile.
            Err(error) if error.is_refusal() && turn.observed.is_none() => {}
            kept => drop(kept?),
        }
    }
    Ok(Requeue::requeue(turn.wake))
}

/// Lets a group go that is being deleted: nothing is left to be done for it, or nothing is to be done any more.
async fn let_go(context: &Context, groups: &Api<VmGroup>, group: &VmGroup) -> Result<Requeue, Error> {
    if !finalizer::take_off(groups, &group.metadata).await? {
        return Ok(Requeue::requeue(CONFLICT));
    }
    info!(namespace = group.namespace(), group = %group.name_any(), "the group's end is reached");
    let gone = group.uid().unwrap_or_default();
    context.retain_groups(|uid| uid != gone);
    Ok(Requeue::await_change())
}

/// A group can't be read, so nobody knows what it wants: nothing is begun for it. If it is being deleted, it can be given up.
pub(crate) fn cant_be_read(context: &Arc<Context>, group: &Unreadable) {
    context.fleet.withdraw(group.metadata.uid.as_deref().unwrap_or_default());
    let is_given_up =
        group.metadata.annotations.as_ref().and_then(|all| all.get(ABANDON)).is_some_and(|it| it == "true");
    if is_given_up && group.metadata.deletion_timestamp.is_some() {
        let (context, metadata) = (Arc::clone(context), group.metadata.clone());
        tokio::spawn(async move {
            let groups = Api::namespaced(context.kube.clone(), metadata.namespace.as_deref().unwrap_or_default());
            for pause in backoff() {
                match finalizer::take_off(&groups, &metadata).await {
                    // It has changed, and is told of anew.
                    Ok(_) => return,
                    Err(error) => warn!(group = metadata.name, %error, "the group can't be let go"),
                }
                tokio::time::sleep(pause).await;
            }
        });
    }
}

/// Whether a group was made a moment ago.
fn is_new(group: &VmGroup) -> bool {
    let made = group.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| Timestamp::now().duration_since(made.0).as_secs() < 5)
}

/// The user gives up what is in vCenter: its machines stay, and nobody looks after them.
fn is_abandoned(group: &VmGroup) -> bool {
    group.annotations().get(ABANDON).is_some_and(|value| value == "true")
}

/// Whether no vCenter has ever been written down as the group's.
fn was_nowhere(group: &VmGroup) -> bool {
    let is_empty = |status: &VmGroupStatus| status.vcenter.is_none() && status.current_replicas.unwrap_or(0) == 0;
    !record::is_kept_of(group) && group.status.as_ref().is_none_or(is_empty)
}

/// What stands in the way of a group that is being deleted, with what its user can do about it.
fn with_way_out(trouble: Trouble) -> Trouble {
    let add = |why: String| {
        if why.contains(ABANDON) {
            return why;
        }
        format!("{why}; to give the group up with all that is left of it in vCenter, annotate it with {ABANDON}=true")
    };
    match trouble {
        Trouble::VCenterAway(why) => Trouble::VCenterAway(add(why)),
        Trouble::NoVCenter(why) => Trouble::NoVCenter(add(why)),
        Trouble::NotFound(why) => Trouble::NotFound(add(why)),
        Trouble::Invalid(why) => Trouble::Invalid(add(why)),
        other => other,
    }
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
        record::is_kept_of(group)
            || was_said
            || self.live.mirror().has_members(group.metadata.uid.as_deref().unwrap_or_default(), &self.context.cluster)
    }
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
        && !was.eq_ignore_ascii_case(is)
    {
        let why = format!(
            "{} is another vCenter ({is}) than the group's VMs are in ({was}): set its address back; to give the group up with all \
             that is left of it there, delete it and annotate it with {ABANDON}=true",
            site.live.client.endpoint()
        );
        return Ok(stuck(Trouble::VCenterAway(why), RESYNC));
    }
    let mut found = match dereference(site, desired).await {
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
        Err(unusable) => return Ok(stuck(trouble_of(&unusable), look_again(site, group, &unusable))),
    };
    let groups: Api<VmGroup> = Api::namespaced(site.context.kube.clone(), &desired.namespace);
    let mut sought = None;
    loop {
        match decide(site, group, desired, &found, sought.is_some()) {
            Next::Find => {
                sought = Some(find_source(site, group, &mut found).await);
                remember(site, desired, &found);
            }
            Next::Write => match record::keep(&groups, group, site.live, &desired.uid).await {
                Ok(Outcome::Kept) => {}
                Ok(Outcome::Overtaken) => return Ok(blind()),
                Err(error) if error.is_refusal() => return Ok(stuck(Trouble::Invalid(unwritten(&error)), LOOK_AGAIN)),
                Err(error) => return Err(error),
            },
            Next::Stuck(trouble) => return Ok(stuck(trouble, RESYNC)),
            Next::Ordered(mut turn) => {
                turn.instance = instance;
                if let Some(Err(unusable)) = sought {
                    turn.trouble = trouble_of(&unusable);
                    turn.wake = turn.wake.min(look_again(site, group, &unusable));
                }
                site.live.turn_queue();
                return Ok(*turn);
            }
        }
    }
}

/// A plan for when vCenter can't be looked at.
fn nothing() -> Plan {
    Plan { actions: Vec::new(), counts: Counts::default(), settled: false, wake: None, given_up: Vec::new() }
}

/// What is done when a reconcile fails: the API server is asked again in a while.
#[allow(clippy::needless_pass_by_value, reason = "kube hands it over so")]
pub(crate) fn on_error(group: Arc<VmGroup>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(namespace = group.namespace(), group = %group.name_any(), %error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
