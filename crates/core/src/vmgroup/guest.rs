//! What the guest of a machine is told.

use std::{fmt::Write, net::IpAddr};

use drover_api::{
    VmGroupSpec,
    vmgroup::{GuestNetwork, NetworkAdapter},
};
use serde_json::{Map, Value, json};

use crate::{
    names::{self, Slot},
    vmgroup::{Desired, adapters::SlotAdapter},
};

/// The longest hostname that Linux takes.
const LONGEST_HOSTNAME: usize = 63;

/// Text for a guest, with the machine's own values in the places that are kept for them: `{{name}}`, `{{slot}}`, `{{group}}` and
/// `{{namespace}}`. What else is in braces stays as it is.
#[must_use]
pub fn fill(text: &str, name: &str, slot: Slot, desired: &Desired) -> String {
    text.replace("{{name}}", name)
        .replace("{{slot}}", &slot.to_string())
        .replace("{{group}}", &desired.name)
        .replace("{{namespace}}", &desired.namespace)
}

/// A machine's name as a hostname, for guests that need one and are given none.
#[must_use]
pub fn hostname_of(name: &str) -> String {
    names::label(&name.replace(['.', '_'], "-"))
}

/// Whether text is a hostname that a guest takes.
pub(super) fn is_hostname(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        !label.is_empty() && label.chars().all(is_letter) && !label.starts_with('-') && !label.ends_with('-')
    };
    text.len() <= LONGEST_HOSTNAME && text.split('.').all(is_label)
}

/// Why a guest can't be told what it has to be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMetadata {
    /// The user's metadata has it already.
    #[error("the metadata has {0} of its own, which spec.{1} sets: take it out of one of them")]
    Clash(&'static str, &'static str),
    /// It can't be added to.
    #[error("the metadata is neither a JSON object nor a YAML mapping of one line for each key")]
    Unknown,
}

const HOSTNAME: &str = "local-hostname";
const NETWORK: &str = "network";

/// The metadata for cloud-init: what the user gives, with the machine's hostname and network. `None`: there is nothing to tell.
pub fn metadata(
    own: Option<&str>,
    hostname: Option<&str>,
    network: Option<Value>,
) -> Result<Option<String>, BadMetadata> {
    let added = [(HOSTNAME, "guest.hostname", hostname.map(Value::from)), (NETWORK, "networkAdapters", network)];
    let added: Vec<_> = added.into_iter().filter_map(|(key, field, value)| Some((key, field, value?))).collect();
    let Some(own) = own.filter(|own| !own.trim().is_empty()) else {
        let whole: Map<_, _> = added.into_iter().map(|(key, _, value)| (key.to_owned(), value)).collect();
        return Ok((!whole.is_empty()).then(|| Value::Object(whole).to_string()));
    };
    if added.is_empty() {
        return Ok(Some(own.to_owned()));
    }
    if own.trim_start().starts_with('{') {
        let mut whole: Map<String, Value> = serde_json::from_str(own).map_err(|_| BadMetadata::Unknown)?;
        for (key, field, value) in added {
            if whole.insert(key.to_owned(), value).is_some() {
                return Err(BadMetadata::Clash(key, field));
            }
        }
        return Ok(Some(Value::Object(whole).to_string()));
    }
    // Only what is a mapping, with its keys at the begin of their lines, and doesn't end, can have a line more.
    let is_said = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#') && *line != "---";
    let first = own.lines().find(is_said).unwrap_or_default();
    let is_mapping = first.contains(':')
        && first.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "\"'_".contains(letter));
    let ends = |line: &str| line.starts_with("...") || line.starts_with("---") && line != "---";
    if !is_mapping || own.lines().any(ends) || own.lines().filter(|line| *line == "---").count() > 1 {
        return Err(BadMetadata::Unknown);
    }
    let mut whole = own.trim_end().to_owned();
    for (key, field, value) in added {
        let is_key = |line: &str| {
            let rest = line.strip_prefix(['"', '\'']).unwrap_or(line).strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
        };
        if own.lines().any(is_key) {
            return Err(BadMetadata::Clash(key, field));
        }
        // JSON is YAML too.
        // Writing to a text can't fail.
        let _ = write!(whole, "\n{key}: {value}");
    }
    whole.push('\n');
    Ok(Some(whole))
}

/// Whether what a user gives as metadata can be added to with all that a spec has guests told.
pub fn can_be_told(own: Option<&str>, spec: &VmGroupSpec) -> Result<(), BadMetadata> {
    let is_told = spec.guest.network.unwrap_or_default() == GuestNetwork::CloudInit;
    let hostname = spec.guest.hostname.as_deref().filter(|_| is_told);
    let says_more = |adapter: &NetworkAdapter| {
        !(adapter.addresses.is_empty() && adapter.nameservers.is_empty() && adapter.search_domains.is_empty())
    };
    let has_network = is_told && spec.network_adapters.iter().any(says_more);
    metadata(own, hostname, has_network.then_some(Value::Null)).map(drop)
}

/// A machine's network, as cloud-init and netplan read it (version 2). Adapters are found by their MAC addresses. `None`: nothing is said
/// of it, and the guest does as it likes.
#[must_use]
pub fn network(adapters: &[SlotAdapter<'_>]) -> Option<Value> {
    let says_more = |SlotAdapter { mac, address, adapter }: &SlotAdapter<'_>| {
        address.is_some() || mac.is_some() && !(adapter.nameservers.is_empty() && adapter.search_domains.is_empty())
    };
    if !adapters.iter().any(says_more) {
        return None;
    }
    let ethernet = |(number, adapter): (usize, &SlotAdapter<'_>)| {
        let name = format!("eth{number}");
        let told = ethernet(adapter, &name)?;
        Some((name, told))
    };
    let ethernets: Map<_, _> = adapters.iter().enumerate().filter_map(ethernet).collect();
    Some(json!({"version": 2, "ethernets": ethernets}))
}

