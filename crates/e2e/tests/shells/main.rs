//! Shells, declared and seen with kubectl. There is no node here: pods are made, and run in no test of this binary.

mod autoscalers;
mod drift;
mod ends;
mod machines;
mod names;
mod words;

use std::{path::Path, sync::OnceLock};

use drover_e2e::{Operator, Sandbox, Shell, eventually};
use serde_json::{Value, json};

/// One operator for all tests, each in its namespace.
fn sandbox() -> &'static Sandbox {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    let sandbox = Sandbox::shared(&[]);
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    sandbox
}

#[test]
fn the_seeds_manifest_gives_the_seeds_deployment() {
    let namespace = sandbox().namespace("seed");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/samples");
    let sample = samples.join("my-first-operator_v1alpha1_myownshell.yaml");
    namespace.kubectl(&["apply", "-f", sample.to_str().unwrap()]).unwrap();
    let shell = Shell { namespace, sandbox: sandbox() };
    let deployment =
        shell.sees("deployment", "myownshell-sample", "3 pods", |deployment| deployment["status"]["replicas"] == 3);
    let labels = json!({"app": "myownshell", "myownshell_cr": "myownshell-sample"});
    let (meta, spec) = (&deployment["metadata"], &deployment["spec"]);
    assert_eq!((&spec["selector"]["matchLabels"], &spec["template"]["metadata"]["labels"]), (&labels, &labels));
    assert_eq!(meta["finalizers"], json!(["myownshell.my-first-operator.jgato.io/finalizer"]));
    let declared = shell.namespace.get("myownshell", "myownshell-sample").unwrap();
    assert_eq!(declared["metadata"]["finalizers"], meta["finalizers"]);
    let owner = json!([{
        "apiVersion": "my-first-operator.jgato.io/v1alpha1",
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": "MyOwnShell",
        "name": "myownshell-sample",
        "uid": declared["metadata"]["uid"],
    }]);
    assert_eq!(meta["ownerReferences"], owner);
    let container = &spec["template"]["spec"]["containers"][0];
    let message = "echo The app is running, You can now ssh into for a while! && sleep 99999999 ";
    assert_eq!(container["command"], json!(["sh", "-c", message]));
    assert_eq!((&container["name"], &container["image"]), (&json!("busybox"), &json!("busybox:latest")));
    let table = shell.kubectl(&["get", "myownshells"]);
    let mut words = table.split_whitespace();
    assert_eq!((words.next(), words.next()), (Some("NAME"), Some("SIZE")), "{table}");
    assert!(table.lines().next().unwrap().trim_end().ends_with("AGE"), "{table}");
}

#[test]
fn every_change_of_size_is_carried_over_by_edit_and_by_scale() {
    let shell = Shell::create(sandbox(), "sizes", &json!({"size": 3}));
    shell.has_replicas(3);
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 5}}));
    shell.has_replicas(5);
    shell.kubectl(&["scale", "myownshell/shell", "--replicas=1"]);
    shell.has_replicas(1);
    let scale = shell.kubectl(&["get", "myownshell", "shell", "--subresource=scale", "-o", "json"]);
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(scale["status"]["selector"], "app=myownshell,myownshell_cr=shell");
    shell.status("1 shell", |status| status["replicas"] == 1 && status["pods"].as_array().unwrap().len() == 1);
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 0}}));
    shell.has_replicas(0);
    let status = shell.status("none, as declared", |status| status["conditions"][0]["status"] == "True");
    assert_eq!((&status["message"], &status["pods"]), (&json!("0 shells ready"), &Value::Null));
}

#[test]
fn ready_shells_are_listed_first_with_the_line_that_opens_them() {
    let shell = Shell::create(sandbox(), "ready", &json!({"size": 2}));
    let status = shell.status("2 pods", |status| status["pods"].as_array().is_some_and(|pods| pods.len() == 2));
    assert_eq!((&status["message"], &status["readyReplicas"]), (&json!("0 of 2 shells ready"), &json!(0)));
    let mut names: Vec<_> =
        status["pods"].as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    let become_ready = |name: &str| {
        let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
        shell.kubectl(&["patch", "pod", name, "--subresource=status", "--type=merge", "-p", &patch]);
    };
    become_ready(&names[1]);
    let status = shell.status("1 ready", |status| status["readyReplicas"] == 1);
    let exec = format!("kubectl exec -it -n ready {} -- sh", names[1]);
    assert_eq!(status["pods"][0], json!({"name": names[1], "ready": true, "exec": exec}));
    become_ready(&names[0]);
    let status = shell.status("all ready", |status| status["readyReplicas"] == 2);
    assert_eq!(
        (&status["message"], &status["conditions"][0]["reason"]),
        (&json!("2 shells ready"), &json!("Reconciled"))
    );
    shell.kubectl(&["wait", "--for=condition=Ready", "myownshell/shell", "--timeout=10s"]);
}

#[test]
fn image_command_and_resources_reach_the_pods_and_leave_them_again() {
    let spec = json!({
        "size": 1,
        "image": "alpine:3.20",
        "command": ["sleep", "60"],
        "resources": {"requests": {"cpu": "10m"}, "limits": {"cpu": 1, "memory": "64Mi"}},
    });
    let shell = Shell::create(sandbox(), "fields", &spec);
    let container = |deployment: &Value| deployment["spec"]["template"]["spec"]["containers"][0].clone();
    let deployment = shell.has_replicas(1);
    let seen = container(&deployment);
    assert_eq!((&seen["image"], &seen["command"]), (&spec["image"], &spec["command"]));
    assert_eq!(seen["resources"], json!({"requests": {"cpu": "10m"}, "limits": {"cpu": "1", "memory": "64Mi"}}));
    let bare = json!([{"op": "replace", "path": "/spec", "value": {"size": 1}}]).to_string();
    shell.kubectl(&["patch", "myownshell", "shell", "--type=json", "-p", &bare]);
    let deployment = shell.deployment("busybox", |deployment| container(deployment)["image"] == "busybox:latest");
    assert_eq!(container(&deployment)["resources"], json!({}), "what is left out is taken away");
}

#[test]
fn shells_are_made_where_only_the_restricted_profile_is_let_in() {
    let shell = Shell::create(sandbox(), "restricted", &json!({"size": 0}));
    let label = "pod-security.kubernetes.io/enforce=restricted";
    shell.kubectl(&["label", "namespace", "restricted", label]);
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 2}}));
    shell.has_replicas(2);
    eventually(sandbox(), drover_e2e::SOON, "2 pods", || {
        let pods = shell.kubectl(&["get", "pods", "-o", "name"]);
        if pods.lines().count() == 2 { Ok(()) } else { Err(pods) }
    });
}
