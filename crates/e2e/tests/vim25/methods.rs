//! Each method that the crate has, called for real, with govc as the witness of what it did.
//!
//! Sessions, collectors, views and tasks have tests of their own beside this one.

use serde_json::json;
use vim25::{
    Any,
    enums::{VirtualDeviceConfigSpecOperation, VirtualMachinePowerState},
    methods::{
        AddAuthorizationRole, ContinueRetrievePropertiesEx, CreateListView, CreateSnapshotTask, CurrentTime,
        DestroyTask, DestroyView, FetchUserPrivilegeOnEntities, FindAllByIp, FindAllByUuid, FindByUuid, FindChild,
        HasPrivilegeOnEntities, MarkAsTemplate, ModifyListView, MoveIntoFolderTask, PowerOffVMTask, PowerOnVMTask,
        RebootGuest, ReconfigVMTask, RelocateVMTask, RemoveAllSnapshotsTask, RemoveAuthorizationRole, RenameTask,
        ResetListView, ResetVMTask, RetrieveEntityPermissions, RetrievePropertiesEx, SetEntityPermissions,
        ShutdownGuest, SuspendVMTask, UnregisterVM,
    },
    props::{session_manager, virtual_machine},
    refs::{HostSystemRef, NetworkRef, ServiceInstanceRef},
    types::{
        AnyVirtualDevice, AnyVirtualDeviceBackingInfo, ObjectSpec, OptionValue, Permission, PropertyFilterSpec,
        PropertySpec, RetrieveOptions, VirtualDevice, VirtualDeviceConfigSpec, VirtualEthernetCard,
        VirtualEthernetCardNetworkBackingInfo, VirtualMachineCloneSpec, VirtualMachineConfigSpec,
        VirtualMachineRelocateSpec, VirtualVmxnet3,
    },
};

use super::{Site, machine_of, object, path};

#[tokio::test]
async fn a_clone_has_the_hardware_keys_and_network_that_it_was_given() {
    let site = Site::new().await;
    let host: HostSystemRef = site.inventory.find(None, "DC0_C0_H2").await.unwrap();
    let network: NetworkRef = site.inventory.find(None, "VM Network").await.unwrap();
    let mut backing = VirtualEthernetCardNetworkBackingInfo { network: Some(network), ..Default::default() };
    backing.device_name = "VM Network".to_owned();
    let card = VirtualEthernetCard {
        base: VirtualDevice {
            key: -1,
            backing: Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardNetworkBackingInfo(Box::new(backing))),
            ..Default::default()
        },
        ..Default::default()
    };
    let mut card3 = VirtualVmxnet3::default();
    **card3 = card;
    let change = VirtualDeviceConfigSpec {
        operation: Some(VirtualDeviceConfigSpecOperation::Add),
        device: AnyVirtualDevice::from(card3),
        ..Default::default()
    };
    let key = OptionValue { key: "drover.test".to_owned(), value: Some(Any::String("a <b> & \"c\"".to_owned())) };
    let config = VirtualMachineConfigSpec {
        num_cpus: Some(3),
        memory_mb: Some(2048),
        extra_config: vec![key],
        device_change: vec![change],
        ..Default::default()
    };
    let location =
        VirtualMachineRelocateSpec { pool: Some(site.pool.clone()), host: Some(host.clone()), ..Default::default() };
    let request = vim25::methods::CloneVMTask {
        this: site.template.clone(),
        folder: site.folder.clone(),
        name: "made".to_owned(),
        spec: VirtualMachineCloneSpec { location, config: Some(config), ..Default::default() },
    };
    let machine = machine_of(site.finish(site.client.call(&request).await).await.unwrap());
    assert_eq!(site.seen(&machine, "config.hardware.numCPU"), "3");
    assert_eq!(site.seen(&machine, "config.hardware.memoryMB"), "2048");
    assert_eq!(site.seen(&machine, "runtime.host"), format!("HostSystem:{}", host.value()));
    let keys = site.client.property(&machine, virtual_machine::CONFIG_EXTRA_CONFIG).await.unwrap().unwrap();
    let has = |option: &&OptionValue| option.key == "drover.test";
    assert_eq!(keys.iter().find(has).unwrap().value, Some(Any::String("a <b> & \"c\"".to_owned())));
    let devices = site.vcenter.govc(&["device.ls", "-vm", &path("made")]).unwrap();
    assert!(devices.contains("VirtualVmxnet3"), "{devices}");
    let read = site.client.property(&machine, virtual_machine::CONFIG_HARDWARE_DEVICE).await.unwrap().unwrap();
    assert!(read.iter().any(|device| device.type_name() == "VirtualVmxnet3"), "{read:?}");
}

