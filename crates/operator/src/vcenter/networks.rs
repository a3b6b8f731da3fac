//! What network cards are connected to that are on a network which doesn't go by its name: port groups of distributed switches, and segments
//! of NSX.

use std::collections::HashMap;

use vim25::{
    ManagedObject, ManagedObjectReference, Result,
    props::{distributed_virtual_portgroup as port_group, distributed_virtual_switch as switch, opaque_network},
    refs::NetworkRef,
    types::{
        AnyVirtualDeviceBackingInfo, DistributedVirtualSwitchPortConnection, ObjectUpdate, OpaqueNetworkSummary,
        PropertySpec, VirtualEthernetCardDistributedVirtualPortBackingInfo,
        VirtualEthernetCardOpaqueNetworkBackingInfo,
    },
};

/// The networks that don't go by their names, and the switches that they are on.
#[derive(Debug, Default)]
pub(crate) struct Networks {
    switches: HashMap<ManagedObjectReference, String>,
    port_groups: HashMap<ManagedObjectReference, PortGroup>,
    segments: HashMap<ManagedObjectReference, Segment>,
}

/// A port group of a distributed switch is known by its key and the switch's UUID.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PortGroup {
    key: Option<String>,
    switch: Option<ManagedObjectReference>,
}

/// A segment of NSX is known by the id and the type that its own manager gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Segment {
    id: String,
    kind: String,
}

/// The properties that they are made from, beside the name and the place of each network.
pub(super) fn properties() -> [PropertySpec; 3] {
    [
        PropertySpec::of(&[&switch::UUID]),
        PropertySpec::of(&[
            &port_group::NAME,
            &port_group::PARENT,
            &port_group::KEY,
            &port_group::CONFIG_DISTRIBUTED_VIRTUAL_SWITCH,
        ]),
        PropertySpec::of(&[&opaque_network::NAME, &opaque_network::PARENT, &opaque_network::SUMMARY]),
    ]
}

impl Networks {
    /// Takes up what vCenter tells of a network or a switch. Says whether cards are connected otherwise than before.
    pub(super) fn change(&mut self, update: &mut ObjectUpdate) -> Result<bool> {
        let object = &update.obj.clone();
        if let Some(uuid) = update.take(switch::UUID)?.flatten() {
            return Ok(self.switches.insert(object.clone(), uuid.clone()) != Some(uuid));
        }
        if let Some(summary) = update.take(opaque_network::SUMMARY)?.flatten()
            && let Some(summary) = summary.downcast_ref::<OpaqueNetworkSummary>()
        {
            let (id, kind) = (summary.opaque_network_id.clone(), summary.opaque_network_type.clone());
            let segment = Segment { id, kind };
            return Ok(self.segments.insert(object.clone(), segment.clone()) != Some(segment));
        }
        if object.type_name() != "DistributedVirtualPortgroup" {
            return Ok(false);
        }
        let group = self.port_groups.entry(object.clone()).or_default();
        let before = group.clone();
        if let Some(key) = update.take(port_group::KEY)? {
            group.key = key;
        }
        if let Some(switch) = update.take(port_group::CONFIG_DISTRIBUTED_VIRTUAL_SWITCH)? {
            group.switch = switch.map(Into::into);
        }
        Ok(*group != before)
    }

    pub(super) fn remove(&mut self, object: &ManagedObjectReference) {
        self.switches.remove(object);
        self.port_groups.remove(object);
        self.segments.remove(object);
    }

    /// What cards on a network are connected to. `None`: it doesn't say.
    pub(crate) fn backing(&self, network: &NetworkRef) -> Option<AnyVirtualDeviceBackingInfo> {
        let object = network.reference();
        if let Some(Segment { id, kind }) = self.segments.get(object) {
            let backing = VirtualEthernetCardOpaqueNetworkBackingInfo {
                opaque_network_id: id.clone(),
                opaque_network_type: kind.clone(),
                ..Default::default()
            };
            return Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardOpaqueNetworkBackingInfo(Box::new(backing)));
        }
        let PortGroup { key, switch } = self.port_groups.get(object)?;
        let port = DistributedVirtualSwitchPortConnection {
            switch_uuid: self.switches.get(switch.as_ref()?)?.clone(),
            portgroup_key: Some(key.clone()?),
            ..Default::default()
        };
        let backing = VirtualEthernetCardDistributedVirtualPortBackingInfo { port, ..Default::default() };
        Some(AnyVirtualDeviceBackingInfo::VirtualEthernetCardDistributedVirtualPortBackingInfo(Box::new(backing)))
    }
}

#[cfg(test)]
mod tests {
    use vim25::{Any, types::PropertyChange};

    use super::*;

    #[test]
    fn a_port_group_is_connected_to_once_its_switch_is_told_of_and_not_after_it_has_gone() {
        let mut networks = Networks::default();
        let group = NetworkRef::try_from(ManagedObjectReference::new("DistributedVirtualPortgroup", "dvpg-1")).unwrap();
        let switch = ManagedObjectReference::new("VmwareDistributedVirtualSwitch", "dvs-1");
        let told = |networks: &mut Networks, obj: &ManagedObjectReference, changes: &[(&str, Any)]| {
            let change = |(name, val): &(&str, Any)| PropertyChange {
                name: (*name).to_owned(),
                val: Some(val.clone()),
                ..PropertyChange::default()
            };
            let change_set = changes.iter().map(change).collect();
            networks.change(&mut ObjectUpdate { obj: obj.clone(), change_set, ..ObjectUpdate::default() }).unwrap()
        };
        let (key, uuid) = (Any::String("key".to_owned()), Any::String("50 01".to_owned()));
        let on = ("config.distributedVirtualSwitch", Any::Reference(switch.clone()));
        assert!(told(&mut networks, group.reference(), &[("key", key), on.clone()]));
        assert!(!told(&mut networks, group.reference(), &[on]), "nothing is another");
        assert!(networks.backing(&group).is_none());
        assert!(told(&mut networks, &switch, &[("uuid", uuid)]));
        let backing = networks.backing(&group);
        let port = backing.as_ref().and_then(|backing| {
            Some(&backing.downcast_ref::<VirtualEthernetCardDistributedVirtualPortBackingInfo>()?.port)
        });
        assert_eq!(
            port.map(|port| (port.switch_uuid.as_str(), port.portgroup_key.as_deref())),
            Some(("50 01", Some("key")))
        );
        networks.remove(&switch);
        assert!(networks.backing(&group).is_none());
    }
}
