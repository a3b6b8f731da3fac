//! What the API server forbids, and what Drover doesn't believe.

use std::{io::ErrorKind, net::TcpListener};

use drover_e2e::{SOON, Tenant, eventually};
use serde_json::{Value, json};

use crate::{BLUE, HOME, group, world};

#[test]
fn nobody_but_administrators_sees_or_writes_vcenters() {
    let Some(world) = world() else { return };
    let red = world.red("red-writer");
    // So no Secret is sent to a server of somebody's own, and none that is known to a VCenter is read.
    let own = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "mine"},
        "spec": {"server": "mine.example.com", "credentialsSecretRef": {"name": "cerulean"}},
    });
    let told = red.refused(&own);
    assert!(told.contains("(Forbidden)") && told.contains("\"vcenters\""), "{told}");
    for words in [
        &["get", "vc"][..],
        &["get", "vc", "cerulean"],
        &["patch", "vc", "shared", "--type=merge", "-p", r#"{"spec": {"reach": "Open"}}"#],
        &["delete", "vc", "cerulean"],
        &["get", "secrets", "-n", HOME],
        &["get", "secret", "cerulean", "-n", HOME],
        &["get", "leases", "-n", HOME],
        &["create", "configmap", "mine", "-n", HOME],
        &["get", "vg,vi,events", "-n", BLUE],
        &["delete", "vg", "navy", "-n", BLUE],
        &["get", "namespaces"],
        &["get", "nodes"],
    ] {
        red.is_forbidden(words);
    }
    world.nothing_came_of_it(&red);
}

#[test]
fn who_writes_vcenters_has_no_secret_of_others_sent_to_a_server_of_their_own() {
    let Some(world) = world() else { return };
    let writer = Tenant::new(world.sandbox, "writer", &json!({}));
    let role = "--clusterrole=drover-vcenter-editor-role";
    world.sandbox.kubectl().run(&["create", "clusterrolebinding", "writer", role, "--user=writer"]).unwrap();
    eventually(world.sandbox, SOON, "the writer may write", || {
        writer.kubectl(&["auth", "can-i", "create", "vcenters"]).map_err(|failure| failure.to_string())
    });
    writer.is_forbidden(&["get", "secret", "cerulean", "-n", HOME]);
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let address = server.local_addr().unwrap().to_string();
    let vcenter = |name: &str, server: &str, secret: Value, tls: Value| {
        // It serves nobody.
        let namespaces = json!({"matchLabels": {"team": "none"}});
        let spec = json!({"server": server, "credentialsSecretRef": secret, "tls": tls, "namespaces": namespaces});
        let kind = "vm.codeconnect.vmworld.com/v1alpha1";
        json!({"apiVersion": kind, "kind": "VCenter", "metadata": {"name": name}, "spec": spec})
    };
    let cerulean = json!({"name": "cerulean"});
    let told = writer.refused(&vcenter("clear", &format!("http://{address}"), cerulean.clone(), json!({})));
    assert!(told.contains("server: http:// sends the password in clear text"), "{told}");
    writer.apply(&[
        vcenter("mine", &address, cerulean.clone(), json!({"insecure": true})),
        vcenter("clear", &format!("http://{address}"), cerulean.clone(), json!({"insecure": true})),
        vcenter("unverified", &world.theirs.host, cerulean, json!({"insecure": true})),
        vcenter("elsewhere", &address, json!({"namespace": BLUE, "name": "turquoise"}), json!({"insecure": true})),
    ]);
    let secret = "spec.credentialsSecretRef: the Secret drover-system/cerulean ";
    for (name, words) in [
        ("mine", format!("{secret}is for another server than {address}")),
        ("clear", format!("{secret}is for another server than {address}")),
        ("unverified", format!("{}has the annotation", secret.replace("credentialsSecretRef", "tls.insecure"))),
        ("elsewhere", "spec.credentialsSecretRef: ".to_owned()),
    ] {
        let message = writer.is_told("vc", name, "Invalid", &words);
        assert!(!message.contains(&world.theirs.user), "{message}");
    }
    writer.kubectl(&["delete", "vc", "mine", "clear", "unverified", "elsewhere"]).unwrap();
    let connected = server.accept();
    assert!(connected.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "{connected:?}");
    world.nothing_came_of_it(&writer);
}

#[test]
fn nobody_but_the_operator_writes_a_status() {
    let Some(world) = world() else { return };
    let red = world.red("red-status");
    let info = |kind: &str, field: &str| {
        let spec = json!({field: "nothing", "vcenter": "shared"});
        json!({"apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": {"name": "mine"}, "spec": spec})
    };
    let mut forged = group("mine", &json!({"template": "nothing"}));
    let record = json!({"incarnation": 1, "made": ["0@1"], "folder": "group-v3"});
    forged["status"] =
        json!({"vcenter": "cerulean", "markerUID": world.navy, "record": record, "extraConfigKept": ["x"]});
    red.apply(&[forged, info("VMInfo", "nodename"), info("HostInfo", "hostname")]);
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "mine"}, "spec": {"size": 0},
    });
    red.apply(&[shell]);
    let patch = json!({"status": {"markerUID": world.navy}}).to_string();
    for kind in ["vg", "vi", "ch", "myownshell"] {
        red.is_forbidden(&["patch", kind, "mine", "--subresource=status", "--type=merge", "-p", &patch]);
    }
    // Nor with the object that it belongs to.
    red.kubectl(&["patch", "vg", "mine", "--type=merge", "-p", &patch]).unwrap();
    red.is_told("vg", "mine", "NotAllowed", "spec.template: namespace \"red-status\" may use no template \"nothing\"");
    let status = red.namespace.get("vg", "mine").unwrap()["status"].clone();
    assert!(status["markerUID"].is_null() && status["vcenter"] != "cerulean", "{status}");
    assert_eq!(status["extraConfigKept"], json!([]), "{status}");
    world.nothing_came_of_it(&red);
}

#[test]
fn vms_of_another_namespace_are_not_taken_over() {
    let Some(world) = world() else { return };
    let red = world.red("red-heir");
    let mut heir = group("navy", &json!({"replicas": 0}));
    heir["metadata"]["annotations"] = json!({"vm.codeconnect.vmworld.com/take-over": world.navy});
    red.apply(&[heir]);
    let said = format!(
        "the annotation vm.codeconnect.vmworld.com/take-over names the UID {:?}, but vCenter has no VM of a VmGroup with that UID, this \
         namespace, this name and this cluster's id",
        world.navy
    );
    assert_eq!(red.is_told("vg", "navy", "FolderConflict", &said), said);
    world.nothing_came_of_it(&red);
    red.kubectl(&["delete", "vg", "navy", "--timeout=60s"]).unwrap();
    world.nothing_was_done();
}
