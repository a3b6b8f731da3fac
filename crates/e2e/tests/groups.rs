//! Groups of machines, declared with kubectl and seen with govc.

use std::{collections::BTreeSet, sync::OnceLock, thread, time::Duration};

use drover_e2e::{Failure, Namespace, Operator, Sandbox, VCenter, eventually, vm_group};
use serde_json::json;

const SOON: Duration = Duration::from_secs(40);
const SUCCESS: &str = "successfully reconciled VmGroup";

/// One operator for all tests, each in its namespace.
fn sandbox() -> &'static Sandbox {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    let sandbox = Sandbox::shared(&["--clone-delay=300ms"]);
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    sandbox
}

/// A group in a namespace of its own.
struct Group {
    namespace: Namespace,
    sandbox: &'static Sandbox,
}

impl Group {
    fn create(namespace: &str, spec: &serde_json::Value) -> Self {
        let sandbox = sandbox();
        let group = Self { namespace: sandbox.namespace(namespace), sandbox };
        let manifest = vm_group("web", spec);
        group.namespace.apply(&manifest.to_string()).unwrap();
        group
    }

    fn vcenter(&self) -> &VCenter {
        self.sandbox.vcenter()
    }

    fn folder(&self) -> String {
        format!("/DC0/vm/vm-operator/{}.web", self.namespace.name)
    }

    fn patch(&self, spec: &serde_json::Value) -> Result<String, Failure> {
        let patch = json!({"spec": spec}).to_string();
        self.namespace.kubectl(&["patch", "vg", "web", "--type=merge", "-p", &patch])
    }

    /// The machines in the group's folder, with a property of each.
    fn machines(&self, property: &str) -> Result<Vec<(String, String)>, String> {
        let found =
            self.vcenter().govc(&["find", &self.folder(), "-type", "m"]).map_err(|failure| failure.to_string())?;
        let value = |path: &str| {
            let shown = self.vcenter().govc(&["object.collect", "-s", path, property]);
            shown.map(|shown| (path.to_owned(), shown.trim().to_owned())).map_err(|failure| failure.to_string())
        };
        found.lines().map(value).collect()
    }

    /// Waits until the status says that the group is as declared, and the world is so.
    fn settles_with(&self, replicas: usize, property: &str, value: &str) -> Vec<String> {
        eventually(self.sandbox, SOON, &format!("{replicas} machines with {property} {value}"), || {
            let machines =
                self.machines(property).or_else(|error| if replicas == 0 { Ok(Vec::new()) } else { Err(error) })?;
            let group = self.namespace.get("vg", "web").map_err(|failure| failure.to_string())?;
            let status = &group["status"];
            let settled = status["phase"] == "RUNNING"
                && status["lastMessage"] == SUCCESS
                && status["observedGeneration"] == group["metadata"]["generation"]
                && status["currentReplicas"] == replicas;
            if settled && machines.len() == replicas && machines.iter().all(|(_, has)| has == value) {
                return Ok(machines.into_iter().map(|(path, _)| path).collect());
            }
            Err(format!("{machines:?}, {status}"))
        })
    }

    fn runs_with(&self, replicas: usize) -> Vec<String> {
        self.settles_with(replicas, "runtime.powerState", "poweredOn")
    }
}

#[test]
fn the_seeds_walk_through_ends_as_it_says() {
    let group = Group::create("walk-through", &json!({"replicas": 3}));
    let first = group.runs_with(3);
    for machine in &first {
        let letters = machine.strip_prefix(&format!("{}/web-replica-", group.folder())).unwrap();
        assert!(letters.len() == 8 && letters.bytes().all(|letter| letter.is_ascii_lowercase()), "{machine}");
    }
    let table = group.namespace.kubectl(&["get", "vg", "--no-headers"]).unwrap();
    assert!(table.contains("RUNNING") && table.trim_end().ends_with(SUCCESS), "{table}");
    group.namespace.kubectl(&["scale", "vg/web", "--replicas=5"]).unwrap();
    let more: BTreeSet<_> = group.runs_with(5).into_iter().collect();
    assert!(first.iter().all(|machine| more.contains(machine)), "growing leaves what is there alone");
    group.namespace.kubectl(&["scale", "vg/web", "--replicas=1"]).unwrap();
    assert_eq!(group.runs_with(1).len(), 1);
    group.namespace.kubectl(&["delete", "vg", "web", "--timeout=30s"]).unwrap();
    let left = group.vcenter().govc(&["find", "/DC0/vm"]).unwrap();
    assert!(!left.contains("walk-through"), "{left}");
}