#[tokio::test]
async fn a_machine_is_powered_configured_renamed_moved_and_removed() {
    let site = Site::new().await;
    let machine = site.machine("first").await;
    let power = || site.seen(&machine, "runtime.powerState");
    let this = machine.clone();
    site.finish(site.client.call(&PowerOnVMTask { this: this.clone(), host: None }).await).await.unwrap();
    assert_eq!(power(), "poweredOn");
    site.finish(site.client.call(&SuspendVMTask { this: this.clone() }).await).await.unwrap();
    assert_eq!(power(), "suspended");
    site.finish(site.client.call(&PowerOnVMTask { this: this.clone(), host: None }).await).await.unwrap();
    site.finish(site.client.call(&ResetVMTask { this: this.clone() }).await).await.unwrap();
    assert_eq!(power(), "poweredOn");
    site.finish(site.client.call(&PowerOffVMTask { this: this.clone() }).await).await.unwrap();
    assert_eq!(power(), "poweredOff");
    let read = site.client.property(&machine, virtual_machine::RUNTIME_POWER_STATE).await.unwrap();
    assert_eq!(read, Some(VirtualMachinePowerState::PoweredOff));

    let spec = VirtualMachineConfigSpec { num_cpus: Some(4), ..Default::default() };
    site.finish(site.client.call(&ReconfigVMTask { this: this.clone(), spec }).await).await.unwrap();
    assert_eq!(site.seen(&machine, "config.hardware.numCPU"), "4");

    let entity = this.clone().into();
    site.finish(site.client.call(&RenameTask { this: entity, new_name: "second".to_owned() }).await).await.unwrap();
    let folder = site.inventory.default_folder(&site.datacenter).await.unwrap();
    let moved = MoveIntoFolderTask { this: folder, list: vec![this.clone().into()] };
    site.finish(site.client.call(&moved).await).await.unwrap();
    assert!(site.vcenter.machines().contains(&"/DC0/vm/second".to_owned()));

    let host: HostSystemRef = site.inventory.find(None, "DC0_C0_H3").await.unwrap();
    let spec = VirtualMachineRelocateSpec { host: Some(host.clone()), ..Default::default() };
    site.finish(site.client.call(&RelocateVMTask { this: this.clone(), spec, priority: None }).await).await.unwrap();
    assert_eq!(site.seen(&machine, "runtime.host"), format!("HostSystem:{}", host.value()));

    site.finish(site.client.call(&DestroyTask { this: this.into() }).await).await.unwrap();
    assert_eq!(site.vcenter.machines(), [path("vm-operator-template")]);
}

#[tokio::test]
async fn a_guest_is_asked_to_restart_and_to_shut_down() {
    let site = Site::new().await;
    let machine = site.machine("guest").await;
    site.finish(site.client.call(&PowerOnVMTask { this: machine.clone(), host: None }).await).await.unwrap();
    site.vcenter.control("PATCH", "/machines/guest", &json!({"tools": "guestToolsRunning"})).unwrap();
    site.client.call(&RebootGuest { this: machine.clone() }).await.unwrap();
    assert_eq!(site.seen(&machine, "runtime.powerState"), "poweredOn");
    site.client.call(&ShutdownGuest { this: machine.clone() }).await.unwrap();
    drover_e2e::eventually(super::sandbox(), super::SOON, "the guest is off", || {
        Some(()).filter(|()| site.seen(&machine, "runtime.powerState") == "poweredOff").ok_or("still on".to_owned())
    });
}

