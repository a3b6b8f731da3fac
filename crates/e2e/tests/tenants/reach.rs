//! Templates, places and vCenters that are another's.

use drover_e2e::Tenant;
use serde_json::{Value, json};

use crate::{ASKED, GOLDEN, OURS, RUNNING, group, object_id, world};

#[test]
fn a_vm_of_another_tenant_is_cloned_by_no_name() {
    let Some(world) = world() else { return };
    let red = world.red("red-templates");
    let words = [
        ("nothing", "nothing".to_owned()),
        ("by-name", "azure".to_owned()),
        ("by-path", GOLDEN.to_owned()),
        ("by-id", format!("moref:{}", object_id(&world.shared, GOLDEN))),
        ("running", RUNNING.to_owned()),
        ("running-by-id", format!("moref:{}", object_id(&world.shared, RUNNING))),
        ("member", world.member.clone()),
        ("member-by-name", world.member.rsplit('/').next().unwrap().to_owned()),
        ("member-by-id", format!("moref:{}", object_id(&world.shared, &world.member))),
    ];
    let odd = [
        "/DC0/vm/red/../sapphire/azure",
        "/DC0/vm/sapphire/azure/",
        "//DC0/vm/sapphire/azure",
        "DC0/vm/sapphire/azure",
        "vm/sapphire/azure",
        "sapphire/azure",
        "/DC0/vm/%73apphire/azure",
        "/dc0/VM/sapphire/azure",
        "AZURE",
        "*",
    ];
    let odd = odd.into_iter().enumerate().map(|(number, word)| (format!("odd-{number}"), word.to_owned()));
    let words: Vec<_> = words.map(|(name, word)| (name.to_owned(), word)).into_iter().chain(odd).collect();
    red.apply(&words.iter().map(|(name, word)| group(name, &json!({"template": word}))).collect::<Vec<_>>());
    for (name, word) in &words {
        let said =
            format!("spec.template: namespace \"red-templates\" may use no template {word:?} in VCenter \"shared\". ");
        let message = red.is_told("vg", name, "NotAllowed", &said);
        let mends =
            ["To allow it, add to spec.allow of the VCenter: {", "Name it by its path, so that an administrator "];
        assert!(mends.iter().any(|words| message[said.len()..].starts_with(words)), "{message}");
        assert_eq!(message.matches("may use no").count(), 1, "{message}");
        let status = red.namespace.get("vg", name).unwrap()["status"].clone();
        let stalled = has_condition(&status, "Stalled", "True") && has_condition(&status, "Allowed", "False");
        assert!(stalled && status["currentReplicas"] == 0, "{status}");
    }
    world.nothing_came_of_it(&red);
}

fn has_condition(status: &Value, kind: &str, value: &str) -> bool {
    status["conditions"].as_array().into_iter().flatten().any(|it| it["type"] == kind && it["status"] == value)
}

#[test]
fn vms_are_placed_nowhere_but_where_the_namespace_may() {
    let Some(world) = world() else { return };
    let red = world.red("red-places");
    let id = |path: &str| format!("moref:{}", object_id(&world.shared, path));
    let (folder, pool) = (id("/DC0/vm/sapphire"), id("/DC0/host/DC0_C0/Resources/indigo"));
    let (cluster, datastore) = (id("/DC0/host/lapis"), id("/DC0/datastore/teal"));
    let places = [
        ("folder", "folder", "folder", "/DC0/vm/sapphire"),
        ("folder-by-name", "folder", "folder", "sapphire"),
        ("folder-by-id", "folder", "folder", &folder),
        ("pool", "resourcePool", "resource pool", "/DC0/host/DC0_C0/Resources/indigo"),
        ("pool-by-id", "resourcePool", "resource pool", &pool),
        ("cluster", "cluster", "cluster", "lapis"),
        ("cluster-by-id", "cluster", "cluster", &cluster),
        ("datastore", "datastore", "datastore", "teal"),
        ("datastore-by-id", "datastore", "datastore", &datastore),
        ("no-datastore", "datastore", "datastore", "nothing"),
    ];
    red.apply(&places.map(|(name, field, _, word)| group(name, &json!({"placement": {field: word}}))));
    let by_id = id("/DC0/network/aegean");
    let networks =
        [("network", "aegean"), ("network-by-path", "/DC0/network/aegean"), ("network-by-id", by_id.as_str())];
    red.apply(&networks.map(|(name, word)| group(name, &json!({"networks": [word]}))));
    red.apply(&[
        group("host", &json!({"placement": {"hosts": ["beryl"]}})),
        group("host-by-path", &json!({"placement": {"hosts": ["/DC0/host/lapis/beryl"]}})),
        group("no-host", &json!({"placement": {"hosts": ["nothing"]}})),
    ]);
    let may_use_no = |field: &str, noun: &str, word: &str| {
        format!("spec.{field}: namespace \"red-places\" may use no {noun} {word:?} in VCenter \"shared\". ")
    };
    for (name, field, noun, word) in places {
        red.is_told("vg", name, "NotAllowed", &may_use_no(&format!("placement.{field}"), noun, word));
    }
    for (name, word) in networks {
        red.is_told("vg", name, "NotAllowed", &may_use_no("networks", "network", word));
    }
    for (name, word) in [("host", "beryl"), ("host-by-path", "/DC0/host/lapis/beryl"), ("no-host", "nothing")] {
        let said = format!("spec.placement.hosts: there is no host {word:?} for its resource pool");
        assert_eq!(red.is_told("vg", name, "NotFound", &said), said);
    }
    world.nothing_came_of_it(&red);
}

