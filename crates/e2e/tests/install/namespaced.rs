//! The variant for one namespace, installed by somebody who has rights in that namespace only.

use std::fs;

use drover_e2e::{Group, Page, SOON, Sandbox, Terminal, Untouched, eventually, vm_group};
use serde_json::{Value, json};

use crate::{
    installation::Installation,
    page::{BUILD, SECRET},
    removal::nothing_keeps_the_kinds,
};

#[test]
fn the_owner_of_one_namespace_installs_an_operator_for_it() {
    let Some(sandbox) = Sandbox::start_with_node("namespaced", &[]) else { return };
    let page = Page::open(&sandbox, "docs/install.md");
    let here = Installation { sandbox: &sandbox, namespace: "team-a" };
    page.run(BUILD);
    // All that an administrator does.
    page.run("make install");
    page.run("kubectl apply -k config/removal");
    let other = sandbox.namespace("team-b");
    other.declare(&vm_group("theirs", &json!({}))).unwrap();
    let own = sandbox.namespace("team-a");
    let owner = owner(&sandbox, "team-a");

    let folder = sandbox.dir().join("copy");
    let type_there = |line: &str| owner.run(&format!("cd '{}' && {}", folder.display(), page.here(line, &[])));
    owner.run(&format!("mkdir '{0}' && cp -R config '{0}'", folder.display()));
    let overlay = folder.join("config/team-a");
    fs::create_dir(&overlay).unwrap();
    let file = page.file("namespace: team-a");
    let write = |text: &str| fs::write(overlay.join("kustomization.yaml"), text).unwrap();
    owner.run(&page.with_own_names(&SECRET.replace("drover-system", "team-a")));
    write(&file.replace("=team-a-1", "="));
    type_there("kubectl apply -k config/team-a");
    eventually(&sandbox, SOON, "an operator without an ID of the cluster says so", || {
        let said = owner.try_run("kubectl -n team-a logs deployment/drover-controller-manager");
        let said = said.map_err(|failure| failure.to_string())?;
        if said.contains("--cluster-id") && said.contains("give 1 to 63 letters") { Ok(()) } else { Err(said) }
    });
    write(&file);
    type_there("kubectl apply -k config/team-a");
    here.is_ready();
    here.shares_leases();
    here.can_do(&["namespaced.txt"]);
    here.is_discreet_and_steady();

    let group = Group::of(own, &sandbox);
    group.apply(&json!({}));
    group.runs_with(2);
    let untouched = other.get("vg", "theirs").unwrap();
    assert!(untouched["metadata"]["finalizers"].is_null(), "{untouched}");

    let before = Untouched::of(&group);
    let said = page.refuses("kubectl delete crd vmgroups.vm.codeconnect.vmworld.com");
    assert!(said.contains("would delete all of its objects"), "{said}");
    type_there("kubectl delete -k config/team-a");
    here.is_gone();
    assert_eq!(Untouched::of(&group), before);
    type_there("kubectl apply -k config/team-a");
    here.is_ready();
    group.patch(&json!({"replicas": 1})).unwrap();
    group.runs_with(1);

    // An administrator who removes the kinds all the same removes no VM of the team's, though the operator may not read the kinds.
    let before = Untouched::of(&group);
    page.terminal.run("kubectl delete -k config/removal");
    nothing_keeps_the_kinds(&sandbox, &page);
    page.terminal.run("kubectl delete crd vmgroups.vm.codeconnect.vmworld.com --timeout=120s");
    group.tells("VMsKept", "the VMs stay as they are");
    assert_eq!(Untouched::of(&group), before);
}

/// The terminal of somebody who may do everything in a namespace, and nothing elsewhere.
fn owner(sandbox: &Sandbox, namespace: &str) -> Terminal {
    let admin = Terminal::of(sandbox);
    admin.run(&format!("kubectl -n {namespace} create serviceaccount owner"));
    admin.run(&format!(
        "kubectl -n {namespace} create rolebinding owner --clusterrole=cluster-admin --serviceaccount={namespace}:owner"
    ));
    let token = admin.run(&format!("kubectl -n {namespace} create token owner"));
    let view = admin.run("kubectl config view --raw --minify -o json");
    let mut kubeconfig: Value = serde_json::from_str(&view).unwrap();
    let user = kubeconfig["contexts"][0]["context"]["user"].clone();
    kubeconfig["users"] = json!([{"name": user, "user": {"token": token.trim()}}]);
    let file = sandbox.dir().join("owner.json");
    fs::write(&file, kubeconfig.to_string()).unwrap();
    let owner = admin.with(&[("KUBECONFIG", file.to_str().unwrap())]);
    for line in ["kubectl get namespaces", "kubectl get crds", "kubectl -n default get pods"] {
        let said = owner.refuses(line);
        assert!(said.contains("Forbidden"), "{said}");
    }
    owner
}
