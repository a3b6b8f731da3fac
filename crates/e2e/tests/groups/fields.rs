//! Each field of a group, as govc sees what comes of it.

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_e2e::{Group, SOON, eventually};
use serde_json::{Value, json};

use crate::sandbox;

/// A machine's extraConfig, by key.
fn extra_config(group: &Group, machine: &str) -> Value {
    let shown = group.vcenter().govc(&["vm.info", "-json", machine]).unwrap();
    let info: Value = serde_json::from_str(&shown).unwrap();
    let options = info["virtualMachines"][0]["config"]["extraConfig"].as_array().cloned().unwrap_or_default();
    options.into_iter().map(|option| (option["key"].as_str().unwrap().to_owned(), option["value"].clone())).collect()
}

fn property(group: &Group, machine: &str, path: &str) -> String {
    group.vcenter().govc(&["object.collect", "-s", machine, path]).unwrap().trim().to_owned()
}

fn base64(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}

#[test]
fn guests_get_their_user_data_and_metadata_filled_in_and_machines_their_further_keys() {
    let sandbox = sandbox();
    let namespace = "cloud-init";
    let group = Group::create(
        sandbox,
        namespace,
        &json!({
            "replicas": 1,
            "guest": {"cloudInit": {
                "userData": {"secretKeyRef": {"name": "boot", "key": "user-data"}},
                "metadata": {"inline": "{\"local-hostname\": \"{{name}}\", \"slot\": {{slot}}, \"of\": \"{{namespace}}/{{group}}\"}"},
            }},
            "extraConfig": {"guestinfo.owner": "team a"},
        }),
    );
    group.says("ERROR", "spec.guest.cloudInit: the Secret boot");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "boot"},
        "stringData": {"user-data": "#cloud-config\nhostname: {{name}}\n"},
    });
    group.namespace.declare(&secret).unwrap();
    let machine = group.runs_with(1).remove(0);
    let name = machine.rsplit('/').next().unwrap();
    let keys = extra_config(&group, &machine);
    assert_eq!(keys["guestinfo.userdata"], base64(&format!("#cloud-config\nhostname: {name}\n")));
    let metadata = format!("{{\"local-hostname\": \"{name}\", \"slot\": 0, \"of\": \"cloud-init/cloud-init\"}}");
    assert_eq!(keys["guestinfo.metadata"], base64(&metadata));
    assert_eq!((&keys["guestinfo.metadata.encoding"], &keys["guestinfo.owner"]), (&json!("base64"), &json!("team a")));
    let group_uid = group.get().unwrap()["metadata"]["uid"].clone();
    assert_eq!((&keys["drover.group"], &keys["drover.slot"]), (&group_uid, &json!("0")));
}

#[test]
fn machines_go_where_the_placement_says_and_on_the_networks_that_are_named() {
    let sandbox = sandbox();
    let vcenter = sandbox.vcenter();
    let hosts = vcenter.govc(&["find", "/", "-type", "h"]).unwrap();
    let host = hosts.lines().last().unwrap();
    vcenter.govc(&["pool.create", "*/Resources/small"]).unwrap();
    vcenter.govc(&["folder.create", "/DC0/vm/elsewhere"]).unwrap();
    let dvs = vcenter.govc(&["find", "/", "-type", "g"]).unwrap();
    let port_group = dvs.lines().next().expect("the sandbox has a distributed port group");
    let group = Group::create(
        sandbox,
        "placed",
        &json!({
            "replicas": 1,
            "placement": {
                "datacenter": "DC0", "resourcePool": "small", "folder": "/DC0/vm/elsewhere", "hosts": [host], "datastore": "LocalDS_0",
            },
            "networks": [port_group],
        }),
    );
    group.says("RUNNING", "successfully");
    let machine = "/DC0/vm/elsewhere/placed.placed";
    let machine = vcenter.govc(&["find", machine, "-type", "m"]).unwrap().trim().to_owned();
    let reference = |path: &str| vcenter.govc(&["find", "-i", path, "-maxdepth", "0"]).unwrap().trim().to_owned();
    assert_eq!(property(&group, &machine, "runtime.host"), reference(host));
    let pool = vcenter.govc(&["find", "-i", "/", "-type", "p", "-name", "small"]).unwrap();
    assert_eq!(property(&group, &machine, "resourcePool"), pool.trim());
    let card = vcenter.govc(&["device.info", "-vm", &machine, "-json", "ethernet-0"]).unwrap();
    let card: Value = serde_json::from_str(&card).unwrap();
    let key = property(&group, port_group, "key");
    assert_eq!(card["devices"][0]["backing"]["port"]["portgroupKey"], key, "{card}");
}

