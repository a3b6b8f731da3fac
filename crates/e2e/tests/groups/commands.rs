//! What the program says and prints.

use std::process::{Command, Output};

use drover_e2e::{Group, Sandbox, vm_group};
use serde_json::json;

use crate::sandbox;

/// Runs drover with the variables that it needs, but for one.
fn drover(sandbox: &Sandbox, arguments: &[&str], (name, value): (&str, &str)) -> Output {
    let vcenter = sandbox.vcenter();
    let good = [
        ("KUBECONFIG", sandbox.environment()["KUBECONFIG"].as_str()),
        ("VC_HOST", &vcenter.host),
        ("VC_USER", &vcenter.user),
        ("VC_PASS", &vcenter.password),
        ("VC_CA_FILE", &vcenter.ca_file),
    ];
    let mut command = Command::new(drover_e2e::binary());
    command.args(arguments).env_clear().envs(good).env(name, value);
    command.output().unwrap()
}

#[test]
fn what_keeps_the_operator_from_starting_is_said_in_one_line_with_what_to_do() {
    let sandbox = sandbox();
    for (name, value, said) in [
        ("VC_HOST", "", "no vCenter is named: set VC_HOST, VC_USER and VC_PASS"),
        ("VC_HOST", "vc:none", "the port is no number"),
        ("VC_PASS", "", "VC_PASS is not set"),
        ("VC_CA_FILE", "/dev/null", "VC_CA_FILE: "),
        ("VC_CA_FILE", "", "is not trusted"),
        ("KUBECONFIG", "/nowhere", "no Kubernetes cluster is named: set KUBECONFIG"),
    ] {
        let output = drover(sandbox, &["run"], (name, value));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}={value}: {stderr}");
        assert!(
            stderr.starts_with("drover: ") && stderr.lines().count() == 1 && stderr.contains(said),
            "{name}={value}: {stderr}"
        );
        assert!(!stderr.contains(&sandbox.vcenter().password), "{stderr}");
    }
}

#[test]
fn a_plan_says_what_would_be_done_and_does_none_of_it() {
    let sandbox = sandbox();
    let namespace = sandbox.namespace("planned");
    let file = sandbox.dir().join("planned.json");
    let plan = |spec: &serde_json::Value| {
        let mut manifest = vm_group("planned", spec);
        manifest["metadata"]["namespace"] = json!("planned");
        std::fs::write(&file, manifest.to_string()).unwrap();
        let output = drover(sandbox, &["plan", "-f", file.to_str().unwrap()], ("UNUSED", ""));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let new = plan(&json!({}));
    let expected = "VmGroup planned/planned: 0 machines in vCenter, 2 declared
  make the folder planned.planned
  clone a machine into slot 0
  clone a machine into slot 1
3 to do; nothing was changed
";
    assert_eq!(new, expected);
    let group = Group::of(namespace, sandbox);
    group.apply(&json!({}));
    let machines = group.runs_with(2);
    let made = group.identities();
    assert_eq!(plan(&json!({})), "VmGroup planned/planned: 2 machines in vCenter, 2 declared\n  nothing to do\n");
    let edited = plan(&json!({"cpu": 2, "replicas": 1}));
    let name = |path: &String| path.rsplit('/').next().unwrap().to_owned();
    assert!(
        edited.contains("destroy planned-replica-") && edited.contains("2 CPUs and 1024 MiB of memory"),
        "{edited}"
    );
    assert!(machines.iter().map(name).all(|name| edited.contains(&name)), "{edited}");
    assert_eq!((group.runs_with(2), group.identities()), (machines, made), "nothing was changed");
    for (spec, said) in [
        (json!({"template": "nowhere"}), "spec.template: there is no VirtualMachine \"nowhere\" in /DC0"),
        (json!({"cpu": 0}), "spec.cpu is 0: give 1 to 768"),
    ] {
        std::fs::write(&file, vm_group("planned", &spec).to_string()).unwrap();
        let output = drover(sandbox, &["plan", "-f", file.to_str().unwrap()], ("UNUSED", ""));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && stderr.contains(said) && stderr.lines().count() == 1, "{stderr}");
    }
}
