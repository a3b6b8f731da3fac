//! How much a namespace may have in a vCenter.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use drover_e2e::{Group, Namespace, eventually, vm_group};
use serde_json::{Value, json};

use crate::{
    Declared, SOON,
    commands::{drover, text},
    sandbox,
};

fn quota(limits: &Value) -> Value {
    json!({"allow": [{"quota": limits}]})
}

/// Declares a group in a namespace that has several.
fn declare(lab: &Declared, namespace: &Namespace, name: &str, spec: &Value) {
    let mut whole = json!({"vcenter": lab.name});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    namespace.declare(&vm_group(name, &whole)).unwrap();
}

/// Waits until a group of a namespace has so many VMs that are ready, and says this.
#[track_caller]
fn has(namespace: &Namespace, name: &str, vms: usize, words: &str) -> Value {
    eventually(sandbox(), SOON, &format!("{name} has {vms} VMs: {words}"), || {
        let status = namespace.get("vg", name).map_err(|failure| failure.to_string())?["status"].clone();
        let message = status["lastMessage"].as_str().unwrap_or_default();
        let is_so = status["readyReplicas"] == vms && status["currentReplicas"] == vms && message.contains(words);
        if is_so { Ok(status) } else { Err(status.to_string()) }
    })
}

impl Declared {
    /// Waits until the VCenter shows so much in use.
    #[track_caller]
    fn shows_use(&self, namespace: &str, limit: &str, used: u64) {
        eventually(sandbox(), SOON, &format!("{namespace} uses {used} {limit}"), || {
            let quotas = self.get()["status"]["quotas"].clone();
            let mut of = quotas.as_array().into_iter().flatten();
            let found = of.find(|quota| quota["namespace"] == namespace).cloned().unwrap_or_default();
            if found[limit]["used"] == used { Ok(()) } else { Err(quotas.to_string()) }
        });
    }
}

#[test]
fn a_quota_is_freed_by_deletion_and_kept_by_what_was_retained() {
    let lab = Declared::connected("quota-vms", &quota(&json!({"vms": 3})));
    let namespace = sandbox().namespace("quota-vms");
    declare(&lab, &namespace, "first", &json!({}));
    has(&namespace, "first", 2, "successfully");
    declare(&lab, &namespace, "second", &json!({"deletionPolicy": "Retain"}));
    let words = "1 VM waits for the quota of namespace \"quota-vms\" in VCenter \"quota-vms\": 3 of 3 VMs are used. ";
    let status = has(&namespace, "second", 1, words);
    let reconciling = status["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Reconciling").unwrap();
    assert_eq!((&reconciling["status"], &reconciling["reason"]), (&json!("True"), &json!("QuotaExceeded")), "{status}");
    lab.shows_use("quota-vms", "vms", 3);
    let described = sandbox().kubectl().run(&["describe", "vc", "quota-vms"]).unwrap();
    let words: Vec<_> = described.split_whitespace().collect();
    assert!(
        words
            .windows(8)
            .any(|them| them == ["Quotas:", "Namespace:", "quota-vms", "Vms:", "Limit:", "3", "Used:", "3"]),
        "{described}"
    );

    // What goes makes room.
    namespace.delete("vg", "first").unwrap();
    has(&namespace, "second", 2, "successfully");
    lab.shows_use("quota-vms", "vms", 2);
    // What is left behind doesn't.
    namespace.delete("vg", "second").unwrap();
    declare(&lab, &namespace, "third", &json!({}));
    has(&namespace, "third", 1, "3 of 3 VMs are used");
    let left = lab.vcenter.govc(&["ls", "/DC0/vm/vm-operator/quota-vms.second"]).unwrap();
    assert_eq!(left.lines().count(), 2, "{left}");
    // Until somebody destroys it in vCenter.
    lab.vcenter.govc(&["vm.destroy", left.lines().next().unwrap()]).unwrap();
    has(&namespace, "third", 2, "successfully");
    // Nothing goes for a quota that was lowered, and nobody else's namespace is told of it.
    lab.patch(&quota(&json!({"vms": 1})));
    namespace.patch("vg", "third", &json!({"spec": {"replicas": 3}})).unwrap();
    has(
        &namespace,
        "third",
        2,
        "1 VM waits for the quota of namespace \"quota-vms\" in VCenter \"quota-vms\": 3 of 1 VMs are used",
    );
    lab.patch(&json!({"allow": []}));
    has(&namespace, "third", 3, "successfully");
    namespace.delete("vg", "third").unwrap();
    eventually(sandbox(), SOON, "no quota is shown", || {
        let quotas = lab.get()["status"]["quotas"].clone();
        if quotas.is_null() { Ok(()) } else { Err(quotas.to_string()) }
    });
}

