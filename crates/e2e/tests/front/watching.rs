//! Of which changes vCenter tells, and how much at once.

use std::{collections::HashMap, time::Duration};

use drover_e2e::VCenter;
use serde_json::json;
use vim25::{
    Client, Inventory, ManagedObject, ManagedObjectReference,
    methods::{CreateFolder, CreateListView, ModifyListView},
    refs::{FolderRef, VirtualMachineRef},
    types::WaitOptions,
};

use super::{
    TEMPLATE, clone, powered_on_clone, sandbox,
    watcher::{Told, Watcher, client, listed, of, properties, read, seconds, text},
};

const FOLDER: &str = "/DC0/vm/vm-operator";

async fn find<T: ManagedObject>(client: &Client, path: &str) -> T {
    Inventory::new(client.clone()).find(None, path).await.unwrap()
}

#[tokio::test]
async fn an_answer_tells_all_at_once_unless_the_client_asks_for_pages() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let folder: FolderRef = find(&client, FOLDER).await;
    for n in 0..120 {
        client.call(&CreateFolder { this: folder.clone(), name: format!("folder-{n}") }).await.unwrap();
    }
    let mut whole = Watcher::start(&client).await;
    whole.watch_below(&folder, "Folder", &["name"]).await;
    let answer = whole.poll(seconds(0)).await.unwrap();
    assert_eq!((whole.told.len(), answer.truncated.unwrap_or(false)), (120, false));

    let mut paged = Watcher::start(&client).await;
    paged.watch_below(&folder, "Folder", &["name"]).await;
    for (told, truncated) in [(50, true), (100, true), (120, false)] {
        let options = WaitOptions { max_wait_seconds: Some(5), max_object_updates: Some(50) };
        let answer = paged.poll(options).await.unwrap();
        assert_eq!((paged.told.len(), answer.truncated.unwrap_or(false)), (told, truncated));
    }
}

#[tokio::test]
async fn quick_stats_are_told_with_a_new_object_and_never_again() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let template: VirtualMachineRef = find(&client, TEMPLATE).await;
    let usage = "summary.quickStats.overallCpuUsage";
    let mut watcher = Watcher::start(&client).await;
    watcher.watch(of(template.reference(), &[usage, "guest.ipAddress"])).await;
    watcher.watch_below(&find::<FolderRef>(&client, "/DC0/host").await, "HostSystem", &[usage]).await;
    watcher.until("all", |told| told.len() == 5).await;
    let before = watcher.told.clone();
    vcenter.control("PATCH", "/machines/vm-operator-template", &json!({"cpuMHz": 4242})).unwrap();
    vcenter.control("PATCH", "/hosts/DC0_C0_H1", &json!({"cpuMHz": 4242})).unwrap();
    watcher.listen(Duration::from_millis(300)).await;
    assert_eq!(watcher.told, before);
    vcenter.control("PATCH", "/machines/vm-operator-template", &json!({"ip": "198.18.0.3"})).unwrap();
    watcher.until("the address", |told| told[template.reference()].set.contains_key("guest.ipAddress")).await;
    assert_eq!(watcher.told[template.reference()].set[usage], before[template.reference()].set[usage]);
    assert!(text(&read(&client, &template, &[usage]).await, usage).unwrap().contains("4242"));
}

#[tokio::test]
async fn own_tasks_are_followed_by_a_list_also_where_recent_ones_are_not_told() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let content = client.content().await.unwrap();
    let manager: ManagedObjectReference = content.task_manager.clone().unwrap().into();
    let state = || properties("Task", &["info.state"]);
    vcenter.control("PUT", "/recent-tasks", &json!({"notify": false})).unwrap();
    let mut recent = Watcher::start(&client).await;
    recent.watch(listed(&manager, "recentTask", state())).await;
    recent.poll(seconds(0)).await.unwrap();
    let before = recent.told.clone();
    assert!(!before.is_empty());

    let mut own = Watcher::start(&client).await;
    let list = CreateListView { this: content.view_manager.unwrap(), obj: Vec::new() };
    let list = client.call(&list).await.unwrap();
    own.watch(listed(list.reference(), "view", state())).await;
    own.poll(seconds(0)).await;
    let task = client.call(&powered_on_clone(&client, "listed", "DC0_C0_H1").await).await.unwrap();
    let change = |add: bool| {
        let (it, none) = (vec![task.reference().clone()], Vec::new());
        let (add, remove) = if add { (it, none) } else { (none, it) };
        ModifyListView { this: list.clone(), add, remove }
    };
    client.call(&change(true)).await.unwrap();
    let is = |value: &'static str| {
        let task = task.reference().clone();
        move |told: &HashMap<_, Told>| told.get(&task).is_some_and(|told: &Told| told.set["info.state"].contains(value))
    };
    own.until("it runs", is("running")).await;
    own.until("it has ended", is("success")).await;
    recent.listen(Duration::from_millis(200)).await;
    assert_eq!(recent.told, before, "nothing is told of recent tasks");
    client.call(&change(false)).await.unwrap();
    own.until("it is off the list", HashMap::is_empty).await;

    vcenter.control("PUT", "/recent-tasks", &json!({"notify": true})).unwrap();
    recent.until("recent tasks are told again", is("success")).await;
}

