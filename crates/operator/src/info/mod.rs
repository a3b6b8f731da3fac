//! HostInfos and VMInfos: what the vCenters tell, for people to read.
//!
//! Both come from the mirror alone: a reconcile asks vCenter nothing. The objects themselves come from one watch for each kind,
//! whose stores are shared with the controller of groups, which looks there for the members that are to go first.

mod host;
mod machine;
mod publish;
mod report;

use std::{
    collections::BTreeSet,
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use drover_api::{HostInfo, VMInfo, VmGroup, vminfo::SCALE_IN_FIRST};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        Controller, WatchStreamExt,
        controller::{self, Action as Requeue},
        events::{Recorder, Reporter},
        reflector::{self, ObjectRef, Store, store::Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tracing::warn;

use crate::{
    group::Context,
    vcenter::{
        Trigger,
        mirror::GroupKey,
        whereabouts::{Concerned, normal},
    },
};

const MANAGER: &str = "drover";

/// Why a reconcile failed: the API server didn't answer as it should. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the API server: {0}")]
    Kube(#[from] kube::Error),
}

/// The HostInfos and VMInfos that there are, as the watches tell.
pub struct Infos {
    hosts: Shelf<HostInfo>,
    machines: Shelf<VMInfo>,
    recorder: Recorder,
}

/// A store, and whether all that there was at first is in it.
struct Shelf<K: Resource<DynamicType = ()> + 'static> {
    store: Store<K>,
    // The store can be waited for too, but only by one: kube wakes the last who asks, and that has to be the controller.
    is_filled: Arc<AtomicBool>,
}

/// Where the watches write what they tell.
pub struct Writers {
    hosts: Writer<HostInfo>,
    machines: Writer<VMInfo>,
}

impl<K: Resource<DynamicType = ()> + Clone + 'static> Shelf<K> {
    fn new() -> (Self, Writer<K>) {
        let (store, writer) = reflector::store();
        (Self { store, is_filled: Arc::default() }, writer)
    }

    fn is_filled(&self) -> bool {
        self.is_filled.load(Ordering::Acquire)
    }

    fn all(&self) -> impl Iterator<Item = Arc<K>> + use<K> {
        self.store.state().into_iter()
    }
}

/// Where triggers go on to.
struct Lanes {
    hosts: mpsc::UnboundedSender<ObjectRef<HostInfo>>,
    machines: mpsc::UnboundedSender<ObjectRef<VMInfo>>,
    publications: mpsc::UnboundedSender<ObjectRef<VmGroup>>,
    groups: mpsc::UnboundedSender<Trigger>,
    /// Rung when a vCenter's hosts may be others than before.
    bell: Arc<Notify>,
}

impl Infos {
    /// Empty stores, and where to write into them.
    pub fn new(kube: &Client) -> (Self, Writers) {
        let (hosts, host_writer) = Shelf::new();
        let (machines, machine_writer) = Shelf::new();
        let recorder = Recorder::new(kube.clone(), Reporter { controller: MANAGER.to_owned(), instance: None });
        (Self { hosts, machines, recorder }, Writers { hosts: host_writer, machines: machine_writer })
    }

