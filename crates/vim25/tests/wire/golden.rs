//! Requests as they go out, byte for byte, and in the order of the type info.
//!
//! `BLESS=1 cargo test` writes the files anew; the order is checked all the same.

use std::path::PathBuf;

use vim25::enums::{VirtualDeviceConfigSpecFileOperation, VirtualDeviceConfigSpecOperation};
use vim25::methods::{
    CloneVMTask, CreateContainerView, CreateFilter, FindByInventoryPath, HasPrivilegeOnEntities, Login,
    MoveIntoFolderTask, PowerOnVMTask, ReconfigVMTask, RelocateVMTask, RetrievePropertiesEx, RetrieveServiceContent,
    WaitForUpdatesEx,
};
use vim25::props::{task, virtual_machine};
use vim25::refs::{
    AuthorizationManagerRef, DatastoreRef, FolderRef, HostSystemRef, PropertyCollectorRef, ResourcePoolRef,
    SearchIndexRef, ServiceInstanceRef, SessionManagerRef, TaskRef, ViewManagerRef, VirtualMachineRef,
};
use vim25::types::*;
use vim25::{Any, Envelope, Method, Secret, to_envelope};

use crate::order::{Node, check_request};
use crate::schema::Schema;

/// Compares the request with its file, and its elements with the type info.
fn golden<M: Method>(name: &str, request: &M) {
    let bytes = to_envelope(request).expect("the request can be written");
    let text = String::from_utf8(bytes).expect("what is written is UTF-8");
    let body = Node::parse(&text).child("soapenv:Body").children[0].clone();
    check_request(&Schema::load(), &body).unwrap_or_else(|wrong| panic!("{name}: {wrong}"));

    // One element a line reads better in a review, and says the same.
    let lines = text.replace("><", ">\n<") + "\n";
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.xml"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &lines).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("the golden file exists");
    assert_eq!(lines, expected, "{name}");
}

fn network_card() -> AnyVirtualDevice {
    let backing = VirtualEthernetCardDistributedVirtualPortBackingInfo {
        port: DistributedVirtualSwitchPortConnection {
            switch_uuid: "50 1f 5d".to_owned(),
            portgroup_key: Some("dvportgroup-12".to_owned()),
            ..Default::default()
        },
        ..Default::default()
    };
    let connectable =
        VirtualDeviceConnectInfo { start_connected: true, allow_guest_control: true, ..Default::default() };
    let device =
        VirtualDevice { key: -1, backing: Some(backing.into()), connectable: Some(connectable), ..Default::default() };
    let card = VirtualEthernetCard { base: device, address_type: Some("generated".to_owned()), ..Default::default() };
    VirtualVmxnet3 { base: VirtualVmxnet { base: card }, ..Default::default() }.into()
}

fn disk() -> AnyVirtualDevice {
    let file = VirtualDeviceFileBackingInfo { file_name: "[store] web-0/data.vmdk".to_owned(), ..Default::default() };
    let backing = VirtualDiskFlatVer2BackingInfo {
        base: file,
        disk_mode: "persistent".to_owned(),
        thin_provisioned: Some(true),
        ..Default::default()
    };
    let device = VirtualDevice {
        key: -2,
        backing: Some(backing.into()),
        controller_key: Some(1000),
        unit_number: Some(1),
        ..Default::default()
    };
    VirtualDisk { base: device, capacity_in_kb: 10 << 20, ..Default::default() }.into()
}

fn device(operation: VirtualDeviceConfigSpecOperation, device: AnyVirtualDevice) -> VirtualDeviceConfigSpec {
    VirtualDeviceConfigSpec { operation: Some(operation), device, ..Default::default() }
}

fn marked(extra: &[(&str, &str)]) -> Vec<OptionValue> {
    let option = |(key, value): &(&str, &str)| OptionValue { key: (*key).to_owned(), value: Some(Any::from(*value)) };
    extra.iter().map(option).collect()
}