#[tokio::test]
async fn others_come_and_go_and_change_their_machines() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    vcenter.control("POST", "/strangers", &json!({"machines": 300, "extraConfigBytes": 2048})).unwrap();
    let mut watcher = Watcher::start(&client).await;
    let all: FolderRef = find(&client, "/DC0/vm").await;
    watcher.watch_below(&all, "VirtualMachine", &["name", "config.extraConfig", "runtime.powerState"]).await;
    watcher.until("the strangers", |told| told.len() == 301).await;
    let stranger: VirtualMachineRef = find(&client, "/DC0/vm/strangers/stranger-7").await;
    assert!(watcher.told[stranger.reference()].set["config.extraConfig"].len() > 2048);
    vcenter.control("DELETE", "/strangers", &json!(null)).unwrap();
    watcher.until("they are gone", |told| told.len() == 1).await;

    watcher.log.clear();
    vcenter.control("POST", "/noise", &json!({"rate": 40})).unwrap();
    watcher.listen(Duration::from_secs(3)).await;
    vcenter.control("POST", "/noise", &json!({"rate": 0})).unwrap();
    assert!(watcher.log.len() > 20, "{}", watcher.log.len());
    let listed = vcenter.govc(&["tasks", "-n=100", "-json"]).unwrap();
    assert!(listed.contains("Noise"), "{listed}");
    watcher.listen(Duration::from_secs(1)).await;
    watcher.log.clear();
    watcher.listen(Duration::from_millis(500)).await;
    assert!(watcher.log.is_empty(), "it is over: {:?}", watcher.log);
}

#[tokio::test]
async fn a_machine_that_is_moved_leaves_one_view_and_enters_another() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "mover", FOLDER).unwrap();
    vcenter.govc(&["folder.create", "/DC0/vm/other"]).unwrap();
    let client = client(&vcenter);
    let mover: VirtualMachineRef = find(&client, &format!("{FOLDER}/mover")).await;
    let (mut here, mut there) = (Watcher::start(&client).await, Watcher::start(&client).await);
    here.watch_below(&find::<FolderRef>(&client, FOLDER).await, "VirtualMachine", &["name"]).await;
    there.watch_below(&find::<FolderRef>(&client, "/DC0/vm/other").await, "VirtualMachine", &["name"]).await;
    here.until("it is here", |told| told.contains_key(mover.reference())).await;
    vcenter.govc(&["object.mv", &format!("{FOLDER}/mover"), "/DC0/vm/other"]).unwrap();
    there.until("it is there", |told| told.contains_key(mover.reference())).await;
    here.until("it is here no more", |told| !told.contains_key(mover.reference())).await;
}

#[tokio::test]
async fn a_new_resource_pool_is_told_of_and_so_are_networks_of_every_kind() {
    let vcenter = sandbox().own_vcenter();
    let client = client(&vcenter);
    let mut watcher = Watcher::start(&client).await;
    watcher.watch_below(&find::<FolderRef>(&client, "/DC0/host").await, "ResourcePool", &["name"]).await;
    watcher.watch_below(&find::<FolderRef>(&client, "/DC0/network").await, "Network", &["name"]).await;
    let has = |kind: &'static str, name: &'static str| {
        move |told: &HashMap<ManagedObjectReference, Told>| {
            told.iter().any(|(object, told)| {
                object.type_name() == kind && told.set.get("name").is_some_and(|is| is.contains(name))
            })
        }
    };
    watcher.until("a network", has("Network", "VM Network")).await;
    watcher.until("a port group", has("DistributedVirtualPortgroup", "DC0_DVPG0")).await;
    vcenter.govc(&["pool.create", "*/Resources/small"]).unwrap();
    watcher.until("the new pool", has("ResourcePool", "small")).await;
    let known = watcher.told.len();
    vcenter.govc(&["cluster.create", "C9"]).unwrap();
    watcher.until("the new cluster's own pool", |told| told.len() == known + 1).await;
}

