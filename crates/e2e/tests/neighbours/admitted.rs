//! Objects that an older definition has let in, under the definitions of today: they can be edited, told of and deleted, and what is
//! out of bounds in them can only get better.

use std::time::Duration;

use drover_e2e::{Group, Namespace, Operator, SOON, Sandbox, eventually, vm_group};
use serde_json::{Map, Value, json};

/// What an older definition didn't have.
const BOUNDS: [&str; 7] =
    ["minimum", "maximum", "minLength", "maxLength", "maxItems", "maxProperties", "x-kubernetes-validations"];

/// The schema as if nothing had bounds, and what is a number or text could be null.
fn loosen(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, _| !BOUNDS.contains(&name.as_str()));
            if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                fields.insert("nullable".to_owned(), json!(true));
            }
            fields.values_mut().for_each(loosen);
        }
        Value::Array(items) => items.iter_mut().for_each(loosen),
        _ => {}
    }
}

/// Definitions as an older version had them.
pub(crate) fn loosened(definitions: &[Value]) -> Vec<Value> {
    let mut before = definitions.to_vec();
    for definition in &mut before {
        loosen(&mut definition["spec"]["versions"][0]["schema"]);
    }
    before
}

/// Puts these definitions in the place of those that there are.
pub(crate) fn install(sandbox: &Sandbox, definitions: &[Value]) {
    let without_version = |definition: &Value| {
        let metadata = json!({"name": definition["metadata"]["name"]});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata, "spec": definition["spec"]})
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": definitions.iter().map(without_version).collect::<Vec<_>>()});
    sandbox
        .kubectl()
        .run_with_input(&["replace", "-f", "-"], &list.to_string())
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// An object of each kind that is out of bounds, which field of it is, and what may stand there.
fn out_of_bounds() -> Vec<(Value, &'static str, Value, Value)> {
    let object = |group: &str, kind: &str, spec: Value| json!({"apiVersion": group, "kind": kind, "metadata": {"name": "old"}, "spec": spec});
    let drover = "vm.codeconnect.vmworld.com/v1alpha1";
    let topology = "topology.corinternal.com/v1";
    let hosts: Vec<_> = (0..100).map(|number| format!("esxi-{number}")).collect();
    let mut more_hosts = hosts.clone();
    more_hosts.push("esxi-100".to_owned());
    let vcenter = json!({
        "server": "127.0.0.1:1", "credentialsSecretRef": {"namespace": "default", "name": "none"},
        "namespaces": {"matchLabels": {"none": "such"}}, "limits": {"operations": 100_000},
    });
    vec![
        (vm_group("old", &json!({"replicas": 2_000_000_000, "paused": true})), "replicas", json!(i32::MAX), json!(3)),
        (
            vm_group("old-hosts", &json!({"placement": {"hosts": hosts}, "paused": true})),
            "placement",
            json!({"hosts": more_hosts}),
            json!({"hosts": hosts[..64]}),
        ),
        (
            vm_group(
                "old-update",
                &json!({"update": {"maxSurge": 3_000_000_000_u32, "maxUnavailable": null}, "paused": true}),
            ),
            "update",
            json!({"maxSurge": 4_000_000_000_u32}),
            json!({"maxSurge": 10_000}),
        ),
        (
            object("my-first-operator.jgato.io/v1alpha1", "MyOwnShell", json!({"size": 20_000})),
            "size",
            json!(30_000),
            json!(0),
        ),
        (
            object(topology, "HostInfo", json!({"hostname": "h".repeat(2000)})),
            "hostname",
            json!("h".repeat(2001)),
            json!("h"),
        ),
        (
            object(topology, "VMInfo", json!({"nodename": "n".repeat(2000)})),
            "nodename",
            json!("n".repeat(2001)),
            json!("n"),
        ),
        (object(drover, "VCenter", vcenter), "limits", json!({"operations": 200_000}), json!({"operations": 640})),
    ]
}

fn merge(namespace: &Namespace, object: &Value, change: &Value) -> Result<Value, String> {
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let name = object["metadata"]["name"].as_str().unwrap();
    namespace.patch(&kind, name, change).map_err(|failure| failure.stderr)
}

