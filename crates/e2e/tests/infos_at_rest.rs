//! What it costs to show all hosts and machines of a vCenter, when nothing happens to them.

use std::time::Duration;

use drover_e2e::at_rest;

#[test]
fn at_rest_infos_cost_vcenter_two_calls_a_minute_and_the_api_server_nothing() {
    // One of a time that has only begun counts too.
    let calls = at_rest(10, 50, Duration::from_secs(5));
    assert!(calls <= 1, "{calls} calls in five seconds");
}
