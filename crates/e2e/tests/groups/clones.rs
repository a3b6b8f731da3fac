//! What a clone has of its own, and what of its template.

use std::{collections::BTreeSet, fs};

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_e2e::{Group, SOON, VCenter, eventually};
use serde_json::{Value, json};
use vim25::{
    Client, Credentials, Inventory, Settings, Trust,
    enums::ArrayUpdateOperation,
    methods::ReconfigVMTask,
    refs::VirtualMachineRef,
    types::{ArrayUpdateSpec, VAppProductInfo, VAppProductSpec, VirtualMachineConfigSpec, VmConfigSpec},
};

use crate::sandbox;

const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

/// All of a machine, as govc shows it.
fn shown(vcenter: &VCenter, machine: &str) -> Value {
    let shown = vcenter.govc(&["vm.info", "-json", machine]).unwrap();
    serde_json::from_str::<Value>(&shown).unwrap()["virtualMachines"][0].clone()
}

/// The addresses of a machine's network cards.
fn addresses(vcenter: &VCenter, machine: &str) -> Vec<String> {
    let machine = shown(vcenter, machine);
    let devices = machine["config"]["hardware"]["device"].as_array().cloned().unwrap_or_default();
    devices.iter().filter_map(|device| device["macAddress"].as_str()).map(ToOwned::to_owned).collect()
}

#[test]
fn each_clone_on_named_networks_has_an_address_of_its_own() {
    let vcenter = sandbox().vcenter();
    let group = Group::create(sandbox(), "addresses", &json!({"networks": ["VM Network"]}));
    let machines = group.runs_with(2);
    let mut all = addresses(vcenter, TEMPLATE);
    let cards = all.len();
    assert!(cards > 0, "the template has a card");
    for machine in &machines {
        let own = addresses(vcenter, machine);
        assert_eq!(own.len(), cards, "{own:?}");
        all.extend(own);
    }
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
    group.delete();
}

/// A plain VM whose sockets have four cores, which takes more of them as it runs, and which has properties of a vApp.
async fn many_cores(vcenter: &VCenter, name: &str) {
    vcenter.govc(&["vm.clone", "-vm.ipath", TEMPLATE, "-folder", "/DC0/vm", "-on=false", name]).unwrap();
    let settings = Settings { trust: Trust::Authorities(fs::read(&vcenter.ca_file).unwrap()), ..Settings::default() };
    let credentials = Credentials::password(&vcenter.user, &vcenter.password);
    let client = Client::new(vcenter.host.parse().unwrap(), credentials, settings).unwrap();
    let path = format!("/DC0/vm/{name}");
    let this: VirtualMachineRef = Inventory::new(client.clone()).find(None, &path).await.unwrap();
    let info = Some(VAppProductInfo { name: Some("appliance".to_owned()), ..Default::default() });
    let base = ArrayUpdateSpec { operation: ArrayUpdateOperation::Add, ..Default::default() };
    let product = vec![VAppProductSpec { base, info }];
    let spec = VirtualMachineConfigSpec {
        num_cpus: Some(4),
        num_cores_per_socket: Some(4),
        cpu_hot_add_enabled: Some(true),
        v_app_config: Some(VmConfigSpec { product, ..Default::default() }),
        ..Default::default()
    };
    client.call(&ReconfigVMTask { this, spec }).await.unwrap();
    eventually(sandbox(), SOON, "four cores in one socket", || {
        let config = &shown(vcenter, &path)["config"];
        let is_so = config["hardware"]["numCoresPerSocket"] == 4 && !config["vAppConfig"].is_null();
        if is_so { Ok(()) } else { Err(config.to_string()) }
    });
}

#[tokio::test]
async fn cores_per_socket_divide_the_cpus_and_a_running_machine_that_refuses_other_cores_is_power_cycled() {
    let vcenter = sandbox().vcenter();
    many_cores(vcenter, "many-cores").await;
    let group = Group::create(
        sandbox(),
        "cores",
        &json!({
            "replicas": 1, "cpu": 6, "template": "/DC0/vm/many-cores", "shutdown": {"graceSeconds": 0},
            "guest": {"cloudInit": {"userData": {"inline": "#cloud-config\n"}}},
        }),
    );
    let machine = group.settles_with(1, "config.hardware.numCPU", "6").remove(0);
    let config = shown(vcenter, &machine)["config"].clone();
    assert_eq!(config["hardware"]["numCoresPerSocket"], 3);
    assert!(config["vAppConfig"].is_null(), "cloud-init would read {}", config["vAppConfig"]);
    assert_eq!(config["cpuHotAddEnabled"], true, "as its template");
    let boot_time = || shown(vcenter, &machine)["summary"]["runtime"]["bootTime"].clone();
    let booted = boot_time();
    assert!(booted.is_string(), "it says when it was booted");
    group.patch(&json!({"cpu": 9})).unwrap();
    group.settles_with(1, "config.hardware.numCPU", "9");
    assert_eq!(boot_time(), booted, "three sockets are as good as two");
    group.patch(&json!({"cpu": 10})).unwrap();
    group.settles_with(1, "config.hardware.numCPU", "10");
    assert_eq!(shown(vcenter, &machine)["config"]["hardware"]["numCoresPerSocket"], 2);
    assert_ne!(boot_time(), booted, "cores change only while it is off");
    group.delete();
}

#[test]
fn a_machine_made_later_is_told_what_the_secret_says_then() {
    let group = Group::create(
        sandbox(),
        "later",
        &json!({"guest": {"cloudInit": {"userData": {"secretKeyRef": {"name": "boot", "key": "user-data"}}}}}),
    );
    let tell = |text: &str| {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boot"}, "stringData": {"user-data": text},
        });
        group.namespace.declare(&secret).unwrap();
    };
    tell("first");
    let machines = group.runs_with(2);
    let told = |machine: &str| {
        let options = shown(group.vcenter(), machine)["config"]["extraConfig"].as_array().cloned().unwrap_or_default();
        let option = options.into_iter().find(|option| option["key"] == "guestinfo.userdata").unwrap();
        String::from_utf8(BASE64_STANDARD.decode(option["value"].as_str().unwrap()).unwrap()).unwrap()
    };
    assert_eq!(machines.iter().map(|machine| told(machine)).collect::<Vec<_>>(), ["first", "first"]);
    tell("second");
    group.loses(&machines[0]);
    eventually(group.sandbox, SOON, "the one that was lost is there anew", || {
        let running = group.machines("runtime.powerState")?;
        if running.iter().filter(|(_, state)| state == "poweredOn").count() == 2 {
            Ok(())
        } else {
            Err(format!("{running:?}"))
        }
    });
    group.runs_with(2);
    assert_eq!((told(&machines[0]), told(&machines[1])), ("second".to_owned(), "first".to_owned()));
    group.delete();
}
