//! What goes wrong in vCenter, and on the way to it. Each lasts for some seconds.

use std::{fs, thread, time::Duration};

use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use serde_json::{Value, json};

use crate::{
    edits::HOSTS,
    model,
    storm::{Kind, Storm},
};

/// What Drover changes VMs and folders with.
const CHANGES: &str = "CloneVM_Task,CreateFolder,Destroy_Task,MoveIntoFolder_Task,PowerOffVM_Task,PowerOnVM_Task,\
                       ReconfigVM_Task,Rename_Task,ShutdownGuest,SuspendVM_Task";
const TASKS: &str = "CloneVM_Task,Destroy_Task,MoveIntoFolder_Task,PowerOffVM_Task,PowerOnVM_Task,ReconfigVM_Task,Rename_Task,\
                     SuspendVM_Task";

const ACT_AND_FAIL: &str = "fault: tasks act and fail";
const RECENT_TASKS: &str = "/recent-tasks";
/// What leaves a VM destroyed without proof: its task says that it failed, or nobody is told of it.
pub(crate) const UNPROVING: [&str; 2] = [ACT_AND_FAIL, RECENT_TASKS];

/// Has vCenter misbehave towards Drover by a rule for a while.
fn by_rule(storm: &mut Storm, name: &'static str, methods: &str, effect: &Value) -> Option<String> {
    if storm.has(name) {
        return None;
    }
    let mut rule = json!({"method": methods, "client": "drover"});
    if let (Some(rule), Some(effect)) = (rule.as_object_mut(), effect.as_object()) {
        rule.extend(effect.clone());
    }
    let added = storm.vcenter.rule(&rule);
    let seconds = storm.chance.between(3, 15);
    storm.lasts(name, Kind::Free, seconds, move |storm| storm.hit(name, added.remove()));
    Some(format!("{effect} for {seconds} s"))
}

/// A share of all calls, another one each time.
fn share(storm: &mut Storm, name: &str, effect: &Value) -> Value {
    let share = [0.1, 0.2, 0.5][usize::try_from(storm.chance.below(3)).unwrap_or(0)];
    json!({"share": share, "seed": storm.chance.between(1, 1_000_000), name: effect})
}

fn passing_fault(storm: &mut Storm) -> Value {
    let faults = ["TaskInProgress", "HostCommunication", "SystemError", "InvalidState", "RequestCanceled"];
    json!({"type": storm.chance.pick(&faults)})
}

pub(crate) fn calls_fail(storm: &mut Storm) -> Option<String> {
    let fault = passing_fault(storm);
    let effect = share(storm, "fault", &fault);
    by_rule(storm, "fault: calls fail", "*", &effect)
}

pub(crate) fn tasks_fail(storm: &mut Storm) -> Option<String> {
    let fault = passing_fault(storm);
    let effect = share(storm, "taskFault", &fault);
    by_rule(storm, "fault: tasks fail", TASKS, &effect)
}

pub(crate) fn tasks_act_and_fail(storm: &mut Storm) -> Option<String> {
    let mut fault = passing_fault(storm);
    fault["when"] = json!("after");
    let effect = share(storm, "taskFault", &fault);
    storm.model.lose_all();
    by_rule(storm, ACT_AND_FAIL, TASKS, &effect)
}

pub(crate) fn no_room(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "taskFault", &json!({"type": "InsufficientMemoryResourcesFault"}));
    by_rule(storm, "fault: no room", "CloneVM_Task,PowerOnVM_Task", &effect)
}

pub(crate) fn no_disk_space(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "taskFault", &json!({"type": "NoDiskSpace"}));
    by_rule(storm, "fault: no disk space", "CloneVM_Task", &effect)
}

/// vCenter refuses what it is asked for by reasons that are none: that it isn't allowed, is gone, or has a name that is taken.
pub(crate) fn calls_refused(storm: &mut Storm) -> Option<String> {
    let faults = ["NoPermission", "ManagedObjectNotFound", "DuplicateName"];
    let fault = json!({"type": storm.chance.pick(&faults)});
    let effect = share(storm, "fault", &fault);
    by_rule(storm, "fault: calls refused", CHANGES, &effect)
}

pub(crate) fn calls_lost(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "drop", &json!("before"));
    by_rule(storm, "fault: calls lost", "*", &effect)
}

pub(crate) fn answers_lost(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "drop", &json!("after"));
    by_rule(storm, "fault: answers lost", "*", &effect)
}

pub(crate) fn slow(storm: &mut Storm) -> Option<String> {
    let latency = format!("{}ms", storm.chance.between(50, 3000));
    by_rule(storm, "fault: slow answers", "*", &json!({"latency": latency}))
}

