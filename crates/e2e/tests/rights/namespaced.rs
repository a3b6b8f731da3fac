//! An operator that reads nothing cluster-scoped: its rights are a Role in each namespace that it serves.

use drover_e2e::{Account, Namespace, Operator, SOON, Sandbox, VCenter, eventually, vm_group};
use serde_json::{Value, json};

use super::account::Rights;

#[test]
fn an_operator_without_cluster_wide_rights_serves_the_namespaces_that_it_is_given_and_no_other() {
    // One of its own: the other test's operator serves all namespaces.
    let sandbox = &Sandbox::start("namespaced", &["--hosts=2"]).unwrap();
    let vcenter = sandbox.vcenter();
    kinds_that_are_not_installed_are_waited_for(sandbox);
    let account = Account::apply(sandbox, "namespaced/rbac", "solo");
    account.assert_can_do("default", "nothing.txt");
    account.assert_can_do("solo", "namespaced.txt");
    let (solo, duo, other) = (sandbox.existing_namespace("solo"), sandbox.namespace("duo"), sandbox.namespace("other"));
    lend(&account, &solo, &duo);
    other.declare(&vm_group("web", &json!({}))).unwrap();
    let kubeconfig = account.kubeconfig();
    let scope = ["run", "--namespaces=solo,duo", "--namespace=solo"];

    // Without the right to read kube-system, the id of the cluster has to be given.
    let without = [&scope[..], &["--controllers=*,-vcenter"]].concat();
    let mut operator = Operator::start_as_user(&kubeconfig, "nameless", sandbox, Some(vcenter), &without).unwrap();
    assert!(!operator.succeeds_within(SOON));
    assert!(operator.log().contains("give --cluster-id"), "{}", operator.log());

    let with = [&without[..], &["--cluster-id=solo-1", "--enable-leader-election"]].concat();
    let operator = Operator::start_as_user(&kubeconfig, "solo", sandbox, Some(vcenter), &with).unwrap();
    for namespace in [&solo, &duo] {
        declare(namespace, vcenter);
    }
    for namespace in [&solo, &duo] {
        is_served(sandbox, namespace);
    }
    // A watch that begins after another's list has forgotten nothing of it: both are still served.
    for (namespace, replicas) in [(&solo, 1), (&duo, 0)] {
        namespace.patch("vg", "web", &json!({"spec": {"replicas": replicas}})).unwrap();
        eventually(sandbox, SOON, "it is scaled", || {
            let vms = namespace.list("vi").map_err(|failure| failure.to_string())?;
            if vms.len() == replicas { Ok(()) } else { Err(format!("{} VMInfos", vms.len())) }
        });
    }
    let log = operator.log();
    assert!(!log.contains("forbidden"), "{log}");
    assert!(log.contains("drover starts on this cluster"), "{log}");
    let untouched = other.get("vg", "web").unwrap();
    assert!(
        untouched["metadata"]["finalizers"].is_null() && untouched["status"]["conditions"].is_null(),
        "{untouched}"
    );
    let _operator = deleted_while_nobody_looked(sandbox, &solo, operator, || {
        Operator::start_as_user(&kubeconfig, "solo-again", sandbox, Some(vcenter), &with).unwrap()
    });
    for namespace in [&solo, &duo] {
        namespace.delete("vg", "web").unwrap();
        namespace.delete("myownshell", "shell").unwrap();
        eventually(sandbox, SOON, "all is gone", || {
            let left: Vec<Value> = ["vg", "vi", "myownshell", "deployment"]
                .iter()
                .flat_map(|kind| namespace.list(kind).unwrap_or_default())
                .collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }
}

/// An operator that may not read the kind can't tell whether a group that it finds deleted was deleted by somebody, or with an earlier kind:
/// then its VMs stay until somebody says more.
fn deleted_while_nobody_looked(
    sandbox: &Sandbox,
    namespace: &Namespace,
    operator: Operator,
    next: impl Fn() -> Operator,
) -> Operator {
    let group = json!({"replicas": 1, "placement": {"folder": "vm-operator"}});
    namespace.declare(&vm_group("late", &group)).unwrap();
    let vms = || {
        let all = sandbox.vcenter().machines();
        all.into_iter().filter(|path| path.contains("/late-replica-")).collect::<Vec<_>>()
    };
    eventually(sandbox, SOON, "its VM is there", || {
        let group = namespace.get("vg", "late").map_err(|failure| failure.to_string())?;
        if group["status"]["phase"] == "RUNNING" { Ok(()) } else { Err(group["status"].to_string()) }
    });
    let before = vms();
    assert_eq!(before.len(), 1);
    drop(operator);
    namespace.delete("vg", "late").unwrap();
    let operator = next();
    eventually(sandbox, SOON, "it says why nothing is destroyed", || {
        let group = namespace.get("vg", "late").map_err(|failure| failure.to_string())?;
        let said = group["status"]["lastMessage"].as_str().unwrap_or_default();
        if said.contains("deleted while no operator ran") { Ok(()) } else { Err(group["status"].to_string()) }
    });
    assert_eq!(vms(), before);
    let abandon = json!({"metadata": {"annotations": {"vm.codeconnect.vmworld.com/abandon": "true"}}});
    namespace.patch("vg", "late", &abandon).unwrap();
    eventually(sandbox, SOON, "it is let go", || match namespace.get("vg", "late") {
        Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
        there => Err(format!("{there:?}")),
    });
    assert_eq!(vms(), before, "and its VM stays");
    operator
}

fn kinds_that_are_not_installed_are_waited_for(sandbox: &Sandbox) {
    let mut operator = Operator::start_with(sandbox, sandbox.vcenter(), &["--controllers=vmgroup,vcenter"]).unwrap();
    eventually(sandbox, SOON, "it says what is missing, and is not ready", || {
        let (log, ready) = (operator.log(), operator.ask("GET", "/readyz")?);
        let says = log.lines().any(|line| line.contains("kinds are not installed") && line.contains("VmGroup,VCenter"));
        if says && ready.0 != 200 { Ok(()) } else { Err(format!("{ready:?} {log}")) }
    });
    sandbox.install_kinds();
    eventually(sandbox, SOON, "it goes on", || {
        let (log, ready) = (operator.log(), operator.ask("GET", "/readyz")?);
        if log.contains("Drover runs") && ready.0 == 200 { Ok(()) } else { Err(format!("{ready:?} {log}")) }
    });
    operator.terminate();
    assert!(operator.succeeds_within(SOON), "{}", operator.log());
}

/// Gives an account in one namespace the rights in another that it has in its own.
fn lend(account: &Account<'_>, from: &Namespace, to: &Namespace) {
    let role = from.kubectl(&["get", "role", "drover-manager-role", "-o", "json"]).unwrap();
    let mut role: Value = serde_json::from_str(&role).unwrap();
    role["metadata"] = json!({"name": "drover-manager-role"});
    to.apply(&role.to_string()).unwrap();
    let subject = format!("--serviceaccount={}:{}", account.namespace, account.name);
    to.kubectl(&["create", "rolebinding", "drover", "--role=drover-manager-role", &subject]).unwrap();
}

fn declare(namespace: &Namespace, vcenter: &VCenter) {
    namespace.declare(&vm_group("web", &json!({}))).unwrap();
    let hosts = vcenter.govc(&["find", "/", "-type", "h"]).unwrap();
    let host = hosts.lines().next().unwrap().rsplit('/').next().unwrap();
    let info = json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": "HostInfo", "metadata": {"name": "first"},
        "spec": {"hostname": host},
    });
    namespace.declare(&info).unwrap();
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "shell"},
        "spec": {"size": 1, "vmGroupRef": {"name": "web"}},
    });
    namespace.declare(&shell).unwrap();
}

#[track_caller]
fn is_served(sandbox: &Sandbox, namespace: &Namespace) {
    eventually(sandbox, SOON, &format!("{} is served", namespace.name), || {
        let get = |kind: &str, name: &str| namespace.get(kind, name).map_err(|failure| failure.to_string());
        let group = get("vg", "web")?;
        let vms = namespace.list("vi").map_err(|failure| failure.to_string())?;
        let host = get("ch", "first")?;
        let file = get("configmap", "hosts-shell")?;
        let is_so = group["status"]["phase"] == "RUNNING"
            && vms.len() == 2
            && host["status"]["moref"].is_string()
            && get("deployment", "shell").is_ok()
            && vms.iter().all(|vm| file.to_string().contains(vm["metadata"]["name"].as_str().unwrap_or_default()));
        if is_so { Ok(()) } else { Err(format!("{} {host} {file}", group["status"])) }
    });
}
