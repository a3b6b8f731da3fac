//! Privileges that are missing are named, with where and what to do.

use drover_e2e::{Group, SOON, binary, eventually};
use serde_json::{Value, json};

use super::{Declared, sandbox};

/// What `drover vcenter privileges` prints.
fn role() -> String {
    let output = std::process::Command::new(binary()).args(["vcenter", "privileges"]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_privilege_that_is_missing_is_named_with_the_object_and_a_refusal_is_mended_by_granting_it() {
    let lab = Declared::connected("rights", &json!({}));
    let script = role();
    let privileges: Vec<_> =
        script.lines().filter_map(|line| line.strip_prefix("  ")).map(|line| line.trim_end_matches(" \\")).collect();
    assert_eq!(privileges.len(), 21, "{script}");
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    let plain = ["vm.clone", "-vm.ipath", template, "-folder", "/DC0/vm", "-on=false", "plain"];
    lab.vcenter.govc(&plain).unwrap();
    let spec = json!({
        "replicas": 1,
        "vcenter": "rights",
        "placement": {"datastore": "LocalDS_0"},
        "networks": ["VM Network"],
    });
    let group = Group::create(sandbox(), "rights", &spec);
    let of_plain_vm = json!({"replicas": 1, "vcenter": "rights", "template": "/DC0/vm/plain"});
    let of_plain_vm = Group::create(sandbox(), "rights-plain", &of_plain_vm);
    for group in [&group, &of_plain_vm] {
        group.says("RUNNING", "successfully reconciled");
    }
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    for privilege in &privileges {
        lab.control("PUT", "/privileges", &json!({"missing": [privilege]}));
        lab.control("DELETE", "/sessions", &Value::Null);
        let object = match privilege.split('.').next().unwrap() {
            "Datastore" => "on the datastore LocalDS_0: ",
            "Network" => "on the network VM Network: ",
            "Resource" => "on the resource pool ",
            _ if privilege.ends_with("Provisioning.Clone") => "on the VM /DC0/vm/plain: ",
            _ if privilege.ends_with("DeployTemplate") => "on the template vm-operator-template: ",
            _ => "on the folder vm-operator: ",
        };
        let message = lab.says("Authorized", "False", "PrivilegesMissing", privilege);
        assert!(message.contains(object) && message.contains("drover vcenter privileges"), "{message}");
    }
    // What only a field needs is asked for where that is set.
    let extend = "VirtualMachine.Config.DiskExtend";
    assert!(
        script.contains(&format!(
            "# Only where VmGroups set spec.rootDisk.sizeGiB:\n# govc role.update -a Drover {extend}"
        )),
        "{script}"
    );
    lab.control("PUT", "/privileges", &json!({"missing": [extend]}));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    of_plain_vm.patch(&json!({"rootDisk": {"sizeGiB": 40}})).unwrap();
    lab.says("Authorized", "False", "PrivilegesMissing", &format!("on the folder vm-operator: {extend}"));
    of_plain_vm.says("ERROR", extend);
    lab.control("PUT", "/privileges", &json!({"missing": []}));
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    of_plain_vm.says("RUNNING", "successfully reconciled");
    let customize = "VirtualMachine.Provisioning.Customize";
    assert!(
        script.contains(&format!("guest.network to Customization:\n# govc role.update -a Drover {customize}")),
        "{script}"
    );
    lab.control("PUT", "/privileges", &json!({"missing": [customize]}));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    of_plain_vm.patch(&json!({"guest": {"network": "Customization"}})).unwrap();
    lab.says("Authorized", "False", "PrivilegesMissing", &format!("on the template /DC0/vm/plain: {customize}"));
    lab.control("PUT", "/privileges", &json!({"missing": []}));
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    of_plain_vm.says("RUNNING", "successfully reconciled");
    let clone = "VirtualMachine.Provisioning.DeployTemplate";
    lab.control("PUT", "/privileges", &json!({"missing": [clone]}));
    group.patch(&json!({"replicas": 2})).unwrap();
    group.says("ERROR", clone);
    lab.says("Authorized", "False", "PrivilegesMissing", clone);
    lab.control("PUT", "/privileges", &json!({"missing": []}));
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    eventually(sandbox(), SOON, "what was refused is done", || {
        let status = group.status()?;
        if status["currentReplicas"] == 2 && status["phase"] == "RUNNING" { Ok(()) } else { Err(status.to_string()) }
    });
    group.delete();
    of_plain_vm.delete();
}

#[test]
fn what_a_group_needed_rights_for_is_forgotten_with_it_and_with_what_it_names_no_more() {
    let lab = Declared::connected("forgotten", &json!({}));
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    for name in ["plain", "other"] {
        lab.vcenter.govc(&["vm.clone", "-vm.ipath", template, "-folder", "/DC0/vm", "-on=false", name]).unwrap();
    }
    let of = |name: &str| json!({"replicas": 1, "vcenter": "forgotten", "template": format!("/DC0/vm/{name}")});
    let goes = Group::create(sandbox(), "rights-goes", &of("plain"));
    let stays = Group::create(sandbox(), "rights-stays", &of("other"));
    for group in [&goes, &stays] {
        group.says("RUNNING", "successfully reconciled");
    }
    lab.control("PUT", "/privileges", &json!({"missing": ["VirtualMachine.Provisioning.Clone"]}));
    lab.control("DELETE", "/sessions", &Value::Null);
    let message = lab.says("Authorized", "False", "PrivilegesMissing", "on the VM /DC0/vm/plain");
    assert!(message.contains("on the VM /DC0/vm/other"), "{message}");
    goes.delete();
    eventually(sandbox(), SOON, "the VM of the group that is gone isn't told of", || {
        let message = lab.says("Authorized", "False", "PrivilegesMissing", "on the VM /DC0/vm/other");
        if message.contains("/DC0/vm/plain") { Err(message) } else { Ok(()) }
    });
    // A template needs another privilege than a VM does.
    stays.patch(&json!({"template": "vm-operator-template", "update": {"strategy": "OnDelete"}})).unwrap();
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    lab.control("PUT", "/privileges", &json!({"missing": []}));
    stays.delete();
}

#[test]
fn the_role_that_is_printed_can_be_created_with_govc() {
    let vcenter = sandbox().vcenter();
    let words: Vec<_> = role()
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| {
            line.split_whitespace().filter(|word| *word != "\\").map(ToOwned::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let (govc, arguments) = words.split_first().unwrap();
    assert_eq!(govc, "govc");
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    vcenter.govc(&arguments).unwrap();
    let roles = vcenter.govc(&["role.ls"]).unwrap();
    assert!(roles.contains("Drover"), "{roles}");
    let granted = vcenter.govc(&["role.ls", "Drover"]).unwrap();
    assert!(granted.contains("Resource.AssignVMToPool"), "{granted}");
}