#[test]
fn what_was_admitted_before_stays_editable_and_its_bounds_hold_for_what_changes() {
    let sandbox = Sandbox::start("admitted", &["--clone-delay=0s"]).unwrap();
    sandbox.install_kinds();
    let today = sandbox.definitions();
    install(&sandbox, &loosened(&today));
    let namespace = sandbox.namespace("admitted");
    let objects = out_of_bounds();
    for (object, ..) in &objects {
        eventually(&sandbox, SOON, "the older definition lets it in", || {
            namespace.create(object).map_err(|failure| failure.to_string())
        });
    }
    let group = Group::of(sandbox.namespace("two-billion"), &sandbox);
    group.apply(&json!({"replicas": i32::MAX}));
    let doomed = Group::of(sandbox.namespace("doomed"), &sandbox);
    doomed.apply(&json!({"replicas": 1, "update": {"maxSurge": 3_000_000_000_u32}}));
    install(&sandbox, &today);
    for (object, field, worse, better) in &objects {
        let mut another = object.clone();
        another["metadata"]["name"] = json!("another");
        let refused = eventually(&sandbox, SOON, "the definition of today lets no other in", || {
            if let Err(failure) = namespace.create(&another) {
                return Ok(failure.stderr);
            }
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            namespace.delete(&kind, "another").map_err(|failure| failure.to_string())?;
            Err("it still does".to_owned())
        });
        assert!(refused.contains(&format!("spec.{field}")), "{refused}");
        may_be_edited_but_not_for_the_worse(&namespace, object, field, worse, better);
    }
    the_operator_leaves_them_alone_until_they_make_sense(&sandbox, &group, &doomed);
}

fn may_be_edited_but_not_for_the_worse(
    namespace: &Namespace,
    object: &Value,
    field: &str,
    worse: &Value,
    better: &Value,
) {
    let merge = |change: &Value| merge(namespace, object, change);
    let what = format!("{} {}", object["kind"], object["metadata"]["name"]);
    let mut written = merge(&json!({"metadata": {"labels": {"edited": "yes"}}})).expect(&what);
    assert_eq!(written["metadata"]["labels"]["edited"], "yes");
    written["status"] = json!({"observedGeneration": 1});
    let written = namespace.replace_status(&written).unwrap_or_else(|failure| panic!("{what}: {failure}"));
    assert_eq!(written["status"]["observedGeneration"], 1);
    for finalizers in [json!(["example.com/hold"]), json!([])] {
        merge(&json!({"metadata": {"finalizers": finalizers}})).expect(&what);
    }
    let refused = merge(&json!({"spec": {field: worse}})).expect_err(&what);
    assert!(refused.contains(&format!("spec.{field}")), "{what}: {refused}");
    let said =
        ["less than or equal to", "give a number from 0 to 10000", "may not be more than", "Too many", "Too long"];
    assert!(said.iter().any(|said| refused.contains(said)), "{what}: {refused}");
    merge(&json!({"spec": {field: better}})).expect(&what);
    merge(&json!({"spec": {field: worse}})).expect_err("what has got better stays so");
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    namespace
        .delete(&kind, object["metadata"]["name"].as_str().unwrap())
        .unwrap_or_else(|failure| panic!("{what}: {failure}"));
}

fn the_operator_leaves_them_alone_until_they_make_sense(sandbox: &Sandbox, group: &Group<'_>, doomed: &Group<'_>) {
    let _operator = Operator::start(sandbox, sandbox.vcenter()).unwrap();
    group.says("ERROR", "spec.replicas is 2147483647: give 0 to 10000");
    doomed.says("ERROR", "spec.update.maxSurge is 3000000000: give a number from 0 to 10000");
    let stalled = group.get().unwrap()["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let stalled = stalled.iter().find(|condition| condition["type"] == "Stalled").cloned().unwrap_or_default();
    assert_eq!((&stalled["status"], &stalled["reason"]), (&json!("True"), &json!("Invalid")));
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(group.everywhere(), Vec::<String>::new());
    doomed.delete();
    group.namespace.kubectl(&["scale", &format!("vg/{}", group.name()), "--replicas=1"]).unwrap();
    group.runs_with(1);
}

#[test]
fn null_is_the_default_or_as_if_left_out() {
    let sandbox = Sandbox::start("null", &[]).unwrap();
    sandbox.install_kinds();
    let namespace = sandbox.namespace("null");
    let nulls = json!({"vcenter": null, "paused": null, "networks": null, "placement": {"hosts": null}, "update": {"maxSurge": null, "maxUnavailable": null}});
    let mut group = vm_group("null", &nulls);
    group["status"] = Value::Null;
    let mut created = namespace.create(&group).unwrap_or_else(|failure| panic!("{failure}"));
    let spec = &created["spec"];
    assert_eq!((&spec["update"]["maxSurge"], &spec["update"]["maxUnavailable"]), (&json!(0), &json!(1)));
    assert_eq!((&spec["paused"], &spec["placement"]), (&json!(false), &json!({})));
    let has_null = |fields: &Map<String, Value>| fields.values().any(Value::is_null);
    assert!(!has_null(spec.as_object().unwrap()), "{spec}");
    created["status"] = json!({"phase": null, "currentReplicas": 2, "record": null});
    let written = namespace.replace_status(&created).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(written["status"], json!({"currentReplicas": 2}));
}
