//! The same where the API server asks the webhook: what is refused is not even stored, and nobody learns more from it.

use drover_e2e::{SOON, Tenant, eventually};
use serde_json::json;

use crate::{ASKED, GOLDEN, group, object_id, world};

#[test]
fn the_webhook_refuses_the_same_and_tells_nothing_of_others() {
    let Some(world) = world() else { return };
    let red = Tenant::new(world.sandbox, "red-asked", &json!({"team": "red", ASKED: "true"}));
    let may_use_no = |field: &str, noun: &str, word: &str| {
        format!("spec.{field}: namespace \"red-asked\" may use no {noun} {word:?} in VCenter \"shared\". ")
    };
    for word in ["nothing", "azure", GOLDEN, &world.member, &format!("moref:{}", object_id(&world.shared, GOLDEN))] {
        red.is_denied(&group("tried", &json!({"template": word})), &may_use_no("template", "template", word));
    }
    for word in ["nothing", "/DC0/vm/sapphire", "sapphire"] {
        let said = may_use_no("placement.folder", "folder", word);
        red.is_denied(&group("tried", &json!({"placement": {"folder": word}})), &said);
    }
    let key = "monitor.phys_bits_used";
    let said = format!("spec.extraConfig: namespace \"red-asked\" may not set {key:?} in VCenter \"shared\". ");
    red.is_denied(&group("tried", &json!({"extraConfig": {key: "x"}})), &said);
    // Who means it is refused as well.
    let told = red.refused(&group("tried", &json!({"template": GOLDEN})));
    assert!(told.contains("denied the request: spec.template: "), "{told}");
    assert!(red.namespace.list("vg").unwrap().is_empty());

    let many = group("many", &json!({"vcenter": "own", "template": "vm-operator-template", "replicas": 3}));
    eventually(world.sandbox, SOON, "what would wait for the quota is told", || {
        let told = red.tries(std::slice::from_ref(&many), &["--dry-run=server"]);
        let told = told.map_err(|failure| failure.to_string())?;
        let words =
            "Warning: 1 VM would wait for the quota of namespace \"red-asked\" in VCenter \"own\": 0 of 2 VMs are used";
        if told.contains(words) { Ok(()) } else { Err(told) }
    });
    // A vCenter that serves others is as if it were not there.
    let told = ["cerulean", "nowhere"].map(|name| {
        let told = red.tries(&[group("tried", &json!({"vcenter": name}))], &["--dry-run=server"]);
        told.unwrap_or_else(|failure| failure.stderr).replace(name, "")
    });
    assert_eq!(told[0], told[1]);
    world.nothing_came_of_it(&red);
}