#[test]
fn a_linked_clone_needs_a_snapshot_and_says_so() {
    let sandbox = sandbox();
    let vcenter = sandbox.vcenter();
    vcenter
        .govc(&[
            "vm.clone",
            "-vm.ipath",
            "/DC0/vm/vm-operator/vm-operator-template",
            "-folder",
            "/DC0/vm",
            "-on=false",
            "golden",
        ])
        .unwrap();
    let group = Group::create(
        sandbox,
        "linked",
        &json!({"replicas": 1, "template": "/DC0/vm/golden", "clone": {"mode": "Linked"}}),
    );
    group.says("ERROR", "has no snapshot to link to: make one, or use Full");
    vcenter.govc(&["snapshot.create", "-vm", "/DC0/vm/golden", "base"]).unwrap();
    group.runs_with(1);
}

#[test]
fn two_templates_of_one_name_are_refused_with_both_paths() {
    let sandbox = sandbox();
    let vcenter = sandbox.vcenter();
    for name in ["one", "two"] {
        let folder = format!("/DC0/vm/{name}");
        vcenter.govc(&["folder.create", &folder]).unwrap();
        vcenter
            .govc(&[
                "vm.clone",
                "-vm.ipath",
                "/DC0/vm/vm-operator/vm-operator-template",
                "-folder",
                &folder,
                "-on=false",
                name,
            ])
            .unwrap();
        vcenter.govc(&["object.rename", &format!("{folder}/{name}"), "twin"]).unwrap();
    }
    let group = Group::create(sandbox, "twins", &json!({"replicas": 1, "template": "twin"}));
    group.says("ERROR", "/DC0/vm/one/twin, /DC0/vm/two/twin");
    group.patch(&json!({"template": "/DC0/vm/two/twin"})).unwrap();
    group.runs_with(1);
}

#[test]
fn machines_are_ready_when_the_field_says_so() {
    let group = Group::create(
        sandbox(),
        "ready",
        &json!({"replicas": 1, "readiness": "IPAddress", "update": {"progressDeadlineSeconds": 2}}),
    );
    group.says("ERROR", "no progress for 2 s: 0 of 1 VMs available");
    let machine = group.machines("name").unwrap().remove(0).1;
    group.vcenter().control("PATCH", &format!("/machines/{machine}"), &json!({"ip": "10.1.2.3"})).unwrap();
    group.runs_with(1);
    group.tells("DeadlineExceeded", "no progress for 2 s");
}

#[test]
fn more_cpus_are_added_while_a_machine_runs_if_it_allows_it_and_a_guest_is_asked_before_it_goes_down() {
    let group = Group::create(sandbox(), "hot-add", &json!({"replicas": 1, "shutdown": {"graceSeconds": 1}}));
    let machine = group.runs_with(1).remove(0);
    let name = machine.rsplit('/').next().unwrap();
    group.vcenter().govc(&["vm.change", "-vm", &machine, "-cpu-hot-add-enabled=true"]).unwrap();
    group.vcenter().control("PATCH", &format!("/machines/{name}"), &json!({"tools": "guestToolsRunning"})).unwrap();
    // What is told in order is known in order.
    eventually(sandbox(), SOON, "the operator knows of both", || {
        let info = group.namespace.get("vi", name).map_err(|failure| failure.to_string())?;
        if info["status"]["toolsState"] == "guestToolsRunning" { Ok(()) } else { Err(info["status"].to_string()) }
    });
    let booted = property(&group, &machine, "runtime.bootTime");
    group.patch(&json!({"cpu": 4})).unwrap();
    group.settles_with(1, "config.hardware.numCPU", "4");
    assert_eq!(property(&group, &machine, "runtime.bootTime"), booted, "it went on running");
    let asked = group.vcenter().calls("ShutdownGuest", "drover");
    group.patch(&json!({"cpu": 2})).unwrap();
    group.settles_with(1, "config.hardware.numCPU", "2");
    assert!(group.vcenter().calls("ShutdownGuest", "drover") > asked, "the guest was asked to shut down");
}

