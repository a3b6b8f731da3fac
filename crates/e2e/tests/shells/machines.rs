//! The machines of a group, as shells find them.

use std::collections::BTreeMap;

use drover_e2e::{Group, SOON, Shell, eventually, vm_group};
use serde_json::{Value, json};

use crate::sandbox;

/// The names in the hosts file, with the address of each.
fn hosts(shell: &Shell) -> BTreeMap<String, String> {
    let Ok(file) = shell.namespace.get("configmap", "hosts-shell") else { return BTreeMap::new() };
    let lines = file["data"]["hosts"].as_str().unwrap_or_default().lines();
    let pairs = lines.filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
    pairs.map(|(address, name)| (name.to_owned(), address.to_owned())).collect()
}

/// The names that DNS is told, with the address of each.
fn endpoints(shell: &Shell) -> BTreeMap<String, String> {
    let shown = shell.kubectl(&["get", "endpointslices", "-l", "kubernetes.io/service-name=hosts-shell", "-o", "json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let slices = shown["items"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    endpoints.map(|endpoint| (text(&endpoint["hostname"]), text(&endpoint["addresses"][0]))).collect()
}

/// Waits until file and DNS name these machines at these addresses, and no others.
fn finds(shell: &Shell, expected: &BTreeMap<String, String>) {
    eventually(sandbox(), SOON, &format!("{expected:?} are found"), || {
        let (file, dns) = (hosts(shell), endpoints(shell));
        if file == *expected && dns == *expected { Ok(()) } else { Err(format!("{file:?}, {dns:?}")) }
    });
}

/// Gives each machine of a group an address, as its guest tools would.
fn addressed(group: &Group, replicas: usize) -> BTreeMap<String, String> {
    let mut addresses = BTreeMap::new();
    for (number, path) in group.runs_with(replicas).into_iter().enumerate() {
        let name = path.rsplit('/').next().unwrap().to_owned();
        let address = format!("198.18.7.{}", number + 1);
        let state = json!({"ip": address, "addresses": [address, "fe80::1"], "tools": "guestToolsRunning"});
        group.vcenter().control("PATCH", &format!("/machines/{name}"), &state).unwrap();
        addresses.insert(name, address);
    }
    addresses
}

#[test]
fn shells_find_the_machines_of_a_group_as_it_scales() {
    let group = Group::create(sandbox(), "finders", &json!({"replicas": 2}));
    let namespace = sandbox().existing_namespace("finders");
    let shell = Shell { namespace, sandbox: sandbox() };
    shell.apply(&json!({"size": 1, "vmGroupRef": {"name": "finders"}})).unwrap();
    let deployment = shell.has_replicas(1);
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/etc/drover");
    assert_eq!(pod["dnsConfig"]["searches"][0].as_str().unwrap().split("svc.").next(), Some("hosts-shell.finders."));

    finds(&shell, &addressed(&group, 2));
    shell.status("2 machines", |status| status["machines"] == 2);
    group.patch(&json!({"replicas": 3})).unwrap();
    finds(&shell, &addressed(&group, 3));
    group.patch(&json!({"replicas": 1})).unwrap();
    finds(&shell, &addressed(&group, 1));
    shell.patch("configmap", "hosts-shell", &json!({"data": {"hosts": "10.6.6.6\tevil\n"}}));
    finds(&shell, &addressed(&group, 1));
    let after = shell.namespace.get("deployment", "shell").unwrap();
    assert_eq!(after["metadata"]["generation"], deployment["metadata"]["generation"], "no pod is made anew for it");

    group.delete();
    let message = shell.is_hindered("VmGroupNotFound");
    assert_eq!(message, r#"spec.vmGroupRef: there is no VmGroup "finders" in finders"#);
    finds(&shell, &BTreeMap::new());
    shell.patch("myownshell", "shell", &json!({"spec": {"vmGroupRef": null}}));
    shell.is_free();
    shell.has_no(&["configmap", "service", "endpointslice"]);
}

#[test]
fn an_endpointslice_is_known_by_its_owner_and_not_by_its_labels() {
    let group = Group::create(sandbox(), "slices", &json!({"replicas": 1}));
    let shell = Shell { namespace: sandbox().existing_namespace("slices"), sandbox: sandbox() };
    let name = "hosts-shell-ipv4-0";
    let mine = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": name},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.6.6.6"]}],
    });
    shell.namespace.declare(&mine).unwrap();
    let expected = addressed(&group, 1);
    shell.apply(&json!({"size": 1, "vmGroupRef": {"name": "slices"}})).unwrap();
    let message = shell.is_hindered("NameTaken");
    assert!(message.starts_with(&format!("there is an EndpointSlice {name} that isn't")), "{message}");
    let left = shell.namespace.get("endpointslice", name).unwrap();
    assert_eq!(left["endpoints"].as_array().map(Vec::len), Some(1));
    assert_eq!(
        (&left["endpoints"][0]["addresses"], &left["metadata"]["labels"]),
        (&mine["endpoints"][0]["addresses"], &Value::Null)
    );
    shell.delete(&format!("endpointslice/{name}"), &[]);
    shell.is_free();
    finds(&shell, &expected);
    shell.patch("endpointslice", name, &json!({"metadata": {"labels": null}}));
    finds(&shell, &expected);
    shell.sees("endpointslice", name, "its labels", |slice| slice["metadata"]["labels"]["app"] == "myownshell");
}

#[test]
fn a_group_that_comes_after_its_shells_is_found() {
    let shell = Shell::create(sandbox(), "early", &json!({"size": 1, "vmGroupRef": {"name": "late"}}));
    shell.is_hindered("VmGroupNotFound");
    shell.has_replicas(1);
    shell.namespace.declare(&vm_group("late", &json!({"replicas": 0}))).unwrap();
    shell.is_free();
    shell.delete("vg/late", &[]);
    shell.is_hindered("VmGroupNotFound");
}