#[test]
fn what_is_changed_in_vcenter_is_put_right() {
    let group = Group::create("drift", &json!({"replicas": 3}));
    let machines = group.runs_with(3);
    let vcenter = group.vcenter();
    vcenter.govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    vcenter.govc(&["vm.destroy", &machines[1]]).unwrap();
    vcenter.govc(&["object.rename", &machines[2], "mine-now"]).unwrap();
    let after: BTreeSet<_> = eventually(group.sandbox, SOON, "all three are back", || {
        let now: BTreeSet<_> = group.machines("runtime.powerState")?.into_iter().collect();
        let expected: BTreeSet<_> = machines.iter().map(|path| (path.clone(), "poweredOn".to_owned())).collect();
        if now == expected { Ok(now) } else { Err(format!("{now:?}")) }
    });
    assert_eq!(after.len(), 3);
    vcenter.govc(&["vm.change", "-vm", &machines[0], "-c", "7"]).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "1");
}

#[test]
fn hardware_changes_in_place_and_a_new_key_by_new_machines() {
    let group = Group::create("edits", &json!({"replicas": 3}));
    let ids = |group: &Group| -> BTreeSet<String> {
        let shown = group.vcenter().govc(&["find", "-i", &group.folder(), "-type", "m"]).unwrap();
        shown.lines().map(ToOwned::to_owned).collect()
    };
    group.runs_with(3);
    let before = ids(&group);
    group.patch(&json!({"cpu": 2, "memory": 2})).unwrap();
    group.settles_with(3, "config.hardware.numCPU", "2");
    group.settles_with(3, "config.hardware.memoryMB", "2048");
    assert_eq!(ids(&group), before, "the machines are the same");
    group.patch(&json!({"extraConfig": {"some.key": "v"}})).unwrap();
    eventually(group.sandbox, SOON, "new machines", || {
        let now = ids(&group);
        if now.len() == 3 && now.is_disjoint(&before) { Ok(()) } else { Err(format!("{now:?}")) }
    });
    group.runs_with(3);
}

#[test]
fn a_wrong_template_is_an_error_that_a_patch_mends_at_once() {
    let group = Group::create("vg-2", &json!({"template": "vm-operator-temp"}));
    eventually(group.sandbox, SOON, "the error", || {
        let shown =
            group.namespace.kubectl(&["get", "vg", "web", "--no-headers"]).map_err(|failure| failure.to_string())?;
        let expected = r#"spec.template: there is no VirtualMachine "vm-operator-temp" in /DC0"#;
        if shown.contains("ERROR") && shown.contains(expected) { Ok(()) } else { Err(shown) }
    });
    group.patch(&json!({"template": "vm-operator-template"})).unwrap();
    group.runs_with(2);
}

#[test]
fn power_states_are_kept_and_a_paused_group_is_left_alone() {
    let group = Group::create("power", &json!({"powerState": "Off"}));
    let machines = group.settles_with(2, "runtime.powerState", "poweredOff");
    group.patch(&json!({"powerState": "Suspended"})).unwrap();
    group.settles_with(2, "runtime.powerState", "suspended");
    group.patch(&json!({"powerState": "On"})).unwrap();
    group.runs_with(2);
    group.patch(&json!({"paused": true})).unwrap();
    thread::sleep(Duration::from_secs(1));
    group.vcenter().govc(&["vm.power", "-off", "-force", &machines[0]]).unwrap();
    thread::sleep(Duration::from_secs(2));
    let state = group.vcenter().govc(&["object.collect", "-s", &machines[0], "runtime.powerState"]).unwrap();
    assert_eq!(state.trim(), "poweredOff");
    group.patch(&json!({"paused": false})).unwrap();
    group.runs_with(2);
}

