//! VMs that are changed, replaced and removed.

use std::{thread, time::Duration};

use drover_e2e::{
    Vm, World,
    measurement::{Measurement, to_f64},
};
use serde_json::{Value, json};

use crate::{
    results::Run,
    site::{CLONE, CONTENDED, GLANCE, OPERATOR, Site, count, last_power_on, now, powered_on, until},
};

const VMS: usize = 100;
const UNAVAILABLE: usize = 25;
const POWER: f64 = 0.5;
const SURCHARGE: f64 = 1.5;
const PATIENCE: Duration = Duration::from_mins(3);
const TEMPLATES: [&str; 2] = ["/DC0/vm/vm-operator/vm-operator-template", "/DC0/vm/elsewhere/vm-operator-template"];

pub(crate) fn a_hundred(run: &mut Run) {
    let site = Site::new("change", &[&CONTENDED[..], &["--power-delay=500ms", "--second-template"]].concat());
    site.declare(&web(VMS, 1, TEMPLATES[0]), VMS);
    let cpus: Vec<_> = (0..run.times()).map(|n| web(VMS, 2 + n, TEMPLATES[0])).collect();
    let most = 1 + run.times();
    let templates: Vec<_> = (0..run.times()).map(|n| web(VMS, most, TEMPLATES[(1 + n) % 2])).collect();
    // Powered off, changed, powered on; or powered off, destroyed, cloned.
    edit(run, &site, "CPUs of 100 VMs changed in place", &cpus, 2.0 * POWER);
    edit(run, &site, "100 VMs replaced by those of another template", &templates, CLONE + POWER);
    scale_in(run, &site, most, TEMPLATES[run.times() % 2]);
}

/// A group that changes a quarter of its VMs at a time.
fn web(replicas: usize, cpu: usize, template: &str) -> (String, Value) {
    let spec =
        json!({"replicas": replicas, "cpu": cpu, "template": template, "update": {"maxUnavailable": UNAVAILABLE}});
    ("web".to_owned(), spec)
}

/// Measures edits one after the other, of each of which vCenter takes so long for a VM.
fn edit(run: &mut Run, site: &Site, name: &str, edits: &[(String, Value)], each: f64) {
    let (mut times, mut calls) = (Vec::new(), Vec::new());
    for edit in edits {
        site.vcenter().forget_calls();
        times.push(roll(site, edit));
        site.rest();
        calls.push(count(site.vcenter().all_calls(OPERATOR)) / to_f64(VMS));
    }
    let turns = to_f64(VMS.div_ceil(UNAVAILABLE));
    let by = format!("vCenter and maxUnavailable: {turns} × {each} s");
    run.add(Measurement::new(name, "s", times).limit(each * turns, by, SURCHARGE));
    let calls = Measurement::new("calls to vCenter for each of them", "", calls);
    run.add(calls.limit(3.0, "vCenter: one for each of three steps", 1.5));
}

/// Measures how half of the VMs are removed, and how others remove the other half.
fn scale_in(run: &mut Run, site: &Site, cpu: usize, template: &str) {
    let half = VMS / 2;
    let (mut times, mut govc) = (Vec::new(), Vec::new());
    for round in 0..run.times() {
        if round > 0 {
            // What govc has removed comes back by itself.
            site.apply(&[web(VMS, cpu, template)]);
            assert!(until(PATIENCE, || powered_on(site.vcenter()) == VMS), "{VMS} VMs are there again");
            site.rest();
        }
        let began = now();
        site.apply(&[web(half, cpu, template)]);
        let is_done = until(PATIENCE, || machines(site) == half);
        times.push(if is_done { now() - began } else { f64::INFINITY });
        site.operator.freeze();
        govc.push(destroy(site, half));
        site.operator.thaw();
    }
    let took = Measurement::new("50 of 100 VMs removed by scale-in", "s", times);
    run.add(took.limit(POWER, "vCenter: one power-off", 4.0).peer("govc", &govc));
}

/// From before `kubectl apply` is started until vCenter powers on the last VM, where the group says that all is as declared and so it is.
fn roll(site: &Site, group: &(String, Value)) -> f64 {
    site.vcenter().forget_power_changes();
    let began = now();
    site.apply(std::slice::from_ref(group));
    let generation = site.namespace.get("vg", "web").map(|group| group["metadata"]["generation"].clone());
    let generation = generation.unwrap_or_else(|failure| panic!("{failure}"));
    let is_done = until(PATIENCE, || {
        thread::sleep(GLANCE);
        site.namespace.get("vg", "web").is_ok_and(|group| {
            let status = &group["status"];
            let updated = [&status["updatedReplicas"], &status["readyReplicas"]].iter().all(|count| **count == VMS);
            status["observedGeneration"] == generation && updated
        })
    });
    if !is_done || powered_on(site.vcenter()) != VMS {
        return f64::INFINITY;
    }
    let took = last_power_on(site.vcenter()) - began;
    assert_as_declared(site, &group.1);
    took
}

/// vCenter has what the status says: VMs of the last revision, with the CPUs that are declared.
fn assert_as_declared(site: &Site, spec: &Value) {
    let group = site.namespace.get("vg", "web").unwrap_or_else(|failure| panic!("{failure}"));
    let world = World::look(site.vcenter()).unwrap_or_else(|error| panic!("{error}"));
    let members: Vec<_> = world.vms.iter().filter(|vm| vm.marker().is_some()).collect();
    let is_other = |vm: &&&Vm| spec["cpu"] != vm.cpus || group["status"]["revision"] != vm.revision();
    let differs = members.iter().find(is_other);
    assert!(members.len() == VMS && differs.is_none(), "{} VMs, of which one is {differs:?}", members.len());
}

/// How many VMs there are, powered on or not.
fn machines(site: &Site) -> usize {
    let counts = site.vcenter().control("GET", "/machines", &Value::Null).expect("VMs can always be counted");
    counts["machines"].as_u64().and_then(|count| count.try_into().ok()).expect("it has few VMs")
}

/// What a govc for each takes to destroy so many VMs, all at once.
fn destroy(site: &Site, vms: usize) -> f64 {
    let members: Vec<_> = site.members().into_iter().take(vms).collect();
    let (began, before) = (now(), machines(site));
    let scripts = members.into_iter().map(|machine| {
        let vcenter = site.vcenter().clone();
        thread::spawn(move || vcenter.govc(&["vm.destroy", &machine]))
    });
    let scripts = scripts.collect::<Vec<_>>();
    let is_done = until(PATIENCE, || machines(site) == before - vms);
    let took = if is_done { now() - began } else { f64::INFINITY };
    for script in scripts {
        script.join().expect("it does not panic").unwrap_or_else(|failure| panic!("{failure}"));
    }
    took
}
