//! What the API server is told before a VmGroup is stored, as people see it.

mod certificates;
mod keeper;
mod places;
mod port;
mod templates;

use std::fs;

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_e2e::{
    Group, Operator, SOON, Sandbox, Terminal, eventually,
    webhook::{configure, free_port},
};
use serde_json::{Value, json};

const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/drover";

pub(crate) fn start(name: &str, sandbox: &Sandbox, port: u16) -> Operator {
    let address = format!("--webhook-addr=127.0.0.1:{port}");
    let flags = ["--enable-leader-election", &address, "--webhook-rotation=10s"];
    Operator::start_as(name, sandbox, sandbox.vcenter(), &flags).unwrap()
}

/// The certificates that the API server trusts in.
pub(crate) fn trusted(sandbox: &Sandbox) -> Result<Vec<String>, String> {
    let configuration = sandbox.get(CONFIGURATION).map_err(|failure| failure.to_string())?;
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap_or_default();
    let bundle = String::from_utf8(BASE64_STANDARD.decode(bundle).unwrap()).unwrap();
    Ok(bundle.split("# drover").skip(1).map(ToOwned::to_owned).collect())
}

/// What kubectl prints of it all, for a command in the group's namespace.
pub(crate) fn said(group: &Group, line: &str) -> String {
    Terminal::of(group.sandbox).run(&format!("kubectl -n {} {line} 2>&1", group.name()))
}

