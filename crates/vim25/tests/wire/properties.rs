//! Typed property paths.

use vim25::enums::{PropertyChangeOp, VirtualMachinePowerState};
use vim25::methods::{RetrievePropertiesEx, WaitForUpdatesEx};
use vim25::props::{host_system, task, virtual_machine};
use vim25::refs::{DatastoreRef, HostSystemRef, VirtualMachineRef};
use vim25::types::{AnyVirtualDevice, OptionValue, PropertySpec};
use vim25::{Any, read_response};

use crate::answer;

fn property(name: &str, ty: &str, value: &str) -> String {
    format!(r#"<propSet><name>{name}</name><val xsi:type="{ty}">{value}</val></propSet>"#)
}

#[test]
fn a_constant_reads_the_value_of_its_path_with_its_type() {
    let reference = r#"<ManagedObjectReference type="Datastore">datastore-1</ManagedObjectReference>"#;
    let option = r#"<OptionValue><key>a</key><value xsi:type="xsd:string">b</value></OptionValue>"#;
    let device =
        r#"<VirtualDevice xsi:type="VirtualDisk"><key>2000</key><capacityInKB>5</capacityInKB></VirtualDevice>"#;
    let properties = [
        property("name", "xsd:string", "web-0"),
        property("runtime.powerState", "VirtualMachinePowerState", "poweredOn"),
        property("config.hardware.numCPU", "xsd:int", "4"),
        property("runtime.host", "ManagedObjectReference", "host-9").replace("<val", "<val type=\"HostSystem\""),
        property("datastore", "ArrayOfManagedObjectReference", reference),
        property("config.extraConfig", "ArrayOfOptionValue", option),
        property("config.hardware.device", "ArrayOfVirtualDevice", device),
        property("runtime.bootTime", "xsd:dateTime", "2026-01-02T03:04:05Z"),
        property("disabledMethod", "ArrayOfString", "<string>MarkAsTemplate</string>"),
    ]
    .concat();
    let object =
        format!(r#"<returnval><objects><obj type="VirtualMachine">vm-1</obj>{properties}</objects></returnval>"#);
    let page = read_response::<RetrievePropertiesEx>(answer("RetrievePropertiesEx", &object).as_bytes()).unwrap();
    let mut machine = page.unwrap().objects.remove(0);
    assert_eq!(VirtualMachineRef::try_from(machine.obj.clone()), Ok(VirtualMachineRef::new("vm-1")));
    assert_eq!(machine.take(virtual_machine::NAME).unwrap().as_deref(), Some("web-0"));
    assert_eq!(machine.take(virtual_machine::RUNTIME_POWER_STATE).unwrap(), Some(VirtualMachinePowerState::PoweredOn));
    assert_eq!(machine.take(virtual_machine::CONFIG_HARDWARE_NUM_CPU).unwrap(), Some(4));
    assert_eq!(machine.take(virtual_machine::RUNTIME_HOST).unwrap(), Some(HostSystemRef::new("host-9")));
    assert_eq!(machine.take(virtual_machine::DATASTORE).unwrap(), Some(vec![DatastoreRef::new("datastore-1")]));
    let option = OptionValue { key: "a".to_owned(), value: Some(Any::from("b")) };
    assert_eq!(machine.take(virtual_machine::CONFIG_EXTRA_CONFIG).unwrap(), Some(vec![option]));
    let devices = machine.take(virtual_machine::CONFIG_HARDWARE_DEVICE).unwrap().unwrap();
    assert!(matches!(&devices[..], [AnyVirtualDevice::VirtualDisk(disk)] if disk.capacity_in_kb == 5));
    assert!(machine.take(virtual_machine::RUNTIME_BOOT_TIME).unwrap().is_some());
    let disabled = vec!["MarkAsTemplate".to_owned()];
    assert_eq!(machine.take(virtual_machine::DISABLED_METHOD).unwrap(), Some(disabled));
    assert_eq!(machine.take(virtual_machine::GUEST_IP_ADDRESS).unwrap(), None);
}

#[test]
fn a_value_of_another_type_is_an_error_that_names_the_path() {
    let error = virtual_machine::CONFIG_HARDWARE_NUM_CPU.value(Any::from("four")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the property config.hardware.numCPU of a VirtualMachine has a value of the type string, which is not what \
         the API declares"
    );
    // A number of another width is still a number.
    assert_eq!(host_system::NAME.path(), "name");
    assert_eq!(virtual_machine::CONFIG_HARDWARE_NUM_CPU.value(Any::Short(4)).unwrap(), 4);
    assert!(virtual_machine::CONFIG_HARDWARE_NUM_CPU.value(Any::Long(1 << 40)).is_err());
}

#[test]
fn an_update_tells_a_change_from_a_removal_and_from_silence() {
    let update = answer(
        "WaitForUpdatesEx",
        r#"<returnval><version>2</version><filterSet><filter type="PropertyFilter">f</filter><objectSet>
        <kind>modify</kind><obj type="Task">task-1</obj>
        <changeSet><name>info.progress</name><op>assign</op><val xsi:type="xsd:int">50</val></changeSet>
        <changeSet><name>info.entityName</name><op>remove</op></changeSet>
        </objectSet></filterSet><truncated>true</truncated></returnval>"#,
    );
    let mut set = read_response::<WaitForUpdatesEx>(update.as_bytes()).unwrap().unwrap();
    assert_eq!((set.version.as_str(), set.truncated), ("2", Some(true)));
    let update = &mut set.filter_set[0].object_set[0];
    assert_eq!(update.change_set[1].op, PropertyChangeOp::Remove);
    assert_eq!(update.take(task::INFO_PROGRESS).unwrap(), Some(Some(50)));
    assert_eq!(update.take(task::INFO_ENTITY_NAME).unwrap(), Some(None));
    assert_eq!(update.take(task::INFO_STATE).unwrap(), None);
}

#[test]
fn a_property_spec_names_its_type_and_paths() {
    let spec = PropertySpec::of(&[&host_system::NAME, &host_system::RUNTIME_CONNECTION_STATE]);
    assert_eq!(
        (spec.type_.as_str(), spec.path_set),
        ("HostSystem", vec!["name".to_owned(), "runtime.connectionState".to_owned()])
    );
}