/// A host that the template isn't on.
fn host_without_template(vcenter: &VCenter) -> &'static str {
    let host = vcenter.govc(&["object.collect", "-s", TEMPLATE, "runtime.host"]).unwrap();
    let name = vcenter.govc(&["object.collect", "-s", host.trim(), "name"]).unwrap();
    if name.trim() == "DC0_C0_H2" { "DC0_C0_H1" } else { "DC0_C0_H2" }
}

#[tokio::test]
async fn a_host_goes_with_its_machines_and_comes_back_with_new_ids_for_the_same() {
    let vcenter = sandbox().own_vcenter();
    let host = host_without_template(&vcenter);
    let control = format!("/hosts/{host}");
    for name in ["stays", "taken"] {
        vcenter.govc(&["vm.clone", "-vm", TEMPLATE, "-folder", FOLDER, "-host", host, "-on=true", name]).unwrap();
    }
    vcenter.govc(&["vm.change", "-vm", &format!("{FOLDER}/stays"), "-e", "mark=mine"]).unwrap();
    let client = client(&vcenter);
    let stays: VirtualMachineRef = find(&client, &format!("{FOLDER}/stays")).await;
    let paths = ["name", "config.instanceUuid", "config.uuid", "runtime.powerState", "config.extraConfig[\"mark\"]"];
    let was = read(&client, &stays, &paths).await.prop_set;
    let mut watcher = Watcher::start(&client).await;
    watcher.watch_below(&find::<FolderRef>(&client, "/DC0/vm").await, "VirtualMachine", &["name"]).await;
    watcher.watch_below(&find::<FolderRef>(&client, "/DC0/host").await, "HostSystem", &["name"]).await;
    watcher.until("all", |told| told.len() == 7).await;
    let tasks = super::tasks(&vcenter, "TaskManager:TaskManager");
    vcenter.control("DELETE", &control, &json!(null)).unwrap();
    watcher.until("the host and two machines are gone", |told| told.len() == 4).await;
    assert_eq!(super::tasks(&vcenter, "TaskManager:TaskManager"), tasks, "no task tells of it");
    let gone = client.retrieve(vec![of(stays.reference(), &["name"])]).await.unwrap_err();
    assert!(gone.fault().unwrap().is_named("ManagedObjectNotFound"), "{gone}");
    clone(&vcenter, "taken", FOLDER).unwrap();

    vcenter.control("POST", &control, &json!(null)).unwrap();
    watcher.until("all are back", |told| told.len() == 8).await;
    let again: VirtualMachineRef = find(&client, &format!("{FOLDER}/stays")).await;
    assert_ne!(again, stays);
    assert_eq!(read(&client, &again, &paths).await.prop_set, was);
    assert!(vcenter.machines().contains(&format!("{FOLDER}/taken (1)")), "{:?}", vcenter.machines());
    vcenter.govc(&["vm.power", "-off", "-force", &format!("{FOLDER}/stays")]).unwrap();
    vcenter.govc(&["vm.clone", "-vm", TEMPLATE, "-folder", FOLDER, "-host", host, "-on=true", "new"]).unwrap();
    let refused = vcenter.control("POST", &control, &json!(null)).unwrap_err();
    assert!(refused.contains("is away"), "{refused}");
}

#[tokio::test]
async fn a_machine_that_is_registered_again_is_what_it_was() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "files", FOLDER).unwrap();
    let path = format!("{FOLDER}/files");
    vcenter.govc(&["vm.change", "-vm", &path, "-e", "mark=mine", "-c", "2"]).unwrap();
    let seen = || {
        let paths = ["config.instanceUuid", "config.uuid", "config.hardware.numCPU", "config.extraConfig[\"mark\"]"];
        paths.map(|property| vcenter.govc(&["object.collect", "-s", &path, property]).unwrap())
    };
    let before = seen();
    let file = vcenter.govc(&["object.collect", "-s", &path, "config.files.vmPathName"]).unwrap();
    let file = file.trim().trim_start_matches("[LocalDS_0] ");
    vcenter.govc(&["vm.unregister", &path]).unwrap();
    assert!(!vcenter.machines().contains(&path));
    let pool = "/DC0/host/DC0_C0/Resources";
    vcenter
        .govc(&["vm.register", "-folder", FOLDER, "-pool", pool, "-ds", "LocalDS_0", "-name", "files", file])
        .unwrap();
    assert_eq!(seen(), before);
}
