//! One long poll tells of everything that is watched, and of nothing twice.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::{Value, json};
use vim25::{
    Collector, Error, Event, ManagedObject, ManagedObjectReference, Property, Scope, Update, Watch,
    enums::TaskInfoState,
    faults::ManagedObjectNotFound,
    keyed,
    methods::{CreateFolder, DestroyTask},
    props::{host_system, task},
    refs::{TaskRef, VirtualMachineRef},
    types::{OptionValue, PropertySpec},
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
async fn a_watch_that_a_new_session_refuses_at_first_is_set_up_again_by_itself_and_nothing_is_told_to_be_gone() {
    for method in ["CreateContainerView", "CreateFilter"] {
        let mut site = Site::new().await;
        let machine = site.machine("stays").await;
        let machines = site.collector.watch(machines_below(&site.folder));
        let other = site.collector.watch(Watch {
            scope: Scope::Object(object(&site.folder)),
            properties: vec![PropertySpec::of(&[&vim25::props::folder::NAME])],
        });
        let mut mirror = Mirror::default();
        mirror.until(&mut site.updates, "both", |m| m.is_synced(machines) && m.is_synced(other)).await;
        let before = mirror.objects.clone();
        site.vcenter.rule(&json!({"method": method, "client": "vim25", "count": 1, "fault": {"type": "SystemError"}}));
        super::session::expire(&site);
        mirror.until(&mut site.updates, "the refusal", |mirror| mirror.failed.len() == 1).await;
        assert!(mirror.failed[0].0 == machines, "{:?}", mirror.failed);
        assert_eq!(mirror.objects, before, "{method}: a failure tells nothing of what is there");
        mirror.until(&mut site.updates, "all is well", |m| m.is_synced(machines) && m.is_synced(other)).await;
        assert_eq!(mirror.objects, before);

        site.vcenter.govc(&["vm.power", "-on", &path("stays")]).unwrap();
        let on = |mirror: &Mirror| mirror.text(&machine, "runtime.powerState").as_deref() == Some("poweredOn");
        mirror.until(&mut site.updates, "it is followed again", on).await;
        assert_eq!(site.hits(), [1]);
    }
}

#[tokio::test]
async fn a_lost_session_makes_the_stream_blind_before_anything_else_and_each_watch_says_when_it_is_whole_again() {
    let mut site = Site::new().await;
    let machines = site.collector.watch(machines_below(&site.folder));
    let hosts = site.collector.watch(Watch {
        scope: Scope::Container { root: object(&site.datacenter), recursive: true },
        properties: vec![PropertySpec::of(&[&host_system::NAME])],
    });
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "both", |m| m.is_synced(machines) && m.is_synced(hosts)).await;
    for _ in 0..2 {
        site.settle().await;
        super::session::expire(&site);
        let first = tokio::time::timeout(SOON, site.updates.next()).await.unwrap().unwrap();
        let Event::Blind(why) = &first else { panic!("{first:?}") };
        assert!(why.is_session_lost(), "{why}");
        mirror.take_up(first);
        assert!(mirror.synced.is_empty());
        mirror.until(&mut site.updates, "both again", |m| m.is_synced(machines) && m.is_synced(hosts)).await;
    }
    assert_eq!((mirror.blinds, mirror.downs.len()), (2, 0), "{:?}", mirror.downs);
}

#[tokio::test]
async fn what_can_not_be_read_in_a_new_session_is_told_as_such_and_not_as_unset() {
    let mut site = Site::new().await;
    let machine = site.machine("dim").await;
    site.vcenter.govc(&["vm.change", "-vm", &path("dim"), "-e", "guestinfo.note=kept"]).unwrap();
    let watch = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.is_synced(watch)).await;
    let before = mirror.objects.clone();
    let extra_config = "config.extraConfig";
    assert!(mirror.text(&machine, extra_config).is_some_and(|config| config.contains("kept")));

    let unreadable = |site: &Site, paths: &[&str]| {
        site.vcenter.control("PUT", "/unreadable", &json!({"paths": paths})).unwrap();
        super::session::expire(site);
    };
    unreadable(&site, &[extra_config]);
    mirror.until(&mut site.updates, "it can't be read", |mirror| mirror.is_missing(&machine, extra_config)).await;
    mirror.until(&mut site.updates, "synced again", |mirror| mirror.is_synced(watch)).await;
    assert_eq!(mirror.objects, before, "what is known stays known");

    mirror.news.clear();
    unreadable(&site, &[]);
    mirror.until(&mut site.updates, "it can be read", |mirror| mirror.news.contains_key(machine.reference())).await;
    mirror.until(&mut site.updates, "synced once more", |mirror| mirror.is_synced(watch)).await;
    assert_eq!(mirror.objects, before);
}

