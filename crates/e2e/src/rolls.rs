//! Groups whose machines are replaced by ones that are told apart from those before: of another round.

use serde_json::{Value, json};

use crate::{Group, SOON, eventually};

/// Has the machines of groups replaced, and waits until that has begun in each vCenter.
#[track_caller]
pub fn roll(groups: &[Group], to: &str) {
    for group in groups {
        group.vcenter().forget_calls();
        group.patch(&json!({"extraConfig": {"guestinfo.round": to}})).unwrap_or_else(|failure| panic!("{failure}"));
    }
    for group in groups {
        eventually(group.sandbox, SOON, "the roll has begun", || {
            match group.vcenter().calls("CloneVM_Task", "drover") {
                0 => Err("nothing is cloned yet".to_owned()),
                _ => Ok(()),
            }
        });
    }
}

/// Waits until all groups are as declared, each with three machines of this round and no other.
#[track_caller]
pub fn have_rolled(groups: &[Group], to: &str) {
    for group in groups {
        group.runs_with(3);
        let machines = group.everywhere();
        assert_eq!(machines.len(), 3, "{}: {machines:?}", group.name());
        let paths: Vec<_> = machines.iter().map(String::as_str).collect();
        let shown = group.vcenter().govc(&[&["vm.info", "-json", "-e"], &paths[..]].concat());
        let shown = shown.unwrap_or_else(|failure| panic!("{failure}"));
        let shown: Value = serde_json::from_str(&shown).expect("govc prints JSON when asked to");
        let all = shown["virtualMachines"].as_array().map_or(&[][..], Vec::as_slice);
        assert_eq!(all.len(), 3, "{}: {shown}", group.name());
        for machine in all {
            let keys = machine["config"]["extraConfig"].as_array().map_or(&[][..], Vec::as_slice);
            let is_new = keys.iter().any(|key| key["key"] == "guestinfo.round" && key["value"] == to);
            assert!(is_new, "{}: {machine}", group.name());
        }
    }
}
