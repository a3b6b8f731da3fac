//! Namespaces that share a vCenter.

use drover_e2e::{Namespace, Operator, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

use crate::{Declared, SOON, sandbox};

/// Groups of the greedy namespace, and VMs of each.
const GROUPS: usize = 100;
const EACH: usize = 100;
const AT_ONCE: usize = 2;
const SMALL: usize = 3;

/// The names of the VMs in folders, in the order in which vCenter has made them.
fn clones(vcenter: &VCenter, folders: &str) -> Vec<String> {
    let shown = vcenter.govc(&["vm.info", "-json", &format!("/DC0/vm/vm-operator/{folders}/*")]).unwrap();
    let shown: Value = serde_json::from_str(&shown).expect("govc prints JSON when asked to");
    let text = |vm: &Value, path: &str| vm.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let vms = shown["virtualMachines"].as_array().into_iter().flatten();
    // Fractions of a second have no zeros at their end: Z must not be compared with a digit.
    let created = |vm: &Value| text(vm, "/config/createDate").trim_end_matches('Z').to_owned();
    let mut vms: Vec<_> = vms.map(|vm| (created(vm), text(vm, "/name"))).collect();
    vms.sort();
    vms.into_iter().map(|(_, name)| name).collect()
}

/// Declares a group that has a folder and no VMs.
fn prepare(namespace: &Namespace, name: &str) {
    namespace.declare(&vm_group(name, &json!({"vcenter": "fair", "replicas": 0}))).unwrap();
}

fn scale(namespace: &Namespace, name: &str, replicas: usize) {
    namespace.patch("vg", name, &json!({"spec": {"replicas": replicas}})).unwrap();
}

#[test]
fn a_namespace_of_many_groups_delays_the_group_of_another_by_one_turn() {
    // Few of the VMs are ever made: all ends with the sandbox.
    let sandbox = &Sandbox::start("fair", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    let fair = sandbox.own_vcenter();
    fair.declare(sandbox, "fair", &json!({"limits": {"operations": AT_ONCE}}));
    let (greedy, small) = (sandbox.namespace("fair-greedy"), sandbox.namespace("fair-small"));
    let groups: Vec<_> = (0..GROUPS).map(|number| format!("greedy-{number}")).collect();
    for group in &groups {
        prepare(&greedy, group);
    }
    prepare(&small, "small");
    eventually(sandbox, SOON, "all groups have folders", || {
        let folders = fair.govc(&["ls", "-t", "Folder", "/DC0/vm/vm-operator"]);
        let folders = folders.map_err(|failure| failure.to_string())?.lines().count();
        if folders == GROUPS + 1 { Ok(()) } else { Err(format!("{folders} have")) }
    });
    let has_queued = |operations: usize| {
        eventually(sandbox, SOON, &format!("{operations} operations wait"), || {
            let path = "/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/fair";
            let status = sandbox.get(path).map_err(|failure| failure.to_string())?["status"].clone();
            if status["queued"] == operations { Ok(()) } else { Err(status.to_string()) }
        });
    };

    let held = fair.rule(&json!({"method": "CloneVM_Task", "client": "drover", "hold": "before"}));
    for group in &groups {
        scale(&greedy, group, EACH);
    }
    has_queued(GROUPS * EACH - AT_ONCE);
    scale(&small, "small", SMALL);
    has_queued(GROUPS * EACH - AT_ONCE + SMALL);
    held.remove();
    eventually(sandbox, SOON, "the VMs of the small one are there", || {
        let clones = clones(&fair, "fair-small.*").len();
        if clones == SMALL { Ok(()) } else { Err(format!("{clones} are")) }
    });
    drop(operator);

    // Those that were held, and for each of the three one of the greedy namespace. What is under way at the same time may overtake.
    let soon = AT_ONCE + 2 * SMALL + AT_ONCE;
    let order = clones(&fair, "fair-*");
    let early = order.iter().take(soon).filter(|name| name.starts_with("small-")).count();
    assert_eq!(early, SMALL, "of the first {soon}: {order:?}");
}

#[test]
fn a_namespace_that_looks_for_much_leaves_turns_to_others() {
    let slow = Declared::connected("slow-lookups", &json!({}));
    slow.says("Authorized", "True", "PrivilegesGranted", "");
    // All that a group names is looked for in views.
    let held = slow.vcenter.rule(&json!({"method": "CreateContainerView", "client": "drover", "hold": "before"}));
    let has_asked = |calls: u64| {
        eventually(sandbox(), SOON, &format!("{calls} look-ups are held"), || {
            let hits = held.hits();
            if hits == calls { Ok(()) } else { Err(format!("{hits} are")) }
        });
    };
    let (greedy, small) = (sandbox().namespace("lookups-greedy"), sandbox().namespace("lookups-small"));
    let group = |name: &str| vm_group(name, &json!({"vcenter": "slow-lookups", "replicas": 1}));
    for number in 0..20 {
        greedy.declare(&group(&format!("greedy-{number}"))).unwrap();
    }
    has_asked(4);
    small.declare(&group("small")).unwrap();
    has_asked(5);
    held.remove();
    eventually(sandbox(), SOON, "the small one runs", || {
        let status = small.get("vg", "small").map_err(|failure| failure.to_string())?["status"].clone();
        if status["phase"] == "RUNNING" { Ok(()) } else { Err(status.to_string()) }
    });
}
