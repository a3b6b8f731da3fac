//! Sessions that hold: expiry, outages, and passwords that change.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Group, SOON, eventually, vm_group};
use serde_json::{Value, json};

use super::{Declared, sandbox};

#[test]
fn a_refused_password_is_tried_again_when_its_secret_is_written_but_once_a_minute_at_most() {
    let lab = Declared::connected("passwords", &json!({}));
    assert_eq!(lab.logins(), 1);
    let wrong = format!("{}-wrong", lab.vcenter.password);
    // vCenter wants another password from now on: the session goes on, and the next is refused, once.
    lab.control("PUT", "/password", &json!({"password": "the-new-one"}));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Connected", "False", "LoginRefused", "the user name or the password is wrong");
    let refused = Instant::now();
    assert_eq!(lab.logins(), 2);
    for number in 0..5 {
        lab.vcenter.declare_secret(sandbox(), "passwords", &format!("{wrong}-{number}"));
        thread::sleep(Duration::from_secs(1));
    }
    lab.vcenter.declare_secret(sandbox(), "passwords", "the-new-one");
    lab.says("Connected", "True", "Connected", "");
    assert!(refused.elapsed() > Duration::from_secs(50), "{:?}", refused.elapsed());
    assert_eq!(lab.logins(), 3, "of all that was written, the last was tried");
    assert_eq!(lab.events("LoginRefused"), 1);

    // What vCenter refuses while its directory is away is right, and tried when the Secret is written, though it is the same.
    lab.control("PUT", "/password", &json!({"password": "another"}));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Connected", "False", "LoginRefused", "the user name or the password is wrong");
    lab.control("PUT", "/password", &json!({"password": "the-new-one"}));
    sandbox().kubectl().run(&["annotate", "secret", "passwords", "written=again"]).unwrap();
    lab.says("Connected", "True", "Connected", "");
    assert_eq!(lab.logins(), 5);
    sandbox().assert_nothing_tells(&[&wrong, "the-new-one"]);
}

#[test]
fn a_vcenter_that_is_away_hurts_its_own_groups_only_and_is_back_at_once() {
    let [far, near] = ["far", "near"].map(|name| Declared::connected(name, &json!({})));
    let namespace = sandbox().namespace("away");
    let create = |name: &str, vcenter: &str| {
        let spec = json!({"replicas": 1, "vcenter": vcenter});
        namespace.declare(&vm_group(name, &spec)).unwrap();
    };
    let runs = |name: &str| {
        eventually(sandbox(), SOON, &format!("{name} runs"), || {
            let status = namespace.get("vg", name).map_err(|failure| failure.to_string())?["status"].clone();
            if status["phase"] == "RUNNING" { Ok(()) } else { Err(status.to_string()) }
        });
    };
    create("over-there", "far");
    runs("over-there");
    far.control("POST", "/outage", &json!({"for": "1h"}));
    let message = far.says("Connected", "False", "VCenterUnreachable", "away since 20");
    assert!(message.contains(&far.vcenter.host), "{message}");
    create("over-here", "near");
    runs("over-here");
    create("waiting", "far");
    eventually(sandbox(), SOON, "both groups say that their vCenter is away", || {
        for name in ["over-there", "waiting"] {
            let status = namespace.get("vg", name).map_err(|failure| failure.to_string())?["status"].clone();
            if status["phase"] != "PENDING" || !status.to_string().contains("VCenterUnreachable") {
                return Err(status.to_string());
            }
        }
        Ok(())
    });
    near.says("Connected", "True", "Connected", "");
    assert_eq!(far.events("VCenterUnreachable"), 1, "one event, however often it is tried");
    far.control("POST", "/outage", &json!({"for": "0s"}));
    eventually(sandbox(), SOON, "the group that waited is being made", || {
        let machines = far.vcenter.machine_counts();
        if machines.powered_on + machines.cloning == 2 { Ok(()) } else { Err(format!("{machines:?}")) }
    });
    runs("waiting");
    runs("over-there");
    far.control("DELETE", "/sessions", &Value::Null);
    far.vcenter.govc(&["vm.power", "-off", "-force", &machine(&far, "waiting")]).unwrap();
    eventually(sandbox(), SOON, "a change is put right in a new session", || {
        let machines = far.vcenter.machine_counts();
        if machines.powered_on == 2 { Ok(()) } else { Err(format!("{machines:?}")) }
    });
    namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap();
    // A VCenter that is declared no more leaves no session behind.
    sandbox().kubectl().run(&["delete", "vc", "far", "near"]).unwrap();
    for vcenter in [&far.vcenter, &near.vcenter] {
        eventually(sandbox(), SOON, "the session is ended", || {
            let (logins, logouts) = (vcenter.calls("Login", "drover"), vcenter.calls("Logout", "drover"));
            // The far one lost two sessions: one in the outage, one was taken from it.
            let lost = if vcenter.host == far.vcenter.host { logins - 1 } else { 0 };
            if logins == logouts + lost { Ok(()) } else { Err(format!("{logins} logins, {logouts} logouts")) }
        });
    }
}

fn machine(of: &Declared, group: &str) -> String {
    let machines = of.vcenter.machines();
    machines.into_iter().find(|path| path.contains(&format!(".{group}/"))).unwrap()
}