#[test]
fn a_stranger_in_the_folder_outlives_the_group() {
    let group = Group::create("stranger", &json!({"replicas": 1}));
    group.runs_with(1);
    let vcenter = group.vcenter();
    vcenter
        .govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", &group.folder(), "-on=false", "guest"])
        .unwrap();
    group.namespace.kubectl(&["delete", "vg", "web", "--timeout=30s"]).unwrap();
    let left = vcenter.govc(&["find", &group.folder(), "-type", "m"]).unwrap();
    assert_eq!(left.trim(), format!("{}/guest", group.folder()));
}

#[test]
fn an_operator_that_is_killed_again_and_again_makes_no_machine_twice_and_leaves_none_behind() {
    let sandbox = Sandbox::start("killed", &["--clone-delay=700ms"]).unwrap();
    sandbox.install_kinds();
    let namespace = sandbox.namespace("killed");
    let manifest = vm_group("web", &json!({"replicas": 6}));
    namespace.apply(&manifest.to_string()).unwrap();
    for life in 0..6 {
        let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        thread::sleep(Duration::from_millis(500 + 250 * life));
    }
    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    let machines =
        || sandbox.vcenter().machines().into_iter().filter(|path| path.contains("replica")).collect::<Vec<_>>();
    eventually(&sandbox, SOON, "the group runs", || {
        let group = namespace.get("vg", "web").map_err(|failure| failure.to_string())?;
        let runs = group["status"]["phase"] == "RUNNING" && machines().len() == 6;
        if runs { Ok(()) } else { Err(format!("{} {:?}", group["status"], machines())) }
    });
    drop(operator);
    namespace.kubectl(&["delete", "vg", "web", "--wait=false"]).unwrap();
    for life in 0..3 {
        let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        thread::sleep(Duration::from_millis(300 + 200 * life));
    }
    let _operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    namespace.kubectl(&["wait", "--for=delete", "vg/web", "--timeout=40s"]).unwrap();
    assert_eq!(machines(), Vec::<String>::new());
    assert!(!sandbox.vcenter().govc(&["find", "/DC0/vm"]).unwrap().contains("killed.web"));
}

#[test]
fn what_keeps_the_operator_from_starting_is_said_in_one_line_with_what_to_do() {
    let sandbox = sandbox();
    let vcenter = sandbox.vcenter();
    let good = [
        ("KUBECONFIG", sandbox.environment()["KUBECONFIG"].as_str()),
        ("VC_HOST", &vcenter.host),
        ("VC_USER", &vcenter.user),
        ("VC_PASS", &vcenter.password),
        ("VC_CA_FILE", &vcenter.ca_file),
    ];
    for (name, value, said) in [
        ("VC_HOST", "", "no vCenter is named: set VC_HOST, VC_USER and VC_PASS"),
        ("VC_HOST", "vc:none", "the port is no number"),
        ("VC_PASS", "", "VC_PASS is not set"),
        ("VC_PASS", "wrong", "logging in to"),
        ("VC_CA_FILE", "/dev/null", "VC_CA_FILE: "),
        ("VC_CA_FILE", "", "is not trusted"),
        ("KUBECONFIG", "/nowhere", "no Kubernetes cluster is named: set KUBECONFIG"),
    ] {
        let mut command = std::process::Command::new(drover_e2e::binary());
        command.args(["run"]).env_clear().envs(good).env(name, value);
        let output = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{name}={value}: {stderr}");
        assert!(
            stderr.starts_with("drover: ") && stderr.lines().count() == 1 && stderr.contains(said),
            "{name}={value}: {stderr}"
        );
        assert!(!stderr.contains(&vcenter.password), "{stderr}");
    }
}
