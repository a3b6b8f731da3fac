//! MAC addresses that belong to slots: which are taken by others.

use std::collections::HashSet;

use drover_api::vmgroup::MacAddresses;
use drover_core::{
    Action, Plan,
    names::Slot,
    vmgroup::{Desired, adapters::Mac, record::Record},
};

use vim25::ManagedObjectReference;

use crate::vcenter::{executor::Executor, mirror::Mirror};

/// Says which MAC addresses the VMs get that a plan clones. It is written down with what else is before they are cloned.
///
/// Others are the VMs that VMware Tools report such an address of, and the slots of other groups.
pub(super) fn choose(executor: &mut Executor, mirror: &Mirror, desired: &Desired, plan: &Plan) {
    if desired.adapters.iter().all(|adapter| adapter.mac != MacAddresses::PerSlot) {
        return;
    }
    let cloned: Vec<Slot> = plan.actions.iter().filter_map(Action::cloned_slot).collect();
    // Others have to know of them, also of those that were made before this operator was started.
    if cloned.is_empty() && !executor.group(&desired.uid).macs.is_empty() {
        return;
    }
    let taken = if cloned.is_empty() { HashSet::new() } else { taken(executor, mirror, desired) };
    let group = executor.group(&desired.uid);
    let Some(record) = group.in_flight.record.membership.record_mut() else { return };
    record.say_macs(desired, cloned.iter().copied(), |mac| taken.contains(&mac));
    group.macs = own(desired, record, &cloned);
}

/// The addresses that others have. A copy of a member has the member's: it is the person's who made it to give it another.
fn taken(executor: &Executor, mirror: &Mirror, desired: &Desired) -> HashSet<Mac> {
    let is_own = |marked: Option<&str>| marked == Some(&desired.marker_uid);
    let marked = |machine: &ManagedObjectReference| {
        let marker = mirror.machines.get(machine)?.marker.as_ref()?;
        Some(marker.group.as_str())
    };
    let seen = mirror.macs.iter().filter(|(machine, _)| !is_own(marked(machine)));
    seen.flat_map(|(_, macs)| macs.iter().copied()).chain(executor.macs_of_others(&desired.uid)).collect()
}

/// The addresses of all slots that have a VM or are about to.
fn own(desired: &Desired, record: &Record, cloned: &[Slot]) -> HashSet<Mac> {
    let slots = record.entries().map(|(slot, _)| slot).chain(cloned.iter().copied());
    let macs = |slot| desired.adapters_of(slot, record.macs()).into_iter().filter_map(|adapter| adapter.mac);
    slots.flat_map(macs).collect()
}
