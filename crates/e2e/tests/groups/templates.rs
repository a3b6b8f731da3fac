//! What VMs may be cloned from: templates, and VMs that are powered off and nobody's.

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::sandbox;

const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

/// A VM of somebody's that is no template, powered off. Returns its path.
fn golden(name: &str) -> String {
    let govc = ["vm.clone", "-vm.ipath", TEMPLATE, "-folder", "/DC0/vm", "-on=false", name];
    sandbox().vcenter().govc(&govc).unwrap();
    format!("/DC0/vm/{name}")
}

fn object_id(path: &str) -> String {
    let found = sandbox().vcenter().govc(&["find", "-i", path, "-maxdepth", "0"]).unwrap();
    found.trim().strip_prefix("VirtualMachine:").unwrap().to_owned()
}

/// Asserts that no clone was ever begun for a group: each is written down before vCenter is asked for it.
#[track_caller]
fn has_no_vm(group: &Group<'_>) {
    assert_eq!(group.everywhere(), Vec::<String>::new());
    let record = group.status().unwrap()["record"].clone();
    assert!(record.is_null() || record["incarnation"] == 0, "{record}");
}

/// Asserts that nothing at all was made for a group.
#[track_caller]
fn has_nothing(group: &Group<'_>) {
    has_no_vm(group);
    assert!(group.vcenter().govc(&["find", "-i", &group.folder(), "-maxdepth", "0"]).is_err(), "it has no folder");
}

#[test]
fn a_running_vm_is_no_template_and_one_that_is_powered_off_is() {
    let path = golden("golden-runs");
    let vcenter = sandbox().vcenter();
    vcenter.govc(&["vm.power", "-on", &path]).unwrap();
    let said =
        r#"spec.template: "/DC0/vm/golden-runs" is powered on: use a template of vCenter, or a VM that is powered off"#;
    // Drover may not have heard of it yet, and all the same nothing is cloned.
    let early = Group::create(sandbox(), "of-running-early", &json!({"replicas": 2, "template": path}));
    early.is_refused(said);
    has_no_vm(&early);
    early.delete();
    let group = Group::create(sandbox(), "of-running", &json!({"replicas": 2, "template": path}));
    group.is_refused(said);
    has_nothing(&group);
    vcenter.govc(&["vm.power", "-suspend", &path]).unwrap();
    group.is_refused("is suspended");
    has_nothing(&group);
    vcenter.govc(&["vm.power", "-off", "-force", &path]).unwrap();
    group.runs_with(2);
    group.delete();
}

#[test]
fn a_group_whose_template_is_powered_on_keeps_its_vms_and_shrinks() {
    let path = golden("golden-on-and-off");
    let vcenter = sandbox().vcenter();
    let group = Group::create(sandbox(), "kept", &json!({"replicas": 3, "template": path}));
    group.runs_with(3);
    let before = group.identities();
    vcenter.govc(&["vm.power", "-on", &path]).unwrap();
    group.patch(&json!({"extraConfig": {"guestinfo.key": "new"}})).unwrap();
    group.is_refused("is powered on");
    assert_eq!(group.identities(), before, "nothing is replaced");
    let lost = group.machines("name").unwrap().remove(0).0;
    vcenter.govc(&["vm.power", "-off", "-force", &lost]).unwrap();
    eventually(group.sandbox, SOON, "it is powered on again", || {
        let states = group.machines("runtime.powerState")?;
        if states.iter().all(|(_, state)| state == "poweredOn") { Ok(()) } else { Err(format!("{states:?}")) }
    });
    group.patch(&json!({"replicas": 2})).unwrap();
    eventually(group.sandbox, SOON, "one goes", || {
        let left = group.machines("name")?;
        if left.len() == 2 { Ok(()) } else { Err(format!("{left:?}")) }
    });
    group.is_refused("is powered on");
    assert!(group.identities().is_subset(&before), "none is made");
    vcenter.govc(&["vm.power", "-off", "-force", &path]).unwrap();
    group.runs_with(2);
    assert!(group.identities().is_disjoint(&before), "all are made from what is declared");
    group.delete();
}

#[test]
fn a_member_of_another_group_is_no_template_also_by_its_object_id() {
    let theirs = Group::create(sandbox(), "theirs", &json!({"replicas": 1, "powerState": "Off"}));
    let member = theirs.settles_with(1, "runtime.powerState", "poweredOff").remove(0);
    let named =
        [member.clone(), member.rsplit('/').next().unwrap().to_owned(), format!("moref:{}", object_id(&member))];
    for (number, word) in named.iter().enumerate() {
        let group = Group::create(sandbox(), &format!("of-member-{number}"), &json!({"template": word}));
        let said =
            format!("spec.template: {word:?} is a VM of a VmGroup: clone it to a template in vCenter, and use that");
        group.is_refused(&said);
        has_nothing(&group);
        group.delete();
    }
    // A copy that a person makes of it carries its marker, and is a VM of nobody.
    let copy = ["vm.clone", "-vm.ipath", &member, "-folder", "/DC0/vm", "-on=false", "golden-copy"];
    sandbox().vcenter().govc(&copy).unwrap();
    let group = Group::create(sandbox(), "of-copy", &json!({"replicas": 1, "template": "/DC0/vm/golden-copy"}));
    group.runs_with(1);
    group.delete();
    theirs.delete();
}

#[test]
fn check_and_plan_say_that_a_running_vm_is_no_template() {
    let path = golden("golden-checked");
    sandbox().vcenter().govc(&["vm.power", "-on", &path]).unwrap();
    let manifest = drover_e2e::vm_group("checked", &json!({"template": path}));
    let file = sandbox().dir().join("of-running.json");
    std::fs::write(&file, manifest.to_string()).unwrap();
    let file = file.to_str().unwrap();
    for (command, code) in [(["plan", "-f", file], 1), (["check", "-f", file], 2)] {
        let output = crate::commands::drover(sandbox(), &command, ("UNUSED", ""));
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(printed.contains(r#""/DC0/vm/golden-checked" is powered on"#), "{printed}");
    }
}
