//! How fast a page of a thousand machines is read. Fails when it is slower than the limit.

use std::fmt::Write as _;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vim25::methods::RetrievePropertiesEx;
use vim25::read_response;

/// Megabytes per second below which the mirror would be held up by its reader.
const LIMIT: f64 = 50.0;
const OBJECTS: usize = 1000;

fn main() -> ExitCode {
    let page = page();
    #[allow(clippy::cast_precision_loss, reason = "a page has far less than 2^52 bytes")]
    let megabytes = page.len() as f64 / 1e6;
    let mut best = Duration::MAX;
    let started = Instant::now();
    // Cargo gives `--test` when it only wants to see the benchmark run.
    let span = Duration::from_secs(if std::env::args().any(|argument| argument == "--test") { 0 } else { 3 });
    loop {
        let round = Instant::now();
        match read_response::<RetrievePropertiesEx>(black_box(&page)) {
            Ok(Some(result)) if result.objects.len() == OBJECTS => drop(black_box(result)),
            other => {
                eprintln!("the page was not read: {other:?}");
                return ExitCode::FAILURE;
            }
        }
        best = best.min(round.elapsed());
        if started.elapsed() >= span {
            break;
        }
    }
    let speed = megabytes / best.as_secs_f64();
    println!(
        "{OBJECTS} objects, {megabytes:.2} MB in {best:.2?}: {speed:.0} MB/s, {:.1} times the limit",
        speed / LIMIT
    );
    if cfg!(debug_assertions) || speed >= LIMIT { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What a collector answers for the properties that a mirror of machines follows.
fn page() -> Vec<u8> {
    let mut xml = String::from(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <soapenv:Envelope xmlns:soapenc=\"http://schemas.xmlsoap.org/soap/encoding/\" \
         xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\">\n<soapenv:Body>\n\
         <RetrievePropertiesExResponse xmlns=\"urn:vim25\"><returnval>",
    );
    for n in 0..OBJECTS {
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
