//! How much the namespaces of a vCenter have in it, as far as quotas count it: from what the mirror shows, what is under way and what the
//! records of the groups say, all at one moment.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use drover_api::{VmGroup, vcenter::QuotaUse};
use drover_core::{
    Action, Plan, Timestamp,
    names::Slot,
    tenancy::quota::{Amount, Quota, Reserved, Terms, grant, unread_sentence},
    vmgroup::{
        Desired, Hardware, MachineId, Observed, Room, Size,
        record::{Incarnation, Record},
        take_over::marker_uid,
    },
};
use kube::ResourceExt;
use vim25::ManagedObjectReference;

use super::{BEHIND, Site, source::Found};
use crate::{
    controllers::Context,
    vcenter::{
        Trigger, VCenterHandle, disks,
        executor::{Executor, OperationContext},
        machine::Machine,
        mirror::{GroupKey, Mirror},
    },
};

/// What waits for others to leave room is told when they do, and looks for itself after this long.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// How soon to look again at what is under way and nobody knows of.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// And at VMs whose disks are being read, so many at a time.
const UNREAD: Duration = Duration::from_secs(3);

/// How much a group may have in view of what its namespace has.
pub(super) struct Usage {
    terms: Terms,
    vcenter: String,
    namespace: String,
    /// What the namespace has, with all that is reserved for this group.
    used: Amount,
    own: Reserved,
    /// What a clone takes up. Its disks are not known before its template is found.
    each: Size,
    is_size_known: bool,
    /// VMs of the namespace whose disks count and have not been read yet.
    unread: usize,
    /// In how long it is looked again at what nobody knows now. Until then, nothing is made.
    unsure: Option<Duration>,
}

/// A group that is at home in the vCenter.
struct AtHome<'a> {
    record: Option<Record>,
    /// What a clone takes up, as far as that is known.
    size: Size,
    group: &'a VmGroup,
    cloning: BTreeSet<Slot>,
    /// What reconfigurations give to machines that are under way or have just ended.
    becomes: HashMap<MachineId, Hardware>,
    /// And those that are queued.
    queued: HashMap<MachineId, Hardware>,
}

/// What a namespace has.
#[derive(Default)]
struct Count {
    /// All of it.
    all: Amount,
    /// The same without what is only queued for the group that asks.
    to_own: Amount,
    own: Option<Reserved>,
    has_vms: bool,
    /// Whether something gives a VM more hardware, and nobody knows how much.
    grows: bool,
    /// VMs whose disks have not been read yet.
    unread: usize,
}

impl Count {
    fn add(&mut self, all: Amount, to_own: Amount) {
        self.all = self.all.plus(all);
        self.to_own = self.to_own.plus(to_own);
    }

    /// In how long it is looked again at what nobody knows now, where the quota counts it.
    fn unsure(&self, executor: &Executor, quota: Quota) -> Option<Duration> {
        // What another replica has reserved may not have been told of yet; what it has begun to give to VMs is told of by nobody.
        let may_grow = executor.may_be_surprised().filter(|_| self.has_vms && quota.limits_hardware());
        let unsure = [
            executor.may_lag().or(may_grow),
            Some(LOOK_AGAIN).filter(|_| self.grows && quota.limits_hardware()),
            Some(UNREAD).filter(|_| self.unread > 0 && quota.limits_storage()),
        ];
        unsure.into_iter().flatten().max()
    }
}

/// A machine by the UID in its marker, its slot and its incarnation.
pub(super) type Known<'a> = (&'a str, Slot, Incarnation);

impl Usage {
    /// Looks at what there is now. `may_be_begun`: clones may be on their way that nobody here knows of.
    pub(super) fn of(
        site: &Site<'_>,
        (terms, found): (Terms, &Found),
        executor: &mut Executor,
        mirror: &Mirror,
        desired: &Desired,
        may_be_begun: bool,
    ) -> Self {
        let groups = at_home(site.context, site.live, |namespace| namespace == desired.namespace);
        let is_behind = groups.iter().any(|group| site.mandate.is_behind(&group.metadata));
        let is_asked = |namespace: &str| namespace == desired.namespace;
        let storage_mib = found.source.as_ref().ok().map(|source| source.make.storage_mib);
        let each = Size { hardware: desired.hardware, storage_mib: storage_mib.unwrap_or(0) };
        let own = Some((desired, may_be_begun));
        let mut counts = count(site.context, site.live, executor, mirror, &groups, own, is_asked);
        let count = counts.remove(&desired.namespace).unwrap_or_default();
        let unsure = count.unsure(executor, terms.quota).max(is_behind.then_some(BEHIND));
        let none = Record::default();
        Self {
            terms,
            vcenter: site.live.name.clone(),
            namespace: desired.namespace.clone(),
            used: count.to_own,
            own: count.own.unwrap_or_else(|| Reserved::of(&none, each, |_, _| false, |_| false)),
            each,
            is_size_known: storage_mib.is_some() || !terms.quota.limits_storage(),
            unread: if terms.quota.limits_storage() { count.unread } else { 0 },
            unsure,
        }
    }

