//! Watches that fail: what they told last holds, and what they have not told isn't made up.

use std::collections::BTreeSet;

use drover_e2e::{Fate, Gate, GateRule, Group, Operator, Requests, SOON, Sandbox, VCenter, eventually, repeated};
use serde_json::{Value, json};

#[test]
fn what_watches_have_not_told_isnt_made_up_and_what_they_told_holds() {
    let sandbox = Sandbox::start("watches", &["--vcenters=6"]).unwrap();
    sandbox.install_kinds();
    a_namespace_that_isnt_read_yet_is_waited_for(&sandbox);
    what_was_told_holds_while_watches_fail_and_what_went_meanwhile_is_noticed(&sandbox);
}

fn a_namespace_that_isnt_read_yet_is_waited_for(sandbox: &Sandbox) {
    let theirs = sandbox.own_vcenter();
    theirs.declare(sandbox, "theirs", &json!({"namespaces": {"matchLabels": {"team": "theirs"}}}));
    let namespace = sandbox.namespace("their-team");
    sandbox.kubectl().run(&["label", "namespace", "their-team", "team=theirs"]).unwrap();
    let group = Group::of(namespace, sandbox);
    group.apply(&json!({"replicas": 1}));

    let gate = Gate::open(sandbox);
    let refusal = gate.rule(Requests::Reads("/namespaces"), Fate::Refused(500), 0, 0);
    let _operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    group.says("ERROR", "the namespace \"their-team\" has not been read yet");
    assert!(group.everywhere().is_empty() && group.status().unwrap()["vcenter"].is_null());

    assert!(!refusal.remove().is_empty());
    eventually(sandbox, SOON, "it runs in the vCenter that serves its namespace", || {
        let there = theirs.machines().iter().filter(|path| path.contains("their-team")).count();
        let status = group.status()?;
        if there == 1 && status["vcenter"] == "theirs" { Ok(()) } else { Err(status.to_string()) }
    });
    assert!(group.everywhere().is_empty(), "nothing was made in the vCenter that would serve one without labels");
}

/// What its watches tell while they fail, and what becomes of it meanwhile.
struct Meanwhile<'a> {
    sandbox: &'a Sandbox,
    /// Has a group that is scaled, and its Secret is deleted and written again.
    kept: VCenter,
    /// Is declared no more.
    dismissed: VCenter,
    /// Has place for one clone at a time, and a group with more that is stripped of its finalizer and deleted.
    narrow: VCenter,
    stripped: Group<'a>,
    /// Serves a namespace by a label that comes later.
    labelled: VCenter,
    unsettled: Group<'a>,
}

fn what_was_told_holds_while_watches_fail_and_what_went_meanwhile_is_noticed(sandbox: &Sandbox) {
    let gate = Gate::open(sandbox);
    let declared = |name: &str, spec: Value| {
        let vcenter = sandbox.own_vcenter();
        vcenter.declare(sandbox, name, &spec);
        vcenter
    };
    let world = Meanwhile {
        sandbox,
        kept: declared("kept", json!({})),
        dismissed: declared("dismissed", json!({})),
        narrow: declared("narrow", json!({"limits": {"operations": 1}})),
        stripped: Group::of(sandbox.namespace("stripped"), sandbox),
        labelled: declared("labelled", json!({"namespaces": {"matchLabels": {"team": "labelled"}}})),
        unsettled: Group::of(sandbox.namespace("relabelled"), sandbox),
    };
    let operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "holds", &json!({"replicas": 1, "vcenter": "kept"}));
    world.has(&group, &world.kept, 1);
    world.has_session(&world.dismissed);
    world.unsettled.apply(&json!({"replicas": 1, "vcenter": "labelled"}));
    world.unsettled.says("ERROR", "there is no VCenter \"labelled\" that serves this namespace");
    let held = world.narrow.rule(&json!({"method": "CloneVM_Task", "client": "drover", "hold": "before"}));
    world.stripped.apply(&json!({"replicas": 5, "vcenter": "narrow"}));
    world.waits_in("narrow", 4);

    let logins = world.kept.calls("Login", "drover");
    let failing = fail(&gate, sandbox, &["/secrets", "/namespaces", "/vcenters"]);
    group.patch(&json!({"replicas": 2})).unwrap();
    world.has(&group, &world.kept, 2);
    let blind = fail(&gate, sandbox, &["/vmgroups"]);
    world.goes_on_unseen();
    for rule in failing.into_iter().chain(blind) {
        let _ = rule.remove();
    }

    world.waits_in("narrow", 0);
    held.remove();
    world.what_is_stripped_is_forgotten();
    world.has(&world.unsettled, &world.labelled, 1);
    world.has_no_session(&world.dismissed);
    group.patch(&json!({"replicas": 3})).unwrap();
    world.has(&group, &world.kept, 3);
    assert_eq!(world.kept.calls("Login", "drover"), logins, "nobody logged in again");
    the_log_names_what_fails_and_says_nothing_twice(&operator.log());
}

