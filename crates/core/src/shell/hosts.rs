//! How shells find the machines of a group: a hosts file to read, and names that the cluster's DNS knows.
//!
//! `/etc/hosts` is the kubelet's, root's to write and never read again by Kubernetes, so nothing in it could follow a group. A
//! ConfigMap's folder does, and so does DNS: the endpoints of a headless Service have names there, and the shells search in it.

use std::{fmt::Write, net::IpAddr};

use serde_json::{Value, json};

use super::{
    Desired,
    manifest::{manifest, signed},
};

/// Where the hosts file is in each shell.
pub const FOLDER: &str = "/etc/drover";
/// How many endpoints there are to a slice. The API server takes 1000.
const TO_A_SLICE: usize = 500;

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Where it can be reached, the best first.
    pub addresses: Vec<IpAddr>,
}

impl Machine {
    /// A machine, of whose addresses those are kept that another machine can reach it at.
    pub fn new<'a>(name: &str, addresses: impl IntoIterator<Item = &'a str>) -> Self {
        let mut kept: Vec<IpAddr> = Vec::new();
        for address in addresses.into_iter().filter_map(|text| text.parse().ok()) {
            if is_reachable(address) && !kept.contains(&address) {
                kept.push(address);
            }
        }
        Self { name: name.to_owned(), addresses: kept }
    }
}

fn is_reachable(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !is_local && !address.is_loopback() && !address.is_unspecified() && !address.is_multicast()
}

/// All that makes a group's machines known to the shells. The machines are in the order of their names.
pub fn objects(desired: &Desired, group: &str, machines: &[Machine]) -> Vec<Value> {
    let name = &desired.hosts;
    let mut file = manifest(desired, "v1", "ConfigMap", name);
    file["data"] = json!({"hosts": hosts_file(group, machines)});
    let mut service = manifest(desired, "v1", "Service", name);
    service["spec"] = json!({"clusterIP": "None"});
    let mut objects = vec![file, service];
    for family in ["IPv4", "IPv6"] {
        let endpoints = endpoints(machines, family);
        for (number, endpoints) in endpoints.chunks(TO_A_SLICE).enumerate() {
            let mut slice = manifest(
                desired,
                "discovery.k8s.io/v1",
                "EndpointSlice",
                &format!("{name}-{}-{number}", family.to_lowercase()),
            );
            slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!(name);
            slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = json!(super::MANAGER);
            slice["addressType"] = json!(family);
            slice["endpoints"] = json!(endpoints);
            objects.push(slice);
        }
    }
    objects.into_iter().map(signed).collect()
}

fn hosts_file(group: &str, machines: &[Machine]) -> String {
    let mut file = format!("# The machines of the VmGroup {group}. Drover keeps this current.\n");
    for machine in machines {
        if machine.addresses.is_empty() {
            // Writing to text can't fail.
            let _ = writeln!(file, "# {} has no address yet", machine.name);
        }
        for address in &machine.addresses {
            let _ = writeln!(file, "{address}\t{}", machine.name);
        }
    }
    file
}

fn endpoints(machines: &[Machine], family: &str) -> Vec<Value> {
    let is_in_family = |address: &&IpAddr| address.is_ipv4() == (family == "IPv4");
    let of_machine = |machine: &Machine| -> Vec<Value> {
        let addresses = machine.addresses.iter().filter(is_in_family);
        addresses
            .map(|address| json!({"addresses": [address], "hostname": machine.name, "conditions": {"ready": true}}))
            .collect()
    };
    machines.iter().filter(|machine| is_dns_label(&machine.name)).flat_map(of_machine).collect()
}

/// Whether DNS takes a name for one label. One that it doesn't take is in the file alone.
fn is_dns_label(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = name.as_bytes();
    let [first, .., last] = bytes else { return bytes.first().is_some_and(|byte| is_letter(*byte)) };
    bytes.len() <= 63
        && is_letter(*first)
        && is_letter(*last)
        && bytes.iter().all(|byte| is_letter(*byte) || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_others_can_reach_are_kept_the_first_first() {
        let told = ["10.0.0.2", "fe80::1", "169.254.1.1", "127.0.0.1", "::1", "fd00::2", "10.0.0.2", "nonsense", ""];
        let machine = Machine::new("a", told);
        assert_eq!(machine.addresses, ["10.0.0.2", "fd00::2"].map(|text| text.parse::<IpAddr>().unwrap()));
    }

    #[test]
    fn a_hosts_file_names_each_machine_at_each_address_and_those_that_have_none() {
        let machines = [Machine::new("a", ["10.0.0.2", "fd00::2"]), Machine::new("b", [])];
        let expected = "# The machines of the VmGroup web. Drover keeps this current.\n\
                        10.0.0.2\ta\nfd00::2\ta\n# b has no address yet\n";
        assert_eq!(hosts_file("web", &machines), expected);
    }

    #[test]
    fn dns_gets_the_names_that_it_takes() {
        for name in ["a", "web-replica-abcdefgh", "1"] {
            assert!(is_dns_label(name), "{name}");
        }
        for name in ["", "a.b", "-a", "a-", "A", "a_b", &"a".repeat(64)] {
            assert!(!is_dns_label(name), "{name}");
        }
        let machines = [Machine::new("a", ["10.0.0.2", "fd00::2"]), Machine::new("b.c", ["10.0.0.3"])];
        let expected = json!([{"addresses": ["10.0.0.2"], "hostname": "a", "conditions": {"ready": true}}]);
        assert_eq!(json!(endpoints(&machines, "IPv4")), expected);
    }
}
