//! Network adapters whose addresses belong to a slot, and stay whichever machine is in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use drover_api::{
    VmGroupSpec,
    vmgroup::{MacAddresses, NetworkAdapter},
};

use crate::names::{self, Slot};

/// A network adapter that every machine of a group has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adapter {
    /// Where its MAC address comes from.
    pub mac: MacAddresses,
    /// The addresses of the slots, by their numbers. None: DHCP.
    pub addresses: Vec<Cidr>,
    /// The default gateway of IPv4.
    pub gateway4: Option<Ipv4Addr>,
    /// The default gateway of IPv6.
    pub gateway6: Option<Ipv6Addr>,
    /// The name servers.
    pub nameservers: Vec<IpAddr>,
    /// The domains in which names are looked up.
    pub search_domains: Vec<String>,
}

/// The same adapter, as the machine in one slot has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotAdapter<'a> {
    /// Its MAC address, where it belongs to the slot.
    pub mac: Option<Mac>,
    /// Its address. `None`: DHCP.
    pub address: Option<Cidr>,
    /// What is the same in all slots.
    pub adapter: &'a Adapter,
}

/// An IP address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// How many bits are the network's.
    pub prefix: u8,
}

/// A MAC address of those that VMware leaves to people: `00:50:56:00:00:00` to `00:50:56:3f:ff:ff`. What differs are 22 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(u32);

/// How many such addresses there are.
const MACS: u32 = 1 << 22;

/// How far the MAC addresses of some adapters are from those that are computed, because others have those.
pub type MacShifts = BTreeMap<(Slot, usize), u32>;

impl Mac {
    /// The address of the adapter with this number in a slot, or the next but so many, where others have those.
    #[must_use]
    pub fn of(uid: &str, slot: Slot, adapter: usize, shift: u32) -> Self {
        let computed = names::hash(&["mac/", uid, "/", &slot.to_string(), "/", &adapter.to_string()]);
        // The remainder is below 2^22.
        let computed = u32::try_from(computed % u64::from(MACS)).unwrap_or(0);
        Self(computed.wrapping_add(shift) % MACS)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, high, middle, low] = self.0.to_be_bytes();
        write!(f, "00:50:56:{high:02x}:{middle:02x}:{low:02x}")
    }
}

/// Reads `00:50:56:01:02:03`, in capitals or not. Any other address is none of these.
impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes: Vec<_> =
            text.split([':', '-']).map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>().map_err(drop)?;
        match bytes[..] {
            [0x00, 0x50, 0x56, high @ ..0x40, middle, low] => Ok(Self(u32::from_be_bytes([0, high, middle, low]))),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl FromStr for Cidr {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (address, prefix) = text.split_once('/').ok_or(())?;
        let (address, prefix): (IpAddr, u8) = (address.parse().map_err(drop)?, prefix.parse().map_err(drop)?);
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if prefix <= longest { Ok(Self { address, prefix }) } else { Err(()) }
    }
}

impl Cidr {
    /// The mask of an IPv4 network, as `255.255.255.0`.
    #[must_use]
    pub fn mask(&self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(u32::from(32_u8.saturating_sub(self.prefix))).unwrap_or(0))
    }
}

/// What is wrong with an adapter: which field, what it says, and what it may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadAdapter {
    pub value: String,
    pub rule: &'static str,
}

/// The adapters that a spec declares.
pub(super) fn adapters(spec: &VmGroupSpec) -> Result<Vec<Adapter>, BadAdapter> {
    let has_addresses = spec.network_adapters.iter().any(|adapter| !adapter.addresses.is_empty());
    let default = if has_addresses { MacAddresses::PerSlot } else { MacAddresses::Generated };
    let adapters: Vec<_> =
        spec.network_adapters.iter().map(|adapter| read(adapter, default)).collect::<Result<_, _>>()?;
    if has_addresses && adapters.iter().any(|adapter| adapter.mac == MacAddresses::Generated) {
        let rule = "where an adapter has addresses, leave mac out, or set it to PerSlot";
        return Err(BadAdapter { value: "given with mac Generated".to_owned(), rule });
    }
    let mut used = BTreeSet::new();
    let addresses = adapters.iter().flat_map(|adapter| &adapter.addresses);
    if let Some(twice) = addresses.map(|cidr| cidr.address).find(|address| !used.insert(*address)) {
        return Err(BadAdapter { value: format!("given with {twice} twice"), rule: "give each address once" });
    }
    Ok(adapters)
}

fn read(adapter: &NetworkAdapter, default: MacAddresses) -> Result<Adapter, BadAdapter> {
    Ok(Adapter {
        mac: adapter.mac.unwrap_or(default),
        addresses: all(&adapter.addresses, "give addresses with their prefix length, such as 10.0.0.10/24")?,
        gateway4: one(adapter.gateway4.as_ref(), "give an IPv4 address as gateway4, such as 10.0.0.1")?,
        gateway6: one(adapter.gateway6.as_ref(), "give an IPv6 address as gateway6, such as fd00::1")?,
        nameservers: all(&adapter.nameservers, "give IP addresses as nameservers")?,
        search_domains: adapter.search_domains.clone(),
    })
}

