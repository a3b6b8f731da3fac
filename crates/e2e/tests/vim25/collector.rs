//! One long poll tells of everything that is watched, and of nothing twice.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};
use vim25::{
    Error, Event, ManagedObject, ManagedObjectReference, Property, Scope, Update, Watch,
    faults::ManagedObjectNotFound,
    methods::{CreateFolder, DestroyTask},
    props::{host_system, task},
    refs::{TaskRef, VirtualMachineRef},
    types::PropertySpec,
};

use super::{
    SOON, Site,
    mirror::{Mirror, fresh, machine_properties},
    object, path,
};

fn machines_below(root: &impl ManagedObject) -> Watch {
    Watch { scope: Scope::Container { root: object(root), recursive: true }, properties: machine_properties() }
}

#[tokio::test]
async fn a_change_made_in_vcenter_is_told_to_the_watch_it_concerns() {
    let mut site = Site::new().await;
    let watch = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "the first state", |mirror| mirror.synced == [watch]).await;
    assert_eq!(mirror.objects.keys().collect::<Vec<_>>(), [site.template.reference()]);

    site.vcenter
        .govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", super::FOLDER, "-on=false", "new"])
        .unwrap();
    mirror.until(&mut site.updates, "the machine comes", |mirror| mirror.objects.len() == 2).await;
    site.vcenter.govc(&["vm.power", "-on", &path("new")]).unwrap();
    site.vcenter.control("PATCH", "/machines/new", &json!({"ip": "198.18.0.9"})).unwrap();
    let machine: VirtualMachineRef = site.inventory.find(None, &path("new")).await.unwrap();
    mirror
        .until(&mut site.updates, "it runs and has an address", |mirror| {
            mirror.text(&machine, "runtime.powerState").as_deref() == Some("poweredOn")
                && mirror.text(&machine, "guest.ipAddress").as_deref() == Some("198.18.0.9")
        })
        .await;
    assert_eq!(mirror.objects, fresh(&site).await);
    site.vcenter.govc(&["vm.destroy", &path("new")]).unwrap();
    mirror.until(&mut site.updates, "the machine goes", |mirror| mirror.objects.len() == 1).await;
}

#[tokio::test]
async fn watches_come_and_go_while_the_poll_runs() {
    let mut site = Site::new().await;
    let machines = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "the first", |mirror| mirror.synced == [machines]).await;
    let hosts = site.collector.watch(Watch {
        scope: Scope::Container { root: object(&site.datacenter), recursive: true },
        properties: vec![PropertySpec::of(&[&host_system::NAME])],
    });
    mirror.until(&mut site.updates, "the second", |mirror| mirror.synced == [machines, hosts]).await;
    assert_eq!(mirror.objects.keys().filter(|object| object.type_name() == "HostSystem").count(), 4);

    site.collector.unwatch(machines);
    let empty = site.client.call(&CreateFolder { this: site.folder.clone(), name: "empty".to_owned() }).await.unwrap();
    let nothing = site.collector.watch(machines_below(&empty));
    mirror.until(&mut site.updates, "an empty one", |mirror| mirror.synced == [machines, hosts, nothing]).await;
    mirror.news.clear();
    site.vcenter.control("PATCH", "/machines/vm-operator-template", &json!({"ip": "198.18.0.7"})).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let last = site.collector.watch(machines_below(&empty));
    mirror.until(&mut site.updates, "one more", |mirror| mirror.synced.last() == Some(&last)).await;
    assert_eq!(mirror.news.get(site.template.reference()), None, "nobody watches it any more");
}

#[tokio::test]
async fn a_list_of_tasks_is_followed_as_it_grows() {
    let mut site = Site::new().await;
    let content = site.client.content().await.unwrap();
    let by: ManagedObjectReference = content.task_manager.unwrap().into();
    let properties = vec![PropertySpec::of(&[&task::INFO_STATE])];
    site.collector.watch(Watch { scope: Scope::Listed { by, path: "recentTask".to_owned() }, properties });
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "the tasks so far", |mirror| mirror.synced.len() == 1).await;
    let task = site.submit_clone("listed").await.unwrap();
    let state = |mirror: &Mirror| format!("{:?}", mirror.objects.get(task.reference()));
    mirror.until(&mut site.updates, "its end", |mirror| state(mirror).contains("success")).await;
}

#[tokio::test]
async fn a_watch_that_can_not_be_set_up_says_why_and_hurts_no_other() {
    let mut site = Site::new().await;
    let gone = site.collector.watch(Watch {
        scope: Scope::Container { root: ManagedObjectReference::new("Folder", "group-none"), recursive: true },
        properties: machine_properties(),
    });
    let good = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "both", |m| m.synced.contains(&good) && m.failed.len() == 1).await;
    let (watch, why) = &mirror.failed[0];
    assert!(*watch == gone && why.fault().unwrap().is::<ManagedObjectNotFound>(), "{why:?}");
    assert_eq!(mirror.objects.len(), 1);
}

