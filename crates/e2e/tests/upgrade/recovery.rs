//! A cluster that is restored from a backup gives every group another UID. Its VMs have been in vCenter all the time.

use drover_e2e::{Group, Operator, Page, SOON, Sandbox, eventually};
use serde_json::json;

use crate::{nothing_was_changed, restorable, vms};

const TAKE_OVER: &str = "vm.codeconnect.vmworld.com/take-over";

fn annotate(group: &Group<'_>, value: &str) {
    let annotation = format!("{TAKE_OVER}={value}");
    group.namespace.kubectl(&["annotate", "--overwrite", "vg", group.name(), &annotation]).unwrap();
}

#[test]
fn groups_restored_into_a_new_cluster_take_over_every_vm_and_change_none() {
    let old = Sandbox::start("old", &[]).unwrap();
    old.install_kinds();
    let vcenter = old.vcenter();
    let operator = Operator::start(&old, vcenter).unwrap();
    let groups = [("web", 3), ("apart", 1)].map(|(name, replicas)| {
        let group = Group::create(&old, name, &json!({"replicas": replicas}));
        (group, replicas)
    });
    let before = groups.each_ref().map(|(group, replicas)| {
        group.runs_with(*replicas);
        vms(group)
    });
    let id = "kubectl get namespace kube-system -o jsonpath='{.metadata.uid}'";
    let cluster = Page::open(&old, "docs/operate.md").run(id);
    let [web_uid, _] = groups.each_ref().map(|(group, _)| {
        let object = group.get().unwrap();
        object["metadata"]["uid"].as_str().unwrap().to_owned()
    });
    let backup = groups.each_ref().map(|(group, _)| group.get().unwrap());
    drop(operator);
    vcenter.forget_calls();

    // The objects come back with their annotations, labels and finalizers, and without their statuses, as Velero restores them.
    let new = Sandbox::start("new", &[]).unwrap();
    new.install_kinds();
    let [web, apart] = backup.map(|object| {
        let namespace = new.namespace(object["metadata"]["name"].as_str().unwrap());
        namespace.create(&restorable(object)).unwrap();
        Group::of(namespace, &new).in_vcenter(vcenter)
    });
    let thief = Group::of(new.namespace("thief"), &new).in_vcenter(vcenter);
    let mut manifest = drover_e2e::vm_group("thief", &json!({"replicas": 1}));
    manifest["metadata"]["annotations"] = json!({TAKE_OVER: web_uid});
    thief.namespace.declare(&manifest).unwrap();

    // An operator that does not know which cluster this one stands for says what to do.
    let stranger = Operator::start(&new, vcenter).unwrap();
    web.says("ERROR", &format!("run the operator with --cluster-id={cluster}"));
    drop(stranger);
    let id = format!("--cluster-id={cluster}");
    let operator = Operator::start_with(&new, vcenter, &[&id]).unwrap();
    // Nothing is made beside the VMs that there are, and none is anybody's who only says so.
    web.says("ERROR", &format!("(3 VMs of UID {web_uid}). No VM is created until the annotation {TAKE_OVER}"));
    apart.says("ERROR", "(1 VM of UID ");
    thief.says("ERROR", "no VM of a VmGroup with that UID, this namespace, this name");
    annotate(&web, "0e6cb7b1-0000-0000-0000-000000000000");
    web.says("ERROR", "no VM of a VmGroup with that UID");
    nothing_was_changed(vcenter);

    // As the page has it, for this very group.
    let page = Page::open(&new, "docs/operate.md");
    web.namespace.kubectl(&["annotate", "vg", "web", &format!("{TAKE_OVER}-")]).unwrap();
    eventually(&new, SOON, "the message names the UID", || {
        let message = page.run("kubectl get vmgroup web -n web -o jsonpath='{.status.lastMessage}'");
        if message.contains(&web_uid) { Ok(()) } else { Err(message) }
    });
    page.run_with(
        "kubectl annotate vmgroup web -n web vm.codeconnect.vmworld.com/take-over=OLD-UID",
        &[("OLD-UID", &web_uid)],
    );
    web.runs_with(3);
    assert_eq!(vms(&web), before[0]);
    nothing_was_changed(vcenter);
    web.tells("VMsTakenOver", &web_uid);
    eventually(&new, SOON, "each member is published again", || {
        let infos = web.namespace.list("vi").map_err(|failure| failure.to_string())?;
        if infos.len() == 3 { Ok(()) } else { Err(format!("{infos:?}")) }
    });

    // From then on it is a group like any other, with or without the annotation, whoever looks after it.
    drop(operator);
    web.namespace.kubectl(&["annotate", "vg", "web", &format!("{TAKE_OVER}-")]).unwrap();
    let _operator = Operator::start_with(&new, vcenter, &[&id]).unwrap();
    web.patch(&json!({"replicas": 4})).unwrap();
    web.runs_with(4);
    let mut grown = vms(&web);
    assert_eq!(vcenter.calls("CloneVM_Task", "drover"), 1, "only the fourth is new");
    grown.retain(|vm, _| before[0].contains_key(vm));
    assert_eq!(grown, before[0]);
    web.delete();
    assert!(web.everywhere().is_empty());

    // Who wants new VMs says so, and the old ones are left alone.
    annotate(&apart, "none");
    eventually(&new, SOON, "it has a VM of its own", || {
        let status = apart.status()?;
        if status["phase"] == "RUNNING" && status["currentReplicas"] == 1 { Ok(()) } else { Err(status.to_string()) }
    });
    let mut both = vms(&apart);
    assert_eq!(both.len(), 2, "{both:?}");
    both.retain(|vm, _| before[1].contains_key(vm));
    assert_eq!(both, before[1]);
}