#[test]
fn a_clone_with_networks_disks_and_a_customised_guest() {
    let identity = CustomizationLinuxPrep {
        host_name: CustomizationFixedName { name: "web-0".to_owned(), ..Default::default() }.into(),
        domain: "example.com".to_owned(),
        ..Default::default()
    };
    let fixed = CustomizationFixedIp { ip_address: "10.0.0.7".to_owned(), ..Default::default() };
    let adapter = CustomizationIPSettings {
        ip: fixed.into(),
        subnet_mask: Some("255.255.255.0".to_owned()),
        gateway: vec!["10.0.0.1".to_owned()],
        ..Default::default()
    };
    let mut new_disk = device(VirtualDeviceConfigSpecOperation::Add, disk());
    new_disk.file_operation = Some(VirtualDeviceConfigSpecFileOperation::Create);
    let spec = VirtualMachineCloneSpec {
        location: VirtualMachineRelocateSpec {
            datastore: Some(DatastoreRef::new("datastore-11")),
            disk_move_type: Some("moveAllDiskBackingsAndAllowSharing".to_owned()),
            pool: Some(ResourcePoolRef::new("resgroup-8")),
            host: Some(HostSystemRef::new("host-9")),
            ..Default::default()
        },
        config: Some(VirtualMachineConfigSpec {
            num_cpus: Some(4),
            memory_mb: Some(8192),
            annotation: Some("made by <Drover> & kept by it".to_owned()),
            extra_config: marked(&[("drover.group", "4f1c"), ("drover.slot", "0")]),
            device_change: vec![device(VirtualDeviceConfigSpecOperation::Edit, network_card()), new_disk],
            ..Default::default()
        }),
        customization: Some(CustomizationSpec {
            identity: identity.into(),
            nic_setting_map: vec![CustomizationAdapterMapping { adapter, ..Default::default() }],
            ..Default::default()
        }),
        power_on: true,
        ..Default::default()
    };
    let request = CloneVMTask {
        this: VirtualMachineRef::new("vm-7"),
        folder: FolderRef::new("group-v4"),
        name: "web-0".to_owned(),
        spec,
    };
    golden("clone", &request);
}

#[test]
fn a_reconfigure_of_cpu_memory_and_allocation() {
    let spec = VirtualMachineConfigSpec {
        change_version: Some("2026-01-02T03:04:05Z".to_owned()),
        num_cpus: Some(2),
        memory_mb: Some(4096),
        cpu_allocation: Some(ResourceAllocationInfo { limit: Some(-1), ..Default::default() }),
        memory_hot_add_enabled: Some(true),
        extra_config: marked(&[("drover.revision", "2")]),
        ..Default::default()
    };
    golden("reconfigure", &ReconfigVMTask { this: VirtualMachineRef::new("vm-8"), spec });
}

#[test]
fn a_relocation_names_its_target_in_order() {
    let spec = VirtualMachineRelocateSpec {
        pool: Some(ResourcePoolRef::new("resgroup-8")),
        datastore: Some(DatastoreRef::new("datastore-11")),
        folder: Some(FolderRef::new("group-v4")),
        ..Default::default()
    };
    golden("relocate", &RelocateVMTask { this: VirtualMachineRef::new("vm-8"), spec, priority: None });
}

fn machines_below(folder: &str) -> PropertyFilterSpec {
    let children = TraversalSpec {
        base: SelectionSpec { name: Some("children".to_owned()) },
        type_: "Folder".to_owned(),
        path: "childEntity".to_owned(),
        skip: Some(false),
        select_set: vec![SelectionSpec { name: Some("children".to_owned()) }.into()],
    };
    PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[
            &virtual_machine::NAME,
            &virtual_machine::RUNTIME_POWER_STATE,
            &virtual_machine::CONFIG_HARDWARE_NUM_CPU,
        ])],
        object_set: vec![ObjectSpec {
            obj: FolderRef::new(folder).into(),
            skip: Some(true),
            select_set: vec![children.into()],
        }],
        report_missing_objects_in_results: Some(true),
    }
}

#[test]
fn a_filter_with_a_traversal() {
    let this = PropertyCollectorRef::new("session[1]2");
    golden("create-filter", &CreateFilter { this, spec: machines_below("group-v3"), partial_updates: false });
}