fn all<T: FromStr>(texts: &[String], rule: &'static str) -> Result<Vec<T>, BadAdapter> {
    texts.iter().map(|text| parse(text, rule)).collect()
}

fn one<T: FromStr>(text: Option<&String>, rule: &'static str) -> Result<Option<T>, BadAdapter> {
    text.map(|text| parse(text, rule)).transpose()
}

fn parse<T: FromStr>(text: &str, rule: &'static str) -> Result<T, BadAdapter> {
    text.parse().map_err(|_| BadAdapter { value: format!("given with {text:?}"), rule })
}

impl Adapter {
    /// Whether each slot has something of its own here.
    #[must_use]
    pub fn is_per_slot(&self) -> bool {
        self.mac == MacAddresses::PerSlot || !self.addresses.is_empty()
    }

    /// The adapter of the machine in a slot. `number` is which of the machine's adapters it is.
    pub(super) fn of_slot(&self, uid: &str, slot: Slot, number: usize, shifts: &MacShifts) -> SlotAdapter<'_> {
        let shift = shifts.get(&(slot, number)).copied().unwrap_or(0);
        SlotAdapter {
            mac: (self.mac == MacAddresses::PerSlot).then(|| Mac::of(uid, slot, number, shift)),
            address: self.address_of(slot),
            adapter: self,
        }
    }

    /// The address of a slot.
    pub(super) fn address_of(&self, slot: Slot) -> Option<Cidr> {
        self.addresses.get(slot.0 as usize).copied()
    }
}

/// Which MAC addresses slots have, as far as they are not as computed, and for which slots that has been said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMacs {
    shifts: MacShifts,
    said: BTreeSet<Slot>,
}

impl SlotMacs {
    pub(super) fn of(shifts: MacShifts, said: BTreeSet<Slot>) -> Self {
        Self { shifts, said }
    }

    /// The addresses that are not as they are computed.
    #[must_use]
    pub fn shifts(&self) -> &MacShifts {
        &self.shifts
    }

    /// The slots whose addresses have been said.
    pub(super) fn said(&self) -> impl Iterator<Item = Slot> {
        self.said.iter().copied()
    }

    /// What is said of one slot.
    pub(super) fn of_slot(&self, slot: Slot) -> (bool, Vec<(usize, u32)>) {
        let shifts = self.shifts.range((slot, 0)..=(slot, usize::MAX));
        (self.said.contains(&slot), shifts.map(|((_, number), shift)| (*number, *shift)).collect())
    }

