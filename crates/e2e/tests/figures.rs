//! How much hosts and machines use: what it costs to show it, to vCenter and to the API server.

use std::{collections::BTreeMap, thread, time::Duration};

use drover_e2e::{Namespace, Operator, Sandbox, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(2);
const MACHINES: usize = 40;

fn info(kind: &str, name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "topology.corinternal.com/v1", "kind": kind, "metadata": metadata, "spec": spec})
}

fn name(number: usize) -> String {
    format!("DC0_C0_RP0_VM{number}")
}

fn use_cpu(sandbox: &Sandbox, mhz: i64) {
    for number in 1..=MACHINES {
        let path = format!("/machines/{}", name(number));
        sandbox.vcenter().control("PATCH", &path, &json!({"cpuMHz": mhz})).unwrap();
    }
}

/// The statuses of all VMInfos, once each shows this use.
fn all_show(sandbox: &Sandbox, namespace: &Namespace, mhz: i64) -> Vec<Value> {
    eventually(sandbox, SOON, &format!("all machines use {mhz} MHz"), || {
        let shown = namespace.kubectl(&["get", "vi", "-o", "json"]).map_err(|failure| failure.to_string())?;
        let shown: Value = serde_json::from_str(&shown).unwrap();
        let items = shown["items"].as_array().unwrap();
        let statuses: Vec<_> = items.iter().map(|item| item["status"].clone()).collect();
        let right = statuses.iter().filter(|status| status["cpuUse"] == mhz).count();
        if right == MACHINES { Ok(statuses) } else { Err(format!("{right} of {MACHINES}")) }
    })
}

#[test]
fn figures_are_read_in_one_call_a_minute_for_all_that_is_shown_and_written_five_times_a_second() {
    let flags = ["--hosts=2", &format!("--machines={MACHINES}")];
    let sandbox = Sandbox::start("figures", &flags).unwrap();
    sandbox.install_kinds();
    let namespace = sandbox.namespace("figures");
    let operator = Operator::start(&sandbox, sandbox.vcenter()).unwrap();
    eventually(&sandbox, SOON, "the operator has read vCenter", || {
        let log = operator.log();
        if log.contains("vCenter mirrored") { Ok(()) } else { Err(log) }
    });
    let reads = || sandbox.vcenter().calls("RetrievePropertiesEx", "drover");
    let before = reads();
    thread::sleep(Duration::from_secs(65));
    assert_eq!(reads(), before, "nothing is shown, so nothing is read");

    use_cpu(&sandbox, 700);
    let machines =
        (1..=MACHINES).map(|number| info("VMInfo", &format!("vm-{number}"), &json!({"nodename": name(number)})));
    let hosts = (0..2)
        .map(|number| info("HostInfo", &format!("h-{number}"), &json!({"hostname": format!("DC0_C0_H{number}")})));
    let items: Vec<_> = machines.chain(hosts).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    namespace.kubectl_with_input(&["create", "-f", "-"], &list.to_string()).unwrap();
    all_show(&sandbox, &namespace, 700);
    // kubectl makes one after the other, and what is new is gathered for a second.
    let first = reads() - before;
    assert!(first <= 8, "{first} calls to read {} objects that are new", items.len());

    let before = reads();
    use_cpu(&sandbox, 1700);
    let statuses = all_show(&sandbox, &namespace, 1700);
    let calls = reads() - before;
    assert!((1..=2).contains(&calls), "{calls} calls to read all again, in {SOON:?} at most");
    let mut written: BTreeMap<&str, usize> = BTreeMap::new();
    for status in &statuses {
        *written.entry(status["figuresTime"].as_str().unwrap()).or_default() += 1;
    }
    assert!(written.values().all(|count| *count <= 5), "more than five writes in a second: {written:?}");
}
