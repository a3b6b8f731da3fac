//! What can be changed of a machine that runs, and which names can be had.

use drover_e2e::World;
use serde_json::json;
use vim25::{
    Client, Inventory,
    methods::{MoveIntoFolderTask, ReconfigVMTask, RenameTask},
    refs::{FolderRef, VirtualMachineRef},
    types::VirtualMachineConfigSpec,
};

use super::{
    clone, sandbox,
    watcher::{client, finish},
};

const FOLDER: &str = "/DC0/vm/vm-operator";

async fn reconfigure(client: &Client, machine: &VirtualMachineRef, spec: VirtualMachineConfigSpec) -> Option<String> {
    let request = ReconfigVMTask { this: machine.clone(), spec };
    let end = finish(client, client.call(&request).await).await;
    end.err().map(|error| error.fault().unwrap().name().to_owned())
}

fn memory(memory_mb: i64) -> VirtualMachineConfigSpec {
    VirtualMachineConfigSpec { memory_mb: Some(memory_mb), ..Default::default() }
}

fn cpus(num_cpus: i32) -> VirtualMachineConfigSpec {
    VirtualMachineConfigSpec { num_cpus: Some(num_cpus), ..Default::default() }
}

#[tokio::test]
async fn a_running_machine_takes_what_can_be_added_hot_and_no_more() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "hot", FOLDER).unwrap();
    let client = client(&vcenter);
    let hot: VirtualMachineRef = Inventory::new(client.clone()).find(None, &format!("{FOLDER}/hot")).await.unwrap();
    let power = |to: &str| vcenter.govc(&["vm.power", to, "-force", &format!("{FOLDER}/hot")]).unwrap();
    power("-on");
    let refusals = [
        (memory(2048), "InvalidPowerState"),
        (cpus(2), "InvalidPowerState"),
        (
            VirtualMachineConfigSpec { num_cores_per_socket: Some(2), num_cpus: Some(2), ..Default::default() },
            "InvalidPowerState",
        ),
    ];
    for (spec, fault) in refusals {
        assert_eq!(reconfigure(&client, &hot, spec).await.as_deref(), Some(fault));
    }
    assert_eq!(reconfigure(&client, &hot, memory(1024)).await, None, "it has as much");
    power("-off");
    let enabled = VirtualMachineConfigSpec {
        cpu_hot_add_enabled: Some(true),
        memory_hot_add_enabled: Some(true),
        ..VirtualMachineConfigSpec::default()
    };
    assert_eq!(reconfigure(&client, &hot, enabled).await, None);
    power("-on");
    let limits = json!({"hotPlugMemoryLimit": 16384, "hotPlugMemoryIncrementSize": 128});
    vcenter.control("PATCH", "/machines/hot", &limits).unwrap();
    for (spec, fault) in [
        (cpus(2), None),
        (cpus(1), Some("InvalidPowerState")),
        (memory(2048), None),
        (memory(2100), Some("InvalidVmConfig")),
        (memory(4096), Some("InvalidVmConfig")),
        (memory(1024), Some("InvalidPowerState")),
    ] {
        let what = format!("{:?} {:?}", spec.num_cpus, spec.memory_mb);
        assert_eq!(reconfigure(&client, &hot, spec).await.as_deref(), fault, "{what}");
    }
    power("-off");
    assert_eq!(reconfigure(&client, &hot, memory(4096)).await, None);
    power("-on");
    assert_eq!(reconfigure(&client, &hot, memory(8192)).await, None, "beyond 3 GB there is no such limit");
    assert_eq!(reconfigure(&client, &hot, memory(32768)).await.as_deref(), Some("InvalidVmConfig"));
}

#[tokio::test]
async fn a_name_that_is_taken_can_not_be_had_by_renaming_or_moving_either() {
    let vcenter = sandbox().own_vcenter();
    vcenter.govc(&["folder.create", "/DC0/vm/other"]).unwrap();
    clone(&vcenter, "one", FOLDER).unwrap();
    clone(&vcenter, "two", FOLDER).unwrap();
    clone(&vcenter, "one", "/DC0/vm/other").unwrap();
    let client = client(&vcenter);
    let inventory = Inventory::new(client.clone());
    let (two, other): (VirtualMachineRef, VirtualMachineRef) = (
        inventory.find(None, &format!("{FOLDER}/two")).await.unwrap(),
        inventory.find(None, "/DC0/vm/other/one").await.unwrap(),
    );
    let folder: FolderRef = inventory.find(None, FOLDER).await.unwrap();
    let rename = client.call(&RenameTask { this: two.into(), new_name: "one".to_owned() }).await;
    let moved = client.call(&MoveIntoFolderTask { this: folder, list: vec![other.into()] }).await;
    for task in [rename, moved] {
        let refused = finish(&client, task).await.unwrap_err();
        assert!(refused.fault().unwrap().is_named("DuplicateName"), "{refused}");
    }
}

#[test]
fn calls_to_machines_are_noted_whatever_comes_of_them() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "noted", FOLDER).unwrap();
    let _ = vcenter.take_touches("");
    let world = World::look(&vcenter).unwrap();
    let noted = world.vms.iter().find(|vm| vm.name == "noted").unwrap();
    let rule = vcenter.rule(&json!({"method": "PowerOnVM_Task", "fault": {"type": "InvalidState"}}));
    vcenter.govc(&["vm.power", "-on", &noted.path()]).unwrap_err();
    rule.assert_hit();
    vcenter.govc(&["folder.create", "/DC0/vm/noted-here"]).unwrap();
    vcenter.govc(&["object.mv", &noted.path(), "/DC0/vm/noted-here"]).unwrap();
    assert_eq!(vcenter.take_touches("drover"), []);
    let touches = vcenter.take_touches("govc");
    let methods: Vec<_> = touches.iter().map(|touch| touch.method.as_str()).collect();
    assert_eq!(methods, ["PowerOnVM_Task", "MoveIntoFolder_Task"]);
    assert!(touches.iter().all(|touch| touch.instance == noted.instance), "{touches:?}, {noted:?}");
    assert_eq!(vcenter.take_touches("govc"), [], "what was told is forgotten");
}
