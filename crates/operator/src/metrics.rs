//! What the operator counts and measures, for Prometheus to collect. `docs/metrics.md` says what each means.
//!
//! A label holds a name that is in the manifests or in the code, and nothing else: no user, no message, no address with a
//! password in it.

use std::{
    collections::BTreeMap,
    fmt, fs,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use drover_api::vmgroup::Phase;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use vim25::client::Observer;

/// The operator's metrics. Clones count into the same ones.
#[derive(Clone)]
pub(crate) struct Metrics {
    reconciles: Family<Reconcile, Counter>,
    reconcile_time: Family<Kind, Histogram, fn() -> Histogram>,
    leader: Gauge,
    calls: Family<Call, Counter>,
    operations: Family<VCenter, Gauge>,
    queue: Family<VCenter, Gauge>,
    missing: Family<VCenter, Gauge>,
    stopped: Family<VCenter, Gauge>,
    lookalikes: Family<VCenter, Gauge>,
    groups: Family<InPhase, Gauge>,
    memory: Gauge,
    registry: Arc<Registry>,
    lookups: Arc<Mutex<Vec<Lookup>>>,
}

type Lookup = Box<dyn Fn(&Metrics) + Send + Sync>;

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Error,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Reconcile {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Call {
    vcenter: String,
    method: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct VCenter {
    vcenter: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct InPhase {
    phase: &'static str,
}

impl Metrics {
    /// All metrics, at their beginning.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            reconciles: Family::default(),
            reconcile_time: Family::new_with_constructor(reconcile_times),
            leader: Gauge::default(),
            calls: Family::default(),
            operations: Family::default(),
            queue: Family::default(),
            missing: Family::default(),
            stopped: Family::default(),
            lookalikes: Family::default(),
            groups: Family::default(),
            memory: Gauge::default(),
            registry: Arc::default(),
            lookups: Arc::default(),
        };
        metrics.register(&mut registry);
        Self { registry: Arc::new(registry), ..metrics }
    }

    /// Gives each metric its name. The format adds the unit, and `_total` to what is counted.
    fn register(&self, to: &mut Registry) {
        to.register("drover_reconcile", "Reconciles that have ended", self.reconciles.clone());
        let (name, help) = ("drover_reconcile", "How long a reconcile takes");
        to.register_with_unit(name, help, Unit::Seconds, self.reconcile_time.clone());
        to.register("drover_leader", "Whether this operator is the one that works", self.leader.clone());
        to.register("drover_vcenter_calls", "Calls to a vCenter that have ended", self.calls.clone());
        to.register("drover_vcenter_operations", "Operations under way in a vCenter", self.operations.clone());
        to.register("drover_vcenter_queue", "Operations that wait for their turn", self.queue.clone());
        to.register(
            "drover_vms_missing",
            "VMs that are missing without proof that they were destroyed",
            self.missing.clone(),
        );
        to.register(
            "drover_safety_hold",
            "Whether cloning and destroying are stopped in a vCenter",
            self.stopped.clone(),
        );
        to.register(
            "drover_lookalikes",
            "VMs that carry a group's marker and aren't its members",
            self.lookalikes.clone(),
        );
        to.register("drover_groups", "VmGroups in each phase", self.groups.clone());
        if resident_memory().is_some() {
            let (name, help) = ("process_resident_memory", "Memory that the process has in RAM");
            to.register_with_unit(name, help, Unit::Bytes, self.memory.clone());
        }
    }

    /// Counts a reconcile of an object of this kind.
    pub(crate) fn reconciled(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        self.reconciles.get_or_create(&Reconcile { kind, outcome: outcome.as_str() }).inc();
        self.reconcile_time.get_or_create(&Kind { kind }).observe(took.as_secs_f64());
    }

    /// Counts all calls to the vCenter of this name.
    pub(crate) fn observer(&self, vcenter: &str) -> Observer {
        let (metrics, vcenter) = (self.clone(), vcenter.to_owned());
        Observer::new(move |method, is_ok| {
            metrics.called(&vcenter, method, if is_ok { Outcome::Success } else { Outcome::Error });
        })
    }

    /// Counts a call to the vCenter of this name.
    pub(crate) fn called(&self, vcenter: &str, method: &'static str, outcome: Outcome) {
        let call = Call { vcenter: vcenter.to_owned(), method, outcome: outcome.as_str() };
        self.calls.get_or_create(&call).inc();
    }

    /// How many operations are under way in the vCenter of this name.
    pub(crate) fn set_operations(&self, vcenter: &str, under_way: usize) {
        self.operations.get_or_create(&VCenter { vcenter: vcenter.to_owned() }).set(number(under_way));
    }

    /// How many operations wait for their turn in the vCenter of this name.
    pub(crate) fn set_queue(&self, vcenter: &str, waiting: usize) {
        self.queue.get_or_create(&VCenter { vcenter: vcenter.to_owned() }).set(number(waiting));
    }

    /// What is not as it should be with the VMs in the vCenter of this name.
    pub(crate) fn set_doubts(&self, vcenter: &str, missing: usize, is_stopped: bool, lookalikes: usize) {
        let vcenter = VCenter { vcenter: vcenter.to_owned() };
        self.missing.get_or_create(&vcenter).set(number(missing));
        self.stopped.get_or_create(&vcenter).set(is_stopped.into());
        self.lookalikes.get_or_create(&vcenter).set(number(lookalikes));
    }

    /// Counts the groups by what their status says. One that has none yet is pending.
    pub(crate) fn set_groups(&self, phases: impl IntoIterator<Item = Option<Phase>>) {
        let mut counts = BTreeMap::from([("RUNNING", 0), ("PENDING", 0), ("ERROR", 0)]);
        for phase in phases {
            *counts.entry(phase_name(phase.unwrap_or(Phase::Pending))).or_default() += 1;
        }
        for (phase, count) in counts {
            self.groups.get_or_create(&InPhase { phase }).set(number(count));
        }
    }

    /// Whether this operator is the one that works.
    pub(crate) fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// Has something looked up each time the metrics are collected: for what is easier to look up than to follow.
    pub(crate) fn at_scrape(&self, lookup: impl Fn(&Self) + Send + Sync + 'static) {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(lookup));
    }

    /// All metrics as text, in the format [`FORMAT`].
    pub(crate) fn scrape(&self) -> Result<String, fmt::Error> {
        for lookup in self.lookups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            lookup(self);
        }
        self.memory.set(resident_memory().unwrap_or(0));
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry)?;
        Ok(shown)
    }
}

