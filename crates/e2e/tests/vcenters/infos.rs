//! What HostInfos and VMInfos show of a vCenter that is restricted.

use drover_e2e::{Namespace, eventually};
use serde_json::{Value, json};

use crate::{
    Declared, SOON,
    reach::{allowing, group, web_of},
    sandbox,
};

/// Declares a VMInfo or HostInfo in a namespace, as whoever may edit the namespace can.
fn declare(namespace: &Namespace, kind: &str, name: &str, lab: &Declared, word: &str) {
    let field = if kind == "VMInfo" { "nodename" } else { "hostname" };
    let info = json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": {"name": name},
        "spec": {field: word, "vcenter": lab.name},
    });
    namespace.declare(&info).unwrap();
}

/// Waits until an info shows something at a path, or with no path says that there is nothing for it, and shows nothing.
#[track_caller]
fn shows(namespace: &Namespace, kind: &str, name: &str, path: Option<&str>) -> Value {
    let short = if kind == "VMInfo" { "vi" } else { "ch" };
    eventually(sandbox(), SOON, &format!("{kind} {name}: {path:?}"), || {
        let status = namespace.get(short, name).map_err(|failure| failure.to_string())?["status"].clone();
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == "Found").cloned().unwrap_or_default();
        let is_so = match path {
            Some(path) => found["status"] == "True" && status["path"] == path,
            None => found["reason"] == "NotFound" && status.as_object().is_some_and(|status| status.len() == 2),
        };
        if is_so { Ok(found) } else { Err(status.to_string()) }
    })
}

#[test]
fn an_info_shows_nothing_of_another_tenants_vm_by_any_of_its_names() {
    let (ours, theirs) = (allowing("infos-a", &["/DC0/vm/team-a/**"]), allowing("infos-b", &["/DC0/vm/team-b/**"]));
    let spec = json!({"reach": "Restricted", "enforce": "Warn", "allow": [ours, theirs]});
    let lab = Declared::connected("reach-infos", &spec);
    let (our_web, their_web) = (web_of(&lab.vcenter, "team-a"), web_of(&lab.vcenter, "team-b"));
    let mine = group(&lab, "infos-a", &json!({"template": our_web}));
    let other = group(&lab, "infos-b", &json!({"template": their_web}));
    let (my_vm, their_vm) = (mine.runs_with(1).remove(0), other.runs_with(1).remove(0));
    let read = |property: &str| {
        let read = lab.vcenter.govc(&["object.collect", "-s", &their_vm, property]).unwrap();
        read.trim().to_owned()
    };
    let id = lab.vcenter.govc(&["find", "-i", &their_vm, "-maxdepth", "0"]).unwrap();
    let id = format!("moref:{}", id.trim().strip_prefix("VirtualMachine:").unwrap());
    let name = their_vm.rsplit('/').next().unwrap().to_owned();
    let words = [name, their_vm.clone(), read("config.uuid"), read("config.instanceUuid"), id, their_web.clone()];
    for (number, word) in words.iter().enumerate() {
        declare(&mine.namespace, "VMInfo", &format!("spy-{number}"), &lab, word);
    }
    // As long as nothing is refused, all is shown.
    for (number, word) in words.iter().enumerate() {
        let path = if *word == their_web { &their_web } else { &their_vm };
        shows(&mine.namespace, "VMInfo", &format!("spy-{number}"), Some(path));
    }
    lab.patch(&json!({"enforce": "Enforce"}));
    declare(&mine.namespace, "VMInfo", "nothing", &lab, "nothing");
    let nothing = shows(&mine.namespace, "VMInfo", "nothing", None);
    for (number, word) in words.iter().enumerate() {
        let found = shows(&mine.namespace, "VMInfo", &format!("spy-{number}"), None);
        let message = found["message"].as_str().unwrap();
        assert_eq!(message.replace(word, "nothing"), nothing["message"], "it is as if there were none");
    }
    // One's own are shown: members wherever they are, and what one may clone, though another has the same name.
    shows(&mine.namespace, "VMInfo", my_vm.rsplit('/').next().unwrap(), Some(&my_vm));
    shows(&other.namespace, "VMInfo", their_vm.rsplit('/').next().unwrap(), Some(&their_vm));
    declare(&mine.namespace, "VMInfo", "web", &lab, "web");
    shows(&mine.namespace, "VMInfo", "web", Some(&our_web));
    // A VM that isn't shown hides none that is, though it be called by the other's address.
    let address = "10.77.0.9";
    lab.vcenter.govc(&["vm.change", "-vm", &our_web, "-e", &format!("SET.guest.ipAddress={address}")]).unwrap();
    lab.vcenter.govc(&["vm.clone", "-vm", &their_web, "-folder", "/DC0/vm/team-b", "-on=false", address]).unwrap();
    let hiding = format!("/DC0/vm/team-b/{address}");
    declare(&other.namespace, "VMInfo", "address", &lab, address);
    shows(&other.namespace, "VMInfo", "address", Some(&hiding));
    declare(&mine.namespace, "VMInfo", "address", &lab, address);
    shows(&mine.namespace, "VMInfo", "address", Some(&our_web));
    // Whose it is, a VMInfo can't say by itself: the API server removes this one sooner or later, because its owner is elsewhere.
    let uid = other.get().unwrap()["metadata"]["uid"].clone();
    let forged = json!({
        "apiVersion": "topology.corinternal.com/v1", "kind": "VMInfo",
        "metadata": {"name": "forged", "ownerReferences": [{
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "name": "infos-b", "uid": uid, "controller": true,
        }]},
        "spec": {"nodename": their_vm.rsplit('/').next().unwrap(), "vcenter": lab.name},
    });
    mine.namespace.declare(&forged).unwrap();
    eventually(sandbox(), SOON, "the forged one shows nothing, or is gone", || {
        match mine.namespace.get("vi", "forged") {
            Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
            Err(failure) => Err(failure.to_string()),
            Ok(info) => {
                assert!(info["status"]["path"].is_null(), "{info}");
                if info["status"]["conditions"].is_null() { Err(info.to_string()) } else { Ok(()) }
            }
        }
    });
    mine.delete();
    other.delete();
}

