//! The template's network cards, put on the networks that a group names.

use drover_api::VmGroupSpec;
use vim25::{
    Client, ManagedObject,
    enums::VirtualDeviceConfigSpecOperation,
    props::{distributed_virtual_portgroup as port_group, distributed_virtual_switch, opaque_network, virtual_machine},
    refs::{DistributedVirtualPortgroupRef, NetworkRef, OpaqueNetworkRef, VirtualMachineRef},
    types::{
        AnyVirtualDevice, AnyVirtualDeviceBackingInfo, DistributedVirtualSwitchPortConnection, OpaqueNetworkSummary,
        VirtualDeviceConfigSpec, VirtualEthernetCard, VirtualEthernetCardDistributedVirtualPortBackingInfo,
        VirtualEthernetCardNetworkBackingInfo, VirtualEthernetCardOpaqueNetworkBackingInfo,
    },
};

use super::{
    reach::Choice,
    source::{Base, Unusable},
};
use crate::vcenter::VCenterHandle;

/// The networks that a group names.
pub(super) async fn named(
    live: &VCenterHandle,
    base: &Base,
    choice: Option<&Choice>,
    spec: &VmGroupSpec,
) -> Result<Vec<NetworkRef>, Unusable> {
    if let Some(choice) = choice {
        return Ok(choice.networks.clone());
    }
    let below = Some(base.datacenter.reference());
    let mut networks = Vec::new();
    for name in &spec.networks {
        networks.push(live.inventory.find(below, name).await.map_err(|error| Unusable::Lookup("networks", error))?);
    }
    Ok(networks)
}

/// The changes to a clone's cards, the first card for the first network. Cards beyond stay as the template has them.
pub(super) async fn cards(
    client: &Client,
    networks: &[NetworkRef],
    template: &VirtualMachineRef,
    spec: &VmGroupSpec,
) -> Result<Vec<VirtualDeviceConfigSpec>, Unusable> {
    if spec.networks.is_empty() {
        return Ok(Vec::new());
    }
    let devices = client.property(template, virtual_machine::CONFIG_HARDWARE_DEVICE).await;
    let devices = devices.map_err(|error| Unusable::Lookup("template", error.into()))?.unwrap_or_default();
    let present: Vec<_> =
        devices.into_iter().filter(|device| device.downcast_ref::<VirtualEthernetCard>().is_some()).collect();
    if present.len() < spec.networks.len() {
        let has = format!("{} has {} network cards for {} networks", spec.template, present.len(), spec.networks.len());
        return Err(Unusable::Field("networks", has));
    }
    let mut changes = Vec::new();
    for ((name, network), mut device) in spec.networks.iter().zip(networks).zip(present) {
        device.backing = Some(backing(client, name, network).await?);
        be_new(&mut device);
        let operation = Some(VirtualDeviceConfigSpecOperation::Edit);
        changes.push(VirtualDeviceConfigSpec { operation, device, ..Default::default() });
    }
    Ok(changes)
}

/// Makes an edited card a clone's own. With the template's address and port id in the request, every clone would get those.
fn be_new(device: &mut AnyVirtualDevice) {
    if let Some(card) = device.downcast_mut::<VirtualEthernetCard>() {
        card.mac_address = None;
        card.address_type = Some("generated".to_owned());
        card.external_id = None;
    }
}

/// What a card is connected to, in the words of the network's kind.
async fn backing(client: &Client, name: &str, network: &NetworkRef) -> Result<AnyVirtualDeviceBackingInfo, Unusable> {
    let reference = network.reference();
    if let Ok(group) = DistributedVirtualPortgroupRef::try_from(reference.clone()) {
        return distributed(client, name, &group).await;
    }
    if let Ok(opaque) = OpaqueNetworkRef::try_from(reference.clone()) {
        return segment(client, name, &opaque).await;
    }
    let mut backing = VirtualEthernetCardNetworkBackingInfo { network: Some(network.clone()), ..Default::default() };
    name.rsplit('/').next().unwrap_or(name).clone_into(&mut backing.device_name);
    Ok(AnyVirtualDeviceBackingInfo::VirtualEthernetCardNetworkBackingInfo(Box::new(backing)))
}

/// A port group of a distributed switch is known by its key and the switch's id.
async fn distributed(
    client: &Client,
    name: &str,
    group: &DistributedVirtualPortgroupRef,
) -> Result<AnyVirtualDeviceBackingInfo, Unusable> {
    let failed = |error: vim25::Error| Unusable::Lookup("networks", error.into());
    let key = client.property(group, port_group::KEY).await.map_err(failed)?;
    let switch = client.property(group, port_group::CONFIG_DISTRIBUTED_VIRTUAL_SWITCH).await.map_err(failed)?;
    let uuid = match switch {
        Some(switch) => client.property(&switch, distributed_virtual_switch::UUID).await.map_err(failed)?,
        None => None,
    };
    let (Some(portgroup_key), Some(switch_uuid)) = (key, uuid) else {
        return Err(Unusable::Field("networks", format!("{name} is on no switch that can be seen")));
    };
    let port = DistributedVirtualSwitchPortConnection {
        switch_uuid,
        portgroup_key: Some(portgroup_key),
        ..Default::default()
    };
    let backing = VirtualEthernetCardDistributedVirtualPortBackingInfo { port, ..Default::default() };
    Ok(AnyVirtualDeviceBackingInfo::VirtualEthernetCardDistributedVirtualPortBackingInfo(Box::new(backing)))
}

/// A segment of NSX is known by the id and the type that its own manager gave it.
async fn segment(
    client: &Client,
    name: &str,
    network: &OpaqueNetworkRef,
) -> Result<AnyVirtualDeviceBackingInfo, Unusable> {
    let summary = client.property(network, opaque_network::SUMMARY).await;
    let summary = summary.map_err(|error| Unusable::Lookup("networks", error.into()))?;
    let Some(summary) = summary.as_ref().and_then(|summary| summary.downcast_ref::<OpaqueNetworkSummary>()) else {
        return Err(Unusable::Field("networks", format!("{name} does not say which segment it is")));
    };
    let backing = VirtualEthernetCardOpaqueNetworkBackingInfo {
        opaque_network_id: summary.opaque_network_id.clone(),
        opaque_network_type: summary.opaque_network_type.clone(),
        ..Default::default()
    };
    Ok(AnyVirtualDeviceBackingInfo::VirtualEthernetCardOpaqueNetworkBackingInfo(Box::new(backing)))
}

#[cfg(test)]
mod tests {
    use vim25::types::VirtualVmxnet3;

    use super::*;

    #[test]
    fn an_edited_card_has_neither_the_templates_address_nor_its_port_id() {
        let mut device = AnyVirtualDevice::from(VirtualVmxnet3::default());
        let card = device.downcast_mut::<VirtualEthernetCard>().unwrap();
        card.address_type = Some("assigned".to_owned());
        card.mac_address = Some("00:50:56:01:02:03".to_owned());
        card.external_id = Some("port".to_owned());
        be_new(&mut device);
        let card = device.downcast_ref::<VirtualEthernetCard>().unwrap();
        assert_eq!((card.mac_address.as_ref(), card.external_id.as_ref()), (None, None));
        assert_eq!(card.address_type.as_deref(), Some("generated"));
    }
}
