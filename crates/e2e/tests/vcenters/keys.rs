//! Keys of extraConfig where the rules of a VCenter only warn.

use drover_e2e::eventually;
use serde_json::json;

use crate::{
    Declared, SOON,
    commands::{drover, text},
    reach::{group, says},
    sandbox,
};

#[test]
fn a_key_that_is_not_allowed_is_told_of_where_rules_only_warn_and_refused_once_they_are_enforced() {
    let lab = Declared::connected("keys-warn", &json!({"enforce": "Warn"}));
    let group = group(&lab, "keys-warn", &json!({"extraConfig": {"company.team": "a"}}));
    group.runs_with(1);
    let said = "would be refused: spec.extraConfig: namespace \"keys-warn\" may not set \"company.team\" in VCenter \"keys-warn\". ";
    says(&group, "Allowed", "False", said);
    group.tells("NotAllowed", said);
    let checked = text(&drover(sandbox(), None, &["check", "--operator-namespace=default", "-n", "keys-warn"]));
    assert!(checked.contains("ok   extraConfig   would be refused: spec.extraConfig: namespace"), "{checked}");

    // What no VCenter can allow is refused all the same. The API server lets this one in.
    let before = group.identities();
    group.patch(&json!({"extraConfig": {"guestinfo.a = \"b\"": "c"}, "replicas": 2})).unwrap();
    let message = says(&group, "Stalled", "True", "spec.extraConfig: \"guestinfo.a = \\\"b\\\"\" can't be set: ");
    assert!(!message.contains("company.team"), "that is not refused: {message}");
    assert_eq!(group.identities(), before);
    group.patch(&json!({"extraConfig": {"guestinfo.a = \"b\"": null}})).unwrap();
    group.runs_with(2);

    lab.patch(&json!({"enforce": "Enforce"}));
    group.patch(&json!({"replicas": 3})).unwrap();
    says(&group, "Stalled", "True", "spec.extraConfig: namespace \"keys-warn\" may not set \"company.team\"");
    lab.patch(&json!({"enforce": "Warn", "allow": [{"extraConfig": ["company.*"]}]}));
    group.runs_with(3);
    eventually(sandbox(), SOON, "nothing is said of keys that are allowed", || {
        let status = group.status()?;
        if status.to_string().contains("\"Allowed\"") { Err(status.to_string()) } else { Ok(()) }
    });
    group.delete();
}
