//! Clones a machine or a template, and waits until that is done: `clone_and_follow template-1 web-1`

mod command_line;

use vim25::{
    Collector, Inventory,
    methods::CloneVMTask,
    refs::VirtualMachineRef,
    types::{VirtualMachineCloneSpec, VirtualMachineRelocateSpec},
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), command_line::Failure> {
    let [template, name] = command_line::arguments(["a template", "a name for the clone"])?;
    let client = command_line::client()?;
    let inventory = Inventory::new(client.clone());
    let this: VirtualMachineRef = inventory.find(None, &template).await?;
    let datacenter = inventory.default_datacenter().await?;
    let folder = inventory.default_folder(&datacenter).await?;
    let pool = Some(inventory.default_resource_pool(&datacenter).await?);
    let location = VirtualMachineRelocateSpec { pool, ..Default::default() };
    let spec = VirtualMachineCloneSpec { location, ..Default::default() };

    let task = client.call(&CloneVMTask { this, folder, name: name.clone(), spec }).await?;
    let (collector, _updates) = Collector::start(client.clone());
    let info = collector.follow(&task).await?;
    println!("{name} was cloned from {template}: {} is {}", info.key, info.state);
    Ok(client.logout().await?)
}