#[test]
fn a_hostinfo_shows_hosts_that_vms_of_the_namespace_may_be_on_and_published_ones_show_all() {
    let publish = sandbox().namespace("infos-p");
    let spec = json!({
        "reach": "Restricted", "defaults": {"cluster": "DC0_C0"}, "publish": {"hosts": true, "namespace": publish.name},
    });
    let lab = Declared::connected("reach-hosts", &spec);
    for govc in [
        &["cluster.create", "C9"][..],
        &["cluster.add", "-cluster", "C9", "-hostname", "h9", "-username", "x", "-password", "x", "-noverify"],
    ] {
        lab.vcenter.govc(govc).unwrap();
    }
    let tenant = sandbox().namespace("infos-h");
    let (near, far) = ("/DC0/host/DC0_C0/DC0_C0_H0", "/DC0/host/C9/h9");
    declare(&tenant, "HostInfo", "near", &lab, "DC0_C0_H0");
    declare(&tenant, "HostInfo", "far", &lab, "h9");
    shows(&tenant, "HostInfo", "near", Some(near));
    let found = shows(&tenant, "HostInfo", "far", None);
    assert_eq!(found["message"], "spec.hostname: there is no host \"h9\" that this namespace may see");
    let published = eventually(sandbox(), SOON, "all hosts are published", || {
        let all = format!("/apis/topology.corinternal.com/v1/namespaces/{}/hostinfoes", publish.name);
        let all = sandbox().get(&all).map_err(|failure| failure.to_string())?;
        let all = all["items"].as_array().cloned().unwrap_or_default();
        let it = all.iter().find(|info| info["spec"]["hostname"].as_str().is_some_and(|name| name.contains("h9")));
        it.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).ok_or_else(|| format!("{all:?}"))
    });
    shows(&publish, "HostInfo", &published, Some(far));
    let allow = json!([{"resourcePools": ["/DC0/host/C9/Resources"]}]);
    lab.patch(&json!({"allow": allow}));
    shows(&tenant, "HostInfo", "far", Some(far));
    lab.patch(&json!({"allow": [{"clusters": ["/DC0/host/C9"]}], "defaults": {"cluster": null}}));
    shows(&tenant, "HostInfo", "near", None);
    shows(&tenant, "HostInfo", "far", Some(far));
}
