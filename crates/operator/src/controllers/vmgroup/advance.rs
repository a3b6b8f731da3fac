//! A group brought one step on where it is at home: what it names is found, what is to be done is planned, written down and ordered.

use std::sync::Arc;

use drover_api::{
    VmGroup, VmGroupSpec,
    vcenter::Reach,
    vmgroup::{ABANDON_ANNOTATION as ABANDON, Placement},
};
use drover_core::{
    Timestamp, Trouble,
    tenancy::{cloud_init, quota::Terms, rules::Rules},
    vcenter::binding::NoVCenter,
    vmgroup::{
        DeletionPolicy, Desired,
        outcome::{Allowed, Outcome, RESYNC},
        recorded::{is_kept_of, was_nowhere},
        take_over::{Inheritance, marker_uid},
    },
};
use kube::{Api, runtime::controller::Action as Requeue};

use super::{
    Request, Stop,
    decide::{Next, decide},
    dereference::{LOOK_AGAIN, dereference, look_again, read_cloud_init, require_source_of_clones, trouble_of},
    keys::{self, BadKeys},
    kind::Fate,
    record::{self, WriteOutcome},
    report,
    source::{self, Found, Unusable},
    take_over,
    validate::Valid,
};
use crate::{
    controllers::{
        Context,
        binding::{Binding, BoundVCenter},
        reconcile::Error,
    },
    kube::leadership::Mandate,
    vcenter::VCenterHandle,
};

/// Where a group is at home, and what it declares there.
pub(super) struct Site<'a> {
    pub context: &'a Context,
    pub live: &'a Arc<VCenterHandle>,
    pub mandate: &'a Mandate,
    /// With what it leaves open as its vCenter says.
    pub spec: VmGroupSpec,
    /// Where VMs are put whose group doesn't say.
    pub defaults: &'a Placement,
    /// What its namespace may use there, if not everything.
    pub rules: Option<&'a Arc<Rules>>,
    /// What is wrong with the keys that it sets.
    pub bad_keys: BadKeys,
    /// How much its namespace may have there, if not as much as it likes.
    pub quota: Option<Terms>,
}

impl<'a> Site<'a> {
    pub(super) fn new(context: &'a Context, bound: &'a BoundVCenter, group: &VmGroup, mandate: &'a Mandate) -> Self {
        let spec = source::with_defaults(&group.spec, &bound.defaults);
        Self {
            context,
            live: &bound.live,
            mandate,
            spec,
            defaults: &bound.defaults,
            rules: bound.rules.as_ref(),
            bad_keys: keys::judge(bound, group),
            quota: bound.quota,
        }
    }

    /// How far its namespace reaches there.
    pub(super) fn reach(&self) -> Reach {
        cloud_init::reach(self.rules.map(Arc::as_ref))
    }

    /// Whether the group has machines here, as far as anybody knows: by its record, or by what vCenter shows.
    pub(super) fn has_members(&self, group: &VmGroup) -> bool {
        // One that an earlier version made has no record yet.
        let status = group.status.as_ref();
        let was_said = status.is_some_and(|status| status.record.is_none() && status.current_replicas.unwrap_or(0) > 0);
        is_kept_of(group) || was_said || self.live.mirror().has_members(&marker_uid(group), &self.context.cluster)
    }
}

/// Has a vCenter that is in sight know of all groups at home there how many of their VMs are missing, once, and says whether it knows. It
/// can't before the groups are read.
pub(crate) fn load_records(context: &Context, live: &VCenterHandle) -> bool {
    if live.executor().are_records_loaded() {
        return true;
    }
    if !context.groups.is_filled() {
        return false;
    }
    let mut at_home = context.groups.store.state();
    at_home.retain(|group| group.status.as_ref().is_some_and(|status| status.vcenter.as_ref() == Some(&live.name)));
    // What the last holder has destroyed would be missing by records of before.
    let is_behind =
        |group: &Arc<VmGroup>| context.vcenters.mandate_for(group).is_some_and(|it| it.is_behind(&group.metadata));
    if at_home.iter().any(is_behind) {
        return false;
    }
    let mut executor = live.executor();
    executor.load_records(&at_home, &live.mirror(), Timestamp::now());
    true
}

