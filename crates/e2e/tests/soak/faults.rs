//! What goes wrong in vCenter, and on the way to it. Each lasts for some seconds.

use serde_json::{Value, json};

use crate::{
    edits::HOSTS,
    storm::{Kind, Storm},
};

/// What Drover changes VMs and folders with.
const CHANGES: &str = "CloneVM_Task,CreateFolder,Destroy_Task,MoveIntoFolder_Task,PowerOffVM_Task,PowerOnVM_Task,\
                       ReconfigVM_Task,Rename_Task,ShutdownGuest,SuspendVM_Task";
const TASKS: &str = "CloneVM_Task,Destroy_Task,PowerOffVM_Task,PowerOnVM_Task,ReconfigVM_Task,Rename_Task";

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
    storm.lasts(name, Kind::Free, seconds, move |_| {
        added.remove();
    });
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
    by_rule(storm, "calls fail", "*", &effect)
}

pub(crate) fn tasks_fail(storm: &mut Storm) -> Option<String> {
    let fault = passing_fault(storm);
    let effect = share(storm, "taskFault", &fault);
    by_rule(storm, "tasks fail", TASKS, &effect)
}

pub(crate) fn tasks_act_and_fail(storm: &mut Storm) -> Option<String> {
    let mut fault = passing_fault(storm);
    fault["when"] = json!("after");
    let effect = share(storm, "taskFault", &fault);
    by_rule(storm, "tasks act and fail", TASKS, &effect)
}

pub(crate) fn no_room(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "taskFault", &json!({"type": "InsufficientMemoryResourcesFault"}));
    by_rule(storm, "no room", "CloneVM_Task,PowerOnVM_Task", &effect)
}

pub(crate) fn calls_lost(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "drop", &json!("before"));
    by_rule(storm, "calls lost", "*", &effect)
}

pub(crate) fn answers_lost(storm: &mut Storm) -> Option<String> {
    let effect = share(storm, "drop", &json!("after"));
    by_rule(storm, "answers lost", "*", &effect)
}

pub(crate) fn slow(storm: &mut Storm) -> Option<String> {
    let latency = format!("{}ms", storm.chance.between(50, 3000));
    by_rule(storm, "slow answers", "*", &json!({"latency": latency}))
}

pub(crate) fn hanging(storm: &mut Storm) -> Option<String> {
    let when = if storm.chance.percent(50) { "before" } else { "after" };
    let count = storm.chance.between(1, 3);
    by_rule(storm, "hanging answers", CHANGES, &json!({"hold": when, "count": count}))
}

pub(crate) fn told_late(storm: &mut Storm) -> Option<String> {
    let effect = json!({"tell": "2s", "seed": storm.chance.between(1, 1_000_000)});
    by_rule(storm, "told late", TASKS, &effect)
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
        "Folder.Create",
        "VirtualMachine.Interact.PowerOn",
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
    let path = if storm.chance.percent(50) { "config" } else { "config.extraConfig" };
    setting(storm, "/unreadable", &json!({"paths": [path]}), json!({}))
}

pub(crate) fn recent_tasks(storm: &mut Storm) -> Option<String> {
    setting(storm, "/recent-tasks", &json!({"notify": false}), json!({"notify": true}))
}

/// Takes a VM out of Drover's sight. An administrator sees it all the same.
pub(crate) fn hidden(storm: &mut Storm) -> Option<String> {
    if leaves_vms(storm) {
        return None;
    }
    let (_, vm) = storm.any_member()?;
    let hide = |storm: &Storm| {
        let hidden = control(storm, "PUT", "/hidden", &json!({"machines": storm.hidden}));
        drop(hidden.unwrap_or_else(|error| panic!("{error}")));
    };
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

/// Whether a group is being deleted whose VMs stay: it lets go of VMs that can't be seen as they are, so they had better be seen.
fn leaves_vms(storm: &Storm) -> bool {
    storm.model.going.iter().any(|going| going.policy != "Delete")
}

fn connection(storm: &mut Storm, states: &[&'static str]) -> Option<String> {
    if leaves_vms(storm) {
        return None;
    }
    let (_, vm) = storm.any_member()?;
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
    if leaves_vms(storm) || !storm.is_in_sight() {
        return None;
    }
    let host = *storm.chance.pick(&HOSTS)?;
    let path = format!("/hosts/{host}");
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
