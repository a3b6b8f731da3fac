//! What people do to members in vCenter, past Drover, and VMs of theirs that look like members.

use std::time::{Duration, Instant};

use drover_e2e::{Vm, World};

use crate::{
    edits::{self, FOLDERS, TEMPLATES},
    model::{self, Key},
    storm::{Kind, Storm},
};

/// No more copies than this are made.
const COPIES: usize = 8;

/// Does something to any member with govc. Somebody else may be faster to change it: then nothing was done.
fn to_any(storm: &mut Storm, words: impl FnOnce(&mut Storm, &Key, &Vm) -> Vec<String>) -> Option<String> {
    let (key, vm) = storm.any_member()?;
    storm.disturb(&key);
    let words = words(storm, &key, &vm);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    storm.vcenter.govc(&words).ok()?;
    Some(vm.path())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

pub(crate) fn power_off(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, _, vm| owned(&["vm.power", "-off", "-force", &vm.path()]))
}

pub(crate) fn suspend(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, _, vm| owned(&["vm.power", "-suspend", "-force", &vm.path()]))
}

/// Gives a VM other CPUs. One that runs takes none, so it is powered off first.
pub(crate) fn reconfigure(storm: &mut Storm) -> Option<String> {
    to_any(storm, |storm, _, vm| {
        let _ = storm.vcenter.govc(&["vm.power", "-off", "-force", &vm.path()]);
        owned(&["vm.change", "-vm", &vm.path(), "-c", "7"])
    })
}

pub(crate) fn rename(storm: &mut Storm) -> Option<String> {
    to_any(storm, |storm, _, vm| {
        storm.round += 1;
        owned(&["object.rename", &vm.path(), &format!("mine-{}", storm.round)])
    })
}

pub(crate) fn relocate(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, _, vm| owned(&["object.mv", &vm.path(), "/DC0/vm/others"]))
}

pub(crate) fn destroy(storm: &mut Storm) -> Option<String> {
    to_any(storm, |storm, key, vm| {
        storm.model.lose(key);
        owned(&["vm.destroy", &vm.path()])
    })
}

/// Takes a member out of the inventory. The operator powers it on again meanwhile, so it may take some tries.
fn take_out(storm: &mut Storm) -> Option<Vm> {
    if !storm.is_in_sight() {
        return None;
    }
    let (key, vm) = storm.any_member()?;
    storm.disturb(&key);
    let path = vm.path();
    let is_out = (0..5).any(|_| {
        let _ = storm.vcenter.govc(&["vm.power", "-off", "-force", &path]);
        storm.vcenter.govc(&["vm.unregister", &path]).is_ok()
    });
    if !is_out {
        return None;
    }
    storm.model.lose(&key);
    storm.model.unregistered.push(vm.instance.clone());
    storm.model.taken_out.push(vm.clone());
    Some(vm)
}

/// Brings VMs back whose time out of the inventory is over, once vCenter can be asked. Where one was there may be another, or nothing any
/// more: then it stays out.
pub(crate) fn bring_back_all(storm: &mut Storm) {
    if storm.is_there() {
        for (vm, left) in std::mem::take(&mut storm.out) {
            bring_back(storm, &vm);
            take_up(storm, &vm, left);
        }
    }
}

fn bring_back(storm: &Storm, vm: &Vm) {
    let file = vm.file.trim_start_matches("[LocalDS_0] ");
    let words = [
        "vm.register",
        "-ds",
        "LocalDS_0",
        "-pool",
        "DC0_C0/Resources",
        "-folder",
        &vm.folder,
        "-name",
        &vm.name,
        file,
    ];
    let _ = storm.vcenter.govc(&words);
}

/// Counts a VM that is back as a member again, if it was not away for so long that its group may have given it up.
fn take_up(storm: &mut Storm, vm: &Vm, left: Instant) {
    let given_up = Duration::from_secs(edits::LOST_AFTER).saturating_sub(GIVEN_UP_SOONER);
    let Some(world) = storm.world().filter(|_| left.elapsed() < given_up) else { return };
    let Some(marker) = world.by_instance(&vm.instance).and_then(Vm::marker) else { return };
    let is_alone = world.made_by(marker).filter(|other| other.slot() == vm.slot()).count() == 1;
    let group = storm.model.groups.values_mut().find(|group| group.marker == marker);
    if let Some(group) = group.filter(|_| is_alone) {
        group.disturb();
        storm.model.unregistered.retain(|instance| *instance != vm.instance);
    }
}

