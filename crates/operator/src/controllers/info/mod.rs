//! HostInfos and VMInfos: what the vCenters tell, for people to read.
//!
//! Both come from the mirror alone: a reconcile asks vCenter nothing. How much is used, vCenter doesn't tell by itself: for all that
//! is shown it is asked once a minute. The objects themselves come from one watch for each kind,
//! whose stores are shared with the controller of groups, which looks there for the members that are to go first.

mod host;
mod machine;
mod publish;
mod reading;
mod report;
mod visible;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{HostInfo, VCenter, VMInfo, VmGroup, vminfo::SCALE_IN_FIRST};
use drover_core::{
    info::figures::{Turns, When},
    vmgroup::take_over::marker_uid,
};
use futures::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Resource, ResourceExt,
    runtime::{
        Controller,
        reflector::{ObjectRef, Store, store::Writer},
        watcher,
    },
};
use tokio::sync::{Notify, mpsc};

use crate::{
    controllers::{
        Context,
        reconcile::{run, run_after},
    },
    kube::{
        guard::Guarded,
        scope,
        shared_watch::{SharedWatch, received},
    },
    loops::{Pulse, Running},
    vcenter::{
        Trigger,
        inventory_names::{Concerned, normal},
        mirror::GroupKey,
    },
};
pub(crate) use publish::hosts as publish_hosts;

const MANAGER: &str = "drover";
/// How long to wait for a watch that is behind.
const MOMENT: Duration = Duration::from_millis(100);

/// A namespace, and a name in it.
type ObjectKey = (String, String);

/// The HostInfos and VMInfos that there are, as the watches tell.
pub(crate) struct Infos {
    hosts: SharedWatch<HostInfo>,
    machines: SharedWatch<VMInfo>,
    /// The versions of objects that a status has been written over, by UID, until the watch has told of it.
    overwritten: Mutex<HashMap<String, String>>,
    /// Whose figures are written when, for each vCenter.
    turns: Mutex<HashMap<String, Turns>>,
    /// The VMInfos that have a member's name and aren't its group's, and the groups that wait for them to go.
    in_the_way: Mutex<HashMap<ObjectKey, GroupKey>>,
    /// The UIDs in the markers of those groups' VMs that have taken over others', by the groups' own.
    marker_uids: Mutex<HashMap<String, String>>,
    /// What VMInfos mark members to go first, by their UIDs.
    marks: Mutex<HashMap<String, Mark>>,
    /// Something is shown whose figures have not been read.
    figures_wanted: Notify,
}

/// A member that the user has marked to go first.
struct Mark {
    namespace: String,
    /// The UID of its group.
    group: String,
    member: String,
}

/// Where the watches write what they tell.
pub(crate) struct Writers {
    hosts: Writer<HostInfo>,
    machines: Writer<VMInfo>,
}

/// Where triggers go on to.
struct TriggerSenders {
    hosts: mpsc::UnboundedSender<ObjectRef<HostInfo>>,
    machines: mpsc::UnboundedSender<ObjectRef<VMInfo>>,
    publications: mpsc::UnboundedSender<ObjectRef<VmGroup>>,
    groups: mpsc::UnboundedSender<Trigger>,
    vcenters: mpsc::UnboundedSender<ObjectRef<VCenter>>,
}

/// The triggers that are for others.
pub(crate) struct Others {
    pub groups: mpsc::UnboundedReceiver<Trigger>,
    pub vcenters: mpsc::UnboundedReceiver<ObjectRef<VCenter>>,
}

impl Infos {
    /// Empty stores, and where to write into them.
    pub(crate) fn new() -> (Self, Writers) {
        let (hosts, host_writer) = SharedWatch::new();
        let (machines, machine_writer) = SharedWatch::new();
        (
            Self {
                hosts,
                machines,
                overwritten: Mutex::default(),
                turns: Mutex::default(),
                in_the_way: Mutex::default(),
                marker_uids: Mutex::default(),
                marks: Mutex::default(),
                figures_wanted: Notify::new(),
            },
            Writers { hosts: host_writer, machines: machine_writer },
        )
    }

