//! What people do to members in vCenter, past Drover, and VMs of theirs that look like members.

use drover_e2e::{Vm, World};

use crate::{
    edits::FOLDERS,
    model,
    storm::{Kind, Storm},
};

/// No more copies than this are made.
const COPIES: usize = 8;

/// Does something to any member with govc. Somebody else may be faster to change it: then nothing was done.
fn to_any(storm: &mut Storm, words: impl FnOnce(&mut Storm, &Vm) -> Vec<String>) -> Option<String> {
    let (_, vm) = storm.any_member()?;
    let words = words(storm, &vm);
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    storm.vcenter.govc(&words).ok()?;
    Some(vm.path())
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

pub(crate) fn power_off(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, vm| owned(&["vm.power", "-off", "-force", &vm.path()]))
}

pub(crate) fn suspend(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, vm| owned(&["vm.power", "-suspend", "-force", &vm.path()]))
}

/// Gives a VM other CPUs. One that runs takes none, so it is powered off first.
pub(crate) fn reconfigure(storm: &mut Storm) -> Option<String> {
    to_any(storm, |storm, vm| {
        let _ = storm.vcenter.govc(&["vm.power", "-off", "-force", &vm.path()]);
        owned(&["vm.change", "-vm", &vm.path(), "-c", "7"])
    })
}

pub(crate) fn rename(storm: &mut Storm) -> Option<String> {
    to_any(storm, |storm, vm| {
        storm.round += 1;
        owned(&["object.rename", &vm.path(), &format!("mine-{}", storm.round)])
    })
}

pub(crate) fn relocate(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, vm| owned(&["object.mv", &vm.path(), "/DC0/vm/others"]))
}

pub(crate) fn destroy(storm: &mut Storm) -> Option<String> {
    to_any(storm, |_, vm| owned(&["vm.destroy", &vm.path()]))
}

/// Takes a member out of the inventory. The operator powers it on again meanwhile, so it may take some tries.
fn take_out(storm: &mut Storm) -> Option<Vm> {
    if !storm.is_in_sight() {
        return None;
    }
    let (_, vm) = storm.any_member()?;
    let path = vm.path();
    let is_out = (0..5).any(|_| {
        let _ = storm.vcenter.govc(&["vm.power", "-off", "-force", &path]);
        storm.vcenter.govc(&["vm.unregister", &path]).is_ok()
    });
    is_out.then_some(vm)
}

/// Brings VMs back whose time out of the inventory is over, once vCenter can be asked. Where one was there may be another, or nothing any
/// more: then it stays out.
pub(crate) fn bring_back_all(storm: &mut Storm) {
    if storm.is_there() {
        for vm in std::mem::take(&mut storm.out) {
            bring_back(storm, &vm);
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

pub(crate) fn unregister_for_a_while(storm: &mut Storm) -> Option<String> {
    let vm = take_out(storm)?;
    let path = vm.path();
    storm.model.unregistered.push(vm.instance.clone());
    let seconds = storm.chance.between(2, 15);
    storm.lasts("unregistered", Kind::Blinding, seconds, move |storm| storm.out.push(vm));
    Some(path)
}

pub(crate) fn unregister(storm: &mut Storm) -> Option<String> {
    if storm.has("unregistered for good") {
        return None;
    }
    let vm = take_out(storm)?;
    let path = vm.path();
    storm.model.unregistered.push(vm.instance.clone());
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
    let on = format!("-on={}", storm.chance.percent(50));
    storm.vcenter.govc(&["vm.clone", "-vm.ipath", &vm.path(), "-folder", &folder, &on, &name]).ok()?;
    let world = World::look(&storm.vcenter).ok()?;
    let copy = world.vms.iter().find(|vm| vm.name == name)?;
    storm.model.note(COPY, copy, None);
    Some(format!("{} of {}", copy.path(), vm.path()))
}

const COPY: &str = "a copy of a member,";

/// VMs of others, from the beginning.
pub(crate) fn foreign(storm: &mut Storm) {
    let vcenter = storm.vcenter.clone();
    let govc = |words: &[&str]| vcenter.govc(words).unwrap_or_else(|failure| panic!("{failure}"));
    govc(&["folder.create", "/DC0/vm/others"]);
    govc(&["folder.create", "/DC0/vm/second-home"]);
    govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", "/DC0/vm/others", "-on=false", "other-template"]);
    govc(&["vm.markastemplate", "other-template"]);
    for (number, folder) in FOLDERS.iter().chain(&["others"]).enumerate() {
        for power in [true, false] {
            let (folder, on) = (format!("/DC0/vm/{folder}"), format!("-on={power}"));
            let name = format!("foreign-{number}-{power}");
            govc(&["vm.clone", "-vm", "vm-operator-template", "-folder", &folder, &on, &name]);
        }
    }
    let world = World::look(&storm.vcenter).unwrap_or_else(|error| panic!("{error}"));
    for vm in world.vms.iter().filter(|vm| vm.name.starts_with("foreign-")) {
        storm.model.note("a foreign VM,", vm, None);
    }
}