pub(crate) fn hanging(storm: &mut Storm) -> Option<String> {
    let when = if storm.chance.percent(50) { "before" } else { "after" };
    let count = storm.chance.between(1, 3);
    by_rule(storm, "fault: hanging answers", CHANGES, &json!({"hold": when, "count": count}))
}

pub(crate) fn told_late(storm: &mut Storm) -> Option<String> {
    let effect = json!({"tell": "2s", "seed": storm.chance.between(1, 1_000_000)});
    by_rule(storm, "fault: told late", TASKS, &effect)
}

fn control(storm: &Storm, method: &str, path: &str, body: &Value) -> Result<Value, String> {
    storm.vcenter.control(method, path, body)
}

pub(crate) fn sessions_lost(storm: &mut Storm) -> Option<String> {
    control(storm, "DELETE", "/sessions", &Value::Null).ok().map(|_| String::new())
}

fn outage(storm: &mut Storm, mode: &str) -> Option<String> {
    if !storm.is_there() {
        return None;
    }
    let seconds = storm.chance.between(2, 20);
    let outage = json!({"for": format!("{}s", seconds + 60), "mode": mode});
    control(storm, "POST", "/outage", &outage).unwrap_or_else(|error| panic!("{error}"));
    storm.lasts("outage", Kind::Away, seconds, |storm| {
        control(storm, "POST", "/outage", &json!({"for": "0s"})).unwrap_or_else(|error| panic!("{error}"));
    });
    Some(format!("for {seconds} s"))
}

pub(crate) fn outage_refused(storm: &mut Storm) -> Option<String> {
    outage(storm, "refused")
}

pub(crate) fn outage_unavailable(storm: &mut Storm) -> Option<String> {
    outage(storm, "unavailable")
}

pub(crate) fn outage_silent(storm: &mut Storm) -> Option<String> {
    outage(storm, "silent")
}

/// Has the user's password changed in vCenter, and a while later in the Secret; and back again.
pub(crate) fn password(storm: &mut Storm) -> Option<String> {
    if !storm.is_there() {
        return None;
    }
    let set = |storm: &Storm, password: &str| {
        let set = control(storm, "PUT", "/password", &json!({"password": password}));
        set.unwrap_or_else(|error| panic!("{error}"));
    };
    set(storm, "another-password");
    let _ = sessions_lost(storm);
    let seconds = storm.chance.between(2, 10);
    storm.lasts("password", Kind::Away, seconds, move |storm| {
        storm.vcenter.declare_secret(storm.sandbox, "default", "another-password");
        storm.lasts("password", Kind::Away, seconds, move |storm| {
            set(storm, &storm.vcenter.password.clone());
            let _ = sessions_lost(storm);
            storm.vcenter.declare_secret(storm.sandbox, "default", &storm.vcenter.password.clone());
        });
    });
    Some(format!("for {seconds} s"))
}

/// Sets something of vCenter's, and takes it back after a while.
fn setting(storm: &mut Storm, path: &'static str, to: &Value, back: Value) -> Option<String> {
    if storm.has(path) {
        return None;
    }
    control(storm, "PUT", path, to).unwrap_or_else(|error| panic!("{error}"));
    let seconds = storm.chance.between(3, 15);
    storm.lasts(path, Kind::Free, seconds, move |storm| {
        control(storm, "PUT", path, &back).unwrap_or_else(|error| panic!("{error}"));
    });
    Some(format!("{to} for {seconds} s"))
}

pub(crate) fn privileges(storm: &mut Storm) -> Option<String> {
    let all = [
        "Datastore.AllocateSpace",
        "Folder.Create",
        "VirtualMachine.Config.CPUCount",
        "VirtualMachine.Config.Rename",
        "VirtualMachine.Interact.PowerOff",
        "VirtualMachine.Interact.PowerOn",
        "VirtualMachine.Interact.Suspend",
        "VirtualMachine.Inventory.Move",
        "VirtualMachine.Inventory.Delete",
        "VirtualMachine.Provisioning.DeployTemplate",
    ];
    let missing = json!({"missing": [storm.chance.pick(&all)]});
    // Everybody's, so people can do nothing, either.
    if !storm.is_there() {
        return None;
    }
    setting(storm, "/privileges", &missing, json!({"missing": []}))
}

pub(crate) fn unreadable(storm: &mut Storm) -> Option<String> {
    storm.model.lose_all();
    let path = if storm.chance.percent(50) { "config" } else { "config.extraConfig" };
    setting(storm, "/unreadable", &json!({"paths": [path]}), json!({}))
}

pub(crate) fn recent_tasks(storm: &mut Storm) -> Option<String> {
    storm.model.lose_all();
    setting(storm, RECENT_TASKS, &json!({"notify": false}), json!({"notify": true}))
}

