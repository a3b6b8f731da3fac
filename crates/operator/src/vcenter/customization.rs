//! Guest customization: what vSphere tells a Linux guest of its hostname and network, where cloud-init doesn't.

use std::net::IpAddr;

use drover_core::vmgroup::adapters::{Cidr, SlotAdapter};
use vim25::types::{
    AnyCustomizationIdentitySettings, AnyCustomizationIpGenerator, AnyCustomizationIpV6Generator, AnyCustomizationName,
    CustomizationAdapterMapping, CustomizationDhcpIpGenerator, CustomizationFixedIp, CustomizationFixedIpV6,
    CustomizationFixedName, CustomizationGlobalIPSettings, CustomizationIPSettings,
    CustomizationIPSettingsIpV6AddressSpec, CustomizationLinuxPrep, CustomizationSpec,
};

/// The domain of a guest that is told none. vSphere demands one.
const NO_DOMAIN: &str = "localdomain";

/// What a guest is told. vSphere wants a setting for each of the machine's cards: those that nothing is said of ask DHCP.
pub(super) fn customization(hostname: &str, adapters: &[SlotAdapter<'_>], cards: usize) -> CustomizationSpec {
    let (host, domain) = hostname.split_once('.').unwrap_or((hostname, ""));
    let domains = adapters.iter().flat_map(|adapter| &adapter.adapter.search_domains);
    let domain = Some(domain).filter(|domain| !domain.is_empty()).or(domains.clone().next().map(String::as_str));
    let name = CustomizationFixedName { name: host.to_owned(), ..Default::default() };
    let identity = CustomizationLinuxPrep {
        host_name: AnyCustomizationName::CustomizationFixedName(Box::new(name)),
        domain: domain.unwrap_or(NO_DOMAIN).to_owned(),
        ..Default::default()
    };
    let servers = adapters.iter().flat_map(|adapter| &adapter.adapter.nameservers);
    let settings = adapters.iter().map(setting);
    let others = (adapters.len()..cards).map(|_| CustomizationAdapterMapping { mac_address: None, adapter: dhcp() });
    let mut all: Vec<_> = settings.chain(others).collect();
    if all.iter().any(|setting| setting.mac_address.is_none()) {
        // vSphere wants to be told which card is which of all of them or of none.
        for setting in &mut all {
            setting.mac_address = None;
        }
    }
    CustomizationSpec {
        identity: AnyCustomizationIdentitySettings::CustomizationLinuxPrep(Box::new(identity)),
        global_ip_settings: CustomizationGlobalIPSettings {
            dns_suffix_list: domains.cloned().collect(),
            // Linux has one list for all of its cards.
            dns_server_list: servers.map(IpAddr::to_string).collect(),
        },
        nic_setting_map: all,
        ..Default::default()
    }
}

fn dhcp() -> CustomizationIPSettings {
    let ip = CustomizationDhcpIpGenerator::default();
    CustomizationIPSettings {
        ip: AnyCustomizationIpGenerator::CustomizationDhcpIpGenerator(Box::new(ip)),
        ..Default::default()
    }
}

fn setting(SlotAdapter { mac, address, adapter }: &SlotAdapter<'_>) -> CustomizationAdapterMapping {
    let settings = match address {
        None => dhcp(),
        Some(cidr @ Cidr { address: IpAddr::V4(address), .. }) => {
            let ip = CustomizationFixedIp { ip_address: address.to_string(), ..Default::default() };
            CustomizationIPSettings {
                ip: AnyCustomizationIpGenerator::CustomizationFixedIp(Box::new(ip)),
                subnet_mask: Some(cidr.mask().to_string()),
                gateway: adapter.gateway4.iter().map(ToString::to_string).collect(),
                ..Default::default()
            }
        }
        Some(Cidr { address: IpAddr::V6(address), prefix }) => {
            let ip = CustomizationFixedIpV6 {
                ip_address: address.to_string(),
                subnet_mask: (*prefix).into(),
                ..Default::default()
            };
            let v6 = CustomizationIPSettingsIpV6AddressSpec {
                ip: vec![AnyCustomizationIpV6Generator::CustomizationFixedIpV6(Box::new(ip))],
                gateway: adapter.gateway6.iter().map(ToString::to_string).collect(),
            };
            CustomizationIPSettings { ip_v6_spec: Some(v6), ..dhcp() }
        }
    };
    CustomizationAdapterMapping { mac_address: mac.as_ref().map(ToString::to_string), adapter: settings }
}

#[cfg(test)]
mod tests {
    use drover_core::{
        names::Slot,
        vmgroup::{Desired, adapters::MacShifts},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn each_card_has_a_setting_and_those_with_an_address_are_named_by_their_mac() {
        let group = serde_json::from_value(json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup", "metadata": {"name": "web", "uid": "u"},
            "spec": {"cpu": 1, "memory": 1, "replicas": 1, "template": "t", "networkAdapters": [
                {"network": "a", "addresses": ["10.0.0.5/20"], "gateway4": "10.0.0.1", "nameservers": ["10.0.0.2"], "searchDomains": ["x.org"]},
                {"network": "b", "addresses": ["fd00::5/64"], "gateway6": "fd00::1"},
            ]},
        }));
        let desired = Desired::of(&group.unwrap()).unwrap();
        let adapters = desired.adapters_of(Slot(0), &MacShifts::new());
        let of_more = customization("web-0", &adapters, 3).nic_setting_map;
        assert!(of_more.len() == 3 && of_more.iter().all(|setting| setting.mac_address.is_none()), "by their order");
        let spec = customization("web-0", &adapters, 2);
        let [first, second] = &spec.nic_setting_map[..] else { panic!("{spec:?}") };
        let AnyCustomizationIpGenerator::CustomizationFixedIp(fixed) = &first.adapter.ip else { panic!("{first:?}") };
        assert_eq!(
            (fixed.ip_address.as_str(), first.adapter.subnet_mask.as_deref()),
            ("10.0.0.5", Some("255.255.240.0"))
        );
        assert_eq!(first.adapter.gateway, ["10.0.0.1"]);
        assert!(first.mac_address.is_some() && second.mac_address.is_some());
        assert_eq!(second.adapter.ip_v6_spec.as_ref().unwrap().gateway, ["fd00::1"]);
        let AnyCustomizationIdentitySettings::CustomizationLinuxPrep(linux) = &spec.identity else {
            panic!("{spec:?}")
        };
        assert_eq!(
            (linux.domain.as_str(), &spec.global_ip_settings.dns_server_list[..]),
            ("x.org", &["10.0.0.2".to_owned()][..])
        );
    }

    #[test]
    fn a_hostname_with_a_domain_says_both() {
        let spec = customization("db.example.com", &[], 1);
        let AnyCustomizationIdentitySettings::CustomizationLinuxPrep(linux) = &spec.identity else {
            panic!("{spec:?}")
        };
        let AnyCustomizationName::CustomizationFixedName(name) = &linux.host_name else { panic!("{linux:?}") };
        assert_eq!((name.name.as_str(), linux.domain.as_str()), ("db", "example.com"));
    }
}
