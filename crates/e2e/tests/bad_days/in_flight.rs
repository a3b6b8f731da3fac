//! Clones that are on their way when an operator ends are found by the next, whatever the group says by then.

use std::time::Duration;

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::json;

#[test]
fn clones_in_flight_outlive_their_operator_and_neither_are_doubled_nor_left_behind() {
    let sandbox = Sandbox::start("in-flight", &["--clone-delay=8s"]).unwrap();
    sandbox.install_kinds();
    let vcenter = sandbox.vcenter();
    // Nor does it help to listen to vCenter's list of tasks.
    vcenter.control("PUT", "/recent-tasks", &json!({"notify": false})).unwrap();
    let operator = Operator::start(&sandbox, vcenter).unwrap();
    let stays = Group::create(&sandbox, "stays", &json!({}));
    let goes = Group::create(&sandbox, "goes", &json!({}));
    eventually(&sandbox, SOON, "all four are on their way", || {
        let cloning = vcenter.machine_counts().cloning;
        if cloning == 4 { Ok(()) } else { Err(format!("{cloning}")) }
    });
    drop(operator);
    // Not even the template is the one that they are made from.
    goes.patch(&json!({"template": "no-such-template"})).unwrap();
    goes.begin_to_delete();
    let _operator = Operator::start(&sandbox, vcenter).unwrap();
    stays.runs_with(2);
    goes.is_gone();
    std::thread::sleep(Duration::from_secs(9));
    assert!(goes.everywhere().is_empty(), "{:?}", goes.everywhere());
    assert_eq!(stays.everywhere().len(), 2);
}