    /// All that the watch of VMInfos tells, for somebody who asks before it begins.
    pub(crate) fn told_of_machines(&self) -> BoxStream<'static, watcher::Event<Guarded<VMInfo>>> {
        self.machines.told()
    }

    /// Notes that an object is no longer what the watch has told.
    fn note_write<K: Resource>(&self, was: &K, is: &K) {
        if let (Some(uid), Some(version)) = (was.uid(), was.resource_version())
            && is.resource_version().as_ref() != Some(&version)
        {
            self.overwritten().insert(uid, version);
        }
    }

    /// Whether an object has been written since the watch has told of it. What it says is old, and would be written again.
    fn is_outdated<K: Resource>(&self, info: &K) -> bool {
        let uid = info.uid().unwrap_or_default();
        let mut overwritten = self.overwritten();
        let is_outdated =
            overwritten.get(&uid).is_some_and(|version| Some(version) == info.resource_version().as_ref());
        if !is_outdated {
            overwritten.remove(&uid);
        }
        is_outdated
    }

    fn overwritten(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.overwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has figures read soon that have not been.
    fn want_figures(&self) {
        self.figures_wanted.notify_one();
    }

    /// When it is an object's turn to have its figures written.
    fn ask_turn<K: Resource>(&self, vcenter: Option<&str>, info: &K) -> When {
        let mut turns = self.turns();
        turns
            .entry(vcenter.unwrap_or_default().to_owned())
            .or_default()
            .ask(&info.uid().unwrap_or_default(), Instant::now())
    }

    /// An object has no figures to write, or writes them with something else.
    fn leave_turn<K: Resource>(&self, vcenter: Option<&str>, info: &K) {
        if let Some(turns) = self.turns().get_mut(vcenter.unwrap_or_default()) {
            turns.leave(&info.uid().unwrap_or_default());
        }
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<String, Turns>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets what was remembered of an object that is gone.
    fn forget(&self, uid: &str) {
        self.overwritten().remove(uid);
        self.marks().remove(uid);
        for turns in self.turns().values_mut() {
            turns.leave(uid);
        }
    }

    /// Remembers which VMInfos keep a group from publishing members, and returns whether there are others than before.
    fn note_in_the_way(&self, group: &GroupKey, names: &BTreeSet<String>) -> bool {
        let mut in_the_way = self.in_the_way();
        let before: BTreeSet<String> =
            in_the_way.iter().filter(|(_, of)| *of == group).map(|((_, name), _)| name.clone()).collect();
        if before == *names {
            return false;
        }
        in_the_way.retain(|_, of| of != group);
        in_the_way.extend(names.iter().map(|name| ((group.0.clone(), name.clone()), group.clone())));
        !names.is_subset(&before)
    }

    fn in_the_way(&self) -> MutexGuard<'_, HashMap<ObjectKey, GroupKey>> {
        self.in_the_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the markers of a group's VMs say.
    fn note_marker_uid(&self, group: &VmGroup) {
        let (own, marked) = (group.uid().unwrap_or_default(), marker_uid(group));
        if own != marked {
            self.marker_uids().insert(own, marked);
        }
    }

    /// The UID in the markers of a group's VMs.
    fn marker_uid(&self, group: &str) -> String {
        self.marker_uids().get(group).map_or_else(|| group.to_owned(), Clone::clone)
    }

    /// Forgets the groups that are gone.
    pub(crate) fn retain_groups(&self, is_there: impl Fn(&str) -> bool) {
        self.marker_uids().retain(|uid, _| is_there(uid));
    }

    fn marker_uids(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.marker_uids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of a group's members that the user has marked to go first. Every plan asks, so not all VMInfos are looked at.
    pub(crate) fn marked(&self, namespace: &str, group: &str) -> BTreeSet<String> {
        let marks = self.marks();
        let of_group = marks.values().filter(|mark| mark.namespace == namespace && mark.group == group);
        of_group.map(|mark| mark.member.clone()).collect()
    }

    /// Takes up whether a VMInfo marks its member.
    fn note_mark(&self, info: &VMInfo) {
        let group = group_of(info).filter(|_| is_marked(info)).map(|owner| owner.uid.clone());
        let (uid, namespace) = (info.uid().unwrap_or_default(), info.namespace().unwrap_or_default());
        match group {
            Some(group) => {
                drop(self.marks().insert(uid, Mark { namespace, group, member: info.spec.nodename.clone() }));
            }
            None => drop(self.marks().remove(&uid)),
        }
    }

    fn marks(&self) -> MutexGuard<'_, HashMap<String, Mark>> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The VMInfos of a group's members. Those of other namespaces only say that they are.
    fn of_group(&self, namespace: &str, group: &str) -> impl Iterator<Item = Arc<VMInfo>> {
        let is_its = move |info: &Arc<VMInfo>| {
            info.metadata.namespace.as_deref() == Some(namespace)
                && group_of(info).is_some_and(|owner| owner.uid == group)
        };
        self.machines.all().filter(is_its)
    }

    fn concerned_hosts(&self, concerned: &Concerned) -> Vec<ObjectRef<HostInfo>> {
        let called = |info: &HostInfo| concerned.hosts.contains(&normal(&info.spec.hostname).to_ascii_lowercase());
        let all = self.hosts.all();
        all.filter(|info| concerned.everybody || called(info)).map(|info| ObjectRef::from_obj(&*info)).collect()
    }

    fn concerned_machines(&self, concerned: &Concerned) -> Vec<ObjectRef<VMInfo>> {
        let called = |info: &VMInfo| concerned.machines.contains(&normal(&info.spec.nodename));
        let all = self.machines.all();
        all.filter(|info| concerned.everybody || called(info)).map(|info| ObjectRef::from_obj(&*info)).collect()
    }
}

/// The group that a VMInfo was published for.
pub(crate) fn group_of(info: &VMInfo) -> Option<&OwnerReference> {
    controller(info).filter(|owner| owner.kind == VmGroup::kind(&()) && owner.api_version == VmGroup::api_version(&()))
}

/// Whose an object is: of several that it goes with, one has made it.
fn controller(object: &impl Resource) -> Option<&OwnerReference> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true))
}

