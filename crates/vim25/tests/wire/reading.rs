//! What vCenter, ESXi and vcsim answer, and what a newer vCenter may.

use vim25::any::ArrayOf;
use vim25::enums::{TaskInfoState, VirtualMachinePowerState};
use vim25::faults::NoPermission;
use vim25::methods::{
    CurrentTime, FindAllByUuid, FindByInventoryPath, Login, Logout, RetrievePropertiesEx, SessionIsActive,
    WaitForUpdatesEx,
};
use vim25::refs::{FolderRef, ManagedEntityRef, VirtualMachineRef};
use vim25::types::{AnyTaskReason, AnyVirtualDevice, TaskInfo, VirtualEthernetCard, VirtualVmxnet3};
use vim25::wire::Element;
use vim25::{Any, ManagedObject, ManagedObjectReference, read_response};

use crate::{answer, read};

#[test]
fn a_typed_result_is_read_with_any_prefixes() {
    let xml = r#"<S:Envelope xmlns:S="http://schemas.xmlsoap.org/soap/envelope/" xmlns:i="xsi" xmlns:v="urn:vim25">
        <S:Header><v:anything/></S:Header>
        <S:Body><v:LoginResponse><v:returnval i:type="v:UserSession"><v:key>52af</v:key><v:userName>me</v:userName>
        <v:loginTime>2026-01-02T05:04:05.5+02:00</v:loginTime><v:extensionSession>0</v:extensionSession>
        </v:returnval></v:LoginResponse></S:Body></S:Envelope>"#;
    let session = read_response::<Login>(xml.as_bytes()).unwrap();
    assert_eq!((session.key.as_str(), session.user_name.as_str()), ("52af", "me"));
    assert_eq!(session.login_time.to_string(), "2026-01-02T03:04:05.5Z");
    assert!(!session.extension_session);
}

#[test]
fn unknown_elements_are_skipped_with_all_they_hold() {
    let xml = answer(
        "Login",
        "<returnval><invented><key>no</key><deep><deeper/></deep></invented><key>yes</key><more/></returnval>",
    );
    assert_eq!(read_response::<Login>(xml.as_bytes()).unwrap().key, "yes");
}

#[test]
fn unknown_enum_values_are_kept() {
    let state: VirtualMachinePowerState = read("<s>hibernating</s>").unwrap();
    assert_eq!(state, VirtualMachinePowerState::Other("hibernating".to_owned()));
    assert_eq!(state.to_string(), "hibernating");
    assert_eq!(VirtualMachinePowerState::from("poweredOn"), VirtualMachinePowerState::PoweredOn);
}