#[tokio::test]
async fn snapshots_templates_and_registration() {
    let site = Site::new().await;
    let machine = site.machine("snapped").await;
    let snapshot = CreateSnapshotTask {
        this: machine.clone(),
        name: "one".to_owned(),
        description: None,
        memory: false,
        quiesce: false,
    };
    site.finish(site.client.call(&snapshot).await).await.unwrap();
    assert_eq!(site.vcenter.govc(&["snapshot.tree", "-vm", &path("snapped")]).unwrap(), "one\n.\n");
    let tree = site.client.property(&machine, virtual_machine::SNAPSHOT).await.unwrap().unwrap();
    assert_eq!(tree.root_snapshot_list[0].name, "one");
    let remove = RemoveAllSnapshotsTask { this: machine.clone(), consolidate: None, spec: None };
    site.finish(site.client.call(&remove).await).await.unwrap();
    assert_eq!(site.client.property(&machine, virtual_machine::SNAPSHOT).await.unwrap(), None);

    site.client.call(&MarkAsTemplate { this: machine.clone() }).await.unwrap();
    assert_eq!(site.seen(&machine, "config.template"), "true");
    site.client.call(&UnregisterVM { this: machine }).await.unwrap();
    assert_eq!(site.vcenter.machines(), [path("vm-operator-template")]);
}

#[tokio::test]
async fn the_search_index_finds_machines_by_what_they_are() {
    let site = Site::new().await;
    let machine = site.machine("wanted").await;
    let this = site.client.content().await.unwrap().search_index.unwrap();
    let uuid = site.seen(&machine, "config.uuid");
    let by_uuid =
        FindByUuid { this: this.clone(), datacenter: None, uuid: uuid.clone(), vm_search: true, instance_uuid: None };
    assert_eq!(site.client.call(&by_uuid).await.unwrap().map(|found| object(&found)), Some(object(&machine)));
    let nobody = FindByUuid { uuid: "564d0000-0000-0000-0000-000000000000".to_owned(), ..by_uuid };
    assert_eq!(site.client.call(&nobody).await.unwrap(), None);

    let instance = site.seen(&machine, "config.instanceUuid");
    let all = FindAllByUuid {
        this: this.clone(),
        datacenter: None,
        uuid: instance,
        vm_search: true,
        instance_uuid: Some(true),
    };
    assert_eq!(site.client.call(&all).await.unwrap().iter().map(object).collect::<Vec<_>>(), [object(&machine)]);

    site.vcenter.control("PATCH", "/machines/wanted", &json!({"ip": "198.18.0.77"})).unwrap();
    let by_ip = FindAllByIp { this: this.clone(), datacenter: None, ip: "198.18.0.77".to_owned(), vm_search: true };
    assert_eq!(site.client.call(&by_ip).await.unwrap().iter().map(object).collect::<Vec<_>>(), [object(&machine)]);

    let child = FindChild { this, entity: site.folder.clone().into(), name: "wanted".to_owned() };
    assert_eq!(site.client.call(&child).await.unwrap().map(|found| object(&found)), Some(object(&machine)));
}

#[tokio::test]
async fn a_list_view_holds_what_it_is_told_to() {
    let site = Site::new().await;
    let this = site.client.content().await.unwrap().view_manager.unwrap();
    let (folder, template) = (object(&site.folder), object(&site.template));
    let view = site.client.call(&CreateListView { this, obj: vec![folder.clone()] }).await.unwrap();
    let add = ModifyListView { this: view.clone(), add: vec![template.clone()], remove: vec![folder] };
    assert_eq!(site.client.call(&add).await.unwrap(), []);
    let reset = ResetListView { this: view.clone(), obj: vec![template] };
    assert_eq!(site.client.call(&reset).await.unwrap(), []);
    site.client.call(&DestroyView { this: view.into() }).await.unwrap();
}

