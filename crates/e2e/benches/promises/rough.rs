//! What can be said in little time.

use std::{fs, path::Path};

use drover_e2e::{binary, measurement::Measurement};

use crate::{
    keep,
    results::Run,
    site::{AT_ONCE, Site, count, group},
};

const VMS: usize = 20;
/// The program's own code takes several times as much in a debug build, so what it holds beside that is measured.
const OWN_MEMORY: f64 = 25.0;

/// What breaks when a change makes Drover ask more, hold more, or no longer rest: none of it depends on how busy the machine is. Times
/// are limited so widely that only something that waits for a timer misses them.
pub(crate) fn twenty(run: &mut Run) {
    let site = Site::new("smoke", &[AT_ONCE, "--machines=1"]);
    let made = site.make(&[group("web", VMS)], VMS, std::time::Duration::from_mins(1));
    run.add(Measurement::new("20 VMs in one VmGroup", "s", [made.seconds]).promise(20.0));
    run.add(Measurement::new("calls to vCenter for them", "", [made.calls]).promise(60.0));
    run.add(Measurement::new("API writes for them", "", [made.writes]).promise(120.0));
    keep::quiet(run, &site, "at rest with 20 VMs", 1.0);
    keep::drifts(run, &site, VMS);
    let own = site.operator.own_memory().expect("the operator runs");
    run.add(Measurement::new("memory beside its code", "MB", [count(own) / 1e6]).promise(OWN_MEMORY));
}

pub(crate) fn size(run: &mut Run) {
    let megabytes = |path: &Path| fs::metadata(path).map(|file| count(file.len()) / 1e6).ok();
    let program = megabytes(&binary()).expect("the operator is built");
    run.add(Measurement::new("the program measured here", "MB", [program]).promise(20.0));
}
