//! A client that reads and watches just as it is told, with nothing in between that makes up for what vCenter says.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use drover_e2e::VCenter;
use vim25::{
    Client, Collector, Credentials, Error, ManagedObject, ManagedObjectReference, Settings, Trust,
    enums::ObjectUpdateKind,
    methods::{CreateContainerView, CreateFilter, CreatePropertyCollector, WaitForUpdatesEx},
    refs::{ManagedEntityRef, PropertyCollectorRef, TaskRef},
    types::{
        AnySelectionSpec, ObjectContent, ObjectSpec, ObjectUpdate, PropertyFilterSpec, PropertySpec, TaskInfo,
        TraversalSpec, UpdateSet, WaitOptions,
    },
};

use super::SOON;

pub(super) fn client(vcenter: &VCenter) -> Client {
    let trust = Trust::Authorities(std::fs::read(&vcenter.ca_file).unwrap());
    let credentials = Credentials::password(&vcenter.user, &vcenter.password);
    Client::new(vcenter.host.parse().unwrap(), credentials, Settings { trust, ..Settings::default() }).unwrap()
}

/// Waits for a task's end.
pub(super) async fn finish(client: &Client, task: Result<TaskRef, Error>) -> Result<TaskInfo, Error> {
    let (collector, _updates) = Collector::start(client.clone());
    let end = tokio::time::timeout(SOON, collector.follow(&task?)).await;
    end.expect("a task ends")
}

pub(super) fn properties(kind: &str, paths: &[&str]) -> PropertySpec {
    let path_set = paths.iter().map(|&path| path.to_owned()).collect();
    PropertySpec { type_: kind.to_owned(), all: None, path_set }
}

/// A filter for one object.
pub(super) fn of(object: &ManagedObjectReference, paths: &[&str]) -> PropertyFilterSpec {
    PropertyFilterSpec {
        prop_set: vec![properties(object.type_name(), paths)],
        object_set: vec![ObjectSpec { obj: object.clone(), ..ObjectSpec::default() }],
        report_missing_objects_in_results: None,
    }
}

/// A filter for the objects that another lists.
pub(super) fn listed(by: &ManagedObjectReference, list: &str, properties: PropertySpec) -> PropertyFilterSpec {
    let step = TraversalSpec { type_: by.type_name().to_owned(), path: list.to_owned(), ..TraversalSpec::default() };
    let object = ObjectSpec {
        obj: by.clone(),
        skip: Some(true),
        select_set: vec![AnySelectionSpec::TraversalSpec(Box::new(step))],
    };
    PropertyFilterSpec { prop_set: vec![properties], object_set: vec![object], report_missing_objects_in_results: None }
}

/// Reads properties of one object.
pub(super) async fn read(client: &Client, object: &impl ManagedObject, paths: &[&str]) -> ObjectContent {
    let mut found = client.retrieve(vec![of(object.reference(), paths)]).await.unwrap();
    assert_eq!(found.len(), 1, "{}", object.reference());
    found.remove(0)
}

/// A property as text, if it is set.
pub(super) fn text(content: &ObjectContent, path: &str) -> Option<String> {
    content.prop_set.iter().find(|property| property.name == path).map(|property| format!("{:?}", property.val))
}

/// What a watcher was told of an object: its properties as text, and which it may not read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Told {
    pub set: BTreeMap<String, String>,
    pub missing: BTreeSet<String>,
}

/// A property collector of its own, and what it was told.
pub(super) struct Watcher {
    client: Client,
    collector: PropertyCollectorRef,
    version: Option<String>,
    pub told: HashMap<ManagedObjectReference, Told>,
    /// All updates, in their order.
    pub log: Vec<ObjectUpdate>,
}

impl Watcher {
    pub(super) async fn start(client: &Client) -> Self {
        let this = client.content().await.unwrap().property_collector;
        let collector = client.call(&CreatePropertyCollector { this }).await.unwrap();
        Self { client: client.clone(), collector, version: None, told: HashMap::new(), log: Vec::new() }
    }

    pub(super) async fn watch(&self, spec: PropertyFilterSpec) {
        let this = self.collector.clone();
        self.client.call(&CreateFilter { this, spec, partial_updates: false }).await.unwrap();
    }

    /// Watches all objects of a type below a root.
    pub(super) async fn watch_below(&self, root: &impl ManagedObject, kind: &str, paths: &[&str]) {
        let this = self.client.content().await.unwrap().view_manager.unwrap();
        let container = ManagedEntityRef::try_from(root.reference().clone()).unwrap();
        let request = CreateContainerView { this, container, type_: vec![kind.to_owned()], recursive: true };
        let view = self.client.call(&request).await.unwrap();
        self.watch(listed(view.reference(), "view", properties(kind, paths))).await;
    }

    /// Polls once.
    pub(super) async fn poll(&mut self, options: WaitOptions) -> Option<UpdateSet> {
        let request =
            WaitForUpdatesEx { this: self.collector.clone(), version: self.version.clone(), options: Some(options) };
        let set = self.client.call(&request).await.unwrap()?;
        self.version = Some(set.version.clone());
        for update in set.filter_set.iter().flat_map(|filter| &filter.object_set) {
            self.take_up(update.clone());
        }
        Some(set)
    }

    fn take_up(&mut self, update: ObjectUpdate) {
        self.log.push(update.clone());
        if update.kind == ObjectUpdateKind::Leave {
            self.told.remove(&update.obj);
            return;
        }
        let told = self.told.entry(update.obj).or_default();
        for change in update.change_set {
            told.missing.remove(&change.name);
            match change.val {
                Some(value) => told.set.insert(change.name, format!("{value:?}")),
                None => told.set.remove(&change.name),
            };
        }
        for missing in update.missing_set {
            assert!(missing.fault.fault.is_named("NoPermission"), "{missing:?}");
            told.set.remove(&missing.path);
            told.missing.insert(missing.path);
        }
    }

    /// Polls until what was told is as wanted.
    #[track_caller]
    pub(super) fn until<'a>(
        &'a mut self,
        what: &'a str,
        wanted: impl Fn(&HashMap<ManagedObjectReference, Told>) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let began = std::time::Instant::now();
            while self.version.is_none() || !wanted(&self.told) {
                assert!(began.elapsed() < SOON, "{caller}: not within {SOON:?}: {what}: {:?}", self.told);
                self.poll(seconds(5)).await;
            }
        }
    }

    /// Polls for this long, whatever is told.
    pub(super) async fn listen(&mut self, time: Duration) {
        let began = std::time::Instant::now();
        while began.elapsed() < time {
            self.poll(seconds(0)).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

pub(super) fn seconds(max: i32) -> WaitOptions {
    WaitOptions { max_wait_seconds: Some(max), max_object_updates: None }
}
