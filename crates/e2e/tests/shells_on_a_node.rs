//! Shells that run, on a real node: what the seed's own page walks through, and what they find.

use std::{
    collections::BTreeMap,
    sync::{Mutex, OnceLock, PoisonError},
};

use drover_e2e::{Group, Operator, SOON, Sandbox, Shell, eventually};
use serde_json::{Value, json};

/// One operator for all tests. `None`: this machine can't have a node.
fn sandbox() -> Option<&'static Sandbox> {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let sandbox = Sandbox::shared_with_node(&[])?;
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    Some(sandbox)
}

/// A namespace that takes no pod but those of the restricted profile.
fn restricted<'a>(sandbox: &'a Sandbox, name: &str) -> Shell<'a> {
    let shell = Shell { namespace: sandbox.namespace(name), sandbox };
    shell.kubectl(&["label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted"]);
    shell
}

/// Waits until so many shells run, and no others are there, and returns what opens them.
fn runs(shell: &Shell, size: usize) -> Vec<String> {
    let status = shell.status(&format!("{size} shells run"), |status| {
        let pods = status["pods"].as_array().map_or(0, Vec::len);
        status["readyReplicas"] == size && pods == size && status["conditions"][0]["status"] == "True"
    });
    eventually(shell.sandbox, SOON, &format!("{size} pods, all Running"), || {
        let pods = shell.namespace.list("pod").map_err(|failure| failure.to_string())?;
        let phases: Vec<_> = pods.iter().map(|pod| &pod["status"]["phase"]).collect();
        if phases == vec!["Running"; size] { Ok(()) } else { Err(format!("{phases:?}")) }
    });
    status["pods"].as_array().unwrap().iter().map(|pod| pod["exec"].as_str().unwrap().to_owned()).collect()
}

/// Types something into a shell, opened by the line that its status gives.
fn typed(shell: &Shell, line: &str, text: &str) -> String {
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words[0], "kubectl");
    let answer = shell.namespace.kubectl_with_input(&words[1..], text);
    answer.unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn the_seeds_walk_through_ends_as_it_says() {
    let Some(sandbox) = sandbox() else { return };
    let shell = restricted(sandbox, "walk-through");
    shell.apply(&json!({"size": 3})).unwrap();
    let lines = runs(&shell, 3);
    let deployments = shell.kubectl(&["get", "deployments.apps", "--no-headers"]);
    assert_eq!(deployments.split_whitespace().take(2).collect::<Vec<_>>(), ["shell", "3/3"]);
    for line in &lines {
        assert_eq!(typed(&shell, line, "echo I am $(id -u)\nexit\n"), "I am 65534\n", "{line}");
    }
    let pod = lines[0].split(' ').nth(5).unwrap();
    let prompt =
        shell.namespace.kubectl_with_input(&["exec", "-i", pod, "--", "sh", "-ic", "exec 2>&1; sh -i"], "exit\n");
    assert!(prompt.as_ref().is_ok_and(|prompt| prompt.contains("$ ")), "{prompt:?}");
    let said = shell.kubectl(&["logs", pod]);
    assert_eq!(said, "The app is running, You can now ssh into for a while!\n");

    shell.patch("myownshell", "shell", &json!({"spec": {"size": 5}}));
    runs(&shell, 5);
    shell.kubectl(&["scale", "myownshell/shell", "--replicas=1"]);
    runs(&shell, 1);
    let before = shell.namespace.get("deployment", "shell").unwrap();
    shell.kubectl(&["delete", "deployment", "shell", "--wait=false"]);
    shell.deployment("another", |deployment| deployment["metadata"]["uid"] != before["metadata"]["uid"]);
    runs(&shell, 1);
    shell.delete("myownshell/shell", &[]);
    shell.has_no(&["deployment", "replicaset", "pod"]);
}

#[test]
fn a_shell_that_runs_finds_the_machines_of_a_group_as_it_scales() {
    let Some(sandbox) = sandbox() else { return };
    let group = Group::create(sandbox, "found", &json!({"replicas": 1}));
    let shell = Shell { namespace: sandbox.existing_namespace("found"), sandbox };
    shell.apply(&json!({"size": 1, "vmGroupRef": {"name": "found"}})).unwrap();
    let opens = runs(&shell, 1).remove(0);
    for replicas in [1, 3, 2] {
        group.patch(&json!({"replicas": replicas})).unwrap();
        let machines = addressed(&group, replicas);
        eventually(sandbox, SOON, &format!("the file and DNS know {machines:?}"), || {
            let file = typed(&shell, &opens, "grep -v '#' /etc/drover/hosts\ntrue\n");
            let expected: Vec<_> = machines.iter().map(|(name, address)| format!("{address}\t{name}\n")).collect();
            let asked: Vec<_> = machines.keys().map(|name| format!("nslookup {name}\n")).collect();
            let names = typed(&shell, &opens, &(asked.concat() + "true\n"));
            let is_resolved = |address: &String| names.contains(&format!("Address: {address}\n"));
            let is_so = file == expected.concat() && machines.values().all(is_resolved);
            if is_so { Ok(()) } else { Err(format!("{file}\n{names}")) }
        });
    }
    assert_eq!(runs(&shell, 1), [opens], "the shell is the same all the time");
}

/// Gives each machine of a group an address, as its guest tools would.
fn addressed(group: &Group, replicas: usize) -> BTreeMap<String, String> {
    let address = |(number, path): (usize, String)| {
        let (name, address) = (path.rsplit('/').next().unwrap().to_owned(), format!("198.18.7.{}", number + 1));
        let state = json!({"ip": address, "addresses": [address], "tools": "guestToolsRunning"});
        group.vcenter().control("PATCH", &format!("/machines/{name}"), &state).unwrap();
        (name, address)
    };
    group.runs_with(replicas).into_iter().enumerate().map(address).collect()
}

#[test]
fn an_image_that_is_not_there_is_told_of_and_mended_by_an_edit() {
    let Some(sandbox) = sandbox() else { return };
    let shell = restricted(sandbox, "no-image");
    shell.apply(&json!({"size": 1, "image": "nowhere.example/none:1"})).unwrap();
    let message = shell.is_hindered("PodsFailing");
    assert!(message.contains("nowhere.example/none:1"), "{message}");
    shell.patch("myownshell", "shell", &json!({"spec": {"image": Value::Null}}));
    runs(&shell, 1);
}
