//! Operations that hang, and groups that are taken away from under them.

use std::{sync::OnceLock, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, VCenter, eventually};
use serde_json::json;

/// One operator for all tests, each of which has a vCenter of its own, in which clones take long.
fn sandbox() -> &'static Sandbox {
    static SITE: OnceLock<(Sandbox, Operator)> = OnceLock::new();
    let (sandbox, _) = SITE.get_or_init(|| {
        let sandbox = Sandbox::start("operations", &["--vcenters=4", "--clone-delay=12s"]).unwrap();
        sandbox.install_kinds();
        let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
        (sandbox, operator)
    });
    sandbox
}

#[track_caller]
fn clones(vcenter: &VCenter, count: u64, within: Duration) {
    eventually(sandbox(), within, &format!("{count} are being cloned"), || {
        let counts = vcenter.machine_counts();
        if counts.cloning == count { Ok(()) } else { Err(format!("{counts:?}")) }
    });
}

#[track_caller]
fn is_ready(group: &Group<'_>, replicas: usize) {
    eventually(sandbox(), SOON, &format!("{replicas} of {} are ready", group.name()), || {
        let status = group.status()?;
        let is_so = status["readyReplicas"] == replicas && status["phase"] == "RUNNING";
        if is_so { Ok(()) } else { Err(status.to_string()) }
    });
}

#[test]
fn a_clone_that_hangs_holds_no_place_for_long_and_is_not_begun_again() {
    let vcenter = sandbox().own_vcenter();
    vcenter.declare(sandbox(), "slow", &json!({"limits": {"operations": 1, "operationSeconds": 1}}));
    let create = |name: &str| Group::create(sandbox(), name, &json!({"replicas": 1, "vcenter": "slow"}));
    let first = create("first");
    clones(&vcenter, 1, SOON);
    let second = create("second");
    // Though one at a time is allowed, and the first has not come to its end.
    clones(&vcenter, 2, Duration::from_secs(11));
    is_ready(&first, 1);
    is_ready(&second, 1);
    assert_eq!(vcenter.calls("CloneVM_Task", "drover"), 2, "neither was asked for twice");
}

#[test]
fn a_group_whose_finalizer_is_stripped_is_forgotten_with_all_that_it_waits_for() {
    let vcenter = sandbox().own_vcenter();
    vcenter.declare(sandbox(), "narrow", &json!({"limits": {"operations": 2}}));
    let [stripped, neighbour] = ["stripped", "neighbour"].map(|name| Group::of(sandbox().namespace(name), sandbox()));
    stripped.apply(&json!({"replicas": 30, "vcenter": "narrow"}));
    clones(&vcenter, 2, SOON);
    stripped.begin_to_delete();
    stripped.namespace.patch("vg", "stripped", &json!({"metadata": {"finalizers": null}})).unwrap();
    stripped.is_gone();
    let asked_for = vcenter.calls("CloneVM_Task", "drover");
    neighbour.apply(&json!({"replicas": 2, "vcenter": "narrow"}));
    is_ready(&neighbour, 2);
    let more = vcenter.calls("CloneVM_Task", "drover") - asked_for;
    assert_eq!(more, 2, "what was cloned since is the neighbour's");
    eventually(sandbox(), SOON, "nothing waits in the vCenter", || {
        let path = "/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/narrow";
        let status = sandbox().get(path).map_err(|failure| failure.to_string())?["status"].clone();
        if status["queued"] == 0 { Ok(()) } else { Err(status.to_string()) }
    });
}

#[test]
fn a_group_that_is_deleted_while_its_clones_are_made_says_that_it_waits_for_them() {
    let vcenter = sandbox().own_vcenter();
    vcenter.declare(sandbox(), "awaited", &json!({}));
    let group = Group::create(sandbox(), "awaited", &json!({"replicas": 2, "vcenter": "awaited"}));
    clones(&vcenter, 2, SOON);
    group.begin_to_delete();
    eventually(sandbox(), Duration::from_secs(11), "it says so", || {
        let status = group.status()?;
        let message = status["lastMessage"].as_str().unwrap_or_default();
        if message.contains("waits for 2 clones that are in progress") { Ok(()) } else { Err(status.to_string()) }
    });
    group.is_gone();
    let left: Vec<_> = vcenter.machines().into_iter().filter(|path| path.contains("-replica-")).collect();
    assert_eq!(left, [""; 0]);
}
