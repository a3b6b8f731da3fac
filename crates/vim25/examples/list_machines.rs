//! Lists all machines: `list_machines`

mod command_line;

use vim25::{
    Inventory,
    props::virtual_machine::{GUEST_IP_ADDRESS, NAME, RUNTIME_POWER_STATE},
    types::PropertySpec,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), command_line::Failure> {
    let client = command_line::client()?;
    let properties = PropertySpec::of(&[&NAME, &RUNTIME_POWER_STATE, &GUEST_IP_ADDRESS]);
    for mut machine in Inventory::new(client.clone()).retrieve(None, properties).await? {
        let name = machine.take(NAME)?.unwrap_or_default();
        let power = machine.take(RUNTIME_POWER_STATE)?.unwrap_or_default();
        let address = machine.take(GUEST_IP_ADDRESS)?.unwrap_or_else(|| "-".to_owned());
        println!("{name} {power} {address}");
    }
    Ok(client.logout().await?)
}
