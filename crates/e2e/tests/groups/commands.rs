//! What the program says and prints.

use std::process::{Command, Output};

use drover_e2e::{Group, Sandbox, vm_group};
use serde_json::json;

use crate::sandbox;

/// Runs drover with the variables that it needs, but for one.
pub(crate) fn drover(sandbox: &Sandbox, arguments: &[&str], (name, value): (&str, &str)) -> Output {
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
        ("VC_HOST", "vc:none", "the port is no number"),
        ("VC_PASS", "", "VC_HOST is set, but VC_PASS is not: set it too"),
        ("VC_CA_FILE", "/dev/null", "VC_CA_FILE, "),
        ("VC_CA_FILE", "", "is not trusted"),
        ("KUBECONFIG", "/nowhere", "the kubeconfig can't be used: "),
    ] {
        let output = drover(sandbox, &["run"], (name, value));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}={value}: {stderr}");
        // What it is about to act on is said before.
        let last = stderr.lines().last().unwrap_or_default();
        assert!(last.starts_with("drover: ") && last.contains(said), "{name}={value}: {stderr}");
        assert!(!stderr.contains(&sandbox.vcenter().password), "{stderr}");
    }
}

#[test]
fn a_plan_says_what_would_be_done_and_does_none_of_it() {
    let sandbox = sandbox();
    let namespace = sandbox.namespace("planned");
    let file = sandbox.dir().join("planned.json");
    let printed = |spec: &serde_json::Value, flags: &[&str], code: i32| {
        std::fs::write(&file, vm_group("planned", spec).to_string()).unwrap();
        let arguments = [&["plan", "-n", "planned", "-f", file.to_str().unwrap()], flags].concat();
        let output = drover(sandbox, &arguments, ("UNUSED", ""));
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let plan = |spec: &serde_json::Value| printed(spec, &[], 2);
    let new = plan(&json!({}));
    let expected = "VmGroup planned/planned: 0 VMs in vCenter, 2 declared
  create the folder planned.planned
  clone a VM into slot 0
  clone a VM into slot 1
3 to do; nothing was changed
";
    assert_eq!(new, expected);
    let document: serde_json::Value = serde_json::from_str(&printed(&json!({}), &["-o", "json"], 2)).unwrap();
    let expected = json!({
        "kind": "Plan", "actions": 3,
        "vmGroups": [{
            "namespace": "planned", "name": "planned", "vcenter": "default", "new": true, "vms": 0, "replicas": 2,
            "actions": [
                {"type": "CreateFolder", "message": "create the folder planned.planned"},
                {"type": "Clone", "message": "clone a VM into slot 0"},
                {"type": "Clone", "message": "clone a VM into slot 1"},
            ],
        }],
    });
    assert_eq!(document, expected);
    let group = Group::of(namespace, sandbox);
    group.apply(&json!({}));
    let machines = group.runs_with(2);
    let made = group.identities();
    let settled = printed(&json!({}), &[], 0);
    assert_eq!(settled, "VmGroup planned/planned: 2 VMs in vCenter, 2 declared\n  nothing to do\n");
    a_cluster_that_cant_be_read_is_an_error_and_not_a_cluster_without_groups(sandbox, file.to_str().unwrap());
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
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(said) && stderr.lines().count() == 1, "{stderr}");
    }
}

fn a_cluster_that_cant_be_read_is_an_error_and_not_a_cluster_without_groups(sandbox: &Sandbox, file: &str) {
    for (flags, variable, said) in [
        (&[][..], ("KUBECONFIG", "/nowhere"), "the kubeconfig can't be used: "),
        (&["--context=nowhere"], ("UNUSED", ""), "the kubeconfig can't be used: "),
        (&["--kubeconfig=/nowhere"], ("UNUSED", ""), "the kubeconfig can't be used: "),
        (&[], ("KUBECONFIG", ""), "use --no-cluster"),
        (&["--no-such-flag"], ("UNUSED", ""), "--no-such-flag"),
    ] {
        let output = drover(sandbox, &[&["plan", "-f", file], flags].concat(), variable);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{flags:?} {variable:?}: {stderr}");
        assert!(stderr.contains(said), "{stderr}");
    }
    let output = drover(sandbox, &["plan", "--no-cluster", "-f", file], ("KUBECONFIG", ""));
    assert!(String::from_utf8_lossy(&output.stdout).contains("clone a VM into slot 0"), "{output:?}");
}
