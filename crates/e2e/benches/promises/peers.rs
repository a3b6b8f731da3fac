//! What others take for the same machines, on the same sandbox.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use drover_e2e::{Sandbox, VCenter, vm_group};
use serde_json::json;
use tokio::task::JoinSet;
use vim25::{
    Client, Credentials, Inventory, Settings, Trust,
    methods::CloneVMTask,
    types::{VirtualMachineCloneSpec, VirtualMachineRelocateSpec},
};

use crate::site::witness;

const FOLDER: &str = "/DC0/vm/vm-operator";
const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

/// Clones machines as a script would, with a govc for each.
pub(crate) fn govc(sandbox: &Sandbox, machines: u32) -> Duration {
    // Leaves a session for all of them: they would trip over each other's files.
    sandbox.vcenter().govc(&["about"]).unwrap_or_else(|failure| panic!("{failure}"));
    let began = Instant::now();
    let scripts = (0..machines).map(|n| {
        let vcenter = sandbox.vcenter().clone();
        thread::spawn(move || {
            vcenter.govc(&["vm.clone", "-vm", TEMPLATE, "-folder", FOLDER, "-on=true", &format!("govc-{n}")])
        })
    });
    for script in scripts.collect::<Vec<_>>() {
        script.join().expect("it does not panic").unwrap_or_else(|failure| panic!("{failure}"));
    }
    began.elapsed()
}

/// Clones machines with one call for each and nothing else: no client can be faster.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn bare_calls(sandbox: &Sandbox, machines: u32, patience: Duration) -> Option<Duration> {
    let client = client(sandbox.vcenter());
    let request = request(&client).await;
    let began = Instant::now();
    let mut calls = JoinSet::new();
    for n in 0..machines {
        let client = client.clone();
        let request = CloneVMTask { name: format!("bare-{n}"), ..request.clone() };
        calls.spawn(async move { client.call(&request).await });
    }
    for submitted in calls.join_all().await {
        submitted.expect("vCenter takes the clone");
    }
    witness(sandbox.vcenter(), patience, |counts| counts.powered_on == u64::from(machines))?;
    Some(began.elapsed())
}

/// What Kubernetes takes to delete a namespace with so many groups and a VMInfo for each of their machines, which nobody looks after.
pub(crate) fn bare_namespace(sandbox: &Sandbox, groups: u32, replicas: u32) -> Option<Duration> {
    sandbox.install_kinds();
    let namespace = sandbox.namespace("bare");
    let items: Vec<_> = (0..groups)
        .flat_map(|n| {
            let infos = (0..replicas).map(move |m| {
                json!({
                    "apiVersion": "topology.corinternal.com/v1", "kind": "VMInfo",
                    "metadata": {"name": format!("web-{n}-{m}")}, "spec": {"nodename": format!("web-{n}-{m}")},
                })
            });
            infos.chain([vm_group(&format!("web-{n}"), &json!({"replicas": replicas}))])
        })
        .collect();
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items});
    namespace.apply(&manifest.to_string()).unwrap_or_else(|failure| panic!("{failure}"));
    let began = Instant::now();
    let delete = ["delete", "namespace", &namespace.name, "--timeout=2m"];
    sandbox.kubectl().run(&delete).ok().map(|_| began.elapsed())
}

fn client(vcenter: &VCenter) -> Client {
    let trust = Trust::Authorities(fs::read(&vcenter.ca_file).expect("the sandbox has an authority"));
    let credentials = Credentials::password(&vcenter.user, &vcenter.password);
    let endpoint = vcenter.host.parse().expect("the sandbox gives an address");
    Client::new(endpoint, credentials, Settings { trust, ..Settings::default() }).expect("the settings are good")
}

async fn request(client: &Client) -> CloneVMTask {
    let inventory = Inventory::new(client.clone());
    let datacenter = inventory.default_datacenter().await.expect("there is one datacenter");
    let pool = inventory.default_resource_pool(&datacenter).await.expect("there is one pool");
    let location = VirtualMachineRelocateSpec { pool: Some(pool), ..Default::default() };
    CloneVMTask {
        this: inventory.find(None, TEMPLATE).await.expect("there is a template"),
        folder: inventory.find(None, FOLDER).await.expect("there is a folder"),
        name: String::new(),
        spec: VirtualMachineCloneSpec { location, power_on: true, ..Default::default() },
    }
}