    /// Says which addresses slots get: the computed ones, or the next that nobody has. What was said once stays for as long as the
    /// group, whoever claims the address later.
    pub(super) fn say(
        &mut self,
        adapters: &[Adapter],
        uid: &str,
        slots: impl IntoIterator<Item = Slot>,
        is_taken: impl Fn(Mac) -> bool,
    ) {
        let new: Vec<_> = slots.into_iter().filter(|slot| !self.said.contains(slot)).collect();
        if new.is_empty() {
            return;
        }
        let per_slot = |(_, adapter): &(usize, &Adapter)| adapter.mac == MacAddresses::PerSlot;
        let numbers: Vec<_> = adapters.iter().enumerate().filter(per_slot).map(|(number, _)| number).collect();
        // Two of the same group may meet too.
        let shift = |slot: Slot, number: usize| self.shifts.get(&(slot, number)).copied().unwrap_or(0);
        let of_slot = |slot: Slot| numbers.iter().map(move |number| (slot, *number));
        let mut own: BTreeSet<_> = self
            .said
            .iter()
            .flat_map(|slot| of_slot(*slot))
            .map(|(slot, number)| Mac::of(uid, slot, number, shift(slot, number)))
            .collect();
        for (slot, number) in new.iter().flat_map(|slot| of_slot(*slot)) {
            let is_free = |shift: &u32| {
                let mac = Mac::of(uid, slot, number, *shift);
                !is_taken(mac) && !own.contains(&mac)
            };
            // Where all are taken, the computed one is as good as any.
            let shift = (0..MACS).find(is_free).unwrap_or(0);
            own.insert(Mac::of(uid, slot, number, shift));
            if shift > 0 {
                self.shifts.insert((slot, number), shift);
            }
        }
        self.said.extend(new);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn declared(adapters: &Value) -> Result<Vec<Adapter>, BadAdapter> {
        let spec = json!({"cpu": 1, "memory": 1, "replicas": 1, "template": "t", "networkAdapters": adapters});
        super::adapters(&serde_json::from_value(spec).unwrap())
    }

    #[test]
    fn addresses_are_read_and_what_is_none_is_refused_with_what_it_says() {
        let adapters = declared(&json!([
            {"network": "lan", "addresses": ["10.0.0.10/24", "fd00::2/64"], "gateway4": "10.0.0.1", "gateway6": "fd00::1", "nameservers": ["::1"]},
            {"network": "storage"},
        ]));
        let adapters = adapters.unwrap();
        assert_eq!(
            adapters[0].addresses.iter().map(Cidr::to_string).collect::<Vec<_>>(),
            ["10.0.0.10/24", "fd00::2/64"]
        );
        assert_eq!(adapters.iter().map(|adapter| adapter.mac).collect::<Vec<_>>(), [MacAddresses::PerSlot; 2]);
        assert_eq!(declared(&json!([{"network": "lan"}])).unwrap()[0].mac, MacAddresses::Generated);
        for (bad, said) in [
            (json!([{"network": "lan", "addresses": ["10.0.0.10/33"]}]), "given with \"10.0.0.10/33\""),
            (json!([{"network": "lan", "addresses": ["10.0.0/24"]}]), "given with \"10.0.0/24\""),
            (json!([{"network": "lan", "gateway4": "::1"}]), "given with \"::1\""),
            (json!([{"network": "lan", "addresses": ["1.1.1.1/8", "1.1.1.1/16"]}]), "given with 1.1.1.1 twice"),
            (
                json!([{"network": "a", "addresses": ["1.1.1.1/8"]}, {"network": "b", "mac": "Generated"}]),
                "given with mac Generated",
            ),
        ] {
            assert_eq!(declared(&bad).unwrap_err().value, said);
        }
    }

    #[test]
    fn a_mac_address_is_of_the_range_that_vmware_leaves_to_people_and_is_read_back() {
        for slot in 0..1000 {
            let mac = Mac::of("uid", Slot(slot), 0, 0);
            let text = mac.to_string();
            assert!(text.starts_with("00:50:56:") && text[9..11] < *"40", "{text}");
            assert_eq!(text.to_uppercase().parse(), Ok(mac));
        }
        assert_eq!(Mac(MACS - 1).to_string(), "00:50:56:3f:ff:ff");
        for other in ["00:50:56:40:00:00", "00:0c:29:01:02:03", "00:50:56:01:02", "", "00:50:56:01:02:03:04", "é"] {
            assert_eq!(other.parse::<Mac>(), Err(()), "{other}");
        }
        assert_eq!(Mac::of("uid", Slot(0), 0, 0).to_string(), Mac::of("uid", Slot(0), 0, 0).to_string());
        assert_ne!(Mac::of("uid", Slot(0), 0, 0), Mac::of("uid", Slot(0), 1, 0));
    }

    #[test]
    fn a_mac_address_that_others_have_is_passed_over_once_and_for_all() {
        let adapters = declared(&json!([{"network": "lan", "mac": "PerSlot"}, {"network": "dhcp"}])).unwrap();
        let first = Mac::of("uid", Slot(1), 0, 0);
        let mut macs = SlotMacs::default();
        macs.say(&adapters, "uid", [Slot(0), Slot(1)], |mac| mac == first);
        assert_eq!(macs.shifts, [((Slot(1), 0), 1)].into());
        macs.say(&adapters, "uid", [Slot(0), Slot(1)], |_| true);
        assert_eq!(macs.shifts, [((Slot(1), 0), 1)].into(), "the slots keep what they have, whoever claims it");
        let of_slot = adapters[0].of_slot("uid", Slot(1), 0, &macs.shifts);
        assert_eq!(of_slot.mac, Some(Mac::of("uid", Slot(1), 0, 1)));
        assert_eq!(adapters[1].of_slot("uid", Slot(1), 1, &macs.shifts).mac, None);
    }

    #[test]
    fn two_adapters_of_one_group_never_have_the_same_address() {
        let adapters = declared(&json!([{"network": "lan", "mac": "PerSlot"}])).unwrap();
        let mut macs = SlotMacs::default();
        // About a hundred of so many meet another, whenever they are made.
        for begin in [0, 10_000, 20_000] {
            macs.say(&adapters, "uid", (begin..begin + 10_000).map(Slot), |_| false);
        }
        let mac = |slot| adapters[0].of_slot("uid", Slot(slot), 0, &macs.shifts).mac;
        let all: BTreeSet<_> = (0..30_000).map(mac).collect();
        assert_eq!(all.len(), 30_000);
        assert!(!macs.shifts.is_empty() && macs.shifts.len() < 300, "{}", macs.shifts.len());
    }

    #[test]
    fn a_prefix_is_a_mask() {
        let mask = |text: &str| text.parse::<Cidr>().unwrap().mask().to_string();
        assert_eq!(
            ["10.0.0.1/24", "10.0.0.1/32", "10.0.0.1/0", "10.0.0.1/20"].map(mask),
            ["255.255.255.0", "255.255.255.255", "0.0.0.0", "255.255.240.0"]
        );
    }
}
