//! How shells end: nothing hangs, and nothing is left behind.

use drover_e2e::{SOON, Shell, eventually};
use serde_json::{Value, json};

use crate::sandbox;

const ALL: [&str; 6] = ["deployment", "replicaset", "pod", "configmap", "service", "endpointslice"];

#[test]
fn a_deleted_myownshell_takes_all_with_it_whichever_way_it_is_deleted() {
    for (name, flags) in [("background", &[][..]), ("foreground", &["--cascade=foreground"])] {
        let shell = Shell::create(sandbox(), name, &json!({"size": 2, "vmGroupRef": {"name": "none"}}));
        shell.has_replicas(2);
        shell.delete("myownshell/shell", flags);
        shell.has_no(&ALL);
    }
}

#[test]
fn an_orphaned_deployment_keeps_running_and_can_be_deleted_without_its_myownshell() {
    let shell = Shell::create(sandbox(), "orphaned", &json!({"size": 2}));
    shell.has_replicas(2);
    shell.delete("myownshell/shell", &["--cascade=orphan"]);
    let orphan = shell.deployment("let go", |deployment| deployment["metadata"]["finalizers"].is_null());
    let meta = &orphan["metadata"];
    assert_eq!((&meta["ownerReferences"], &meta["deletionTimestamp"]), (&Value::Null, &Value::Null));
    shell.delete("deployment/shell", &[]);
}

#[test]
fn a_deployment_whose_myownshell_was_torn_away_does_not_hang() {
    let shell = Shell::create(sandbox(), "torn", &json!({"size": 1}));
    shell.has_replicas(1);
    shell.kubectl(&["delete", "myownshell", "shell", "--wait=false"]);
    // Whoever is faster: a person who has seen finalizers hang takes them off.
    let _ = shell.namespace.kubectl(&[
        "patch",
        "myownshell",
        "shell",
        "--type=merge",
        "-p",
        r#"{"metadata":{"finalizers":null}}"#,
    ]);
    shell.has_no(&ALL);
}

#[test]
fn a_namespace_full_of_shells_can_be_deleted() {
    let shell = Shell::create(sandbox(), "crowded", &json!({"size": 2, "vmGroupRef": {"name": "none"}}));
    shell.has_replicas(2);
    sandbox().kubectl().run(&["delete", "namespace", "crowded", "--timeout=60s"]).unwrap();
}

#[test]
fn a_new_myownshell_of_an_old_ones_name_gets_shells_of_its_own() {
    let shell = Shell::create(sandbox(), "again", &json!({"size": 1}));
    let old = shell.has_replicas(1);
    shell.delete("myownshell/shell", &[]);
    shell.apply(&json!({"size": 2})).unwrap();
    let new = shell.has_replicas(2);
    assert_ne!(new["metadata"]["uid"], old["metadata"]["uid"]);
}

#[test]
fn after_its_ttl_a_myownshell_has_no_shells_and_says_since_when() {
    let shell = Shell::create(sandbox(), "ttl", &json!({"size": 2, "ttl": "8s", "vmGroupRef": {"name": "none"}}));
    let told = shell.status("when it ends", |status| status["expiresAt"].is_string());
    shell.has_no(&ALL);
    let status = shell.status("expired", |status| status["conditions"][1]["status"] == "False");
    assert_eq!(status["conditions"][0]["reason"], "Expired");
    let since = told["expiresAt"].as_str().unwrap();
    let expected = format!("its ttl of 8s has been over since {since}: raise spec.ttl to have shells again");
    assert_eq!(status["message"], expected);
    shell.tells("Expired", &expected);
    eventually(sandbox(), SOON, "it is shown", || {
        let table = shell.kubectl(&["get", "myownshell", "shell", "--no-headers"]);
        if table.contains(since) && table.contains("raise spec.ttl") { Ok(()) } else { Err(table) }
    });
    shell.patch("myownshell", "shell", &json!({"spec": {"ttl": "1h"}}));
    shell.has_replicas(2);
    shell.patch("myownshell", "shell", &json!({"spec": {"ttl": null}}));
    shell.status("for ever", |status| status["expiresAt"].is_null());
}