#[test]
fn a_surge_makes_the_new_machine_before_the_old_one_goes() {
    let group = Group::create(
        sandbox(),
        "surge",
        &json!({"update": {"strategy": "Replace", "maxUnavailable": 0, "maxSurge": 1}}),
    );
    group.runs_with(2);
    let before = powered(&group).len();
    group.patch(&json!({"cpu": 2})).unwrap();
    group.settles_with(2, "config.hardware.numCPU", "2");
    // vCenter's own record misses nothing, however short.
    let changes = &powered(&group)[before..];
    let mut running = 2;
    let counts = changes.iter().map(|change| {
        running += change;
        running
    });
    let counts: Vec<i32> = counts.collect();
    assert_eq!(counts, [3, 2, 3, 2], "each is replaced, the new one first");
}

/// Each time that a machine of a group's was powered on or off, as 1 and -1, by vCenter's events.
fn powered(group: &Group) -> Vec<i32> {
    let events = group.vcenter().govc(&["events", "-n", "1000", "-json", "/"]).unwrap();
    let events = serde_json::Deserializer::from_str(&events).into_iter::<Value>().map(Result::unwrap);
    let ours = format!("{}-replica-", group.name());
    let change = |event: Value| match event["message"].as_str()? {
        said if !said.starts_with(&ours) => None,
        said if said.ends_with(" is powered on") => Some(1),
        said if said.ends_with(" is powered off") => Some(-1),
        _ => None,
    };
    events.filter_map(change).collect()
}

#[test]
fn what_becomes_of_machines_is_what_the_policy_says() {
    let sandbox = sandbox();
    for (policy, power) in [("Retain", "poweredOn"), ("PowerOff", "poweredOff")] {
        let namespace = policy.to_lowercase();
        let group = Group::create(sandbox, &namespace, &json!({"replicas": 1, "deletionPolicy": policy}));
        group.runs_with(1);
        group.delete();
        let left = group.machines("runtime.powerState").unwrap();
        assert_eq!(left.iter().map(|(_, state)| state.as_str()).collect::<Vec<_>>(), [power], "{policy}");
    }
}

#[test]
fn a_template_is_named_by_its_object_id_too() {
    let template = sandbox().vcenter().govc(&["find", "-i", "/DC0/vm", "-name", "vm-operator-template"]).unwrap();
    let id = template.trim().strip_prefix("VirtualMachine:").unwrap();
    let group = Group::create(sandbox(), "by-moref", &json!({"replicas": 1, "template": format!("moref:{id}")}));
    group.runs_with(1);
    group.delete();
    let unknown = Group::create(sandbox(), "by-no-moref", &json!({"replicas": 1, "template": "moref:vm-99999"}));
    unknown.says("ERROR", "vm-99999");
    unknown.delete();
}

#[test]
fn the_newest_or_the_oldest_goes_first_as_the_field_says() {
    for (name, which, survivor) in [("newest-first", "Newest", 0), ("oldest-first", "Oldest", 2)] {
        let group = Group::create(sandbox(), name, &json!({"replicas": 1, "scaleIn": which}));
        // One after the other, so that each is older than the next.
        let mut by_age = Vec::new();
        for replicas in 1..=3 {
            group.patch(&json!({"replicas": replicas})).unwrap();
            let machines = group.runs_with(replicas);
            by_age.extend(machines.into_iter().filter(|machine| !by_age.contains(machine)).collect::<Vec<_>>());
        }
        group.patch(&json!({"replicas": 1})).unwrap();
        assert_eq!(group.runs_with(1), [by_age[survivor].clone()], "{which} of {by_age:?}");
        group.delete();
    }
}

