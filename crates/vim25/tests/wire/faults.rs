//! Faults: their ancestry, their fields and their sentences.

use vim25::faults::*;
use vim25::methods::{CloneVMTask, Login};
use vim25::refs::{FolderRef, TaskRef, VirtualMachineRef};
use vim25::types::NoPermissionEntityPrivileges;
use vim25::{Error, Fault, Method, read_response};

/// What a call comes back with when vCenter refuses it.
fn refused(detail: &str) -> Error {
    let message = format!(
        r#"<soapenv:Envelope xmlns:soapenv="s" xmlns:xsi="x"><soapenv:Body><soapenv:Fault>
        <faultcode>ServerFaultCode</faultcode><faultstring>vCenter's own words.</faultstring>
        <detail>{detail}</detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>"#
    );
    read_response::<Login>(message.as_bytes()).unwrap_err()
}

#[test]
fn a_refused_call_has_a_typed_fault_with_its_code_and_words() {
    let error = refused(r#"<InvalidLoginFault xmlns="urn:vim25" xsi:type="InvalidLogin"/>"#);
    let Error::Fault(soap) = &error else { panic!("{error:?}") };
    assert_eq!((soap.code.as_str(), soap.message.as_str()), ("ServerFaultCode", "vCenter's own words."));
    let fault = error.fault().unwrap();
    assert!(fault.is::<InvalidLogin>() && fault.is::<VimFault>() && fault.is::<MethodFault>());
    assert!(!fault.is::<NoPermission>());
    assert_eq!(error.to_string(), "InvalidLogin: the user name or the password is wrong");
}

#[test]
fn a_fault_without_a_type_is_known_by_its_element() {
    assert_eq!(refused("<NotAuthenticatedFault/>").fault().unwrap().name(), "NotAuthenticated");
    assert_eq!(refused("<InsufficientResourcesFault/>").fault().unwrap().name(), "InsufficientResourcesFault");
    let Error::Fault(soap) = refused("") else { panic!() };
    assert_eq!(soap.fault, None);
    assert_eq!(soap.to_string(), "vCenter refused the call: vCenter's own words.");
}

#[test]
fn ancestry_is_known_for_every_fault() {
    let error = refused(
        r#"<NotAuthenticatedFault xsi:type="NotAuthenticated"><object type="Folder">group-d1</object>
        <privilegeId>System.View</privilegeId></NotAuthenticatedFault>"#,
    );
    let fault = error.fault().unwrap();
    assert!(fault.is::<NotAuthenticated>() && fault.is::<NoPermission>() && fault.is::<SecurityError>());
    assert_eq!(fault.downcast_ref::<NoPermission>().unwrap().privilege_id.as_deref(), Some("System.View"));
    assert_eq!(
        fault.lineage().collect::<Vec<_>>(),
        ["NotAuthenticated", "NoPermission", "SecurityError", "RuntimeFault", "MethodFault"]
    );
    assert_eq!(error.to_string(), "NotAuthenticated: the session is not logged in, or no longer");
}

#[test]
fn a_fault_without_a_struct_is_its_nearest_ancestor_under_its_own_name() {
    let error = refused(r#"<Fault xsi:type="InsufficientAgentVmsDeployed"><hostName>h</hostName></Fault>"#);
    let fault = error.fault().unwrap();
    assert_eq!(fault.name(), "InsufficientAgentVmsDeployed");
    assert!(fault.is::<InsufficientResourcesFault>() && fault.is_named("VimFault"));
    assert!(fault.downcast_ref::<InsufficientResourcesFault>().is_some());
    assert_eq!(error.to_string(), "InsufficientAgentVmsDeployed: vCenter's own words.");
}

#[test]
fn a_fault_nobody_knows_keeps_its_name() {
    let error = refused(r#"<Fault xsi:type="QuantumDecoherence"><qubit>7</qubit></Fault>"#);
    let fault = error.fault().unwrap();
    assert_eq!(fault.lineage().collect::<Vec<_>>(), ["QuantumDecoherence", "MethodFault"]);
    assert!(fault.is::<MethodFault>() && !fault.is::<RuntimeFault>());
    assert_eq!(error.to_string(), "QuantumDecoherence: vCenter's own words.");
}

#[test]
fn each_fault_prints_as_a_sentence_that_names_what_it_is_about() {
    let says = |fault: Fault, sentence: &str| assert_eq!(fault.to_string(), sentence);
    let create = "VirtualMachine.Inventory.CreateFromExisting";
    says(
        Fault::new(NoPermission {
            object: Some(FolderRef::new("group-v4").into()),
            privilege_id: Some(create.to_owned()),
            ..Default::default()
        }),
        "NoPermission: the privilege VirtualMachine.Inventory.CreateFromExisting is missing on Folder group-v4",
    );
    says(
        Fault::new(NoPermission {
            missing_privileges: vec![NoPermissionEntityPrivileges {
                entity: FolderRef::new("group-v4").into(),
                privilege_ids: vec![create.to_owned(), "Datastore.AllocateSpace".to_owned()],
            }],
            ..Default::default()
        }),
        "NoPermission: the privileges VirtualMachine.Inventory.CreateFromExisting, Datastore.AllocateSpace are \
         missing on Folder group-v4",
    );
    says(Fault::new(NoPermission::default()), "NoPermission: a privilege is missing");
    says(
        Fault::new(ManagedObjectNotFound { obj: VirtualMachineRef::new("vm-7").into(), ..Default::default() }),
        "ManagedObjectNotFound: VirtualMachine vm-7 does not exist, or no longer",
    );
    says(
        Fault::new(DuplicateName {
            name: "web-0".to_owned(),
            object: VirtualMachineRef::new("vm-7").into(),
            ..Default::default()
        }),
        "DuplicateName: the name web-0 is already taken by VirtualMachine vm-7",
    );
    says(
        Fault::new(InvalidPowerState {
            requested_state: Some("poweredOff".into()),
            existing_state: "poweredOn".into(),
            ..Default::default()
        }),
        "InvalidPowerState: the machine is poweredOn instead of poweredOff",
    );
    says(
        Fault::new(VAppTaskInProgress { base: TaskInProgress { task: TaskRef::new("task-3"), ..Default::default() } }),
        "VAppTaskInProgress: another operation is under way (Task task-3)",
    );
    says(
        Fault::new(InvalidArgument { invalid_property: Some("spec.numCPUs".to_owned()), ..Default::default() }),
        "InvalidArgument: the value of spec.numCPUs is not allowed",
    );
    says(Fault::new(RequestCanceled::default()), "RequestCanceled: vCenter gave no reason");
    let full = NoDiskSpace { datastore: "store-1".to_owned(), ..Default::default() };
    says(Fault::new(full), "NoDiskSpace: the datastore store-1 is full");
}

#[test]
fn the_faults_with_a_next_step_have_the_ancestry_it_relies_on() {
    assert!(Fault::new(VAppTaskInProgress::default()).is::<TaskInProgress>());
    assert!(Fault::new(HostNotConnected::default()).is::<HostCommunication>());
    assert!(Fault::new(HostNotReachable::default()).is::<HostCommunication>());
    assert!(Fault::new(InvalidPowerState::default()).is::<InvalidState>());
    assert!(Fault::new(InsufficientHostMemoryCapacityFault::default()).is::<InsufficientResourcesFault>());
    assert!(Fault::new(InsufficientStorageSpace::default()).is::<InsufficientResourcesFault>());
    assert!(!Fault::new(NoDiskSpace::default()).is::<InsufficientResourcesFault>());
    assert!(Fault::new(PasswordExpired::default()).is::<InvalidLogin>());
    assert!(Fault::new(ConcurrentAccess::default()).is::<VimFault>());
}

#[test]
fn a_method_knows_its_name_and_the_privilege_it_needs() {
    assert_eq!(CloneVMTask::NAME, "CloneVM_Task");
    assert_eq!(vim25::methods::PowerOnVMTask::PRIVILEGE, Some("VirtualMachine.Interact.PowerOn"));
    assert_eq!(CloneVMTask::PRIVILEGE, None);
    assert_eq!(vim25::methods::HasPrivilegeOnEntities::PARAMETER_PRIVILEGES, [("entity", "System.Read")]);
    let request = CloneVMTask { this: VirtualMachineRef::new("vm-7"), ..Default::default() };
    assert_eq!(request.this().to_string(), "VirtualMachine vm-7");
}
