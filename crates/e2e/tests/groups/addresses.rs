//! Addresses that belong to slots, as govc and the guests see them.

use std::collections::BTreeMap;

use drover_core::{names::Slot, vmgroup::adapters::Mac};
use drover_e2e::{Group, SOON, eventually};
use serde_json::{Value, json};

use crate::sandbox;

/// What a slot's VM has.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Addresses {
    mac: String,
    kind: String,
    /// What its guest reports.
    ip: String,
}

/// All that govc shows of a group's VMs, by slot.
fn vms(group: &Group) -> BTreeMap<String, Value> {
    let shown = group.vcenter().govc(&["vm.info", "-json", &format!("{}/*", group.folder())]).unwrap();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    // One that is being made or destroyed may have no configuration now.
    let slot = |vm: &Value| {
        let keys = vm["config"]["extraConfig"].as_array()?;
        let slot = keys.iter().find(|option| option["key"] == "drover.slot")?;
        Some(slot["value"].as_str()?.to_owned())
    };
    let vms = shown["virtualMachines"].as_array().cloned().unwrap_or_default();
    vms.into_iter().filter_map(|vm| Some((slot(&vm)?, vm))).collect()
}

fn addresses(group: &Group) -> BTreeMap<String, Addresses> {
    let of = |vm: &Value| {
        let devices = vm["config"]["hardware"]["device"].as_array().unwrap();
        let card = devices.iter().find(|device| device["macAddress"].is_string()).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Addresses {
            mac: text(&card["macAddress"]),
            kind: text(&card["addressType"]),
            ip: text(&vm["guest"]["ipAddress"]),
        }
    };
    vms(group).iter().map(|(slot, vm)| (slot.clone(), of(vm))).collect()
}

fn instances(group: &Group) -> BTreeMap<String, String> {
    vms(group).iter().map(|(slot, vm)| (slot.clone(), vm["config"]["instanceUuid"].to_string())).collect()
}

/// Waits until the group's VMs run and their guests have all their addresses.
#[track_caller]
fn settled(group: &Group, ips: &[&str]) -> BTreeMap<String, Addresses> {
    group.runs_with(ips.len());
    let expected: Vec<_> = ips.iter().map(|ip| (*ip).to_owned()).collect();
    eventually(group.sandbox, SOON, &format!("guests with {ips:?}"), || {
        let seen = addresses(group);
        let has: Vec<_> = seen.values().map(|addresses| addresses.ip.clone()).collect();
        if has == expected { Ok(seen) } else { Err(format!("{seen:?}")) }
    })
}

#[test]
fn a_slot_keeps_its_addresses_through_replacement_scaling_and_the_loss_of_its_vm() {
    let cidrs = json!(["198.18.0.10/24", "198.18.0.11/24", "198.18.0.12/24"]);
    let adapter =
        |addresses: &Value| json!([{"network": "VM Network", "addresses": addresses, "gateway4": "198.18.0.1"}]);
    let ips = ["198.18.0.10", "198.18.0.11", "198.18.0.12"];
    let group = Group::create(
        sandbox(),
        "slot-addresses",
        &json!({"replicas": 3, "networkAdapters": adapter(&cidrs), "guest": {"hostname": "web-{{slot}}"}}),
    );
    let first = settled(&group, &ips);
    for (slot, Addresses { mac, kind, .. }) in &first {
        assert!(mac.starts_with("00:50:56:") && mac[9..11] < *"40" && kind == "manual", "{slot}: {mac} {kind}");
    }
    let distinct: std::collections::BTreeSet<_> = first.values().map(|addresses| &addresses.mac).collect();
    assert_eq!(distinct.len(), 3);
    // kubectl shows which VM is in which slot.
    for (slot, vm) in vms(&group) {
        let name = vm["name"].as_str().unwrap().to_owned();
        eventually(group.sandbox, SOON, &format!("the VMInfo of slot {slot}"), || {
            let info = group.namespace.get("vi", &name).map_err(|failure| failure.to_string())?;
            let (shown, ip) = (&info["status"]["slot"], &info["status"]["ipAddress"]);
            let is_shown = shown.as_u64().is_some_and(|shown| shown.to_string() == slot);
            if is_shown && *ip == first[&slot].ip { Ok(()) } else { Err(info["status"].to_string()) }
        });
    }
    // One that is replaced, whichever way.
    let before = instances(&group);
    group.patch(&json!({"extraConfig": {"guestinfo.key": "v"}})).unwrap();
    assert_eq!(settled(&group, &ips), first);
    let replaced = instances(&group);
    assert!(before.iter().all(|(slot, instance)| replaced[slot] != *instance), "{before:?} {replaced:?}");
    let name = |slot: &str| format!("{}/{}", group.folder(), vms(&group)[slot]["name"].as_str().unwrap());
    group.loses(&name("1"));
    eventually(group.sandbox, SOON, "another in its place", || {
        let now = instances(&group);
        if now.get("1").is_some_and(|instance| *instance != replaced["1"]) { Ok(()) } else { Err(format!("{now:?}")) }
    });
    assert_eq!(settled(&group, &ips), first);
    // The highest goes, though it is older than the one in slot 1.
    group.patch(&json!({"replicas": 2})).unwrap();
    assert_eq!(settled(&group, &ips[..2]).keys().collect::<Vec<_>>(), ["0", "1"]);
    group.patch(&json!({"replicas": 0})).unwrap();
    group.runs_with(0);
    group.patch(&json!({"replicas": 3})).unwrap();
    assert_eq!(settled(&group, &ips), first);
    // An address more replaces none, and another address one.
    let before = instances(&group);
    let more = json!(["198.18.0.10/24", "198.18.0.11/24", "198.18.0.12/24", "198.18.0.13/24"]);
    group.patch(&json!({"networkAdapters": adapter(&more)})).unwrap();
    settled(&group, &ips);
    assert_eq!(instances(&group), before);
    let other = json!(["198.18.0.10/24", "198.18.0.99/24", "198.18.0.12/24"]);
    group.patch(&json!({"networkAdapters": adapter(&other)})).unwrap();
    let last = settled(&group, &["198.18.0.10", "198.18.0.99", "198.18.0.12"]);
    let after = instances(&group);
    let changed: Vec<_> =
        after.iter().filter(|(slot, instance)| before[*slot] != **instance).map(|(slot, _)| slot).collect();
    assert_eq!(changed, ["1"]);
    assert_eq!(last["1"].mac, first["1"].mac);
    group.delete();
}