#[test]
fn an_unknown_subtype_is_kept_as_its_slots_base_with_its_name() {
    let device: AnyVirtualDevice = read(r#"<d i:type="VirtualTimeMachine"><key>7</key><flux>1.21</flux></d>"#).unwrap();
    assert!(matches!(&device, AnyVirtualDevice::Other { type_name, .. } if type_name == "VirtualTimeMachine"));
    assert_eq!((device.type_name(), device.key), ("VirtualTimeMachine", 7));
}

#[test]
fn a_subtype_is_seen_as_each_of_its_bases() {
    let mut device: AnyVirtualDevice =
        read(r#"<d i:type="VirtualVmxnet3"><key>4000</key><macAddress>00:50:56</macAddress></d>"#).unwrap();
    assert_eq!(device.key, 4000);
    let card = device.downcast_ref::<VirtualEthernetCard>().unwrap();
    assert_eq!(card.mac_address.as_deref(), Some("00:50:56"));
    device.downcast_mut::<VirtualEthernetCard>().unwrap().mac_address = None;
    assert!(device.downcast_ref::<VirtualVmxnet3>().unwrap().mac_address.is_none());
    assert!(device.downcast_ref::<vim25::types::VirtualDisk>().is_none());
}

#[test]
fn empty_results_stand_for_nothing() {
    for empty in ["", "<returnval/>", "<returnval></returnval>", r#"<returnval xsi:nil="true"/>"#] {
        let xml = answer("FindByInventoryPath", empty);
        assert_eq!(read_response::<FindByInventoryPath>(xml.as_bytes()).unwrap(), None, "{empty}");
        let xml = answer("FindAllByUuid", empty);
        assert_eq!(read_response::<FindAllByUuid>(xml.as_bytes()).unwrap(), [], "{empty}");
        let xml = answer("Logout", empty);
        read_response::<Logout>(xml.as_bytes()).unwrap();
    }
    let xml = answer("RetrievePropertiesEx", "<returnval/>");
    assert!(read_response::<RetrievePropertiesEx>(xml.as_bytes()).unwrap().unwrap().objects.is_empty());
    let xml = answer("WaitForUpdatesEx", "");
    assert!(read_response::<WaitForUpdatesEx>(xml.as_bytes()).unwrap().is_none());
}

#[test]
fn lists_and_scalars_are_results_too() {
    let xml = answer(
        "FindAllByUuid",
        r#"<returnval type="VirtualMachine">vm-1</returnval><returnval type="Folder">f</returnval>"#,
    );
    let found = read_response::<FindAllByUuid>(xml.as_bytes()).unwrap();
    let machine = VirtualMachineRef::try_from(found[0].clone()).unwrap();
    assert_eq!(machine, VirtualMachineRef::new("vm-1"));
    let wrong = VirtualMachineRef::try_from(found[1].clone()).unwrap_err();
    assert_eq!(wrong.to_string(), "Folder f is no VirtualMachine");
    let xml = answer("SessionIsActive", "<returnval> true </returnval>");
    assert!(read_response::<SessionIsActive>(xml.as_bytes()).unwrap());
    let xml = answer("CurrentTime", "<returnval>2026-01-02T03:04:05</returnval>");
    assert_eq!(read_response::<CurrentTime>(xml.as_bytes()).unwrap().to_string(), "2026-01-02T03:04:05Z");
}

#[test]
fn references_know_their_ancestry() {
    let pod = ManagedObjectReference::new("StoragePod", "group-p1");
    assert!(pod.is_a("StoragePod") && pod.is_a("Folder") && pod.is_a("ManagedEntity") && pod.is_a("ManagedObject"));
    assert!(!pod.is_a("VirtualMachine"));
    let folder = FolderRef::try_from(pod).unwrap();
    assert_eq!(folder.reference().type_name(), "StoragePod");
    assert_eq!(ManagedEntityRef::from(folder).to_string(), "StoragePod group-p1");
    assert!(!ManagedObjectReference::new("Invented", "x").is_a("ManagedEntity"));
}

#[test]
fn a_failed_task_has_a_typed_error() {
    let info: TaskInfo = read(
        r#"<info xmlns:xsi="x"><key>task-1</key><task type="Task">task-1</task>
        <descriptionId>VirtualMachine.clone</descriptionId><state>error</state><cancelled>false</cancelled>
        <cancelable>false</cancelable><error><fault xsi:type="NoPermission"><faultCause><fault xsi:type="NotFound"/>
        <localizedMessage>gone</localizedMessage></faultCause><object type="Folder">group-v4</object>
        <privilegeId>VirtualMachine.Inventory.CreateFromExisting</privilegeId></fault>
        <localizedMessage>Permission to perform this operation was denied.</localizedMessage></error>
        <reason xsi:type="TaskReasonUser"><userName>CORP\drover</userName></reason>
        <queueTime>2026-01-02T03:04:05Z</queueTime><eventChainId>7</eventChainId></info>"#,
    )
    .unwrap();
    assert_eq!(info.state, TaskInfoState::Error);
    let error = info.error.unwrap();
    let fault = error.fault.downcast_ref::<NoPermission>().unwrap();
    assert_eq!(fault.object, Some(FolderRef::new("group-v4").into()));
    assert_eq!(error.fault.cause().unwrap().name(), "NotFound");
    assert_eq!(
        vim25::Error::from(error).to_string(),
        "NoPermission: the privilege VirtualMachine.Inventory.CreateFromExisting is missing on Folder group-v4"
    );
    assert!(matches!(info.reason, AnyTaskReason::TaskReasonUser(user) if user.user_name == r"CORP\drover"));
}

#[test]
fn entities_sections_and_line_ends_become_text() {
    let text: String =
        read("<t>&lt;a&gt; &amp; &quot;b&quot; &apos;&#233;&#xe9;&apos;<![CDATA[<c>&amp;]]>\r\nd</t>").unwrap();
    assert_eq!(text, "<a> & \"b\" 'éé'<c>&amp;\nd");
    let text: String = read("<t> kept <!-- not this --> as it is </t>").unwrap();
    assert_eq!(text, " kept  as it is ");
}

#[test]
fn values_say_their_own_type() {
    let any = |xml: &str| read::<Any>(xml).unwrap();
    assert_eq!(any(r#"<v xsi:type="xsd:int">7</v>"#), Any::Int(7));
    assert_eq!(any(r#"<v xsi:nil="true"/>"#), Any::Nil);
    assert_eq!(any("<v>bare</v>"), Any::String("bare".to_owned()));
    assert_eq!(
        any(r#"<v xsi:type="VirtualMachinePowerState">poweredOn</v>"#),
        Any::from(VirtualMachinePowerState::PoweredOn)
    );
    let unknown = any(r#"<v xsi:type="Invented"><a>1</a></v>"#);
    assert_eq!(unknown.type_name(), "Invented");
    let list = any(
        r#"<v xsi:type="ArrayOfVirtualDevice"><VirtualDevice xsi:type="VirtualNew"><key>1</key></VirtualDevice></v>"#,
    );
    assert_eq!(list.downcast_ref::<ArrayOf<AnyVirtualDevice>>().unwrap().0[0].type_name(), "VirtualNew");
    let mut writer = vim25::wire::Writer::default();
    let error = unknown.write("v", &mut writer).unwrap_err();
    assert_eq!(error.to_string(), "<v> has a value of the type Invented, whose content this crate does not know");
}
