//! The commands of the seed documents as their authors wrote them. Where they push, it is to the sandbox's registry.

use drover_e2e::{Page, Running, SOON, Sandbox, Terminal, eventually};

use crate::installation::Installation;

/// Waits until a command prints something.
#[track_caller]
fn prints(sandbox: &Sandbox, terminal: &Terminal, line: &str, words: &str) {
    eventually(sandbox, SOON, &format!("`{line}` prints {words}"), || {
        let printed = terminal.try_run(line).map_err(|failure| failure.to_string())?;
        if printed.contains(words) { Ok(()) } else { Err(printed) }
    });
}

#[test]
fn the_operator_runs_from_a_checkout_as_the_seeds_run_it() {
    let Some(sandbox) = Sandbox::start_with_node("checkout", &[]) else { return };
    let terminal = Terminal::of(&sandbox).with(&[("PROFILE", "dev")]);
    terminal.run("make manifests && make generate");
    terminal.run("make manager");
    terminal.run("kustomize build config/crd | kubectl apply -f -");
    terminal.run("kubectl create namespace myoperator-vms");
    {
        let _manager = Running::start(&terminal, "", "bin/manager -insecure");
        terminal.run("kubectl -n myoperator-vms create -f config/samples/vm_v1alpha1_vmgroup.yaml");
        prints(&sandbox, &terminal, "kubectl get vmgroups -n myoperator-vms", "RUNNING");
    }
    {
        let _operator = Running::start(&terminal, "", "make build install run");
        terminal.run("kubectl -n myoperator-vms create -f config/samples/topology_v1_hostinfo.yaml");
        terminal.run("kubectl -n myoperator-vms create -f config/samples/my-first-operator_v1alpha1_myownshell.yaml");
        prints(&sandbox, &terminal, "kubectl -n myoperator-vms get deployments.apps", "3/3");
        a_shell_is_opened(&sandbox, &terminal);
        terminal.run("kubectl -n myoperator-vms delete myownshell --all");
        terminal.run("kubectl delete vg --all -A");
    }
    terminal.run("make uninstall");
}

/// By the line that docs/shells.md shows, which the MyOwnShell's status has for each of its own shells.
fn a_shell_is_opened(sandbox: &Sandbox, terminal: &Terminal) {
    let exec = "kubectl -n myoperator-vms get myownshells -o jsonpath='{.items[0].status.pods[0].exec}'";
    prints(sandbox, terminal, exec, "kubectl exec");
    let own = terminal.run(exec);
    let line = "kubectl exec -it -n default myownshell-sample-67888b4d74-452vr -- sh";
    let pod = own.split(' ').find(|word| word.starts_with("myownshell-sample-")).unwrap();
    let examples = [("default", "myoperator-vms"), ("myownshell-sample-67888b4d74-452vr", pod)];
    let typed = Page::open(sandbox, "docs/shells.md").here(line, &examples);
    assert_eq!(typed, own);
    assert!(terminal.run(&format!("echo 'echo it is $((40 + 2))' | {typed}")).contains("it is 42"));
}

