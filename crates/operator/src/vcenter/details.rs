//! What clones need to know of templates and networks beside what the mirror is told of all: read once, and again when it may be another.

use std::{collections::HashMap, sync::Arc};

use vim25::{
    Client, ManagedObject, ManagedObjectReference, Result,
    props::{
        distributed_virtual_portgroup as port_group, distributed_virtual_switch, opaque_network, virtual_machine as vm,
    },
    refs::{
        DistributedVirtualPortgroupRef, NetworkRef, OpaqueNetworkRef, VirtualMachineRef, VirtualMachineSnapshotRef,
    },
    types::{
        AnyVirtualDevice, AnyVirtualDeviceBackingInfo, DistributedVirtualSwitchPortConnection, ObjectSpec,
        OpaqueNetworkSummary, PropertyFilterSpec, PropertySpec, VirtualEthernetCard,
        VirtualEthernetCardDistributedVirtualPortBackingInfo, VirtualEthernetCardOpaqueNetworkBackingInfo,
    },
};

use super::{VCenterHandle, machine::disks_mib};

/// What clones need to know of what they are made from.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateDetails {
    pub cores_per_socket: u32,
    /// Capacity of its disks, in MiB.
    pub storage_mib: u64,
    /// Its current snapshot, for linked clones.
    pub snapshot: Option<VirtualMachineSnapshotRef>,
    /// Its network cards.
    pub cards: Vec<AnyVirtualDevice>,
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Details {
    templates: HashMap<ManagedObjectReference, Arc<TemplateDetails>>,
    /// What cards are connected to that are on a network, in the words of its kind.
    networks: HashMap<ManagedObjectReference, AnyVirtualDeviceBackingInfo>,
    /// What is or was read, each with the number of its reading.
    reading: HashMap<ManagedObjectReference, u64>,
    readings: u64,
}

impl Details {
    pub(crate) fn template(&self, template: &VirtualMachineRef) -> Option<Arc<TemplateDetails>> {
        self.templates.get(template.reference()).cloned()
    }

    pub(crate) fn network(&self, network: &NetworkRef) -> Option<AnyVirtualDeviceBackingInfo> {
        self.networks.get(network.reference()).cloned()
    }

    /// What is known of an object may not be so any more.
    pub(crate) fn forget(&mut self, object: &ManagedObjectReference) {
        self.templates.remove(object);
        self.networks.remove(object);
        // What is being read of it may be of before.
        self.reading.remove(object);
    }

    /// Begins to read an object. Who reads it beside others has their number: what any of them reads, all may keep.
    fn begin(&mut self, object: &ManagedObjectReference) -> u64 {
        self.readings += 1;
        *self.reading.entry(object.clone()).or_insert(self.readings)
    }

    /// Whether what a reading has read still holds. What is kept of it is forgotten when it doesn't any more.
    fn holds(&self, object: &ManagedObjectReference, reading: u64) -> bool {
        self.reading.get(object) == Some(&reading)
    }

    /// vCenter was away, and may be as it was at another time.
    pub(crate) fn forget_all(&mut self) {
        *self = Self { readings: self.readings, ..Self::default() };
    }
}

/// What clones need to know of what they are made from. `None`: it is still being made.
pub(crate) async fn template(
    live: &VCenterHandle,
    template: &VirtualMachineRef,
) -> Result<Option<Arc<TemplateDetails>>> {
    let object = template.reference();
    let reading = {
        let details = &mut live.mirror().details;
        if let Some(known) = details.template(template) {
            return Ok(Some(known));
        }
        details.begin(object)
    };
    let read = read_template(&live.client, template).await;
    let details = &mut live.mirror().details;
    let holds = details.holds(object, reading);
    let read = read?.map(Arc::new);
    if let Some(read) = read.clone().filter(|_| holds) {
        details.templates.insert(object.clone(), read);
    }
    Ok(read)
}

/// What cards are connected to that are on a network of a kind that doesn't go by its name. `None`: it doesn't say.
pub(crate) async fn network(live: &VCenterHandle, network: &NetworkRef) -> Result<Option<AnyVirtualDeviceBackingInfo>> {
    let object = network.reference();
    let reading = {
        let details = &mut live.mirror().details;
        if let Some(known) = details.network(network) {
            return Ok(Some(known));
        }
        details.begin(object)
    };
    let read = read_network(&live.client, network).await;
    let details = &mut live.mirror().details;
    let holds = details.holds(object, reading);
    let read = read?;
    if let Some(backing) = read.clone().filter(|_| holds) {
        details.networks.insert(object.clone(), backing);
    }
    Ok(read)
}

