//! Sessions that hold: expiry, outages, and passwords that change.

use std::{thread, time::Duration};

use drover_e2e::{SOON, eventually, vm_group};
use serde_json::{Value, json};

use super::{Declared, sandbox};

#[test]
fn a_password_is_taken_up_when_it_changes_and_a_wrong_one_is_tried_once() {
    let lab = Declared::connected("passwords", &json!({}));
    assert_eq!(lab.logins(), 1);
    let wrong = format!("{}-wrong", lab.vcenter.password);
    // vCenter wants another password from now on: the session goes on, and the next is refused, once.
    lab.control("PUT", "/password", &json!({"password": "the-new-one"}));
    lab.control("DELETE", "/sessions", &Value::Null);
    lab.says("Connected", "False", "LoginRefused", "the user name or the password is wrong");
    assert_eq!(lab.logins(), 2);
    lab.vcenter.declare_secret(sandbox(), "passwords", &wrong);
    eventually(sandbox(), SOON, "the changed secret is tried", || {
        if lab.logins() == 3 { Ok(()) } else { Err(format!("{} logins", lab.logins())) }
    });
    thread::sleep(Duration::from_secs(4));
    assert_eq!(lab.logins(), 3, "a wrong password is tried once");
    assert_eq!(lab.events("LoginRefused"), 1);
    lab.vcenter.declare_secret(sandbox(), "passwords", "the-new-one");
    lab.says("Connected", "True", "LoggedIn", "");
    assert_eq!(lab.logins(), 4);
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
    let message = far.says("Connected", "False", "VCenterAway", "away since 20");
    assert!(message.contains(&far.vcenter.host), "{message}");
    create("over-here", "near");
    runs("over-here");
    create("waiting", "far");
    eventually(sandbox(), SOON, "both groups say that their vCenter is away", || {
        for name in ["over-there", "waiting"] {
            let status = namespace.get("vg", name).map_err(|failure| failure.to_string())?["status"].clone();
            if status["phase"] != "PENDING" || !status.to_string().contains("VCenterAway") {
                return Err(status.to_string());
            }
        }
        Ok(())
    });
    near.says("Connected", "True", "LoggedIn", "");
    assert_eq!(far.events("VCenterAway"), 1, "one event, however often it is tried");
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
    let other = sandbox().own_vcenter();
    other.control("PUT", "/password", &json!({"password": lab.vcenter.password})).unwrap();
    lab.patch(&json!({"server": other.host}));
    lab.says("Connected", "False", "AnotherVCenter", "is another vCenter");
    lab.patch(&json!({"server": lab.vcenter.host}));
    lab.says("Connected", "True", "LoggedIn", "");
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