pub(crate) fn is_marked(info: &VMInfo) -> bool {
    info.annotations().get(SCALE_IN_FIRST).is_some_and(|value| value == "true")
}

/// Starts the controllers of HostInfos and VMInfos, and the publication of groups' members, as far as they are to run. Takes the
/// triggers of all vCenters, and returns those that are for others.
pub(crate) fn start(
    context: &Arc<Context>,
    writers: Writers,
    orders: mpsc::UnboundedReceiver<Trigger>,
) -> (Others, Vec<Running>) {
    let (plans, group_orders) = mpsc::unbounded_channel();
    let (vcenters, vcenter_orders) = mpsc::unbounded_channel();
    let (hosts, host_orders) = mpsc::unbounded_channel();
    let (machines, machine_orders) = mpsc::unbounded_channel();
    let (publications, publication_orders) = mpsc::unbounded_channel();
    let lanes = TriggerSenders { hosts, machines, publications, groups: plans, vcenters };
    let (news, changed) = mpsc::unbounded_channel();
    let runs = |controller| context.scope.runs(controller);
    let (has_hosts, has_machines) = (runs(scope::Controller::HostInfo), runs(scope::Controller::VMInfo));
    let mut running = Vec::new();
    if has_hosts {
        running.push(start_hosts(context, writers.hosts, host_orders));
    }
    if has_machines {
        running.push(start_machines(context, writers.machines, machine_orders, news));
    }
    if has_machines && runs(scope::Controller::VmGroup) {
        running.push(start_publications(context, publication_orders));
    }
    // What is told to a controller that doesn't run is lost.
    let orders = stream::select(received(orders), received(changed));
    let loops = &context.loops;
    running.push(loops.start("distributor", |pulse| distribute(orders, lanes, Arc::clone(context), pulse)));
    if has_hosts || has_machines {
        running.push(loops.start("figures", |pulse| reading::run(Arc::clone(context), pulse)));
    }
    (Others { groups: group_orders, vcenters: vcenter_orders }, running)
}

