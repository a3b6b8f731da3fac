//! What people and programs do to the Deployment.

use drover_e2e::Shell;
use serde_json::{Value, json};

use crate::sandbox;

#[test]
fn an_edited_deployment_is_put_right_and_what_others_added_stays() {
    let shell = Shell::create(sandbox(), "edited", &json!({"size": 2}));
    shell.has_replicas(2);
    shell.status("told", |status| status["replicas"] == 2);
    shell.kubectl(&["scale", "deployment/shell", "--replicas=4"]);
    shell.has_replicas(2);
    shell.tells("Drift", "the Deployment was edited, and is as declared again");
    let sidecar = json!({"name": "proxy", "image": "proxy:1"});
    let theirs = json!({
        "metadata": {"annotations": {"theirs": "stays"}},
        "spec": {"template": {"spec": {"containers": [sidecar]}}},
    });
    shell.kubectl(&["patch", "deployment", "shell", "--type=strategic", "-p", &theirs.to_string()]);
    let ours = json!({
        "metadata": {"labels": {"app": "other"}, "finalizers": null},
        "spec": {"template": {"spec": {"containers": [{"name": "busybox", "image": "evil:1", "command": ["true"]}]}}},
    });
    shell.kubectl(&["patch", "deployment", "shell", "--type=strategic", "-p", &ours.to_string()]);
    let deployment = shell.deployment("as declared", |deployment| {
        let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
        let busybox = containers.iter().find(|container| container["name"] == "busybox").unwrap();
        busybox["image"] == "busybox:latest"
            && busybox["command"][0] == "sh"
            && deployment["metadata"]["labels"]["app"] == "myownshell"
            && deployment["metadata"]["finalizers"].is_array()
    });
    assert_eq!(deployment["metadata"]["annotations"]["theirs"], "stays");
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert!(containers.iter().any(|container| container["name"] == "proxy"), "{deployment}");
}

#[test]
fn a_deleted_deployment_goes_at_once_and_is_made_again() {
    let shell = Shell::create(sandbox(), "deleted", &json!({"size": 2}));
    let mut uid = shell.has_replicas(2)["metadata"]["uid"].clone();
    shell.status("told", |status| status["replicas"] == 2);
    for flags in [&[][..], &["--cascade=foreground"], &["--cascade=orphan"]] {
        shell.kubectl(&[&["delete", "deployment", "shell", "--wait=false"], flags].concat());
        let made = shell.deployment("another", |deployment| {
            deployment["metadata"]["uid"] != uid && deployment["status"]["replicas"] == 2
        });
        uid = made["metadata"]["uid"].clone();
    }
    shell.tells("Drift", "the Deployment was deleted, and is made again");
    let pods = shell.kubectl(&["get", "pods", "-l", "myownshell_cr=shell", "-o", "name"]);
    assert_eq!(pods.lines().count(), 2, "{pods}");
}

#[test]
fn a_deployment_that_is_somebody_elses_is_left_alone_until_it_is_gone() {
    let namespace = sandbox().namespace("foreign");
    namespace.kubectl(&["create", "deployment", "shell", "--image=theirs:1", "--replicas=0"]).unwrap();
    let shell = Shell { namespace, sandbox: sandbox() };
    let before = shell.namespace.get("deployment", "shell").unwrap();
    shell.apply(&json!({"size": 2})).unwrap();
    let message = shell.is_hindered("NameTaken");
    assert!(message.starts_with("there is a Deployment shell that belongs to nobody that Drover knows"), "{message}");
    shell.tells("NameTaken", "there is a Deployment shell");
    let after = shell.namespace.get("deployment", "shell").unwrap();
    assert_eq!((&after["spec"], meta(&after)), (&before["spec"], meta(&before)));
    shell.delete("myownshell/shell", &[]);
    assert!(shell.namespace.get("deployment", "shell").is_ok(), "it outlives the MyOwnShell");
    shell.apply(&json!({"size": 2})).unwrap();
    shell.is_hindered("NameTaken");
    shell.delete("deployment/shell", &[]);
    shell.has_replicas(2);
    shell.is_free();
}

fn meta(object: &Value) -> (Value, Value, Value) {
    let meta = &object["metadata"];
    (meta["labels"].clone(), meta["ownerReferences"].clone(), meta["finalizers"].clone())
}

#[test]
fn a_deployment_of_the_seeds_own_making_is_taken_over() {
    let shell = Shell::create(sandbox(), "inherited", &json!({"size": 1}));
    let made = shell.has_replicas(1);
    // As the seed operator leaves it: with an owner and a finalizer, without labels of its own.
    shell.patch("deployment", "shell", &json!({"metadata": {"labels": null, "annotations": null}}));
    let deployment = shell.deployment("labels", |deployment| deployment["metadata"]["labels"]["app"] == "myownshell");
    assert_eq!(deployment["metadata"]["uid"], made["metadata"]["uid"]);
}