/// Has reads of these fail, and waits until each has: not only the watches, which would go on where they were, but also the lists that
/// they begin anew with.
fn fail(gate: &Gate, sandbox: &Sandbox, paths: &[&'static str]) -> Vec<GateRule> {
    let failing: Vec<_> = paths.iter().map(|path| gate.rule(Requests::Reads(path), Fate::Expired, 0, 0)).collect();
    gate.cut();
    eventually(sandbox, SOON, "all of them fail", || {
        let met: Vec<_> = failing.iter().map(GateRule::met).collect();
        let is_listed = |met: &Vec<String>| met.iter().any(|request| !request.contains("watch=true"));
        if met.iter().all(is_listed) { Ok(()) } else { Err(format!("{met:?}")) }
    });
    failing
}

impl Meanwhile<'_> {
    /// What happens while nobody watches.
    fn goes_on_unseen(&self) {
        let kubectl = self.sandbox.kubectl();
        self.stripped.begin_to_delete();
        self.stripped.namespace.patch("vg", "stripped", &json!({"metadata": {"finalizers": null}})).unwrap();
        self.stripped.is_gone();
        kubectl.run(&["label", "namespace", "relabelled", "team=labelled"]).unwrap();
        kubectl.run(&["delete", "secret", "kept", "-n", "default"]).unwrap();
        self.kept.declare_secret(self.sandbox, "kept", &self.kept.password);
        kubectl.run(&["delete", "vc", "dismissed"]).unwrap();
    }

    /// Waits until a group has so many VMs in a vCenter, and says so.
    #[track_caller]
    fn has(&self, group: &Group<'_>, vcenter: &VCenter, replicas: usize) {
        eventually(self.sandbox, SOON, &format!("{replicas} of {} run", group.name()), || {
            let status = group.status()?;
            let member = format!("{}-replica-", group.name());
            let there = vcenter.machines().iter().filter(|path| path.contains(&member)).count();
            if status["readyReplicas"] == replicas && there == replicas { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Waits until a VCenter says that so many operations wait.
    #[track_caller]
    fn waits_in(&self, vcenter: &str, operations: u64) {
        eventually(self.sandbox, SOON, &format!("{operations} operations wait in {vcenter}"), || {
            let path = format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{vcenter}");
            let status = self.sandbox.get(&path).map_err(|failure| failure.to_string())?["status"].clone();
            if status["queued"] == operations { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Of the group that went, only the clone that was already asked for is made. The place is another's then.
    fn what_is_stripped_is_forgotten(&self) {
        let next = Group::create(self.sandbox, "next", &json!({"replicas": 1, "vcenter": "narrow"}));
        self.has(&next, &self.narrow, 1);
        assert_eq!(self.narrow.calls("CloneVM_Task", "drover"), 2, "clones asked for");
    }

    #[track_caller]
    fn has_session(&self, vcenter: &VCenter) {
        eventually(self.sandbox, SOON, "there is a session of the operator's", || match sessions(vcenter)? {
            shown if shown.contains("drover") => Ok(()),
            shown => Err(shown),
        });
    }

    #[track_caller]
    fn has_no_session(&self, vcenter: &VCenter) {
        eventually(self.sandbox, SOON, "the operator's session is ended", || match sessions(vcenter)? {
            shown if shown.contains("drover") => Err(shown),
            _ => Ok(()),
        });
    }
}

fn sessions(vcenter: &VCenter) -> Result<String, String> {
    vcenter.govc(&["session.ls"]).map_err(|failure| failure.to_string())
}

fn the_log_names_what_fails_and_says_nothing_twice(log: &str) {
    for (words, what) in [
        ("Watch failed; it starts again", "kind=Namespace "),
        ("Watch failed; it starts again", "kind=VCenter "),
        ("Watch failed; it starts again", "kind=VmGroup "),
    ] {
        assert!(log.lines().any(|line| line.contains(words) && line.contains(what)), "{words} {what}: {log}");
    }
    // Of the five that have the same cause, the log names three at once.
    let vcenter = |line: &str| line.split(' ').find_map(|word| word.strip_prefix("vcenter=").map(ToOwned::to_owned));
    let of_secrets = log.lines().filter(|line| line.contains("Watch of the Secret failed; it starts again"));
    let named: BTreeSet<_> = of_secrets.map(|line| vcenter(line).unwrap_or_else(|| panic!("{line}"))).collect();
    assert!(named.len() >= 3, "{named:?}: {log}");
    let unnamed: Vec<_> = log.lines().filter(|line| line.contains(" failed") && !line.contains('=')).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
    assert_eq!(repeated(log), Vec::<String>::new());
}
