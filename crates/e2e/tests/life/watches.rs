//! Watches that fail: what they told last holds, and what they have not told isn't made up.

use drover_e2e::{Fate, Gate, Group, Operator, Requests, SOON, Sandbox, eventually};
use serde_json::json;

#[test]
fn what_watches_have_not_told_isnt_made_up_and_what_they_told_holds() {
    let sandbox = Sandbox::start("watches", &["--vcenters=4"]).unwrap();
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

fn what_was_told_holds_while_watches_fail_and_what_went_meanwhile_is_noticed(sandbox: &Sandbox) {
    let [kept, dismissed] = ["kept", "dismissed"].map(|name| {
        let vcenter = sandbox.own_vcenter();
        vcenter.declare(sandbox, name, &json!({}));
        vcenter
    });
    let gate = Gate::open(sandbox);
    let _operator = Operator::start_behind(&gate, sandbox, sandbox.vcenter()).unwrap();
    let group = Group::create(sandbox, "holds", &json!({"replicas": 1, "vcenter": "kept"}));
    let is_so = |replicas: usize| {
        eventually(sandbox, SOON, &format!("{replicas} run"), || {
            let status = group.status()?;
            let there = kept.machines().iter().filter(|path| path.contains("-replica-")).count();
            if status["readyReplicas"] == replicas && there == replicas { Ok(()) } else { Err(status.to_string()) }
        });
    };
    is_so(1);
    let logins = kept.calls("Login", "drover");
    let failing =
        ["/secrets", "/namespaces", "/vcenters"].map(|path| gate.rule(Requests::Reads(path), Fate::Refused(500), 0, 0));
    gate.cut();
    eventually(sandbox, SOON, "all three fail", || {
        if failing.iter().all(|rule| !rule.met().is_empty()) { Ok(()) } else { Err("not yet".to_owned()) }
    });
    group.patch(&json!({"replicas": 2})).unwrap();
    is_so(2);
    sandbox.kubectl().run(&["delete", "vc", "dismissed"]).unwrap();
    for rule in failing {
        let _ = rule.remove();
    }
    eventually(sandbox, SOON, "the session in the vCenter that was dismissed ends", || {
        let sessions = dismissed.control("GET", "/sessions", &serde_json::Value::Null)?;
        let own = dismissed.govc(&["session.ls"]).map_err(|failure| failure.to_string())?;
        if own.contains("drover") { Err(format!("{sessions}: {own}")) } else { Ok(()) }
    });
    assert_eq!(kept.calls("Login", "drover"), logins, "nobody logged in again");
}
