//! Drover is removed in each way that docs/install.md names, while VMs run: none of them is touched, and a new operator goes on
//! with the same ones.

use drover_e2e::{Group, Page, SOON, Sandbox, Untouched, eventually};
use serde_json::json;

use crate::{
    installation::Installation,
    page::{BUILD, DEPLOY, SECRET},
};

/// Ways that remove the operator. The first two name the kinds too, which are kept.
const WAYS: [(&str, Outcome); 5] = [
    ("kubectl delete -f dist/install.yaml", Outcome::KindsKept),
    ("kustomize build config/default | kubectl delete -f -", Outcome::KindsKept),
    ("make undeploy", Outcome::Done),
    ("kubectl -n drover-system delete deployment drover-controller-manager", Outcome::Done),
    ("kubectl delete namespace drover-system", Outcome::Done),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    KindsKept,
}

#[test]
fn no_way_to_remove_drover_touches_a_vm() {
    let Some(sandbox) = Sandbox::start_with_node("removal", &[]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    page.run(BUILD);
    let install = || {
        if sandbox.get("/api/v1/namespaces/drover-system").is_err() {
            page.run("kubectl create namespace drover-system");
        }
        if page.terminal.try_run("kubectl -n drover-system get secret vc-creds").is_err() {
            page.run(SECRET);
        }
        page.run(DEPLOY);
        here.is_ready();
    };
    install();
    let group = Group::create(&sandbox, "kept", &json!({"replicas": 2}));
    group.runs_with(2);
    let before = Untouched::of(&group);
    for (way, outcome) in WAYS {
        match outcome {
            Outcome::Done => drop(page.run(way)),
            Outcome::KindsKept => {
                let said = page.refuses(way);
                assert!(
                    said.contains("vmgroups.vm.codeconnect.vmworld.com would delete all of its objects"),
                    "{way}: {said}"
                );
            }
        }
        here.is_gone();
        assert_eq!(Untouched::of(&group), before, "{way}");
        let said = page.refuses("make uninstall");
        assert!(said.contains("  kept/kept\n") && said.contains("make undeploy"), "{way}: {said}");
        eventually(&sandbox, SOON, "the namespace is there or gone", || {
            let phase = page
                .terminal
                .run("kubectl get namespace drover-system --ignore-not-found -o jsonpath='{.status.phase}'");
            if phase == "Terminating" { Err(phase) } else { Ok(()) }
        });
        install();
        group.runs_with(2);
        assert_eq!(Untouched::of(&group), before, "{way}");
    }
    // It goes on with them.
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);

    kinds_and_namespace_are_kept(&sandbox, &page);
    what_is_being_deleted_keeps_its_operator(&page, &here, &group);

    page.run("make undeploy");
    page.run("make uninstall");
    let kinds = page.terminal.run("kubectl get crd -o name");
    assert_eq!(kinds, "");
    assert_eq!(page.terminal.run("kubectl get validatingadmissionpolicies -o name"), "");
    page.run("kubectl delete namespace drover-system");
}

