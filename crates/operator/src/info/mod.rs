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

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use drover_api::{HostInfo, VCenter, VMInfo, VmGroup, vminfo::SCALE_IN_FIRST};
use drover_core::figures::{Turns, When};
use futures::{Stream, StreamExt, stream};
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
    group::Context,
    guard::Guarded,
    loops::{Pulse, Running},
    shelf::{Shelf, received, run},
    vcenter::{
        Trigger,
        mirror::GroupKey,
        whereabouts::{Concerned, normal},
    },
};
pub(crate) use publish::hosts as publish_hosts;

const MANAGER: &str = "drover";
/// How long to wait for a watch that is behind.
const MOMENT: Duration = Duration::from_millis(100);

/// The HostInfos and VMInfos that there are, as the watches tell.
pub(crate) struct Infos {
    hosts: Shelf<HostInfo>,
    machines: Shelf<VMInfo>,
    /// The versions of objects that a status has been written over, by UID, until the watch has told of it.
    overwritten: Mutex<HashMap<String, String>>,
    /// Whose figures are written when, for each vCenter.
    turns: Mutex<HashMap<String, Turns>>,
    /// Something is shown whose figures have not been read.
    figures_wanted: Notify,
}

/// Where the watches write what they tell.
pub(crate) struct Writers {
    hosts: Writer<HostInfo>,
    machines: Writer<VMInfo>,
}

/// Where triggers go on to.
struct Lanes {
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
        let (hosts, host_writer) = Shelf::new();
        let (machines, machine_writer) = Shelf::new();
        (
            Self {
                hosts,
                machines,
                overwritten: Mutex::default(),
                turns: Mutex::default(),
                figures_wanted: Notify::new(),
            },
            Writers { hosts: host_writer, machines: machine_writer },
        )
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

    /// The names of a group's members that the user has marked to go first.
    pub(crate) fn marked(&self, group: &str) -> BTreeSet<String> {
        self.of_group(group).filter(|info| is_marked(info)).map(|info| info.name_any()).collect()
    }

    /// The VMInfos of a group's members.
    fn of_group(&self, group: &str) -> impl Iterator<Item = Arc<VMInfo>> {
        self.machines.all().filter(move |info| group_of(info).is_some_and(|owner| owner.uid == group))
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
fn group_of(info: &VMInfo) -> Option<&OwnerReference> {
    let owners = info.owner_references().iter();
    let mut groups = owners.filter(|owner| owner.controller == Some(true) && owner.kind == VmGroup::kind(&()));
    groups.find(|owner| owner.api_version == VmGroup::api_version(&()))
}

pub(crate) fn is_marked(info: &VMInfo) -> bool {
    info.annotations().get(SCALE_IN_FIRST).is_some_and(|value| value == "true")
}

/// Starts the controllers of HostInfos and VMInfos, and the publication of groups' members. Takes the triggers of all vCenters,
/// and returns those that are for others.
pub(crate) fn start(
    context: &Arc<Context>,
    writers: Writers,
    orders: mpsc::UnboundedReceiver<Trigger>,
) -> (Others, [Running; 5]) {
    let (plans, group_orders) = mpsc::unbounded_channel();
    let (vcenters, vcenter_orders) = mpsc::unbounded_channel();
    let (hosts, host_orders) = mpsc::unbounded_channel();
    let (machines, machine_orders) = mpsc::unbounded_channel();
    let (publications, publication_orders) = mpsc::unbounded_channel();
    let lanes = Lanes { hosts, machines, publications, groups: plans, vcenters };
    let (news, changed) = mpsc::unbounded_channel();

    let infos = &context.infos;
    let told = infos.hosts.watch(&context.kube, writers.hosts, |_, _| {});
    let controller = Controller::for_stream(told, infos.hosts.store.clone());
    let hosts = run(controller, host_orders, host::reconcile, context, "hosts");

    let told = infos.machines.watch(&context.kube, writers.machines, move |event, store| {
        if let Some(group) = concerns_group(event, store) {
            // The receiver lives as long as the operator.
            let _ = news.send(Trigger::Group(group));
        }
    });
    let controller = Controller::for_stream(told, infos.machines.store.clone());
    let machines = run(controller, machine_orders, machine::reconcile, context, "machines");

    // Not with the store of the groups' own controller: of two who wait for one to be filled, one is never woken.
    let (groups, group_writer) = Shelf::new();
    let told = groups.follow(&context.kube, group_writer, |_, _| {});
    let controller = Controller::for_stream(told, groups.store.clone());
    let publications = run(controller, publication_orders, publish::members, context, "publications");
    let orders = stream::select(received(orders), received(changed));
    let loops = &context.loops;
    let distributor =
        loops.start("distributor", |pulse| distribute(orders, lanes, groups.store, Arc::clone(context), pulse));
    let figures = loops.start("figures", |pulse| reading::run(Arc::clone(context), pulse));
    let others = Others { groups: group_orders, vcenters: vcenter_orders };
    (others, [hosts, machines, publications, distributor, figures])
}

/// Passes every trigger on to those that it is for.
async fn distribute(
    orders: impl Stream<Item = Trigger>,
    lanes: Lanes,
    groups: Store<VmGroup>,
    context: Arc<Context>,
    pulse: Pulse,
) {
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
            for group in groups.state().iter().filter(|group| order.concerns(group)) {
                let _ = lanes.publications.send(ObjectRef::from_obj(&**group));
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

/// The group that has to plan or publish again, because a member was marked, or its VMInfo was deleted.
fn concerns_group(event: &watcher::Event<Guarded<VMInfo>>, store: &Store<VMInfo>) -> Option<GroupKey> {
    let info = match event {
        watcher::Event::Delete(Guarded(Ok(info))) => info,
        watcher::Event::Apply(Guarded(Ok(info))) => {
            let was_marked = store.get(&ObjectRef::from_obj(info)).is_some_and(|before| is_marked(&before));
            Some(info).filter(|info| is_marked(info) != was_marked)?
        }
        _ => return None,
    };
    Some((info.namespace()?, group_of(info)?.name.clone()))
}
