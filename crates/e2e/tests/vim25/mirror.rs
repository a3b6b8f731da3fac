//! What a reader of the stream knows of vCenter, to be compared with what vCenter says when asked.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use vim25::{
    Any, Client, Collector, Error, Event, ManagedObject, ManagedObjectReference, Update, Updates, WatchId,
    props::virtual_machine,
    refs::VirtualMachineRef,
    types::{ObjectSpec, PropertyFilterSpec, PropertySpec},
};

use super::{SOON, Site, object};

pub(super) type Objects = HashMap<ManagedObjectReference, BTreeMap<String, Any>>;

/// The properties that the tests watch.
pub(super) fn machine_properties() -> Vec<PropertySpec> {
    vec![PropertySpec::of(&[
        &virtual_machine::NAME,
        &virtual_machine::RUNTIME_POWER_STATE,
        &virtual_machine::RUNTIME_HOST,
        &virtual_machine::GUEST_IP_ADDRESS,
        &virtual_machine::CONFIG_EXTRA_CONFIG,
    ])]
}

#[derive(Default)]
pub(super) struct Mirror {
    pub objects: Objects,
    /// What can be relied on, in the order in which it came to that.
    pub synced: Vec<WatchId>,
    pub failed: Vec<(WatchId, Arc<Error>)>,
    /// How many updates there were of each object.
    pub news: HashMap<ManagedObjectReference, usize>,
    pub downs: Vec<Arc<Error>>,
    pub ups: usize,
    pub blinds: usize,
    /// The properties that could not be read.
    missing: HashSet<(ManagedObjectReference, String)>,
}

impl Mirror {
    /// Reads the stream until the mirror is as wanted.
    #[track_caller]
    pub(crate) fn until<'a>(
        &'a mut self,
        updates: &'a mut Updates,
        what: &'a str,
        wanted: impl Fn(&Self) -> bool + 'a,
    ) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let reading = async {
                while !wanted(self) {
                    self.take_up(updates.next().await.expect("the stream goes on"));
                }
            };
            let timely = tokio::time::timeout(SOON, reading).await.is_ok();
            assert!(timely, "{caller}: not within {SOON:?}: {what}; the mirror has {:?}", self.objects.keys());
        }
    }

    pub(crate) fn take_up(&mut self, event: Event) {
        match event {
            Event::Blind(_) => {
                assert!(self.ups == self.downs.len(), "it is blind already");
                self.blinds += 1;
                self.synced.clear();
            }
            Event::Up => self.ups += 1,
            Event::Down(error) => self.downs.push(error),
            Event::Updates(updates) => updates.into_iter().for_each(|update| self.apply(update)),
        }
    }

    fn apply(&mut self, update: Update) {
        match update {
            Update::Changed { update, .. } => {
                *self.news.entry(update.obj.clone()).or_default() += 1;
                let missing = update.missing_set.into_iter().map(|missing| (update.obj.clone(), missing.path));
                self.missing.extend(missing);
                let properties = self.objects.entry(update.obj).or_default();
                for change in update.change_set {
                    match change.val {
                        Some(value) => properties.insert(change.name, value),
                        None => properties.remove(&change.name),
                    };
                }
            }
            Update::Gone { object, .. } => {
                assert!(self.objects.remove(&object).is_some(), "{object} was never there");
            }
            Update::Synced { watch: Collector::TASKS } => {}
            Update::Synced { watch } => self.synced.push(watch),
            Update::Failed { watch, error } => {
                assert!(!self.is_synced(watch), "it is relied on");
                self.failed.push((watch, error));
            }
            Update::Missing { missing, .. } => panic!("{missing:?}"),
        }
    }

    /// Whether all that the watch sees has been told, and can be relied on.
    pub(crate) fn is_synced(&self, watch: WatchId) -> bool {
        self.synced.contains(&watch)
    }

    /// Whether a property was told to be unreadable.
    pub(crate) fn is_missing(&self, machine: &VirtualMachineRef, path: &str) -> bool {
        self.missing.contains(&(object(machine), path.to_owned()))
    }

    pub(crate) fn text(&self, machine: &VirtualMachineRef, path: &str) -> Option<String> {
        match self.objects.get(machine.reference())?.get(path)? {
            Any::String(text) => Some(text.clone()),
            Any::Enum { value, .. } => Some(value.to_string()),
            other => Some(format!("{other:?}")),
        }
    }
}

/// What vCenter says now of the machines in the folder.
pub(super) async fn fresh(site: &Site) -> Objects {
    let all = site.inventory.all::<VirtualMachineRef>(Some(site.folder.reference())).await.unwrap();
    retrieve(&site.client, all.iter().map(|(machine, _)| object(machine))).await
}

async fn retrieve(client: &Client, objects: impl Iterator<Item = ManagedObjectReference>) -> Objects {
    let object_set = objects.map(|obj| ObjectSpec { obj, ..ObjectSpec::default() }).collect();
    let filter =
        PropertyFilterSpec { prop_set: machine_properties(), object_set, report_missing_objects_in_results: None };
    let found = client.retrieve(vec![filter]).await.unwrap();
    let properties = |content: vim25::types::ObjectContent| {
        content.prop_set.into_iter().map(|property| (property.name, property.val)).collect()
    };
    found.into_iter().map(|content| (content.obj.clone(), properties(content))).collect()
}