async fn read_template(client: &Client, template: &VirtualMachineRef) -> Result<Option<TemplateDetails>> {
    let (cores, devices) = (vm::CONFIG_HARDWARE_NUM_CORES_PER_SOCKET, vm::CONFIG_HARDWARE_DEVICE);
    let object = ObjectSpec { obj: template.reference().clone(), ..ObjectSpec::default() };
    let spec = PropertyFilterSpec {
        prop_set: vec![PropertySpec::of(&[&cores, &devices, &vm::SNAPSHOT])],
        object_set: vec![object],
        report_missing_objects_in_results: None,
    };
    let mut found = client.retrieve(vec![spec]).await?.pop().unwrap_or_default();
    // vCenter shows a VM before it has a configuration.
    let (Some(mut cards), Some(cores)) = (found.take(devices)?, found.take(cores)?) else { return Ok(None) };
    let storage_mib = disks_mib(&cards);
    cards.retain(|device| device.downcast_ref::<VirtualEthernetCard>().is_some());
    Ok(Some(TemplateDetails {
        cores_per_socket: u32::try_from(cores).unwrap_or(0),
        storage_mib,
        snapshot: found.take(vm::SNAPSHOT)?.and_then(|snapshots| snapshots.current_snapshot),
        cards,
    }))
}

async fn read_network(client: &Client, network: &NetworkRef) -> Result<Option<AnyVirtualDeviceBackingInfo>> {
    let reference = network.reference();
    if let Ok(group) = DistributedVirtualPortgroupRef::try_from(reference.clone()) {
        return distributed(client, &group).await;
    }
    match OpaqueNetworkRef::try_from(reference.clone()) {
        Ok(opaque) => segment(client, &opaque).await,
        Err(_) => Ok(None),
    }
}

/// A port group of a distributed switch is known by its key and the switch's id.
async fn distributed(
    client: &Client,
    group: &DistributedVirtualPortgroupRef,
) -> Result<Option<AnyVirtualDeviceBackingInfo>> {
    let key = client.property(group, port_group::KEY).await?;
    let switch = client.property(group, port_group::CONFIG_DISTRIBUTED_VIRTUAL_SWITCH).await?;
    let uuid = match switch {
        Some(switch) => client.property(&switch, distributed_virtual_switch::UUID).await?,
        None => None,
    };
    let (Some(portgroup_key), Some(switch_uuid)) = (key, uuid) else { return Ok(None) };
    let port = DistributedVirtualSwitchPortConnection {
        switch_uuid,
        portgroup_key: Some(portgroup_key),
        ..Default::default()
    };
    let backing = VirtualEthernetCardDistributedVirtualPortBackingInfo { port, ..Default::default() };
    Ok(Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardDistributedVirtualPortBackingInfo(Box::new(backing))))
}

/// A segment of NSX is known by the id and the type that its own manager gave it.
async fn segment(client: &Client, network: &OpaqueNetworkRef) -> Result<Option<AnyVirtualDeviceBackingInfo>> {
    let summary = client.property(network, opaque_network::SUMMARY).await?;
    let Some(summary) = summary.as_ref().and_then(|summary| summary.downcast_ref::<OpaqueNetworkSummary>()) else {
        return Ok(None);
    };
    let backing = VirtualEthernetCardOpaqueNetworkBackingInfo {
        opaque_network_id: summary.opaque_network_id.clone(),
        opaque_network_type: summary.opaque_network_type.clone(),
        ..Default::default()
    };
    Ok(Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardOpaqueNetworkBackingInfo(Box::new(backing))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_before_a_change_is_not_kept_after_it() {
        let mut details = Details::default();
        let vm = ManagedObjectReference::new("VirtualMachine", "vm-1");
        let (first, beside) = (details.begin(&vm), details.begin(&vm));
        assert!(details.holds(&vm, first) && details.holds(&vm, beside), "they read the same");
        details.forget(&vm);
        let later = details.begin(&vm);
        assert!(!details.holds(&vm, first) && !details.holds(&vm, beside) && details.holds(&vm, later));
        details.forget_all();
        assert!(!details.holds(&vm, later) && details.begin(&vm) != later);
    }
}
