//! Says what happens to the machines in a folder, until so much has happened: `watch_folder /DC0/vm/team-a 10`

mod command_line;

use std::collections::HashMap;

use vim25::props::virtual_machine::{NAME, RUNTIME_POWER_STATE};
use vim25::{Collector, Event, Inventory, Scope, Update, Watch, refs::FolderRef, types::PropertySpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), command_line::Failure> {
    let [folder, count] = command_line::arguments(["a folder", "a number of events"])?;
    let count: usize = count.parse().map_err(|_| format!("{count:?} is no number of events"))?;
    let client = command_line::client()?;
    let folder: FolderRef = Inventory::new(client.clone()).find(None, &folder).await?;
    let (collector, mut updates) = Collector::start(client.clone());
    let scope = Scope::Container { root: folder.into(), recursive: true };
    collector.watch(Watch { scope, properties: vec![PropertySpec::of(&[&NAME, &RUNTIME_POWER_STATE])] });
    let (mut names, mut said) = (HashMap::new(), 0);
    while said < count {
        // Anything else is the beginning or the end of an outage; what happened meanwhile comes after it.
        let Some(Event::Updates(news)) = updates.next().await else { continue };
        for update in news {
            match update {
                Update::Changed { mut update, .. } => {
                    let name: &mut String = names.entry(update.obj.clone()).or_default();
                    *name = update.take(NAME)?.flatten().unwrap_or(std::mem::take(name));
                    let Some(Some(power)) = update.take(RUNTIME_POWER_STATE)? else { continue };
                    println!("{name} is {power}");
                }
                Update::Gone { object, .. } => println!("{} is gone", names.remove(&object).unwrap_or_default()),
                Update::Failed { error, .. } => return Err(error.into()),
                Update::Missing { .. } | Update::Synced { .. } => continue,
            }
            said += 1;
        }
    }
    Ok(client.logout().await?)
}
