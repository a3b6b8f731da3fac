//! Few are missing of each group, and many of the vCenter.

use std::collections::BTreeSet;

use drover_e2e::{Group, SOON, eventually, vm_group};
use serde_json::json;

use crate::{hide, name, nothing_is_made_or_destroyed, sandbox, stalls, vcenter_says};

const SINGLES: [&str; 5] = ["single-0", "single-1", "single-2", "single-3", "single-4"];

/// The paths of all VMs that groups have made here, and the ids of all VMs: a VM made anew has another.
fn members(group: &Group) -> (Vec<String>, BTreeSet<String>) {
    let machines = group.vcenter().machines().into_iter().filter(|path| path.contains("-replica")).collect();
    let ids = group.vcenter().govc(&["find", "-i", "/DC0/vm", "-type", "m"]).unwrap();
    (machines, ids.lines().map(ToOwned::to_owned).collect())
}

/// Waits until all groups of one VM say that they are as declared.
#[track_caller]
fn singles_run(group: &Group) {
    for single in SINGLES {
        eventually(sandbox(), SOON, &format!("{single} runs"), || {
            let status = group.namespace.get("vg", single).map_err(|failure| failure.to_string())?["status"].clone();
            let is_so = status["phase"] == "RUNNING" && status["readyReplicas"] == 1;
            if is_so { Ok(()) } else { Err(status.to_string()) }
        });
    }
}

#[test]
fn one_missing_of_each_of_three_groups_stops_every_group_of_their_vcenter_until_they_are_back() {
    let healthy = Group::create_apart(sandbox(), "across", &json!({}));
    for single in SINGLES {
        let spec = json!({"replicas": 1, "lostAfterSeconds": 1, "vcenter": healthy.name()});
        healthy.namespace.declare(&vm_group(single, &spec)).unwrap();
    }
    healthy.runs_with(2);
    singles_run(&healthy);
    let (machines, before) = members(&healthy);
    assert_eq!(machines.len(), 7, "{machines:?}");
    let of_first_three = |path: &&String| SINGLES[..3].iter().any(|single| name(path).starts_with(single));
    let hidden: Vec<_> = machines.iter().filter(of_first_three).map(|path| name(path)).collect();
    assert_eq!(hidden.len(), 3, "{machines:?}");
    hide(&healthy, &hidden);
    let incident = vcenter_says(&healthy, "True", "SafetyHold")["status"]["incident"].clone();
    let incident = incident.as_str().unwrap_or_default();
    assert!(incident.starts_with("vc-"), "{incident:?}");
    nothing_is_made_or_destroyed(&healthy, || {
        healthy.patch(&json!({"replicas": 4})).unwrap();
        stalls(&healthy, "SafetyHold", incident);
    });
    assert_eq!(healthy.status().unwrap()["incident"], incident);
    assert_eq!(members(&healthy).1, before);
    hide(&healthy, &[]);
    vcenter_says(&healthy, "False", "NoVMsMissing");
    healthy.runs_with(4);
    singles_run(&healthy);
    let (machines, after) = members(&healthy);
    assert!(machines.len() == 9 && after.is_superset(&before), "{machines:?}");
    assert!(healthy.status().unwrap()["incident"].is_null());
    healthy.namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap();
    assert!(members(&healthy).0.is_empty(), "{:?}", members(&healthy));
}

#[test]
fn a_group_that_can_not_be_looked_at_ends_no_incident_and_prolongs_none() {
    let broken = Group::create_apart(sandbox(), "broken", &json!({"replicas": 4, "lostAfterSeconds": 0}));
    let spec = json!({"replicas": 1, "lostAfterSeconds": 1, "vcenter": broken.name()});
    broken.namespace.declare(&vm_group("beside", &spec)).unwrap();
    broken.runs_with(4);
    let beside_is = |phase: &str| {
        eventually(sandbox(), SOON, &format!("beside is {phase}"), || {
            let status = broken.namespace.get("vg", "beside").map_err(|failure| failure.to_string())?["status"].clone();
            if status["phase"] == phase { Ok(()) } else { Err(status.to_string()) }
        });
    };
    beside_is("RUNNING");
    let (machines, before) = members(&broken);
    assert_eq!(machines.len(), 5, "{machines:?}");
    hide(&broken, &machines.iter().map(|path| name(path)).collect::<Vec<_>>());
    vcenter_says(&broken, "True", "SafetyHold");
    nothing_is_made_or_destroyed(&broken, || {
        broken.patch(&json!({"placement": {"folder": "no-such-folder"}})).unwrap();
        stalls(&broken, "NotFound", "no-such-folder");
    });
    vcenter_says(&broken, "True", "SafetyHold");
    assert_eq!(members(&broken).1, before);
    // Those of the group that can't be looked at are back, too.
    hide(&broken, &[]);
    vcenter_says(&broken, "False", "NoVMsMissing");
    beside_is("RUNNING");
    stalls(&broken, "NotFound", "no-such-folder");
    assert_eq!(members(&broken).1, before);
}
