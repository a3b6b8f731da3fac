//! VMs that are made.

use std::{collections::BTreeMap, time::Duration};

use drover_e2e::{
    VCenter,
    measurement::{Measurement, median, to_f64},
};

use serde_json::{Value, json};

use crate::{
    peers,
    results::{Run, Scope},
    site::{self, AT_A_TIME, CLONE, CONTENDED, HOSTS, Made, OPERATOR, Site, count, group, now, powered_on, until},
    terraform::{DEFAULT_PARALLELISM, Terraform},
};

/// What may come on top of what vCenter itself takes, `kubectl apply` included.
const SURCHARGE: f64 = 1.15;
/// A longer one says enough when it is measured once.
const SHORT: usize = 100;
/// How many clones Drover has under way on a host, unless a VCenter says something else.
const OWN_LIMIT: usize = 8;

/// The longest that anybody waits for a hundred VMs.
const PATIENCE: Duration = Duration::from_mins(1);

/// Who makes VMs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Maker {
    BareCalls,
    Govc,
    Terraform,
    /// With as many VMs at a time as it makes unless it is told.
    TerraformByItself,
    Drover,
}

impl Maker {
    fn name(self) -> &'static str {
        match self {
            Self::BareCalls => "bare calls",
            Self::Govc => "govc",
            Self::Terraform => "Terraform",
            Self::TerraformByItself => "Terraform, 10 at a time",
            Self::Drover => "Drover",
        }
    }

    /// Those who are asked for so many.
    fn of(vms: usize) -> &'static [Self] {
        match vms {
            ..SHORT => &[Self::BareCalls, Self::Govc, Self::Terraform, Self::TerraformByItself, Self::Drover],
            SHORT => &[Self::BareCalls, Self::Govc, Self::Terraform, Self::Drover],
            _ => &[Self::BareCalls, Self::Drover],
        }
    }
}

/// What each took for the same VMs.
#[derive(Default)]
struct Taken {
    made: Vec<Made>,
    peers: BTreeMap<Maker, Vec<f64>>,
}

impl Taken {
    fn beside(&self, took: Measurement) -> Measurement {
        self.peers.iter().fold(took, |took, (maker, samples)| took.peer(maker.name(), samples))
    }
}

/// Those who make VMs, each on a vCenter of their own.
struct Makers {
    site: Site,
    peer: VCenter,
    terraform: Option<Terraform>,
}

impl Makers {
    fn new(name: &str, flags: &[&str]) -> Self {
        let site = Site::new(name, &[flags, &["--vcenters=2"]].concat());
        let peer = site.sandbox.own_vcenter();
        Self { site, peer, terraform: Terraform::find() }
    }

    /// Has each make VMs some times, another first each time, so that whatever else the machine does meets all.
    fn in_turns(&self, vms: usize, makers: &[Maker], times: usize) -> Taken {
        let patience = Duration::from_secs_f64(3.0 * limit(vms, AT_A_TIME).0 + 30.0);
        let mut taken = Taken::default();
        for round in 0..times {
            for &maker in makers.iter().cycle().skip(round).take(makers.len()) {
                if maker == Maker::Drover {
                    taken.made.push(self.site.make(&[group("web", vms)], vms, patience));
                    self.site.clear();
                } else if let Some(took) = self.peer(maker, vms, patience) {
                    taken.peers.entry(maker).or_default().push(took);
                }
            }
        }
        taken
    }

    /// What a peer takes, if it is there.
    fn peer(&self, maker: Maker, vms: usize, patience: Duration) -> Option<f64> {
        let terraform = |at_a_time| Some(self.terraform.as_ref()?.apply(&self.peer, vms, at_a_time, patience));
        match maker {
            Maker::BareCalls => Some(peers::bare_calls(&self.peer, vms, patience)),
            Maker::Govc => Some(peers::govc(&self.peer, vms, patience)),
            Maker::Terraform => terraform(vms),
            Maker::TerraformByItself => terraform(DEFAULT_PARALLELISM),
            Maker::Drover => None,
        }
    }
}

