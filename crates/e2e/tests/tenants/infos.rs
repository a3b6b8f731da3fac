//! VMs and hosts that are another's, and those who would like to look at them.

use drover_e2e::{SOON, eventually};
use serde_json::{Value, json};

use crate::{ADDRESS, BLUE, GOLDEN, RUNNING, World, object_id, world};

fn info(kind: &str, name: &str, word: &str) -> Value {
    info_in("shared", kind, name, word)
}

pub(crate) fn info_in(vcenter: &str, kind: &str, name: &str, word: &str) -> Value {
    let field = if kind == "VMInfo" { "nodename" } else { "hostname" };
    let spec = json!({field: word, "vcenter": vcenter});
    json!({"apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// All that a VM is known by.
fn names(world: &World, path: &str) -> Vec<String> {
    let ids = world.shared.govc(&["object.collect", "-s", path, "config.uuid", "config.instanceUuid"]).unwrap();
    let mut all: Vec<_> = ids.lines().flat_map(|id| [id.to_owned(), id.to_uppercase()]).collect();
    all.push(format!("moref:{}", object_id(&world.shared, path)));
    let name = path.rsplit('/').next().unwrap();
    all.extend([path.to_owned(), format!("{path}/"), format!("sapphire/{name}"), name.to_owned(), name.to_uppercase()]);
    all
}

#[test]
fn an_info_shows_nothing_of_another_tenants_vms_and_hosts() {
    let Some(world) = world() else { return };
    let red = world.red("red-infos");
    let vms = [RUNNING, GOLDEN, &world.member].into_iter().flat_map(|path| names(world, path));
    let vms: Vec<_> = ["nothing".to_owned(), ADDRESS.to_owned()].into_iter().chain(vms).collect();
    let hosts = ["nothing", "beryl", "/DC0/host/lapis/beryl"];
    let named = |kind: &'static str| {
        move |(number, word): (usize, &str)| info(kind, &format!("{}-{number}", kind.to_lowercase()), word)
    };
    let all = vms.iter().map(String::as_str).enumerate().map(named("VMInfo"));
    red.apply(&all.chain(hosts.into_iter().enumerate().map(named("HostInfo"))).collect::<Vec<_>>());
    // Nobody is told whether there is one.
    for (number, word) in vms.iter().enumerate() {
        let said = no_vm(word);
        let name = format!("vminfo-{number}");
        assert_eq!(red.is_told("vi", &name, "NotFound", &said), said);
        shows_nothing(&red.namespace.get("vi", &name).unwrap()["status"]);
    }
    for (number, word) in hosts.iter().enumerate() {
        let said = format!("spec.hostname: there is no host {word:?} that this namespace may see");
        let name = format!("hostinfo-{number}");
        assert_eq!(red.is_told("ch", &name, "NotFound", &said), said);
        shows_nothing(&red.namespace.get("ch", &name).unwrap()["status"]);
    }
    world.nothing_came_of_it(&red);
}

#[test]
fn an_info_shows_nothing_of_a_vcenter_that_serves_others() {
    let Some(world) = world() else { return };
    let red = world.red("red-elsewhere");
    let host = world.theirs.govc(&["find", "/", "-type", "h"]).unwrap().lines().next().unwrap().to_owned();
    let named = [("VMInfo", "vi", "vm-operator-template"), ("HostInfo", "ch", &*host)];
    let vcenters = ["cerulean", "default", "nowhere"];
    let of = |(kind, _, word): (&str, &str, &str)| vcenters.map(|name| info_in(name, kind, name, word));
    red.apply(&named.map(of).concat());
    for (kind, name) in named.iter().flat_map(|(_, kind, _)| vcenters.map(|name| (kind, name))) {
        let said = format!(
            "spec.vcenter: there is no VCenter {name:?} that serves this namespace; those that can be named are own, shared"
        );
        assert_eq!(red.is_told(kind, name, "NoVCenter", &said), said);
        shows_nothing(&red.namespace.get(kind, name).unwrap()["status"]);
    }
    world.nothing_came_of_it(&red);
}

/// What is said where a namespace may see no such VM.
pub(crate) fn no_vm(word: &str) -> String {
    format!("spec.nodename: no VM that this namespace may see has the name, path, UUID or address {word:?}")
}

/// Asserts that a status has conditions, and the generation that they are about, and nothing else.
#[track_caller]
pub(crate) fn shows_nothing(status: &Value) {
    let fields: Vec<_> = status.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions", "observedGeneration"], "{status}");
}

#[test]
fn a_vminfo_that_claims_another_tenants_group_shows_nothing() {
    let Some(world) = world() else { return };
    let red = world.red("red-forged");
    let member = world.member.rsplit('/').next().unwrap();
    let published = world.sandbox.existing_namespace(BLUE).get("vi", member).unwrap();
    // With the labels and the owner that Drover itself gives to those that it publishes.
    let mut forged = info("VMInfo", "forged", member);
    forged["metadata"]["labels"] = published["metadata"]["labels"].clone();
    red.apply(&[forged.clone()]);
    let said = no_vm(member);
    assert_eq!(red.is_told("vi", "forged", "NotFound", &said), said);
    world.nothing_came_of_it(&red);
    forged["metadata"]["name"] = "owned".into();
    forged["metadata"]["ownerReferences"] = published["metadata"]["ownerReferences"].clone();
    forged["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    red.apply(&[forged]);
    // The API server removes an object whose owner is in another namespace, sooner or later.
    eventually(world.sandbox, SOON, "the owned one shows nothing, or is gone", || {
        match red.namespace.get("vi", "owned") {
            Err(failure) if failure.stderr.contains("(NotFound)") => Ok(()),
            Err(failure) => Err(failure.to_string()),
            Ok(info) if info["status"]["conditions"].is_null() => Err(info.to_string()),
            Ok(info) => {
                shows_nothing(&info["status"]);
                Ok(())
            }
        }
    });
    red.kubectl(&["delete", "vi", "--all"]).unwrap();
    assert!(world.sandbox.existing_namespace(BLUE).get("vi", member).is_ok(), "that of its owner stays");
}

#[test]
fn a_shell_finds_no_vms_of_another_tenants_group() {
    let Some(world) = world() else { return };
    let red = world.red("red-shells");
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "shell"},
        "spec": {"size": 1, "vmGroupRef": {"name": "navy"}},
    });
    red.apply(&[shell]);
    let said = "spec.vmGroupRef: there is no VmGroup \"navy\" in red-shells";
    assert_eq!(red.is_told("myownshell", "shell", "VmGroupNotFound", said), said);
    world.nothing_came_of_it(&red);
}