#[test]
fn a_dry_run_tells_what_would_happen_to_the_vms_and_nothing_does() {
    let sandbox = &Sandbox::start("admission", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let operator = start("first", sandbox, port);
    let group = Group::create(sandbox, "told", &json!({"replicas": 3}));
    group.runs_with(3);
    let name = group.name();
    let manifest = group.sandbox.dir().join("told.json");
    let apply = |change: Value, flags: &str| {
        let mut object = group.get().unwrap();
        let (spec, change) = (object["spec"].as_object_mut().unwrap(), change.as_object().unwrap().clone());
        spec.extend(change);
        object["metadata"] = json!({"name": name, "namespace": name});
        object.as_object_mut().unwrap().remove("status");
        fs::write(&manifest, object.to_string()).unwrap();
        said(&group, &format!("apply --server-side --force-conflicts {flags} -f {}", manifest.display()))
    };
    eventually(sandbox, SOON, "the API server asks", || {
        let said = apply(json!({"replicas": 5}), "--dry-run=server");
        if said.contains("Warning: creates 2 VMs") { Ok(()) } else { Err(said) }
    });
    let before = group.identities();
    for (change, warning) in [
        (json!({"extraConfig": {"guestinfo.a": "b"}}), "Warning: replaces 3 VMs, 1 at a time: their disks are lost"),
        (json!({"replicas": 1}), "Warning: destroys 2 VMs and their disks"),
        (json!({"cpu": 4}), "Warning: powers off 3 VMs to change CPUs and memory, 1 at a time"),
        (json!({"powerState": "Off"}), "Warning: powers off 3 VMs"),
    ] {
        let said = apply(change, "--dry-run=server");
        assert!(said.contains(warning), "{warning}: {said}");
    }
    let same = apply(json!({}), "--dry-run=server");
    assert!(!same.contains("Warning"), "{same}");
    let scaled = said(&group, &format!("scale vg/{name} --replicas=0 --dry-run=server"));
    assert!(scaled.contains("Warning: destroys 3 VMs and their disks"), "{scaled}");
    let deleted = said(&group, &format!("delete vg/{name} --dry-run=server"));
    assert!(deleted.contains("Warning: destroys 3 VMs and their disks"), "{deleted}");
    assert_eq!(group.identities(), before);
    assert_eq!(sandbox.vcenter().calls("Destroy_Task", "drover"), 0);

    // Who means it is told what can't be undone, and nothing else.
    let more = said(&group, &format!("scale vg/{name} --replicas=4"));
    assert!(!more.contains("Warning"), "{more}");
    group.runs_with(4);
    let fewer = said(&group, &format!("scale vg/{name} --replicas=3"));
    assert!(fewer.contains("Warning: destroys 1 VM and"), "{fewer}");
    group.runs_with(3);

    // Of a vCenter that is away, nothing can be told.
    sandbox.vcenter().control("POST", "/outage", &json!({"for": "1h"})).unwrap();
    eventually(sandbox, SOON, "it is said that nobody knows", || {
        let said = apply(json!({"replicas": 1}), "--dry-run=server");
        if said.contains("Warning: vCenter is not connected") { Ok(()) } else { Err(said) }
    });
    sandbox.vcenter().control("POST", "/outage", &json!({"for": "0s"})).unwrap();

    // Nor of VMs in a folder that Drover may not see.
    sandbox.vcenter().control("PUT", "/hidden", &json!({"folders": [group.folder()]})).unwrap();
    eventually(sandbox, SOON, "it is said that the folder is not seen", || {
        let said = said(&group, &format!("delete vg/{name} --dry-run=server"));
        if said.contains("Warning: the VmGroup's folder is not seen") { Ok(()) } else { Err(said) }
    });
    sandbox.vcenter().control("PUT", "/hidden", &json!({})).unwrap();
    group.runs_with(3);

    certificates_come_back_and_are_renewed(sandbox, &group);
    drop(operator);
    let admitted = said(&group, &format!("scale vg/{name} --replicas=2"));
    assert!(admitted.contains("scaled") && !admitted.contains("Warning"), "{admitted}");
    let _next = start("first", sandbox, port);
    group.runs_with(2);
}

/// Whoever takes the certificates out of the configuration harms nobody for long, and each is replaced in its time.
fn certificates_come_back_and_are_renewed(sandbox: &Sandbox, group: &Group) {
    let patch = json!([{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]).to_string();
    let flags = ["validatingwebhookconfiguration", "drover", "--type=json", "-p", &patch];
    sandbox.kubectl().run(&[&["patch"], &flags[..]].concat()).unwrap();
    let before = eventually(sandbox, SOON, "the certificate is put back", || {
        let trusted = trusted(sandbox)?;
        if trusted.is_empty() { Err("there is none".to_owned()) } else { Ok(trusted) }
    });
    eventually(sandbox, SOON, "all certificates are others", || {
        let now = trusted(sandbox)?;
        let is_so = !now.is_empty() && now.iter().all(|certificate| !before.contains(certificate));
        if is_so { Ok(()) } else { Err(format!("{now:?}")) }
    });
    eventually(sandbox, SOON, "the API server is answered", || {
        let said = said(group, &format!("scale vg/{} --replicas=0 --dry-run=server", group.name()));
        if said.contains("Warning: destroys") { Ok(()) } else { Err(said) }
    });
}

#[test]
fn two_replicas_share_the_bundle_and_each_is_trusted() {
    let sandbox = &Sandbox::start("bundle", &[]).unwrap();
    sandbox.install_kinds();
    let ports = [free_port(), free_port()];
    configure(sandbox, &ports);
    let (first, second) = (start("first", sandbox, ports[0]), start("second", sandbox, ports[1]));
    let group = Group::create(sandbox, "both", &json!({"replicas": 1}));
    group.runs_with(1);
    let tells = |who: &str| {
        eventually(sandbox, SOON, &format!("{who} tells it"), || {
            let said = said(&group, "scale vg/both --replicas=0 --dry-run=server");
            let is_told = said.contains("Warning: destroys 1 VM and its disks");
            if is_told { Ok(()) } else { Err(format!("{said}, {:?}", trusted(sandbox)?)) }
        });
    };
    tells("one of them");
    eventually(sandbox, SOON, "both are trusted", || {
        let trusted = trusted(sandbox)?;
        let ready = [&first, &second].map(|operator| operator.ask("GET", "/readyz").map(|answer| answer.0));
        if trusted.len() >= 2 && ready == [Ok(200), Ok(200)] { Ok(()) } else { Err(format!("{trusted:?} {ready:?}")) }
    });
    drop(first);
    tells("the second");
    let _first = start("first", sandbox, ports[0]);
    eventually(sandbox, SOON, "what the first had before is gone", || {
        let trusted = trusted(sandbox)?;
        if (2..=4).contains(&trusted.len()) { Ok(()) } else { Err(format!("{trusted:?}")) }
    });
    drop(second);
    tells("the first");
}

#[test]
fn what_is_not_allowed_is_refused_and_who_asks_for_less_is_let_in() {
    let sandbox = &Sandbox::start("refused", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let operator = start("first", sandbox, port);
    let lab = sandbox.own_vcenter();
    let allow = json!([{"templates": ["/DC0/vm/vm-operator/vm-operator-template"]}]);
    lab.declare(sandbox, "lab", &json!({"reach": "Restricted", "allow": allow}));
    let group = Group::create(sandbox, "refused", &json!({"vcenter": "lab", "replicas": 2})).in_vcenter(&lab);
    group.runs_with(2);
    let refused = |spec: &Value| {
        let patch = json!({ "spec": spec }).to_string();
        let flags = ["patch", "vg", "refused", "--type=merge", "--dry-run=server", "-p", &patch];
        group.namespace.kubectl(&flags).err().map_or_else(String::new, |failure| failure.stderr)
    };
    let other = json!({"template": "/DC0/vm/theirs/web"});
    eventually(sandbox, SOON, "a template that is not allowed is refused", || {
        let said = refused(&other);
        let words = "spec.template: namespace \"refused\" may use no template \"/DC0/vm/theirs/web\"";
        if said.contains("denied the request") && said.contains(words) { Ok(()) } else { Err(said) }
    });
    let mut another = group.get().unwrap();
    another["metadata"] = json!({"name": "another", "namespace": "refused"});
    another["spec"]["template"] = json!("theirs");
    let created = group.namespace.kubectl_with_input(&["create", "-f", "-"], &another.to_string()).unwrap_err().stderr;
    assert!(created.contains("denied the request: spec.template: namespace \"refused\" may use no"), "{created}");
    let key = refused(&json!({"extraConfig": {"company.key": "x"}}));
    assert!(key.contains("denied the request: spec.extraConfig: "), "{key}");

    // It may no longer use what it has. That keeps nobody from having less.
    let patch = json!({"spec": {"allow": []}}).to_string();
    sandbox.kubectl().run(&["patch", "vc", "lab", "--type=merge", "-p", &patch]).unwrap();
    eventually(sandbox, SOON, "it is known that it may not", || {
        let said = refused(&json!({"template": "vm-operator-template", "networks": ["VM Network"]}));
        if said.contains("denied the request") { Ok(()) } else { Err(said) }
    });
    let more = said(&group, "scale vg/refused --replicas=5 --dry-run=server");
    assert!(more.contains("Warning: spec.template: ") && !more.contains("creates"), "{more}");
    group.patch(&json!({"replicas": 1})).unwrap();
    eventually(sandbox, SOON, "one VM is left", || {
        let left = group.identities();
        if left.len() == 1 { Ok(()) } else { Err(format!("{left:?}")) }
    });

    // Nobody is asked, so it is stored; and then nothing is done for it.
    drop(operator);
    let before = group.identities();
    group.patch(&json!({"template": "/DC0/vm/theirs/web", "replicas": 3})).unwrap();
    lab.forget_calls();
    let _next = start("first", sandbox, port);
    group.says("ERROR", "may use no template");
    assert_eq!(group.identities(), before);
    assert_eq!(lab.calls("CloneVM_Task", "drover"), 0);
}

#[test]
fn what_would_be_refused_is_a_warning_and_a_key_that_is_kept_gets_no_other_value() {
    let sandbox = &Sandbox::start("keys", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    let _operator = start("first", sandbox, port);
    let rules = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "default"},
        "spec": {"enforce": "Warn"},
    });
    sandbox.declare(&rules).unwrap();
    let group = Group::create(sandbox, "kept", &json!({"replicas": 1}));
    group.runs_with(1);
    // As if it had it since before keys were checked. Nobody asks the webhook yet.
    let key = "guestinfo.a = \"b\"";
    let kept = json!({"status": {"extraConfigKept": [key]}}).to_string();
    let flags = ["patch", "vg", "kept", "--subresource=status", "--type=merge", "-p", &kept];
    group.namespace.kubectl(&flags).unwrap();
    group.patch(&json!({"extraConfig": {key: "c"}})).unwrap();
    group.runs_with(1);
    configure(sandbox, &[port]);
    let tried = |spec: &Value| {
        let patch = json!({ "spec": spec }).to_string();
        let line = format!("kubectl -n kept patch vg kept --type=merge --dry-run=server -p '{patch}' 2>&1 || true");
        Terminal::of(sandbox).run(&line)
    };
    eventually(sandbox, SOON, "what is not allowed is told of and let in", || {
        let said = tried(&json!({"extraConfig": {"company.key": "x"}}));
        let words = "Warning: would be refused: spec.extraConfig: namespace \"kept\" may not set \"company.key\"";
        if said.contains(words) && said.contains("patched") { Ok(()) } else { Err(said) }
    });
    let other = tried(&json!({"extraConfig": {key: "d"}}));
    let words = "denied the request: spec.extraConfig: \"guestinfo.a = \\\"b\\\"\" can't be set";
    assert!(other.contains(words), "{other}");
    let same = tried(&json!({"extraConfig": {key: "c"}, "replicas": 2}));
    assert!(same.contains("Warning: creates 1 VM") && same.contains("patched"), "{same}");
    let none = tried(&json!({"extraConfig": {key: null}}));
    assert!(none.contains("patched"), "{none}");
}

#[test]
fn what_would_wait_for_a_quota_is_a_warning_and_what_fits_is_created() {
    let sandbox = &Sandbox::start("quota", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let _operator = start("first", sandbox, port);
    let rules = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "default"},
        "spec": {"allow": [{"quota": {"vms": 3}}]},
    });
    sandbox.declare(&rules).unwrap();
    let group = Group::create(sandbox, "few", &json!({"replicas": 2}));
    group.runs_with(2);
    let words = "would wait for the quota of namespace \"few\" in VCenter \"default\": 2 of 3 VMs are used now";
    eventually(sandbox, SOON, "it is told", || {
        let said = said(&group, "scale vg/few --replicas=5 --dry-run=server");
        let is_told = said.contains(&format!("Warning: 2 VMs {words}")) && said.contains("Warning: creates 1 VM");
        if is_told { Ok(()) } else { Err(said) }
    });
    let fits = said(&group, "scale vg/few --replicas=3 --dry-run=server");
    assert!(!fits.contains("would wait"), "{fits}");
    // A new one is told, too, and let in. So is who means it.
    let mut another = drover_e2e::vm_group("another", &json!({"replicas": 3}));
    another["metadata"]["namespace"] = "few".into();
    let manifest = sandbox.dir().join("another.json");
    fs::write(&manifest, another.to_string()).unwrap();
    let created = said(&group, &format!("create -f {}", manifest.display()));
    assert!(created.contains(&format!("Warning: 2 VMs {words}")) && created.contains("created"), "{created}");
    eventually(sandbox, SOON, "as many are there as fit", || {
        let status = group.namespace.get("vg", "another").map_err(|failure| failure.to_string())?["status"].clone();
        let waits = status["lastMessage"].as_str().unwrap_or_default().contains("2 VMs wait for the quota");
        if status["currentReplicas"] == 1 && waits { Ok(()) } else { Err(status.to_string()) }
    });
}