pub(crate) fn one_group(run: &mut Run) {
    let makers = Makers::new("make", &CONTENDED);
    let sizes: &[usize] = if run.scope == Scope::Full { &[30, 100, 500, 2000] } else { &[30, 100, 500] };
    for &vms in sizes {
        let (limit, by) = limit(vms, AT_A_TIME);
        let taken = makers.in_turns(vms, Maker::of(vms), if vms <= SHORT { run.times() } else { 1 });
        let took = Measurement::new(format!("{vms} VMs in one VmGroup"), "s", seconds(&taken.made));
        run.add(taken.beside(took.limit(limit, by, SURCHARGE)));
        costs(run, &taken.made, vms, 1);
    }
    if makers.terraform.is_none() {
        run.note("Terraform was not measured, because it was not built: `make bench` builds it.");
    }
    drop(makers);
    where_hosts_take_more(run);
}

/// What Drover's own limit costs where hosts would work on more clones at a time than it asks them for.
fn where_hosts_take_more(run: &mut Run) {
    let makers = Makers::new("make-more", &["--clone-delay=3s", "--clones-per-host=16", "--hosts=8"]);
    let (mut times, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..run.times() {
        bare.push(peers::bare_calls(&makers.peer, SHORT, PATIENCE));
        times.push(makers.site.power_on(&[group("web", SHORT)], SHORT, PATIENCE));
        makers.site.clear();
    }
    let (limit, by) = limit(SHORT, 2 * OWN_LIMIT * HOSTS);
    let turns = to_f64(SHORT.div_ceil(OWN_LIMIT * HOSTS));
    let took = Measurement::new("100 VMs where a host takes 16 clones", "s", times);
    let by = format!("{by}; Drover has {OWN_LIMIT} under way on a host: {turns} × {CLONE} s");
    run.add(took.limit(limit, by, turns * SURCHARGE).peer("bare calls", &bare));
}

pub(crate) fn many_groups(run: &mut Run) {
    let sizes: &[usize] = if run.scope == Scope::Full { &[100, 1000] } else { &[100] };
    for &groups in sizes {
        let times = if groups <= SHORT { run.times() } else { 1 };
        let mut site = Site::new("groups", &[&CONTENDED[..], &["--vcenters=2"]].concat());
        let peer = site.sandbox.own_vcenter();
        let all: Vec<_> = (0..groups).map(|n| group(&format!("web-{n}"), 3)).collect();
        let (limit, by) = limit(3 * groups, AT_A_TIME);
        let patience = Duration::from_secs_f64(3.0 * limit + 60.0);
        let (mut made, mut bare, mut deletions) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..times {
            bare.push(peers::bare_calls(&peer, 3 * groups, patience));
            made.push(site.make(&all, 3 * groups, patience));
            deletions.push(Deletion::of_namespace(&site, groups));
            site.namespace = site.sandbox.namespace("bench");
        }
        drop(site);
        let took = Measurement::new(format!("{groups} VmGroups of 3 VMs"), "s", seconds(&made));
        run.add(took.limit(limit, by, SURCHARGE).peer("bare calls", &bare));
        costs(run, &made, 3 * groups, groups);
        let sandbox = site::start("bare", &[]);
        sandbox.install_kinds();
        let bare: Vec<_> = (0..times).map(|_| peers::bare_namespace(&sandbox, groups, 3)).collect();
        let all = |of: fn(&Deletion) -> f64| deletions.iter().map(of);
        let took = Measurement::new("their namespace deleted", "s", all(|deletion| deletion.seconds));
        run.add(took.limit(median(&bare), "Kubernetes, for the same objects", 2.0));
        let writes = Measurement::new("API writes for each VmGroup meanwhile", "", all(|deletion| deletion.writes));
        run.add(writes.promise(12.0));
        run.add(Measurement::new("warnings logged meanwhile", "", all(|deletion| deletion.warnings)).promise(0.0));
    }
}

/// VMs whose addresses belong to their slots, in turns with as many that have none.
pub(crate) fn with_addresses(run: &mut Run) {
    const VMS: usize = 30;
    let site = Site::new("slots", &CONTENDED);
    let addresses: Vec<_> = (1..=VMS).map(|n| format!("198.18.0.{n}/24")).collect();
    let adapters = json!([{"network": "VM Network", "addresses": addresses}]);
    let with = ("web".to_owned(), json!({"replicas": VMS, "networkAdapters": adapters}));
    let make = |group: &(String, Value)| {
        let made = site.make(std::slice::from_ref(group), VMS, PATIENCE);
        site.clear();
        made
    };
    let (without, with): (Vec<_>, Vec<_>) = (0..run.times()).map(|_| (make(&group("web", VMS)), make(&with))).unzip();
    let (limit, by) = limit(VMS, AT_A_TIME);
    let took = Measurement::new("30 VMs with an address each", "s", seconds(&with)).limit(limit, by, SURCHARGE);
    run.add(took.peer("without addresses", &seconds(&without).collect::<Vec<_>>()));
    let calls = |made: &[Made]| made.iter().map(|made| made.calls / to_f64(VMS)).collect::<Vec<_>>();
    let most = median(&calls(&without)) + 1.0;
    run.add(Measurement::new("calls to vCenter for each VM", "", calls(&with)).limit(
        most,
        "one more than without",
        1.0,
    ));
}

/// A vCenter lists 200 tasks. What is no longer listed runs on, and is not begun again.
pub(crate) fn more_than_vcenter_lists(run: &mut Run) {
    let site = Site::new("crowd", &["--clone-delay=3s", "--clones-per-host=8", "--hosts=30"]);
    let vcenter = site.vcenter().clone();
    site.apply(&[group("web", 230)]);
    let is_crowded = until(PATIENCE, || vcenter.machine_counts().cloning > 200);
    assert!(is_crowded, "more clones are under way than vCenter lists");
    assert!(until(PATIENCE, || powered_on(&vcenter) == 230), "all are made");
    site.rest();
    let clones = count(site.vcenter().calls("CloneVM_Task", OPERATOR));
    run.add(Measurement::new("clones asked for, of 230 VMs", "", [clones]).limit(230.0, "one for each", 1.0));
}

/// How long vCenter itself needs for so many VMs, if it works on so many at a time.
fn limit(vms: usize, at_a_time: usize) -> (f64, String) {
    let turns = vms.div_ceil(at_a_time);
    (CLONE * to_f64(turns), format!("vCenter: {turns} × {CLONE} s"))
}

fn seconds(made: &[Made]) -> impl Iterator<Item = f64> {
    made.iter().map(|made| made.seconds)
}

/// What it took to make VMs, beside time.
fn costs(run: &mut Run, made: &[Made], vms: usize, groups: usize) {
    let each = |of: fn(&Made) -> f64| made.iter().map(move |made| of(made) / to_f64(vms));
    // A clone is one call. What comes on top are long polls: each tells of all that has changed in some hundredths of a second.
    let calls = Measurement::new("calls to vCenter for each VM", "", each(|made| made.calls));
    run.add(calls.limit(1.0, "vCenter: one call to clone", if vms < SHORT { 2.0 } else { 1.5 }));
    let writes =
        Measurement::new("API writes for each VM, its events and VMInfo included", "", each(|made| made.writes));
    // Five for each VmGroup, and for each VMInfo.
    run.add(writes.promise(5.0 * to_f64(groups + vms) / to_f64(vms)));
    run.add(Measurement::new("CPU for each VM", "ms", each(|made| 1000.0 * made.cpu)).promise(50.0));
}

/// What it took to delete a namespace.
struct Deletion {
    seconds: f64,
    /// Writes to the API server for each group.
    writes: f64,
    /// Lines of the operator's log that are warnings.
    warnings: f64,
}

impl Deletion {
    /// Deletes the namespace with all groups in it, and measures until it is gone, as it may be only after their VMs and folders.
    fn of_namespace(site: &Site, groups: usize) -> Self {
        let (written, warned) = (site.api_writes(), warnings(site));
        let began = now();
        let delete = ["delete", "namespace", &site.namespace.name, "--timeout=10m"];
        let is_gone = site.sandbox.kubectl().run(&delete).is_ok();
        let took = now() - began;
        let left = site.vcenter().govc(&["ls", "/DC0/vm/vm-operator"]).unwrap_or_else(|failure| panic!("{failure}"));
        let left: Vec<_> = left.lines().filter(|path| path.contains("/bench.")).collect();
        assert!(left.is_empty() && powered_on(site.vcenter()) == 0, "VMs or folders are left: {left:?}");
        Self {
            seconds: if is_gone { took } else { f64::INFINITY },
            writes: (site.api_writes() - written) / to_f64(groups),
            warnings: warnings(site) - warned,
        }
    }
}

/// How many lines of the operator's log are warnings, or worse.
fn warnings(site: &Site) -> f64 {
    to_f64(site.operator.log().lines().filter(|line| line.contains("WARN") || line.contains("ERROR")).count())
}
