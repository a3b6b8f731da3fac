//! What others take for the same VMs, on a vCenter of the same sandbox that Drover does not look after.

use std::{fs, thread, time::Duration};

use drover_e2e::{Sandbox, VCenter, vm_group};
use serde_json::json;
use tokio::task::JoinSet;
use vim25::{
    Client, Credentials, Inventory, Settings, Trust,
    methods::CloneVMTask,
    types::{VirtualMachineCloneSpec, VirtualMachineRelocateSpec},
};

use crate::site::{last_power_on, now, off_times, powered_on, until};

const FOLDER: &str = "/DC0/vm/vm-operator";
/// What the names of peers' VMs begin with.
pub(crate) const PEER: &str = "peer";
const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

/// Clones VMs as a script would, with a govc for each.
pub(crate) fn govc(vcenter: &VCenter, vms: usize, patience: Duration) -> f64 {
    measured(vcenter, vms, patience, || {
        let scripts = (0..vms).map(|n| {
            let (vcenter, name) = (vcenter.clone(), format!("{PEER}-{n}"));
            thread::spawn(move || vcenter.govc(&["vm.clone", "-vm", TEMPLATE, "-folder", FOLDER, "-on=true", &name]))
        });
        for script in scripts.collect::<Vec<_>>() {
            script.join().expect("it does not panic").unwrap_or_else(|failure| panic!("{failure}"));
        }
    })
}

/// Clones VMs with one call for each on one connection, after what has to be asked first: no client can be faster.
pub(crate) fn bare_calls(vcenter: &VCenter, vms: usize, patience: Duration) -> f64 {
    measured(vcenter, vms, patience, || clone_all(vcenter, vms))
}

/// From before the first byte is sent until vCenter has powered on the last VM. Then all are destroyed, so that the next who is measured
/// finds what the first did.
pub(crate) fn measured(vcenter: &VCenter, vms: usize, patience: Duration, make: impl FnOnce()) -> f64 {
    let on = powered_on(vcenter);
    vcenter.forget_power_changes();
    let began = now();
    make();
    let is_done = until(patience, || powered_on(vcenter) == on + vms);
    let took = if is_done { last_power_on(vcenter) - began } else { f64::INFINITY };
    destroy_all(vcenter);
    took
}

/// Destroys what peers have made, in ten parts by the last digit of names, because govc destroys one VM after the other.
fn destroy_all(vcenter: &VCenter) {
    let parts = (0..10).map(|digit| {
        let (vcenter, part) = (vcenter.clone(), format!("{FOLDER}/{PEER}-*{digit}"));
        thread::spawn(move || vcenter.govc(&["vm.destroy", &part]))
    });
    for part in parts.collect::<Vec<_>>() {
        part.join().expect("it does not panic").unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[tokio::main(flavor = "current_thread")]
async fn clone_all(vcenter: &VCenter, vms: usize) {
    let client = client(vcenter);
    let request = request(&client).await;
    let mut calls = JoinSet::new();
    for n in 0..vms {
        let client = client.clone();
        let request = CloneVMTask { name: format!("{PEER}-{n}"), ..request.clone() };
        calls.spawn(async move { client.call(&request).await });
    }
    for submitted in calls.join_all().await {
        submitted.expect("vCenter takes the clone");
    }
}

/// How long a VM is off that a script powers off and on again, by vCenter's clock.
pub(crate) fn off_and_on(vcenter: &VCenter, machine: &str) -> f64 {
    vcenter.forget_power_changes();
    for how in ["-off", "-on"] {
        vcenter.govc(&["vm.power", how, "-force", machine]).unwrap_or_else(|failure| panic!("{failure}"));
    }
    off_times(&vcenter.power_changes())[0]
}

/// What Kubernetes takes to delete a namespace with so many groups and a VMInfo for each of their VMs, which nobody looks after.
pub(crate) fn bare_namespace(sandbox: &Sandbox, groups: usize, vms: usize) -> f64 {
    let namespace = sandbox.namespace("bare");
    let items: Vec<_> = (0..groups)
        .flat_map(|n| {
            let infos = (0..vms).map(move |m| {
                json!({
                    "apiVersion": "topology.corinternal.com/v1", "kind": "VMInfo",
                    "metadata": {"name": format!("web-{n}-{m}")}, "spec": {"nodename": format!("web-{n}-{m}")},
                })
            });
            infos.chain([vm_group(&format!("web-{n}"), &json!({"replicas": vms}))])
        })
        .collect();
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items});
    namespace.apply(&manifest.to_string()).unwrap_or_else(|failure| panic!("{failure}"));
    let began = now();
    let delete = ["delete", "namespace", &namespace.name, "--timeout=10m"];
    sandbox.kubectl().run(&delete).map_or(f64::INFINITY, |_| now() - began)
}

/// A client that logs in when it is first used.
pub(crate) fn client(vcenter: &VCenter) -> Client {
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
