//! The API server does not let the operator tell whom to trust.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Fate, Gate, Group, Operator, Requests, SOON, Sandbox, eventually};
use serde_json::json;

use crate::{configure, free_port, said};

#[test]
fn an_api_server_that_refuses_the_certificates_is_asked_seldom_and_the_operator_works_on() {
    let sandbox = &Sandbox::start("distrusted", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let gate = Gate::open(sandbox);
    let refused = gate.rule(Requests::ChangesOf("/validatingwebhookconfigurations/"), Fate::Refused(403), 0, 0);
    let address = format!("--webhook-addr=127.0.0.1:{port}");
    let began = Instant::now();
    let operator = Operator::start_as_behind("first", &gate, sandbox, sandbox.vcenter(), &[&address]).unwrap();
    let group = Group::create(sandbox, "distrusted", &json!({"replicas": 1}));
    group.runs_with(1);
    let status = |path: &str| operator.ask("GET", path).map(|answer| answer.0);
    eventually(sandbox, SOON, "it is ready all the same", || {
        assert_eq!(status("/healthz"), Ok(200));
        if status("/readyz") == Ok(200) { Ok(()) } else { Err(format!("{:?}", began.elapsed())) }
    });
    let at_first = refused.met().len();
    let most = began.elapsed().as_millis() / 500 + 1;
    assert!(at_first > 2 && at_first as u128 <= most, "{at_first} of {most}");
    // It asks less from then on.
    thread::sleep(Duration::from_secs(11));
    let later = refused.met().len() - at_first;
    assert!((1..=4).contains(&later), "{later}");
    assert_eq!(status("/healthz"), Ok(200));
    let warned = operator.log().matches("Admission webhook not known to the API server").count();
    assert_eq!(warned, 1, "it is said once: {}", operator.log());
    group.patch(&json!({"replicas": 2})).unwrap();
    group.runs_with(2);

    let _ = refused.remove();
    eventually(sandbox, SOON, "the API server is answered", || {
        let said = said(&group, "scale vg/distrusted --replicas=0 --dry-run=server");
        if said.contains("Warning: destroys 2 VMs") { Ok(()) } else { Err(said) }
    });
}
