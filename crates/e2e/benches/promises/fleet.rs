//! Groups in several vCenters, of which one may answer slowly.

use std::{ops::Range, path::Path, time::Duration};

use drover_e2e::{
    Namespace, Operator, Sandbox, VCenter,
    measurement::{Measurement, median},
    vm_group,
};
use serde_json::{Value, json};

use crate::{
    results::Run,
    site::{self, last_power_on, now, powered_on, until},
};

const GROUPS: usize = 10;
const MACHINES: usize = 3;
/// An even number, so that each is first as often as the other.
const ROUNDS: usize = 4;
const PATIENCE: Duration = Duration::from_mins(2);

/// One vCenter that answers slowly slows its own groups only.
pub(crate) fn one_slow_vcenter_of_five(run: &mut Run) {
    let fleet = Fleet::new("fleet", 5, &["--clone-delay=3s"]);
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        // In turns, each first as often as the other, so that whatever else the machine does meets both.
        for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let beside = [Beside::Nothing, Beside::SlowFifth][which];
            times[which].push(fleet.round(&format!("round-{round}-{which}"), beside));
        }
    }
    let [alone, one_slow] = times;
    // All clones of a vCenter can run at once. Requests of 40 VmGroups come first.
    let name = "4 vCenters with 10 VmGroups of 3 VMs each";
    run.add(Measurement::new(name, "s", alone.clone()).limit(3.0, "vCenter: 1 × 3 s", 2.0));
    let measured = Measurement::new("the same beside a slow fifth", "s", one_slow);
    run.add(measured.limit(median(&alone), "the four alone", 1.1));
}

/// What four vCenters work beside.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Beside {
    Nothing,
    SlowFifth,
}

/// Several vCenters, which one operator works in.
pub(crate) struct Fleet {
    // Ended before the sandbox that it runs on.
    pub(crate) operator: Operator,
    pub(crate) sandbox: Sandbox,
    pub(crate) vcenters: Vec<VCenter>,
}

impl Fleet {
    pub(crate) fn new(name: &str, vcenters: usize, flags: &[&str]) -> Self {
        let sandbox = site::start(name, &[flags, &[&format!("--vcenters={vcenters}")]].concat());
        sandbox.install_kinds();
        let others = (1..vcenters).map(|_| sandbox.own_vcenter());
        let vcenters: Vec<_> = std::iter::once(sandbox.vcenter().clone()).chain(others).collect();
        for (number, vcenter) in vcenters.iter().enumerate() {
            vcenter.declare(&sandbox, &format!("lab-{number}"), &json!({}));
        }
        // It has none in its environment: that would be followed beside those that are declared.
        let kubeconfig = Path::new(&sandbox.environment()["KUBECONFIG"]);
        let operator = Operator::start_as_user(kubeconfig, "drover", &sandbox, None, &[]);
        let operator = operator.expect("the operator can be started");
        let fleet = Self { operator, sandbox, vcenters };
        fleet.until("all are connected", || {
            let path = r#"jsonpath={.items[*].status.conditions[?(@.type=="Connected")].status}"#;
            let shown = fleet.sandbox.kubectl().run(&["get", "vc", "-o", path]).unwrap_or_default();
            shown.split_whitespace().filter(|word| *word == "True").count() == fleet.vcenters.len()
        });
        fleet
    }

    /// How long all but the last take for their machines: alone, or while the last is busy with its own and answers each call a second later.
    fn round(&self, name: &str, beside: Beside) -> f64 {
        let (slow, others) = self.vcenters.split_last().expect("there are five");
        let namespace = self.sandbox.namespace(name);
        let all = GROUPS * MACHINES;
        if beside == Beside::SlowFifth {
            slow.rule(&json!({"method": "*", "client": site::OPERATOR, "latency": "1s"}));
            slow.forget_calls();
            create(&namespace, others.len()..self.vcenters.len(), GROUPS, MACHINES);
            self.until("the last is busy", || slow.calls("CreateFolder", site::OPERATOR) > 0);
        }
        let began = now();
        create(&namespace, 0..others.len(), GROUPS, MACHINES);
        self.until("the others have their machines", || others.iter().all(|vcenter| powered_on(vcenter) == all));
        let took = others.iter().map(last_power_on).fold(0.0, f64::max) - began;
        if beside == Beside::SlowFifth {
            assert!(powered_on(slow) < all, "the last was busy all the time");
            self.until("so has the last", || powered_on(slow) == all);
            slow.control("DELETE", "/rules", &Value::Null).expect("rules can always be removed");
        }
        namespace.kubectl(&["delete", "vg", "--all", "--timeout=120s"]).unwrap_or_else(|failure| panic!("{failure}"));
        took
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let is_in_time = until(PATIENCE, is_so);
        assert!(is_in_time, "not within {PATIENCE:?}: {what}\n{}", self.sandbox.dump());
    }
}

/// Creates so many groups of so many machines in each of some vCenters, with one `kubectl create`.
pub(crate) fn create(namespace: &Namespace, vcenters: Range<usize>, groups: usize, machines: usize) {
    let groups = (0..groups).flat_map(|group| vcenters.clone().map(move |vcenter| (group, vcenter)));
    let group = |(group, vcenter): (usize, usize)| {
        let spec = json!({"replicas": machines, "vcenter": format!("lab-{vcenter}")});
        vm_group(&format!("web-{vcenter}-{group}"), &spec)
    };
    let list = json!({"apiVersion": "v1", "kind": "List", "items": groups.map(group).collect::<Vec<_>>()});
    let created = namespace.kubectl_with_input(&["create", "-f", "-"], &list.to_string());
    created.unwrap_or_else(|failure| panic!("{failure}"));
}
