//! The faults that vCenter answers with, each as the typed error that decides what to do next.

use std::time::Duration;

use serde_json::{Value, json};
use vim25::{
    Error, Fault, FaultType, Settings, TransportError,
    faults::{
        ConcurrentAccess, DuplicateName, HostCommunication, InsufficientMemoryResourcesFault,
        InsufficientResourcesFault, InvalidLogin, InvalidPowerState, ManagedObjectNotFound, MethodFault, NoDiskSpace,
        NoPermission, NotAuthenticated, RequestCanceled, TaskInProgress, VAppTaskInProgress,
    },
    methods::{CreateFolder, CurrentTime, DestroyTask, PowerOnVMTask},
    refs::{ServiceInstanceRef, VirtualMachineRef},
};

use super::{Site, client_with, sandbox, settings};

fn current_time() -> CurrentTime {
    CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") }
}

#[track_caller]
fn fault<T: std::fmt::Debug>(outcome: Result<T, Error>) -> (Fault, String) {
    let error = outcome.unwrap_err();
    (error.fault().unwrap_or_else(|| panic!("no fault: {error:?}")).clone(), error.to_string())
}

/// Has the next call answered with a fault, and the next task fail with it.
async fn provoke<T: FaultType>(site: &Site, fields: Value) -> [(Fault, String); 2] {
    let what = json!({"type": T::TYPE, "fields": fields, "message": "Words of vCenter's own."});
    site.vcenter.rule(&json!({"method": "CurrentTime", "count": 1, "fault": what}));
    site.vcenter.rule(&json!({"method": "CloneVM_Task", "count": 1, "taskFault": what}));
    let call = fault(site.client.call(&current_time()).await);
    let task = fault(site.finish(site.submit_clone("never").await).await);
    for (fault, said) in [&call, &task] {
        assert!(fault.is::<T>() && fault.is::<MethodFault>(), "{fault:?}");
        assert!(said.contains(T::TYPE), "{said}");
    }
    [call, task]
}

#[tokio::test]
async fn faults_worth_another_try_are_told_apart_in_calls_and_in_tasks() {
    let site = Site::new().await;
    provoke::<TaskInProgress>(&site, json!({"task": {"type": "Task", "value": "task-9"}})).await;
    let [(vapp, _), _] =
        provoke::<VAppTaskInProgress>(&site, json!({"task": {"type": "Task", "value": "task-9"}})).await;
    assert!(vapp.is::<TaskInProgress>());
    provoke::<ConcurrentAccess>(&site, json!({})).await;
    provoke::<HostCommunication>(&site, json!({})).await;
    provoke::<RequestCanceled>(&site, json!({})).await;
}

#[tokio::test]
async fn faults_that_want_room_say_so_by_their_ancestry() {
    let site = Site::new().await;
    let [_, (memory, _)] =
        provoke::<InsufficientMemoryResourcesFault>(&site, json!({"unreserved": 1, "requested": 2})).await;
    assert!(memory.is::<InsufficientResourcesFault>());
    let detail = memory.downcast_ref::<InsufficientMemoryResourcesFault>().unwrap();
    assert_eq!((detail.unreserved, detail.requested), (1, 2));
    let [_, (space, said)] =
        provoke::<NoDiskSpace>(&site, json!({"file": "[ds] x.vmdk", "datastore": "LocalDS_0"})).await;
    assert_eq!(space.downcast_ref::<NoDiskSpace>().unwrap().datastore, "LocalDS_0");
    assert!(said.contains("LocalDS_0"), "{said}");
}

#[tokio::test]
async fn a_missing_privilege_is_named_with_its_object() {
    let site = Site::new().await;
    let fields =
        json!({"object": {"type": "Folder", "value": "group-v4"}, "privilegeId": "VirtualMachine.Inventory.Delete"});
    for (fault, said) in provoke::<NoPermission>(&site, fields).await {
        assert!(!fault.is::<NotAuthenticated>());
        assert!(said.contains("VirtualMachine.Inventory.Delete") && said.contains("Folder group-v4"), "{said}");
    }
}

#[tokio::test]
async fn vcenters_own_faults_come_typed() {
    let site = Site::new().await;
    let (gone, said) = fault(site.client.call(&DestroyTask { this: VirtualMachineRef::new("vm-none").into() }).await);
    assert!(gone.is::<ManagedObjectNotFound>(), "{gone:?}");
    assert!(said.contains("vm-none"), "{said}");

    let create = CreateFolder { this: site.folder.clone(), name: "twice".to_owned() };
    let made = site.client.call(&create).await.unwrap();
    let (duplicate, _) = fault(site.client.call(&create).await);
    assert_eq!(duplicate.downcast_ref::<DuplicateName>().unwrap().object.value(), made.value());

    site.machine("taken").await;
    let (duplicate, _) = fault(site.finish(site.submit_clone("taken").await).await);
    assert_eq!(duplicate.downcast_ref::<DuplicateName>().unwrap().name, "taken");

    let machine = site.machine("running").await;
    let power_on = PowerOnVMTask { this: machine, host: None };
    site.finish(site.client.call(&power_on).await).await.unwrap();
    let (already, _) = fault(site.finish(site.client.call(&power_on).await).await);
    assert!(already.is::<InvalidPowerState>(), "{already:?}");
}

#[tokio::test]
async fn a_session_that_is_gone_is_told_from_a_missing_privilege() {
    let site = Site::new().await;
    site.vcenter.rule(&json!({"method": "CurrentTime", "count": 2, "fault": {"type": "NotAuthenticated"}}));
    let error = site.client.call(&current_time()).await.unwrap_err();
    assert!(error.is_session_lost() && error.fault().unwrap().is::<NoPermission>(), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_is_an_invalid_login() {
    let vcenter = sandbox().own_vcenter();
    let client = client_with(&vcenter, "hunter2", settings(&vcenter));
    let (invalid, said) = fault(client.call(&current_time()).await);
    assert!(invalid.is::<InvalidLogin>());
    assert!(said.contains(&vcenter.host) && !said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn a_vcenter_that_is_away_is_told_by_the_way_it_is_away() {
    let vcenter = sandbox().own_vcenter();
    let quick = Settings { request_timeout: Duration::from_secs(3), ..settings(&vcenter) };
    let client = client_with(&vcenter, &vcenter.password, quick);
    let away = async |mode: &str| {
        vcenter.control("POST", "/outage", &json!({"for": "1h", "mode": mode})).unwrap();
        loop {
            match client.call(&current_time()).await.unwrap_err() {
                // Connections from before the outage break first.
                Error::Transport(TransportError::Broken { .. }) if mode != "refused" => {}
                Error::Transport(error) => return error,
                other => panic!("{mode}: {other}"),
            }
        }
    };
    client.session().await.unwrap();
    assert!(matches!(away("refused").await, TransportError::Connect { .. } | TransportError::Broken { .. }));
    assert!(matches!(away("unavailable").await, TransportError::Http { status, .. } if status.as_u16() == 503));
    assert!(matches!(away("silent").await, TransportError::Timeout { .. }));
    vcenter.control("POST", "/outage", &json!({"for": "0s"})).unwrap();
    client.call(&current_time()).await.unwrap();
    assert_eq!(vcenter.calls("Login", "vim25"), 1, "an outage alone doesn't end the session");
}