    /// Leaves a group as much room as there is, where more is refused. Where it is only told of, says what is too much.
    pub(super) fn limit(&self, desired: &Desired, observed: &mut Observed, now: Timestamp) -> Option<String> {
        let Self { terms, vcenter, namespace, used, own, unsure, each, .. } = self;
        if !terms.is_enforced {
            return terms.quota.excess(vcenter, namespace, *used);
        }
        let (room, reserved) = match unsure {
            Some(_) => (Room { clones: 0, replacements: false, growths: 0 }, BTreeSet::new()),
            None => grant(terms.quota, *used, own, each.storage_mib, desired, observed, now),
        };
        // Nobody knows whether a clone would fit.
        let room = if self.is_size_known { room } else { Room { clones: 0, replacements: false, ..room } };
        // One that may have nothing new gets nothing by a quota, not even what is reserved for it.
        (observed.room, observed.reserved) = match observed.room {
            Some(bar) => (Some(bar.and(room)), BTreeSet::new()),
            None => (Some(room), reserved),
        };
        None
    }

    /// Why the group waits, if it does and that is known.
    pub(super) fn obstacle(&self, plan: &Plan) -> Option<String> {
        let Self { terms, vcenter, namespace, used, unsure, .. } = self;
        if plan.held_back == 0 || !terms.is_enforced {
            return None;
        }
        if self.unread > 0 {
            return Some(unread_sentence(vcenter, namespace, self.unread, plan.held_back));
        }
        let is_known = unsure.is_none() && self.is_size_known;
        is_known.then(|| terms.quota.sentence(vcenter, namespace, *used, plan.held_back))
    }

    /// Whether something waits for the template to be found, before which nobody can say what fits. For one that is refused anyway, it is
    /// not looked for.
    pub(super) fn lacks_size(&self, plan: &Plan, is_refused: bool) -> bool {
        plan.held_back > 0 && !is_refused && !self.is_size_known && self.terms.is_enforced
    }

    /// Whether clones that were ordered have the disks that a clone has now.
    pub(super) fn has_disks_of(&self, context: &OperationContext) -> bool {
        !self.terms.quota.limits_storage() || context.storage_mib() == Some(self.each.storage_mib)
    }

    /// When to look again, if something waits.
    pub(super) fn wake(&self, plan: &Plan) -> Option<Duration> {
        (plan.held_back > 0 && self.terms.is_enforced).then(|| self.unsure.unwrap_or(WAIT))
    }

    /// Gives back what a plan has no use for, and notes what the clones that it begins are given.
    pub(super) fn reserve(mut self, record: &mut Record, plan: &Plan, observed: &Observed, is_refused: bool) {
        let clones: BTreeSet<_> = plan.actions.iter().filter_map(Action::cloned_slot).collect();
        let is_known = self.unsure.is_none() && !self.lacks_size(plan, is_refused);
        if self.terms.is_enforced && is_known && !observed.is_stopped {
            let is_wanted = |slot: &Slot| clones.contains(slot) || observed.failed.contains_key(slot);
            for slot in self.own.free.extract_if(.., |slot| !is_wanted(slot)) {
                record.remove(slot);
            }
        }
        record.ask(self.own.asked(record.asked(), self.each, !clones.is_empty()));
    }
}

/// Reads the disks of some VMs whose markers don't say how large they are, where a quota counts them.
pub(crate) async fn read_disks(context: &Context, live: &VCenterHandle) {
    if context.vcenters.limits_storage(&live.name) {
        disks::read_disks(live, |machine| member(machine, &context.cluster).is_some()).await;
    }
}

