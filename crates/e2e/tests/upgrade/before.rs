//! The version before is replaced by this one, under objects and VMs that it made.

use std::collections::BTreeMap;

use drover_e2e::{Before, Group, Operator, SOON, Sandbox, Shell, eventually};
use serde_json::{Value, json};

use crate::{nothing_was_changed, vms};

/// The objects of a kind by name, with what tells each from another.
fn uids(group: &Group<'_>, kind: &str) -> BTreeMap<String, String> {
    let objects = group.namespace.list(kind).unwrap_or_else(|failure| panic!("{failure}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    objects.iter().map(|object| (text(&object["metadata"]["name"]), text(&object["metadata"]["uid"]))).collect()
}

#[test]
fn an_upgrade_in_place_touches_no_vm_and_keeps_every_object() {
    let Some(before) = Before::find() else { return };
    let sandbox = Sandbox::start("upgrade", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds_of(&before.kinds());
    let vcenter = sandbox.vcenter();
    let older = Operator::start_before(&before, &sandbox, vcenter).unwrap();
    let plain = Group::create(&sandbox, "plain", &json!({"replicas": 3}));
    let keys = json!({"company.team": "a", "workingDir": "b"});
    let spec = json!({"replicas": 2, "extraConfig": keys, "update": {"maxUnavailable": 1}});
    let declared = Group::create_apart(&sandbox, "declared", &spec);
    let shell = Shell::create(&sandbox, "shell", &json!({"size": 2}));
    let groups = [(&plain, 3), (&declared, 2)];
    let deployed = |deployment: &Value| deployment["spec"]["replicas"] == 2;
    let deployment = shell.sees("deployment", "shell", "there is a deployment", deployed);
    let counts = || -> Result<(), String> {
        for (group, replicas) in groups {
            let infos = group.namespace.list("vi").map_err(|failure| failure.to_string())?;
            let are_found = infos.iter().all(|info| info["status"]["conditions"][0]["status"] == "True");
            if infos.len() != replicas || !are_found {
                return Err(format!("{infos:?}"));
            }
        }
        Ok(())
    };
    let vms_before = groups.map(|(group, replicas)| {
        group.runs_with(replicas);
        vms(group)
    });
    eventually(&sandbox, SOON, "each member is published", counts);
    let infos_before = groups.map(|(group, _)| uids(group, "vi"));
    let statuses_before = groups.map(|(group, _)| group.status().unwrap());
    drop(older);
    for (group, _) in groups {
        group.vcenter().forget_calls();
    }

    sandbox.install_kinds();
    let newer = Operator::start(&sandbox, vcenter).unwrap();
    eventually(&sandbox, SOON, "both vCenters are read", || {
        let log = newer.log();
        if log.matches("vCenter mirrored").count() == 2 { Ok(()) } else { Err(log) }
    });
    // It works on what it found: what somebody changes is put right.
    let (vm, _) = vms_before[0].first_key_value().unwrap();
    vcenter.govc(&["vm.power", "-off", vm]).unwrap();
    plain.recovers_to(3, "runtime.powerState", "poweredOn");
    declared.runs_with(2);
    assert_eq!(vcenter.changes(), BTreeMap::from([("PowerOnVM_Task", 1)]), "nothing else was to be done");
    nothing_was_changed(declared.vcenter());
    let now = groups.map(|(group, _)| vms(group));
    for (before, now) in vms_before.iter().zip(&now) {
        assert_eq!(before.keys().collect::<Vec<_>>(), now.keys().collect::<Vec<_>>());
        for (name, [instance, booted, extra]) in before.iter().filter(|(name, _)| *name != vm) {
            assert_eq!(&now[name], &[instance.clone(), booted.clone(), extra.clone()], "{name}");
        }
        assert!(before.iter().all(|(name, [instance, ..])| now[name][0] == *instance));
    }
    eventually(&sandbox, SOON, "each member is published still", counts);
    assert_eq!(groups.map(|(group, _)| uids(group, "vi")), infos_before);
    for ((group, _), before) in groups.iter().zip(&statuses_before) {
        let now = group.status().unwrap();
        for field in ["record", "revision", "vcenter", "vcenterInstance", "observedGeneration"] {
            assert_eq!(said(&now[field]), said(&before[field]), "{field}");
        }
    }
    let still = shell.sees("deployment", "shell", "there is a deployment", deployed);
    assert_eq!(still["metadata"]["uid"], deployment["metadata"]["uid"]);
    assert_eq!(still["spec"], deployment["spec"]);
    keys_of_before_are_kept_and_others_refused(&plain, &declared);
    nothing_that_the_version_before_said_of_a_vcenter_is_stuck(&sandbox, &declared);
    for (group, _) in groups {
        group.delete();
        assert!(group.everywhere().is_empty());
    }
}

/// The version before let in keys that a new group may not set. A group that has some keeps them, and gets no others.
fn keys_of_before_are_kept_and_others_refused(plain: &Group<'_>, declared: &Group<'_>) {
    declared.tells("KeysKept", "company.team, workingDir stay allowed in this VmGroup");
    for (group, kept) in [(plain, json!([])), (declared, json!(["company.team", "workingDir"]))] {
        eventually(group.sandbox, SOON, "the keys that it keeps are written down", || {
            let status = group.status()?;
            if status["extraConfigKept"] == kept { Ok(()) } else { Err(status.to_string()) }
        });
    }
    let before = declared.identities();
    declared.patch(&json!({"extraConfig": {"company.owner": "b"}})).unwrap();
    declared.says("ERROR", "may not set \"company.owner\" in VCenter");
    plain.patch(&json!({"extraConfig": {"company.team": "a"}})).unwrap();
    plain.says("ERROR", "may not set \"company.team\" in VCenter");
    assert_eq!(declared.identities(), before);
    let refused = declared.patch(&json!({"extraConfig": {"sched.swap.dir": "c"}})).unwrap_err();
    assert!(refused.stderr.contains("reach outside of the VM"), "{refused}");
    let refused = declared.patch(&json!({"extraConfig": {"workingDir": "elsewhere"}})).unwrap_err();
    assert!(refused.stderr.contains("reach outside of the VM"), "what it kept gets no other value: {refused}");
    plain.patch(&json!({"extraConfig": null})).unwrap();
    plain.runs_with(3);
    // What it had may have another value, in new VMs.
    declared.patch(&json!({"extraConfig": {"company.owner": null, "company.team": "b"}})).unwrap();
    declared.runs_with(2);
    assert!(declared.identities().is_disjoint(&before));
}

/// The version before is a manager of the VCenter's status for ever, because Drover may change no more of a VCenter than that. What it said
/// goes all the same, as soon as this version no longer says it.
fn nothing_that_the_version_before_said_of_a_vcenter_is_stuck(sandbox: &Sandbox, group: &Group<'_>) {
    let get = || -> Value {
        let arguments = ["get", "vc", group.name(), "-o", "json", "--show-managed-fields"];
        serde_json::from_str(&sandbox.kubectl().run(&arguments).unwrap()).unwrap()
    };
    let there = get();
    let entries = there["metadata"]["managedFields"].as_array().unwrap();
    let older = entries.iter().find(|entry| entry["operation"] == "Update" && entry["subresource"] == "status");
    let older = &older.expect("the version before has written the status")["fieldsV1"]["f:status"];
    for field in ["version", "build", "machines", "hosts", "queued", "underWay"] {
        assert!(!there["status"][field].is_null(), "{field}: {}", there["status"]);
    }
    assert!(["f:version", "f:build"].iter().all(|field| older[field].is_object()), "what is to go is its: {older}");
    group.vcenter().control("POST", "/outage", &json!({"for": "600s"})).unwrap();
    eventually(sandbox, SOON, "nothing is said of a vCenter that is away but who it is", || {
        let status = &get()["status"];
        let said = status.as_object().unwrap().keys();
        let is_left = |name: &&String| !["conditions", "instanceUuid", "observedGeneration"].contains(&name.as_str());
        let left: Vec<_> = said.filter(is_left).collect();
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let is_away = conditions.clone().any(|it| it["type"] == "Connected" && it["status"] == "False");
        if is_away && left.is_empty() { Ok(()) } else { Err(format!("{left:?}: {status}")) }
    });
    group.vcenter().control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    eventually(sandbox, SOON, "all is said again", || {
        let status = &get()["status"];
        if status["version"].is_null() { Err(status.to_string()) } else { Ok(()) }
    });
}

/// What a value says: a list that is empty says no more than one that isn't there.
fn said(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
            fields
                .iter()
                .filter(|(_, value)| !is_empty(value))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect()
        }
        other => other.clone(),
    }
}
