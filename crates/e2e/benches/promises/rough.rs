//! What can be said in little time.

use std::{fs, path::Path, time::Duration};

use drover_e2e::{
    binary,
    measurement::{Measurement, median, quantile, to_f64},
};

use crate::{
    keep,
    results::{Run, Scope},
    site::{AT_ONCE, Site, count, group},
};

const VMS: usize = 20;
/// As images name it.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
/// VMs of others, with 1 KB of extraConfig each. At 7000 the tables of the mirror are nearly full, so each VM takes the least that it can; at
/// 2000, where they have just doubled, it takes about half a KB more.
const STRANGERS: usize = 7000;
/// The program's own code takes several times as much in a debug build, so what it holds beside that is measured.
const OWN_MEMORY: f64 = 25.0;

/// What breaks when a change makes Drover ask more, hold more, or no longer rest: none of it depends on how busy the machine is. Times
/// are limited so widely that only something that waits for a timer misses them.
pub(crate) fn twenty(run: &mut Run) {
    let mut site = Site::start("smoke", &[AT_ONCE], &["--enable-leader-election"]);
    let made = site.make(&[group("web", VMS)], VMS, Duration::from_mins(1));
    run.add(Measurement::new("20 VMs in one VmGroup", "s", [made.seconds]).promise(20.0));
    run.add(Measurement::new("calls to vCenter for them", "", [made.calls]).promise(40.0));
    run.add(Measurement::new("API writes for them", "", [made.writes]).promise(120.0));
    keep::quiet(run, &site, "at rest with 20 VMs", 1.0);
    let off = keep::drifts(&site, VMS);
    run.add(Measurement::new("a power-off put right, half of 20", "s", [median(&off)]).promise(0.25));
    run.add(Measurement::new("a power-off put right, the slowest", "s", [quantile(&off, 1.0)]).promise(1.0));
    let before = own_memory_after_start(&mut site);
    run.add(Measurement::new("memory beside its code", "MB", [before / 1e6]).promise(OWN_MEMORY));
    site.add_strangers(STRANGERS, 1024);
    let each = (own_memory_after_start(&mut site) - before) / to_f64(STRANGERS) / 1000.0;
    run.add(Measurement::new("memory for each VM of others", "KB", [each]).promise(2.2));
}

/// Of an operator that has just started, so that nothing is counted that it only needed before.
fn own_memory_after_start(site: &mut Site) -> f64 {
    site.restart();
    site.rest();
    count(site.operator.own_memory().expect("the operator runs"))
}

/// How large the program is, and in a full run also that of the image, which `make bench-full` has built, and what it holds.
pub(crate) fn size(run: &mut Run) {
    run.add(Measurement::new("the program measured here", "MB", [megabytes(&binary())]).promise(20.0));
    let staged = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../bin/linux")).join(ARCHITECTURE);
    let program = staged.join("drover");
    if run.scope != Scope::Full {
        return;
    }
    if !program.exists() {
        return run.note("The program of the image could not be built here, and is not measured.");
    }
    run.add(Measurement::new("the program of the image", "MB", [megabytes(&program)]).promise(16.0));
    let certificates = staged.join("etc/ssl/certs/ca-certificates.crt");
    let all = [&program, &certificates].map(|file| megabytes(file));
    run.add(
        Measurement::new("all files of the image: program and authorities", "MB", [all.iter().sum()]).promise(20.0),
    );
    let mut site = Site::new("size", &[AT_ONCE]);
    site.fill(100);
    let (mut own, mut of_image) = (Vec::new(), Vec::new());
    for _ in 0..run.times() {
        own.push(memory_of(&mut site, &binary()));
        of_image.push(memory_of(&mut site, &program));
    }
    let held = Measurement::new("memory of the image's program at 100 VMs", "MB", of_image);
    run.add(held.promise(keep::memory_limit(100)).peer("the program measured here", &own));
}

/// Resident memory of a program that has started among the VMs that there are.
fn memory_of(site: &mut Site, program: &Path) -> f64 {
    site.start_other(program);
    site.memory()
}

fn megabytes(file: &Path) -> f64 {
    count(fs::metadata(file).expect("the file is there").len()) / 1e6
}
