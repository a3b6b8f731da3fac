//! The other tenant tries the same, and has no more of it.

use serde_json::json;

use crate::{
    OURS, World, group,
    infos::{info_in, no_vm, shows_nothing},
    object_id, world,
};

/// The path of a VM of those who try elsewhere.
fn member(world: &World) -> String {
    world.own.machines().into_iter().find(|path| path.contains("/scarlet-replica-")).unwrap()
}

/// What tells of them, and not of the other tenant.
fn secrets(world: &World) -> Vec<String> {
    let member = member(world);
    let ids = world.own.govc(&["object.collect", "-s", &member, "config.uuid", "config.instanceUuid"]).unwrap();
    let names = ["crimson", "scarlet", "rose", "/DC0/vm/red", &world.own.host, &world.shared.host];
    names.into_iter().chain(ids.lines()).map(ToOwned::to_owned).collect()
}

/// What must not change of their VM.
fn seen(world: &World) -> String {
    let properties = ["name", "parent", "runtime.powerState", "runtime.bootTime", "config.instanceUuid"];
    world.own.govc(&[&["object.collect", "-s", &member(world)], &properties[..]].concat()).unwrap()
}

#[test]
fn the_other_tenant_clones_and_takes_over_nothing_either() {
    let Some(world) = world() else { return };
    let (before, blue) = (seen(world), world.blue("blue-templates"));
    let uid = world.crimson.namespace.get("vg", "scarlet").unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let words = [
        ("by-name", "rose".to_owned()),
        ("by-path", OURS.to_owned()),
        ("by-id", format!("moref:{}", object_id(&world.shared, OURS))),
        ("odd", "/DC0/vm/sapphire/../red/rose".to_owned()),
    ];
    blue.apply(&words.each_ref().map(|(name, word)| group(name, &json!({"template": word}))));
    let mut heir = group("scarlet", &json!({"vcenter": "own", "replicas": 0}));
    heir["metadata"]["annotations"] = json!({"vm.codeconnect.vmworld.com/take-over": uid});
    blue.apply(&[heir, group("folder", &json!({"template": "azure", "placement": {"folder": "/DC0/vm/red"}}))]);
    for (name, word) in &words {
        let said =
            format!("spec.template: namespace \"blue-templates\" may use no template {word:?} in VCenter \"shared\". ");
        blue.is_told("vg", name, "NotAllowed", &said);
    }
    let said =
        "spec.placement.folder: namespace \"blue-templates\" may use no folder \"/DC0/vm/red\" in VCenter \"shared\". ";
    blue.is_told("vg", "folder", "NotAllowed", said);
    let said = "spec.vcenter: there is no VCenter \"own\" that serves this namespace; those that can be named are cerulean, \
                default, shared";
    assert_eq!(blue.is_told("vg", "scarlet", "NoVCenter", said), said);
    blue.is_forbidden(&["delete", "vg", "scarlet", "-n", "crimson"]);
    blue.is_forbidden(&["get", "vg,vi", "-n", "crimson"]);
    world.nothing_was_done();
    assert_eq!(seen(world), before);
    blue.learned_nothing(&secrets(world));
}

#[test]
fn the_other_tenant_sees_nothing_either() {
    let Some(world) = world() else { return };
    let blue = world.blue("blue-infos");
    let words = ["rose".to_owned(), OURS.to_owned(), format!("moref:{}", object_id(&world.shared, OURS))];
    let named = |(number, word): (usize, &String)| info_in("shared", "VMInfo", &format!("info-{number}"), word);
    blue.apply(&words.iter().enumerate().map(named).collect::<Vec<_>>());
    let shell = json!({
        "apiVersion": "my-first-operator.jgato.io/v1alpha1", "kind": "MyOwnShell", "metadata": {"name": "shell"},
        "spec": {"size": 1, "vmGroupRef": {"name": "scarlet"}},
    });
    blue.apply(&[info_in("own", "VMInfo", "elsewhere", &member(world)), shell]);
    for (number, word) in words.iter().enumerate() {
        let (name, said) = (format!("info-{number}"), no_vm(word));
        assert_eq!(blue.is_told("vi", &name, "NotFound", &said), said);
        shows_nothing(&blue.namespace.get("vi", &name).unwrap()["status"]);
    }
    blue.is_told(
        "vi",
        "elsewhere",
        "NoVCenter",
        "spec.vcenter: there is no VCenter \"own\" that serves this namespace",
    );
    shows_nothing(&blue.namespace.get("vi", "elsewhere").unwrap()["status"]);
    let said = "spec.vmGroupRef: there is no VmGroup \"scarlet\" in blue-infos";
    assert_eq!(blue.is_told("myownshell", "shell", "VmGroupNotFound", said), said);
    world.nothing_was_done();
    blue.learned_nothing(&secrets(world));
}