/// How much sooner than declared a VM may seem to be given up: calls take their time.
const GIVEN_UP_SOONER: Duration = Duration::from_secs(15);

pub(crate) fn unregister_for_a_while(storm: &mut Storm) -> Option<String> {
    let vm = take_out(storm)?;
    let (path, left) = (vm.path(), Instant::now());
    let seconds = storm.chance.between(2, 15);
    storm.lasts("unregistered", Kind::Blinding, seconds, move |storm| storm.out.push((vm, left)));
    Some(path)
}

pub(crate) fn unregister(storm: &mut Storm) -> Option<String> {
    if storm.has("unregistered for good") {
        return None;
    }
    let path = take_out(storm)?.path();
    // By then it is given up, and nobody waits for it any more.
    storm.lasts("unregistered for good", Kind::Free, 100, |_| ());
    Some(path)
}

/// Renames the folder of a group, whoever's VMs are in it.
pub(crate) fn rename_folder(storm: &mut Storm) -> Option<String> {
    let key = storm.any_group().filter(|_| storm.is_there())?;
    let path = model::folder(&key, &storm.model.groups[&key].spec);
    let (parent, name) = path.rsplit_once('/')?;
    let renamed = format!("{name}{}", model::RENAMED);
    storm.vcenter.govc(&["object.rename", &path, &renamed]).ok()?;
    storm.disturb(&key);
    for stranger in storm.model.strangers.values_mut().filter(|stranger| stranger.vm.folder == path) {
        stranger.vm.folder = format!("{parent}/{renamed}");
    }
    Some(path)
}

/// Clones a member as a person does. The copy has the member's marker.
pub(crate) fn copy(storm: &mut Storm) -> Option<String> {
    let copies = storm.model.strangers.values().filter(|stranger| stranger.why == COPY).count();
    if copies >= COPIES || !storm.is_in_sight() {
        return None;
    }
    let (_, vm) = storm.any_member()?;
    storm.round += 1;
    let name = format!("copy-{}", storm.round);
    let folder = if storm.chance.percent(30) { vm.folder.clone() } else { "/DC0/vm/others".to_owned() };
    let is_on = storm.chance.percent(50);
    let on = format!("-on={is_on}");
    let asked = storm.vcenter.govc(&["vm.clone", "-vm.ipath", &vm.path(), "-folder", &folder, &on, &name]);
    let world = World::look(&storm.vcenter).ok()?;
    if asked.is_err() {
        // govc clones first and powers on then. What it may have left is a copy too.
        let left = world.vms.iter().find(|vm| vm.name == name)?;
        storm.model.note(COPY, left, 0.0, None);
        return None;
    }
    // If it isn't there as it was asked for, somebody has touched it already.
    let power = if is_on { "poweredOn" } else { "poweredOff" };
    let is_it = |vm: &&Vm| vm.name == name && vm.folder == folder && vm.power == power;
    let copy =
        world.vms.iter().find(is_it).unwrap_or_else(|| panic!("{folder}/{name}, a copy, is not {power} any more"));
    storm.model.note(COPY, copy, 0.0, None);
    Some(format!("{} of {}", copy.path(), vm.path()))
}

const COPY: &str = "a copy of a member,";

/// VMs of others, from the beginning.
pub(crate) fn foreign(storm: &mut Storm) {
    let vcenter = storm.vcenter.clone();
    let govc = |words: &[&str]| vcenter.govc(words).unwrap_or_else(|failure| panic!("{failure}"));
    govc(&["folder.create", "/DC0/vm/others"]);
    govc(&["folder.create", "/DC0/vm/second-home"]);
    govc(&["vm.clone", "-vm", TEMPLATES[0], "-folder", "/DC0/vm/others", "-on=false", TEMPLATES[1]]);
    // Clones have the keys of their template, so that it can be told.
    govc(&["vm.change", "-vm", TEMPLATES[1], "-e", &format!("guestinfo.from={}", TEMPLATES[1])]);
    govc(&["vm.markastemplate", TEMPLATES[1]]);
    for (number, folder) in FOLDERS.iter().chain(&["others"]).enumerate() {
        for power in [true, false] {
            let (folder, on) = (format!("/DC0/vm/{folder}"), format!("-on={power}"));
            let name = format!("foreign-{number}-{power}");
            govc(&["vm.clone", "-vm", TEMPLATES[0], "-folder", &folder, &on, &name]);
        }
    }
    let world = World::look(&storm.vcenter).unwrap_or_else(|error| panic!("{error}"));
    for vm in &world.vms {
        storm.model.note("a VM or template of others,", vm, 0.0, None);
    }
}
