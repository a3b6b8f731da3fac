//! `drover check`, and an operator that finds no vCenter.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output, Stdio},
};

use drover_e2e::{SOON, Sandbox, VCenter, binary, eventually, process, vm_group};
use serde_json::{Value, json};

use super::sandbox;

/// `drover` with this vCenter in its environment, and what else is given.
fn command(sandbox: &Sandbox, vcenter: Option<&VCenter>, arguments: &[&str]) -> Command {
    let mut environment = sandbox.environment().clone();
    environment.retain(|name, _| !name.starts_with("VC") || name.starts_with("VCSIM"));
    if let Some(vcenter) = vcenter {
        environment.extend(BTreeMap::from([
            ("VC_HOST".to_owned(), vcenter.host.clone()),
            ("VC_USER".to_owned(), vcenter.user.clone()),
            ("VC_PASS".to_owned(), vcenter.password.clone()),
            ("VC_CA_FILE".to_owned(), vcenter.ca_file.clone()),
        ]));
    }
    let mut command = Command::new(binary());
    command.args(arguments).envs(environment);
    command
}

fn drover(sandbox: &Sandbox, vcenter: Option<&VCenter>, arguments: &[&str]) -> Output {
    let output = command(sandbox, vcenter, arguments).output().unwrap();
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        assert!(vcenter.is_none_or(|vcenter| !text.contains(&vcenter.password)), "{text}");
    }
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check(vcenter: &VCenter, manifest: &[Value]) -> Output {
    let file = sandbox().dir().join(format!("check-{}.json", manifest.len()));
    let documents: Vec<_> = manifest.iter().map(Value::to_string).collect();
    fs::write(&file, documents.join("\n---\n")).unwrap();
    drover(sandbox(), Some(vcenter), &["check", "-f", file.to_str().unwrap()])
}

#[test]
fn a_check_says_what_works_and_what_does_not() {
    let vcenter = sandbox().vcenter();
    let _ = sandbox().namespace("checked");
    let group = |name: &str, spec: &Value| {
        let mut group = vm_group(name, spec);
        group["metadata"]["namespace"] = json!("checked");
        group
    };
    let good = check(vcenter, &[group("good", &json!({"vcenter": "default"}))]);
    let said = text(&good);
    assert!(good.status.success(), "{said}{}", String::from_utf8_lossy(&good.stderr));
    for line in [
        "VCenter default (127.0.0.1:",
        "ok   name",
        "ok   connection",
        "ok   certificate   trusted; to pin it: ",
        "ok   login         administrator@vsphere.local",
        "VmGroup checked/good in default",
        "ok   folder        vm-operator",
        "ok   template      vm-operator-template",
        "ok   resource pool",
        "ok   datastore",
        "ok   networks",
        "ok   privileges    all that are needed",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let bad = check(
        vcenter,
        &[
            group("bad", &json!({"vcenter": "default", "template": "nothing", "placement": {"datastore": "none"}})),
            group("lost", &json!({"vcenter": "nowhere"})),
        ],
    );
    let said = text(&bad);
    assert_eq!(bad.status.code(), Some(1), "{said}");
    for line in ["FAIL template", "FAIL datastore", "FAIL vCenter       spec.vcenter: there is no VCenter \"nowhere\""]
    {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(String::from_utf8_lossy(&bad.stderr).contains("checks failed"));
    let mut wrong = vcenter.clone();
    wrong.password = "no-such-one".to_owned();
    let said = text(&check(&wrong, &[]));
    assert!(said.contains("FAIL login") && said.contains("the user name or the password is wrong"), "{said}");
    let mut unknown = vcenter.clone();
    unknown.ca_file = String::new();
    let said = text(&check(&unknown, &[]));
    assert!(said.contains("FAIL certificate") && said.contains("pin its SHA-256 thumbprint"), "{said}");
    let mut nobody = vcenter.clone();
    nobody.host = "nobody.invalid".to_owned();
    let said = text(&check(&nobody, &[]));
    assert!(said.contains("FAIL name          nobody.invalid has no address"), "{said}");
}

#[test]
fn a_check_takes_vcenters_and_secrets_from_the_manifest() {
    let vcenter = sandbox().vcenter();
    let bundle = fs::read_to_string(&vcenter.ca_file).unwrap();
    let manifest = [
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "drafted", "namespace": "default"},
            "stringData": {"VC_USER": vcenter.user, "VC_PASS": vcenter.password},
        }),
        json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "drafted"},
            "spec": {
                "server": vcenter.host,
                "credentialsSecretRef": {"namespace": "default", "name": "drafted"},
                "tls": {"caBundle": bundle},
            },
        }),
        vm_group("drafted", &json!({"vcenter": "drafted"})),
    ];
    let output = check(vcenter, &manifest);
    let said = text(&output);
    assert!(said.contains("VmGroup default/drafted in drafted\n  ok   folder"), "{said}");
}

