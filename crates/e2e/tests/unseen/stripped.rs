//! A group that somebody has taken out of Drover's hands.

use std::thread;

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::{A_WHILE, sandbox};

#[test]
fn when_somebody_strips_the_finalizer_clones_that_wait_are_not_made_for_nobody() {
    let group = Group::create_apart(sandbox(), "stripped", &json!({"replicas": 0}));
    group.settles_with(0, "runtime.powerState", "poweredOn");
    let limit = json!({"spec": {"limits": {"operations": 1}}}).to_string();
    sandbox().kubectl().run(&["patch", "vc", group.name(), "--type=merge", "-p", &limit]).unwrap();
    let rule =
        group.vcenter().rule(&json!({"method": "CloneVM_Task", "client": "drover", "skip": 2, "hold": "before"}));
    group.patch(&json!({"replicas": 8})).unwrap();
    eventually(sandbox(), SOON, "the third clone is under way", || {
        let hits = rule.hits();
        if hits == 1 { Ok(()) } else { Err(format!("{hits} are")) }
    });
    thread::sleep(A_WHILE / 4);
    assert_eq!(rule.hits(), 1, "the others wait for their turn");
    let strip = ["patch", "vg", group.name(), "--type=merge", "-p", r#"{"metadata": {"finalizers": null}}"#];
    group.namespace.kubectl(&strip).unwrap();
    group.begin_to_delete();
    // Drover may have set it again in between. Of a group that is to be deleted it can't.
    let _ = group.namespace.kubectl(&strip);
    group.is_gone();
    thread::sleep(A_WHILE / 4);
    rule.remove();
    thread::sleep(A_WHILE);
    assert_eq!(group.vcenter().calls("CloneVM_Task", "drover"), 3, "clones asked for");
}
