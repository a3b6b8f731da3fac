//! What the user may not see or read, and what there is no more to see of a machine.

use serde_json::json;
use vim25::{
    Client, Inventory, ManagedObject,
    methods::{CreateFolder, FindByInventoryPath, PowerOnVMTask},
    refs::{FolderRef, VirtualMachineRef},
    types::ObjectContent,
};

use super::{
    TEMPLATE, clone, sandbox,
    watcher::{Watcher, client, finish, of, read, text},
};

const FOLDER: &str = "/DC0/vm/vm-operator";

async fn machine(client: &Client, name: &str) -> VirtualMachineRef {
    Inventory::new(client.clone()).find(None, &format!("{FOLDER}/{name}")).await.unwrap()
}

async fn folder(client: &Client) -> FolderRef {
    Inventory::new(client.clone()).find(None, FOLDER).await.unwrap()
}

fn missing(content: &ObjectContent) -> Vec<&str> {
    let all = content.missing_set.iter();
    all.map(|missing| {
        assert!(missing.fault.fault.is_named("NoPermission"), "{missing:?}");
        missing.path.as_str()
    })
    .collect()
}

#[tokio::test]
async fn a_machine_out_of_reach_has_no_config_and_takes_no_orders() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "lost", FOLDER).unwrap();
    let client = client(&vcenter);
    let lost = machine(&client, "lost").await;
    let paths = ["name", "runtime.connectionState", "config.uuid", "config.extraConfig", "summary.config.instanceUuid"];
    let mut watcher = Watcher::start(&client).await;
    watcher.watch(of(lost.reference(), &paths)).await;
    watcher.until("all", |told| told.get(lost.reference()).is_some_and(|told| told.set.len() == paths.len())).await;
    for (state, keeps_config, fault) in [
        ("inaccessible", false, "InvalidState"),
        ("orphaned", false, "InvalidState"),
        ("invalid", false, "InvalidState"),
        ("disconnected", true, "HostNotConnected"),
    ] {
        vcenter.control("PATCH", "/machines/lost", &json!({"connectionState": state})).unwrap();
        let count = if keeps_config { paths.len() } else { 2 };
        watcher
            .until(state, |told| {
                let set = &told[lost.reference()].set;
                set.len() == count && set["runtime.connectionState"].contains(state)
            })
            .await;
        let now = read(&client, &lost, &paths).await;
        assert_eq!(now.prop_set.len(), count, "{now:?}");
        let info = vcenter.govc(&["object.collect", "-s", &format!("{FOLDER}/lost"), "config.uuid"]);
        assert_eq!(info.is_ok_and(|shown| !shown.trim().is_empty()), keeps_config, "{state}: it is nobody's right");
        let refused = client.call(&PowerOnVMTask { this: lost.clone(), ..Default::default() }).await.unwrap_err();
        assert!(refused.fault().unwrap().is_named(fault), "{state}: {refused}");
    }
    vcenter.control("PATCH", "/machines/lost", &json!({"connectionState": "connected"})).unwrap();
    watcher.until("back", |told| told[lost.reference()].set["runtime.connectionState"].contains("\"connected")).await;
    finish(&client, client.call(&PowerOnVMTask { this: lost.clone(), ..Default::default() }).await).await.unwrap();
}

