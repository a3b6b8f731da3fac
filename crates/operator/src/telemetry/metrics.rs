//! What the operator counts and measures, for Prometheus to collect. `docs/metrics.md` says what each means.
//!
//! A label holds a name that is in the manifests or in the code, and nothing else: no user, no message, no address with a
//! password in it. What a series is about goes with it: of a VCenter that was deleted, nothing more is told.

mod format;
mod process;
mod series;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicU64},
    time::{Duration, Instant},
};

use drover_api::{VmGroup, vmgroup::Phase};
use drover_core::{vcenter::budget::Limits, vmgroup::drift};
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{
        counter::Counter,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};
use tracing::debug;
use vim25::{
    Fault,
    client::{Call, Observer},
    faults::InvalidLogin,
};

pub(crate) use format::Format;
use process::Process;
use series::Series;

/// The call by which vCenter tells of changes. It waits for them, so the time that it takes says nothing.
const LONG_POLL: &str = "WaitForUpdatesEx";
/// For how long metrics are shown again as they were.
const FRESH: Duration = Duration::from_millis(200);

/// The operator's metrics. Clones count into the same ones.
#[derive(Clone)]
pub(crate) struct Metrics {
    reconciles: Series<Reconcile, Counter>,
    reconcile_time: Series<Kind, Histogram>,
    plans: Series<Planned, Counter>,
    leader: Gauge,
    leases: Series<Lease, Gauge>,
    up: Series<VCenter, Gauge>,
    sessions: Series<VCenter, Gauge>,
    refused: Series<VCenter, Gauge>,
    logins: Series<LoggedIn, Counter>,
    calls: Series<Called, Counter>,
    call_time: Series<Method, Histogram>,
    mirror_age: Series<VCenter, Gauge<f64, AtomicU64>>,
    operations: Series<VCenter, Gauge>,
    operation_limit: Series<VCenter, Gauge>,
    clones: Series<VCenter, Gauge>,
    clone_limit: Series<VCenter, Gauge>,
    queue: Series<VCenter, Gauge>,
    ended: Series<Operated, Counter>,
    operation_time: Series<Operation, Histogram>,
    vms: Series<InState, Gauge>,
    replicas: Series<InState, Gauge>,
    missing: Series<VCenter, Gauge>,
    stopped: Series<VCenter, Gauge>,
    lookalikes: Series<VCenter, Gauge>,
    drift: Series<Drifted, Counter>,
    repair_time: Series<Drifted, Histogram>,
    groups: Series<InPhase, Gauge>,
    build: Series<Build, Gauge>,
    /// When each vCenter last said what has changed in it, or that nothing has.
    told: Arc<Mutex<BTreeMap<String, Instant>>>,
    registry: Arc<Registry>,
    lookups: Arc<Mutex<Vec<Lookup>>>,
    /// What was shown last, and when.
    last: Arc<Mutex<Option<(Instant, String)>>>,
}

type Lookup = Box<dyn Fn(&Metrics) + Send + Sync>;

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    Error,
    /// Nobody knows: vCenter was away, or has forgotten.
    Unknown,
}

/// Counts the operations in one vCenter.
#[derive(Clone)]
pub(crate) struct Meter {
    metrics: Metrics,
    vcenter: String,
}

/// The connection to a vCenter.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Connected {
    /// Whether all of it is in sight.
    pub is_up: bool,
    pub is_logged_in: bool,
    /// Whether it has refused the credentials.
    pub is_refused: bool,
}

