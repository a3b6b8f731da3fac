//! What tasks say of themselves, and what is told of what they do.

use std::time::{Duration, Instant};

use drover_e2e::VCenter;
use serde_json::json;
use vim25::{
    Client, Inventory, ManagedObject,
    methods::{DestroyTask, PowerOnVMTask},
    props::virtual_machine,
    refs::{FolderRef, TaskRef, VirtualMachineRef},
    types::AnyTaskReason,
};

use super::{
    clone, powered_on_clone, sandbox, tasks,
    watcher::{Watcher, client, finish, of},
};

const FOLDER: &str = "/DC0/vm/vm-operator";

async fn machine(client: &Client, name: &str) -> VirtualMachineRef {
    Inventory::new(client.clone()).find(None, &format!("{FOLDER}/{name}")).await.unwrap()
}

async fn folder(client: &Client) -> FolderRef {
    Inventory::new(client.clone()).find(None, FOLDER).await.unwrap()
}

fn exists(vcenter: &VCenter, name: &str) -> bool {
    vcenter.machines().contains(&format!("{FOLDER}/{name}"))
}

#[tokio::test]
async fn a_task_says_who_asked_for_what() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let user = client.session().await.unwrap().user.user_name.clone();
    assert!(!user.is_empty());
    let cloned = client.call(&powered_on_clone(&client, "mine", "DC0_C0_H1").await).await;
    let cloned = finish(&client, cloned).await.unwrap();
    let mine = machine(&client, "mine").await;
    let off = vim25::methods::PowerOffVMTask { this: mine.clone() };
    let off = finish(&client, client.call(&off).await).await.unwrap();
    let destroyed = finish(&client, client.call(&DestroyTask { this: mine.into() }).await).await.unwrap();
    for (info, description) in
        [(cloned, "VirtualMachine.clone"), (off, "VirtualMachine.powerOff"), (destroyed, "VirtualMachine.destroy")]
    {
        assert_eq!(info.description_id, description);
        let AnyTaskReason::TaskReasonUser(reason) = &info.reason else { panic!("{:?}", info.reason) };
        assert_eq!(reason.user_name, user, "{description}");
    }
}

#[tokio::test]
async fn a_task_can_fail_after_it_has_acted_and_is_still_one_task() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let fault = json!({"type": "HostCommunication", "when": "after"});
    let methods = "CloneVM_Task,PowerOnVM_Task,Destroy_Task";
    vcenter.rule(&json!({"method": methods, "client": "vim25", "taskFault": fault}));
    let before = tasks(&vcenter, "TaskManager:TaskManager").len();

    let mut request = powered_on_clone(&client, "late", "DC0_C0_H1").await;
    request.spec.power_on = false;
    let fails = async |task: Result<TaskRef, vim25::Error>| {
        let failed = finish(&client, task).await.unwrap_err();
        assert!(failed.fault().unwrap().is_named("HostCommunication"), "{failed}");
    };
    fails(client.call(&request).await).await;
    assert!(exists(&vcenter, "late"));
    let late = machine(&client, "late").await;
    fails(client.call(&PowerOnVMTask { this: late.clone(), ..Default::default() }).await).await;
    assert_eq!(vcenter.machine_counts().powered_on, 1);
    vcenter.govc(&["vm.power", "-off", "-force", &format!("{FOLDER}/late")]).unwrap();
    fails(client.call(&DestroyTask { this: late.into() }).await).await;
    assert!(!exists(&vcenter, "late"));
    assert_eq!(tasks(&vcenter, "TaskManager:TaskManager").len(), before + 4);
}

#[tokio::test]
async fn the_effect_of_a_task_can_be_told_after_its_end() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "slow", FOLDER).unwrap();
    let client = client(&vcenter);
    let (slow, folder) = (machine(&client, "slow").await, folder(&client).await);
    let mut watcher = Watcher::start(&client).await;
    watcher.watch_below(&folder, "VirtualMachine", &["name", "runtime.powerState"]).await;
    watcher.until("both machines", |told| told.len() == 2).await;
    let late = Duration::from_secs(2);
    vcenter.rule(&json!({"method": "PowerOnVM_Task,CloneVM_Task,Destroy_Task", "tell": "2s"}));

    let task = client.call(&PowerOnVMTask { this: slow.clone(), ..Default::default() }).await.unwrap();
    watcher.watch(of(task.reference(), &["info.state"])).await;
    watcher
        .until("the task's end", |told| {
            told.get(task.reference()).is_some_and(|told| told.set["info.state"].contains("success"))
        })
        .await;
    let ended = Instant::now();
    let is_on = |told: &super::watcher::Told| told.set["runtime.powerState"].contains("poweredOn");
    assert!(!is_on(&watcher.told[slow.reference()]), "{:?}", watcher.told);
    let truth = client.property(&slow, virtual_machine::RUNTIME_POWER_STATE).await.unwrap();
    assert_eq!(format!("{truth:?}"), "Some(PoweredOn)");
    watcher.until("it is told", |told| is_on(&told[slow.reference()])).await;
    assert!(ended.elapsed() > late / 2, "{:?}", ended.elapsed());

    let mut request = powered_on_clone(&client, "new", "DC0_C0_H1").await;
    request.spec.power_on = false;
    finish(&client, client.call(&request).await).await.unwrap();
    watcher.poll(super::watcher::seconds(0)).await;
    assert!(exists(&vcenter, "new") && watcher.told.len() == 3, "{:?}", watcher.told);
    watcher.until("the machine comes", |told| told.len() == 4).await;
    let new = machine(&client, "new").await;
    finish(&client, client.call(&DestroyTask { this: new.into() }).await).await.unwrap();
    watcher.poll(super::watcher::seconds(0)).await;
    assert!(!exists(&vcenter, "new") && watcher.told.len() == 4, "{:?}", watcher.told);
    watcher.until("the machine goes", |told| told.len() == 3).await;
}
