//! How costs grow with what there is.

use drover_e2e::measurement::{Measurement, to_f64};

use crate::{
    results::{Growth, Run, Scope},
    site::{AT_ONCE, Site, group, powered_on},
};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_mins(5);
const REPAIRS: usize = 5;

pub(crate) fn of_members(run: &mut Run) {
    let sizes = if run.scope == Scope::Full { [250, 500, 1000, 2000] } else { [60, 120, 240, 480] };
    let growth = |name, unit| Growth { name, unit, of: "VMs of one VmGroup", points: Vec::new() };
    let mut calls = growth("calls to make a VM", "");
    let mut memory = growth("memory", "KB");
    let mut start = growth("time to start", "s");
    let mut site = Site::new("growth-members", &[AT_ONCE]);
    let mut asked = 0.0;
    for vms in sizes {
        let more = vms - powered_on(site.vcenter());
        asked += site.make(&[group("web", vms)], more, PATIENCE).calls;
        calls.points.push((to_f64(vms), vec![asked]));
        let times = (0..run.times()).map(|_| site.restart()).collect();
        start.points.push((to_f64(vms), times));
        site.rest();
        memory.points.push((to_f64(vms), vec![site.memory() * 1000.0]));
    }
    run.grows_by(&calls, 1.5);
    run.grows_by(&memory, 12.0);
    run.grows(&start, 1.1);
}

pub(crate) fn of_strangers(run: &mut Run) {
    let sizes = if run.scope == Scope::Full { [1250, 2500, 5000, 10_000] } else { [625, 1250, 2500, 5000] };
    let growth = |name, unit| Growth { name, unit, of: "VMs of others", points: Vec::new() };
    let mut repair = growth("CPU of a repair", "ms");
    let mut memory = growth("memory", "KB");
    let mut site = Site::new("growth-strangers", &[AT_ONCE]);
    site.fill(5);
    let mut there = 0;
    for strangers in sizes {
        site.add_strangers(strangers - there, 1024);
        there = strangers;
        // What was needed to take up the new ones is given back.
        site.restart();
        site.rest();
        memory.points.push((to_f64(strangers), vec![site.memory() * 1000.0]));
        let machine = site.members().remove(0);
        let times = (0..REPAIRS).map(|_| 1000.0 * site.cpu_of_a_repair(&machine)).collect();
        repair.points.push((to_f64(strangers), times));
    }
    let largest = repair.points.last().expect("there are four").1.clone();
    run.add(Measurement::new(format!("CPU of a repair among {there} VMs of others"), "ms", largest).promise(100.0));
    run.grows(&repair, 0.25);
    run.grows_by(&memory, 2.0);
}
