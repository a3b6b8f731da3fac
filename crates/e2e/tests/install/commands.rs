//! The quick start of docs/install.md, a replica that goes in the middle of its work, and what docs/operate.md does to an operator that
//! runs.

use drover_e2e::{Group, Page, SOON, Sandbox, eventually};
use serde_json::json;

use crate::installation::Installation;

#[test]
fn the_quick_start_leads_to_running_vms_and_the_operator_is_operated() {
    let Some(sandbox) = Sandbox::start_with_node("page", &[]) else { return };
    // The vCenter's authority is one of those that the machine trusts.
    let authority = sandbox.vcenter().ca_file.clone();
    let page = Page::open(&sandbox, "docs/install.md").with(&[("SSL_CERT_FILE", &authority)]);
    let here = Installation { sandbox: &sandbox, namespace: "drover-system" };
    // The sandbox has the folder already.
    page.terminal.run("govc object.rename /DC0/vm/vm-operator before");
    page.run("govc folder.create /DC0/vm/vm-operator");
    page.terminal.run("govc object.mv /DC0/vm/before/vm-operator-template /DC0/vm/vm-operator");
    page.run("make docker-build");
    // As kind loads it.
    page.terminal.run("make docker-build docker-push IMG=$NODE_REGISTRY/controller:latest");
    page.run("kubectl create namespace drover-system");
    page.run("kubectl -n drover-system create secret generic vc-creds --from-literal=VC_HOST=vc.example.com --from-literal=VC_USER=drover@vsphere.local --from-literal=VC_PASS=change-me");
    page.run("kubectl apply -f dist/install.yaml");
    page.run("kubectl -n drover-system rollout status deployment drover-controller-manager");
    here.is_ready();
    is_as_restricted_as_promised(&here);

    page.run("kubectl create namespace myoperator-vms");
    page.run("kubectl -n myoperator-vms apply -f config/samples/vm_v1alpha1_vmgroup.yaml");
    eventually(&sandbox, SOON, "the sample runs", || {
        let shown = page.run("kubectl -n myoperator-vms get vmgroups");
        if shown.contains("RUNNING") && shown.contains("successfully reconciled VmGroup") { Ok(()) } else { Err(shown) }
    });
    // Until Ctrl-C.
    let watch = page.here("kubectl -n myoperator-vms get vg -w", &[]);
    let watched = page.terminal.run(&format!("timeout --signal=INT 2 {watch} || [ $? = 124 ]"));
    assert!(watched.contains("RUNNING"), "{watched}");
    here.is_discreet_and_steady();

    a_pod_is_deleted_in_the_midst_of_a_roll(&page, &here);
    is_operated(&here);
    page.run("kubectl -n myoperator-vms delete vg vmgroup-sample");
    let left = sandbox.vcenter().machines();
    assert!(!left.iter().any(|path| path.contains("vmgroup-sample")), "{left:?}");
}

fn a_pod_is_deleted_in_the_midst_of_a_roll(page: &Page, here: &Installation) {
    let group = Group::create(here.sandbox, "rolling", &json!({"replicas": 4}));
    group.runs_with(4);
    let holder = here.holder();
    // Slow enough to be met in the middle.
    let slow =
        group.vcenter().rule(&json!({"method": "CloneVM_Task,ReconfigVM_Task,PowerOffVM_Task", "latency": "1s"}));
    group.patch(&json!({"cpu": 2, "update": {"strategy": "Replace"}})).unwrap();
    eventually(here.sandbox, SOON, "the roll has begun", || {
        if slow.hits() > 0 { Ok(()) } else { Err("no call".to_owned()) }
    });
    page.terminal.run(&format!("kubectl -n drover-system delete pod {holder} --wait=false"));
    group.settles_with(4, "config.hardware.numCPU", "2");
    assert_eq!(group.everywhere().len(), 4, "{:?}", group.everywhere());
    assert_ne!(here.holder(), holder);
    here.is_ready();
}

/// What docs/operate.md does to an operator that runs.
fn is_operated(here: &Installation) {
    let page = Page::open(here.sandbox, "docs/operate.md");
    let leases = page.run("kubectl -n drover-system get lease");
    assert!(
        leases.contains("vcenter.default.drover.vm.codeconnect.vmworld.com   drover-controller-manager-"),
        "{leases}"
    );

    let has_changed = |times: usize| {
        eventually(here.sandbox, SOON, &format!("the level has changed {times} times"), || {
            for pod in here.pods() {
                let name = pod["metadata"]["name"].as_str().unwrap();
                // A node looks at a pod that changes at once, and else once a minute.
                let poke = format!("annotate --overwrite pod {name} looked-at=\"$(date +%N)\"");
                page.terminal.run(&format!("kubectl -n drover-system {poke}"));
                let log = page.terminal.run(&format!("kubectl -n drover-system logs {name}"));
                if log.matches("Log level changed").count() != times {
                    return Err(log);
                }
            }
            Ok(())
        });
    };
    page.run("kubectl -n drover-system create configmap drover-log-level --from-literal=level=debug");
    has_changed(1);
    page.run("kubectl -n drover-system delete configmap drover-log-level");
    has_changed(2);

    page.terminal.run("kubectl -n drover-system rollout restart deployment drover-controller-manager");
    page.run("kubectl -n drover-system rollout undo deployment drover-controller-manager");
    page.run("kubectl -n drover-system scale deployment drover-controller-manager --replicas=3");
    page.terminal.run("kubectl -n drover-system rollout status deployment drover-controller-manager");
    assert_eq!(here.pods().len(), 3);
}

/// What a pod of the operator may do on its node, as the API server has it.
fn is_as_restricted_as_promised(here: &Installation) {
    let namespace = here.sandbox.get(&format!("/api/v1/namespaces/{}", here.namespace)).unwrap();
    assert_eq!(namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"], "restricted");
    for pod in here.pods() {
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true, "{pod:#}");
        assert_eq!(pod["spec"]["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["spec"]["priority"], 1_000_000);
        assert_eq!(container["resources"]["limits"]["memory"], "256Mi");
    }
}