#[test]
fn a_retrieve_of_a_tasks_info() {
    let spec = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&task::INFO])],
        object_set: vec![ObjectSpec { obj: TaskRef::new("task-1").into(), ..Default::default() }],
        report_missing_objects_in_results: None,
    };
    let options = RetrieveOptions { max_objects: Some(1000) };
    let this = PropertyCollectorRef::new("propertyCollector");
    golden("retrieve", &RetrievePropertiesEx { this, spec_set: vec![spec], options });
}

#[test]
fn small_requests() {
    let collector = PropertyCollectorRef::new("session[1]2");
    let options = Some(WaitOptions { max_wait_seconds: Some(600), max_object_updates: Some(500) });
    golden("wait-for-updates", &WaitForUpdatesEx { this: collector, version: Some("3".to_owned()), options });
    golden("service-content", &RetrieveServiceContent { this: ServiceInstanceRef::new("ServiceInstance") });
    golden("power-on", &PowerOnVMTask { this: VirtualMachineRef::new("vm-7"), host: None });
    golden(
        "container-view",
        &CreateContainerView {
            this: ViewManagerRef::new("ViewManager"),
            container: FolderRef::new("group-v3").into(),
            type_: vec!["VirtualMachine".to_owned()],
            recursive: true,
        },
    );
    golden(
        "find",
        &FindByInventoryPath {
            this: SearchIndexRef::new("SearchIndex"),
            inventory_path: "/DC0/vm/a%2fb <1>".to_owned(),
        },
    );
    golden(
        "has-privilege",
        &HasPrivilegeOnEntities {
            this: AuthorizationManagerRef::new("AuthorizationManager"),
            entity: vec![FolderRef::new("group-v3").into(), VirtualMachineRef::new("vm-7").into()],
            session_id: "52af".to_owned(),
            priv_id: vec!["VirtualMachine.Inventory.CreateFromExisting".to_owned()],
        },
    );
    golden(
        "move-into-folder",
        &MoveIntoFolderTask {
            this: FolderRef::new("group-v4"),
            list: vec![VirtualMachineRef::new("vm-7").into(), VirtualMachineRef::new("vm-8").into()],
        },
    );
    golden(
        "login",
        &Login {
            this: SessionManagerRef::new("SessionManager"),
            user_name: "CORP\\drover".to_owned(),
            password: Secret::new("<&>\"']]>\r\n\té"),
            locale: None,
        },
    );
}

#[test]
fn a_header_holds_what_it_is_given() {
    let request = RetrieveServiceContent { this: ServiceInstanceRef::new("ServiceInstance") };
    let bytes = Envelope::new(&request).operation_id("drover-1").header("<Security/>").to_bytes().unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let header = "<soapenv:Header><operationID>drover-1</operationID><Security/></soapenv:Header><soapenv:Body>";
    assert!(text.contains(header), "{text}");
}

#[test]
fn the_check_of_order_sees_every_swap_of_two_different_elements() {
    let schema = Schema::load();
    let text = std::fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/clone.xml"));
    let request = Node::parse(&text.unwrap()).child("soapenv:Body").children[0].clone();
    check_request(&schema, &request).expect("the golden file is in order");
    let mut swaps = 0;
    each_swap(&request, &mut |swapped| {
        swaps += 1;
        check_request(&schema, swapped).expect_err("a swap is out of order");
    });
    assert!(swaps > 30, "{swaps}");
}

/// Every way to swap two neighbours of different names, anywhere in the tree.
fn each_swap(node: &Node, see: &mut dyn FnMut(&Node)) {
    for i in 1..node.children.len() {
        if node.children[i - 1].name != node.children[i].name {
            let mut swapped = node.clone();
            swapped.children.swap(i - 1, i);
            see(&swapped);
        }
    }
    for i in 0..node.children.len() {
        each_swap(&node.children[i], &mut |child| {
            let mut swapped = node.clone();
            swapped.children[i] = child.clone();
            see(&swapped);
        });
    }
}