/// Publishes the members of groups, which the groups' own controller has told.
fn start_publications(context: &Arc<Context>, orders: mpsc::UnboundedReceiver<ObjectRef<VmGroup>>) -> Running {
    let groups = &context.groups;
    let controller = Controller::for_stream(groups.for_another(), groups.store.clone());
    let (filled, name) = (groups.clone(), ("publications", "VMInfoPublication"));
    run_after(async move { filled.filled().await }, controller, orders, publish::members, context, name)
}

fn start_hosts(
    context: &Arc<Context>,
    writer: Writer<HostInfo>,
    orders: mpsc::UnboundedReceiver<ObjectRef<HostInfo>>,
) -> Running {
    let infos = &context.infos;
    let mut departures = Departures::default();
    let told = infos.hosts.watch(&context.events, context.scope.reach.apis(&context.kube), writer, {
        let context = Arc::clone(context);
        move |event, store| departures.of(event, store).iter().for_each(|uid| context.infos.forget(uid))
    });
    let controller = Controller::for_stream(told, infos.hosts.store.clone());
    run(controller, orders, host::reconcile, context, ("hosts", "HostInfo"))
}

fn start_machines(
    context: &Arc<Context>,
    writer: Writer<VMInfo>,
    orders: mpsc::UnboundedReceiver<ObjectRef<VMInfo>>,
    news: mpsc::UnboundedSender<Trigger>,
) -> Running {
    let infos = &context.infos;
    let mut departures = Departures::default();
    let told = infos.machines.watch(&context.events, context.scope.reach.apis(&context.kube), writer, {
        let context = Arc::clone(context);
        move |event, store| {
            departures.of(event, store).iter().for_each(|uid| context.infos.forget(uid));
            if let watcher::Event::Apply(Guarded(Ok(info))) | watcher::Event::InitApply(Guarded(Ok(info))) = event {
                context.infos.note_mark(info);
            }
            if let Some(group) = concerns_group(event, store, &context.infos.in_the_way()) {
                // The receiver lives as long as the operator.
                let _ = news.send(Trigger::Group(group));
            }
        }
    });
    let controller = Controller::for_stream(told, infos.machines.store.clone());
    run(controller, orders, machine::reconcile, context, ("machines", "VMInfo"))
}

/// Passes every trigger on to those that it is for.
async fn distribute(orders: impl Stream<Item = Trigger>, lanes: TriggerSenders, context: Arc<Context>, pulse: Pulse) {
    let mut orders = std::pin::pin!(orders);
    let everybody = || Concerned { everybody: true, ..Concerned::default() };
    // The receivers live as long as the operator.
    while let Some(order) = pulse.wait(orders.next()).await {
        let concerned = match &order {
            Trigger::Group((namespace, name)) => {
                let _ = lanes.publications.send(ObjectRef::new(name).within(namespace));
                let _ = lanes.groups.send(order);
                continue;
            }
            Trigger::Infos(vcenter, concerned) => {
                if concerned.is_nobody() || concerned.everybody || !concerned.hosts.is_empty() {
                    let _ = lanes.vcenters.send(ObjectRef::new(vcenter));
                }
                concerned.clone()
            }
            Trigger::VCenter(vcenter) => {
                // If it is back, its figures are old.
                context.infos.want_figures();
                let _ = lanes.vcenters.send(ObjectRef::new(vcenter));
                everybody()
            }
            Trigger::Namespace(_) | Trigger::All => everybody(),
        };
        if matches!(order, Trigger::VCenter(_) | Trigger::Namespace(_) | Trigger::All) {
            for group in context.groups.all().filter(|group| order.concerns(group)) {
                let _ = lanes.publications.send(ObjectRef::from_obj(&*group));
            }
            let _ = lanes.groups.send(order.clone());
        }
        let is_near = |info: Option<&str>| match &order {
            Trigger::Namespace(namespace) => info == Some(namespace),
            _ => true,
        };
        let hosts = context.infos.concerned_hosts(&concerned).into_iter();
        for host in hosts.filter(|host| is_near(host.namespace.as_deref())) {
            let _ = lanes.hosts.send(host);
        }
        let machines = context.infos.concerned_machines(&concerned).into_iter();
        for machine in machines.filter(|machine| is_near(machine.namespace.as_deref())) {
            let _ = lanes.machines.send(machine);
        }
    }
}

