//! What namespaces may use of a vCenter that is restricted.

use drover_e2e::{Group, VCenter, eventually};
use serde_json::{Value, json};

use crate::{
    Declared, SOON,
    commands::{drover, text},
    sandbox,
};

/// A VM `web` in a folder for each team, powered off, which says in its extraConfig whose it is.
pub(crate) fn web_of(vcenter: &VCenter, team: &str) -> String {
    let folder = format!("/DC0/vm/{team}");
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    let path = format!("{folder}/web");
    for govc in [
        &["folder.create", &folder][..],
        &["vm.clone", "-vm.ipath", template, "-folder", &folder, "-on=false", team],
        &["object.rename", &format!("{folder}/{team}"), "web"],
        &["vm.change", "-vm", &path, "-e", &format!("company.origin={team}")],
    ] {
        vcenter.govc(govc).unwrap();
    }
    path
}

pub(crate) fn allowing(namespace: &str, templates: &[&str]) -> Value {
    json!({"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, "templates": templates})
}

/// A group in a VCenter of the test's own.
pub(crate) fn group(lab: &Declared, namespace: &str, spec: &Value) -> Group<'static> {
    let mut whole = json!({"replicas": 1, "vcenter": lab.name});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    Group::create(sandbox(), namespace, &whole).in_vcenter(&lab.vcenter)
}

fn condition(group: &Group<'_>, kind: &str) -> Result<Value, String> {
    let status = group.status()?;
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    Ok(conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default())
}

/// Waits for a condition with words in its message, which it returns.
#[track_caller]
pub(crate) fn says(group: &Group<'_>, kind: &str, status: &str, words: &str) -> String {
    eventually(sandbox(), SOON, &format!("{kind}={status}: {words}"), || {
        let found = condition(group, kind)?;
        let message = found["message"].as_str().unwrap_or_default();
        let is_so = found["status"] == status && message.contains(words);
        if is_so { Ok(message.to_owned()) } else { Err(found.to_string()) }
    })
}

#[test]
fn a_restricted_namespace_clones_what_it_is_allowed_and_nothing_else() {
    let lab = Declared::connected("reach", &json!({"reach": "Restricted"}));
    let (_, theirs) = (web_of(&lab.vcenter, "team-a"), web_of(&lab.vcenter, "team-b"));
    lab.patch(&json!({"allow": [allowing("reach-a", &["/DC0/vm/team-a/**"])]}));
    let id = lab.vcenter.govc(&["find", "-i", &theirs, "-maxdepth", "0"]).unwrap();
    let id = format!("moref:{}", id.trim().strip_prefix("VirtualMachine:").unwrap());
    let group = group(&lab, "reach-a", &json!({"template": "nothing"}));
    lab.vcenter.forget_calls();
    for word in ["nothing", "vm-operator-template", &theirs, &id] {
        group.patch(&json!({"template": word})).unwrap();
        let said = format!("spec.template: namespace \"reach-a\" may use no template {word:?} in VCenter \"reach\". ");
        let message = says(&group, "Stalled", "True", &said);
        assert!(!message.replace(word, "").contains("team-"), "nobody learns what there is: {message}");
        says(&group, "Allowed", "False", &said);
    }
    for method in ["CloneVM_Task", "CreateFolder", "FindByInventoryPath", "CreateContainerView"] {
        assert_eq!(lab.vcenter.calls(method, "drover"), 0, "{method}");
    }
    // Two have the name, and one of them is the only one for this namespace.
    group.patch(&json!({"template": "web"})).unwrap();
    let machine = group.runs_with(1).remove(0);
    let shown = lab.vcenter.govc(&["vm.info", "-e", "-json", &machine]).unwrap();
    assert!(shown.contains("team-a") && !shown.contains("team-b"), "{shown}");
    says(&group, "Allowed", "True", "");
    lab.says("Restricted", "True", "ReachRestricted", "");
    lab.patch(&json!({"reach": "Open"}));
    lab.says("Restricted", "False", "ReachOpen", "docs/vcenters.md#tenants says how to restrict that");
    lab.says("Ready", "True", "Connected", "");
    eventually(sandbox(), SOON, "nothing is restricted, and nothing said of it", || {
        let allowed = condition(&group, "Allowed")?;
        if allowed.is_null() { Ok(()) } else { Err(allowed.to_string()) }
    });
    group.delete();
}

#[test]
fn what_would_be_refused_is_said_first_and_the_line_in_the_condition_allows_it() {
    let lab = Declared::connected("reach-warn", &json!({"reach": "Restricted", "enforce": "Warn"}));
    let path = web_of(&lab.vcenter, "team-a");
    let group = group(&lab, "reach-w", &json!({"replicas": 2, "template": path}));
    group.runs_with(2);
    let before = group.identities();
    says(&group, "Allowed", "False", "would be refused: spec.template: namespace \"reach-w\" may use no template");
    let checked = text(&drover(sandbox(), None, &["check", "--operator-namespace=default", "-n", "reach-w"]));
    assert!(checked.contains("ok   template      would be refused: spec.template: namespace"), "{checked}");
    assert!(checked.contains("ok   reach         Restricted, but nothing is refused"), "{checked}");
    assert!(checked.contains("ok   reach         Open: every namespace that may use this vCenter"), "{checked}");
    group.tells("NotAllowed", "would be refused: spec.template: namespace");
    lab.says("Restricted", "False", "ReachNotEnforced", "VmGroups that would be refused: reach-w/reach-w");
    // From now on it is refused: what there is stays, and shrinks.
    lab.patch(&json!({"enforce": "Enforce"}));
    group.patch(&json!({"replicas": 3})).unwrap();
    let message = says(&group, "Stalled", "True", "may use no template");
    lab.says("Restricted", "True", "ReachRestricted", "VmGroups that are refused: reach-w/reach-w");
    assert_eq!(group.identities(), before, "none is made or goes");
    assert_eq!(
        group.namespace.events("VmGroup", "NotAllowed").unwrap().iter().filter(|it| it.contains("would be")).count(),
        1
    );
    group.patch(&json!({"replicas": 1})).unwrap();
    eventually(sandbox(), SOON, "one goes", || {
        let left = group.machines("name")?;
        if left.len() == 1 { Ok(()) } else { Err(format!("{left:?}")) }
    });
    group.patch(&json!({"replicas": 2, "extraConfig": {"guestinfo.key": "new"}})).unwrap();
    says(&group, "Stalled", "True", "may use no template");
    let (_, line) = message.split_once("add to spec.allow of the VCenter: ").unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    lab.patch(&json!({"allow": [line]}));
    group.runs_with(2);
    assert!(group.identities().is_disjoint(&before), "all are made from what is declared");
    // Not allowed again, and it goes all the same.
    lab.patch(&json!({"allow": []}));
    says(&group, "Allowed", "False", "may use no template");
    group.delete();
    assert!(group.everywhere().is_empty());
}

#[test]
fn each_place_that_a_group_names_has_to_be_allowed_and_defaults_are() {
    let lab = Declared::connected("reach-places", &json!({"reach": "Restricted"}));
    let template = web_of(&lab.vcenter, "team-a");
    let govc = |words: &[&str]| lab.vcenter.govc(words).unwrap();
    for words in [&["folder.create", "/DC0/vm/theirs"][..], &["pool.create", "*/Resources/theirs"]] {
        govc(words);
    }
    let first = |kind: &str| govc(&["find", "/", "-type", kind]).lines().next().unwrap().to_owned();
    let (cluster, datastore, network) =
        (first("ClusterComputeResource"), first("Datastore"), "/DC0/network/VM Network");
    let pool = format!("{cluster}/Resources/theirs");
    lab.patch(&json!({"allow": [allowing("reach-p", &["/DC0/vm/team-a/**"])]}));
    let places = [
        (json!({"placement": {"folder": "/DC0/vm/theirs"}}), "placement.folder", "folder", "/DC0/vm/theirs"),
        (json!({"placement": {"datastore": datastore}}), "placement.datastore", "datastore", &*datastore),
        (json!({"placement": {"cluster": cluster}}), "placement.cluster", "cluster", &cluster),
        (json!({"placement": {"resourcePool": pool}}), "placement.resourcePool", "resource pool", &pool),
        (json!({"networks": [network]}), "networks", "network", network),
    ];
    let none = json!({"placement": null, "networks": null});
    let sentence = |field: &str, noun: &str, word: &str| {
        format!("spec.{field}: namespace \"reach-p\" may use no {noun} {word:?} in VCenter \"reach-places\"")
    };
    // What is left open is as the VCenter has it, and so needs no entry.
    let group = group(&lab, "reach-p", &json!({"template": template}));
    let machine = group.runs_with(1).remove(0);
    let before = group.identities();
    // So is what its template is on, though no entry lists that.
    for property in ["network", "datastore"] {
        let of_template = govc(&["object.collect", "-s", &template, property]);
        assert_eq!(govc(&["object.collect", "-s", &machine, property]), of_template, "{property}");
        assert!(!of_template.trim().is_empty(), "{property}");
    }
    says(&group, "Allowed", "True", "");
    lab.vcenter.forget_calls();
    for (spec, field, noun, word) in &places {
        group.patch(&none).unwrap();
        group.patch(spec).unwrap();
        group.patch(&json!({"replicas": 2})).unwrap();
        let message = says(&group, "Stalled", "True", &sentence(field, noun, word));
        assert_eq!(message.matches("may use no").count(), 1, "the rest is allowed: {message}");
        // What isn't there reads the same.
        let nothing: Value = serde_json::from_str(&spec.to_string().replace(word, "nothing")).unwrap();
        group.patch(&nothing).unwrap();
        says(&group, "Stalled", "True", &sentence(field, noun, "nothing"));
        group.patch(&json!({"replicas": 1})).unwrap();
        assert_eq!(group.identities(), before, "{field}: none is made or goes");
    }
    for method in ["CloneVM_Task", "CreateFolder", "MoveIntoFolder_Task", "FindByInventoryPath", "CreateContainerView"]
    {
        assert_eq!(lab.vcenter.calls(method, "drover"), 0, "{method}");
    }
    // One that was never allowed anywhere goes, and nothing with it, whatever is called like its folder there.
    let same = "/DC0/vm/theirs/reach-p0.reach-p0";
    govc(&["folder.create", same]);
    let never = Group::create(
        sandbox(),
        "reach-p0",
        &json!({"template": template, "vcenter": lab.name, "replicas": 1, "placement": {"folder": "/DC0/vm/theirs"}}),
    );
    says(&never, "Stalled", "True", "may use no folder");
    lab.vcenter.forget_calls();
    never.delete();
    assert_eq!(govc(&["find", same]).trim(), same);
    assert_eq!(
        lab.vcenter.calls("FindByInventoryPath", "drover") + lab.vcenter.calls("CreateContainerView", "drover"),
        0
    );
    govc(&["object.destroy", same]);
    // One that was to go elsewhere goes from where it is.
    let misplaced = json!({"template": template, "vcenter": lab.name, "replicas": 1});
    let other = Group::create(sandbox(), "reach-p2", &misplaced).in_vcenter(&lab.vcenter);
    lab.patch(&json!({"allow": [{"templates": ["/DC0/vm/team-a/**"]}]}));
    other.runs_with(1);
    other.patch(&json!({"replicas": 2, "placement": {"folder": "/DC0/vm/theirs"}})).unwrap();
    says(&other, "Stalled", "True", "may use no folder");
    other.delete();
    assert_eq!(govc(&["find", "/DC0/vm", "-name", "reach-p2*"]).trim(), "", "its folder goes with it");
    // All at once: one sentence, and one line that allows it as it is printed. The network is of another kind, and called by its name.
    let network = "DC0_DVPG0";
    let all = json!({
        "replicas": 2, "networks": [network],
        "placement": {"folder": "/DC0/vm/theirs", "resourcePool": pool, "cluster": null, "datastore": datastore},
    });
    group.patch(&none).unwrap();
    group.patch(&all).unwrap();
    let message = says(&group, "Stalled", "True", &sentence("networks", "network", network));
    assert_eq!(message.matches("may use no").count(), 4, "{message}");
    let (_, line) = message.split_once("add to spec.allow of the VCenter: ").unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    lab.patch(&json!({"allow": [allowing("reach-p", &["/DC0/vm/team-a/**"]), line]}));
    says(&group, "Ready", "True", "successfully reconciled VmGroup");
    says(&group, "Allowed", "True", "");
    let there = group.everywhere();
    assert!(
        there.len() == 2 && there.iter().all(|path| path.starts_with("/DC0/vm/theirs/reach-p.reach-p/")),
        "{there:?}"
    );
    for machine in &there {
        let card = govc(&["device.info", "-vm", machine, "ethernet-*"]);
        assert!(card.contains("DVSwitch"), "it is on a port group: {card}");
    }
    // What is renamed out of what is allowed is refused, until it has its name again.
    govc(&["object.rename", "/DC0/vm/theirs", "renamed"]);
    let member = there[0].rsplit('/').next().unwrap();
    eventually(sandbox(), SOON, "Drover knows", || {
        let info = group.namespace.get("vi", member).map_err(|failure| failure.to_string())?;
        let path = info["status"]["path"].as_str().unwrap_or_default();
        if path.starts_with("/DC0/vm/renamed/") { Ok(()) } else { Err(info.to_string()) }
    });
    group.patch(&json!({"replicas": 3})).unwrap();
    says(&group, "Stalled", "True", "may use no folder \"/DC0/vm/theirs\"");
    assert_eq!(group.everywhere().len(), 2);
    group.patch(&json!({"replicas": 2})).unwrap();
    govc(&["object.rename", "/DC0/vm/renamed", "theirs"]);
    // Not allowed any more: it stays where it is, shrinks and goes.
    lab.patch(&json!({"allow": []}));
    says(&group, "Allowed", "False", "may use no folder");
    group.patch(&json!({"replicas": 1})).unwrap();
    eventually(sandbox(), SOON, "one goes", || {
        let left = group.everywhere();
        if left.len() == 1 && there.contains(&left[0]) { Ok(()) } else { Err(format!("{left:?}")) }
    });
    group.delete();
    assert!(group.everywhere().is_empty());
    assert_eq!(govc(&["find", "/DC0/vm/theirs"]).trim(), "/DC0/vm/theirs", "the group's folder goes with it");
}

#[test]
fn a_vcenter_allows_keys_of_extra_config_with_open_reach_too() {
    let lab = Declared::connected("keys", &json!({}));
    let group = group(&lab, "keys-a", &json!({"extraConfig": {"company.team": "a", "guestinfo.team": "a"}}));
    let message =
        says(&group, "Stalled", "True", "namespace \"keys-a\" may not set \"company.team\" in VCenter \"keys\"");
    assert_eq!(lab.vcenter.calls("CloneVM_Task", "drover"), 0);
    let checked = text(&drover(sandbox(), None, &["check", "--operator-namespace=default", "-n", "keys-a"]));
    assert!(checked.contains("may not set \"company.team\""), "{checked}");
    let (_, line) = message.split_once("add to spec.allow of the VCenter: ").unwrap();
    let line: Value = serde_json::from_str(line).unwrap();
    lab.patch(&json!({"allow": [line]}));
    let machine = group.runs_with(1).remove(0);
    let shown = lab.vcenter.govc(&["vm.info", "-e", "-json", &machine]).unwrap();
    assert!(shown.contains("company.team"), "{shown}");
    // No longer allowed: what there is stays.
    let before = group.identities();
    lab.patch(&json!({"allow": []}));
    group.patch(&json!({"replicas": 2})).unwrap();
    says(&group, "Stalled", "True", "may not set \"company.team\"");
    assert_eq!(group.identities(), before);
    group.delete();
}

#[test]
fn a_pattern_that_makes_no_sense_is_refused() {
    for pattern in ["vm/web", "/DC0//web", "/DC0/a**", "/***", "/"] {
        let vcenter = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VCenter", "metadata": {"name": "bad-pattern"},
            "spec": {"server": "vc", "credentialsSecretRef": {"name": "x"}, "allow": [{"templates": [pattern]}]},
        });
        let refused = sandbox().kubectl().run_with_input(&["apply", "-f", "-"], &vcenter.to_string()).unwrap_err();
        assert!(refused.stderr.contains("spec.allow[0].templates[0]"), "{pattern}: {refused}");
    }
}