/// Brings a group one step on, where it is at home or was until now.
pub(super) async fn advance(
    request: &Request<'_>,
    Valid { desired, fate }: &Valid,
    binding: &Result<Binding, NoVCenter>,
) -> Result<Outcome, Stop> {
    let Request { context, group, groups, mandate } = request;
    let outcome = match binding {
        _ if let Fate::Unknown(why) = fate => Outcome::stuck(unknown_fate(why), LOOK_AGAIN),
        Ok(Binding::Here(bound) | Binding::Leave(bound)) if *fate == Fate::Ends => {
            let outcome = advance_at(&Site::new(context, bound, group, mandate), group, desired).await?;
            // Clones that are on their way are waited for, where they can be seen.
            if outcome.trouble == Trouble::None { outcome } else { Outcome::over() }
        }
        // Its VCenter may be gone with the kind of that. Nothing is to be done there.
        _ if *fate == Fate::Ends => Outcome::over(),
        Ok(Binding::Here(bound)) => advance_at(&Site::new(context, bound, group, mandate), group, desired).await?,
        Ok(Binding::Settle(name)) => {
            let is_done = report::settle(groups, &context.vmgroups.latest, group, Some(name)).await?;
            return Err(Stop::after_write(is_done));
        }
        Ok(Binding::Leave(bound)) => {
            let leaving = Desired { deletion: Some(DeletionPolicy::Delete), ..desired.clone() };
            let outcome = advance_at(&Site::new(context, bound, group, mandate), group, &leaving).await?;
            if outcome.is_over() {
                bound.live.retain_groups(|uid| uid != desired.uid);
                let is_done = report::settle(groups, &context.vmgroups.latest, group, None).await?;
                return Err(Stop::after_write(is_done));
            }
            outcome
        }
        // It was never at home anywhere, so nothing is left of it.
        Err(_) if desired.deletion.is_some() && was_nowhere(group) => Outcome::over(),
        Err(NoVCenter::NamespaceNotRead(_)) if context.vcenters.is_new() || is_new(group) => Outcome::blind(),
        Err(none) => Outcome::stuck(unbound(none), RESYNC),
    };
    context.vcenters.metrics.planned(outcome.word());
    if outcome.observed.is_none() {
        // Nothing was planned, so nothing that was planned before is to be done.
        context.vcenters.withdraw(&desired.uid);
    }
    if outcome.is_blind {
        return Err(Stop::Early(Requeue::requeue(outcome.wake)));
    }
    if let (Ok(Binding::Here(bound)), None) = (binding, &outcome.observed) {
        // What of it was missing is so for its vCenter too, until it is shown.
        bound.live.judge();
    }
    Ok(outcome)
}

