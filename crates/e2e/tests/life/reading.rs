//! Objects that can't be read: admitted under another schema, or written by others.

use drover_e2e::{Group, Namespace, Operator, SOON, Sandbox, VCenter, binary, eventually, repeated, vm_group};
use serde_json::{Value, json};

const KINDS: [&str; 5] = [
    "vmgroups.vm.codeconnect.vmworld.com",
    "vcenters.vm.codeconnect.vmworld.com",
    "vminfoes.topology.corinternal.com",
    "hostinfoes.topology.corinternal.com",
    "myownshells.my-first-operator.jgato.io",
];

/// How many events an object has in a minute at most, and how often one is changed that has more.
const MOST_EVENTS: usize = 20;
const CHANGES: usize = 30;

/// Has the API server admit anything, as kinds do that somebody has edited.
fn admit_anything(sandbox: &Sandbox) {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    for kind in KINDS {
        let patch = json!([{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": open}]);
        let patch = patch.to_string();
        sandbox.kubectl().run(&["patch", "crd", kind, "--type=json", "-p", &patch]).unwrap();
    }
}

/// An object of a kind, with a spec and a status that nobody can read.
fn odd(kind: &str, name: &str, spec: &Value) -> Value {
    let version = match kind {
        "VMInfo" | "HostInfo" => "topology.corinternal.com/v1",
        "MyOwnShell" => "my-first-operator.jgato.io/v1alpha1",
        _ => "vm.codeconnect.vmworld.com/v1alpha1",
    };
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Waits until an object of a kind is told of.
#[track_caller]
fn is_told(sandbox: &Sandbox, namespace: &Namespace, kind: &str, words: &str) {
    eventually(sandbox, SOON, &format!("{kind}: {words}"), || {
        let events = namespace.events(kind, "Unreadable").map_err(|failure| failure.to_string())?;
        if events.iter().any(|event| event.contains(words)) { Ok(()) } else { Err(events.join("\n")) }
    });
}

#[test]
fn what_cant_be_read_is_told_of_and_hurts_nobody() {
    let sandbox = Sandbox::start("unreadable", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    let neighbour = Group::create(&sandbox, "neighbour", &json!({"replicas": 1}));
    neighbour.runs_with(1);
    // One that could be read, and has a VM.
    let spoilt = Group::create(&sandbox, "spoilt", &json!({"replicas": 1}));
    let machines = spoilt.runs_with(1);

    admit_anything(&sandbox);
    let team = sandbox.namespace("team");
    team.declare(&vm_group("large", &json!({"update": {"maxSurge": [3]}}))).unwrap();
    team.declare(&vm_group("none", &json!({"cpu": "many"}))).unwrap();
    team.declare(&odd("VMInfo", "vm", &json!({"nodename": 7}))).unwrap();
    team.declare(&odd("HostInfo", "host", &json!({"hostname": []}))).unwrap();
    team.declare(&odd("MyOwnShell", "shell", &json!({"replicas": "three"}))).unwrap();
    spoilt.patch(&json!({"replicas": 2, "paused": "perhaps"})).unwrap();
    is_told(&sandbox, &spoilt.namespace, "VmGroup", "spec.paused: ");
    is_told(&sandbox, &team, "VmGroup", "spec.update.maxSurge: ");
    for kind in ["VMInfo", "HostInfo", "MyOwnShell"] {
        is_told(&sandbox, &team, kind, "spec");
    }
    neighbour.patch(&json!({"replicas": 2})).unwrap();
    neighbour.runs_with(2);

    // A start reads them all at once.
    drop(operator);
    let theirs = sandbox.own_vcenter();
    theirs.declare(
        &sandbox,
        "theirs",
        &json!({
            "namespaces": {"matchLabels": {"team": "theirs"}},
            "limits": {"operations": "all"},
        }),
    );
    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    neighbour.patch(&json!({"replicas": 3})).unwrap();
    neighbour.runs_with(3);
    for number in 0..CHANGES {
        team.patch("vg", "none", &json!({"spec": {"cpu": format!("many-{number}")}})).unwrap();
    }
    spoilt.are_back(&machines);
    // What is said of an object in no namespace is there.
    is_told(&sandbox, &sandbox.existing_namespace("default"), "VCenter", "spec.limits.operations: ");
    commands_pass_it_over(&sandbox);
    nobody_settles_while_a_vcenter_that_may_be_theirs_cant_be_read(&sandbox, &theirs);

    // What can be read again is taken up again.
    spoilt.patch(&json!({"paused": false})).unwrap();
    spoilt.runs_with(2);

    // A status that nobody can read, too; and one whose record can't be read touches nothing.
    spoilt
        .namespace
        .kubectl(&[
            "patch",
            "vg",
            "spoilt",
            "--subresource=status",
            "--type=merge",
            "-p",
            r#"{"status":{"conditions":7}}"#,
        ])
        .unwrap();
    is_told(&sandbox, &spoilt.namespace, "VmGroup", "status.conditions: ");
    let machines = spoilt.everywhere();
    neighbour.patch(&json!({"replicas": 1})).unwrap();
    neighbour.runs_with(1);
    assert_eq!(spoilt.everywhere(), machines);

    // It can be deleted, if somebody gives up what is in vCenter.
    spoilt.begin_to_delete();
    spoilt.namespace.kubectl(&["annotate", "vg", "spoilt", "vm.codeconnect.vmworld.com/abandon=true"]).unwrap();
    spoilt.is_gone();
    assert_eq!(spoilt.everywhere(), machines, "what it had in vCenter stays");
    what_is_told_too_often_is_summed_up(&sandbox, &team, &operator);
}

/// Of an object that can't be read for another reason each time, so many events are written in a minute, and one for the rest.
fn what_is_told_too_often_is_summed_up(sandbox: &Sandbox, team: &Namespace, operator: &Operator) {
    let told = eventually(sandbox, SOON, "the events that were left out are counted", || {
        let told = team.events("VmGroup", "EventsLeftOut").map_err(|failure| failure.to_string())?;
        told.into_iter().next().ok_or_else(|| "none is".to_owned())
    });
    assert!(told.contains(" left out in this minute: ") && told.ends_with(" Unreadable"), "{told}");
    let events = team.list("event").unwrap();
    let of_it = |event: &&Value| event["regarding"]["name"] == "none" && event["reason"] == "Unreadable";
    let written = events.iter().filter(of_it).count();
    // One is of the operator before.
    assert!(written <= MOST_EVENTS + 1, "{written} events");
    eventually(sandbox, SOON, "the log says how often", || {
        let log = operator.log();
        let is_sum = |line: &str| line.contains("Object not readable") && line.contains("object=team/none ");
        let mut lines = log.lines().filter(|line| is_sum(line));
        if lines.any(|line| line.ends_with(" more times in the last minute)")) { Ok(()) } else { Err(log) }
    });
    assert_eq!(repeated(&operator.log()), Vec::<String>::new());
}

/// The commands that a person runs.
fn commands_pass_it_over(sandbox: &Sandbox) {
    let vcenter = sandbox.vcenter();
    let mut environment = sandbox.environment().clone();
    for (name, value) in [
        ("VC_HOST", &vcenter.host),
        ("VC_USER", &vcenter.user),
        ("VC_PASS", &vcenter.password),
        ("VC_CA_FILE", &vcenter.ca_file),
    ] {
        environment.insert(name.to_owned(), value.clone());
    }
    let output = std::process::Command::new(binary()).arg("check").envs(&environment).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("VmGroup team/large is passed over, because it can't be read: spec.update.maxSurge: "),
        "{said}"
    );
    let checked = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(checked.contains("neighbour"), "{checked}");
}

fn nobody_settles_while_a_vcenter_that_may_be_theirs_cant_be_read(sandbox: &Sandbox, theirs: &VCenter) {
    let group = Group::of(sandbox.namespace("their-team"), sandbox);
    sandbox.kubectl().run(&["label", "namespace", "their-team", "team=theirs"]).unwrap();
    group.apply(&json!({"replicas": 1}));
    group.says("PENDING", "one of the VCenters can't be read, and may be the one that serves this namespace");
    let events = sandbox.kubectl().run(&["get", "events", "-A", "-o", "json"]).unwrap();
    assert!(events.contains("spec.limits.operations: "), "the event on the VCenter says why: {events}");
    let patch = json!({"spec": {"limits": {"operations": 10}}}).to_string();
    sandbox.kubectl().run(&["patch", "vc", "theirs", "--type=merge", "-p", &patch]).unwrap();
    eventually(sandbox, SOON, "it runs in the vCenter that is theirs", || {
        let there = theirs.machines().iter().filter(|path| path.contains("their-team")).count();
        let status = group.status()?;
        if there == 1 && status["vcenter"] == "theirs" { Ok(()) } else { Err(status.to_string()) }
    });
    assert!(group.everywhere().is_empty(), "nothing was made in the vCenter of the environment");
}