#[test]
fn a_guest_without_cloud_init_is_customized() {
    let group = Group::create(
        sandbox(),
        "customized",
        &json!({
            "replicas": 2,
            "networkAdapters": [{"network": "VM Network", "addresses": ["198.18.1.10/24", "198.18.1.11/24"], "nameservers": ["198.18.1.2"]}],
            "guest": {"network": "Customization", "hostname": "db-{{slot}}"},
        }),
    );
    settled(&group, &["198.18.1.10", "198.18.1.11"]);
    for (slot, vm) in vms(&group) {
        let keys = vm["config"]["extraConfig"].as_array().unwrap();
        assert!(!keys.iter().any(|option| option["key"] == "guestinfo.metadata"), "cloud-init is told nothing");
        assert_eq!(vm["guest"]["hostName"], format!("db-{slot}"), "{}", vm["guest"]);
    }
    group.delete();
}

#[test]
fn a_slot_passes_over_a_mac_address_that_another_vm_has_and_stays_with_the_next() {
    let adapters = json!([{"network": "VM Network", "mac": "PerSlot"}]);
    let group = Group::create(sandbox(), "taken", &json!({"replicas": 0, "networkAdapters": adapters}));
    group.runs_with(0);
    let uid = group.get().unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let computed = Mac::of(&uid, Slot(0), 0, 0).to_string();
    // Somebody's VM has it, and says so.
    let vcenter = sandbox().vcenter();
    let govc = |words: &[&str]| vcenter.govc(words).unwrap_or_else(|failure| panic!("{failure}"));
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    govc(&["vm.clone", "-vm.ipath", template, "-folder", "/DC0/vm", "-on=false", "has-its-mac"]);
    govc(&["vm.network.change", "-vm", "has-its-mac", "-net", "VM Network", "-net.address", &computed, "ethernet-0"]);
    let network = json!({"network": {"version": 2, "ethernets": {
        "eth0": {"match": {"macaddress": computed}, "addresses": ["198.18.2.1/24"]},
    }}});
    govc(&["vm.change", "-vm", "has-its-mac", "-e", &format!("guestinfo.metadata={network}")]);
    govc(&["vm.power", "-on", "has-its-mac"]);
    eventually(group.sandbox, SOON, "its guest reports the address", || {
        let net = govc(&["object.collect", "-json", "/DC0/vm/has-its-mac", "guest.net"]);
        if net.contains(&computed) { Ok(()) } else { Err(net) }
    });
    group.patch(&json!({"replicas": 1})).unwrap();
    group.runs_with(1);
    let next = addresses(&group)["0"].mac.clone();
    assert_ne!(next, computed);
    assert_eq!(group.status().unwrap()["record"]["macs"], json!(["0", "0/0+1"]));
    // It stays, though the first is free again.
    govc(&["vm.destroy", "has-its-mac"]);
    group.patch(&json!({"extraConfig": {"guestinfo.key": "v"}})).unwrap();
    group.runs_with(1);
    assert_eq!(addresses(&group)["0"].mac, next);
    group.delete();
}

#[test]
fn metadata_that_sets_what_the_spec_sets_is_refused_with_a_sentence() {
    let adapters = json!([{"network": "VM Network", "addresses": ["198.18.3.10/24"]}]);
    let metadata = |text: &str| json!({"cloudInit": {"metadata": {"inline": text}}});
    let group = Group::create(
        sandbox(),
        "clash",
        &json!({"replicas": 1, "networkAdapters": adapters, "guest": metadata("network: {version: 2}")}),
    );
    group.says("ERROR", "the metadata has network of its own, which spec.networkAdapters sets");
    assert!(group.everywhere().is_empty());
    group.patch(&json!({"guest": metadata("instance-id: own-{{slot}}")})).unwrap();
    settled(&group, &["198.18.3.10"]);
    group.delete();
}
