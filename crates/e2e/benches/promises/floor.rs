//! A client that does the least that Drover has to do: it reads or hears what vCenter has, and powers a VM on.

use std::time::Duration;

use drover_e2e::VCenter;
use vim25::{
    Client, Inventory,
    enums::VirtualMachinePowerState,
    methods::{CreateFilter, CreatePropertyCollector, PowerOnVMTask, WaitForUpdatesEx},
    props::virtual_machine as vm,
    refs::{PropertyCollectorRef, VirtualMachineRef},
    types::{ObjectSpec, PropertyFilterSpec, PropertySpec, UpdateSet},
};

use crate::{
    peers::client,
    site::{now, off_times},
};

/// The longest that a client waits to be told.
const PATIENCE: Duration = Duration::from_mins(1);
/// The keys of a marker.
const MARKER: [&str; 8] = ["group", "owner", "slot", "revision", "cluster", "instance", "incarnation", "disks"];

/// How long it takes from before a client logs in until vCenter has powered a VM on, if the client first reads once what Drover keeps of
/// all VMs.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn read_all_and_power_on(vcenter: &VCenter, machine: &str) -> f64 {
    vcenter.forget_power_changes();
    let began = now();
    let client = client(vcenter);
    let all = Inventory::new(client.clone()).retrieve(None, properties()).await.expect("all can be read");
    assert!(all.iter().any(|vm| vm.obj.value() == machine), "the VM is one of them");
    power_on(&client, machine).await;
    // Others may power on theirs meanwhile.
    let changes = vcenter.power_changes();
    let on = changes.iter().find(|change| change.on && change.machine == machine);
    on.map_or(f64::INFINITY, |on| on.at - began)
}

/// What Drover keeps of a VM.
fn properties() -> PropertySpec {
    let mut all = PropertySpec::of(&[
        &vm::NAME,
        &vm::PARENT,
        &vm::CONFIG_INSTANCE_UUID,
        &vm::CONFIG_TEMPLATE,
        &vm::CONFIG_CHANGE_VERSION,
        &vm::CONFIG_HARDWARE_NUM_CPU,
        &vm::CONFIG_HARDWARE_MEMORY_MB,
        &vm::CONFIG_CPU_HOT_ADD_ENABLED,
        &vm::CONFIG_MEMORY_HOT_ADD_ENABLED,
        &vm::CONFIG_HOT_PLUG_MEMORY_LIMIT,
        &vm::CONFIG_HOT_PLUG_MEMORY_INCREMENT_SIZE,
        &vm::CONFIG_GUEST_ID,
        &vm::CONFIG_VERSION,
        &vm::CONFIG_CPU_ALLOCATION,
        &vm::CONFIG_MEMORY_ALLOCATION,
        &vm::CONFIG_FILES_VM_PATH_NAME,
        &vm::CONFIG_UUID,
        &vm::CONFIG_CREATE_DATE,
        &vm::RUNTIME_POWER_STATE,
        &vm::RUNTIME_CONNECTION_STATE,
        &vm::RUNTIME_HOST,
        &vm::RUNTIME_QUESTION,
        &vm::DATASTORE,
        &vm::PARENT_V_APP,
        &vm::GUEST_TOOLS_RUNNING_STATUS,
        &vm::GUEST_IP_ADDRESS,
        &vm::GUEST_NET,
        &vm::GUEST_HOST_NAME,
        &vm::GUEST_TOOLS_VERSION_STATUS2,
        &vm::SUMMARY_RUNTIME_BOOT_TIME,
        &vm::SNAPSHOT,
        &vm::OVERALL_STATUS,
    ]);
    all.path_set.extend(MARKER.map(|key| format!("config.extraConfig[\"drover.{key}\"]")));
    all
}

/// How long a VM is off, by vCenter's clock, that somebody powers off and a client powers on as soon as a long poll tells.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn hear_and_power_on(vcenter: &VCenter, path: &str) -> f64 {
    let client = client(vcenter);
    let machine: VirtualMachineRef = Inventory::new(client.clone()).find(None, path).await.expect("there is such a VM");
    let collector = client.content().await.expect("it can log in").property_collector;
    let collector = client.call(&CreatePropertyCollector { this: collector }).await.expect("there can be another");
    let object = ObjectSpec { obj: machine.clone().into(), ..ObjectSpec::default() };
    let spec = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&vm::RUNTIME_POWER_STATE])],
        object_set: vec![object],
        report_missing_objects_in_results: None,
    };
    let filter = CreateFilter { this: collector.clone(), spec, partial_updates: false };
    client.call(&filter).await.expect("a VM can be watched");
    let mut told = poll(&client, &collector, None).await;
    vcenter.forget_power_changes();
    let off = {
        let (vcenter, path) = (vcenter.clone(), path.to_owned());
        tokio::task::spawn_blocking(move || vcenter.govc(&["vm.power", "-off", "-force", &path]))
    };
    while !tells_of_power_off(&mut told) {
        told = poll(&client, &collector, Some(told.version)).await;
    }
    power_on(&client, machine.value()).await;
    off.await.expect("it does not panic").unwrap_or_else(|failure| panic!("{failure}"));
    off_times(&vcenter.power_changes())[0]
}

async fn poll(client: &Client, collector: &PropertyCollectorRef, version: Option<String>) -> UpdateSet {
    let poll = WaitForUpdatesEx { this: collector.clone(), version, options: None };
    let told = client.call_patiently(&poll, PATIENCE).await.expect("a poll is answered");
    told.expect("something happens")
}

fn tells_of_power_off(told: &mut UpdateSet) -> bool {
    let updates = told.filter_set.iter_mut().flat_map(|filter| &mut filter.object_set);
    let states = updates.map(|update| update.take(vm::RUNTIME_POWER_STATE).expect("a power state can be read"));
    states.into_iter().any(|state| state == Some(Some(VirtualMachinePowerState::PoweredOff)))
}

/// Powers a VM on, and waits until vCenter has noted it.
async fn power_on(client: &Client, machine: &str) {
    let request = PowerOnVMTask { this: VirtualMachineRef::new(machine), host: None };
    client.call(&request).await.expect("a VM can be powered on");
    while client.property(&request.this, vm::RUNTIME_POWER_STATE).await.expect("a VM can be read")
        != Some(VirtualMachinePowerState::PoweredOn)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