#[tokio::test]
async fn an_outage_is_told_once_and_what_happened_in_it_afterwards() {
    let mut site = Site::new().await;
    let machine = site.machine("dropped").await;
    site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.synced.len() == 1).await;
    mirror.news.clear();
    // Whatever way the poll's connection breaks, the answers it may have carried must not be missed.
    site.vcenter.rule(&json!({"method": "WaitForUpdatesEx", "client": "vim25", "count": 1, "drop": "after"}));
    site.vcenter.govc(&["vm.power", "-on", &path("dropped")]).unwrap();
    let on = |mirror: &Mirror| mirror.text(&machine, "runtime.powerState").as_deref() == Some("poweredOn");
    mirror.until(&mut site.updates, "the power-on", on).await;
    site.vcenter.govc(&["vm.power", "-off", "-force", &path("dropped")]).unwrap();
    mirror.until(&mut site.updates, "the power-off", |mirror| !on(mirror)).await;

    let (downs, ups) = (mirror.downs.len(), mirror.ups);
    assert_eq!(downs, ups);
    site.vcenter.control("POST", "/outage", &json!({"for": "2s", "mode": "refused"})).unwrap();
    mirror.until(&mut site.updates, "down", |mirror| mirror.downs.len() == downs + 1).await;
    assert!(matches!(*mirror.downs[downs], Error::Transport(_) | Error::Login { .. }), "{:?}", mirror.downs);
    mirror.until(&mut site.updates, "up", |mirror| mirror.ups == ups + 1).await;
    site.vcenter.govc(&["vm.destroy", &path("dropped")]).unwrap();
    mirror.until(&mut site.updates, "gone", |mirror| mirror.objects.len() == 1).await;
    assert_eq!((mirror.downs.len(), mirror.ups), (downs + 1, ups + 1), "{:?}", mirror.downs);
    assert_eq!(mirror.objects, fresh(&site).await);
}

#[tokio::test]
async fn at_rest_one_poll_waits_and_nothing_else_is_asked() {
    let mut site = Site::new().await;
    site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.synced.len() == 1).await;
    let calls_in = async |time| {
        site.vcenter.control("DELETE", "/calls", &Value::Null).unwrap();
        tokio::time::sleep(time).await;
        site.vcenter.control("GET", "/calls", &Value::Null).unwrap()
    };
    // On a busy machine, the poll that is to wait may begin late.
    let quiet = async { while calls_in(Duration::from_millis(300)).await["total"] != 0 {} };
    tokio::time::timeout(SOON, quiet).await.expect("it comes to rest");
    let calls = calls_in(Duration::from_secs(2)).await;
    assert_eq!(calls["total"], 0, "{calls}");
}

#[tokio::test]
async fn what_does_not_fit_one_answer_arrives_before_its_watch_is_synced_and_so_does_what_is_watched_meanwhile() {
    let mut site = Site::new().await;
    // vCenter cuts an answer at 100 objects; folders are the cheapest of them.
    for n in 0..230 {
        let name = format!("folder-{n}");
        site.client.call(&CreateFolder { this: site.folder.clone(), name }).await.unwrap();
    }
    let name: Property<vim25::refs::FolderRef, String> = Property::new("name");
    let properties = vec![PropertySpec::of(&[&name])];
    let folders = site
        .collector
        .watch(Watch { scope: Scope::Container { root: object(&site.folder), recursive: true }, properties });
    let mut meanwhile = None;
    let mut seen = HashSet::new();
    let mut synced = Vec::new();
    let mut answers = 0;
    while synced.len() < 2 {
        let event =
            tokio::time::timeout(SOON, site.updates.next()).await.expect("in time").expect("the stream goes on");
        let Event::Updates(updates) = event else { panic!("{event:?}") };
        answers += 1;
        let template = || Watch { scope: Scope::Object(object(&site.template)), properties: machine_properties() };
        let of_template = *meanwhile.get_or_insert_with(|| site.collector.watch(template()));
        for update in updates {
            match update {
                Update::Changed { update, .. } => {
                    seen.insert(update.obj);
                }
                Update::Synced { watch } if watch == of_template => {
                    assert!(seen.contains(site.template.reference()), "it is told of before it is synced");
                    synced.push(watch);
                }
                Update::Synced { watch } => {
                    assert_eq!(watch, folders);
                    assert!(seen.len() >= 230, "{}", seen.len());
                    synced.push(watch);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(seen.len(), 231);
    assert!(answers >= 3, "{answers}");
}

#[tokio::test]
async fn a_task_can_be_cancelled_and_one_that_never_was_is_an_error() {
    let site = Site::new().await;
    let task = site.submit_clone("cancelled").await.unwrap();
    let (outcome, cancelled) = tokio::join!(site.follow(&task), site.collector.cancel(&task));
    cancelled.unwrap();
    let error = outcome.unwrap_err();
    assert!(error.fault().unwrap().is::<vim25::faults::RequestCanceled>(), "{error:?}");
    let error = site.follow(&TaskRef::new("task-none")).await.unwrap_err();
    assert!(
        error.fault().is_some_and(vim25::Fault::is::<ManagedObjectNotFound>) || matches!(error, Error::TaskGone { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn many_tasks_are_followed_at_once() {
    let site = Site::new().await;
    let names: Vec<_> = (0..12).map(|n| format!("many-{n}")).collect();
    let mut machines = HashSet::new();
    let mut submitted = Vec::new();
    for name in &names {
        submitted.push(site.submit_clone(name).await.unwrap());
    }
    for task in &submitted {
        machines.insert(super::machine_of(site.follow(task).await.unwrap()));
    }
    assert_eq!(machines.len(), names.len());
    for machine in machines {
        site.finish(site.client.call(&DestroyTask { this: machine.into() }).await).await.unwrap();
    }
    assert_eq!(site.vcenter.machines(), [path("vm-operator-template")]);
}
