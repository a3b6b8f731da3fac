//! A quota holds whoever asks for more, and however often the operator is killed.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Namespace, Operator, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

use crate::{lonely, lonely_too};

const GROUPS: usize = 50;
const VMS: u64 = 12;
const CPUS: u64 = 18;

/// VMs and CPUs of the namespace, as govc sees them. It can't see a folder that goes while it looks.
fn seen(vcenter: &VCenter, namespace: &str) -> Result<(u64, u64), String> {
    let shown = vcenter.govc(&["vm.info", "-json", &format!("/DC0/vm/vm-operator/{namespace}.*/*")]);
    let shown = shown.map_err(|failure| failure.to_string())?;
    let shown: Value = serde_json::from_str(&shown).expect("govc prints JSON when asked to");
    let vms: Vec<_> = shown["virtualMachines"].as_array().cloned().unwrap_or_default();
    let cpus = |vm: &Value| vm["config"]["hardware"]["numCPU"].as_u64().unwrap_or(0);
    Ok((vms.len() as u64, vms.iter().map(cpus).sum()))
}

/// Looks all the time at what there is, and fails when it is more than may be. Returns how often it has looked, in both ways.
fn watch(vcenter: &VCenter, namespace: &str, is_over: &AtomicBool) -> (usize, usize) {
    let others = vcenter.machine_counts().powered_on;
    let mut looks = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let running = vcenter.machine_counts().powered_on.saturating_sub(others);
        assert!(running <= VMS, "{running} VMs run");
        looks.0 += 1;
        if looks.0 % 10 == 0
            && let Ok((vms, cpus)) = seen(vcenter, namespace)
        {
            assert!(vms <= VMS && cpus <= CPUS, "{vms} VMs with {cpus} CPUs");
            looks.1 += 1;
        }
        thread::sleep(Duration::from_millis(50));
    }
    looks
}

/// Ends the watch, also where a test fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that applies all of its groups in one go.
fn apply(namespace: &Namespace, groups: impl Iterator<Item = usize>) {
    let groups: Vec<_> = groups.map(|number| vm_group(&named(number), &json!({"cpu": 1 + number % 2}))).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": groups});
    namespace.apply(&list.to_string()).unwrap_or_else(|failure| panic!("{failure}"));
}

fn named(number: usize) -> String {
    format!("group-{number}")
}

/// Deletes a group that has VMs, if one has, so that others get theirs.
fn give_way(namespace: &Namespace) {
    let groups = namespace.list("vg").unwrap();
    let has_vms = |group: &&Value| group["status"]["currentReplicas"].as_u64().unwrap_or(0) > 0;
    if let Some(group) = groups.iter().find(has_vms) {
        namespace.delete("vg", group["metadata"]["name"].as_str().unwrap_or_default()).unwrap();
    }
}

/// Waits until there is as much as may be.
#[track_caller]
fn fills(sandbox: &Sandbox, namespace: &str) {
    eventually(sandbox, SOON, "there is as much as may be", || {
        let (vms, cpus) = seen(sandbox.vcenter(), namespace)?;
        if vms == VMS || cpus >= CPUS - 1 { Ok(()) } else { Err(format!("{vms} VMs with {cpus} CPUs")) }
    });
}

/// A namespace with a quota in a VCenter of the same name.
fn limited(sandbox: &Sandbox, name: &str, quota: &Value) -> Namespace {
    let namespace = sandbox.namespace(name);
    let only = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    sandbox.vcenter().declare(sandbox, name, &json!({"namespaces": only, "allow": [{"quota": quota}]}));
    namespace
}

/// Waits until a clone is asked for.
#[track_caller]
fn begins(sandbox: &Sandbox) {
    let calls = || sandbox.vcenter().calls("CloneVM_Task", "drover");
    let (before, began) = (calls(), Instant::now());
    while calls() == before {
        assert!(began.elapsed() < SOON, "nothing is cloned\n{}", sandbox.dump());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Deletes all groups, and their VCenter.
#[track_caller]
fn end(sandbox: &Sandbox, namespace: &Namespace) {
    namespace.kubectl(&["delete", "vg", "--all", "--wait=false"]).unwrap();
    eventually(sandbox, SOON, "all are gone", || {
        let left = namespace.list("vg").map_err(|failure| failure.to_string())?.len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are there")) }
    });
    assert_eq!(seen(sandbox.vcenter(), &namespace.name).unwrap(), (0, 0));
    sandbox.kubectl().run(&["delete", "vc", &namespace.name]).unwrap();
}

#[test]
fn fifty_groups_applied_at_once_by_two_clients_stay_within_the_quota() {
    let (sandbox, _turn) = lonely();
    let vcenter = sandbox.vcenter();
    let namespace = limited(sandbox, "fifty", &json!({"vms": VMS, "cpus": CPUS}));
    let start = || Operator::start(sandbox, vcenter).unwrap();
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let over = End(&is_over);
        let watcher = scope.spawn(|| watch(vcenter, &namespace.name, &is_over));
        let mut operator = start();
        let clients = [0, 1].map(|client| {
            let namespace = &namespace;
            scope.spawn(move || apply(namespace, (client..GROUPS).step_by(2)))
        });
        for kill in 1..=3 {
            // It has begun something, and is killed while that goes on.
            begins(sandbox);
            drop(operator);
            give_way(&namespace);
            // What was asked for before comes to be, and by then another thing is asked for.
            for number in (kill..GROUPS).step_by(7) {
                // It may be the one that was deleted, or not there yet.
                let _ = namespace.patch("vg", &named(number), &json!({"spec": {"cpu": 1 + number % 3}}));
                let _ = namespace.kubectl(&["scale", "vg", &named(number + 1), "--replicas=3"]);
            }
            operator = start();
        }
        for client in clients {
            client.join().unwrap();
        }
        fills(sandbox, &namespace.name);
        eventually(sandbox, SOON, "those that wait say so", || {
            let groups = namespace.list("vg").map_err(|failure| failure.to_string())?;
            let waits = |group: &&Value| {
                group["status"]["lastMessage"].as_str().unwrap_or_default().contains("quota of namespace")
            };
            let waiting = groups.iter().filter(waits).count() as u64;
            // Those that have VMs, and those that were deleted, don't.
            if waiting >= GROUPS as u64 - 3 - VMS { Ok(()) } else { Err(format!("{waiting} do")) }
        });
        // Half of them go, and others take their places.
        let gone: Vec<_> = (0..GROUPS).step_by(2).map(named).collect();
        let gone: Vec<_> = gone.iter().map(String::as_str).collect();
        namespace.kubectl(&[&["delete", "vg", "--ignore-not-found"], &gone[..]].concat()).unwrap();
        fills(sandbox, &namespace.name);
        end(sandbox, &namespace);
        drop(over);
        watcher.join().unwrap()
    });
    assert!(looks.0 > 100 && looks.1 > 10, "it was looked all the time: {looks:?}");
}