/// Has vCenter hide what is to be hidden now, if it is still there: a VM may have been destroyed meanwhile.
fn hide(storm: &mut Storm) {
    loop {
        let all = json!({"machines": storm.hidden, "folders": storm.hidden_folders});
        let Err(error) = control(storm, "PUT", "/hidden", &all) else { return };
        let hidden = storm.hidden.len();
        storm.hidden.retain(|id| !error.contains(&format!("0 machines are called {id:?}")));
        assert!(storm.hidden.len() < hidden, "{error}");
    }
}

/// Takes a VM out of Drover's sight. An administrator sees it all the same.
pub(crate) fn hidden(storm: &mut Storm) -> Option<String> {
    if leaves_vms(storm) {
        return None;
    }
    let (key, vm) = storm.any_member()?;
    storm.disturb(&key);
    storm.model.lose(&key);
    storm.hidden.push(vm.id.clone());
    hide(storm);
    let seconds = storm.chance.between(2, 20);
    let id = vm.id.clone();
    storm.lasts("hidden", Kind::Free, seconds, move |storm| {
        storm.hidden.retain(|other| *other != id);
        hide(storm);
    });
    Some(format!("{} for {seconds} s", vm.path()))
}

/// Takes the folder of a group out of Drover's sight, with all that is in it.
pub(crate) fn folder_hidden(storm: &mut Storm) -> Option<String> {
    let key = storm.any_group().filter(|_| storm.is_in_sight() && !leaves_vms(storm))?;
    let path = model::folder(&key, &storm.model.groups[&key].spec);
    if storm.hidden_folders.contains(&path) || !storm.world()?.folders.contains(&path) {
        return None;
    }
    storm.disturb(&key);
    storm.model.lose(&key);
    storm.hidden_folders.push(path.clone());
    hide(storm);
    let seconds = storm.chance.between(2, 20);
    let shown = format!("{path} for {seconds} s");
    storm.lasts("folder hidden", Kind::Free, seconds, move |storm| {
        storm.hidden_folders.retain(|other| *other != path);
        hide(storm);
    });
    Some(shown)
}

/// Whether a group is being deleted whose VMs stay: it lets go of VMs that can't be seen as they are, so they had better be seen.
fn leaves_vms(storm: &Storm) -> bool {
    storm.model.going.iter().any(|going| going.policy != "Delete")
}