#[tokio::test]
async fn what_is_hidden_leaves_views_lists_and_answers_and_keeps_its_name() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "hidden", FOLDER).unwrap();
    clone(&vcenter, "seen", FOLDER).unwrap();
    vcenter.govc(&["folder.create", "/DC0/vm/secret"]).unwrap();
    clone(&vcenter, "within", "/DC0/vm/secret").unwrap();
    let client = client(&vcenter);
    let inventory = Inventory::new(client.clone());
    let (hidden, folder) = (machine(&client, "hidden").await, folder(&client).await);
    let root: FolderRef = inventory.find(None, "/DC0/vm").await.unwrap();
    let mut watcher = Watcher::start(&client).await;
    watcher.watch_below(&root, "VirtualMachine", &["name"]).await;
    watcher.watch(of(folder.reference(), &["childEntity"])).await;
    watcher.until("all", |told| told.len() == 5).await;

    vcenter.control("PUT", "/hidden", &json!({"machines": ["hidden"], "folders": ["/DC0/vm/secret"]})).unwrap();
    let children = |told: &std::collections::HashMap<_, super::watcher::Told>| {
        told[folder.reference()].set["childEntity"].matches("VirtualMachine").count()
    };
    watcher.until("two leave", |told| told.len() == 3 && children(told) == 2).await;
    assert!(!watcher.told.contains_key(hidden.reference()));

    let refused = client.retrieve(vec![of(hidden.reference(), &["name"])]).await.unwrap_err();
    assert!(refused.fault().unwrap().is_named("NoPermission"), "{refused}");
    let mut reported = of(hidden.reference(), &["name", "config.uuid"]);
    reported.report_missing_objects_in_results = Some(true);
    let found = client.retrieve(vec![reported]).await.unwrap();
    assert_eq!((found.len(), missing(&found[0])), (1, vec!["name", "config.uuid"]));
    let refused = client.call(&PowerOnVMTask { this: hidden.clone(), ..Default::default() }).await.unwrap_err();
    assert!(refused.fault().unwrap().is_named("NoPermission"), "{refused}");
    let this = client.content().await.unwrap().search_index.unwrap();
    let search = FindByInventoryPath { this, inventory_path: format!("{FOLDER}/hidden") };
    assert_eq!(client.call(&search).await.unwrap(), None);

    let taken = clone(&vcenter, "hidden", FOLDER).unwrap_err();
    assert!(taken.stderr.contains("DuplicateName"), "{taken}");
    let taken = client.call(&CreateFolder { this: root.clone(), name: "secret".to_owned() }).await.unwrap_err();
    assert!(taken.fault().unwrap().is_named("DuplicateName"), "{taken}");
    assert_eq!(vcenter.machines().len(), 4, "an administrator sees all");

    vcenter.control("PUT", "/hidden", &json!({})).unwrap();
    watcher.until("all are back", |told| told.len() == 5 && children(told) == 3).await;
    assert_eq!(read(&client, &hidden, &["name"]).await.prop_set.len(), 1);
}

#[tokio::test]
async fn what_may_not_be_read_is_said_to_be_missing() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "shy", FOLDER).unwrap();
    let client = client(&vcenter);
    let shy = machine(&client, "shy").await;
    let key = "config.extraConfig[\"mark\"]";
    let paths = ["name", key];
    let mut watcher = Watcher::start(&client).await;
    watcher.watch(of(shy.reference(), &paths)).await;
    watcher.until("no mark", |told| told.get(shy.reference()).is_some_and(|told| told.set.len() == 1)).await;

    let mark = |value: &str| {
        vcenter.govc(&["vm.change", "-vm", &format!("{FOLDER}/shy"), "-e", &format!("mark={value}")]).unwrap();
    };
    let has = |value: &str| {
        let (shy, value) = (shy.reference().clone(), value.to_owned());
        move |told: &std::collections::HashMap<_, super::watcher::Told>| {
            told[&shy].set.get(key).is_some_and(|option| option.contains(&value) && option.contains("OptionValue"))
        }
    };
    mark("one");
    watcher.until("a key of a list is told", has("one")).await;
    assert!(text(&read(&client, &shy, &paths).await, key).unwrap().contains("one"));

    vcenter.control("PUT", "/unreadable", &json!({"paths": ["config.extraConfig"]})).unwrap();
    watcher.until("it may not be read", |told| told[shy.reference()].missing.contains(key)).await;
    let now =
        read(&client, &shy, &["name", key, "config.extraConfig", "config.extraConfig[\"none\"]", "config.uuid"]).await;
    assert_eq!(missing(&now), [key, "config.extraConfig", "config.extraConfig[\"none\"]"]);
    assert_eq!(now.prop_set.len(), 2, "{now:?}");
    let template: VirtualMachineRef = Inventory::new(client.clone()).find(None, TEMPLATE).await.unwrap();
    watcher.watch(of(template.reference(), &paths)).await;
    watcher.until("a new one", |told| told.get(template.reference()).is_some_and(|t| t.missing.contains(key))).await;
    mark("two");

    vcenter.control("PUT", "/unreadable", &json!({})).unwrap();
    watcher.until("it is told again", has("two")).await;
    assert!(watcher.told[template.reference()].missing.is_empty(), "{:?}", watcher.told);
}
