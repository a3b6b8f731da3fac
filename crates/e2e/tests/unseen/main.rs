//! What vCenter shows and what is there are two things: copies of members, VMs that can't be seen, many that are missing at once. Each
//! test has a vCenter of its own, because what goes missing there counts for all groups in it.

mod across;
mod brake;
mod folders;
mod identity;
mod late;
mod metrics;
mod record;
mod sight;
mod stripped;
mod updates;

use std::{fs, sync::OnceLock, thread, time::Duration};

use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use serde_json::{Value, json};
use vim25::{
    Client, Credentials, Inventory, Settings, Trust, methods::ReconfigVMTask, refs::VirtualMachineRef,
    types::VirtualMachineConfigSpec,
};

/// The sandbox of all tests, with one operator.
fn sandbox() -> &'static Sandbox {
    let sandbox = Sandbox::shared(&["--vcenters=40", "--hosts=2", "--clone-delay=200ms"]);
    operator_in(sandbox);
    sandbox
}

/// One operator for all tests.
fn operator() -> &'static Operator {
    operator_in(sandbox())
}

fn operator_in(sandbox: &Sandbox) -> &'static Operator {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    })
}

/// How long something is watched that is not to happen. Drover acts within a tenth of that.
const A_WHILE: Duration = Duration::from_secs(4);

/// The last part of a path.
fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Has these VMs be hidden from all but administrators, and no others.
#[track_caller]
fn hide(group: &Group, machines: &[&str]) {
    group.vcenter().control("PUT", "/hidden", &json!({"machines": machines})).unwrap();
}

/// The name of the host that a VM is on.
#[track_caller]
fn host_of(group: &Group, machine: &str) -> String {
    let collect =
        |object: &str, property: &str| group.vcenter().govc(&["object.collect", "-s", object, property]).unwrap();
    collect(collect(machine, "runtime.host").trim(), "name").trim().to_owned()
}

/// Clones a VM as a person does.
#[track_caller]
fn copy(group: &Group, machine: &str, copy: &str) {
    group.vcenter().govc(&["vm.clone", "-vm.ipath", machine, "-folder", "/DC0/vm", "-on=false", copy]).unwrap();
}

/// The instance UUID of a VM.
#[track_caller]
fn instance_of(group: &Group, machine: &str) -> String {
    let shown = group.vcenter().govc(&["object.collect", "-s", machine, "config.instanceUuid"]).unwrap();
    shown.trim().to_owned()
}

/// Gives a VM another instance UUID.
#[track_caller]
fn set_instance(group: &Group, machine: &str, uuid: &str) {
    let vcenter = group.vcenter();
    let reconfigure = async {
        let trust = Trust::Authorities(fs::read(&vcenter.ca_file).unwrap());
        let credentials = Credentials::password(&vcenter.user, &vcenter.password);
        let settings = Settings { trust, ..Settings::default() };
        let client = Client::new(vcenter.host.parse().unwrap(), credentials, settings).unwrap();
        let this: VirtualMachineRef = Inventory::new(client.clone()).find(None, machine).await.unwrap();
        let spec = VirtualMachineConfigSpec { instance_uuid: Some(uuid.to_owned()), ..Default::default() };
        client.call(&ReconfigVMTask { this, spec }).await.unwrap();
        client.logout().await.unwrap();
    };
    tokio::runtime::Runtime::new().unwrap().block_on(reconfigure);
    eventually(group.sandbox, SOON, &format!("{machine} has the UUID {uuid}"), || {
        let has = instance_of(group, machine);
        if has == uuid { Ok(()) } else { Err(has) }
    });
}

/// Asserts that for a while nothing is made or destroyed in the group's vCenter.
#[track_caller]
fn nothing_is_made_or_destroyed(group: &Group, act: impl FnOnce()) {
    let count = || {
        let calls = |method: &str| group.vcenter().calls(method, "drover");
        ["CloneVM_Task", "Destroy_Task", "CreateFolder"].map(calls)
    };
    let before = count();
    act();
    thread::sleep(A_WHILE);
    assert_eq!(count(), before, "clones, destroys and folders asked for");
}

/// Waits for a condition of the group, and returns its message.
#[track_caller]
fn stalls(group: &Group, reason: &str, words: &str) -> String {
    eventually(group.sandbox, SOON, &format!("{}: {reason}: {words}", group.name()), || {
        let status = group.status()?;
        let ready = &status["conditions"][0];
        let message = ready["message"].as_str().unwrap_or_default();
        let is_so = ready["reason"] == reason && ready["status"] == "False" && message.contains(words);
        if is_so { Ok(message.to_owned()) } else { Err(status.to_string()) }
    })
}

/// Waits until a VMInfo or anything else of the API server's says something.
#[track_caller]
fn vcenter_says(group: &Group, status: &str, reason: &str) -> Value {
    eventually(group.sandbox, SOON, &format!("the VCenter's SafetyHold is {status} for {reason}"), || {
        let path = format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{}", group.name());
        let vcenter = group.sandbox.get(&path).map_err(|failure| failure.to_string())?;
        let mut conditions = vcenter["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == "SafetyHold").cloned().unwrap_or_default();
        if found["status"] == status && found["reason"] == reason { Ok(vcenter) } else { Err(vcenter.to_string()) }
    })
}