/// The group that has to plan or publish again, because a member was marked, its VMInfo was deleted or taken from it, or what was
/// in that one's way is gone.
fn concerns_group(
    event: &watcher::Event<Guarded<VMInfo>>,
    store: &Store<VMInfo>,
    in_the_way: &HashMap<ObjectKey, GroupKey>,
) -> Option<GroupKey> {
    let group = |info: &VMInfo| Some((info.namespace()?, group_of(info)?.name.clone()));
    match event {
        watcher::Event::Delete(info) => {
            in_the_way.get(&(info.namespace()?, info.name_any())).cloned().or_else(|| group(info.0.as_ref().ok()?))
        }
        watcher::Event::Apply(Guarded(Ok(info))) => {
            let before = store.get(&ObjectRef::from_obj(info));
            let was = before.as_deref().and_then(group);
            if was.is_some() && was != group(info) {
                return was;
            }
            let was_marked = before.is_some_and(|before| is_marked(&before));
            Some(info).filter(|info| is_marked(info) != was_marked).and_then(group)
        }
        _ => None,
    }
}

/// What goes, as a watch tells it: also what has gone while nobody watched.
#[derive(Default)]
struct Departures {
    /// What a watch that begins anew has told so far.
    there: HashSet<String>,
}

impl Departures {
    /// The UIDs of those that are gone. The store has not taken up the event yet.
    fn of<T, K>(&mut self, event: &watcher::Event<T>, store: &Store<K>) -> Vec<String>
    where
        T: Resource<DynamicType = ()>,
        K: Resource<DynamicType = ()> + Clone + 'static,
    {
        match event {
            watcher::Event::Delete(object) => object.uid().into_iter().collect(),
            watcher::Event::Init => {
                self.there.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                self.there.extend(object.uid());
                Vec::new()
            }
            watcher::Event::InitDone => {
                let there = std::mem::take(&mut self.there);
                let before = store.state().into_iter().filter_map(|object| object.uid());
                before.filter(|uid| !there.contains(uid)).collect()
            }
            watcher::Event::Apply(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use drover_api::HostInfoSpec;
    use kube::runtime::reflector::store;

    use super::*;

    #[test]
    fn what_is_gone_is_forgotten_also_if_it_went_while_nobody_watched() {
        let host = |name: &str| {
            let mut info = HostInfo::new(name, HostInfoSpec { hostname: name.to_owned(), vcenter: None });
            info.metadata.uid = Some(name.to_owned());
            info.metadata.resource_version = Some("1".to_owned());
            info
        };
        let (infos, mut writers) = Infos::new();
        let mut departures = Departures::default();
        let mut gone = |event: watcher::Event<HostInfo>| {
            let gone = departures.of(&event, &infos.hosts.store);
            writers.hosts.apply_watcher_event(&event);
            gone
        };
        let begin = [watcher::Event::Init, watcher::Event::InitApply(host("a")), watcher::Event::InitApply(host("b"))];
        assert!(begin.into_iter().all(|event| gone(event).is_empty()));
        assert!(gone(watcher::Event::InitDone).is_empty());
        assert!(gone(watcher::Event::Apply(host("c"))).is_empty());
        assert_eq!(gone(watcher::Event::Delete(host("a"))), ["a"]);
        assert!(gone(watcher::Event::Init).is_empty());
        assert!(gone(watcher::Event::InitApply(host("c"))).is_empty());
        assert_eq!(gone(watcher::Event::InitDone), ["b"]);

        let mut after = host("b");
        after.metadata.resource_version = Some("2".to_owned());
        infos.note_write(&host("b"), &after);
        infos.ask_turn(Some("lab"), &host("a"));
        infos.ask_turn(Some("lab"), &host("b"));
        infos.forget("b");
        assert!(infos.overwritten().is_empty());
        let when = infos.ask_turn(Some("lab"), &host("b"));
        assert!(matches!(when, When::In(_)), "it has lost its turn, and waits for another: {when:?}");
    }

    #[test]
    fn a_group_publishes_again_when_a_vminfo_is_taken_from_it_or_goes_out_of_its_way() {
        let info = |owner: Option<&str>| {
            let mut info = VMInfo::new("web-1", drover_api::VMInfoSpec { nodename: "web-1".to_owned(), vcenter: None });
            info.metadata.namespace = Some("ns".to_owned());
            info.metadata.owner_references = owner.map(|name| {
                let (kind, api_version) = (VmGroup::kind(&()).into_owned(), VmGroup::api_version(&()).into_owned());
                let (name, uid) = (name.to_owned(), "uid".to_owned());
                vec![OwnerReference {
                    kind,
                    api_version,
                    name,
                    uid,
                    controller: Some(true),
                    block_owner_deletion: None,
                }]
            });
            info
        };
        let web = Some(("ns".to_owned(), "web".to_owned()));
        let (known, mut writer) = store::<VMInfo>();
        let nothing = HashMap::new();
        assert_eq!(concerns_group(&watcher::Event::Apply(Guarded(Ok(info(Some("web"))))), &known, &nothing), None);
        writer.apply_watcher_event(&watcher::Event::Apply(info(Some("web"))));
        assert_eq!(concerns_group(&watcher::Event::Apply(Guarded(Ok(info(Some("web"))))), &known, &nothing), None);
        assert_eq!(concerns_group(&watcher::Event::Apply(Guarded(Ok(info(None)))), &known, &nothing), web);
        assert_eq!(concerns_group(&watcher::Event::Delete(Guarded(Ok(info(Some("web"))))), &known, &nothing), web);
        assert_eq!(concerns_group(&watcher::Event::Delete(Guarded(Ok(info(None)))), &known, &nothing), None);

        let (infos, _writers) = Infos::new();
        let mut marked = info(Some("web"));
        marked.annotations_mut().insert(SCALE_IN_FIRST.to_owned(), "true".to_owned());
        marked.metadata.uid = Some("info".to_owned());
        infos.note_mark(&marked);
        assert_eq!(infos.marked("ns", "uid"), BTreeSet::from(["web-1".to_owned()]));
        assert_eq!((infos.marked("ns", "other"), infos.marked("other", "uid")), Default::default());
        marked.annotations_mut().clear();
        infos.note_mark(&marked);
        assert_eq!(infos.marked("ns", "uid"), BTreeSet::new());
        let (group, names) = (web.clone().unwrap(), BTreeSet::from(["web-1".to_owned()]));
        assert!(infos.note_in_the_way(&group, &names));
        assert!(!infos.note_in_the_way(&group, &names), "it is told once");
        assert_eq!(concerns_group(&watcher::Event::Delete(Guarded(Ok(info(None)))), &known, &infos.in_the_way()), web);
        assert!(!infos.note_in_the_way(&group, &BTreeSet::new()), "nobody is told that nothing is in the way");
        assert!(infos.in_the_way().is_empty());
    }
}