/// The media type of what [`Metrics::scrape`] returns.
pub(crate) const FORMAT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Outcome {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Success } else { Self::Error }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
        }
    }
}

/// From a millisecond, for a group at rest, to half a minute.
fn reconcile_times() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

/// As `kubectl get` shows it.
fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Running => "RUNNING",
        Phase::Pending => "PENDING",
        Phase::Error => "ERROR",
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// In bytes, where the system tells.
fn resident_memory() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With something in each metric.
    fn busy() -> Metrics {
        let metrics = Metrics::new();
        metrics.reconciled("VmGroup", Outcome::Success, Duration::from_millis(3));
        metrics.reconciled("VmGroup", Outcome::Error, Duration::from_millis(30));
        metrics.called("default", "CloneVM_Task", Outcome::Success);
        metrics.set_operations("default", 4);
        metrics.set_queue("default", 7);
        metrics.set_doubts("default", 2, true, 3);
        metrics.set_groups([Some(Phase::Running), None, Some(Phase::Running)]);
        metrics.set_leader(true);
        metrics
    }

    #[test]
    fn what_is_told_is_shown() {
        let shown = busy().scrape().unwrap();
        for line in [
            r#"drover_reconcile_total{kind="VmGroup",outcome="success"} 1"#,
            r#"drover_reconcile_total{kind="VmGroup",outcome="error"} 1"#,
            r#"drover_reconcile_seconds_count{kind="VmGroup"} 2"#,
            "drover_leader 1",
            r#"drover_vcenter_calls_total{vcenter="default",method="CloneVM_Task",outcome="success"} 1"#,
            r#"drover_vcenter_operations{vcenter="default"} 4"#,
            r#"drover_vcenter_queue{vcenter="default"} 7"#,
            r#"drover_vms_missing{vcenter="default"} 2"#,
            r#"drover_safety_hold{vcenter="default"} 1"#,
            r#"drover_lookalikes{vcenter="default"} 3"#,
            r#"drover_groups{phase="RUNNING"} 2"#,
            r#"drover_groups{phase="PENDING"} 1"#,
            r#"drover_groups{phase="ERROR"} 0"#,
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} is missing:\n{shown}");
        }
        let memory = shown.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes ")).unwrap();
        assert!(memory.parse::<i64>().unwrap() > 1 << 20, "{memory}");
    }

    #[test]
    fn what_is_looked_up_is_as_new_as_the_scrape() {
        let metrics = busy();
        metrics.at_scrape(|metrics| metrics.set_leader(false));
        assert!(metrics.scrape().unwrap().contains("drover_leader 0"));
    }

    #[test]
    fn the_docs_tell_of_each_metric_with_its_labels() {
        let docs = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
        let shown = busy().scrape().unwrap();
        let mut told = 0;
        for line in shown.lines().filter(|line| !line.starts_with('#')) {
            let (name, labels) = line.split_once(['{', ' ']).unwrap();
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            let row =
                docs.lines().find(|row| row.starts_with(&format!("| `{name}` |"))).unwrap_or_else(|| panic!("{name}"));
            let labels = labels.split_once('}').map_or("", |(labels, _)| labels).split(',');
            for (label, _) in labels.filter_map(|label| label.split_once('=')).filter(|(label, _)| *label != "le") {
                assert!(row.contains(&format!("`{label}`")), "{label} is missing: {row}");
                told += 1;
            }
        }
        assert!(told > 0);
    }
}
