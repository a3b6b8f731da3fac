//! How groups end that can't go on: deleted with their VMs where these can be reached, or abandoned on request.

use std::sync::OnceLock;

use drover_e2e::{Group, Operator, Page, SOON, Sandbox, VCenter, eventually};
use serde_json::json;

const ABANDON: &str = "vm.codeconnect.vmworld.com/abandon=true";

/// One that takes groups which make no sense, as definitions of earlier versions did.
fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<(Sandbox, Operator)> = OnceLock::new();
    let (sandbox, _) = SANDBOX.get_or_init(|| {
        let sandbox = Sandbox::start("endings", &["--clone-delay=100ms", "--vcenters=5"]).unwrap();
        sandbox.install_kinds();
        let cpu = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/cpu/minimum";
        let loosen = json!([{"op": "remove", "path": cpu}]).to_string();
        let kind = "vmgroups.vm.codeconnect.vmworld.com";
        sandbox.kubectl().run(&["patch", "crd", kind, "--type=json", "-p", &loosen]).unwrap();
        let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        (sandbox, operator)
    });
    sandbox
}

fn abandon(group: &Group<'_>) {
    let page = Page::open(group.sandbox, "docs/groups.md");
    let web = format!("{0} -n {0}", group.name());
    page.run_with("kubectl annotate vg web vm.codeconnect.vmworld.com/abandon=true", &[("web", &web)]);
}

/// Has a VCenter serve other namespaces than it does.
fn serve_others(sandbox: &Sandbox, vcenter: &VCenter, name: &str) {
    vcenter.declare(sandbox, name, &json!({"namespaces": {"matchLabels": {"team": "others"}}}));
}

/// Makes a group senseless, which the API server wouldn't let in today.
fn make_senseless(group: &Group<'_>) {
    eventually(group.sandbox, SOON, "the API server takes the looser definition", || {
        group.patch(&json!({"cpu": 0})).map_err(|failure| failure.to_string())
    });
    group.is_not_ready("Invalid", "spec.cpu is 0");
}

#[test]
fn an_invalid_group_is_deleted_with_its_machines() {
    let group = Group::create(sandbox(), "senseless", &json!({}));
    group.runs_with(2);
    make_senseless(&group);
    assert_eq!(group.everywhere().len(), 2, "what makes no sense touches no VM");
    group.delete();
    assert_eq!(group.everywhere(), Vec::<String>::new());
}

#[test]
fn an_invalid_group_whose_vcenter_is_away_is_abandoned_on_request() {
    let group = Group::create_apart(sandbox(), "senseless-away", &json!({"replicas": 1}));
    let kept = group.runs_with(1);
    make_senseless(&group);
    group.vcenter().control("POST", "/outage", &json!({"for": "600s"})).unwrap();
    group.begin_to_delete();
    group.is_not_ready("VCenterUnreachable", ABANDON);
    abandon(&group);
    group.is_gone();
    group.vcenter().control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    assert_eq!(group.everywhere(), kept);
}

#[test]
fn a_group_that_its_vcenter_no_longer_serves_is_deleted_there() {
    let group = Group::create_apart(sandbox(), "unserved", &json!({}));
    group.runs_with(2);
    serve_others(sandbox(), group.vcenter(), "unserved");
    group.is_not_ready("NoVCenter", "doesn't serve this namespace");
    assert_eq!(group.everywhere().len(), 2);
    group.delete();
    assert_eq!(group.everywhere(), Vec::<String>::new());
}

#[test]
fn a_group_whose_vcenter_is_declared_no_more_waits_and_says_how_to_abandon_it() {
    let group = Group::create_apart(sandbox(), "homeless", &json!({"replicas": 1}));
    let kept = group.runs_with(1);
    sandbox().kubectl().run(&["delete", "vc", "homeless"]).unwrap();
    group.begin_to_delete();
    group.is_not_ready("NoVCenter", "there is no VCenter \"homeless\"");
    group.is_not_ready("NoVCenter", ABANDON);
    abandon(&group);
    group.is_gone();
    assert_eq!(group.everywhere(), kept);
    let told = group.namespace.events("VmGroup", "Abandoned").unwrap();
    assert!(told.len() == 1 && told[0].contains("there is no VCenter \"homeless\""), "{told:?}");
}

