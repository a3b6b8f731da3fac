//! Many missing at once stop everything that makes or destroys, until they are back, proved gone, or a person says to go on.

use drover_e2e::{Group, Page, Program, SOON, binary, eventually};
use serde_json::json;

use crate::{hide, host_of, name, nothing_is_made_or_destroyed, sandbox, stalls, vcenter_says};

/// The incident that the group's status names.
fn incident(group: &Group) -> String {
    eventually(sandbox(), SOON, "an incident", || {
        let status = group.status()?;
        status["incident"].as_str().map(ToOwned::to_owned).ok_or_else(|| status.to_string())
    })
}

#[test]
fn many_hidden_at_once_stop_clones_and_destroys_until_they_are_back() {
    let group = Group::create_apart(sandbox(), "many-hidden", &json!({"replicas": 4, "lostAfterSeconds": 1}));
    let machines = group.runs_with(4);
    let before = group.identities();
    hide(&group, &[name(&machines[0]), name(&machines[1])]);
    stalls(&group, "SafetyHold", "2 of 4 VMs are missing at once");
    nothing_is_made_or_destroyed(&group, || {
        // Neither fewer nor more, nor others.
        group.patch(&json!({"replicas": 1})).unwrap();
        std::thread::sleep(std::time::Duration::from_secs(1));
        group.patch(&json!({"replicas": 6, "extraConfig": {"guestinfo.a": "b"}})).unwrap();
    });
    assert_eq!(group.identities(), before);
    assert_eq!(group.namespace.events("VmGroup", "SafetyHold").unwrap().len(), 1);
    group.patch(&json!({"replicas": 4, "extraConfig": null})).unwrap();
    hide(&group, &[]);
    group.recovers_to(4, "runtime.powerState", "poweredOn");
    assert_eq!(group.identities(), before);
    assert!(group.status().unwrap()["incident"].is_null());
}

#[test]
fn a_person_releases_an_incident_by_its_name_and_no_other() {
    let group = Group::create_apart(sandbox(), "released", &json!({"replicas": 3, "lostAfterSeconds": 1}));
    let machines = group.runs_with(3);
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    for machine in &machines[..2] {
        group.vcenter().govc(&["vm.power", "-off", "-force", machine]).unwrap();
        group.vcenter().govc(&["vm.unregister", machine]).unwrap();
    }
    group.patch(&json!({"paused": false})).unwrap();
    stalls(&group, "SafetyHold", "2 of 3 VMs are missing at once");
    let incident = incident(&group);
    let vcenter = vcenter_says(&group, "True", "SafetyHold");
    let whole = vcenter["status"]["incident"].as_str().unwrap().to_owned();
    nothing_is_made_or_destroyed(&group, || {
        let annotation = "vm.codeconnect.vmworld.com/release=vg-nonsense";
        group.namespace.kubectl(&["annotate", "vg", group.name(), annotation]).unwrap();
    });
    let drover = Program::at(&binary()).with(sandbox().environment());
    let refused = drover.run(&["release", "vg-nonsense"]).unwrap_err();
    assert!(refused.stderr.contains("there is no incident vg-nonsense"), "{}", refused.stderr);
    // The group's own, as the page has it, and that of its vCenter.
    let page = Page::open(sandbox(), "docs/groups.md");
    let named = "kubectl get vg web -o jsonpath={.status.incident}";
    assert_eq!(page.run_with(named, &[("web", "released -n released")]), incident);
    let said = page.run_with("drover release vg-qkzwhxhe", &[("vg-qkzwhxhe", &incident)]);
    let shown = page.printed("drover release vg-qkzwhxhe");
    assert_eq!(said, shown.replace("default/web", "released/released").replace("vg-qkzwhxhe", &incident));
    drover.run(&["release", &whole]).unwrap();
    group.recovers_to(3, "runtime.powerState", "poweredOn");
    vcenter_says(&group, "False", "NoVMsMissing");
    group.delete();
}

#[test]
fn a_host_that_is_removed_with_its_vms_doubles_none_of_them_and_they_are_members_when_it_is_back() {
    let group = Group::create_apart(sandbox(), "host-removed", &json!({"replicas": 4, "lostAfterSeconds": 1}));
    let machines = group.runs_with(4);
    let uuids = |group: &Group| {
        let identities = group.identities();
        identities
            .iter()
            .map(|both| both.split(' ').nth(1).unwrap().to_owned())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let before = uuids(&group);
    let path = format!("/hosts/{}", host_of(&group, &machines[0]));
    nothing_is_made_or_destroyed(&group, || {
        group.vcenter().control("DELETE", &path, &serde_json::Value::Null).unwrap();
        stalls(&group, "SafetyHold", "VMs are missing at once");
    });
    group.vcenter().control("POST", &path, &serde_json::Value::Null).unwrap();
    group.recovers_to(4, "runtime.powerState", "poweredOn");
    assert_eq!(uuids(&group), before);
    group.delete();
    assert!(group.everywhere().is_empty());
}

#[test]
fn vms_that_look_outdated_though_nobody_changed_the_spec_are_not_all_replaced() {
    let group = Group::create_apart(sandbox(), "outdated", &json!({"replicas": 3}));
    let machines = group.runs_with(3);
    let before = group.identities();
    group.patch(&json!({"paused": true})).unwrap();
    group.says("RUNNING", "paused");
    for machine in &machines {
        group.vcenter().govc(&["vm.change", "-vm", machine, "-e", "drover.revision=0000000000000bad"]).unwrap();
    }
    // The pause ends without a change of what VMs are made from, but with another generation: so it is not explained away by that.
    nothing_is_made_or_destroyed(&group, || {
        group.patch(&json!({"paused": false})).unwrap();
        stalls(&group, "SafetyHold", "3 of 3 VMs would be replaced, though the spec has not changed");
    });
    assert_eq!(group.identities(), before);
    let incident = incident(&group);
    Program::at(&binary()).with(sandbox().environment()).run(&["release", &incident]).unwrap();
    group.recovers_to(3, "runtime.powerState", "poweredOn");
    assert!(group.identities().is_disjoint(&before));
}
