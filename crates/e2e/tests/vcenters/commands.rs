//! `drover check`, and an operator that finds no vCenter.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output, Stdio},
};

use drover_e2e::{SOON, Sandbox, VCenter, binary, eventually, process, vm_group};
use serde_json::{Value, json};

use super::{
    reach::{allowing, web_of},
    sandbox, unchecked,
};

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

pub(crate) fn drover(sandbox: &Sandbox, vcenter: Option<&VCenter>, arguments: &[&str]) -> Output {
    let _turn = (arguments.first() == Some(&"check")).then(unchecked);
    let output = command(sandbox, vcenter, arguments).output().unwrap();
    for stream in [&output.stdout, &output.stderr] {
        let text = String::from_utf8_lossy(stream);
        assert!(vcenter.is_none_or(|vcenter| !text.contains(&vcenter.password)), "{text}");
    }
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn check(vcenter: &VCenter, manifest: &[Value]) -> Output {
    let file = sandbox().dir().join(format!("check-{}.json", manifest.len()));
    let documents: Vec<_> = manifest.iter().map(Value::to_string).collect();
    fs::write(&file, documents.join("\n---\n")).unwrap();
    // Where the operator of these tests has its Secrets.
    let operator = "--operator-namespace=default";
    drover(sandbox(), Some(vcenter), &["check", operator, "-f", file.to_str().unwrap()])
}

/// What a check says, object by object.
fn parts(said: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for line in said.lines() {
        match parts.last_mut().filter(|_| line.starts_with(' ')) {
            Some(part) => part.push_str(line),
            None => parts.push(line.to_owned()),
        }
    }
    parts
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
    // The VCenters of other tests are checked too, and some of those are wrong on purpose.
    let is_own = |part: &String| ["VCenter default ", "VmGroup checked/good "].iter().any(|own| part.starts_with(own));
    let own: Vec<_> = parts(&said).into_iter().filter(is_own).collect();
    assert_eq!(own.len(), 2, "{said}");
    assert!(own.iter().all(|part| !part.contains("FAIL")), "{said}");
    assert_eq!(good.status.success(), !said.contains("FAIL"), "{said}{}", String::from_utf8_lossy(&good.stderr));
    for line in [
        "VCenter default (127.0.0.1:",
        "ok   name",
        "ok   connection",
        "ok   certificate   trusted; to pin it: ",
        "ok   login         administrator@vsphere.local, VMware vCenter Server",
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
    let login = said.lines().find(|line| line.contains(" login ")).unwrap();
    assert_eq!(login.matches("build").count(), 1, "{login}");
    let bad = check(
        vcenter,
        &[
            group("bad", &json!({"vcenter": "default", "template": "nothing", "placement": {"datastore": "none"}})),
            group("lost", &json!({"vcenter": "nowhere"})),
        ],
    );
    let said = text(&bad);
    assert_eq!(bad.status.code(), Some(2), "{said}");
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
fn a_check_as_a_namespace_shows_what_it_may_use_and_nothing_else() {
    // One of its own: no operator is needed, and nobody else's vCenters are looked at.
    let sandbox = &Sandbox::start("check-as", &["--vcenters=2"]).unwrap();
    sandbox.install_kinds();
    let (vcenter, open) = (sandbox.vcenter(), sandbox.own_vcenter());
    web_of(vcenter, "team-a");
    let theirs = web_of(vcenter, "team-b");
    let mut entry = allowing("as-a", &["/DC0/vm/team-a/**"]);
    let more = json!({"folders": ["/DC0/vm/team-*"], "networks": ["/**/DC0_DVPG0"], "extraConfig": ["company.*"]});
    entry.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    vcenter.declare(sandbox, "lab", &json!({"reach": "Restricted", "allow": [entry]}));
    open.declare(sandbox, "open", &json!({}));
    for namespace in ["as-a", "as-b"] {
        let group = vm_group("web", &json!({"vcenter": "lab", "template": theirs}));
        sandbox.namespace(namespace).declare(&group).unwrap();
    }
    let check = |more: &[&str]| drover(sandbox, None, &[&["check", "--operator-namespace=default"], more].concat());
    let output = check(&["--as", "as-a"]);
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let lists = "
Namespace as-a in lab
  ok   reach         Restricted
  ok   quota         none
  ok   templates     /DC0/vm/team-a/web
  ok   folders       /DC0/vm/team-a, /DC0/vm/team-b, /DC0/vm/vm-operator
  ok   clusters      none
  ok   resourcePools /DC0/host/DC0_C0/Resources
  ok   datastores    none
  ok   networks      /DC0/network/DC0_DVPG0
  ok   extraConfig   company.*
Namespace as-a in open
  ok   reach         Open: ";
    assert!(said.contains(lists), "{said}");
    assert!(said.contains("VmGroup as-a/web in lab\n  FAIL reach         spec.template: namespace"), "{said}");
    assert!(!said.contains("as-b") && !said.contains(&format!("templates     {theirs}")), "{said}");
    let said: Value = serde_json::from_str(&text(&check(&["--as", "as-b", "-o", "json"]))).unwrap();
    let objects = said["objects"].as_array().unwrap();
    let lab = objects.iter().find(|it| it["kind"] == "Namespace" && it["vcenter"] == "lab").unwrap();
    let expected = json!({
        "templates": [], "folders": ["/DC0/vm/vm-operator"], "clusters": [],
        "resourcePools": ["/DC0/host/DC0_C0/Resources"], "datastores": [], "networks": [], "extraConfig": [],
    });
    assert_eq!((&lab["name"], &lab["allowed"]), (&json!("as-b"), &expected), "{said}");
    // Where no operator is installed, one is asked about that runs here, in the kubeconfig's namespace.
    let unnamed = || text(&drover(sandbox, None, &["check", "--as", "as-a"]));
    assert!(unnamed().contains(lists), "{}", unnamed());
    let _installed = sandbox.namespace("drover-system");
    assert!(unnamed().contains("the Secret default/lab does not say which server it is for"), "{}", unnamed());
    let said = text(&check(&["--as", "nobody"]));
    assert!(said.contains("Namespace nobody\n  FAIL namespace     there is no such namespace"), "{said}");
    assert_eq!(check(&["--as", "as-a", "-n", "as-b"]).status.code(), Some(1));
    assert_eq!((vcenter.sessions(), open.sessions()), (0, 0), "all sessions are ended");
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
    for (arguments, code) in [
        (["plan", "-f", &good], 2),
        (["plan", "-f", &no_template], 1),
        (["plan", "-f", &senseless], 1),
        (["plan", "-f", &nowhere], 1),
        (["check", "-f", &no_template], 2),
        (["check", "-f", &nowhere], 2),
    ] {
        let before = vcenter.calls("Login", "drover");
        let output = drover(sandbox, Some(vcenter), &arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output));
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