#[test]
fn no_way_out_leaves_a_session_behind() {
    // One of its own: a check logs in to all vCenters that there are, and other tests count logins.
    let sandbox = &Sandbox::start("way-out", &[]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter();
    let _namespace = sandbox.namespace("way-out");
    let manifest = |name: &str, groups: &[Value]| {
        let file = sandbox.dir().join(format!("way-out-{name}.json"));
        let documents: Vec<_> = groups.iter().map(Value::to_string).collect();
        fs::write(&file, documents.join("\n---\n")).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let group = |name: &str, spec: &Value| {
        let mut group = vm_group(name, spec);
        group["metadata"]["namespace"] = json!("way-out");
        group["spec"]["vcenter"] = json!("default");
        group
    };
    let good = group("good", &json!({}));
    let no_template = manifest("no-template", &[good.clone(), group("bad", &json!({"template": "nothing"}))]);
    let senseless = manifest("senseless", &[good.clone(), group("bad", &json!({"cpu": 0}))]);
    let mut nowhere = group("bad", &json!({}));
    nowhere["spec"]["vcenter"] = json!("nowhere");
    let nowhere = manifest("nowhere", &[good.clone(), nowhere]);
    let good = manifest("good", &[good]);
    for (arguments, succeeds) in [
        (["plan", "-f", &good], true),
        (["plan", "-f", &no_template], false),
        (["plan", "-f", &senseless], false),
        (["plan", "-f", &nowhere], false),
        (["check", "-f", &no_template], false),
        (["check", "-f", &nowhere], false),
    ] {
        let before = vcenter.calls("Login", "drover");
        let output = drover(sandbox, Some(vcenter), &arguments);
        assert_eq!(output.status.success(), succeeds, "{arguments:?}: {}", text(&output));
        assert!(vcenter.calls("Login", "drover") > before, "{arguments:?} has logged in");
        assert_eq!(vcenter.sessions(), 0, "{arguments:?}");
    }

    // Somebody has waited long enough. An operator that is told to stop so early has done nothing yet.
    for (signal, method, latency, arguments) in [
        ("INT", "WaitForUpdatesEx", "60s", &["plan", "-f", &good][..]),
        ("TERM", "WaitForUpdatesEx", "60s", &["check", "-f", &good]),
        ("TERM", "Login", "1s", &["plan", "-f", &good]),
        ("TERM", "Login", "1s", &["run"]),
    ] {
        let slow = vcenter.rule(&json!({"method": method, "client": "drover", "latency": latency}));
        let mut command = command(sandbox, Some(vcenter), arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        eventually(sandbox, SOON, "it waits", || if slow.hits() > 0 { Ok(()) } else { Err("not yet".to_owned()) });
        process::signal(child.id(), signal);
        let status = child.wait().unwrap();
        assert_eq!(status.success(), arguments == ["run"], "{arguments:?}: {status}");
        slow.remove();
        assert_eq!(vcenter.sessions(), 0, "{signal} {arguments:?}");
    }
}