#[test]
fn with_on_delete_a_machine_changes_only_when_somebody_removes_it() {
    let spec = json!({"update": {"strategy": "OnDelete"}, "extraConfig": {"guestinfo.key": "old"}});
    let group = Group::create(sandbox(), "on-delete", &spec);
    let old = group.runs_with(2);
    group.patch(&json!({"extraConfig": {"guestinfo.key": "new"}})).unwrap();
    eventually(group.sandbox, SOON, "both are out of date and stay", || {
        let (object, status) = (group.get().map_err(|failure| failure.to_string())?, group.status()?);
        let is_current = status["observedGeneration"] == object["metadata"]["generation"];
        if is_current && status["updatedReplicas"] == 0 && status["currentReplicas"] == 2 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    group.loses(&old[0]);
    eventually(group.sandbox, SOON, "the one that was removed is there anew", || {
        let status = group.status()?;
        if status["updatedReplicas"] == 1 && status["readyReplicas"] == 2 { Ok(()) } else { Err(status.to_string()) }
    });
    assert_eq!(extra_config(&group, &old[0])["guestinfo.key"], "new");
    assert_eq!(extra_config(&group, &old[1])["guestinfo.key"], "old");
    group.delete();
}

/// The first disk of a machine.
fn root_disk(group: &Group, machine: &str) -> Value {
    let shown = group.vcenter().govc(&["device.info", "-json", "-vm", machine, "disk-*"]).unwrap();
    let info: Value = serde_json::from_str(&shown).unwrap();
    info["devices"][0].clone()
}

#[test]
fn the_templates_disk_grows_at_the_clone_and_is_never_made_smaller() {
    const GIB: i64 = 1 << 30;
    let sandbox = sandbox();
    let group = Group::create(sandbox, "root-disk", &json!({"replicas": 0}));
    let template = root_disk(&group, "/DC0/vm/vm-operator/vm-operator-template");
    let size = template["capacityInBytes"].as_i64().unwrap().div_euclid(GIB);
    assert!(size > 1, "{template}");
    group.patch(&json!({"replicas": 2, "rootDisk": {"sizeGiB": size - 1}})).unwrap();
    group.says("ERROR", &format!("spec.rootDisk.sizeGiB: the disk of vm-operator-template has {size} GiB"));
    assert_eq!(group.everywhere(), [""; 0]);
    group.patch(&json!({"rootDisk": {"sizeGiB": size + 30, "provisioning": "EagerZeroed"}})).unwrap();
    for machine in group.runs_with(2) {
        let disk = root_disk(&group, &machine);
        assert_eq!(disk["capacityInBytes"], (size + 30) * GIB, "{disk}");
        assert_eq!(
            (&disk["backing"]["eagerlyScrub"], &disk["backing"]["thinProvisioned"]),
            (&json!(true), &json!(false)),
            "{disk}"
        );
    }
    // Another size needs other VMs.
    group.patch(&json!({"rootDisk": {"sizeGiB": size + 40, "provisioning": "Thin"}})).unwrap();
    group.says("RUNNING", "successfully");
    for machine in group.runs_with(2) {
        let disk = root_disk(&group, &machine);
        assert_eq!(
            (disk["capacityInBytes"].as_i64(), &disk["backing"]["thinProvisioned"]),
            (Some((size + 40) * GIB), &json!(true)),
            "{disk}"
        );
    }
    let refused = group.patch(&json!({"clone": {"mode": "Linked"}})).unwrap_err();
    assert!(
        refused.stderr.contains("spec.rootDisk: a linked clone has the disk of the template's snapshot"),
        "{refused}"
    );
}
