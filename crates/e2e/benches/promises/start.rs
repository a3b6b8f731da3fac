//! An operator that starts, and a vCenter that comes back.

use std::{thread, time::Duration};

use drover_e2e::measurement::{Measurement, median};
use serde_json::json;

use crate::{
    results::{Run, Scope},
    site::{AT_ONCE, OPERATOR, Site, count, group, last_power_on, now, powered_on, until},
};

/// What may come on top of one read of all VMs: the process, the API server's lists, and the other objects that are mirrored.
const SURCHARGE: f64 = 2.0;

pub(crate) fn among_strangers(run: &mut Run) {
    let (members, strangers) = if run.scope == Scope::Full { (2000, 10_000) } else { (20, 5000) };
    let mut site = Site::new("start", &[AT_ONCE]);
    site.fill(members);
    site.add_strangers(strangers, 10_240);
    let among = format!("{members} VMs and {strangers} of others");
    for (rate, when) in [(0, ""), (20, ", under noise")] {
        site.noise(rate);
        site.vcenter().forget_calls();
        let (took, bare): (Vec<_>, Vec<_>) = (0..run.times()).map(|_| site.restart_beside_bare_client()).unzip();
        let took = Measurement::new(format!("start to repair, {among}{when}"), "s", took);
        run.add(took.limit(median(&bare), "a bare client that reads all VMs", SURCHARGE));
        let touched = ["CloneVM_Task", "Destroy_Task"].map(|method| count(site.vcenter().calls(method, OPERATOR)));
        run.add(Measurement::new("clones and destroys meanwhile", "", [touched.iter().sum()]).promise(0.0));
    }
    thread::sleep(Duration::from_secs(20));
    run.add(Measurement::new("memory after that", "MB", [site.memory()]).promise(60.0));
    run.add(Measurement::new("peak memory after that", "MB", [site.peak_memory()]).promise(90.0));
}

/// However long it was away, what waits is done as soon as a vCenter is back.
pub(crate) fn after_an_outage(run: &mut Run) {
    let site = Site::new("outage", &[AT_ONCE]);
    let outage = |length: &str| {
        site.vcenter().control("POST", "/outage", &json!({"for": length})).expect("an outage can always be had");
    };
    let mut times = Vec::new();
    for _ in 0..run.times() {
        outage("1h");
        site.apply(&[group("web", 10)]);
        // Until it is asked as seldom as it ever is.
        thread::sleep(Duration::from_secs(20));
        let back = now();
        outage("0s");
        let is_done = until(Duration::from_mins(1), || powered_on(site.vcenter()) == 10);
        times.push(if is_done { last_power_on(site.vcenter()) - back } else { f64::INFINITY });
        site.clear();
    }
    run.add(Measurement::new("10 VMs after an outage of 20 s", "s", times).promise(5.0));
}
