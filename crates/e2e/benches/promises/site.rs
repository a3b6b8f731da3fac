//! A sandbox with the operator on it, and a clock.

use std::{
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{MachineCounts, Namespace, Operator, Sandbox, VCenter, vm_group};
use serde_json::json;

/// What the operator calls itself to vCenter.
pub(crate) const OPERATOR: &str = "drover";
/// How often the witness looks: often enough for a hundredth of a second, rarely enough to take no part.
pub(crate) const GLANCE: Duration = Duration::from_millis(10);

/// A sandbox of its own for a benchmark, with an operator that has nothing to do yet.
pub(crate) struct Site {
    // Ended before the sandbox that it runs on.
    pub operator: Operator,
    namespace: Namespace,
    sandbox: Sandbox,
}

impl Site {
    pub(crate) fn new(name: &str, flags: &[&str]) -> Self {
        let sandbox = start(name, flags);
        sandbox.install_kinds();
        let namespace = sandbox.namespace("bench");
        let operator = Operator::start(&sandbox, sandbox.vcenter()).expect("the operator can be started");
        let site = Self { operator, namespace, sandbox };
        site.rest();
        site
    }

    pub(crate) fn vcenter(&self) -> &VCenter {
        self.sandbox.vcenter()
    }

    /// Declares groups, and measures from the end of `kubectl apply` until all their machines are powered on.
    pub(crate) fn declare(&self, groups: &[(&str, u32)], patience: Duration) -> Made {
        self.apply(groups);
        let all: u64 = groups.iter().map(|(_, replicas)| u64::from(*replicas)).sum();
        let mut at_once = 0;
        let took = witness(self.vcenter(), patience, |counts| {
            at_once = at_once.max(counts.cloning);
            counts.powered_on == all
        });
        Made { took, at_once }
    }

    /// Declares groups, and waits for nothing.
    pub(crate) fn apply(&self, groups: &[(&str, u32)]) {
        let items: Vec<_> =
            groups.iter().map(|(name, replicas)| vm_group(name, &json!({"replicas": replicas}))).collect();
        let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items});
        self.namespace.apply(&manifest.to_string()).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Powers a machine off, and measures from then until it is powered on again.
    pub(crate) fn heal_a_power_off(&self) -> Option<Duration> {
        self.heal(&self.a_machine())
    }

    /// One of the groups' machines.
    fn a_machine(&self) -> String {
        let machines = self.vcenter().machines();
        machines.iter().find(|path| path.contains("-replica-")).expect("the group has machines").clone()
    }

    fn heal(&self, machine: &str) -> Option<Duration> {
        let all = self.vcenter().machine_counts().powered_on;
        let (vcenter, machine) = (self.vcenter().clone(), machine.to_owned());
        let saboteur = thread::spawn(move || vcenter.govc(&["vm.power", "-off", "-force", &machine]));
        let patience = Duration::from_secs(20);
        let helped = || self.vcenter().calls("PowerOnVM_Task", OPERATOR);
        let before = helped();
        // The operator may be faster than a glance.
        let off = witness(self.vcenter(), patience, |counts| counts.powered_on < all || helped() > before);
        off.expect("the machine is powered off");
        let healed = witness(self.vcenter(), patience, |counts| counts.powered_on == all);
        saboteur.join().expect("it does not panic").expect("the machine could be powered off");
        healed
    }

    /// How long the operator has a processor to put so many power-offs right, one after the other, beyond what it takes at rest: it rests
    /// for as long after each.
    pub(crate) fn cpu_time_to_heal(&self, times: u32) -> Option<Duration> {
        let machine = self.a_machine();
        let used_since = |before| self.operator.cpu_time().saturating_sub(before);
        let (mut working, mut at_rest) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..times {
            let (began, before) = (Instant::now(), self.operator.cpu_time());
            self.heal(&machine)?;
            // Until all that follows is said and written.
            thread::sleep(Duration::from_secs(2));
            working += used_since(before);
            let (took, before) = (began.elapsed(), self.operator.cpu_time());
            thread::sleep(took);
            at_rest += used_since(before);
        }
        Some(working.saturating_sub(at_rest))
    }

    /// Ends the operator, powers a machine off, starts the operator again, and measures from then until it powers the machine on.
    pub(crate) fn restart_and_heal(&mut self) -> Option<Duration> {
        let machine = self.a_machine();
        self.operator.terminate();
        assert!(self.operator.succeeds_within(Duration::from_secs(20)), "it ends when it is told to");
        self.vcenter().govc(&["vm.power", "-off", "-force", &machine]).expect("the machine can be powered off");
        let began = Instant::now();
        self.operator = Operator::start(&self.sandbox, self.vcenter()).expect("the operator can be started");
        let patience = Duration::from_mins(2);
        while self.vcenter().calls("PowerOnVM_Task", OPERATOR) == 0 {
            if began.elapsed() > patience {
                return None;
            }
            thread::sleep(GLANCE);
        }
        Some(began.elapsed())
    }

    /// Within how long so many of all reconciles of groups ended, as Prometheus tells it from the operator's own metrics.
    pub(crate) fn reconciled_within(&self, part: f64) -> Option<Duration> {
        let (_, metrics) = self.operator.ask("GET", "/metrics").ok()?;
        quantile(&metrics, part, "drover_reconcile_seconds", &["\"VmGroup\""])
    }

    /// Within how long the API server has answered so many of all writes to statuses of groups, as it says itself.
    pub(crate) fn status_written_within(&self, part: f64) -> Option<Duration> {
        let labels = ["verb=\"APPLY\"", "resource=\"vmgroups\"", "subresource=\"status\""];
        quantile(&self.api_server_metrics(), part, "apiserver_request_duration_seconds", &labels)
    }

    /// How many requests the API server has had so far that change something, of whomever, as it counts them itself.
    pub(crate) fn api_writes(&self) -> u64 {
        let metrics = self.api_server_metrics();
        let requests = metrics.lines().filter(|line| line.starts_with("apiserver_request_total{"));
        let is_write =
            |line: &&str| !["GET", "LIST", "WATCH"].iter().any(|verb| line.contains(&format!("verb=\"{verb}\"")));
        requests.filter(is_write).filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    fn api_server_metrics(&self) -> String {
        self.sandbox.kubectl().run(&["get", "--raw", "/metrics"]).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// How many lines of the operator's log are warnings.
    pub(crate) fn warnings(&self) -> u64 {
        let count = self.operator.log().lines().filter(|line| line.contains("WARN")).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// Deletes the namespace with all groups in it, and measures until neither they nor their machines and folders are left.
    pub(crate) fn delete_namespace(&self, patience: Duration) -> Option<Duration> {
        let began = Instant::now();
        let delete = ["delete", "namespace", &self.namespace.name, "--wait=false"];
        self.sandbox.kubectl().run(&delete).unwrap_or_else(|failure| panic!("{failure}"));
        witness(self.vcenter(), patience, |counts| counts.powered_on == 0)?;
        while self.namespace.list("vg").map_or(true, |groups| !groups.is_empty()) {
            if began.elapsed() > patience {
                return None;
            }
            // A list of many takes a while to make.
            thread::sleep(10 * GLANCE);
        }
        let took = began.elapsed();
        let left = self.vcenter().govc(&["ls", "/DC0/vm/vm-operator"]).unwrap_or_else(|failure| panic!("{failure}"));
        let left: Vec<_> = left.lines().filter(|path| path.contains("/bench.")).collect();
        assert!(left.is_empty(), "{left:?}");
        Some(took)
    }

    /// Waits until the operator has nothing more to ask of vCenter. One that never rests is waited for no longer than a minute.
    pub(crate) fn rest(&self) {
        let mut before = 0;
        for _ in 0..30 {
            thread::sleep(Duration::from_secs(2));
            let now = self.vcenter().all_calls(OPERATOR);
            if now == before && now > 0 {
                return;
            }
            before = now;
        }
        assert!(before > 0, "the operator does not reach vCenter: its log is {}", self.operator_log().display());
    }

    fn operator_log(&self) -> PathBuf {
        self.sandbox.dir().join("log/drover.log")
    }
}

/// Below what so many of all values are, as Prometheus reckons it from the buckets of the histogram with these labels.
fn quantile(metrics: &str, part: f64, histogram: &str, labels: &[&str]) -> Option<Duration> {
    let prefix = format!("{histogram}_bucket{{");
    let bucket = |line: &str| {
        let rest = line.strip_prefix(&prefix).filter(|rest| labels.iter().all(|label| rest.contains(label)))?;
        let bound = rest.split_once("le=\"")?.1.split_once('"')?.0;
        Some((bound.parse::<f64>().unwrap_or(f64::INFINITY), line.rsplit(' ').next()?.parse::<f64>().ok()?))
    };
    let buckets: Vec<_> = metrics.lines().filter_map(bucket).collect();
    let wanted = buckets.last()?.1 * part;
    let at = buckets.iter().position(|(_, count)| *count >= wanted)?;
    let (from, before) = if at == 0 { (0.0, 0.0) } else { buckets[at - 1] };
    let (to, count) = buckets[at];
    to.is_finite().then(|| Duration::from_secs_f64(from + (to - from) * (wanted - before) / (count - before)))
}

/// How machines were made.
pub(crate) struct Made {
    /// `None` if they weren't within the time that was given.
    pub took: Option<Duration>,
    /// The most clones that were under way at once.
    pub at_once: u64,
}

/// How long it takes until the machines are as wanted.
pub(crate) fn witness(
    vcenter: &VCenter,
    patience: Duration,
    mut wanted: impl FnMut(MachineCounts) -> bool,
) -> Option<Duration> {
    let began = Instant::now();
    while !wanted(vcenter.machine_counts()) {
        if began.elapsed() > patience {
            return None;
        }
        thread::sleep(GLANCE);
    }
    Some(began.elapsed())
}

/// A sandbox for one benchmark.
pub(crate) fn start(name: &str, flags: &[&str]) -> Sandbox {
    Sandbox::start(name, flags).unwrap_or_else(|failure| panic!("{failure}"))
}