/// Plans, and orders what the plan says, once all that it needs is known and all that it begins is written down.
async fn advance_at(site: &Site<'_>, group: &VmGroup, desired: &Desired) -> Result<Outcome, Error> {
    if !site.live.is_current(site.mandate) {
        // Its vCenter was declared a moment ago.
        return Ok(Outcome::blind());
    }
    site.live.enter(site.mandate);
    if let Some(away) = site.live.away_for_tenants() {
        return Ok(Outcome::stuck(Trouble::VCenterAway(away), RESYNC));
    }
    if !site.live.is_in_sight() {
        return Ok(Outcome::blind());
    }
    let instance = site.live.about().and_then(|about| about.instance_uuid);
    let was = group.status.as_ref().and_then(|status| status.vcenter_instance.clone());
    if let (Some(was), Some(is)) = (&was, &instance)
        && !was.eq_ignore_ascii_case(is)
    {
        let why = format!(
            "the VCenter {:?} is another vCenter than the group's VMs are in ({was}): have its address set back; to give the group up \
             with all that is left of it there, delete it and annotate it with {ABANDON}=true",
            site.live.name
        );
        return Ok(Outcome::stuck(Trouble::VCenterAway(why), RESYNC));
    }
    if !load_records(site.context, site.live) {
        return Ok(Outcome::blind());
    }
    let groups: Api<VmGroup> = Api::namespaced(site.context.kube.clone(), &desired.namespace);
    let inheritance = take_over::look(group, desired, &site.live.mirror(), &site.context.cluster);
    match inheritance {
        Inheritance::Settled => {}
        Inheritance::TakeOver(earlier) => {
            if take_over::write(site, &groups, group, &earlier).await? {
                // What was kept of the group was about VMs of its own, and there are none.
                site.live.executor().forget(&desired.uid);
            }
            return Ok(Outcome::blind());
        }
        Inheritance::Unclear(why) => return Ok(Outcome::stuck(Trouble::Conflict(why), LOOK_AGAIN)),
    }
    let mut found = match dereference(site, group, desired) {
        Ok(found) => found,
        // Without its place and without machines, a group that is being deleted has nothing left to wait for.
        Err(unusable) if desired.deletion.is_some() && is_nowhere(&unusable) && !site.has_members(group) => {
            return Ok(Outcome::over());
        }
        // What stays as it is need not be found.
        Err(unusable) if desired.deletion == Some(DeletionPolicy::Retain) && is_nowhere(&unusable) => {
            return Ok(Outcome::over());
        }
        Err(unusable @ Unusable::NotAllowed(_)) => {
            let allowed = Allowed::Judged(Err(unusable.to_string()));
            return Ok(Outcome { allowed, ..Outcome::stuck(trouble_of(&unusable), RESYNC) });
        }
        Err(unusable) => return Ok(Outcome::stuck(trouble_of(&unusable), RESYNC)),
    };
    loop {
        match decide(site, group, desired, &found) {
            Next::ReadCloudInit => found.cloud_init = Some(read_cloud_init(site, group).await),
            Next::Write => {
                match record::keep(&groups, &site.context.vmgroups.latest, group, site.live, &desired.uid).await {
                    Ok(WriteOutcome::Kept) => {}
                    Ok(WriteOutcome::Overtaken) => return Ok(Outcome::blind()),
                    Err(error) if error.is_refusal() => {
                        return Ok(Outcome::stuck(Trouble::Invalid(unwritten(&error)), LOOK_AGAIN));
                    }
                    Err(error) => return Err(error),
                }
            }
            Next::Stuck(trouble) => return Ok(Outcome::stuck(trouble, RESYNC)),
            Next::Ordered { mut outcome, needs_source } => {
                outcome.instance = instance;
                if needs_source {
                    require_source_of_clones(site, desired, &found);
                    note_unusable(site, group, &found, &mut outcome);
                }
                site.live.wake_queue();
                return Ok(*outcome);
            }
        }
    }
}

/// Says why clones can't be made that are to be made, if they can't.
fn note_unusable(site: &Site<'_>, group: &VmGroup, found: &Found, outcome: &mut Outcome) {
    let Some(unusable) = found.unusable() else { return };
    match trouble_of(unusable) {
        Trouble::None => {}
        trouble => outcome.trouble = trouble,
    }
    if let (Unusable::NotAllowed(why), Reach::Restricted) = (unusable, site.reach()) {
        outcome.allowed = Allowed::Judged(Err(why.clone()));
    }
    outcome.wake = outcome.wake.min(look_again(site, group, found));
}

/// Whether what a group names is no place that it could have anything in.
fn is_nowhere(unusable: &Unusable) -> bool {
    matches!(unusable, Unusable::Lookup(..) | Unusable::NotAllowed(_))
}

fn unwritten(error: &Error) -> String {
    format!("nothing is cloned, moved or destroyed, because the group's record can't be written first: {error}")
}

/// Whether a group was made a moment ago.
fn is_new(group: &VmGroup) -> bool {
    let made = group.metadata.creation_timestamp.as_ref();
    made.is_some_and(|made| Timestamp::now().duration_since(made.0).as_secs() < 5)
}

fn unknown_fate(why: &str) -> Trouble {
    Trouble::FateUnknown(format!(
        "nothing is destroyed, because nobody knows whether the kind VmGroup is being deleted: {why}"
    ))
}

fn unbound(none: &NoVCenter) -> Trouble {
    match none {
        NoVCenter::Unusable(_) | NoVCenter::Unreadable => Trouble::VCenterAway(none.to_string()),
        NoVCenter::Moved { .. } => Trouble::Invalid(none.to_string()),
        _ => Trouble::NoVCenter(none.to_string()),
    }
}
