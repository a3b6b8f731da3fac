//! The template's network cards, put on the networks that a group names.

use drover_api::{
    VmGroupSpec,
    vmgroup::{GuestNetwork, NetworkAdapter},
};
use vim25::{
    ManagedObject,
    enums::VirtualDeviceConfigSpecOperation,
    refs::NetworkRef,
    types::{
        AnyVirtualDevice, AnyVirtualDeviceBackingInfo, VirtualDeviceConfigSpec, VirtualEthernetCard,
        VirtualEthernetCardNetworkBackingInfo,
    },
};

use super::source::Unusable;
use crate::vcenter::{mirror::Mirror, templates::TemplateDetails};

/// The changes to a clone's cards, the first card for the first network. Cards beyond stay as the template has them. `backings` are what
/// cards on the networks are connected to.
pub(super) fn cards(
    backings: Vec<AnyVirtualDeviceBackingInfo>,
    template: &TemplateDetails,
    spec: &VmGroupSpec,
) -> Result<Vec<VirtualDeviceConfigSpec>, Unusable> {
    if template.cards.len() < backings.len() {
        let has =
            format!("{} has {} network cards for {} networks", spec.template, template.cards.len(), backings.len());
        return Err(Unusable::Field(field(spec), has));
    }
    let per_slot = spec.network_adapters.iter().any(NetworkAdapter::is_per_slot);
    if per_slot && spec.guest.network == Some(GuestNetwork::Customization) && template.cards.len() > backings.len() {
        let has = format!(
            "{} has {} network cards for {} networkAdapters, and guest customization wants to know all: add an adapter for each",
            spec.template,
            template.cards.len(),
            backings.len()
        );
        return Err(Unusable::Field(field(spec), has));
    }
    let change = |(mut device, backing): (AnyVirtualDevice, _)| {
        device.backing = Some(backing);
        be_new(&mut device);
        let operation = Some(VirtualDeviceConfigSpecOperation::Edit);
        VirtualDeviceConfigSpec { operation, device, ..Default::default() }
    };
    Ok(template.cards.iter().cloned().zip(backings).map(change).collect())
}

/// What cards on all these networks are connected to.
pub(super) fn backings(
    mirror: &Mirror,
    networks: &[NetworkRef],
    spec: &VmGroupSpec,
) -> Result<Vec<AnyVirtualDeviceBackingInfo>, Unusable> {
    let backing = |(network, word): (&NetworkRef, &str)| {
        plain(network, word).or_else(|| mirror.networks.backing(network)).ok_or_else(|| unknown(network, word))
    };
    networks.iter().zip(spec.network_names()).map(backing).collect()
}

/// The field that names the networks.
fn field(spec: &VmGroupSpec) -> &'static str {
    if spec.network_adapters.is_empty() { "networks" } else { "networkAdapters" }
}

fn unknown(network: &NetworkRef, word: &str) -> Unusable {
    let why = if network.reference().type_name() == "OpaqueNetwork" {
        format!("{word} does not say which segment it is")
    } else {
        format!("{word} is on no switch that can be seen")
    };
    Unusable::Field("networks", why)
}

/// What a card on a plain network is connected to: it goes by the network's name.
fn plain(network: &NetworkRef, word: &str) -> Option<AnyVirtualDeviceBackingInfo> {
    if network.reference().type_name() != NetworkRef::TYPE {
        return None;
    }
    let mut backing = VirtualEthernetCardNetworkBackingInfo { network: Some(network.clone()), ..Default::default() };
    word.rsplit('/').next().unwrap_or(word).clone_into(&mut backing.device_name);
    Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardNetworkBackingInfo(Box::new(backing)))
}

/// Makes an edited card a clone's own. With the template's address and port id in the request, every clone would get those.
fn be_new(device: &mut AnyVirtualDevice) {
    if let Some(card) = device.downcast_mut::<VirtualEthernetCard>() {
        card.mac_address = None;
        card.address_type = Some("generated".to_owned());
        card.external_id = None;
    }
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
