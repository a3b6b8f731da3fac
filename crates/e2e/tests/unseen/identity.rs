//! A member is the one VM that Drover made. Whatever else carries its marker is shown and left alone.

use drover_e2e::{Group, Program, binary};
use serde_json::{Value, json};

use crate::{A_WHILE, copy, host_of, instance_of, name, nothing_is_made_or_destroyed, sandbox, set_instance, stalls};

/// The VMs at these names in the datacenter's folder, by id.
fn there(group: &Group, names: &[&str]) -> Vec<String> {
    let found = group.vcenter().govc(&["find", "-i", "/DC0/vm", "-maxdepth", "1", "-type", "m"]).unwrap();
    let all = group.vcenter().govc(&["find", "/DC0/vm", "-maxdepth", "1", "-type", "m"]).unwrap();
    for wanted in names {
        assert!(all.lines().any(|path| name(path) == *wanted), "{wanted} is gone: {all}");
    }
    found.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn copies_of_members_outlive_scale_in_and_deletion_and_are_told_of() {
    let group = Group::create_apart(sandbox(), "copies", &json!({"replicas": 2}));
    let machines = group.runs_with(2);
    copy(&group, &machines[0], "copy-of-first");
    copy(&group, &machines[1], "copy-of-second");
    group.tells("CopyFound", "copy-of-first is a copy of a member");
    copy(&group, &machines[1], "golden");
    group.vcenter().govc(&["vm.markastemplate", "/DC0/vm/golden"]).unwrap();
    let copies = there(&group, &["copy-of-first", "copy-of-second", "golden"]);
    let manifest = group.get().unwrap().to_string();
    let checked = Program::at(&binary())
        .with(sandbox().environment())
        .run_with_input(&["check", "--operator-namespace=default", "-f", "-"], &manifest);
    let checked = checked.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(checked.contains("copies        3 carry the group's marker and aren't its members"), "{checked}");
    // The copy doesn't take the place of the one that was lost, either.
    group.loses(&machines[0]);
    group.recovers_to(2, "runtime.powerState", "poweredOn");
    group.patch(&json!({"replicas": 0})).unwrap();
    group.settles_with(0, "runtime.powerState", "poweredOn");
    assert_eq!(there(&group, &["copy-of-first", "copy-of-second", "golden"]), copies);
    group.delete();
    std::thread::sleep(A_WHILE);
    assert_eq!(there(&group, &["copy-of-first", "copy-of-second", "golden"]), copies);
}

#[test]
fn a_copy_in_the_groups_folder_is_left_alone_too_and_keeps_the_folder() {
    let group = Group::create_apart(sandbox(), "copy-inside", &json!({"replicas": 1}));
    let machines = group.runs_with(1);
    let inside = ["vm.clone", "-vm.ipath", &machines[0], "-folder", &group.folder(), "-on=false", "inside"];
    group.vcenter().govc(&inside).unwrap();
    group.tells("CopyFound", "inside is a copy of a member");
    group.delete();
    let left = group.vcenter().govc(&["find", &group.folder(), "-type", "m"]).unwrap();
    assert_eq!(left.trim(), format!("{}/inside", group.folder()));
}

#[test]
fn a_member_that_comes_back_after_its_end_is_shown_and_left_alone() {
    let group = Group::create_apart(sandbox(), "returned", &json!({"replicas": 2, "lostAfterSeconds": 1}));
    let machines = group.runs_with(2);
    // Taken away with its host, it may be anywhere; in the end another is made in its place.
    let host = host_of(&group, "/DC0/vm/vm-operator/vm-operator-template");
    let machine =
        machines.iter().find(|machine| host_of(&group, machine) != host).expect("VMs are spread over both hosts");
    let path = format!("/hosts/{}", host_of(&group, machine));
    group.vcenter().control("DELETE", &path, &Value::Null).unwrap();
    group.recovers_to(2, "runtime.powerState", "poweredOn");
    let after = group.identities();
    group.vcenter().control("POST", &path, &Value::Null).unwrap();
    group.tells("VMReturned", "was a member, and came back after it was given up");
    std::thread::sleep(A_WHILE);
    let now = group.identities();
    assert!(now.len() == 3 && after.is_subset(&now), "{now:?}");
    group.delete();
    let left = group.everywhere();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn of_two_vms_that_match_one_slot_neither_is_destroyed_and_the_group_says_so() {
    let group = Group::create_apart(sandbox(), "twins", &json!({"replicas": 1}));
    let machines = group.runs_with(1);
    copy(&group, &machines[0], "twin");
    group.tells("CopyFound", "twin is a copy of a member");
    let twin = "/DC0/vm/twin";
    let (own, of_copy) = (instance_of(&group, &machines[0]), instance_of(&group, twin));
    set_instance(&group, twin, &own);
    stalls(&group, "VMsMissing", "can't be proved to be this group's VM");
    let both = || (group.everywhere(), there(&group, &["twin"]));
    let before = both();
    nothing_is_made_or_destroyed(&group, || drop(group.patch(&json!({"replicas": 0})).unwrap()));
    nothing_is_made_or_destroyed(&group, || group.begin_to_delete());
    assert_eq!(both(), before);
    // When it is plain again which is which, the member goes and the copy stays.
    set_instance(&group, twin, &of_copy);
    group.is_gone();
    assert!(group.everywhere().is_empty());
    assert_eq!(there(&group, &["twin"]), before.1);
}

#[test]
fn a_member_that_vcenter_has_given_another_uuid_keeps_its_place_and_is_told_of() {
    let group = Group::create_apart(sandbox(), "reassigned", &json!({"replicas": 2, "lostAfterSeconds": 1}));
    let machines = group.runs_with(2);
    let (own, before) = (instance_of(&group, &machines[0]), group.everywhere());
    nothing_is_made_or_destroyed(&group, || {
        set_instance(&group, &machines[0], "5e9a7c1e-0000-4000-8000-00000000beef");
        stalls(&group, "VMsMissing", "its instance UUID is not the one written down");
    });
    let power = group.vcenter().calls("PowerOffVM_Task", "drover");
    assert_eq!((group.everywhere(), power), (before.clone(), 0));
    set_instance(&group, &machines[0], &own);
    group.recovers_to(2, "runtime.powerState", "poweredOn");
    assert_eq!(group.everywhere(), before);
    group.delete();
    assert!(group.everywhere().is_empty());
}
