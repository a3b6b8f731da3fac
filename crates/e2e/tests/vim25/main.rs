//! The vSphere client against vcsim, with govc as the witness.

mod collector;
mod examples;
mod faults;
mod inventory;
mod methods;
mod mirror;
mod session;

use std::{fs, time::Duration};

use drover_e2e::{Sandbox, VCenter};
use vim25::{
    Any, Client, Collector, Credentials, Error, Inventory, ManagedObject, ManagedObjectReference, Settings, Trust,
    Updates,
    methods::CloneVMTask,
    refs::{DatacenterRef, FolderRef, ResourcePoolRef, TaskRef, VirtualMachineRef},
    types::{TaskInfo, VirtualMachineCloneSpec, VirtualMachineRelocateSpec},
};

const SOON: Duration = Duration::from_mins(1);
const FOLDER: &str = "/DC0/vm/vm-operator";

/// A vCenter for each test that changes something.
fn sandbox() -> &'static Sandbox {
    Sandbox::shared(&["--kubernetes=false", "--vcenters=52", "--clone-delay=500ms"])
}

fn settings(vcenter: &VCenter) -> Settings {
    Settings { trust: Trust::Authorities(fs::read(&vcenter.ca_file).unwrap()), ..Settings::default() }
}

fn client_with(vcenter: &VCenter, password: &str, settings: Settings) -> Client {
    let credentials = Credentials::password(&vcenter.user, password);
    Client::new(vcenter.host.parse().unwrap(), credentials, settings).unwrap()
}

fn client(vcenter: &VCenter) -> Client {
    client_with(vcenter, &vcenter.password, settings(vcenter))
}

/// A vCenter of a test's own, and what the tests need to know of it.
struct Site {
    vcenter: VCenter,
    client: Client,
    inventory: Inventory,
    collector: Collector,
    updates: Updates,
    datacenter: DatacenterRef,
    folder: FolderRef,
    pool: ResourcePoolRef,
    template: VirtualMachineRef,
}

impl Site {
    async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    /// One whose client has these settings, as far as they are not given by the sandbox.
    async fn with(given: Settings) -> Self {
        let vcenter = sandbox().own_vcenter();
        let trust = settings(&vcenter).trust;
        let client = client_with(&vcenter, &vcenter.password, Settings { trust, ..given });
        let inventory = Inventory::new(client.clone());
        let datacenter = inventory.default_datacenter().await.unwrap();
        let pool = inventory.default_resource_pool(&datacenter).await.unwrap();
        let folder = inventory.find(None, FOLDER).await.unwrap();
        let template = inventory.find(None, "vm-operator-template").await.unwrap();
        let (collector, updates) = Collector::start(client.clone());
        Self { vcenter, client, inventory, collector, updates, datacenter, folder, pool, template }
    }

    /// Submits a clone of the template.
    async fn submit_clone(&self, name: &str) -> Result<TaskRef, Error> {
        let location = VirtualMachineRelocateSpec { pool: Some(self.pool.clone()), ..Default::default() };
        let spec = VirtualMachineCloneSpec { location, ..Default::default() };
        let request =
            CloneVMTask { this: self.template.clone(), folder: self.folder.clone(), name: name.to_owned(), spec };
        self.client.call(&request).await
    }

    /// Clones the template and waits for the machine.
    async fn machine(&self, name: &str) -> VirtualMachineRef {
        let task = self.submit_clone(name).await.unwrap();
        machine_of(self.follow(&task).await.unwrap())
    }

    /// Waits for the end of a task, but not for ever.
    async fn follow(&self, task: &TaskRef) -> Result<TaskInfo, Error> {
        let end = tokio::time::timeout(SOON, self.collector.follow(task)).await;
        end.unwrap_or_else(|_| panic!("{task:?} has not ended within {SOON:?}"))
    }

    /// Waits for the task that a call has submitted.
    async fn finish(&self, task: Result<TaskRef, Error>) -> Result<TaskInfo, Error> {
        self.follow(&task?).await
    }

    /// Waits until the collector waits for something to happen.
    async fn settle(&self) {
        let mut polls = (0, 1);
        while polls.0 != polls.1 {
            tokio::time::sleep(Duration::from_millis(300)).await;
            polls = (polls.1, self.vcenter.calls("WaitForUpdatesEx", "vim25"));
        }
    }

    /// How many calls each rule has acted on.
    fn hits(&self) -> Vec<u64> {
        let rules = self.vcenter.control("GET", "/rules", &serde_json::Value::Null).unwrap();
        rules.as_array().unwrap().iter().map(|rule| rule["hits"].as_u64().unwrap()).collect()
    }

    /// A property as govc shows it.
    fn seen(&self, object: &impl ManagedObject, property: &str) -> String {
        let reference = object.reference();
        let id = format!("{}:{}", reference.type_name(), reference.value());
        let shown = self.vcenter.govc(&["object.collect", "-s", &id, property]);
        shown.unwrap_or_else(|failure| panic!("{failure}")).trim().to_owned()
    }
}

fn machine_of(info: TaskInfo) -> VirtualMachineRef {
    let Some(Any::Reference(reference)) = info.result else { panic!("no machine in {info:?}") };
    reference.try_into().unwrap()
}

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn object(reference: &impl ManagedObject) -> ManagedObjectReference {
    reference.reference().clone()
}
