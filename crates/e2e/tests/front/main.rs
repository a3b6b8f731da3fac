//! Each control of the vCenters' front does what `sandbox/README.md` says of it.

mod clones;
mod disks;
mod hardware;
mod sight;
mod tasks;
mod watcher;
mod watching;

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use drover_e2e::{MachineCounts, Sandbox, VCenter, eventually};
use serde_json::{Value, json};
use vim25::{
    Client, Collector, Inventory, ManagedObject,
    enums::TaskInfoState,
    methods::CloneVMTask,
    props::task,
    types::{VirtualMachineCloneSpec, VirtualMachineRelocateSpec},
};

const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";
const SOON: Duration = Duration::from_mins(1);

/// One vCenter for each test, and one more that is nobody's.
fn sandbox() -> &'static Sandbox {
    Sandbox::shared(&["--kubernetes=false", "--vcenters=42", "--clone-delay=1s"])
}

fn clone(vcenter: &VCenter, name: &str, folder: &str) -> Result<String, drover_e2e::Failure> {
    // govc itself would refuse a name that a file on the datastore has.
    vcenter.govc(&["vm.clone", "-vm", TEMPLATE, "-folder", folder, "-force", "-on=false", name])
}

#[test]
fn calls_are_counted_by_method_and_client_until_reset() {
    let vcenter = sandbox().own_vcenter();
    vcenter.govc(&["folder.create", "/DC0/vm/counted"]).unwrap();
    assert_eq!(vcenter.calls("CreateFolder", ""), 1);
    assert_eq!(vcenter.calls("CreateFolder", "govc"), 1);
    assert_eq!(vcenter.calls("CreateFolder", "somebody-else"), 0);
    vcenter.control("DELETE", "/calls", &Value::Null).unwrap();
    assert_eq!(vcenter.calls("CreateFolder", ""), 0);
}

#[test]
fn bytes_are_counted_as_they_are_sent() {
    let vcenter = sandbox().own_vcenter();
    vcenter.govc(&["about"]).unwrap();
    let few = vcenter.bytes_sent("govc");
    vcenter.govc(&["find", "/", "-type", "m"]).unwrap();
    assert!(few > 0 && vcenter.bytes_sent("govc") > few);
    assert_eq!(vcenter.bytes_sent("somebody-else"), 0);
    vcenter.forget_calls();
    assert_eq!(vcenter.bytes_sent(""), 0);
}

#[test]
fn power_changes_are_noted_with_their_times() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "switched", "/DC0/vm/vm-operator").unwrap();
    assert_eq!(vcenter.power_changes(), []);
    for how in ["-on", "-off"] {
        vcenter.govc(&["vm.power", how, "-force", "/DC0/vm/vm-operator/switched"]).unwrap();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let [on, off] = vcenter.power_changes().try_into().unwrap();
    assert!(on.on && !off.on && on.machine == off.machine, "{on:?}, {off:?}");
    assert!(now - 60.0 < on.at && on.at <= off.at && off.at <= now, "{on:?}, {off:?}, {now}");
    vcenter.forget_power_changes();
    assert_eq!(vcenter.power_changes(), []);
}

#[test]
fn a_host_works_on_so_many_clones_at_a_time() {
    let flags = ["--kubernetes=false", "--hosts=2", "--clones-per-host=1", "--clone-delay=1s"];
    let sandbox = Sandbox::start("turns", &flags).unwrap();
    let began = Instant::now();
    let clones: Vec<_> = (0..4)
        .map(|n| {
            let vcenter = sandbox.vcenter().clone();
            thread::spawn(move || clone(&vcenter, &format!("one-of-four-{n}"), "/DC0/vm/vm-operator").unwrap())
        })
        .collect();
    for clone in clones {
        clone.join().unwrap();
    }
    assert!(began.elapsed() >= Duration::from_secs(2), "two at a time take two turns");
}

#[test]
fn a_clone_takes_as_long_as_the_flag_says() {
    let vcenter = sandbox().own_vcenter();
    let began = Instant::now();
    clone(&vcenter, "slow", "/DC0/vm/vm-operator").unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert!(vcenter.machines().contains(&"/DC0/vm/vm-operator/slow".to_owned()));
}

