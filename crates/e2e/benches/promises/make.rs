//! VMs that are made.

use std::{thread, time::Duration};

use drover_e2e::measurement::{Measurement, to_f64};

use crate::{
    peers,
    results::{Run, Scope},
    site::{self, Made, OPERATOR, Site, count, group, now, powered_on, until},
};

/// How long the sandbox's vCenter takes to clone a VM, how many of them a host works on at a time, and how many hosts there are. 8 is
/// vSphere's limit of provisioning operations on a host.
const CLONE: f64 = 3.0;
const AT_A_TIME: usize = 8 * 4;
const VCENTER: [&str; 3] = ["--clone-delay=3s", "--clones-per-host=8", "--hosts=4"];
/// What may come on top of what vCenter itself takes, `kubectl apply` included.
const SURCHARGE: f64 = 1.15;
/// A longer one says enough when it is measured once.
const SHORT: usize = 100;

pub(crate) fn one_group(run: &mut Run) {
    let site = Site::new("make", &[&VCENTER[..], &["--vcenters=2"]].concat());
    let peer = site.sandbox.own_vcenter();
    let sizes: &[usize] = if run.scope == Scope::Full { &[30, 100, 500, 2000] } else { &[30, 100, 500] };
    for &vms in sizes {
        let (limit, by) = limit(vms);
        let patience = Duration::from_secs_f64(3.0 * limit + 30.0);
        let (mut made, mut bare, mut govc) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..if vms <= SHORT { run.times() } else { 1 } {
            bare.push(peers::bare_calls(&peer, vms, patience));
            made.push(site.make(&[group("web", vms)], vms, patience));
            if vms == 30 {
                govc.push(peers::govc(&peer, vms, patience));
            }
            site.clear();
        }
        let took = Measurement::new(format!("{vms} VMs in one VmGroup"), "s", made.iter().map(|made| made.seconds));
        let took = took.limit(limit, by, SURCHARGE).peer("bare calls", &bare);
        run.add(if govc.is_empty() { took } else { took.peer("govc", &govc) });
        costs(run, &made, vms, 1);
    }
}

pub(crate) fn many_groups(run: &mut Run) {
    let sizes: &[usize] = if run.scope == Scope::Full { &[100, 1000] } else { &[100] };
    for &groups in sizes {
        let site = Site::new("groups", &VCENTER);
        let all: Vec<_> = (0..groups).map(|n| group(&format!("web-{n}"), 3)).collect();
        let (limit, by) = limit(3 * groups);
        let made = site.make(&all, 3 * groups, Duration::from_secs_f64(3.0 * limit + 60.0));
        let took = Measurement::new(format!("{groups} VmGroups of 3 VMs"), "s", [made.seconds]);
        run.add(took.limit(limit, by, SURCHARGE));
        costs(run, &[made], 3 * groups, groups);
        let (written, warned) = (site.api_writes(), warnings(&site));
        let deleted = delete_namespace(&site);
        let writes = (site.api_writes() - written) / to_f64(groups);
        let warnings = warnings(&site) - warned;
        drop(site);
        let bare = peers::bare_namespace(&site::start("bare", &[]), groups, 3);
        let took = Measurement::new("their namespace deleted", "s", [deleted]);
        run.add(took.limit(bare, "Kubernetes, for the same objects", 2.0));
        run.add(Measurement::new("API writes for each VmGroup meanwhile", "", [writes]).promise(12.0));
        run.add(Measurement::new("warnings logged meanwhile", "", [warnings]).promise(0.0));
    }
}

/// A vCenter lists 200 tasks. What is no longer listed runs on, and is not begun again.
pub(crate) fn more_than_vcenter_lists(run: &mut Run) {
    let site = Site::new("crowd", &["--clone-delay=3s", "--clones-per-host=8", "--hosts=30"]);
    site.make(&[group("web", 230)], 230, Duration::from_mins(1));
    let clones = count(site.vcenter().calls("CloneVM_Task", OPERATOR));
    run.add(Measurement::new("clones asked for, of 230 VMs", "", [clones]).limit(230.0, "one for each", 1.0));
}

/// How long vCenter itself needs for so many VMs.
fn limit(vms: usize) -> (f64, String) {
    let turns = vms.div_ceil(AT_A_TIME);
    (CLONE * to_f64(turns), format!("vCenter: {turns} × {CLONE} s"))
}

/// What it took to make VMs, beside time.
fn costs(run: &mut Run, made: &[Made], vms: usize, groups: usize) {
    let each = |of: fn(&Made) -> f64| made.iter().map(move |made| of(made) / to_f64(vms));
    // A clone is one call. What comes on top are long polls: each tells of all that has changed in some hundredths of a second.
    let calls = Measurement::new("calls to vCenter for each VM", "", each(|made| made.calls));
    run.add(calls.limit(1.0, "vCenter: one call to clone", if vms < SHORT { 2.0 } else { 1.5 }));
    let writes = made.iter().map(|made| made.writes / to_f64(groups + vms));
    let writes = Measurement::new("API writes for each VmGroup, and each VMInfo of a VM", "", writes);
    run.add(writes.promise(5.0));
    run.add(Measurement::new("CPU for each VM", "ms", each(|made| 1000.0 * made.cpu)).promise(50.0));
}

/// How many lines of the operator's log are warnings.
fn warnings(site: &Site) -> f64 {
    to_f64(site.operator.log().lines().filter(|line| line.contains("WARN")).count())
}

/// Deletes the namespace with all groups in it, and measures until neither they nor their VMs and folders are left.
fn delete_namespace(site: &Site) -> f64 {
    let patience = Duration::from_mins(5);
    let began = now();
    let delete = ["delete", "namespace", &site.namespace.name, "--wait=false"];
    site.sandbox.kubectl().run(&delete).unwrap_or_else(|failure| panic!("{failure}"));
    let is_empty = || {
        // A list of many takes a while to make.
        thread::sleep(Duration::from_millis(200));
        site.namespace.list("vg").is_ok_and(|groups| groups.is_empty())
    };
    if !until(patience, || powered_on(site.vcenter()) == 0) || !until(patience, is_empty) {
        return f64::INFINITY;
    }
    let took = now() - began;
    let left = site.vcenter().govc(&["ls", "/DC0/vm/vm-operator"]).unwrap_or_else(|failure| panic!("{failure}"));
    let left: Vec<_> = left.lines().filter(|path| path.contains("/bench.")).collect();
    assert!(left.is_empty(), "{left:?}");
    took
}
