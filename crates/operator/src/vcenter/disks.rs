//! Disks of VMs that an earlier version made: their markers don't say how large they are.

use tracing::warn;
use vim25::{
    ManagedObjectReference,
    props::virtual_machine::CONFIG_HARDWARE_DEVICE,
    types::{ObjectSpec, PropertyFilterSpec, PropertySpec},
};

use super::{
    VCenterHandle,
    machine::{Machine, disks_mib},
};

/// How many are read at once. What a VM has of devices is much.
const AT_ONCE: usize = 50;

/// Reads some that are not known and count, once each.
pub(crate) async fn read_disks(live: &VCenterHandle, counts: impl Fn(&Machine) -> bool) {
    let is_unknown = |machine: &Machine| machine.has_unread_disks() && counts(machine);
    let unknown: Vec<ManagedObjectReference> = {
        let mirror = live.mirror();
        let unknown = mirror.machines.iter().filter(|(_, machine)| is_unknown(machine));
        unknown.map(|(reference, _)| reference.clone()).take(AT_ONCE).collect()
    };
    if unknown.is_empty() {
        return;
    }
    let objects = unknown.iter().map(|obj| ObjectSpec { obj: obj.clone(), ..ObjectSpec::default() });
    let filter = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&CONFIG_HARDWARE_DEVICE])],
        object_set: objects.collect(),
        report_missing_objects_in_results: Some(true),
    };
    let found = match live.client.retrieve(vec![filter]).await {
        Ok(found) => found,
        Err(error) => return warn!(vcenter = %live.name, %error, "Disks of VMs not read"),
    };
    let mut mirror = live.mirror();
    for reference in &unknown {
        if let Some(machine) = mirror.machines.get_unplaced(reference) {
            machine.were_disks_read = true;
        }
    }
    for mut content in found {
        if let Some(machine) = mirror.machines.get_unplaced(&content.obj) {
            // One whose devices can't be read counts as the largest of its group: it is not waited for any longer.
            machine.disks_mib = content.take(CONFIG_HARDWARE_DEVICE).ok().flatten().map(|devices| disks_mib(&devices));
        }
    }
}
