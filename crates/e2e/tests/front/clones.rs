//! A clone is a machine of its own, with what a real vCenter copies of its source.

use std::time::Duration;

use drover_e2e::VCenter;
use serde_json::{Value, json};
use vim25::{Inventory, ManagedObject, refs::VirtualMachineRef};

use super::{
    TEMPLATE, clone, sandbox,
    watcher::{Watcher, client},
};

fn path(name: &str) -> String {
    format!("/DC0/vm/vm-operator/{name}")
}

fn config(vcenter: &VCenter, name: &str) -> Value {
    let info = vcenter.govc(&["vm.info", "-json", &path(name)]).unwrap_or_else(|failure| panic!("{failure}"));
    serde_json::from_str::<Value>(&info).unwrap()["virtualMachines"][0]["config"].clone()
}

fn card(config: &Value) -> Value {
    let devices = config["hardware"]["device"].as_array().unwrap();
    devices.iter().find(|device| device["macAddress"].is_string()).unwrap().clone()
}

fn extra(config: &Value, key: &str) -> Option<String> {
    let options = config["extraConfig"].as_array().unwrap();
    let found: Vec<_> = options.iter().filter(|option| option["key"] == key).collect();
    assert!(found.len() < 2, "{found:?}");
    Some(found.first()?["value"]["_value"].as_str().or_else(|| found[0]["value"].as_str()).unwrap().to_owned())
}

#[test]
fn a_clone_has_its_sources_extra_config_and_ids_and_addresses_of_its_own() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "source", "/DC0/vm/vm-operator").unwrap();
    vcenter.govc(&["vm.change", "-vm", &path("source"), "-e", "mark=mine", "-e", "guestinfo.x=1"]).unwrap();
    vcenter.govc(&["vm.clone", "-vm", &path("source"), "-folder", "/DC0/vm/vm-operator", "-on=false", "copy"]).unwrap();
    let (template, source, copy) =
        (config(&vcenter, "vm-operator-template"), config(&vcenter, "source"), config(&vcenter, "copy"));
    assert_eq!(extra(&copy, "mark").as_deref(), Some("mine"));
    assert_eq!(extra(&copy, "guestinfo.x").as_deref(), Some("1"));
    for one in [&source, &copy] {
        let address = card(one)["macAddress"].as_str().unwrap().to_owned();
        let fourth = u8::from_str_radix(&address[9..11], 16).unwrap();
        assert!(address.starts_with("00:50:56:") && (0x80..=0xbf).contains(&fourth), "{address}");
    }
    for field in ["uuid", "instanceUuid", "createDate"] {
        assert!(copy[field].is_string(), "{field}");
        assert_ne!(source[field], template[field], "{field}");
        assert_ne!(source[field], copy[field], "{field}");
    }
    assert_ne!(card(&source)["macAddress"], card(&copy)["macAddress"]);

    vcenter.govc(&["vm.markastemplate", &path("copy")]).unwrap();
    let cloned = ["vm.clone", "-vm", &path("copy"), "-folder", "/DC0/vm/vm-operator", "-on=false", "third"];
    vcenter.govc(&cloned).unwrap();
    assert_eq!(extra(&config(&vcenter, "third"), "mark").as_deref(), Some("mine"));
}

mod specs {
    //! What a clone's spec says goes before what the source has.

    use vim25::{
        Any, Client, Error,
        enums::VirtualDeviceConfigSpecOperation,
        methods::{CloneVMTask, ReconfigVMTask},
        props::virtual_machine,
        types::{
            AnyVirtualDevice, OptionValue, TaskInfo, VirtualDeviceConfigSpec, VirtualE1000, VirtualEthernetCard,
            VirtualMachineCloneSpec, VirtualMachineConfigSpec, VirtualMachineRelocateSpec,
        },
    };

    use super::{super::watcher::finish, *};

    struct Site {
        vcenter: VCenter,
        client: Client,
        inventory: Inventory,
    }

    fn site() -> Site {
        let vcenter = sandbox().own_vcenter();
        let client = client(&vcenter);
        Site { vcenter, inventory: Inventory::new(client.clone()), client }
    }

    impl Site {
        async fn clone(&self, name: &str, spec: VirtualMachineCloneSpec) -> Result<TaskInfo, Error> {
            let datacenter = self.inventory.default_datacenter().await.unwrap();
            let pool = self.inventory.default_resource_pool(&datacenter).await.unwrap();
            let location = VirtualMachineRelocateSpec { pool: Some(pool), ..spec.location };
            let request = CloneVMTask {
                this: self.inventory.find(None, TEMPLATE).await.unwrap(),
                folder: self.inventory.find(None, "/DC0/vm/vm-operator").await.unwrap(),
                name: name.to_owned(),
                spec: VirtualMachineCloneSpec { location, ..spec },
            };
            finish(&self.client, self.client.call(&request).await).await
        }

        /// The template's card, to be edited: with this address, or none.
        async fn card(&self, address: Option<&str>) -> VirtualDeviceConfigSpec {
            let template: VirtualMachineRef = self.inventory.find(None, TEMPLATE).await.unwrap();
            let devices = self.client.property(&template, virtual_machine::CONFIG_HARDWARE_DEVICE).await;
            let devices = devices.unwrap().unwrap();
            let card = devices.iter().find_map(|device| device.downcast_ref::<VirtualEthernetCard>()).unwrap();
            let card = VirtualEthernetCard { mac_address: address.map(ToOwned::to_owned), ..card.clone() };
            VirtualDeviceConfigSpec {
                operation: Some(VirtualDeviceConfigSpecOperation::Edit),
                device: AnyVirtualDevice::VirtualE1000(Box::new(VirtualE1000 { base: card })),
                ..Default::default()
            }
        }
    }