fn ethernet(SlotAdapter { mac, address, adapter }: &SlotAdapter<'_>, name: &str) -> Option<Value> {
    // Not every distribution's cloud-init finds the interface by its address alone.
    let mut told = json!({"match": {"macaddress": mac.as_ref()?.to_string()}, "set-name": name});
    match address {
        Some(address) => told["addresses"] = json!([address.to_string()]),
        None => told["dhcp4"] = json!(true),
    }
    let gateway = match address.map(|cidr| cidr.address) {
        Some(IpAddr::V4(_)) => adapter.gateway4.map(|gateway| ("gateway4", gateway.to_string())),
        Some(IpAddr::V6(_)) => adapter.gateway6.map(|gateway| ("gateway6", gateway.to_string())),
        None => None,
    };
    if let Some((key, gateway)) = gateway {
        told[key] = json!(gateway);
    }
    let mut names = Map::new();
    if !adapter.nameservers.is_empty() {
        names.insert("addresses".to_owned(), json!(adapter.nameservers));
    }
    if !adapter.search_domains.is_empty() {
        names.insert("search".to_owned(), json!(adapter.search_domains));
    }
    if !names.is_empty() {
        told["nameservers"] = Value::Object(names);
    }
    Some(told)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vmgroup::{adapters::MacShifts, desired::tests::desired};

    #[test]
    fn each_place_gets_its_value_and_other_braces_stay() {
        let desired = desired(&json!({}));
        let filled = fill("{{name}} {{slot}} {{slot}} {{ name }} {{x}} {{{group}}}", "vm", Slot(3), &desired);
        assert_eq!(filled, format!("vm 3 3 {{{{ name }}}} {{{{x}}}} {{{}}}", desired.name));
    }

    #[test]
    fn hostnames_are_told_from_what_no_guest_takes() {
        for name in ["web-0", "a", "db.example.com", "A1"] {
            assert!(is_hostname(name), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "-web", "web-", "a..b", "a_b", "{{x}}", "web.", &long] {
            assert!(!is_hostname(name), "{name}");
        }
        assert!(is_hostname(&hostname_of(&format!("my.group-{long}-replica-abcdefgh"))));
    }

    #[test]
    fn what_the_user_tells_a_guest_is_kept_and_added_to() {
        let network = || Some(json!({"version": 2}));
        assert_eq!(metadata(None, None, None), Ok(None));
        assert_eq!(metadata(Some("a: b"), None, None), Ok(Some("a: b".to_owned())));
        assert_eq!(
            metadata(None, Some("web-0"), network()).unwrap().unwrap(),
            r#"{"local-hostname":"web-0","network":{"version":2}}"#
        );
        let yaml =
            metadata(Some("instance-id: x\nnested:\n  network: y\n"), Some("web-0"), network()).unwrap().unwrap();
        assert_eq!(
            yaml,
            "instance-id: x\nnested:\n  network: y\nlocal-hostname: \"web-0\"\nnetwork: {\"version\":2}\n"
        );
        let json = metadata(Some(" {\"instance-id\": \"x\"}"), None, network()).unwrap().unwrap();
        assert_eq!(json, r#"{"instance-id":"x","network":{"version":2}}"#);
        let clash = Err(BadMetadata::Clash("network", "networkAdapters"));
        for own in ["network: {}", "\"network\" : {}", "a: b\nnetwork:\n  version: 2", "{\"network\": 1}"] {
            assert_eq!(metadata(Some(own), None, network()), clash, "{own}");
        }
        assert_eq!(
            metadata(Some("local-hostname: x"), Some("y"), None),
            Err(BadMetadata::Clash("local-hostname", "guest.hostname"))
        );
        for odd in ["{a: b}", "- a", "a: b\n...\n", "[1]", "  a: b", "-", "plain", "a: b\n---\nc: d\n---\n"] {
            assert_eq!(metadata(Some(odd), None, network()), Err(BadMetadata::Unknown), "{odd}");
        }
    }

    #[test]
    fn an_adapter_is_told_its_address_by_its_mac_and_others_ask_dhcp() {
        let desired = desired(&json!({"replicas": 2, "networkAdapters": [
            {
                "network": "lan", "addresses": ["10.0.0.10/24", "10.0.0.11/24"], "gateway4": "10.0.0.1",
                "nameservers": ["10.0.0.2"], "searchDomains": ["example.com"],
            },
            {"network": "storage", "gateway4": "10.9.0.1"},
        ]}));
        let adapters = desired.adapters_of(Slot(1), &MacShifts::new());
        let macs = adapters.iter().map(|adapter| adapter.mac.unwrap().to_string()).collect::<Vec<_>>();
        assert_eq!(
            network(&adapters).unwrap(),
            json!({"version": 2, "ethernets": {
                "eth0": {
                "match": {"macaddress": macs[0]}, "set-name": "eth0", "addresses": ["10.0.0.11/24"], "gateway4": "10.0.0.1",
                    "nameservers": {"addresses": ["10.0.0.2"], "search": ["example.com"]},
                },
                "eth1": {"match": {"macaddress": macs[1]}, "set-name": "eth1", "dhcp4": true},
            }})
        );
        let plain =
            super::super::desired::tests::desired(&json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}]}));
        assert_eq!(network(&plain.adapters_of(Slot(0), &MacShifts::new())), None);
    }
}
