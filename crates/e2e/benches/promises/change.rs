//! VMs that are changed, replaced and removed.

use std::time::Duration;

use drover_e2e::measurement::{Measurement, to_f64};
use serde_json::{Value, json};

use crate::{
    results::Run,
    site::{GLANCE, OPERATOR, Site, count, now, powered_on, until},
};

const VMS: usize = 100;
const UNAVAILABLE: usize = 25;
const POWER: f64 = 0.5;
const CLONE: f64 = 3.0;
const SURCHARGE: f64 = 1.5;
const VCENTER: [&str; 5] =
    ["--clone-delay=3s", "--clones-per-host=8", "--hosts=4", "--power-delay=500ms", "--second-template"];
const PATIENCE: Duration = Duration::from_mins(3);
const OTHER_TEMPLATE: &str = "/DC0/vm/elsewhere/vm-operator-template";
const TEMPLATE: &str = "/DC0/vm/vm-operator/vm-operator-template";

pub(crate) fn a_hundred(run: &mut Run) {
    let site = Site::new("change", &VCENTER);
    let spec = |replicas: usize, cpu: u32, template: &str| json!({"replicas": replicas, "cpu": cpu, "template": template, "update": {"maxUnavailable": UNAVAILABLE}});
    site.make(&[("web".to_owned(), spec(VMS, 1, TEMPLATE))], VMS, PATIENCE);
    let turns = VMS.div_ceil(UNAVAILABLE);

    let edits = [
        ("CPUs of 100 VMs changed in place", spec(VMS, 2, TEMPLATE), 2.0 * POWER, 3.0),
        ("100 VMs replaced by those of another template", spec(VMS, 2, OTHER_TEMPLATE), CLONE + POWER, 4.0),
    ];
    for (name, spec, each, calls) in edits {
        site.vcenter().forget_calls();
        let took = Measurement::new(name, "s", [roll(&site, &spec)]);
        let by = format!("vCenter and maxUnavailable: {turns} × {each} s");
        run.add(took.limit(each * to_f64(turns), by, SURCHARGE));
        site.rest();
        let made = count(site.vcenter().all_calls(OPERATOR)) / to_f64(VMS);
        let made = Measurement::new("calls to vCenter for each of them", "", [made]);
        run.add(made.limit(calls, "vCenter: one for each step", 1.5));
    }

    let half = VMS / 2;
    let began = now();
    site.apply(&[("web".to_owned(), spec(half, 2, OTHER_TEMPLATE))]);
    let is_done = until(PATIENCE, || machines(&site) == half);
    let took = if is_done { now() - began } else { f64::INFINITY };
    site.operator.freeze();
    let govc = destroy(&site, half);
    site.operator.thaw();
    let took = Measurement::new("50 of 100 VMs removed by scale-in", "s", [took]);
    run.add(took.limit(POWER, "vCenter: one power-off", 4.0).peer("govc", &[govc]));
}

/// From before `kubectl apply` is started until the group says that all is as declared.
fn roll(site: &Site, spec: &Value) -> f64 {
    let began = now();
    site.apply(&[("web".to_owned(), spec.clone())]);
    let generation = site.namespace.get("vg", "web").map(|group| group["metadata"]["generation"].clone());
    let generation = generation.unwrap_or_else(|failure| panic!("{failure}"));
    let is_done = until(PATIENCE, || {
        std::thread::sleep(GLANCE);
        site.namespace.get("vg", "web").is_ok_and(|group| {
            let status = &group["status"];
            let updated = [&status["updatedReplicas"], &status["readyReplicas"]].iter().all(|count| **count == VMS);
            status["observedGeneration"] == generation && updated
        })
    });
    if is_done && powered_on(site.vcenter()) == VMS { now() - began } else { f64::INFINITY }
}

/// How many VMs there are, powered on or not.
fn machines(site: &Site) -> usize {
    let counts = site.vcenter().control("GET", "/machines", &Value::Null).expect("VMs can always be counted");
    counts["machines"].as_u64().and_then(|count| count.try_into().ok()).expect("it has few VMs")
}

/// What govc takes to destroy so many VMs with one command.
fn destroy(site: &Site, vms: usize) -> f64 {
    let members = site.members();
    let began = now();
    let names = members.iter().take(vms).map(String::as_str);
    let destroy: Vec<_> = std::iter::once("vm.destroy").chain(names).collect();
    site.vcenter().govc(&destroy).unwrap_or_else(|failure| panic!("{failure}"));
    now() - began
}