    /// The names of a group's members that the user has marked to go first.
    pub fn marked(&self, group: &str) -> BTreeSet<String> {
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

pub fn is_marked(info: &VMInfo) -> bool {
    info.annotations().get(SCALE_IN_FIRST).is_some_and(|value| value == "true")
}

/// Starts the controllers of HostInfos and VMInfos, and the publication of groups' members; and of hosts, if a namespace for them
/// is given. Takes the triggers of all vCenters, and returns those that are for groups.
pub fn start(
    context: &Arc<Context>,
    writers: Writers,
    orders: mpsc::UnboundedReceiver<Trigger>,
    publish_hosts: Option<String>,
) -> mpsc::UnboundedReceiver<Trigger> {
    let (for_groups, group_orders) = mpsc::unbounded_channel();
    let (hosts, host_orders) = mpsc::unbounded_channel();
    let (machines, machine_orders) = mpsc::unbounded_channel();
    let (publications, publication_orders) = mpsc::unbounded_channel();
    let bell = Arc::new(Notify::new());
    let lanes = Lanes { hosts, machines, publications, groups: for_groups, bell: Arc::clone(&bell) };
    let (news, changed) = mpsc::unbounded_channel();

    let told = watch(&context.kube, writers.hosts, &context.infos.hosts, |_, _| {});
    run(Controller::for_stream(told, context.infos.hosts.store.clone()), host_orders, host::reconcile, context);

    let told = watch(&context.kube, writers.machines, &context.infos.machines, move |event, store| {
        if let Some(group) = concerns_group(event, store) {
            // The receiver lives as long as the operator.
            let _ = news.send(Trigger::Group(group));
        }
    });
    run(
        Controller::for_stream(told, context.infos.machines.store.clone()),
        machine_orders,
        machine::reconcile,
        context,
    );

    // Not with the store of the groups' own controller: of two who wait for one to be filled, one is never woken.
    let controller = Controller::new(Api::<VmGroup>::all(context.kube.clone()), watcher::Config::default());
    let groups = controller.store();
    run(controller, publication_orders, publish::members, context);
    if let Some(namespace) = publish_hosts {
        tokio::spawn(publish::keep_hosts(Arc::clone(context), namespace, bell));
    }
    let orders = stream::select(received(orders), received(changed));
    tokio::spawn(distribute(orders, lanes, groups, Arc::clone(context)));
    group_orders
}

/// Passes every trigger on to those that it is for.
async fn distribute(orders: impl Stream<Item = Trigger>, lanes: Lanes, groups: Store<VmGroup>, context: Arc<Context>) {
    let mut orders = std::pin::pin!(orders);
    // The receivers live as long as the operator.
    while let Some(order) = orders.next().await {
        let concerned = match &order {
            Trigger::Group((namespace, name)) => {
                let _ = lanes.publications.send(ObjectRef::new(name).within(namespace));
                let _ = lanes.groups.send(order);
                continue;
            }
            Trigger::Infos(concerned) => concerned.clone(),
            Trigger::All => {
                for group in groups.state() {
                    let _ = lanes.publications.send(ObjectRef::from_obj(&*group));
                }
                let _ = lanes.groups.send(order);
                Concerned { everybody: true, ..Concerned::default() }
            }
        };
        if concerned.everybody || !concerned.hosts.is_empty() {
            lanes.bell.notify_one();
        }
        for host in context.infos.concerned_hosts(&concerned) {
            let _ = lanes.hosts.send(host);
        }
        for machine in context.infos.concerned_machines(&concerned) {
            let _ = lanes.machines.send(machine);
        }
    }
}

/// One watch on all objects of a kind, which fills the kind's store. `notice` sees each event before the store does.
fn watch<K>(
    kube: &Client,
    writer: Writer<K>,
    shelf: &Shelf<K>,
    notice: impl Fn(&watcher::Event<K>, &Store<K>) + Send + 'static,
) -> impl Stream<Item = Result<K, watcher::Error>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let events = watcher(Api::all(kube.clone()), watcher::Config::default()).default_backoff();
    // Who wrote what takes up more memory than what was written.
    let events = events.modify(|object: &mut K| object.managed_fields_mut().clear());
    let store = shelf.store.clone();
    let noticed = events.inspect(move |event| {
        if let Ok(event) = event {
            notice(event, &store);
        }
    });
    let is_filled = Arc::clone(&shelf.is_filled);
    let stored = noticed.reflect(writer).inspect(move |event| {
        if let Ok(watcher::Event::InitDone) = event {
            is_filled.store(true, Ordering::Release);
        }
    });
    stored.applied_objects()
}

/// The group that has to plan or publish again, because a member was marked, or its VMInfo was deleted.
fn concerns_group(event: &watcher::Event<VMInfo>, store: &Store<VMInfo>) -> Option<GroupKey> {
    let info = match event {
        watcher::Event::Delete(info) => info,
        watcher::Event::Apply(info) => {
            let was_marked = store.get(&ObjectRef::from_obj(info)).is_some_and(|before| is_marked(&before));
            Some(info).filter(|info| is_marked(info) != was_marked)?
        }
        _ => return None,
    };
    Some((info.namespace()?, group_of(info)?.name.clone()))
}

/// Runs a controller for as long as the operator runs.
fn run<K, F>(
    controller: Controller<K>,
    orders: mpsc::UnboundedReceiver<ObjectRef<K>>,
    reconcile: impl FnMut(Arc<K>, Arc<Context>) -> F + Send + 'static,
    context: &Arc<Context>,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    F: Future<Output = Result<Requeue, Error>> + Send + 'static,
{
    let controller = controller
        .with_config(controller::Config::default().concurrency(16))
        .reconcile_on(received(orders))
        .run(reconcile, on_error, Arc::clone(context));
    tokio::spawn(controller.for_each(|_| async {}));
}

fn received<T: Send + 'static>(orders: mpsc::UnboundedReceiver<T>) -> impl Stream<Item = T> + Send + 'static {
    stream::unfold(orders, |mut orders| async { orders.recv().await.map(|order| (order, orders)) })
}

/// What is done when a reconcile fails: the API server is asked again in a while.
fn on_error<K>(_: Arc<K>, error: &Error, _: Arc<Context>) -> Requeue {
    warn!(%error, "a reconcile failed");
    Requeue::requeue(Duration::from_secs(5))
}
