//! How costs grow with what there is.

use drover_e2e::measurement::{Measurement, to_f64};

use crate::{
    results::{Growth, Run, Scope},
    site::{AT_ONCE, CONTENDED, OPERATOR, Site, count, group, powered_on},
};

const REPAIRS: usize = 5;

pub(crate) fn of_members(run: &mut Run) {
    let sizes = if run.scope == Scope::Full { [250, 500, 1000, 2000] } else { [60, 120, 240, 480] };
    let growth = |name, unit| Growth { name, unit, of: "VMs of one VmGroup", each: "VM", points: Vec::new() };
    let mut calls = growth("calls to make a VM", "");
    let mut memory = growth("memory", "KB");
    let mut start = growth("time to start", "ms");
    let mut site = Site::new("growth-members", &CONTENDED);
    let mut asked = 0.0;
    for vms in sizes {
        let more = vms - powered_on(site.vcenter());
        site.vcenter().forget_calls();
        site.declare(&group("web", vms), more);
        asked += count(site.vcenter().all_calls(OPERATOR));
        calls.points.push((to_f64(vms), vec![asked]));
        let (times, held) = (0..run.times()).map(|_| start_again(&mut site)).unzip();
        start.points.push((to_f64(vms), times));
        memory.points.push((to_f64(vms), held));
    }
    run.grows_by(&calls, Some(1.5));
    run.grows_by(&memory, Some(12.0));
    run.grows_by(&start, None);
}

/// How many milliseconds the operator takes to start, and how many KB of memory it holds after that: what it has needed before is given
/// back.
fn start_again(site: &mut Site) -> (f64, f64) {
    let seconds = site.restart();
    site.rest();
    (1000.0 * seconds, 1000.0 * site.memory())
}

pub(crate) fn of_strangers(run: &mut Run) {
    let sizes = if run.scope == Scope::Full { [1250, 2500, 5000, 10_000] } else { [625, 1250, 2500, 5000] };
    let growth = |name, unit| Growth { name, unit, of: "VMs of others", each: "VM", points: Vec::new() };
    let mut repair = growth("CPU of a repair", "ms");
    let mut memory = growth("memory", "KB");
    let mut start = growth("time to start", "ms");
    let mut site = Site::new("growth-strangers", &[AT_ONCE]);
    site.fill(5);
    let mut there = 0;
    for strangers in sizes {
        site.add_strangers(strangers - there, 1024);
        there = strangers;
        let (times, held) = (0..run.times()).map(|_| start_again(&mut site)).unzip();
        start.points.push((to_f64(strangers), times));
        memory.points.push((to_f64(strangers), held));
        let machine = site.members().remove(0);
        let times = (0..REPAIRS).map(|_| 1000.0 * site.cpu_of_a_repair(&machine)).collect();
        repair.points.push((to_f64(strangers), times));
    }
    let largest = repair.points.last().expect("there are four").1.clone();
    run.add(Measurement::new(format!("CPU of a repair among {there} VMs of others"), "ms", largest).promise(100.0));
    run.grows(&repair, 0.25);
    run.grows_by(&memory, Some(2.0));
    run.grows_by(&start, None);
}
