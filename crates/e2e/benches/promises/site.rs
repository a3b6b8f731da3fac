//! A sandbox with the operator on it, and vCenter's own clock.

use std::{
    collections::BTreeMap,
    path::Path,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use drover_e2e::{Namespace, Operator, PowerChange, Sandbox, VCenter, measurement::to_f64, vm_group};
use serde_json::{Value, json};

use crate::floor;

/// What the operator calls itself to vCenter.
pub(crate) const OPERATOR: &str = "drover";
/// How often somebody looks who waits. No time is measured by it: vCenter notes when it has done what.
pub(crate) const GLANCE: Duration = Duration::from_millis(20);
pub(crate) const AT_ONCE: &str = "--clone-delay=0s";
/// Where clones have to wait for each other: a clone takes 3 s, and each of 8 hosts works on 4 at a time, as ESXi does with full clones.
/// Drover has 8 under way on a host, so half of them wait in vCenter.
pub(crate) const CONTENDED: [&str; 3] = ["--clone-delay=3s", "--clones-per-host=4", "--hosts=8"];
pub(crate) const CLONE: f64 = 3.0;
pub(crate) const HOSTS: usize = 8;
pub(crate) const AT_A_TIME: usize = 4 * HOSTS;
/// Where nothing is written for so long, nothing more is to come.
const QUIET: Duration = Duration::from_secs(6);
/// The longest that it takes until all VMInfos of the largest group are written.
const SETTLED: Duration = Duration::from_mins(10);
const WRITES: [&str; 5] = ["POST", "PUT", "PATCH", "APPLY", "DELETE"];
const KINDS: [&str; 5] = ["vmgroups", "vminfoes", "hostinfoes", "vcenters", "events"];

/// A sandbox of its own for a benchmark, with an operator that has nothing to do yet.
pub(crate) struct Site {
    // Ended before the sandbox that it runs on.
    pub(crate) operator: Operator,
    pub(crate) namespace: Namespace,
    pub(crate) sandbox: Sandbox,
}

/// What it took to have VMs made.
#[derive(Clone, Copy)]
pub(crate) struct Made {
    /// Until vCenter has powered on the last of them.
    pub(crate) seconds: f64,
    /// Calls to vCenter until all is at rest.
    pub(crate) calls: f64,
    /// Writes to the API server until nothing more is written, of everybody, to Drover's kinds and events.
    pub(crate) writes: f64,
    /// Seconds that the operator had a processor until then.
    pub(crate) cpu: f64,
}

impl Site {
    pub(crate) fn new(name: &str, flags: &[&str]) -> Self {
        Self::start(name, flags, &[])
    }

    /// The same with flags for the operator.
    pub(crate) fn start(name: &str, flags: &[&str], of_operator: &[&str]) -> Self {
        let sandbox = start(name, flags);
        sandbox.install_kinds();
        let namespace = sandbox.namespace("bench");
        let operator = Operator::start_with(&sandbox, sandbox.vcenter(), of_operator);
        let operator = operator.expect("the operator can be started");
        let site = Self { operator, namespace, sandbox };
        site.rest();
        site
    }

    pub(crate) fn vcenter(&self) -> &VCenter {
        self.sandbox.vcenter()
    }

    /// Declares groups, by name and with what their specs say, waits until vCenter has powered on so many more VMs, and then until
    /// nothing more follows from it.
    pub(crate) fn make(&self, groups: &[(String, Value)], vms: usize, patience: Duration) -> Made {
        let vcenter = self.vcenter();
        let (writes, cpu) = (self.api_writes(), self.cpu_seconds());
        vcenter.forget_calls();
        let seconds = self.power_on(groups, vms, patience);
        let calls = if self.rests() { count(vcenter.all_calls(OPERATOR)) } else { f64::INFINITY };
        let is_settled = self.settles();
        let until_then = |now: f64, before: f64| if is_settled { now - before } else { f64::INFINITY };
        Made { seconds, calls, writes: until_then(self.api_writes(), writes), cpu: until_then(self.cpu_seconds(), cpu) }
    }

    /// How long it takes from before groups are declared until vCenter has powered on so many more VMs.
    pub(crate) fn power_on(&self, groups: &[(String, Value)], vms: usize, patience: Duration) -> f64 {
        let (vcenter, on) = (self.vcenter(), powered_on(self.vcenter()));
        vcenter.forget_power_changes();
        let began = now();
        self.apply(groups);
        let is_done = until(patience, || powered_on(vcenter) == on + vms);
        if is_done { last_power_on(vcenter) - began } else { f64::INFINITY }
    }

    /// Declares one group of so many VMs, which must be made.
    pub(crate) fn fill(&self, vms: usize) {
        self.declare(&group("web", vms), vms);
    }

    /// Declares a group, which must bring so many more VMs, and waits until all is at rest.
    pub(crate) fn declare(&self, group: &(String, Value), vms: usize) {
        let patience = Duration::from_mins(5);
        let seconds = self.power_on(std::slice::from_ref(group), vms, patience);
        assert!(seconds.is_finite(), "{vms} VMs are made within {patience:?}\n{}", self.sandbox.dump());
        self.rest();
    }

    /// Declares groups, and waits for nothing.
    pub(crate) fn apply(&self, groups: &[(String, Value)]) {
        let items: Vec<_> = groups.iter().map(|(name, spec)| vm_group(name, spec)).collect();
        let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.namespace.apply(&manifest.to_string()).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Deletes all groups, and waits until they are gone with their VMs.
    pub(crate) fn clear(&self) {
        let delete = ["delete", "vg", "--all", "--timeout=5m"];
        self.namespace.kubectl(&delete).unwrap_or_else(|failure| panic!("{failure}"));
        self.rest();
    }

    /// The inventory paths of the groups' VMs.
    pub(crate) fn members(&self) -> Vec<String> {
        let find = ["find", "/DC0/vm/vm-operator", "-type", "m", "-name", "*-replica-*"];
        let found = self.vcenter().govc(&find).unwrap_or_else(|failure| panic!("{failure}"));
        found.lines().map(ToOwned::to_owned).collect()
    }

    /// Has somebody power off VMs one after the other, and returns for each how long it was off, by vCenter's clock.
    pub(crate) fn drift(&self, machines: &[String]) -> Vec<f64> {
        let (vcenter, on) = (self.vcenter(), powered_on(self.vcenter()));
        vcenter.forget_power_changes();
        let names = machines.iter().map(String::as_str);
        let off: Vec<_> = ["vm.power", "-off", "-force"].into_iter().chain(names).collect();
        vcenter.govc(&off).unwrap_or_else(|failure| panic!("{failure}"));
        if !until(Duration::from_secs(30), || powered_on(vcenter) == on) {
            return vec![f64::INFINITY; machines.len()];
        }
        let off = off_times(&vcenter.power_changes());
        assert!(off.len() >= machines.len(), "each VM was off once");
        off
    }

    /// How many seconds the operator has a processor for one power-off that is put right, beyond what it takes at rest.
    pub(crate) fn cpu_of_a_repair(&self, machine: &str) -> f64 {
        let (began, before) = (Instant::now(), self.cpu_seconds());
        if self.drift(&[machine.to_owned()]).iter().any(|seconds| !seconds.is_finite()) {
            return f64::INFINITY;
        }
        // Until all that follows is said and written.
        thread::sleep(Duration::from_secs(1));
        let (took, at_rest) = (began.elapsed(), self.cpu_seconds());
        thread::sleep(took);
        ((at_rest - before) - (self.cpu_seconds() - at_rest)).max(0.0)
    }

    /// Ends the operator, powers a VM off, and measures from the operator's next start until vCenter has powered the VM on.
    pub(crate) fn restart(&mut self) -> f64 {
        let machine = self.stop();
        let moref = self.power_off(&machine);
        self.start_to_repair(&moref)
    }

    /// The same, and before it how long a bare client takes that reads all VMs and powers on the same one.
    pub(crate) fn restart_beside_bare_client(&mut self) -> (f64, f64) {
        let machine = self.stop();
        let moref = self.power_off(&machine);
        let bare = floor::read_all_and_power_on(self.vcenter(), &moref);
        self.power_off(&machine);
        (self.start_to_repair(&moref), bare)
    }

    /// Has another program in the operator's place, and waits until it rests.
    pub(crate) fn start_other(&mut self, program: &Path) {
        self.stop();
        self.vcenter().forget_calls();
        let other = Operator::start_program(program, &self.sandbox, self.vcenter());
        self.operator = other.expect("the operator can be started");
        self.rest();
    }

    /// Ends the operator, and returns the path of one of its VMs.
    fn stop(&mut self) -> String {
        let machine = self.members().into_iter().next().expect("the group has VMs");
        self.operator.terminate();
        assert!(self.operator.succeeds_within(Duration::from_secs(20)), "it ends when it is told to");
        machine
    }

    /// Powers a VM off, and returns its moref.
    fn power_off(&self, machine: &str) -> String {
        let govc = |arguments: &[&str]| self.vcenter().govc(arguments).unwrap_or_else(|failure| panic!("{failure}"));
        govc(&["vm.power", "-off", "-force", machine]);
        let listed = govc(&["ls", "-i", machine]);
        listed.trim().rsplit(':').next().unwrap_or_default().to_owned()
    }

    fn start_to_repair(&mut self, moref: &str) -> f64 {
        let vcenter = self.vcenter().clone();
        vcenter.forget_power_changes();
        let began = now();
        self.operator = Operator::start(&self.sandbox, &vcenter).expect("the operator can be started");
        let mut on = None;
        let is_on = |change: &PowerChange| change.on && change.machine == moref;
        until(Duration::from_mins(2), || {
            on = vcenter.power_changes().into_iter().find(is_on);
            on.is_some()
        });
        on.map_or(f64::INFINITY, |on| on.at - began)
    }

    /// How many requests the API server has had so far that write an object of Drover's kinds or an event, as it counts them itself.
    pub(crate) fn api_writes(&self) -> f64 {
        self.api_writes_by_labels().values().sum()
    }

    /// The same by what the API server says of them.
    pub(crate) fn api_writes_by_labels(&self) -> BTreeMap<String, f64> {
        api_writes_by_labels(&self.sandbox)
    }

    /// Makes up VMs of others.
    pub(crate) fn add_strangers(&self, machines: usize, extra_config_bytes: usize) {
        let strangers = json!({"machines": machines, "extraConfigBytes": extra_config_bytes});
        self.vcenter().control("POST", "/strangers", &strangers).expect("strangers can always be had");
    }

    /// Has others make so many changes a second.
    pub(crate) fn noise(&self, rate: u32) {
        self.vcenter().control("POST", "/noise", &json!({"rate": rate})).expect("noise can always be had");
    }

    /// Waits until the operator has nothing more to ask of vCenter.
    pub(crate) fn rest(&self) {
        assert!(self.rests(), "the operator asks vCenter on and on, or never:\n{}", self.operator.log());
    }

    /// The same, and whether it came to that within a minute.
    fn rests(&self) -> bool {
        let mut before = 0;
        for _ in 0..30 {
            thread::sleep(Duration::from_secs(2));
            let now = self.vcenter().all_calls(OPERATOR);
            if now == before && now > 0 {
                return true;
            }
            before = now;
        }
        false
    }

    /// Waits until nothing more is written of what has happened: events and VMInfos follow some seconds later.
    pub(crate) fn settle(&self) {
        assert!(self.settles(), "something is written on and on:\n{}", self.sandbox.dump());
    }

    /// The same, and whether it came to that within some minutes.
    fn settles(&self) -> bool {
        let mut before = self.api_writes();
        until(SETTLED, || {
            thread::sleep(QUIET);
            let now = self.api_writes();
            now.to_bits() == std::mem::replace(&mut before, now).to_bits()
        })
    }

    /// How long the operator has had a processor.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.operator.cpu_time().as_secs_f64()
    }

    /// Resident memory in MB.
    pub(crate) fn memory(&self) -> f64 {
        count(self.operator.memory()) / 1e6
    }

    /// The most resident memory so far, in MB.
    pub(crate) fn peak_memory(&self) -> f64 {
        count(self.operator.peak_memory()) / 1e6
    }
}

/// How many requests an API server has had so far that write a Lease. It has one of its own, of which it writes without asking itself.
pub(crate) fn lease_writes(sandbox: &Sandbox) -> f64 {
    writes_to(sandbox, &["leases"]).values().sum()
}

/// How many requests an API server has had so far that write an object of Drover's kinds or an event, by what it says of them.
pub(crate) fn api_writes_by_labels(sandbox: &Sandbox) -> BTreeMap<String, f64> {
    writes_to(sandbox, &KINDS)
}

fn writes_to(sandbox: &Sandbox, kinds: &[&str]) -> BTreeMap<String, f64> {
    let metrics = sandbox.kubectl().run(&["get", "--raw", "/metrics"]);
    let metrics = metrics.unwrap_or_else(|failure| panic!("{failure}"));
    let has = |line: &str, label: &str, values: &[&str]| {
        values.iter().any(|value| line.contains(&format!("{label}=\"{value}\"")))
    };
    let requests = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
    let writes = requests.filter(|line| has(line, "verb", &WRITES) && has(line, "resource", kinds));
    let count = |line: &str| line.rsplit_once(' ').and_then(|(labels, n)| Some((labels.to_owned(), n.parse().ok()?)));
    writes.filter_map(count).collect()
}

/// A group of so many VMs.
pub(crate) fn group(name: &str, vms: usize) -> (String, Value) {
    (name.to_owned(), json!({"replicas": vms}))
}

/// How long each VM was off that was powered off and on again.
pub(crate) fn off_times(changes: &[PowerChange]) -> Vec<f64> {
    let off = changes.iter().enumerate().filter(|(_, change)| !change.on);
    let on_again = |(at, off): (usize, &PowerChange)| {
        let on = changes[at..].iter().find(|change| change.on && change.machine == off.machine)?;
        Some(on.at - off.at)
    };
    off.filter_map(on_again).collect()
}

/// When vCenter powered a VM on for the last time.
pub(crate) fn last_power_on(vcenter: &VCenter) -> f64 {
    let changes = vcenter.power_changes();
    changes.iter().rev().find(|change| change.on).map_or(f64::INFINITY, |change| change.at)
}

pub(crate) fn powered_on(vcenter: &VCenter) -> usize {
    usize::try_from(vcenter.machine_counts().powered_on).expect("it has few VMs")
}

/// The time, by the clock that vCenter has too: in seconds since 1970.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970").as_secs_f64()
}

/// Waits until something is so. Returns whether it was in time.
pub(crate) fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !is_so() {
        if began.elapsed() > patience {
            return false;
        }
        thread::sleep(GLANCE);
    }
    true
}

pub(crate) fn count(number: u64) -> f64 {
    to_f64(usize::try_from(number).unwrap_or(usize::MAX))
}

/// A sandbox for one benchmark.
pub(crate) fn start(name: &str, flags: &[&str]) -> Sandbox {
    Sandbox::start(name, flags).unwrap_or_else(|failure| panic!("{failure}"))
}