    fn configured(config: VirtualMachineConfigSpec) -> VirtualMachineCloneSpec {
        VirtualMachineCloneSpec { config: Some(config), ..Default::default() }
    }

    fn option(key: &str, value: &str) -> OptionValue {
        OptionValue { key: key.to_owned(), value: Some(Any::String(value.to_owned())) }
    }

    #[tokio::test]
    async fn an_instance_uuid_is_kept_unless_another_machine_has_it() {
        let site = site();
        let wanted = "5003a1b2-0000-4000-8000-00000000000a";
        let spec = || {
            configured(VirtualMachineConfigSpec {
                instance_uuid: Some(wanted.to_owned()),
                extra_config: vec![option("mark", "new")],
                num_cpus: Some(4),
                num_cores_per_socket: Some(2),
                ..Default::default()
            })
        };
        site.clone("first", spec()).await.unwrap();
        site.clone("second", spec()).await.unwrap();
        let (first, second) = (config(&site.vcenter, "first"), config(&site.vcenter, "second"));
        assert_eq!(first["instanceUuid"], wanted);
        assert_ne!(second["instanceUuid"], wanted);
        assert_eq!(extra(&first, "mark").as_deref(), Some("new"));
        assert_eq!((&first["hardware"]["numCPU"], &first["hardware"]["numCoresPerSocket"]), (&json!(4), &json!(2)));
    }

    #[tokio::test]
    async fn a_card_keeps_an_address_that_the_spec_names_and_gets_one_of_its_own_else() {
        let site = site();
        let named = "00:50:56:01:02:03";
        for (name, address) in [("named", Some(named)), ("twin", Some(named)), ("unnamed", None)] {
            let (card, other) = (site.card(address).await, site.card(address).await);
            let location = VirtualMachineRelocateSpec { device_change: vec![card], ..Default::default() };
            let in_location = VirtualMachineCloneSpec { location, ..Default::default() };
            let in_config = configured(VirtualMachineConfigSpec { device_change: vec![other], ..Default::default() });
            for (at, spec) in [("location", in_location), ("config", in_config)] {
                let name = format!("{name}-{at}");
                site.clone(&name, spec).await.unwrap();
                let seen = card_of(&site, &name);
                assert_eq!(seen == named, address.is_some(), "{name}: {seen}");
            }
        }
        assert_ne!(card_of(&site, "unnamed-location"), card_of(&site, "unnamed-config"));

        let mut unknown = site.card(None).await;
        unknown.device.key = 4711;
        let location = VirtualMachineRelocateSpec { device_change: vec![unknown], ..Default::default() };
        let refused = site.clone("none", VirtualMachineCloneSpec { location, ..Default::default() }).await.unwrap_err();
        assert!(refused.fault().unwrap().is_named("InvalidDeviceSpec"), "{refused}");
        assert!(!site.vcenter.machines().contains(&path("none")));
    }

    fn card_of(site: &Site, name: &str) -> String {
        card(&config(&site.vcenter, name))["macAddress"].as_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn cores_that_do_not_divide_the_cpus_are_refused() {
        let site = site();
        let odd = VirtualMachineConfigSpec {
            num_cpus: Some(3),
            num_cores_per_socket: Some(2),
            ..VirtualMachineConfigSpec::default()
        };
        let refused = site.clone("odd", configured(odd.clone())).await.unwrap_err();
        assert!(refused.fault().unwrap().is_named("InvalidVmConfig"), "{refused}");
        site.clone("even", VirtualMachineCloneSpec::default()).await.unwrap();
        let machine = site.inventory.find(None, &path("even")).await.unwrap();
        let request = ReconfigVMTask { this: machine, spec: odd };
        let refused = finish(&site.client, site.client.call(&request).await).await.unwrap_err();
        assert!(refused.fault().unwrap().is_named("InvalidVmConfig"), "{refused}");
    }
}

#[tokio::test]
async fn a_clones_machine_has_no_config_at_first() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let folder: vim25::refs::FolderRef =
        Inventory::new(client.clone()).find(None, "/DC0/vm/vm-operator").await.unwrap();
    let template: VirtualMachineRef = Inventory::new(client.clone()).find(None, TEMPLATE).await.unwrap();
    let mut watcher = Watcher::start(&client).await;
    watcher.watch_below(&folder, "VirtualMachine", &["name", "config.instanceUuid"]).await;
    watcher.until("the template", |told| told.len() == 1).await;
    let cloner = vcenter.clone();
    let cloning = std::thread::spawn(move || clone(&cloner, "early", "/DC0/vm/vm-operator"));
    watcher.until("the machine", |told| told.len() == 2).await;
    let early = watcher.told.keys().find(|&object| object != template.reference()).unwrap().clone();
    watcher.until("its name", |told| told[&early].set.contains_key("name")).await;
    assert!(!watcher.told[&early].set.contains_key("config.instanceUuid"), "{:?}", watcher.told);
    watcher.until("its config", |told| told[&early].set.contains_key("config.instanceUuid")).await;
    cloning.join().unwrap().unwrap();
    watcher.listen(Duration::from_millis(100)).await;
}
