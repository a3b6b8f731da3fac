//! VMs that an earlier version made are the group's under this one.

use drover_e2e::{Group, Operator, SOON, eventually};
use serde_json::json;

use crate::lonely;

#[test]
fn members_of_an_earlier_version_are_marked_once_and_stay_the_same_vms() {
    let (sandbox, _turn) = lonely();
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "upgraded", &json!({"replicas": 2}));
    let machines = group.runs_with(2);
    let before = group.identities();
    drop(operator);
    // As an earlier version left them: a marker that names no VM, and no record.
    for machine in &machines {
        let keys = ["-e", "drover.instance=", "-e", "drover.incarnation="];
        group.vcenter().govc(&[&["vm.change", "-vm", machine][..], &keys].concat()).unwrap();
    }
    let forget = json!({"status": {"record": null}});
    let patched = ["patch", "vg", group.name(), "--subresource=status", "--type=merge", "-p", &forget.to_string()];
    group.namespace.kubectl(&patched).unwrap();
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    eventually(sandbox, SOON, "the markers name their VMs", || {
        for machine in &machines {
            let keys = group.vcenter().govc(&["vm.info", "-e", machine]).map_err(|failure| failure.to_string())?;
            let instance = group.vcenter().govc(&["object.collect", "-s", machine, "config.instanceUuid"]);
            let instance = instance.map_err(|failure| failure.to_string())?;
            if !keys.lines().any(|line| line.contains("drover.instance") && line.contains(instance.trim())) {
                return Err(keys);
            }
        }
        Ok(())
    });
    group.runs_with(2);
    assert_eq!(group.identities(), before);
    group.delete();
    assert!(group.everywhere().is_empty());
}
