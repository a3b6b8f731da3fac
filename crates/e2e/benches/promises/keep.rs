//! VMs that are kept as declared.

use std::{
    thread,
    time::{Duration, Instant},
};

use drover_e2e::{
    at_rest,
    measurement::{Measurement, median, quantile, slope, to_f64},
};

use crate::{
    floor, peers,
    results::{Run, Scope},
    site::{AT_ONCE, OPERATOR, Site, count, group, lease_writes},
};

/// A VM that is nobody's, for a peer.
const ONE_MORE: &str = "--machines=1";
const STRANGER: &str = "/DC0/vm/DC0_C0_RP0_VM1";
const DRIFTS: usize = 200;
const IN_A_ROW: usize = 10;
/// For how long VmGroups come and go.
const CHURN: Duration = Duration::from_mins(4);
/// How many times as long as a bare client Drover may take, which pauses for 50 ms between two polls.
const NOTICE: f64 = 5.0;
/// How often others do the same with one VM.
const PEERS: usize = 10;

pub(crate) fn drift(run: &mut Run) {
    let sizes: &[usize] = if run.scope == Scope::Full { &[100, 2000] } else { &[100] };
    for &vms in sizes {
        let site = Site::new("drift", &[AT_ONCE, ONE_MORE]);
        site.fill(vms);
        let (rounds, memory): (Vec<_>, Vec<_>) =
            (0..run.times()).map(|_| (drifts(&site, DRIFTS), site.memory())).unzip();
        let name = |part: &str| format!("a power-off put right at {vms} VMs, {part}");
        let part = |part: f64| rounds.iter().map(move |off| quantile(off, part));
        let bare: Vec<_> = (0..PEERS).map(|_| floor::hear_and_power_on(site.vcenter(), STRANGER)).collect();
        let script: Vec<_> = (0..PEERS).map(|_| peers::off_and_on(site.vcenter(), STRANGER)).collect();
        let middle = Measurement::new(name("half of 200"), "s", part(0.5));
        let middle = middle.limit(median(&bare), "a bare client that hears of one", NOTICE);
        run.add(middle.peer("govc off, then on", &script));
        run.add(Measurement::new(name("99 of 100"), "s", part(0.99)).promise(0.5));
        run.add(Measurement::new(name("the slowest"), "s", [quantile(&rounds.concat(), 1.0)]).promise(1.0));
        run.add(Measurement::new(format!("memory at {vms} VMs"), "MB", memory).promise(memory_limit(vms)));
        run.add(Measurement::new(format!("peak memory at {vms} VMs"), "MB", [site.peak_memory()]));
    }
}

/// How long each of so many VMs was off.
pub(crate) fn drifts(site: &Site, times: usize) -> Vec<f64> {
    let members = site.members();
    let some = |n: usize| members.iter().cycle().skip(n * IN_A_ROW).take(IN_A_ROW).cloned().collect::<Vec<_>>();
    (0..times / IN_A_ROW).flat_map(|n| site.drift(&some(n))).collect()
}

/// What the program itself may take, and each VM.
pub(crate) fn memory_limit(vms: usize) -> f64 {
    25.0 + to_f64(vms) * 0.012
}

pub(crate) fn churn(run: &mut Run) {
    let site = Site::new("churn", &[AT_ONCE]);
    let (began, mut held) = (Instant::now(), Vec::new());
    for round in (1..).take_while(|_| began.elapsed() < CHURN) {
        let groups: Vec<_> = (0..IN_A_ROW).map(|n| group(&format!("web-{round}-{n}"), 3)).collect();
        let seconds = site.power_on(&groups, 3 * IN_A_ROW, Duration::from_mins(1));
        assert!(seconds.is_finite(), "VMs are made\n{}", site.sandbox.dump());
        let delete = ["delete", "vg", "--all", "--timeout=5m"];
        site.namespace.kubectl(&delete).unwrap_or_else(|failure| panic!("{failure}"));
        let memory = site.operator.own_memory().expect("the operator runs");
        if began.elapsed() > CHURN / 2 {
            held.push((to_f64(round * IN_A_ROW), count(memory) / 1e3));
        }
    }
    let kept = [slope(&held)];
    run.add(Measurement::new("memory kept of each VmGroup of 3 VMs that is gone", "KB", kept).promise(1.0));
}