#[test]
fn a_folder_that_is_named_wrong_is_no_way_to_leave_vms_behind() {
    let group = Group::create(sandbox(), "misplaced", &json!({}));
    group.runs_with(2);
    group.patch(&json!({"placement": {"folder": "nowhere"}})).unwrap();
    group.is_not_ready("NotFound", "spec.placement.folder: ");
    assert_eq!(group.everywhere().len(), 2);
    group.delete();
    assert_eq!(group.everywhere(), Vec::<String>::new());
    let folders = group.vcenter().govc(&["find", "/DC0/vm", "-type", "f", "-name", "misplaced.*"]).unwrap();
    assert_eq!(folders.trim(), "", "its folder goes with it");
}

#[test]
fn a_group_that_has_nothing_goes_though_several_places_fit_what_it_names() {
    for folder in ["/DC0/vm/one", "/DC0/vm/one/twice", "/DC0/vm/other", "/DC0/vm/other/twice"] {
        sandbox().vcenter().govc(&["folder.create", folder]).unwrap();
    }
    let group = Group::create(sandbox(), "ambiguous", &json!({"placement": {"folder": "twice"}}));
    group.is_not_ready("NotFound", "2 of type Folder fit \"twice\"");
    group.delete();
}

#[test]
fn a_group_that_can_be_deleted_is_not_abandoned() {
    let group = Group::create(sandbox(), "healthy", &json!({"replicas": 3}));
    group.runs_with(3);
    abandon(&group);
    let slow = json!({"method": "Destroy_Task", "client": "drover", "latency": "2s"});
    let slow = group.vcenter().rule(&slow);
    group.begin_to_delete();
    group.tells("AbandonIgnored", "its VMs are being deleted or kept as spec.deletionPolicy says");
    group.is_gone();
    assert_eq!(group.everywhere(), Vec::<String>::new());
    assert!(slow.remove() >= 3);
    let told = |reason: &str| group.namespace.events("VmGroup", reason).unwrap().len();
    assert_eq!((told("AbandonIgnored"), told("Abandoned")), (1, 0));
}

#[test]
fn what_a_group_names_wrong_is_no_reason_to_abandon_it() {
    let group = Group::create(sandbox(), "misnamed", &json!({}));
    group.runs_with(2);
    group.patch(&json!({"placement": {"folder": "nowhere"}})).unwrap();
    group.is_not_ready("NotFound", "spec.placement.folder");
    abandon(&group);
    let slow = json!({"method": "Destroy_Task", "client": "drover", "latency": "2s"});
    let slow = group.vcenter().rule(&slow);
    group.begin_to_delete();
    group.tells("AbandonIgnored", "the annotation to abandon the group has no effect");
    // It may be gone by now: its VMs are where they were.
    let _ = group.patch(&json!({"placement": {"folder": "vm-operator"}}));
    group.is_gone();
    assert_eq!(group.everywhere(), Vec::<String>::new());
    assert!(slow.remove() >= 2);
    assert!(group.namespace.events("VmGroup", "Abandoned").unwrap().is_empty());
}

#[test]
fn a_group_that_says_what_it_waits_for_is_abandoned_on_request() {
    let group = Group::create_apart(sandbox(), "refused", &json!({"replicas": 1}));
    let kept = group.runs_with(1);
    let fault = json!({"type": "NoPermission", "fields": {"privilegeId": "VirtualMachine.Inventory.Delete"}});
    let refused = group.vcenter().rule(&json!({"method": "Destroy_Task", "client": "drover", "fault": fault}));
    group.begin_to_delete();
    group.is_not_ready("TasksFailing", "VirtualMachine.Inventory.Delete");
    refused.assert_hit();
    abandon(&group);
    group.is_gone();
    assert_eq!(group.everywhere(), kept);
}
