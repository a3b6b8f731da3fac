//! Namespaces that are deleted with all that is in them.

use std::{thread, time::Duration};

use drover_e2e::{Fate, Gate, Operator, Requests, SOON, Sandbox, eventually, vm_group};
use serde_json::json;

const GROUPS: usize = 20;
/// How long the operator may take to learn that a namespace is being deleted.
const MOMENT: Duration = Duration::from_secs(1);

#[test]
fn a_namespace_full_of_groups_goes_without_a_warning_and_so_do_its_vms() {
    let sandbox = Sandbox::shared(&[]);
    sandbox.install_kinds();
    let _ = sandbox.namespace("leaving");
    let publish = json!({"default": true, "publish": {"hosts": true, "namespace": "leaving"}});
    sandbox.vcenter().declare(sandbox, "default", &publish);
    let gate = Gate::open(sandbox);
    let operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    let namespace = sandbox.existing_namespace("leaving");
    for number in 0..GROUPS {
        namespace.declare(&vm_group(&format!("web-{number}"), &json!({"replicas": 2}))).unwrap();
    }
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1",
        "kind": "MyOwnShell",
        "metadata": {"name": "shell"},
        "spec": {"size": 2, "vmGroupRef": {"name": "web-0"}},
    });
    namespace.declare(&shell).unwrap();
    eventually(sandbox, SOON, "all VMs are published", || {
        let count = |kind: &str| namespace.list(kind).map(|all| all.len()).map_err(|failure| failure.to_string());
        let (vms, hosts) = (count("vi")?, count("ch")?);
        let file = namespace.get("configmap", "hosts-shell").map_err(|failure| failure.to_string())?;
        if vms == 2 * GROUPS && hosts == 4 { Ok(()) } else { Err(format!("{vms} VMs, {hosts} hosts, {file}")) }
    });
    // It takes its time to go: its VMs are not easily destroyed, and somebody holds something in it.
    let away = json!({"type": "HostCommunication"});
    let hard = sandbox.vcenter().rule(&json!({"method": "Destroy_Task", "count": GROUPS, "taskFault": away}));
    let held =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["e2e/held"]}});
    namespace.declare(&held).unwrap();

    sandbox.kubectl().run(&["delete", "namespace", "leaving", "--wait=false"]).unwrap();
    thread::sleep(MOMENT);
    let made = gate.rule(Requests::Creations("leaving"), Fate::Noted, 0, 0);
    eventually(sandbox, SOON, "all groups are gone", || {
        let groups = namespace.list("vg").map_err(|failure| failure.to_string())?;
        if groups.is_empty() { Ok(()) } else { Err(format!("{} are left", groups.len())) }
    });
    thread::sleep(Duration::from_secs(10));
    // As long as it goes. What isn't there is another matter: hosts are to be published in it.
    assert_eq!(made.remove(), Vec::<String>::new(), "nothing is made in a namespace that goes");
    namespace.patch("configmap", "held", &json!({"metadata": {"finalizers": null}})).unwrap();
    sandbox.kubectl().run(&["wait", "--for=delete", "namespace/leaving", "--timeout=60s"]).unwrap();
    let vms = sandbox.vcenter().machines();
    assert!(!vms.iter().any(|path| path.contains("leaving.")), "{vms:?}");
    // What is still to be said of it is said by now.
    thread::sleep(Duration::from_secs(4));
    let log = operator.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains(" WARN") || line.contains("ERROR")).collect();
    assert!(warnings.is_empty(), "{} warnings:\n{}", warnings.len(), warnings.join("\n"));
    hard.assert_hit();

    // The vCenter is well, and says where its hosts are not published.
    eventually(sandbox, SOON, "the VCenter says so", || {
        let vcenter = sandbox.get("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/default").unwrap();
        let conditions = vcenter["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let says = |kind: &str, status: &str| {
            conditions.iter().any(|condition| condition["type"] == kind && condition["status"] == status)
        };
        if says("Connected", "True") && says("Published", "False") {
            Ok(())
        } else {
            Err(json!(conditions).to_string())
        }
    });
}