#[test]
fn groups_applied_at_once_stay_within_a_quota_of_disks_while_the_operator_is_killed() {
    let (sandbox, _turn) = lonely_too();
    let vcenter = sandbox.vcenter();
    let template = vcenter.govc(&["vm.info", "-json", "/DC0/vm/vm-operator/vm-operator-template"]).unwrap();
    let template: Value = serde_json::from_str(&template).unwrap();
    let devices = template["virtualMachines"][0]["config"]["hardware"]["device"].as_array().unwrap().clone();
    let kib: u64 = devices.iter().filter_map(|device| device["capacityInKB"].as_u64()).sum();
    // As much as the disks of so many VMs have, and nothing else is limited.
    let namespace = limited(sandbox, "disks", &json!({"storage": VMS * kib / 1024 / 1024}));
    let groups: Vec<_> = (0..20).map(|number| vm_group(&named(number), &json!({}))).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": groups}).to_string();
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let over = End(&is_over);
        let watcher = scope.spawn(|| watch(vcenter, &namespace.name, &is_over));
        let mut operator = Operator::start(sandbox, vcenter).unwrap();
        scope.spawn(|| namespace.apply(&list).unwrap_or_else(|failure| panic!("{failure}")));
        begins(sandbox);
        for _ in 0..2 {
            drop(operator);
            give_way(&namespace);
            operator = Operator::start(sandbox, vcenter).unwrap();
            // It goes on with what was begun, and others take the places of the group that goes.
            thread::sleep(Duration::from_secs(2));
        }
        fills(sandbox, &namespace.name);
        eventually(sandbox, SOON, "those that wait say so", || {
            let groups = namespace.list("vg").map_err(|failure| failure.to_string())?;
            let waits =
                |group: &Value| group["status"]["lastMessage"].as_str().unwrap_or_default().contains("GiB of disks");
            if groups.iter().any(waits) { Ok(()) } else { Err(format!("{groups:?}")) }
        });
        end(sandbox, &namespace);
        drop(over);
        drop(operator);
        watcher.join().unwrap()
    });
    assert!(looks.0 > 20 && looks.1 > 1, "it was looked all the time: {looks:?}");
}

#[test]
fn a_replica_that_takes_over_keeps_to_the_quota() {
    let (sandbox, _turn) = lonely_too();
    let vcenter = sandbox.vcenter();
    let namespace = limited(sandbox, "handed-over", &json!({"vms": VMS, "cpus": CPUS}));
    let replica = |name| (name, Operator::start_as(name, sandbox, vcenter, &["--enable-leader-election"]).unwrap());
    let is_over = AtomicBool::new(false);
    let looks = thread::scope(|scope| {
        let over = End(&is_over);
        let watcher = scope.spawn(|| watch(vcenter, &namespace.name, &is_over));
        let mut replicas: BTreeMap<_, _> = ["first", "second"].map(replica).into();
        let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/vcenter.handed-over.drover.vm.codeconnect.vmworld.com";
        let holder = || -> Result<String, String> {
            let lease = sandbox.get(lease).map_err(|failure| failure.to_string())?;
            let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
            holder.split_once('_').map(|(name, _)| name.to_owned()).ok_or_else(|| lease.to_string())
        };
        apply(&namespace, 0..12);
        begins(sandbox);
        let killed = holder().unwrap();
        replicas.remove(killed.as_str()).expect("one of the two holds it");
        // What is asked for meanwhile, the other one has to find room for beside what it has not begun itself.
        apply(&namespace, 12..24);
        for number in 0..4 {
            namespace.patch("vg", &named(number), &json!({"spec": {"cpu": 3, "replicas": 3}})).unwrap();
        }
        eventually(sandbox, SOON, "the other one takes over", || {
            let now = holder()?;
            if now != killed && !now.is_empty() { Ok(()) } else { Err(now) }
        });
        give_way(&namespace);
        fills(sandbox, &namespace.name);
        end(sandbox, &namespace);
        drop(over);
        watcher.join().unwrap()
    });
    assert!(looks.0 > 100 && looks.1 > 10, "it was looked all the time: {looks:?}");
}