/// How much of their quotas the namespaces use, for people to read. Groups that wait are told of what has become free.
pub(crate) fn quotas(context: &Context, live: &VCenterHandle) -> Vec<QuotaUse> {
    if !context.vcenters.has_quotas(&live.name) {
        return Vec::new();
    }
    let groups = at_home(context, live, |_| true);
    let mut namespaces: BTreeSet<_> = groups.iter().filter_map(|group| group.namespace()).collect();
    let ours =
        |machine: &Machine| Some(machine.marker.as_ref().filter(|it| it.cluster == context.cluster)?.owner.0.clone());
    namespaces.extend(live.mirror().machines.values().filter_map(ours));
    let quota = |namespace: String| Some((context.vcenters.quota(&live.name, &namespace)?, namespace));
    let quotas: BTreeMap<_, _> =
        namespaces.into_iter().filter_map(quota).map(|(terms, namespace)| (namespace, terms)).collect();
    let (mut executor, mirror) = (live.executor(), live.mirror());
    let mut counts =
        count(context, live, &mut executor, &mirror, &groups, None, |namespace| quotas.contains_key(namespace));
    let shown = |(namespace, terms): (&String, &Terms)| {
        terms.quota.shown(namespace, counts.remove(namespace).unwrap_or_default().all)
    };
    quotas.iter().map(shown).take(SHOWN).collect()
}

/// A status has no more namespaces than this.
const SHOWN: usize = 1000;

/// The groups that are at home in a vCenter.
fn at_home(context: &Context, live: &VCenterHandle, is_asked: impl Fn(&str) -> bool) -> Vec<Arc<VmGroup>> {
    let is_here =
        |group: &VmGroup| group.status.as_ref().is_some_and(|status| status.vcenter.as_ref() == Some(&live.name));
    let is_asked = |group: &VmGroup| group.metadata.namespace.as_deref().is_some_and(&is_asked);
    let all = context.groups.all();
    all.filter(|group| is_asked(group) && is_here(group)).collect()
}

/// Counts what namespaces have, and has the groups planned again that wait for room where there is less than before.
fn count(
    context: &Context,
    live: &VCenterHandle,
    executor: &mut Executor,
    mirror: &Mirror,
    groups: &[Arc<VmGroup>],
    own: Option<(&Desired, bool)>,
    is_asked: impl Fn(&str) -> bool,
) -> BTreeMap<String, Count> {
    let counts = tally((&context.cluster, &live.user()), executor, mirror, groups, own, &is_asked);
    executor.forget_uses(|namespace| is_asked(namespace) && !counts.contains_key(namespace));
    for (namespace, count) in &counts {
        if executor.note_use(namespace, count.all) {
            tell_waiting(live, executor, groups, namespace);
        }
    }
    counts
}

/// What namespaces have by what is marked for the cluster and begun by the user, and what is reserved for a group that asks. It is the same
/// whoever asks.
fn tally(
    (cluster, user): (&str, &str),
    executor: &mut Executor,
    mirror: &Mirror,
    groups: &[Arc<VmGroup>],
    own: Option<(&Desired, bool)>,
    is_asked: impl Fn(&str) -> bool,
) -> BTreeMap<String, Count> {
    let at_home: HashMap<String, AtHome<'_>> =
        groups.iter().map(|group| (marker_uid(group), taken_up(executor, group))).collect();
    let own_uid = own.map(|(desired, ..)| desired.marker_uid.as_str());
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut seen: HashSet<Known<'_>> = HashSet::new();
    let growing = mirror.tasks.unknown_reconfigurations(user, |task| executor.is_known(task));
    for (reference, machine) in mirror.machines.iter() {
        let Some((namespace, known)) = member(machine, cluster).filter(|(namespace, _)| is_asked(namespace)) else {
            continue;
        };
        seen.insert(known);
        let group = at_home.get(known.0);
        let storage_mib = storage_of(machine, mirror, known, group);
        let (all, to_own) = counted((reference, machine, storage_mib), known, group, own_uid == Some(known.0));
        let count = counts.entry(namespace.to_owned()).or_default();
        count.add(all, to_own);
        count.has_vms = true;
        count.grows |= growing.contains(reference);
        count.unread += usize::from(machine.has_unread_disks());
    }
    for (uid, group) in &at_home {
        let own = own.filter(|_| own_uid == Some(uid));
        let may_be_begun = |slot| own.is_none_or(|(_, may_be)| may_be) || group.cloning.contains(&slot);
        let is_seen = |slot, incarnation| seen.contains(&(uid.as_str(), slot, incarnation));
        // One that has nothing may wait for what others leave, and there may be nobody else.
        let count = counts.entry(group.group.namespace().unwrap_or_default()).or_default();
        let Some(record) = &group.record else { continue };
        let reserved = Reserved::of(record, group.size, is_seen, may_be_begun);
        count.add(reserved.amount(), reserved.amount());
        count.own = count.own.take().or(own.map(|_| reserved));
    }
    // What was begun for a group that is gone is made all the same.
    for clone in executor.clones_under_way() {
        let known = (clone.marker_uid, clone.slot, clone.incarnation);
        if is_asked(clone.namespace) && !at_home.contains_key(clone.marker_uid) && !seen.contains(&known) {
            let amount = Amount::of(clone.size);
            counts.entry(clone.namespace.to_owned()).or_default().add(amount, amount);
        }
    }
    counts
}