#[test]
fn a_group_that_waits_is_told_at_once_when_the_last_other_one_goes() {
    let lab = Declared::connected("quota-told", &quota(&json!({"vms": 1})));
    let namespace = sandbox().namespace("quota-told");
    declare(&lab, &namespace, "first", &json!({"replicas": 1}));
    has(&namespace, "first", 1, "successfully");
    declare(&lab, &namespace, "second", &json!({"replicas": 1}));
    has(&namespace, "second", 0, "1 VM waits for the quota of namespace \"quota-told\"");
    // Who is served by the VCenter need not be allowed to read it.
    let described = namespace.kubectl(&["describe", "vmgroup", "second"]).unwrap();
    let words = "1 VM waits for the quota of namespace \"quota-told\" in VCenter \"quota-told\": 1 of 1 VMs are used.";
    assert!(described.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{described}");
    namespace.delete("vg", "first").unwrap();
    eventually(sandbox(), SOON, "the first is gone", || match namespace.get("vg", "first") {
        Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
        there => Err(format!("{there:?}")),
    });
    let gone = Instant::now();
    has(&namespace, "second", 1, "successfully");
    assert!(gone.elapsed() < Duration::from_secs(12), "it slept for {:?}", gone.elapsed());
    namespace.delete("vg", "second").unwrap();
}

#[test]
fn commands_tell_what_is_used_of_a_quota_and_what_would_wait() {
    let lab = Declared::connected("quota-cli", &quota(&json!({"vms": 3, "cpus": 8})));
    let namespace = sandbox().namespace("quota-cli");
    declare(&lab, &namespace, "first", &json!({"replicas": 2}));
    has(&namespace, "first", 2, "successfully");
    let check = || text(&drover(sandbox(), None, &["check", "--operator-namespace=default", "--as", "quota-cli"]));
    let checked = check();
    assert!(checked.contains("  ok   quota         2 of 3 VMs, 2 of 8 CPUs are used\n"), "{checked}");
    assert!(checked.contains("  ok   quota         none\n"), "others have none: {checked}");
    let plan = |name: &str, replicas: u32| {
        let mut manifest = vm_group(name, &json!({"vcenter": lab.name, "replicas": replicas}));
        manifest["metadata"]["namespace"] = "quota-cli".into();
        let file = sandbox().dir().join(format!("{name}.json"));
        fs::write(&file, manifest.to_string()).unwrap();
        text(&drover(sandbox(), None, &["plan", "--operator-namespace=default", "-f", &file.display().to_string()]))
    };
    let words = "would wait for the quota of namespace \"quota-cli\" in VCenter \"quota-cli\": 2 of 3 VMs, 2 of 8 CPUs are used now";
    let more = plan("second", 3);
    assert!(more.contains(&format!("  2 VMs {words}\n")), "{more}");
    assert!(more.contains("clone a VM into slot 0") && !more.contains("into slot 1"), "{more}");
    let grown = plan("first", 4);
    assert!(grown.contains(&format!("  1 VM {words}\n")), "{grown}");
    let fits = plan("first", 3);
    assert!(!fits.contains("would wait"), "{fits}");
    lab.patch(&json!({"enforce": "Warn"}));
    let warned = plan("second", 3);
    assert!(warned.contains(&format!("  with spec.enforce: Enforce, 2 VMs {words}\n")), "{warned}");
    assert!(warned.contains("into slot 2"), "{warned}");
    let checked = check();
    assert!(
        checked.contains("  ok   quota         2 of 3 VMs, 2 of 8 CPUs are used; more is not refused\n"),
        "{checked}"
    );
    namespace.delete("vg", "first").unwrap();
}

/// Capacity of the disks of a VM, in GiB.
fn disks(lab: &Declared, vm: &str) -> u64 {
    let shown: Value = serde_json::from_str(&lab.vcenter.govc(&["vm.info", "-json", vm]).unwrap()).unwrap();
    let devices = shown["virtualMachines"][0]["config"]["hardware"]["device"].as_array().cloned().unwrap_or_default();
    let kib: u64 = devices.iter().filter_map(|device| device["capacityInKB"].as_u64()).sum();
    kib / 1024 / 1024
}

#[test]
fn disks_wait_for_the_quota_and_count_until_they_are_destroyed() {
    let lab = Declared::connected("quota-disks", &json!({}));
    let each = disks(&lab, "/DC0/vm/vm-operator/vm-operator-template");
    assert!(each > 0, "the template has disks");
    lab.patch(&quota(&json!({"storage": 3 * each - 1})));
    let namespace = sandbox().namespace("quota-disks");
    declare(&lab, &namespace, "first", &json!({"replicas": 3, "deletionPolicy": "Retain"}));
    let (two, limit) = (2 * each, 3 * each - 1);
    let words = format!(
        "1 VM waits for the quota of namespace \"quota-disks\" in VCenter \"quota-disks\": {two} of {limit} GiB of disks are used. "
    );
    has(&namespace, "first", 2, &words);
    lab.shows_use("quota-disks", "storage", two);
    let mut another = vm_group("second", &json!({"vcenter": lab.name, "replicas": 1}));
    another["metadata"]["namespace"] = "quota-disks".into();
    let file = sandbox().dir().join("disks.json");
    fs::write(&file, another.to_string()).unwrap();
    let planned =
        text(&drover(sandbox(), None, &["plan", "--operator-namespace=default", "-f", &file.display().to_string()]));
    let words = format!(
        "  1 VM would wait for the quota of namespace \"quota-disks\" in VCenter \"quota-disks\": {two} of {limit} GiB of disks are used now\n"
    );
    assert!(planned.contains(&words) && !planned.contains("clone"), "{planned}");

    // More CPUs are no matter of disks.
    namespace.patch("vg", "first", &json!({"spec": {"cpu": 2, "replicas": 2}})).unwrap();
    has(&namespace, "first", 2, "successfully");
    // What is left behind counts, also where its marker doesn't say how large it is, as an earlier version wrote them.
    namespace.delete("vg", "first").unwrap();
    eventually(sandbox(), SOON, "the group is gone", || match namespace.get("vg", "first") {
        Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
        there => Err(format!("{there:?}")),
    });
    let left = lab.vcenter.govc(&["ls", "/DC0/vm/vm-operator/quota-disks.first"]).unwrap();
    let left: Vec<_> = left.lines().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    for vm in &left {
        lab.vcenter.govc(&["vm.change", "-vm", vm, "-e", "drover.disks="]).unwrap();
    }
    // It is looked at every three seconds.
    thread::sleep(Duration::from_secs(8));
    lab.shows_use("quota-disks", "storage", two);
    declare(&lab, &namespace, "second", &json!({"replicas": 1}));
    has(&namespace, "second", 0, "GiB of disks are used");
    lab.vcenter.govc(&["vm.destroy", left[0]]).unwrap();
    has(&namespace, "second", 1, "successfully");
    lab.shows_use("quota-disks", "storage", two);
    namespace.delete("vg", "second").unwrap();
}

#[test]
fn more_cpus_wait_for_the_quota_and_no_vm_goes_for_them() {
    let lab = Declared::connected("quota-cpus", &quota(&json!({"cpus": 5, "memory": 4})));
    let group = Group::create(sandbox(), "quota-cpus", &json!({"vcenter": lab.name})).in_vcenter(&lab.vcenter);
    group.runs_with(2);
    let before = group.identities();
    group.patch(&json!({"cpu": 2})).unwrap();
    group.settles_with(2, "config.hardware.numCPU", "2");
    // One of the two may have three.
    group.patch(&json!({"cpu": 3})).unwrap();
    group.says("ERROR", "1 VM waits for the quota of namespace \"quota-cpus\" in VCenter \"quota-cpus\": 5 of 5 CPUs, 2 of 4 GiB of memory are used");
    group.tells("QuotaExceeded", "of 5 CPUs");
    let mut cpus: Vec<_> =
        group.machines("config.hardware.numCPU").unwrap().into_iter().map(|(_, cpus)| cpus).collect();
    cpus.sort();
    assert_eq!(cpus, ["2", "3"]);
    // Nor does one go for a new one that would find no room.
    group
        .patch(&json!({"cpu": 3, "update": {"strategy": "Replace"}, "extraConfig": {"guestinfo.round": "2"}}))
        .unwrap();
    group.says("ERROR", "2 VMs wait for the quota of namespace");
    let kubectl = |replicas: &str| group.namespace.kubectl(&["scale", "vg", group.name(), replicas]).unwrap();
    kubectl("--replicas=4");
    group.says("ERROR", "4 VMs wait for the quota of namespace");
    assert_eq!(group.identities(), before);
    let running = group.machines("runtime.powerState").unwrap();
    assert!(running.iter().all(|(_, power)| power == "poweredOn"), "{running:?}");
    // Who is over the quota gets under it.
    kubectl("--replicas=1");
    group.settles_with(1, "config.hardware.numCPU", "3");
    kubectl("--replicas=2");
    group.says("ERROR", "1 VM waits for the quota of namespace");
    lab.patch(&quota(&json!({"cpus": 6})));
    group.settles_with(2, "config.hardware.numCPU", "3");
    lab.shows_use("quota-cpus", "cpus", 6);
    group.delete();
}

#[test]
fn a_group_that_may_not_use_its_template_gets_no_more_cpus_than_there_are_for_it() {
    let allow = |templates: &[&str]| json!({"allow": [{"templates": templates, "quota": {"cpus": 3}}]});
    let mut spec = allow(&["/**"]);
    spec["reach"] = "Restricted".into();
    let lab = Declared::connected("quota-refused", &spec);
    let group = Group::create(sandbox(), "quota-refused", &json!({"vcenter": lab.name})).in_vcenter(&lab.vcenter);
    group.runs_with(2);
    lab.patch(&allow(&[]));
    group.patch(&json!({"cpu": 2})).unwrap();
    eventually(sandbox(), SOON, "one VM has two CPUs", || {
        let cpus = group.machines("config.hardware.numCPU")?;
        if cpus.iter().any(|(_, cpus)| cpus == "2") { Ok(()) } else { Err(format!("{cpus:?}")) }
    });
    thread::sleep(Duration::from_secs(3));
    let mut cpus: Vec<_> =
        group.machines("config.hardware.numCPU").unwrap().into_iter().map(|(_, cpus)| cpus).collect();
    cpus.sort();
    assert_eq!(cpus, ["1", "2"]);
    group.delete();
}

#[test]
fn a_quota_that_only_warns_says_what_is_too_much() {
    let mut spec = quota(&json!({"memory": 1}));
    spec["enforce"] = "Warn".into();
    let lab = Declared::connected("quota-warn", &spec);
    let group = Group::create(sandbox(), "quota-warn", &json!({"vcenter": lab.name})).in_vcenter(&lab.vcenter);
    group.runs_with(2);
    let allowed = |is: &Value| {
        eventually(sandbox(), SOON, &format!("Allowed is {is}"), || {
            let status = group.status()?;
            let mut conditions = status["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|condition| condition["type"] == "Allowed").cloned().unwrap_or_default();
            let seen = json!([found["status"], found["reason"], found["message"]]);
            if seen == *is { Ok(()) } else { Err(seen.to_string()) }
        });
    };
    let said = |used: u64| {
        format!(
            "namespace \"quota-warn\" has more in VCenter \"quota-warn\" than its quota: {used} of 1 GiB of memory are used. With \
             spec.enforce: Enforce, it would get no new VM"
        )
    };
    allowed(&json!(["False", "QuotaExceeded", said(2)]));
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
    allowed(&json!(["False", "QuotaExceeded", said(3)]));
    group.patch(&json!({"replicas": 1})).unwrap();
    group.runs_with(1);
    allowed(&json!([null, null, null]));
    group.patch(&json!({"replicas": 3})).unwrap();
    group.runs_with(3);
    lab.shows_use("quota-warn", "memory", 3);
    group.delete();
}

#[test]
fn limits_below_nothing_are_refused() {
    let vcenter = json!({
        "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "bad-quota"},
        "spec": {"server": "vc", "credentialsSecretRef": {"name": "x"}, "allow": [{"quota": {"vms": -1}}]},
    });
    let refused = sandbox().kubectl().run_with_input(&["apply", "-f", "-"], &vcenter.to_string()).unwrap_err();
    assert!(refused.stderr.contains("spec.allow[0].quota.vms"), "{refused}");
}
