//! The network adapters of a group's machines.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Network adapter of each VM.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(!has(self.gateway4) && !has(self.gateway6)) || (has(self.addresses) && self.addresses.size() > 0)",
        "message": "a gateway needs addresses: without them, DHCP says which gateway there is",
    },
    {
        "rule": "(!has(self.nameservers) && !has(self.searchDomains)) || (has(self.addresses) && self.addresses.size() > 0) || (has(self.mac) && self.mac == 'PerSlot')",
        "message": "nameservers and searchDomains need addresses, or mac PerSlot: guests find the adapter by its MAC address",
    },
]))]
pub struct NetworkAdapter {
    /// Name or inventory path of the port group that the adapter is connected to.
    #[schemars(length(min = 1, max = 1024))]
    pub network: String,
    /// MAC address of the adapter. `Generated`: vCenter makes one up for each new VM. `PerSlot`: Drover computes an address for each
    /// slot, which stays the same when the VM in the slot is replaced, so that DHCP reservations hold. Default: `PerSlot` where an
    /// adapter has addresses, else `Generated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MacAddresses")]
    pub mac: Option<MacAddresses>,
    /// IP addresses with their prefix length, such as `10.0.0.10/24`, one for each VM: the VM in slot 0 gets the first. At least as
    /// many as replicas, IPv4 or IPv6. A change replaces only the VMs whose address changes. Default: DHCP.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::REPLICAS), inner(length(min = 4, max = 43), regex(pattern = "^[0-9a-fA-F:.]+/[0-9]{1,3}$")))]
    pub addresses: Vec<String>,
    /// Default gateway of the VMs whose address is IPv4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 7, max = 15), regex(pattern = "^[0-9.]+$"))]
    pub gateway4: Option<String>,
    /// Default gateway of the VMs whose address is IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 2, max = 39), regex(pattern = "^[0-9a-fA-F:.]+$"))]
    pub gateway6: Option<String>,
    /// IP addresses of the name servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 2, max = 39), regex(pattern = "^[0-9a-fA-F:.]+$")))]
    pub nameservers: Vec<String>,
    /// Domains in which names without a dot are looked up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(min = 1, max = 253), regex(pattern = "^[0-9A-Za-z._-]+$")))]
    pub search_domains: Vec<String>,
}

/// MAC addresses of network adapters.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum MacAddresses {
    /// vCenter makes one up for each new machine.
    Generated,
    /// Computed for each slot, and the same for each machine in it.
    PerSlot,
}

impl NetworkAdapter {
    /// Whether each slot has something of its own here that outlives the machine in it.
    #[must_use]
    pub fn is_per_slot(&self) -> bool {
        !self.addresses.is_empty() || self.mac == Some(MacAddresses::PerSlot)
    }
}