/// Has the groups of a namespace planned again that wait for room.
fn tell_waiting(live: &VCenterHandle, executor: &Executor, groups: &[Arc<VmGroup>], namespace: &str) {
    let waits = |group: &&Arc<VmGroup>| executor.waits_for_room(&group.uid().unwrap_or_default());
    for group in groups.iter().filter(|group| group.metadata.namespace.as_deref() == Some(namespace)).filter(waits) {
        let key: GroupKey = (namespace.to_owned(), group.name_any());
        live.trigger(Trigger::Group(key));
    }
}

/// What is known of a group, with what another replica may have written of it last.
fn taken_up<'a>(executor: &mut Executor, group: &'a VmGroup) -> AtHome<'a> {
    let hardware = Desired::of(group).map(|desired| desired.hardware).unwrap_or_default();
    let uid = group.uid().unwrap_or_default();
    let storage_mib = executor.storage_mib(&uid);
    let mut at_home = AtHome {
        record: None,
        size: Size { hardware, storage_mib: storage_mib.unwrap_or(0) },
        group,
        cloning: BTreeSet::new(),
        becomes: HashMap::new(),
        queued: HashMap::new(),
    };
    if let Some(in_flight) = executor.in_flight(&uid) {
        // One that can't be read says so when its turn comes.
        let _ = in_flight.record.take_up(group, Instant::now());
        at_home.record = in_flight.record.now().cloned();
        at_home.cloning = in_flight.cloning().collect();
        at_home.becomes = in_flight.reconfigured().collect();
        at_home.queued = in_flight.queued.iter().cloned().collect();
    }
    let written = || Record::read(group.status.as_ref()?.record.as_ref()?).ok();
    at_home.record = at_home.record.or_else(written);
    at_home
}

/// The namespace that a machine counts for, and which one it is there. A copy that somebody made of one is nobody's.
pub(super) fn member<'a>(machine: &'a Machine, cluster: &str) -> Option<(&'a str, Known<'a>)> {
    let marker = machine.marker.as_ref().filter(|marker| marker.cluster == cluster)?;
    let incarnation = match &marker.made {
        None => Incarnation::default(),
        Some(made) => Some(made).filter(|made| machine.instance.as_ref() == Some(&made.instance))?.incarnation,
    };
    Some((marker.owner.0.as_str(), (marker.group.as_str(), marker.slot, incarnation)))
}

/// What a machine counts as: the most of what it has, and of what is under way or queued for it. The group that it is of has what is only
/// queued to itself.
fn counted(
    (reference, machine, storage_mib): (&ManagedObjectReference, &Machine, u64),
    (_, slot, _): Known<'_>,
    group: Option<&AtHome<'_>>,
    is_own: bool,
) -> (Amount, Amount) {
    let sized = |hardware| Amount::of(Size { hardware, storage_mib });
    let Some(group) = group else { return (sized(machine.hardware), sized(machine.hardware)) };
    let id = MachineId(reference.value().to_owned());
    let asked = group.record.as_ref().and_then(Record::asked).filter(|_| group.cloning.contains(&slot));
    let asked = asked.map(|asked| asked.hardware);
    let begun = group.becomes.get(&id).copied().into_iter().chain(asked).fold(machine.hardware, Hardware::most);
    let all = group.queued.get(&id).copied().map_or(begun, |queued| begun.most(queued));
    (sized(all), sized(if is_own { begun } else { all }))
}

/// Capacity of a machine's disks. Where they can't be read, that of the largest of its group that is known, or that would be made now.
fn storage_of(machine: &Machine, mirror: &Mirror, (uid, ..): Known<'_>, group: Option<&AtHome<'_>>) -> u64 {
    let largest = || {
        // Nothing is made before all that can be read was read: until then, there is no need to look at the others.
        let others = machine.were_disks_read.then(|| mirror.machines.marked(uid)).into_iter().flatten();
        let others = others.filter_map(|(_, other)| other.storage_mib());
        others.chain(group.map(|group| group.size.storage_mib)).max().unwrap_or(0)
    };
    machine.storage_mib().unwrap_or_else(largest)
}
