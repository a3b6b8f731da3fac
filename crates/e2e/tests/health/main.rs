//! What Flux and Argo CD take the objects for, from the first moment to the last.

mod generations;
mod managers;
mod newer;
mod words;

use std::{fs, path::Path};

use drover_e2e::{Group, Operator, Program, SOON, Sandbox, Shell, VCenter, eventually, vm_group};
use serde_json::{Value, json};

/// An object, by its kind and name, and how it stands by kstatus and by Argo CD's health script for its kind.
struct Judge<'a> {
    sandbox: &'a Sandbox,
    namespace: &'a str,
    lua: Option<Program>,
}

impl Judge<'_> {
    fn get(&self, kind: &str, name: &str) -> Value {
        let object = self.sandbox.kubectl().run(&["get", kind, name, "-n", self.namespace, "-o", "json"]);
        serde_json::from_str(&object.unwrap_or_else(|failure| panic!("{failure}"))).unwrap()
    }

    /// Waits until both take an object for what is expected.
    #[track_caller]
    fn is(&self, kind: &str, name: &str, kstatus: &str, argo: &str) {
        eventually(self.sandbox, SOON, &format!("{kind} {name} is {kstatus}, {argo}"), || {
            let object = self.get(kind, name);
            let said = self.sandbox.kubectl().run_with_input(&["kstatus"], &object.to_string()).unwrap();
            let health = self.lua.as_ref().map(|lua| health(lua, &object));
            let is_healthy = health.as_ref().is_none_or(|health| health.starts_with(argo));
            if said.starts_with(kstatus) && is_healthy {
                Ok(())
            } else {
                Err(format!("{said} {health:?}: {}", object["status"]))
            }
        });
    }
}

/// What Argo CD says of an object, by the script that the docs have users install.
fn health(lua: &Program, object: &Value) -> String {
    let group = object["apiVersion"].as_str().unwrap().split('/').next().unwrap();
    let kind = object["kind"].as_str().unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/argocd");
    let script = fs::read_to_string(docs.join(format!("{group}_{kind}.lua"))).unwrap();
    let literal = literal(object);
    let program =
        format!("obj = {literal}\nlocal health = (function()\n{script}\nend)()\nprint(health.status, health.message)");
    lua.run_with_input(&["-"], &program).unwrap_or_else(|failure| panic!("{failure}"))
}

/// A value as Lua has it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "nil".to_owned(),
        Value::Array(items) => format!("{{{}}}", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("[{}] = {}", quoted(name), literal(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n"))
}

fn info(kind: &str, name: &str, field: &str, value: &str) -> Value {
    json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": {"name": name},
        "spec": {field: value, "vcenter": "health"},
    })
}

/// A VCenter whose password is wrong.
fn locked_out(sandbox: &Sandbox, vcenter: &VCenter) {
    vcenter.declare(sandbox, "locked-out", &json!({}));
    vcenter.declare_secret(sandbox, "locked-out", "wrong");
}

#[test]
fn kstatus_and_argo_cd_take_each_kind_for_what_it_is_from_the_first_moment_to_the_last() {
    let sandbox = Sandbox::start("health", &["--clone-delay=100ms", "--vcenters=3"]).unwrap();
    words::kinds_are_applied_without_a_warning(&sandbox);
    let (near, far) = (sandbox.vcenter().clone(), sandbox.own_vcenter());
    let namespace = sandbox.namespace("health");
    let judge = Judge { sandbox: &sandbox, namespace: "health", lua: Program::lua() };
    // Before any operator has seen them.
    far.declare(&sandbox, "health", &json!({}));
    locked_out(&sandbox, &near);
    let spec = json!({"replicas": 2, "vcenter": "health"});
    namespace.declare(&vm_group("health", &spec)).unwrap();
    namespace.declare(&vm_group("nowhere", &json!({"template": "no-such-template"}))).unwrap();
    let host = far.govc(&["find", "/", "-type", "h"]).unwrap();
    let host = host.lines().next().unwrap();
    namespace.declare(&info("HostInfo", "host", "hostname", host)).unwrap();
    namespace.declare(&info("HostInfo", "unknown", "hostname", "esxi-none")).unwrap();
    namespace.declare(&info("VMInfo", "unknown", "nodename", "vm-none")).unwrap();
    let shell = Shell { namespace: sandbox.existing_namespace("health"), sandbox: &sandbox };
    shell.apply(&json!({"size": 0})).unwrap();
    let all = [
        ("vc", "health"),
        ("vc", "locked-out"),
        ("vg", "health"),
        ("vg", "nowhere"),
        ("ch", "host"),
        ("ch", "unknown"),
        ("vi", "unknown"),
        ("myownshell", "shell"),
    ];
    for (kind, name) in all {
        judge.is(kind, name, "InProgress", "Progressing");
        assert_eq!(judge.get(kind, name)["status"], json!({"observedGeneration": -1}), "{kind} {name}");
    }
    words::explain_and_list(&sandbox);

    let slow = far.rule(&json!({"method": "CloneVM_Task", "client": "drover", "latency": "3s"}));
    let watch = generations::Watch::start(&sandbox);
    let operator = Operator::start(&sandbox, &near).unwrap();
    eventually(
        &sandbox,
        SOON,
        "a clone is asked for",
        || if slow.hits() > 0 { Ok(()) } else { Err("none".to_owned()) },
    );
    judge.is("vg", "health", "InProgress", "Progressing");
    slow.remove();
    for (kind, name) in [("vc", "health"), ("vg", "health"), ("ch", "host"), ("myownshell", "shell")] {
        judge.is(kind, name, "Current", "Healthy");
    }
    watch.no_group_was_said_to_be_seen_before_it_was();
    for (kind, name) in [("vc", "locked-out"), ("vg", "nowhere"), ("ch", "unknown"), ("vi", "unknown")] {
        judge.is(kind, name, "Failed", "Degraded");
    }
    let group = Group::of(sandbox.existing_namespace("health"), &sandbox);
    let member = namespace.list("vi").unwrap().into_iter().find(|info| info["metadata"]["ownerReferences"].is_array());
    let member = member.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    judge.is("vi", &member, "Current", "Healthy");
    // Pods that nobody runs, as there is no node, and a name that somebody else has.
    shell.apply(&json!({"size": 1})).unwrap();
    judge.is("myownshell", "shell", "InProgress", "Progressing");
    // What is paused waits for nobody.
    group.patch(&json!({"paused": true})).unwrap();
    judge.is("vg", "health", "Current", "Suspended");
    group.patch(&json!({"paused": false})).unwrap();
    judge.is("vg", "health", "Current", "Healthy");
    managers::one_manager_has_every_status(&sandbox, &all);
    let operator = managers::what_another_has_written_goes_away(&sandbox, &near, operator);
    let operator = newer::what_a_newer_version_has_said_stays(&sandbox, &near, operator);

    far.control("POST", "/outage", &json!({"for": "600s"})).unwrap();
    for (kind, name) in [("vc", "health"), ("vg", "health"), ("ch", "host"), ("vi", &member)] {
        judge.is(kind, name, "InProgress", "Progressing");
    }
    group.begin_to_delete();
    judge.is("vg", "health", "Terminating", "Progressing");
    far.control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    group.is_gone();
    drop(operator);
}
