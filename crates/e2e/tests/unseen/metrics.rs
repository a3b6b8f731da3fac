//! What Prometheus is told of VMs that are missing, and of copies.

use drover_e2e::{Group, SOON, eventually};
use serde_json::json;

use crate::{copy, hide, name, operator, sandbox, stalls};

/// What the operator serves to Prometheus.
fn scrape() -> String {
    let log = operator().log();
    // The log is coloured, so there is more between the words of a line than is seen.
    let at = log.find("Metrics served").and_then(|at| Some(at + log[at..].find("127.0.0.1:")?));
    let address = log[at.expect("they are served from the start")..].lines().next().unwrap_or_default();
    ureq::get(format!("http://{address}/metrics")).call().unwrap().body_mut().read_to_string().unwrap()
}

/// Waits until the figures of the group's vCenter are these: held, missing, lookalikes.
#[track_caller]
fn figures_are(group: &Group, expected: [u64; 3]) {
    let names = ["drover_safety_hold", "drover_vms_missing", "drover_lookalikes"];
    let vcenter = group.name();
    eventually(sandbox(), SOON, &format!("{names:?} are {expected:?}"), || {
        let metrics = scrape();
        let is = |name: &str, value: u64| {
            let line = format!("{name}{{vcenter=\"{vcenter}\"}} {value}");
            metrics.lines().any(|served| served == line)
        };
        let is_so = names.iter().zip(expected).all(|(name, value)| is(name, value));
        let about = || metrics.lines().filter(|line| line.contains(vcenter)).collect::<Vec<_>>().join("\n");
        if is_so { Ok(()) } else { Err(about()) }
    });
}

#[test]
fn metrics_tell_of_a_hold_of_missing_vms_and_of_copies() {
    let group = Group::create_apart(sandbox(), "metrics", &json!({"replicas": 4}));
    let machines = group.runs_with(4);
    figures_are(&group, [0, 0, 0]);
    copy(&group, &machines[0], "copied");
    figures_are(&group, [0, 0, 1]);
    hide(&group, &[name(&machines[2]), name(&machines[3])]);
    stalls(&group, "SafetyHold", "2 of 4 VMs are missing at once");
    figures_are(&group, [1, 2, 1]);
    hide(&group, &[]);
    figures_are(&group, [0, 0, 1]);
    group.recovers_to(4, "runtime.powerState", "poweredOn");
}
