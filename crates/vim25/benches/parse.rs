//! How fast vCenter's answers are read, and how fast it is told what is new in them. `make bench-core` runs these, and fails where one
//! takes longer than it may.

use std::fmt::Write as _;
use std::hint::black_box;

use divan::{Bencher, counter::BytesCount};
use vim25::{
    Any,
    collector::known::Known,
    enums::{ObjectUpdateKind, PropertyChangeOp},
    methods::RetrievePropertiesEx,
    read_response,
    types::{ObjectContent, ObjectUpdate, PropertyChange},
};

/// How many objects a page has, or a watch.
const OBJECTS: [usize; 3] = [100, 1000, 10_000];

fn main() {
    divan::main();
}

/// A page with all properties that a mirror of machines follows.
#[divan::bench(args = OBJECTS)]
fn parse_page(bencher: Bencher<'_, '_>, objects: usize) {
    let page = page(objects);
    assert_eq!(read(&page).len(), objects);
    bencher.counter(BytesCount::of_slice(&page)).bench_local(|| read(black_box(&page)));
}

/// Everything is told again, as after a lost session, and nothing of it is new.
#[divan::bench(args = OBJECTS)]
fn known_told_again(bencher: Bencher<'_, '_>, objects: usize) {
    let updates = updates(&page(objects));
    let mut known = known_of(&updates);
    bencher.with_inputs(|| updates.clone()).bench_local_values(|mut updates| {
        known.begin();
        let news = updates.iter_mut().filter_map(|update| known.news(update).then_some(())).count();
        assert_eq!((news, known.complete().len()), (0, 0));
    });
}

/// One property of one object changes, of so many.
#[divan::bench(args = OBJECTS)]
fn known_one_change(bencher: Bencher<'_, '_>, objects: usize) {
    let updates = updates(&page(objects));
    let mut known = known_of(&updates);
    let mut number = 0;
    let change = || {
        number += 1;
        let val = Some(Any::String(number.to_string()));
        let change = PropertyChange { name: "name".to_owned(), op: PropertyChangeOp::Assign, val };
        let obj = updates[objects / 2].obj.clone();
        ObjectUpdate { kind: ObjectUpdateKind::Modify, obj, change_set: vec![change], missing_set: Vec::new() }
    };
    bencher.with_inputs(change).bench_local_values(|mut update| assert!(known.news(&mut update)));
}

fn read(page: &[u8]) -> Vec<ObjectContent> {
    read_response::<RetrievePropertiesEx>(page).expect("the page is an answer").expect("with something in it").objects
}

/// What a page says, as a watch would be told it.
fn updates(page: &[u8]) -> Vec<ObjectUpdate> {
    let update = |object: ObjectContent| ObjectUpdate {
        kind: ObjectUpdateKind::Enter,
        obj: object.obj,
        change_set: object
            .prop_set
            .into_iter()
            .map(|told| PropertyChange { name: told.name, op: PropertyChangeOp::Assign, val: Some(told.val) })
            .collect(),
        missing_set: Vec::new(),
    };
    read(page).into_iter().map(update).collect()
}

fn known_of(updates: &[ObjectUpdate]) -> Known {
    let mut known = Known::default();
    for update in updates {
        assert!(known.news(&mut update.clone()));
    }
    known
}

/// What a collector answers for the properties that a mirror of machines follows.
fn page(objects: usize) -> Vec<u8> {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <soapenv:Envelope xmlns:soapenc=\"http://schemas.xmlsoap.org/soap/encoding/\" \
         xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n<soapenv:Body>\n\
         <RetrievePropertiesExResponse xmlns=\"urn:vim25\"><returnval>",
    );
    for n in 0..objects {
        object(&mut xml, n);
    }
    xml.push_str("</returnval></RetrievePropertiesExResponse>\n</soapenv:Body>\n</soapenv:Envelope>");
    xml.into_bytes()
}

fn object(xml: &mut String, n: usize) {
    // Writing to a `String` has no way to fail.
    _ = write!(xml, "<objects><obj type=\"VirtualMachine\">vm-{n}</obj>");
    let mut property = |name: &str, ty: &str, value: &str| {
        _ = write!(xml, "<propSet><name>{name}</name><val xsi:type=\"{ty}\">{value}</val></propSet>");
    };
    let uuid = format!("42{n:06x}-1b2c-3d4e-5f60-718293a4b5c6");
    property("name", "xsd:string", &format!("web-{n:04}"));
    property("config.uuid", "xsd:string", &uuid);
    property("config.instanceUuid", "xsd:string", &uuid);
    property("config.template", "xsd:boolean", "false");
    property("config.changeVersion", "xsd:string", "2026-01-02T03:04:05.678901Z");
    property("config.hardware.numCPU", "xsd:int", "4");
    property("config.hardware.memoryMB", "xsd:int", "8192");
    property("config.guestId", "xsd:string", "ubuntu64Guest");
    property("runtime.powerState", "VirtualMachinePowerState", "poweredOn");
    property("runtime.connectionState", "VirtualMachineConnectionState", "connected");
    property("runtime.bootTime", "xsd:dateTime", "2026-01-02T03:04:05.678901Z");
    property("guest.ipAddress", "xsd:string", &format!("10.{}.{}.{}", n / 250, n % 250, 7));
    property("guest.hostName", "xsd:string", &format!("web-{n:04}.example.com"));
    property("guest.toolsRunningStatus", "xsd:string", "guestToolsRunning");
    let reference = |ty: &str, value: &str| {
        format!(
            "<ManagedObjectReference type=\"{ty}\" xsi:type=\"ManagedObjectReference\">{value}</ManagedObjectReference>"
        )
    };
    property("datastore", "ArrayOfManagedObjectReference", &reference("Datastore", "datastore-11"));
    property("network", "ArrayOfManagedObjectReference", &reference("DistributedVirtualPortgroup", "dvportgroup-12"));
    let mut options = String::new();
    for option in 0..12 {
        _ = write!(
            options,
            "<OptionValue xsi:type=\"OptionValue\"><key>guestinfo.key.{option}</key>\
             <value xsi:type=\"xsd:string\">value &amp; {option}</value></OptionValue>"
        );
    }
    property("config.extraConfig", "ArrayOfOptionValue", &options);
    property(
        "guest.net",
        "ArrayOfGuestNicInfo",
        "<GuestNicInfo><network>VM Network</network><ipAddress>10.0.0.7</ipAddress><ipAddress>fe80::1</ipAddress>\
         <macAddress>00:50:56:01:02:03</macAddress><connected>true</connected><deviceConfigId>4000</deviceConfigId>\
         <ipConfig><ipAddress><ipAddress>10.0.0.7</ipAddress><prefixLength>24</prefixLength><state>preferred</state>\
         </ipAddress></ipConfig></GuestNicInfo>",
    );
    property(
        "summary.quickStats",
        "VirtualMachineQuickStats",
        "<overallCpuUsage>67</overallCpuUsage><overallCpuDemand>80</overallCpuDemand>\
         <guestMemoryUsage>1404</guestMemoryUsage><hostMemoryUsage>2048</hostMemoryUsage>\
         <guestHeartbeatStatus>green</guestHeartbeatStatus><uptimeSeconds>123456</uptimeSeconds>",
    );
    xml.push_str("</objects>");
}