/// A clone that is to end powered on.
async fn powered_on_clone(client: &Client, name: &str, host: &str) -> CloneVMTask {
    let inventory = Inventory::new(client.clone());
    let datacenter = inventory.default_datacenter().await.unwrap();
    let location = VirtualMachineRelocateSpec {
        pool: Some(inventory.default_resource_pool(&datacenter).await.unwrap()),
        host: Some(inventory.find(None, host).await.unwrap()),
        ..Default::default()
    };
    CloneVMTask {
        this: inventory.find(None, TEMPLATE).await.unwrap(),
        folder: inventory.find(None, "/DC0/vm/vm-operator").await.unwrap(),
        name: name.to_owned(),
        spec: VirtualMachineCloneSpec { location, power_on: true, ..Default::default() },
    }
}

fn tasks(vcenter: &VCenter, object: &str) -> Vec<String> {
    let listed = vcenter.govc(&["object.collect", "-s", object, "recentTask"]).unwrap();
    listed.trim().split(',').map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn a_clone_that_powers_on_is_one_task_which_ends_when_the_machine_is_on() {
    let vcenter = sandbox().own_vcenter();
    let client = watcher::client(&vcenter);
    let (collector, _updates) = Collector::start(client.clone());
    let counts = |powered_on, cloning| MachineCounts { powered_on, cloning };
    let before = tasks(&vcenter, "TaskManager:TaskManager");

    let twin = powered_on_clone(&client, "twin", "DC0_C0_H1").await;
    let (first, second) = (client.call(&twin).await.unwrap(), client.call(&twin).await.unwrap());
    let state = client.property(&first, task::INFO_STATE).await.unwrap();
    assert_eq!((state, vcenter.machine_counts()), (Some(TaskInfoState::Running), counts(0, 2)));
    let both = [&first, &second].map(|task| format!("Task:{}", task.value()));
    for object in ["TaskManager:TaskManager", TEMPLATE] {
        let mut listed = tasks(&vcenter, object);
        listed.retain(|task| !before.contains(task));
        assert_eq!(listed, both, "{object}");
    }
    let ends = [collector.follow(&first).await, collector.follow(&second).await];
    let made: Vec<_> = ends.iter().flatten().collect();
    assert!(made.len() == 1 && made[0].result.is_some(), "{ends:?}");
    let refused = ends.iter().find_map(|end| end.as_ref().err()?.fault()).unwrap();
    assert!(refused.is_named("DuplicateName"), "{ends:?}");
    assert_eq!(vcenter.machine_counts(), counts(1, 0));

    vcenter.govc(&["host.maintenance.enter", "/DC0/host/DC0_C0/DC0_C0_H2"]).unwrap();
    let dark = powered_on_clone(&client, "dark", "DC0_C0_H2").await;
    let failed = collector.follow(&client.call(&dark).await.unwrap()).await.unwrap_err();
    assert!(failed.fault().unwrap().is_named("InvalidState"), "{failed}");
    assert!(vcenter.machines().contains(&"/DC0/vm/vm-operator/dark".to_owned()), "what can't be powered on stays");
    assert_eq!(vcenter.machine_counts(), counts(1, 0));
}

#[test]
fn latency_slows_only_its_method() {
    let vcenter = sandbox().own_vcenter();
    let latency = Duration::from_secs(3);
    vcenter.rule(&json!({"method": "CreateFolder", "latency": "3s"}));
    let took = |arguments: &[&str]| {
        let began = Instant::now();
        vcenter.govc(arguments).unwrap();
        began.elapsed()
    };
    assert!(took(&["folder.create", "/DC0/vm/late"]) >= latency);
    assert!(took(&["ls"]) < latency);
}

#[test]
fn a_fault_meets_the_next_calls_and_no_more() {
    let vcenter = sandbox().own_vcenter();
    let fault = json!({
        "type": "NoPermission", "message": "Permission to perform this operation was denied.",
        "fields": {"object": {"type": "Folder", "value": "group-v1"}, "privilegeId": "Folder.Create"},
    });
    vcenter.rule(&json!({"method": "CreateFolder", "skip": 1, "count": 2, "fault": fault}));
    let create = |name: &str| vcenter.govc(&["folder.create", &format!("/DC0/vm/{name}")]);
    create("first").unwrap();
    for _ in 0..2 {
        let refused = create("second").unwrap_err();
        assert!(refused.stderr.contains("Permission to perform this operation was denied."), "{refused}");
    }
    create("second").unwrap();
}

#[test]
fn a_share_of_the_calls_meets_a_fault_the_same_ones_each_time() {
    let vcenter = sandbox().own_vcenter();
    let refused = |round: u32| -> Vec<u32> {
        vcenter
            .rule(&json!({"method": "CreateFolder", "share": 0.5, "seed": 7, "fault": {"type": "HostCommunication"}}));
        let create = |n: &u32| vcenter.govc(&["folder.create", &format!("/DC0/vm/round-{round}-{n}")]).is_err();
        let hit = (0..20).filter(create).collect();
        vcenter.control("DELETE", "/rules", &Value::Null).unwrap();
        hit
    };
    let hit = refused(1);
    assert!((5..=15).contains(&hit.len()), "{hit:?}");
    assert_eq!(hit, refused(2));
}

#[test]
fn a_task_fails_after_its_time_and_leaves_nothing() {
    let vcenter = sandbox().own_vcenter();
    let fault = json!({"type": "InsufficientMemoryResourcesFault", "message": "The host has too little memory."});
    vcenter.rule(&json!({"method": "CloneVM_Task", "count": 1, "taskFault": fault}));
    let began = Instant::now();
    let failed = clone(&vcenter, "starved", "/DC0/vm/vm-operator").unwrap_err();
    assert!(failed.stderr.contains("The host has too little memory."), "{failed}");
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(vcenter.machines(), [TEMPLATE]);
    clone(&vcenter, "starved", "/DC0/vm/vm-operator").unwrap();
}

#[test]
fn a_dropped_call_is_lost_before_or_after_vcenter_has_seen_it() {
    let vcenter = sandbox().own_vcenter();
    let folders = || vcenter.govc(&["find", "/DC0/vm", "-type", "f"]).unwrap();
    vcenter.rule(&json!({"method": "CreateFolder", "count": 1, "drop": "before"}));
    vcenter.govc(&["folder.create", "/DC0/vm/lost"]).unwrap_err();
    assert!(!folders().contains("lost"), "{}", folders());
    vcenter.rule(&json!({"method": "CreateFolder", "count": 1, "drop": "after"}));
    vcenter.govc(&["folder.create", "/DC0/vm/made"]).unwrap_err();
    assert!(folders().contains("made"), "{}", folders());
}

#[test]
fn a_held_call_waits_before_or_after_vcenter_has_seen_it_until_the_rule_goes() {
    let vcenter = sandbox().own_vcenter();
    let folders = || vcenter.govc(&["find", "/DC0/vm", "-type", "f"]).unwrap();
    for (when, is_seen) in [("before", false), ("after", true)] {
        vcenter.rule(&json!({"method": "CreateFolder", "count": 1, "hold": when}));
        thread::scope(|scope| {
            let call = scope.spawn(|| vcenter.govc(&["folder.create", &format!("/DC0/vm/{when}")]));
            eventually(sandbox(), SOON, "the call is held", || {
                let rules = vcenter.control("GET", "/rules", &Value::Null)?;
                let is_so = rules[0]["hits"] == 1 && folders().contains(when) == is_seen;
                if is_so { Ok(()) } else { Err(format!("{rules} {}", folders())) }
            });
            assert!(!call.is_finished());
            vcenter.control("DELETE", "/rules", &Value::Null).unwrap();
            call.join().unwrap().unwrap();
        });
        assert!(folders().contains(when), "{}", folders());
    }
}

#[test]
fn an_outage_lasts_its_time_in_each_of_its_ways() {
    let vcenter = sandbox().own_vcenter();
    for (mode, seen) in [("refused", &["reset"][..]), ("unavailable", &["503"]), ("silent", &["reset", "EOF"])] {
        let began = Instant::now();
        vcenter.control("POST", "/outage", &json!({"for": "1500ms", "mode": mode})).unwrap();
        let failed = vcenter.govc(&["about"]).unwrap_err();
        assert!(seen.iter().any(|seen| failed.stderr.contains(seen)), "{mode}: {failed}");
        let is_unanswered = began.elapsed() >= Duration::from_millis(1500);
        assert_eq!(is_unanswered, mode == "silent", "{mode}: only silence lasts, {:?}", began.elapsed());
        eventually(sandbox(), SOON, "the vCenter is back", || vcenter.govc(&["about"]).map_err(|f| f.to_string()));
        assert!(began.elapsed() >= Duration::from_millis(1500), "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_vcenter_leaves_open_what_is_open() {
    let vcenter = sandbox().own_vcenter();
    let client = watcher::client(&vcenter);
    let template: vim25::refs::VirtualMachineRef = Inventory::new(client.clone()).find(None, TEMPLATE).await.unwrap();
    let mut watcher = watcher::Watcher::start(&client).await;
    watcher.watch(watcher::of(template.reference(), &["guest.ipAddress"])).await;
    watcher.poll(watcher::seconds(0)).await;
    let polling = tokio::spawn(async move { watcher.poll(watcher::seconds(30)).await });
    eventually(sandbox(), SOON, "the poll waits", || match vcenter.calls("WaitForUpdatesEx", "vim25") {
        0 | 1 => Err("not yet".to_owned()),
        _ => Ok(()),
    });
    vcenter.control("POST", "/outage", &json!({"for": "3s", "mode": "silent"})).unwrap();
    vcenter.control("PATCH", "/machines/vm-operator-template", &json!({"ip": "198.18.0.5"})).unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!polling.is_finished(), "neither an answer nor an end");
    assert!(polling.await.is_err(), "the answer of then is lost");
}

#[test]
fn expired_sessions_end_long_polls_and_need_a_new_login() {
    let vcenter = sandbox().own_vcenter();
    let watcher = vcenter.clone();
    let watch = thread::spawn(move || watcher.govc(&["object.collect", "-n=-1", TEMPLATE, "runtime.powerState"]));
    eventually(sandbox(), SOON, "the watch is waiting", || match vcenter.calls("WaitForUpdatesEx", "") {
        0 | 1 => Err("not yet".to_owned()),
        _ => Ok(()),
    });
    let expired = vcenter.control("DELETE", "/sessions", &Value::Null).unwrap();
    assert_eq!(expired, json!({"expired": 1}));
    let ended = watch.join().unwrap().unwrap_err();
    assert!(ended.stderr.contains("not authenticated"), "{ended}");

    let logins = vcenter.calls("Login", "");
    vcenter.govc(&["ls"]).unwrap();
    assert_eq!(vcenter.calls("Login", ""), logins + 1);
}

#[test]
fn properties_are_not_shown_without_a_session() {
    let vcenter = sandbox().own_vcenter();
    vcenter.rule(&json!({"method": "Login", "latency": "1ms"}));
    vcenter.govc(&["ls"]).unwrap();
    vcenter.control("PUT", "/password", &json!({"password": "another"})).unwrap();
    vcenter.govc(&["ls"]).expect("a session outlives a change of the password");
    vcenter.control("DELETE", "/sessions", &Value::Null).unwrap();
    let refused = vcenter.govc(&["ls"]).unwrap_err();
    assert!(refused.stderr.contains("Login failure"), "{refused}");

    let url = format!("https://{}/sdk", vcenter.host);
    let environment = [("GOVC_URL", url.as_str()), ("GOVC_USERNAME", &vcenter.user), ("GOVC_PASSWORD", "another")];
    let environment: BTreeMap<_, _> = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    vcenter.seen_with(&environment).govc(&["ls"]).unwrap();
}

#[test]
fn a_machines_guest_and_load_can_be_set() {
    let vcenter = sandbox().own_vcenter();
    clone(&vcenter, "guest", "/DC0/vm/vm-operator").unwrap();
    let state = json!({
        "ip": "198.18.0.9", "addresses": ["198.18.0.9", "fe80::9"], "tools": "guestToolsRunning", "cpuMHz": 777, "guestMemoryMB": 55,
    });
    vcenter.control("PATCH", "/machines/guest", &state).unwrap();
    let seen = vcenter.govc(&[
        "object.collect",
        "-s",
        "/DC0/vm/vm-operator/guest",
        "guest.ipAddress",
        "guest.toolsRunningStatus",
        "summary.quickStats.guestMemoryUsage",
        "summary.quickStats.overallCpuUsage",
    ]);
    assert_eq!(seen.unwrap(), "198.18.0.9\nguestToolsRunning\n55\n777\n");
    let refused = vcenter.control("PATCH", "/machines/nobody", &json!({})).unwrap_err();
    assert_eq!(refused, r#"0 machines are called "nobody""#);
}

#[test]
fn a_folder_is_destroyed_after_the_clones_into_it_and_with_all_inside() {
    let vcenter = sandbox().own_vcenter();
    vcenter.govc(&["folder.create", "/DC0/vm/doomed"]).unwrap();
    vcenter.govc(&["folder.create", "/DC0/vm/doomed/inner"]).unwrap();
    clone(&vcenter, "there", "/DC0/vm/doomed/inner").unwrap();
    let cloner = vcenter.clone();
    let cloning = thread::spawn(move || clone(&cloner, "late", "/DC0/vm/doomed"));
    eventually(sandbox(), SOON, "the second clone is on its way", || match vcenter.calls("CloneVM_Task", "") {
        2 => Ok(()),
        n => Err(format!("{n} clones")),
    });
    vcenter.govc(&["object.destroy", "/DC0/vm/doomed"]).unwrap();
    cloning.join().unwrap().expect("the clone was let finish");
    assert_eq!(vcenter.machines(), [TEMPLATE]);
    assert!(!vcenter.govc(&["find", "/DC0/vm", "-type", "f"]).unwrap().contains("doomed"));
}

#[test]
fn a_control_that_makes_no_sense_is_refused_with_a_reason() {
    let vcenter = sandbox().vcenter();
    let refusals = [
        ("POST", "/rules", json!({"method": "CloneV", "latency": "1s"}), r#"there is no method "CloneV""#),
        ("POST", "/rules", json!({"method": "*", "latency": "soon"}), r#"latency "soon""#),
        ("POST", "/rules", json!({"method": "*", "fault": {"type": "Nope"}}), r#"there is no fault "Nope""#),
        ("POST", "/rules", json!({"method": "*", "fault": {"type": "HostSystem"}}), "HostSystem"),
        (
            "POST",
            "/rules",
            json!({"method": "*", "fault": {"type": "NotFound", "fields": {"x": 1}}}),
            "the fields of NotFound",
        ),
        ("POST", "/rules", json!({"method": "Login", "taskFault": {"type": "NotFound"}}), "Login submits no task"),
        ("POST", "/rules", json!({"method": "*", "share": 2, "drop": "after"}), "share 2"),
        ("POST", "/rules", json!({"method": "*", "drop": "sometimes"}), r#"drop "sometimes""#),
        ("POST", "/rules", json!({"method": "*"}), "a rule has one of"),
        ("POST", "/rules", json!({"method": "*", "latncy": "1s"}), "unknown field"),
        ("DELETE", "/rules/77", Value::Null, "there is no rule 77"),
        ("POST", "/outage", json!({"for": "long"}), r#"for "long""#),
        ("POST", "/outage", json!({"for": "1s", "mode": "odd"}), r#"mode "odd""#),
        ("PUT", "/password", json!({}), "password is missing"),
        ("PUT", "/privileges", json!({"missing": ["fly"]}), "give privileges such as Folder.Create"),
        ("PUT", "/certificate", json!({"certificate": "x", "key": "y"}), "both as PEM text"),
        ("PATCH", "/machines/x", json!({"tools": "fine"}), r#"tools "fine""#),
        ("POST", "/rules", json!({"method": "Login", "tell": "1s"}), "tell: Login submits no task"),
        ("POST", "/rules", json!({"method": "*", "tell": "late"}), r#"tell "late""#),
        (
            "POST",
            "/rules",
            json!({"method": "*", "taskFault": {"type": "NotFound", "when": "never"}}),
            r#"when "never""#,
        ),
        ("PUT", "/hidden", json!({"machines": ["nobody"]}), r#"0 machines are called "nobody""#),
        ("PUT", "/unreadable", json!({"paths": [""]}), "give property paths"),
        ("PUT", "/recent-tasks", json!({}), "notify is missing"),
        ("DELETE", "/hosts/none", Value::Null, r#"0 hosts are called "none""#),
        ("POST", "/noise", json!({"rate": -1}), "rate -1"),
        ("POST", "/strangers", json!({"machines": 0}), "give machines"),
        ("PATCH", "/machines/x", json!({"connectionState": "fine"}), r#"connectionState "fine""#),
        ("GET", "/elsewhere", Value::Null, "no such control"),
    ];
    for (method, path, body, reason) in refusals {
        let refused = vcenter.control(method, path, &body).expect_err(&body.to_string());
        assert!(refused.contains(reason), "{method} {path} {body}: {refused}");
    }
}