#[test]
fn the_operator_is_deployed_as_the_seeds_deploy_it() {
    let Some(sandbox) = Sandbox::start_with_node("seeds", &[]) else { return };
    let terminal = Terminal::of(&sandbox).with(&[("PROFILE", "quick")]);
    let ca = "--from-literal=VC_CA_FILE=/etc/vc-creds/ca.crt --from-file=ca.crt=\"$VC_CA_FILE\"";

    // The first: VmGroups beside the operator, and variables with names of its own.
    terminal.run("make docker-build docker-push IMG=$NODE_REGISTRY/embano1/codeconnect-vm-operator:latest");
    terminal.run("kubectl create ns codeconnect-vm-operator-system");
    terminal.run(&format!("kubectl -n codeconnect-vm-operator-system create secret generic vc-creds --from-literal=\"VC_USER=$VC_USER\" --from-literal=\"VC_PASS=$VC_PASS\" --from-literal=\"VC_HOST=$VC_HOST\" {ca}"));
    terminal.run("make deploy IMG=embano1/codeconnect-vm-operator:latest NAMESPACE=codeconnect-vm-operator-system");
    let first = Installation { sandbox: &sandbox, namespace: "codeconnect-vm-operator-system" };
    first.is_ready();
    terminal.run("kubectl -n codeconnect-vm-operator-system apply -f config/samples/vm_v1alpha1_vmgroup.yaml");
    prints(&sandbox, &terminal, "kubectl -n codeconnect-vm-operator-system get vg,deploy,secret", "RUNNING");
    let shown = terminal.run("kubectl -n codeconnect-vm-operator-system get vg,deploy,secret");
    assert!(shown.contains("deployment.apps/codeconnect-vm-operator-controller-manager   2/2"), "{shown}");
    terminal.run("kubectl delete vg --all -A");
    terminal.run("make undeploy NAMESPACE=codeconnect-vm-operator-system");
    terminal.run("kubectl delete ns codeconnect-vm-operator-system");

    // The second: HostInfos, and govmomi's variables.
    terminal.run("kubectl create ns hostinfo-system");
    terminal.run(&format!("kubectl create secret generic vc-creds --from-literal=\"GOVMOMI_USERNAME=$VC_USER\" --from-literal=\"GOVMOMI_PASSWORD=$VC_PASS\" --from-literal=\"GOVMOMI_URL=$VC_HOST\" {ca} -n hostinfo-system"));
    terminal.run("make docker-build docker-push IMG=$NODE_REGISTRY/cormachogan/hostinfo-controller:v1");
    terminal.run("make deploy IMG=docker.io/cormachogan/hostinfo-controller:v1 NAMESPACE=hostinfo-system");
    let second = Installation { sandbox: &sandbox, namespace: "hostinfo-system" };
    second.is_ready();
    terminal.run("kubectl create -f config/samples/topology_v1_hostinfo.yaml");
    terminal.run(r#"kubectl patch hostinfo hostinfo-host-e --type merge -p '{"spec":{"hostname":"DC0_C0_H0"}}'"#);
    prints(&sandbox, &terminal, "kubectl get hostinfo hostinfo-host-e -o yaml", "totalCPU: ");
    terminal.run("kubectl delete hostinfo --all");
    terminal.run("kubectl delete deploy hostinfo-controller-manager -n hostinfo-system");
    second.is_gone();
    terminal.run("make uninstall");
    assert_eq!(terminal.run("kubectl get crds -o name"), "");

    // The third: the image is called as the manifests call it, and the manifests are piped.
    terminal.run("make docker-build docker-push IMG=$NODE_REGISTRY/controller:latest");
    terminal.run("kustomize build config/default | kubectl apply -f -");
    let third = Installation { sandbox: &sandbox, namespace: "drover-system" };
    terminal.run(&format!("kubectl -n drover-system create secret generic vc-creds --from-literal=\"VC_USER=$VC_USER\" --from-literal=\"VC_PASS=$VC_PASS\" --from-literal=\"VC_HOST=$VC_HOST\" {ca}"));
    // A Secret that comes after its operator is read by the next pods.
    terminal.run("kubectl -n drover-system rollout restart deployment drover-controller-manager");
    third.is_ready();
    an_archive_is_as_good_as_a_push(&terminal);
}

/// The image, which was built before, on a node that nobody pushes to.
fn an_archive_is_as_good_as_a_push(terminal: &Terminal) {
    let folder = Sandbox::folder("archives");
    let archive = folder.join("drover.tar");
    terminal.run(&format!(
        "mkdir -p '{}' && hack/image.sh save $NODE_REGISTRY/controller:latest '{}'",
        folder.display(),
        archive.display()
    ));
    let flag = format!("--image=ghcr.example.com/drover:v1={}", archive.display());
    let Some(other) = Sandbox::start_with_node("archive", &[&flag]) else { return };
    let terminal = Terminal::of(&other);
    terminal.run("kubectl run drover --image=ghcr.example.com/drover:v1 --restart=Never -- --version");
    prints(&other, &terminal, "kubectl logs drover", "drover ");
}