/// Neither a kind nor a namespace with VmGroups is deleted, whoever asks.
fn kinds_and_namespace_are_kept(sandbox: &Sandbox, page: &Page) {
    let said = page.refuses("kubectl delete crd vmgroups.vm.codeconnect.vmworld.com");
    assert!(said.contains("would delete all of its objects"), "{said}");
    // As the seeds have it: groups beside the operator.
    page.terminal.run("kubectl -n drover-system apply -f config/samples/vm_v1alpha1_vmgroup.yaml");
    eventually(sandbox, SOON, "the namespace is kept", || {
        // What protects it learns of the group by a watch. Nothing is deleted before.
        match page.terminal.try_run("kubectl delete namespace drover-system --dry-run=server") {
            Err(failure) if failure.stderr.contains("holds the VmGroup vmgroup-sample") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    let said = page.refuses("kubectl delete namespace drover-system");
    assert!(said.contains("holds the VmGroup vmgroup-sample"), "{said}");
}

/// An operator is not removed under groups that are being deleted: nobody would end them.
fn what_is_being_deleted_keeps_its_operator(page: &Page, here: &Installation, group: &Group) {
    page.terminal.run("kubectl -n drover-system scale deployment drover-controller-manager --replicas=0");
    here.is_gone();
    group.begin_to_delete();
    let said = page.refuses("make undeploy");
    assert!(said.contains("  kept/kept\n") && said.contains("being deleted"), "{said}");
    page.terminal.run("kubectl -n drover-system scale deployment drover-controller-manager --replicas=2");
    group.is_gone();
    page.run("kubectl delete vmgroups --all --all-namespaces");
}

/// The first time the kinds are kept, but what keeps them goes. The second time they go too, with all VmGroups, and there is no operator.
#[test]
fn no_vm_goes_with_the_kinds_when_drover_is_removed_twice() {
    let Some(sandbox) = Sandbox::start_with_node("twice", &["--vcenters=2"]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    page.run(BUILD);
    page.run("kubectl create namespace drover-system");
    page.run(SECRET);
    page.run(DEPLOY);
    here.is_ready();
    // In the vCenter of the operator's own Secret, in one that is declared, and beside the operator.
    let own = sandbox.existing_namespace("drover-system");
    let kept = Group::create(&sandbox, "kept", &json!({}));
    let vcenter = sandbox.own_vcenter();
    vcenter.declare_in(&own, &sandbox, "apart", &json!({}));
    let apart = Group::of(sandbox.namespace("apart"), &sandbox).in_vcenter(&vcenter);
    apart.apply(&json!({}));
    let beside = Group::of(own, &sandbox);
    beside.apply(&json!({}));
    let groups = [&kept, &apart, &beside];
    let before = groups.map(|group| {
        group.runs_with(2);
        Untouched::of(group)
    });
    let uid = kept.get().unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();

    let way = "kubectl delete -f dist/install.yaml";
    let said = page.refuses(way);
    assert!(said.contains("would delete all of its objects") && said.contains("holds the VmGroup"), "{said}");
    here.is_gone();
    nothing_keeps_the_kinds(&sandbox, &page);
    {
        let _waiting = page.start(&[way]);
        for group in groups {
            eventually(&sandbox, SOON, "the VmGroup goes with its kind", || {
                let group = group.get().map_err(|failure| failure.to_string())?;
                if group["metadata"]["deletionTimestamp"].is_null() { Err(group.to_string()) } else { Ok(()) }
            });
        }
    }
    assert_eq!(groups.map(Untouched::of), before);

    // Whoever installs an operator now, has it let them go. The namespace waits for the VmGroup in it, so another is taken.
    let rescue = Installation { sandbox: &sandbox, namespace: "rescue-system" };
    page.terminal.run(&format!("{DEPLOY} NAMESPACE=rescue-system"));
    page.terminal.run("kubectl wait --for=delete crd/vmgroups.vm.codeconnect.vmworld.com --timeout=120s");
    page.terminal.run("kubectl wait --for=delete namespace/drover-system --timeout=120s");
    for group in [&kept, &apart] {
        group.tells("VMsKept", "the VMs stay as they are");
    }
    assert_eq!(groups.map(Untouched::of), before);

    // The kinds and the vCenter again, and a VmGroup of the same name.
    page.run("make install");
    page.terminal.run(&page.with_own_names(&SECRET.replace("drover-system", "rescue-system")));
    page.terminal.run("kubectl -n rescue-system rollout restart deployment rescue-controller-manager");
    page.terminal.run("kubectl -n rescue-system rollout status deployment rescue-controller-manager");
    rescue.is_ready();
    kept.apply(&json!({}));
    kept.says("ERROR", &uid);
    let annotation = format!("vm.codeconnect.vmworld.com/take-over={uid}");
    kept.namespace.kubectl(&["annotate", "vmgroup", "kept", &annotation]).unwrap();
    kept.runs_with(2);
    assert_eq!(groups.map(Untouched::of), before);
}

/// Waits until the API server has noticed that what keeps the kinds is gone.
pub(crate) fn nothing_keeps_the_kinds(sandbox: &Sandbox, page: &Page) {
    eventually(sandbox, SOON, "nothing keeps the kinds", || {
        let line = "kubectl delete crd vmgroups.vm.codeconnect.vmworld.com --dry-run=server";
        page.terminal.try_run(line).map_err(|failure| failure.to_string())
    });
}
