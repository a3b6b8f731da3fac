//! A group that is put elsewhere leaves nothing behind.

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::{nothing_is_made_or_destroyed, sandbox};

#[test]
fn a_group_that_moves_to_another_folder_takes_its_vms_along_and_leaves_no_empty_folder() {
    let group = Group::create_apart(sandbox(), "moves", &json!({}));
    group.runs_with(2);
    let vcenter = group.vcenter();
    let uuids =
        || -> Vec<_> { group.identities().iter().map(|both| both.split(' ').nth(1).map(ToOwned::to_owned)).collect() };
    let before = uuids();
    vcenter.govc(&["folder.create", "/DC0/vm/elsewhere"]).unwrap();
    group.patch(&json!({"placement": {"folder": "elsewhere"}, "update": {"strategy": "OnDelete"}})).unwrap();
    eventually(sandbox(), SOON, "the VMs are in the other folder, and the old one is gone", || {
        let found = vcenter.govc(&["find", "/DC0/vm"]).map_err(|failure| failure.to_string())?;
        let inside = |folder: &str| found.lines().filter(|path| path.contains(folder)).count();
        if inside("/elsewhere/moves.moves/") == 2 && inside("/vm-operator/moves.moves") == 0 {
            Ok(())
        } else {
            Err(found)
        }
    });
    assert_eq!(uuids(), before);
    group.delete();
    let left = vcenter.govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("moves.moves"), "{left}");
}

#[test]
fn a_folder_that_only_has_the_id_of_one_that_was_the_groups_is_left_alone() {
    let group = Group::create_apart(sandbox(), "same-id", &json!({"replicas": 1}));
    group.runs_with(1);
    let vcenter = group.vcenter();
    vcenter.govc(&["folder.create", "/DC0/vm/strangers"]).unwrap();
    let found = vcenter.govc(&["find", "-i", "/DC0/vm", "-type", "f", "-name", "strangers"]).unwrap();
    let id = found.trim().strip_prefix("Folder:").unwrap();
    // As when vCenter was restored from a backup, and has given the id again.
    nothing_is_made_or_destroyed(&group, || {
        let left = json!({"status": {"record": {"leftFolders": [id]}}}).to_string();
        let patch = ["patch", "vg", group.name(), "--subresource=status", "--type=merge", "-p", &left];
        group.namespace.kubectl(&patch).unwrap();
    });
    assert_eq!(vcenter.govc(&["find", "-i", "/DC0/vm", "-type", "f", "-name", "strangers"]).unwrap(), found);
    group.delete();
    assert_eq!(vcenter.govc(&["find", "-i", "/DC0/vm", "-type", "f", "-name", "strangers"]).unwrap(), found);
}