#[test]
fn a_server_that_is_another_vcenter_than_before_is_not_taken_for_it() {
    let lab = Declared::connected("moved", &json!({}));
    let group = Group::create(sandbox(), "moved", &json!({"replicas": 1, "vcenter": "moved"}));
    let has = |replicas: u64| {
        eventually(sandbox(), SOON, &format!("{replicas} run"), || {
            let (status, there) = (group.status()?, lab.vcenter.machine_counts().powered_on);
            let is_so = status["readyReplicas"] == replicas && there == replicas;
            if is_so { Ok(()) } else { Err(format!("{there}, {status}")) }
        });
    };
    has(1);
    let other = sandbox().own_vcenter();
    let before = other.machines();
    other.control("PUT", "/password", &json!({"password": lab.vcenter.password})).unwrap();
    lab.patch(&json!({"server": other.host}));
    lab.says("Connected", "False", "VCenterMismatch", "is another vCenter");
    group.patch(&json!({"replicas": 2})).unwrap();
    group.says("PENDING", "the VCenter \"moved\" is not connected (VCenterMismatch) since ");
    let status = group.status().unwrap().to_string();
    assert!(!status.contains(&other.host) && !status.contains(&lab.vcenter.user), "{status}");
    // It has its time to do what it must not.
    thread::sleep(Duration::from_secs(2));
    for method in ["Login", "CloneVM_Task", "CreateFolder", "Destroy_Task"] {
        assert_eq!(other.calls(method, "drover"), 0, "{method}");
    }
    assert_eq!((other.machines(), lab.vcenter.calls("CloneVM_Task", "drover")), (before, 1));
    lab.patch(&json!({"server": lab.vcenter.host}));
    lab.says("Connected", "True", "Connected", "");
    has(2);
    group.delete();
}

#[test]
fn of_five_vcenters_one_is_down_and_the_groups_of_the_others_are_made() {
    let labs: Vec<_> = (0..5).map(|number| Declared::connected(&format!("five-{number}"), &json!({}))).collect();
    let namespace = sandbox().namespace("five");
    labs[4].control("POST", "/outage", &json!({"for": "1h"}));
    for lab in &labs {
        let spec = json!({"replicas": 1, "vcenter": lab.name});
        namespace.declare(&vm_group(&lab.name, &spec)).unwrap();
    }
    let is = |lab: &Declared, phase: &str, machines: u64| {
        eventually(sandbox(), SOON, &format!("{} is {phase} with {machines}", lab.name), || {
            let status = namespace.get("vg", &lab.name).map_err(|failure| failure.to_string())?["status"].clone();
            let seen = lab.vcenter.machine_counts().powered_on;
            if status["phase"] == phase && seen == machines {
                Ok(())
            } else {
                Err(format!("{seen} machines, {status}"))
            }
        });
    };
    for lab in &labs[..4] {
        is(lab, "RUNNING", 1);
    }
    is(&labs[4], "PENDING", 0);
    labs[4].control("POST", "/outage", &json!({"for": "0s"}));
    is(&labs[4], "RUNNING", 1);
    namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap();
}

#[test]
fn a_vcenter_that_takes_calls_and_answers_none_is_said_to_be_unreachable_within_75_seconds() {
    let silent = Declared::connected("silent", &json!({}));
    silent.vcenter.control("POST", "/outage", &json!({"for": "600s", "mode": "silent"})).unwrap();
    let began = Instant::now();
    silent.says("Connected", "False", "VCenterUnreachable", "");
    assert!(began.elapsed() <= Duration::from_secs(75), "after {:?}", began.elapsed());
    silent.vcenter.control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    silent.says("Connected", "True", "Connected", "");
}

#[test]
fn a_refused_view_in_a_new_session_is_said_changes_nothing_and_is_asked_for_again() {
    let lab = Declared::connected("refused-view", &json!({}));
    let namespace = sandbox().namespace("refused-view");
    let spec = json!({"replicas": 2, "vcenter": lab.name});
    namespace.declare(&vm_group("web", &spec)).unwrap();
    let runs = |what: &str| {
        eventually(sandbox(), SOON, what, || {
            let machines = lab.vcenter.machine_counts();
            let status = namespace.get("vg", "web").map_err(|failure| failure.to_string())?["status"].clone();
            let is_so = machines.powered_on == 2 && status["phase"] == "RUNNING";
            if is_so { Ok(()) } else { Err(format!("{machines:?}, {status}")) }
        });
    };
    runs("the group runs");
    let ids = || lab.vcenter.govc(&["find", "-i", "/DC0/vm", "-type", "m"]).unwrap();
    let before = ids();
    let rule = lab.vcenter.rule(&json!({
        "method": "CreateContainerView", "client": "drover",
        "fault": {"type": "NoPermission", "fields": {"privilegeId": "System.View"}},
    }));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Connected", "False", "VCenterUnreachable", "");
    lab.vcenter.govc(&["vm.power", "-off", "-force", &machine(&lab, "web")]).unwrap();
    thread::sleep(Duration::from_secs(4));
    assert_eq!(lab.vcenter.machine_counts().powered_on, 1, "what it can't see it doesn't touch");
    assert!(rule.remove() > 1, "it is asked for again and again");
    let mended = Instant::now();
    lab.says("Connected", "True", "Connected", "");
    runs("what was powered off meanwhile runs again");
    assert!(mended.elapsed() < Duration::from_mins(1), "after {:?}", mended.elapsed());
    assert_eq!(ids(), before, "none was made or destroyed");
    assert_eq!(lab.vcenter.calls("CloneVM_Task", "drover"), 2);
    namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap();
}