#[test]
fn a_vcenter_that_serves_others_is_as_if_it_were_not_there() {
    let Some(world) = world() else { return };
    let red = world.red("red-vcenters");
    let names = ["cerulean", "default", "nowhere"];
    red.apply(&names.map(|name| group(name, &json!({"vcenter": name}))));
    let mut unnamed = group("unnamed", &json!({}));
    unnamed["spec"].as_object_mut().unwrap().remove("vcenter");
    red.apply(&[unnamed]);
    for name in names {
        let said = format!(
            "spec.vcenter: there is no VCenter {name:?} that serves this namespace; those that can be named are own, shared"
        );
        assert_eq!(red.is_told("vg", name, "NoVCenter", &said), said);
    }
    let said = "several VCenters serve this namespace (own, shared): name one of them in spec.vcenter";
    assert_eq!(red.is_told("vg", "unnamed", "NoVCenter", said), said);
    for others in [world.sandbox.vcenter(), &world.theirs] {
        assert!(others.changes().is_empty(), "{:?}", others.changes());
        assert_eq!(others.machines(), ["/DC0/vm/vm-operator/vm-operator-template"]);
    }
    world.nothing_came_of_it(&red);
}

#[test]
fn a_tenant_can_not_label_itself_into_an_entry() {
    let Some(world) = world() else { return };
    let stray = Tenant::new(world.sandbox, "stray", &json!({}));
    for change in
        [["label", "team=blue"], ["label", "team=red"], ["annotate", "vm.codeconnect.vmworld.com/vcenter=shared"]]
    {
        stray.is_forbidden(&[change[0], "namespace", "stray", change[1]]);
    }
    // Labels of its own objects are not looked at.
    let mut labelled = group("labelled", &json!({"template": OURS}));
    labelled["metadata"]["labels"] = json!({"team": "blue"});
    let mut unnamed = labelled.clone();
    unnamed["metadata"]["name"] = "unnamed".into();
    unnamed["spec"].as_object_mut().unwrap().remove("vcenter");
    stray.apply(&[labelled, unnamed]);
    let said = "spec.vcenter: there is no VCenter \"shared\" that serves this namespace";
    assert_eq!(stray.is_told("vg", "labelled", "NoVCenter", said), said);
    let said = "no VCenter serves this namespace: name one in spec.vcenter or in the namespace's annotation \
                vm.codeconnect.vmworld.com/vcenter";
    assert_eq!(stray.is_told("vg", "unnamed", "NoVCenter", said), said);
    world.nothing_came_of_it(&stray);
}

#[test]
fn vms_that_run_or_are_a_groups_are_no_templates_for_a_tenant_of_an_open_vcenter() {
    let Some(world) = world() else { return };
    let labels = json!({"lot": "open"});
    let owner = Tenant::new(world.sandbox, "owner", &labels);
    let of = |name: &str, template: &str| group(name, &json!({"vcenter": "open", "template": template}));
    owner.apply(&[of("olive", "vm-operator-template")]);
    owner.is_told("vg", "olive", "Reconciled", "successfully reconciled VmGroup");
    let template = "/DC0/vm/vm-operator/vm-operator-template";
    world.open.govc(&["vm.clone", "-vm.ipath", template, "-folder", "/DC0/vm", "-on=true", "busy"]).unwrap();
    let member = world.open.machines().into_iter().find(|path| path.contains("/olive-replica-")).unwrap();
    let (runs, is_a_groups) =
        ("is powered on: use a template of vCenter", "is a VM of a VmGroup: clone it to a template");
    let id = |path: &str| format!("moref:{}", object_id(&world.open, path));
    let words = [
        ("running", "/DC0/vm/busy".to_owned(), runs),
        ("running-by-name", "busy".to_owned(), runs),
        ("running-by-id", id("/DC0/vm/busy"), runs),
        ("member", member.clone(), is_a_groups),
        ("member-by-name", member.rsplit('/').next().unwrap().to_owned(), is_a_groups),
        ("member-by-id", id(&member), is_a_groups),
    ];
    let before = world.open.machines();
    world.open.forget_calls();
    // Where nobody asks the webhook, and where the API server does.
    let red = Tenant::new(world.sandbox, "red-open", &labels);
    red.apply(&words.each_ref().map(|(name, word, _)| of(name, word)));
    let asked = Tenant::new(world.sandbox, "red-open-asked", &json!({"lot": "open", ASKED: "true"}));
    for (name, word, why) in &words {
        let said = format!("spec.template: {word:?} {why}");
        red.is_told("vg", name, "NotAllowed", &said);
        asked.is_denied(&of(name, word), &said);
    }
    assert_eq!(world.open.machines(), before);
    assert!(!world.open.changes().contains_key("CloneVM_Task"), "{:?}", world.open.changes());
    for tenant in [&red, &asked] {
        tenant.learned_nothing(&["owner".to_owned(), member.clone(), world.open.host.clone()]);
    }
    owner.kubectl(&["delete", "vg", "olive", "--timeout=60s"]).unwrap();
}