#[tokio::test]
async fn properties_come_in_pages() {
    let site = Site::new().await;
    let hosts = site.inventory.all::<HostSystemRef>(None).await.unwrap();
    let object_set = hosts.iter().map(|(host, _)| ObjectSpec { obj: object(host), ..Default::default() }).collect();
    let prop_set = vec![PropertySpec::of(&[&vim25::props::host_system::NAME])];
    let filter = PropertyFilterSpec { prop_set, object_set, report_missing_objects_in_results: None };
    let this = site.client.content().await.unwrap().property_collector;
    let first = RetrievePropertiesEx {
        this: this.clone(),
        spec_set: vec![filter],
        options: RetrieveOptions { max_objects: Some(3) },
    };
    let page = site.client.call(&first).await.unwrap().unwrap();
    assert_eq!(page.objects.len(), 3);
    let next = ContinueRetrievePropertiesEx { this, token: page.token.unwrap() };
    let page = site.client.call(&next).await.unwrap();
    assert_eq!((page.objects.len(), page.token), (1, None));
}

#[tokio::test]
async fn roles_permissions_and_privileges_are_what_govc_shows() {
    let site = Site::new().await;
    let content = site.client.content().await.unwrap();
    let this = content.authorization_manager.unwrap();
    let session = site.client.session().await.unwrap();
    let add = AddAuthorizationRole {
        this: this.clone(),
        name: "herder".to_owned(),
        priv_ids: vec!["Folder.Create".to_owned()],
    };
    let role_id = site.client.call(&add).await.unwrap();
    assert!(site.vcenter.govc(&["role.ls", "herder"]).unwrap().contains("Folder.Create"));

    let entity = site.folder.clone().into();
    let permission =
        Permission { principal: "shepherd".to_owned(), group: false, role_id, propagate: true, ..Default::default() };
    let set =
        SetEntityPermissions { this: this.clone(), entity: site.folder.clone().into(), permission: vec![permission] };
    site.client.call(&set).await.unwrap();
    let list = RetrieveEntityPermissions { this: this.clone(), entity, inherited: false };
    let found = site.client.call(&list).await.unwrap();
    assert!(found.iter().any(|permission| permission.principal == "shepherd" && permission.role_id == role_id));
    assert!(site.vcenter.govc(&["permissions.ls", super::FOLDER]).unwrap().contains("shepherd"));

    let has = HasPrivilegeOnEntities {
        this: this.clone(),
        entity: vec![site.folder.clone().into()],
        session_id: session.user.key.clone(),
        priv_id: vec!["VirtualMachine.Interact.PowerOn".to_owned()],
    };
    let held = site.client.call(&has).await.unwrap();
    assert!(held[0].priv_availability[0].is_granted, "{held:?}");
    let fetch = FetchUserPrivilegeOnEntities {
        this: this.clone(),
        entities: vec![site.folder.clone().into()],
        user_name: session.user.user_name.clone(),
    };
    assert_eq!(site.client.call(&fetch).await.unwrap().len(), 1);
    site.client.call(&RemoveAuthorizationRole { this, role_id, fail_if_used: false }).await.unwrap();
    assert!(!site.vcenter.govc(&["role.ls"]).unwrap().contains("herder"));
}

#[tokio::test]
async fn the_service_tells_its_time_and_who_is_logged_in() {
    let site = Site::new().await;
    let time = site.client.call(&CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") }).await.unwrap();
    let apart = time.duration_since(vim25::Timestamp::now()).abs();
    assert!(apart.as_secs() < 60, "{time}");
    let manager = site.client.content().await.unwrap().session_manager.unwrap();
    let current = site.client.property(&manager, session_manager::CURRENT_SESSION).await.unwrap().unwrap();
    assert_eq!(current.user_name, site.vcenter.user);
}
