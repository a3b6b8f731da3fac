//! A disk is a file of its own, which outlives the machine that it was detached from.

use std::fs;

use drover_e2e::VCenter;
use serde_json::Value;

use super::{clone, sandbox};

const FOLDER: &str = "/DC0/vm/vm-operator";
const DATA: &str = "[LocalDS_0] drover/data.vmdk";

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// The machine's disk of that file, and the name that govc gives it.
fn disk(vcenter: &VCenter, machine: &str) -> Option<(String, Value)> {
    let listed = vcenter.govc(&["device.info", "-json", "-vm", &path(machine)]).unwrap();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let devices = listed["devices"].as_array().unwrap();
    let device = devices.iter().find(|device| device["backing"]["fileName"] == DATA)?;
    Some((device["name"].as_str().unwrap().to_owned(), device.clone()))
}

fn make_data(vcenter: &VCenter, machine: &str) {
    vcenter.govc(&["datastore.mkdir", "-ds", "LocalDS_0", "-p", "drover"]).unwrap();
    vcenter.govc(&["vm.disk.create", "-vm", &path(machine), "-name", "drover/data", "-size", "1G"]).unwrap();
}

fn attach(vcenter: &VCenter, machine: &str) -> Result<String, drover_e2e::Failure> {
    // With a link, govc would make a delta of it.
    vcenter.govc(&["vm.disk.attach", "-vm", &path(machine), "-disk", "drover/data.vmdk", "-link=false"])
}

#[test]
fn a_detached_disk_outlives_its_machine_with_its_size_uuid_and_data() {
    let vcenter = sandbox().own_vcenter();
    for name in ["first", "second"] {
        clone(&vcenter, name, FOLDER).unwrap();
    }
    make_data(&vcenter, "first");
    let marker = sandbox().dir().join("marker.txt");
    fs::write(&marker, "written by a test").unwrap();
    let marker = marker.to_str().unwrap();
    vcenter.govc(&["datastore.upload", "-ds", "LocalDS_0", marker, "drover/data-flat.vmdk"]).unwrap();

    let (name, made) = disk(&vcenter, "first").unwrap();
    vcenter.govc(&["device.remove", "-vm", &path("first"), "-keep", &name]).unwrap();
    vcenter.govc(&["vm.destroy", &path("first")]).unwrap();
    attach(&vcenter, "second").unwrap();
    let (_, attached) = disk(&vcenter, "second").unwrap();
    for field in ["capacityInKB", "capacityInBytes"] {
        assert_eq!(attached[field], made[field], "{field}");
    }
    assert_eq!(attached["backing"]["uuid"], made["backing"]["uuid"]);
    let read = || vcenter.govc(&["datastore.download", "-ds", "LocalDS_0", "drover/data-flat.vmdk", "-"]);
    assert_eq!(read().unwrap(), "written by a test");

    vcenter.govc(&["vm.destroy", &path("second")]).unwrap();
    read().expect_err("what is attached goes with the machine");
}

#[test]
fn a_disk_of_a_running_machine_is_locked() {
    let vcenter = sandbox().own_vcenter();
    for name in ["first", "second", "third"] {
        clone(&vcenter, name, FOLDER).unwrap();
    }
    make_data(&vcenter, "first");
    attach(&vcenter, "second").unwrap();
    let power = |how: &str, name: &str| vcenter.govc(&["vm.power", how, &path(name)]);
    power("-on", "first").unwrap();
    power("-on", "third").unwrap();
    let deletion = ["datastore.rm", "-ds", "LocalDS_0", "drover/data.vmdk"];
    for refused in [power("-on", "second"), attach(&vcenter, "third"), vcenter.govc(&deletion)] {
        let refused = refused.unwrap_err();
        assert!(refused.stderr.contains("FileLocked"), "{refused}");
    }
    power("-off", "first").unwrap();
    power("-on", "second").unwrap();
}
