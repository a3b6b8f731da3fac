//! Keys of extraConfig: what a group may set, and what becomes of one that sets more.

use drover_e2e::{Group, SOON, VCenter, eventually};
use serde_json::{Value, json};

use crate::sandbox;

/// Whether every VM of the group has a key with this value.
fn all_have(group: &Group<'_>, vcenter: &VCenter, key: &str, value: &str) -> bool {
    let machines = group.everywhere();
    let has_it = |machine: &String| {
        let shown: Value = serde_json::from_str(&vcenter.govc(&["vm.info", "-json", "-e", machine]).unwrap()).unwrap();
        let options = shown["virtualMachines"][0]["config"]["extraConfig"].as_array().cloned().unwrap_or_default();
        options.iter().any(|option| option["key"] == key && option["value"] == value)
    };
    !machines.is_empty() && machines.iter().all(has_it)
}

#[test]
fn a_key_that_is_not_allowed_makes_no_vm_and_takes_none() {
    let new = Group::create(sandbox(), "keys-new", &json!({"extraConfig": {"company.team": "a"}}));
    let said = r#"spec.extraConfig: namespace "keys-new" may not set "company.team" in VCenter "default". "#;
    new.is_refused(said);
    assert_eq!(new.everywhere(), Vec::<String>::new());
    let status = new.status().unwrap();
    assert_eq!(status["extraConfigKept"], json!([]), "it is new: {status}");
    let record = &status["record"];
    assert!(record.is_null() || record["incarnation"] == 0, "no clone was ever begun: {record}");
    new.patch(&json!({"extraConfig": {"company.team": null, "guestinfo.team": "a", "disk.enableUUID": "TRUE"}}))
        .unwrap();
    new.runs_with(2);
    assert!(all_have(&new, new.vcenter(), "guestinfo.team", "a"));
    let before = new.identities();
    new.patch(&json!({"extraConfig": {"isolation.tools.copy.disable": "FALSE"}})).unwrap();
    new.is_refused(r#"may not set "isolation.tools.copy.disable""#);
    assert_eq!(new.identities(), before, "the VMs are kept");
    new.patch(&json!({"replicas": 1})).unwrap();
    eventually(new.sandbox, SOON, "one goes", || {
        let left = new.machines("name")?;
        if left.len() == 1 { Ok(()) } else { Err(format!("{left:?}")) }
    });
    new.delete();
    assert!(new.everywhere().is_empty());
}
