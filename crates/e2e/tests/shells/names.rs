//! Names that look alike, and names that somebody else has.

use drover_e2e::{Shell, eventually};
use serde_json::{Value, json};

use crate::sandbox;

fn declare(shell: &Shell, name: &str) {
    let manifest = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1",
        "kind": "MyOwnShell",
        "metadata": {"name": name},
        "spec": {"size": 1, "vmGroupRef": {"name": "web"}},
    });
    shell.namespace.declare(&manifest).unwrap();
}

/// The name of the hosts file that the pods of a shell read, once that is there and the shell's own.
fn own_file(shell: &Shell, name: &str) -> String {
    eventually(sandbox(), drover_e2e::SOON, &format!("the hosts file of {name}"), || {
        let deployment = shell.namespace.get("deployment", name).map_err(|failure| failure.to_string())?;
        let volume = &deployment["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"];
        let file = volume.as_str().ok_or("no volume")?.to_owned();
        for kind in ["configmap", "service"] {
            let object = shell.namespace.get(kind, &file).map_err(|failure| failure.to_string())?;
            let owner = &object["metadata"]["ownerReferences"][0]["name"];
            if owner != name {
                return Err(format!("the {kind} {file} is {owner}'s"));
            }
        }
        Ok(file)
    })
}

#[test]
fn shells_whose_names_look_alike_each_have_a_hosts_file() {
    let shell = Shell { namespace: sandbox().namespace("alike"), sandbox: sandbox() };
    let long = format!("{}.{}", "a".repeat(60), "b".repeat(60));
    let names = ["a.b".to_owned(), "a-b".to_owned(), long.clone(), long.replace('.', "-")];
    for name in &names {
        declare(&shell, name);
    }
    let mut files = names.map(|name| own_file(&shell, &name)).to_vec();
    assert_eq!(files[1], "hosts-a-b");
    files.sort();
    files.dedup();
    assert_eq!(files.len(), 4, "{files:?}");
}

#[test]
fn what_has_the_name_of_a_shells_object_and_is_not_its_own_is_left_alone_and_told() {
    let shell = Shell { namespace: sandbox().namespace("occupied"), sandbox: sandbox() };
    let file =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hosts-shell"}, "data": {"mine": "x"}});
    shell.namespace.declare(&file).unwrap();
    shell.apply(&json!({"size": 1, "vmGroupRef": {"name": "web"}})).unwrap();
    let message = shell.is_hindered("NameTaken");
    assert!(message.starts_with("there is a ConfigMap hosts-shell that belongs to nobody"), "{message}");
    shell.tells("NameTaken", "hosts-shell");
    // One that goes with the shell is not the shell's either.
    let uid = shell.namespace.get("myownshell", "shell").unwrap()["metadata"]["uid"].clone();
    let owner =
        json!({"apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "name": "shell", "uid": uid});
    shell.patch("configmap", "hosts-shell", &json!({"metadata": {"ownerReferences": [owner]}}));
    shell.kubectl(&["annotate", "myownshell", "shell", "look=again"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let there = shell.namespace.get("configmap", "hosts-shell").unwrap();
    assert_eq!((&there["data"], &there["metadata"]["labels"]), (&json!({"mine": "x"}), &Value::Null));
    shell.delete("configmap/hosts-shell", &[]);
    shell.is_hindered("VmGroupNotFound");
    shell.has_replicas(1);
}

#[test]
fn a_pod_that_only_has_a_shells_labels_is_no_shell() {
    let shell = Shell::create(sandbox(), "impostor", &json!({"size": 1, "vmGroupRef": {"name": "web"}}));
    shell.has_replicas(1);
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "impostor", "labels": {"app": "myownshell", "myownshell_cr": "shell"}},
        "spec": {"containers": [{"name": "busybox", "image": "busybox"}]},
    });
    shell.namespace.declare(&pod).unwrap();
    shell.patch("myownshell", "shell", &json!({"spec": {"size": 2}}));
    shell.has_replicas(2);
    let status = shell.status("2 pods", |status| status["pods"].as_array().is_some_and(|pods| pods.len() == 2));
    let is_shell = |pod: &Value| pod["name"].as_str().unwrap().starts_with("shell-");
    assert!(status["pods"].as_array().unwrap().iter().all(is_shell), "{status}");
    let pod = shell.namespace.get("pod", "impostor").unwrap();
    assert_eq!(pod["metadata"]["annotations"], Value::Null, "it is not touched");
}

#[test]
fn a_shell_with_the_longest_name_there_is_has_its_pods() {
    let shell = Shell { namespace: sandbox().namespace("longest"), sandbox: sandbox() };
    let name = "a".repeat(253);
    declare(&shell, &name);
    shell.sees("myownshell", &name, "a pod", |shell| shell["status"]["pods"].as_array().map(Vec::len) == Some(1));
    own_file(&shell, &name);
    shell.delete(&format!("myownshell/{name}"), &[]);
}
