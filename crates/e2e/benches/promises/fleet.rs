//! Groups in several vCenters, of which one answers slowly.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{Operator, Sandbox, VCenter, vm_group};
use serde_json::{Value, json};

use crate::site;

const GROUPS: usize = 10;
const MACHINES: u64 = 3;
const PATIENCE: Duration = Duration::from_mins(2);

/// Five vCenters with ten groups of three machines each.
pub(crate) struct Fleet {
    // Ended before the sandbox that it runs on.
    _operator: Operator,
    sandbox: Sandbox,
    vcenters: Vec<VCenter>,
}

impl Fleet {
    pub(crate) fn new(flags: &[&str]) -> Self {
        let sandbox = site::start("fleet", &[flags, &["--vcenters=5"]].concat());
        sandbox.install_kinds();
        let others = (1..5).map(|_| sandbox.own_vcenter());
        let vcenters: Vec<_> = std::iter::once(sandbox.vcenter().clone()).chain(others).collect();
        for (number, vcenter) in vcenters.iter().enumerate() {
            vcenter.declare(&sandbox, &format!("lab-{number}"), &json!({}));
        }
        let operator = Operator::start(&sandbox, sandbox.vcenter()).expect("the operator can be started");
        let fleet = Self { _operator: operator, sandbox, vcenters };
        fleet.until("all are connected", || {
            let path = r#"jsonpath={.items[*].status.conditions[?(@.type=="Connected")].status}"#;
            let shown = fleet.sandbox.kubectl().run(&["get", "vc", "-o", path]).unwrap_or_default();
            shown.split_whitespace().filter(|word| *word == "True").count() == fleet.vcenters.len()
        });
        fleet
    }

    /// How long all but the last take for their machines, which may answer each call so much later.
    pub(crate) fn round(&self, name: &str, latency: Option<&str>) -> Duration {
        let (slow, others) = self.vcenters.split_last().expect("there are five");
        if let Some(latency) = latency {
            slow.rule(&json!({"method": "*", "client": site::OPERATOR, "latency": latency}));
        }
        let namespace = self.sandbox.namespace(name);
        let groups = (0..GROUPS).flat_map(|group| (0..self.vcenters.len()).map(move |vcenter| (group, vcenter)));
        let group = |(group, vcenter): (usize, usize)| {
            let spec = json!({"replicas": MACHINES, "vcenter": format!("lab-{vcenter}")});
            vm_group(&format!("web-{vcenter}-{group}"), &spec)
        };
        let items: Vec<Value> = groups.map(group).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
        let began = Instant::now();
        namespace.kubectl_with_input(&["create", "-f", "-"], &list).unwrap_or_else(|failure| panic!("{failure}"));
        let all = u64::try_from(GROUPS).unwrap_or_default() * MACHINES;
        self.until("the others have their machines", || {
            others.iter().all(|vcenter| vcenter.machine_counts().powered_on == all)
        });
        let took = began.elapsed();
        self.until("so has the last", || slow.machine_counts().powered_on == all);
        slow.control("DELETE", "/rules", &Value::Null).expect("rules can always be removed");
        namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap_or_else(|failure| panic!("{failure}"));
        took
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}\n{}", self.sandbox.dump());
            thread::sleep(site::GLANCE);
        }
    }
}