pub(crate) fn rest(run: &mut Run) {
    let (vms, minutes) = if run.scope == Scope::Full { (2000, 5.0) } else { (100, 2.0) };
    // As it is deployed: with an election.
    let site = Site::start("rest", &[AT_ONCE], &["--enable-leader-election"]);
    site.fill(vms);
    quiet(run, &site, &format!("at rest with {vms} VMs"), minutes);
    site.noise(20);
    thread::sleep(Duration::from_secs(5));
    let (bytes, cpu) = taken(&site, 1.0);
    let name = |what: &str| format!("{what} under noise");
    run.add(Measurement::new(name("KB a minute from vCenter"), "KB", [bytes / 1000.0]).promise(5000.0));
    run.add(Measurement::new(name("CPU in an hour"), "s", [cpu * 60.0]).promise(360.0));
}

/// Measures what the operator takes while nothing happens.
pub(crate) fn quiet(run: &mut Run, site: &Site, when: &str, minutes: f64) {
    site.settle();
    site.vcenter().forget_calls();
    let (written, leases) = (site.api_writes_by_labels(), lease_writes(&site.sandbox));
    let (bytes, cpu) = taken(site, minutes);
    let calls = count(site.vcenter().all_calls(OPERATOR));
    // The long poll is renewed every 45 seconds, and figures are read once a minute. One more of each may fall into the time.
    let most = (minutes * 60.0 / 45.0).floor() + minutes.floor() + 2.0;
    run.add(Measurement::new(format!("calls in {minutes} minutes {when}"), "", [calls]).promise(most));
    let writes: f64 = site
        .api_writes_by_labels()
        .iter()
        .map(|(labels, now)| {
            let new = now - written.get(labels).unwrap_or(&0.0);
            if new > 0.0 {
                eprintln!("{new} times {labels}");
            }
            new
        })
        .sum();
    run.add(Measurement::new(format!("API writes {when}"), "", [writes]).promise(0.0));
    // One for the vCenter, one for what has none, and one for the replica, each renewed every 2 seconds; and the API server's own, every 10
    // seconds. One more of each may fall into the time.
    let leases = lease_writes(&site.sandbox) - leases;
    run.add(
        Measurement::new(format!("API writes to Leases in a minute {when}"), "", [leases / minutes]).promise(100.0),
    );
    run.add(
        Measurement::new(format!("KB a minute from vCenter {when}"), "KB", [bytes / minutes / 1000.0]).promise(100.0),
    );
    run.add(Measurement::new(format!("CPU in an hour {when}"), "s", [cpu / minutes * 60.0]).promise(36.0));
}

/// The bytes that vCenter sends the operator in some minutes, and the seconds that the operator has a processor.
fn taken(site: &Site, minutes: f64) -> (f64, f64) {
    let (bytes, cpu) = (site.vcenter().bytes_sent(OPERATOR), site.cpu_seconds());
    thread::sleep(Duration::from_secs_f64(60.0 * minutes));
    let bytes = site.vcenter().bytes_sent(OPERATOR) - bytes;
    (count(bytes), site.cpu_seconds() - cpu)
}

pub(crate) fn infos(run: &mut Run) {
    let calls = at_rest(100, 1000, Duration::from_mins(3));
    // Four long polls, and figures three times, for VMs and for hosts; one more of each may fall into the time.
    let name = "calls in 3 minutes with 100 hosts and 1000 VMs shown";
    run.add(Measurement::new(name, "", [count(calls)]).promise(13.0));
}