#[tokio::test]
async fn one_element_of_a_list_is_told_by_its_key() {
    const NOTE: Property<VirtualMachineRef, OptionValue> =
        keyed!(vim25::props::virtual_machine::CONFIG_EXTRA_CONFIG, "guestinfo.note");
    let mut site = Site::new().await;
    let machine = site.machine("noted").await;
    site.collector.watch(Watch {
        scope: Scope::Object(object(&machine)),
        properties: vec![PropertySpec::of(&[&NOTE, &vim25::props::virtual_machine::NAME])],
    });
    let mut told = Vec::new();
    for value in ["first", "second"] {
        site.vcenter.govc(&["vm.change", "-vm", &path("noted"), "-e", &format!("guestinfo.note={value}")]).unwrap();
        while told.last().map(String::as_str) != Some(value) {
            let event = tokio::time::timeout(SOON, site.updates.next()).await.unwrap().unwrap();
            let Event::Updates(updates) = event else { panic!("{event:?}") };
            for update in updates {
                let Update::Changed { mut update, .. } = update else { continue };
                assert!(update.change_set.iter().all(|change| change.name != "config.extraConfig"), "{update:?}");
                if let Some(Some(note)) = update.take(NOTE).unwrap() {
                    assert_eq!(note.key, "guestinfo.note");
                    let Some(vim25::Any::String(value)) = note.value else { panic!("it has no text") };
                    told.push(value);
                }
            }
        }
    }
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
                Update::Synced { watch: Collector::TASKS } => {}
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

/// The states that the stream has told of each task, and which of them it has told to be gone.
#[derive(Default)]
struct Ends {
    states: HashMap<ManagedObjectReference, Vec<TaskInfoState>>,
    gone: HashSet<ManagedObjectReference>,
    blinds: usize,
}

impl Ends {
    /// Reads the stream until so many tasks have ended.
    async fn until(&mut self, site: &mut Site, ended: usize) {
        while self.ended() < ended {
            let event = tokio::time::timeout(SOON, site.updates.next()).await.expect("in time").unwrap();
            let updates = match event {
                Event::Updates(updates) => updates,
                Event::Blind(_) => {
                    self.blinds += 1;
                    continue;
                }
                other => panic!("{other:?}"),
            };
            for update in updates {
                match update {
                    Update::Changed { watch, mut update } if watch == Collector::TASKS => {
                        let info = update.take(task::INFO).unwrap().flatten().unwrap();
                        assert_eq!(object(&info.task), update.obj);
                        self.states.entry(update.obj).or_default().push(info.state);
                    }
                    Update::Gone { watch, object } if watch == Collector::TASKS => _ = self.gone.insert(object),
                    _ => {}
                }
            }
        }
    }

    fn ended(&self) -> usize {
        let ends = |states: &&Vec<TaskInfoState>| {
            states.iter().any(|state| matches!(state, TaskInfoState::Success | TaskInfoState::Error))
        };
        self.states.values().filter(ends).count()
    }
}

#[tokio::test]
async fn thirty_tasks_that_are_tracked_share_one_list_and_a_few_calls() {
    let mut site = Site::new().await;
    let watch = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.synced == [watch]).await;
    let mut tasks = HashSet::new();
    for round in 0..2 {
        let mut submitted = Vec::new();
        for n in 0..30 {
            submitted.push(site.submit_clone(&format!("tracked-{round}-{n}")).await.unwrap());
        }
        for task in submitted {
            site.collector.track(&task);
            tasks.insert(object(&task));
        }
        let mut ends = Ends::default();
        ends.until(&mut site, 30).await;
        assert!(ends.gone.is_empty(), "{:?}", ends.gone);
        assert!(ends.states.values().all(|states| states.last() == Some(&TaskInfoState::Success)), "{:?}", ends.states);
        assert!(ends.states.keys().all(|task| tasks.remove(task)), "it was tracked, and ends once");
    }
    let calls = |method| site.vcenter.calls(method, "vim25");
    assert_eq!((calls("CreateListView"), calls("CreateFilter")), (1, 2));
    assert!(calls("ModifyListView") <= 6, "{}", calls("ModifyListView"));
    assert!(calls("CancelWaitForUpdates") <= 2, "{}", calls("CancelWaitForUpdates"));
}

#[tokio::test]
async fn tracked_tasks_are_told_of_in_a_new_session_and_one_that_vcenter_does_not_know_is_gone() {
    let mut site = Site::new().await;
    site.vcenter
        .rule(&json!({"method": "CreateListView", "client": "vim25", "count": 1, "fault": {"type": "SystemError"}}));
    let none = TaskRef::new("task-none");
    site.collector.track(&none);
    let survivor = site.submit_clone("survivor").await.unwrap();
    site.collector.track(&survivor);
    let listed = async {
        while site.vcenter.calls("ModifyListView", "vim25") == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, listed).await.expect("it is on the list");
    let another = site.submit_clone("another").await.unwrap();
    site.collector.track(&another);
    super::session::expire(&site);
    let mut ends = Ends::default();
    ends.until(&mut site, 2).await;
    assert_eq!((ends.blinds, site.hits()), (1, vec![1]));
    assert_eq!(ends.gone, HashSet::from([object(&none)]));
    for task in [survivor, another] {
        let ended = ends.states[task.reference()].iter().filter(|state| **state == TaskInfoState::Success).count();
        assert_eq!(ended, 1);
        // It is on the list still, and whoever asks for it is told.
        site.follow(&task).await.unwrap();
    }
}

#[tokio::test]
async fn a_stopped_collector_leaves_nothing_in_vcenter_and_a_closed_client_no_session() {
    let mut site = Site::new().await;
    let watch = site.collector.watch(machines_below(&site.folder));
    let mut mirror = Mirror::default();
    mirror.until(&mut site.updates, "synced", |mirror| mirror.synced == [watch]).await;
    let before = super::session::logins(&site);
    site.collector.stop().await;
    assert!(site.updates.next().await.is_none());
    let calls = |method| site.vcenter.calls(method, "vim25");
    assert_eq!((calls("DestroyPropertyCollector"), calls("CreateContainerView")), (1, calls("DestroyView")));
    site.client.close().await.unwrap();
    let total = site.vcenter.all_calls("vim25");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((site.vcenter.all_calls("vim25"), super::session::logins(&site)), (total, before));
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