/// How many operations there are in a vCenter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub under_way: usize,
    /// Clones on the host that has most of them.
    pub clones_per_host: usize,
    pub waiting: usize,
    /// How many there may be.
    pub limits: Limits,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Kind {
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Reconcile {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Planned {
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Lease {
    lease: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct VCenter {
    vcenter: String,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct LoggedIn {
    vcenter: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Called {
    vcenter: String,
    method: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Method {
    vcenter: String,
    method: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Operation {
    vcenter: String,
    operation: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Operated {
    vcenter: String,
    operation: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct InState {
    vcenter: String,
    state: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Drifted {
    vcenter: String,
    kind: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct InPhase {
    phase: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Ord, PartialEq, PartialOrd)]
struct Build {
    version: &'static str,
    revision: &'static str,
}

impl Metrics {
    /// All metrics, at their beginning.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let metrics = Self {
            reconciles: Series::default(),
            // From a millisecond, for a group at rest, to half a minute.
            reconcile_time: Series::new(|| Histogram::new(exponential_buckets(0.001, 2.0, 16))),
            plans: Series::default(),
            leader: Gauge::default(),
            leases: Series::default(),
            up: Series::default(),
            sessions: Series::default(),
            refused: Series::default(),
            logins: Series::default(),
            calls: Series::default(),
            // From what a vCenter takes that has nothing else to do, to the time after which a call is given up.
            call_time: Series::new(|| Histogram::new(exponential_buckets(0.005, 2.5, 11))),
            mirror_age: Series::default(),
            operations: Series::default(),
            operation_limit: Series::default(),
            clones: Series::default(),
            clone_limit: Series::default(),
            queue: Series::default(),
            ended: Series::default(),
            // From a change of power to a clone of large disks: an hour and more.
            operation_time: Series::new(|| Histogram::new(exponential_buckets(0.25, 2.5, 11))),
            vms: Series::default(),
            replicas: Series::default(),
            missing: Series::default(),
            stopped: Series::default(),
            lookalikes: Series::default(),
            drift: Series::default(),
            repair_time: Series::new(|| Histogram::new(exponential_buckets(0.25, 2.5, 11))),
            groups: Series::default(),
            build: Series::default(),
            told: Arc::default(),
            registry: Arc::default(),
            lookups: Arc::default(),
            last: Arc::default(),
        };
        metrics.register(&mut registry);
        metrics.register_vcenters(&mut registry);
        registry.register_collector(Box::new(Process));
        let revision = option_env!("DROVER_REVISION").unwrap_or("unknown");
        metrics.build.of(Build { version: env!("CARGO_PKG_VERSION"), revision }).set(1);
        Self { registry: Arc::new(registry), ..metrics }
    }

    /// Gives each metric its name. The format adds the unit, and `_total` to what is counted.
    fn register(&self, to: &mut Registry) {
        to.register("drover_reconcile", "Reconciles that have ended", self.reconciles.clone());
        let (name, help) = ("drover_reconcile", "Duration of a reconcile");
        to.register_with_unit(name, help, Unit::Seconds, self.reconcile_time.clone());
        to.register("drover_plans", "Plans of VmGroups, by what they came to", self.plans.clone());
        to.register("drover_leader", "Whether this replica holds the general Lease", self.leader.clone());
        to.register("drover_lease_held", "Whether this replica holds a Lease", self.leases.clone());
        to.register("drover_groups", "VmGroups in each phase", self.groups.clone());
        to.register("drover_build_info", "The version that runs", self.build.clone());
    }

    /// The same for those that each vCenter has.
    fn register_vcenters(&self, to: &mut Registry) {
        to.register("drover_vcenter_up", "Whether a vCenter is connected and wholly mirrored", self.up.clone());
        to.register("drover_vcenter_session", "Whether there is a session in a vCenter", self.sessions.clone());
        let help = "Whether a vCenter has refused the credentials";
        to.register("drover_vcenter_login_refused", help, self.refused.clone());
        to.register("drover_vcenter_logins", "Logins to a vCenter that were tried", self.logins.clone());
        to.register("drover_vcenter_calls", "Calls to a vCenter that have ended", self.calls.clone());
        let (name, help) = ("drover_vcenter_call", "Duration of a call to a vCenter");
        to.register_with_unit(name, help, Unit::Seconds, self.call_time.clone());
        let (name, help) = ("drover_mirror_age", "Time since a vCenter last said what has changed in it");
        to.register_with_unit(name, help, Unit::Seconds, self.mirror_age.clone());
        to.register("drover_vcenter_operations", "Operations under way in a vCenter", self.operations.clone());
        let help = "Operations that may be under way at once in a vCenter";
        to.register("drover_vcenter_operations_limit", help, self.operation_limit.clone());
        let help = "Clones under way on the host of a vCenter that has most of them";
        to.register("drover_vcenter_clones_per_host", help, self.clones.clone());
        let help = "Clones that may be under way at once on each host of a vCenter";
        to.register("drover_vcenter_clones_per_host_limit", help, self.clone_limit.clone());
        to.register("drover_vcenter_queue", "Operations that wait for their turn", self.queue.clone());
        to.register("drover_operations", "Operations that have ended", self.ended.clone());
        let (name, help) = ("drover_operation", "Duration of an operation, from its turn to its end");
        to.register_with_unit(name, help, Unit::Seconds, self.operation_time.clone());
        to.register("drover_vms", "VMs of VmGroups that are seen in a vCenter, by state", self.vms.clone());
        to.register("drover_replicas", "VMs of VmGroups, by what the groups' statuses say", self.replicas.clone());
        let help = "VMs that are missing without proof that they were destroyed";
        to.register("drover_vms_missing", help, self.missing.clone());
        let help = "Whether cloning and destroying are stopped in a vCenter";
        to.register("drover_safety_hold", help, self.stopped.clone());
        let help = "VMs that carry a group's marker and aren't its members";
        to.register("drover_lookalikes", help, self.lookalikes.clone());
        to.register("drover_drift", "Changes made in a vCenter that are not as declared", self.drift.clone());
        let (name, help) = ("drover_drift_repair", "Time from when drift is found to when all is as declared");
        to.register_with_unit(name, help, Unit::Seconds, self.repair_time.clone());
    }

    /// Counts a reconcile of an object of this kind.
    pub(crate) fn reconciled(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        self.reconciles.of(Reconcile { kind, outcome: outcome.as_str() }).inc();
        self.reconcile_time.of(Kind { kind }).observe(took.as_secs_f64());
    }

    /// Counts a plan of a group.
    pub(crate) fn planned(&self, outcome: &'static str) {
        self.plans.of(Planned { outcome }).inc();
    }

    /// Counts all calls to the vCenter of this name.
    pub(crate) fn observer(&self, vcenter: &str) -> Observer {
        let (metrics, vcenter) = (self.clone(), vcenter.to_owned());
        Observer::new(move |call| {
            if let Some(error) = call.error {
                // All of it: what others read doesn't repeat what a server has answered, which need not be a vCenter.
                debug!(%vcenter, method = call.method, ?error, "Call to vCenter failed");
            }
            metrics.called(&vcenter, call);
        })
    }

    /// Counts a call to the vCenter of this name.
    fn called(&self, vcenter: &str, Call { method, took, error }: Call<'_>) {
        let outcome = if error.is_none() { Outcome::Success } else { Outcome::Error };
        let name = || vcenter.to_owned();
        self.calls.of(Called { vcenter: name(), method, outcome: outcome.as_str() }).inc();
        if method != LONG_POLL {
            self.call_time.of(Method { vcenter: name(), method }).observe(took.as_secs_f64());
        } else if error.is_none() {
            self.told().insert(name(), Instant::now());
        }
        if matches!(method, "Login" | "LoginByToken") {
            let is_refusal = error.and_then(vim25::Error::fault).is_some_and(Fault::is::<InvalidLogin>);
            let outcome = if is_refusal { "refused" } else { outcome.as_str() };
            self.logins.of(LoggedIn { vcenter: name(), outcome }).inc();
        }
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What counts the operations in the vCenter of this name.
    pub(crate) fn meter(&self, vcenter: &str) -> Meter {
        Meter { metrics: self.clone(), vcenter: vcenter.to_owned() }
    }

    /// Counts what was changed in the vCenter of this name, and what was put right there.
    pub(crate) fn drifted(&self, vcenter: &str, changes: &drift::Changes) {
        let of = |kind: drift::Kind| Drifted { vcenter: vcenter.to_owned(), kind: kind.word() };
        for kind in &changes.found {
            self.drift.of(of(*kind)).inc();
        }
        for (kind, took) in &changes.repaired {
            self.repair_time.of(of(*kind)).observe(took.as_secs_f64());
        }
    }

    /// From here on, tells of these vCenters and no others, and of what they are now once that is said anew.
    pub(crate) fn turn_to(&self, vcenters: &BTreeSet<String>) {
        let is_there = |name: &String| vcenters.contains(name);
        self.logins.retain(|series| is_there(&series.vcenter));
        self.calls.retain(|series| is_there(&series.vcenter));
        self.call_time.retain(|series| is_there(&series.vcenter));
        self.ended.retain(|series| is_there(&series.vcenter));
        self.operation_time.retain(|series| is_there(&series.vcenter));
        self.drift.retain(|series| is_there(&series.vcenter));
        self.repair_time.retain(|series| is_there(&series.vcenter));
        let now = [
            &self.up,
            &self.sessions,
            &self.refused,
            &self.operations,
            &self.operation_limit,
            &self.clones,
            &self.clone_limit,
            &self.queue,
            &self.missing,
            &self.stopped,
            &self.lookalikes,
        ];
        for series in now {
            series.retain(|_| false);
        }
        self.vms.retain(|_| false);
        self.mirror_age.retain(|_| false);
        let mut told = self.told();
        told.retain(|name, _| is_there(name));
        for (name, at) in told.iter() {
            self.mirror_age.of(VCenter { vcenter: name.clone() }).set(at.elapsed().as_secs_f64());
        }
    }

    /// How the connection to the vCenter of this name is.
    pub(crate) fn set_connected(&self, vcenter: &str, connected: Connected) {
        let vcenter = VCenter { vcenter: vcenter.to_owned() };
        self.up.of(vcenter.clone()).set(connected.is_up.into());
        self.sessions.of(vcenter.clone()).set(connected.is_logged_in.into());
        self.refused.of(vcenter).set(connected.is_refused.into());
    }

    /// How much is under way in the vCenter of this name, and how much waits.
    pub(crate) fn set_load(&self, vcenter: &str, load: Load) {
        let vcenter = VCenter { vcenter: vcenter.to_owned() };
        self.operations.of(vcenter.clone()).set(number(load.under_way));
        self.clones.of(vcenter.clone()).set(number(load.clones_per_host));
        self.queue.of(vcenter.clone()).set(number(load.waiting));
        self.operation_limit.of(vcenter.clone()).set(number(load.limits.operations.get()));
        self.clone_limit.of(vcenter).set(number(load.limits.clones_per_host.get()));
    }

    /// What is not as it should be with the VMs in the vCenter of this name.
    pub(crate) fn set_doubts(&self, vcenter: &str, missing: usize, is_stopped: bool, lookalikes: usize) {
        let vcenter = VCenter { vcenter: vcenter.to_owned() };
        self.missing.of(vcenter.clone()).set(number(missing));
        self.stopped.of(vcenter.clone()).set(is_stopped.into());
        self.lookalikes.of(vcenter).set(number(lookalikes));
    }

    /// How many VMs of groups are seen in the vCenter of this name, in each state.
    pub(crate) fn set_vms(&self, vcenter: &str, states: impl IntoIterator<Item = (&'static str, usize)>) {
        for (state, count) in states {
            self.vms.of(InState { vcenter: vcenter.to_owned(), state }).set(number(count));
        }
    }

    /// Counts the groups by what their statuses say. One that has no phase yet is pending.
    pub(crate) fn set_groups<'a>(&self, groups: impl IntoIterator<Item = &'a VmGroup>) {
        let mut phases = BTreeMap::from([("RUNNING", 0), ("PENDING", 0), ("ERROR", 0)]);
        let mut replicas: BTreeMap<_, i64> = BTreeMap::new();
        for group in groups {
            let status = group.status.as_ref();
            let phase = status.and_then(|status| status.phase).unwrap_or(Phase::Pending);
            *phases.entry(phase_name(phase)).or_default() += 1;
            let Some((status, vcenter)) = status.and_then(|status| Some((status, status.vcenter.as_ref()?))) else {
                continue;
            };
            for (state, count) in [
                ("desired", status.desired_replicas),
                ("current", status.current_replicas),
                ("ready", status.ready_replicas),
                ("available", status.available_replicas),
                ("updated", status.updated_replicas),
            ] {
                *replicas.entry(InState { vcenter: vcenter.clone(), state }).or_default() +=
                    i64::from(count.unwrap_or(0));
            }
        }
        for (phase, count) in phases {
            self.groups.of(InPhase { phase }).set(count);
        }
        self.replicas.retain(|series| replicas.contains_key(series));
        for (series, count) in replicas {
            self.replicas.of(series).set(count);
        }
    }

    /// Whether this replica holds the general lease.
    pub(crate) fn set_leader(&self, leads: bool) {
        self.leader.set(leads.into());
    }

    /// The Leases that there are, and which of them this replica holds.
    pub(crate) fn set_leases(&self, leases: impl IntoIterator<Item = (String, bool)>) {
        let leases: BTreeMap<_, _> = leases.into_iter().collect();
        self.leases.retain(|series| leases.contains_key(&series.lease));
        for (lease, is_held) in leases {
            self.leases.of(Lease { lease }).set(is_held.into());
        }
    }

    /// Has something looked up each time the metrics are collected: for what is easier to look up than to follow.
    pub(crate) fn at_scrape(&self, lookup: impl Fn(&Self) + Send + Sync + 'static) {
        self.lookups.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(lookup));
    }

    /// All metrics as text, as they were a moment ago at most: whoever asks often costs no more than who asks once a second.
    pub(crate) fn scrape(&self, format: Format) -> Result<String, fmt::Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, shown)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return Ok(format.write(shown.clone()));
        }
        for lookup in self.lookups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            lookup(self);
        }
        let mut shown = String::new();
        text::encode(&mut shown, &self.registry)?;
        *last = Some((Instant::now(), shown.clone()));
        Ok(format.write(shown))
    }
}

impl Meter {
    /// Counts an operation that has ended, and that was begun so long ago.
    pub(crate) fn ended(&self, operation: &'static str, outcome: Outcome, took: Duration) {
        let (metrics, vcenter) = (&self.metrics, || self.vcenter.clone());
        metrics.ended.of(Operated { vcenter: vcenter(), operation, outcome: outcome.as_str() }).inc();
        metrics.operation_time.of(Operation { vcenter: vcenter(), operation }).observe(took.as_secs_f64());
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Meter").field("vcenter", &self.vcenter).finish_non_exhaustive()
    }
}

impl Outcome {
    pub(crate) fn of<T, E>(result: &Result<T, E>) -> Self {
        if result.is_ok() { Self::Success } else { Self::Error }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Unknown => "unknown",
        }
    }
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

#[cfg(test)]
mod tests;