fn connection(storm: &mut Storm, states: &[&'static str]) -> Option<String> {
    if leaves_vms(storm) {
        return None;
    }
    let (key, vm) = storm.any_member()?;
    storm.disturb(&key);
    storm.model.lose(&key);
    let state = *storm.chance.pick(states)?;
    let path = format!("/machines/{}", vm.id);
    control(storm, "PATCH", &path, &json!({"connectionState": state})).ok()?;
    let seconds = storm.chance.between(2, 20);
    storm.lasts("connection", Kind::Blinding, seconds, move |storm| {
        // It may be gone by now, with its host.
        let _ = control(storm, "PATCH", &path, &json!({"connectionState": "connected"}));
    });
    Some(format!("{} is {state} for {seconds} s", vm.path()))
}

pub(crate) fn inaccessible(storm: &mut Storm) -> Option<String> {
    connection(storm, &["inaccessible", "invalid", "orphaned"])
}

pub(crate) fn disconnected(storm: &mut Storm) -> Option<String> {
    connection(storm, &["disconnected"])
}

/// Takes a host out of the inventory with all its VMs, whoever's, and brings them back under other ids.
pub(crate) fn host_lost(storm: &mut Storm) -> Option<String> {
    // Their names are free meanwhile, so nobody else may be gone who would take one.
    if leaves_vms(storm) || !storm.is_in_sight() || storm.has("strangers") {
        return None;
    }
    let host = *storm.chance.pick(&HOSTS)?;
    let path = format!("/hosts/{host}");
    storm.model.lose_all();
    control(storm, "DELETE", &path, &Value::Null).unwrap_or_else(|error| panic!("{error}"));
    let seconds = storm.chance.between(2, 20);
    storm.lasts("host", Kind::Blinding, seconds, move |storm| {
        control(storm, "POST", &path, &Value::Null).unwrap_or_else(|error| panic!("{error}"));
    });
    Some(format!("{host} for {seconds} s"))
}

pub(crate) fn maintenance(storm: &mut Storm) -> Option<String> {
    if storm.has("maintenance") || !storm.is_in_sight() {
        return None;
    }
    let host = format!("/DC0/host/DC0_C0/{}", storm.chance.pick(&HOSTS)?);
    storm.vcenter.govc(&["host.maintenance.enter", &host]).ok()?;
    let seconds = storm.chance.between(3, 20);
    let shown = format!("{host} for {seconds} s");
    storm.lasts("maintenance", Kind::Free, seconds, move |storm| storm.open_hosts.push(host));
    Some(shown)
}

/// Has hosts take VMs again whose time of maintenance is over, once vCenter can be asked.
pub(crate) fn open_hosts(storm: &mut Storm) {
    if storm.is_in_sight() {
        let vcenter = storm.vcenter.clone();
        storm.open_hosts.retain(|host| vcenter.govc(&["host.maintenance.exit", host]).is_err());
    }
}

/// Has others change VMs of theirs.
pub(crate) fn noise(storm: &mut Storm) -> Option<String> {
    if storm.has("noise") {
        return None;
    }
    let rate = storm.chance.between(5, 20);
    control(storm, "POST", "/noise", &json!({"rate": rate})).unwrap_or_else(|error| panic!("{error}"));
    let seconds = storm.chance.between(5, 20);
    storm.lasts("noise", Kind::Free, seconds, |storm| {
        control(storm, "POST", "/noise", &json!({"rate": 0})).unwrap_or_else(|error| panic!("{error}"));
    });
    Some(format!("{rate} changes a second for {seconds} s"))
}

/// Has many VMs of others appear at once, and go again.
pub(crate) fn strangers(storm: &mut Storm) -> Option<String> {
    // A host that comes back brings its VMs to another folder, and these go with theirs.
    if storm.has("strangers") || storm.has("host") {
        return None;
    }
    let count = storm.chance.between(10, 60);
    let crowd = json!({"machines": count, "extraConfigBytes": 1000});
    control(storm, "POST", "/strangers", &crowd).unwrap_or_else(|error| panic!("{error}"));
    let seconds = storm.chance.between(5, 20);
    storm.lasts("strangers", Kind::Free, seconds, |storm| {
        control(storm, "DELETE", "/strangers", &Value::Null).unwrap_or_else(|error| panic!("{error}"));
    });
    Some(format!("{count} for {seconds} s"))
}

/// A host that is unwell, by what vCenter says.
pub(crate) fn host_unwell(storm: &mut Storm) -> Option<String> {
    let host = *storm.chance.pick(&HOSTS)?;
    let path = format!("/hosts/{host}");
    let set = |storm: &Storm, path: &str, status: &str| control(storm, "PATCH", path, &json!({"status": status}));
    let status = *storm.chance.pick(&["red", "yellow", "gray"])?;
    // It may be lost now.
    set(storm, &path, status).ok()?;
    let seconds = storm.chance.between(2, 15);
    storm.lasts("host unwell", Kind::Free, seconds, move |storm| drop(set(storm, &path, "green")));
    Some(format!("{host} is {status} for {seconds} s"))
}

/// The tools of a guest come or go, and its address with them. One that runs them is asked to shut down.
pub(crate) fn guest(storm: &mut Storm) -> Option<String> {
    let (_, vm) = storm.any_member()?;
    let states = [("guestToolsRunning", "10.0.0.7"), ("guestToolsNotRunning", ""), ("guestToolsExecutingScripts", "")];
    let (tools, ip) = *storm.chance.pick(&states)?;
    control(storm, "PATCH", &format!("/machines/{}", vm.id), &json!({"tools": tools, "ip": ip})).ok()?;
    Some(format!("{} has {tools}", vm.path()))
}

/// Shows a certificate that nobody trusts, to who connects anew, and then its own again.
pub(crate) fn certificate(storm: &mut Storm) -> Option<String> {
    if storm.has("certificate") || !storm.is_there() {
        return None;
    }
    let key = KeyPair::generate().expect("a key can be made");
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("it is an address");
    let unknown = CertifiedIssuer::self_signed(params, key).expect("a key can sign");
    show(storm, &unknown.pem(), &unknown.key().serialize_pem());
    let seconds = storm.chance.between(2, 10);
    storm.lasts("certificate", Kind::Free, seconds, |storm| {
        let own = |name: &str| fs::read_to_string(storm.sandbox.dir().join("pki").join(name));
        let [certificate, key] = ["vcsim.crt", "vcsim.key"].map(|name| own(name).expect("the sandbox has written it"));
        show(storm, &certificate, &key);
    });
    Some(format!("for {seconds} s"))
}

fn show(storm: &Storm, certificate: &str, key: &str) {
    let shown = json!({"certificate": certificate, "key": key});
    control(storm, "PUT", "/certificate", &shown).unwrap_or_else(|error| panic!("{error}"));
    // Those who are connected would go on with what they have seen. One that is away already is left so.
    if storm.is_there() {
        control(storm, "POST", "/outage", &json!({"for": "100ms"})).unwrap_or_else(|error| panic!("{error}"));
        thread::sleep(Duration::from_millis(200));
    }
}
