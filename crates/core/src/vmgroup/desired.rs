//! From what a user has written to what it means, once and for all: later code can't meet a group that makes no sense.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use drover_api::{
    VmGroup, VmGroupSpec, bounds,
    vmgroup::{
        CloneMode, DeletionPolicy as DeletionWord, Guest, GuestNetwork, MacAddresses, NetworkAdapter, Portion,
        PowerState, RootDisk, Round, ScaleIn as ScaleInWord, Strategy as StrategyWord,
    },
};

use super::{
    adapters::{self, Adapter, BadAdapter, MacShifts, SlotAdapter},
    guest::{self, BadMetadata},
    observed::{Hardware, Power, Revision},
    take_over::marker_uid,
};
use crate::names::{self, Slot};

/// A group as its user wants it, already found to make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Desired {
    /// The group's UID in Kubernetes.
    pub uid: String,
    /// The UID that the names, instance UUIDs and markers of its machines follow from: its own, or that of the earlier group whose machines
    /// it has taken over.
    pub marker_uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How many machines.
    pub replicas: u32,
    /// What can be changed on a machine that is there.
    pub hardware: Hardware,
    /// Everything that only a new machine can have, as one value, but for what differs from slot to slot: [`Desired::revision_of`].
    pub revision: Revision,
    /// Which slots the machines have.
    pub slots: Slots,
    /// The network adapters of each machine, if more is said of them than their networks. Shared, because it may hold ten thousand
    /// addresses.
    pub adapters: Arc<[Adapter]>,
    /// What guests are called, with places for the machine's own values.
    pub hostname: Option<String>,
    /// How guests are told their addresses and hostname.
    pub guest_network: GuestNetwork,
    /// What power state the machines are kept in.
    pub power: Power,
    /// How changes are rolled out.
    pub update: UpdatePolicy,
    /// Which machines go first when there are too many.
    pub scale_in: ScaleIn,
    /// How long a guest has to shut down by itself before it is powered off. Zero: it is powered off at once.
    pub shutdown_grace: Duration,
    /// What becomes of the machines, if the group is being deleted.
    pub deletion: Option<DeletionPolicy>,
    /// How long a VM that isn't seen is waited for before its slot gets another. `None`: for ever.
    pub lost_after: Option<Duration>,
    /// Whether to look on only.
    pub paused: bool,
}

/// Which slots machines have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slots {
    /// Any. A new machine gets the lowest that is free.
    Any,
    /// From 0 to one below the number of machines, because each slot has something of its own. Two machines can't have that at the same
    /// time: a slot is empty before another machine is made in it.
    Fixed,
}

/// How changes reach machines that are there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// Which way.
    pub strategy: Strategy,
    /// How many machines may be unavailable for an update's sake.
    pub max_unavailable: u32,
    /// How many machines there may be beyond those declared, for an update's sake.
    pub max_surge: u32,
    /// How long a machine has to be ready before it counts as available.
    pub min_ready: Duration,
    /// How long a group may take without getting any further.
    pub progress_deadline: Duration,
}

/// Which way changes reach machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// CPUs and memory on the machine itself; anything else by a new machine.
    InPlaceFirst,
    /// Everything by a new machine.
    Replace,
    /// Not at all, until the user deletes the machine.
    OnDelete,
}

/// Which machines go first, after those that the user has marked and those that aren't ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleIn {
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

/// What becomes of a deleted group's machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionPolicy {
    /// They are destroyed.
    Delete,
    /// They are powered off and stay.
    PowerOff,
    /// They stay as they are.
    Retain,
}

/// What is wrong with a group. The API server lets none of these in; an older definition, or a write past it, might.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("spec.{field} is {value}: {rule}")]
pub struct Invalid {
    /// The field.
    pub field: &'static str,
    /// What it says.
    pub value: String,
    /// What it may say.
    pub rule: &'static str,
}

impl Desired {
    /// What a group means. One that is being deleted asks for that alone: what makes no sense otherwise is no reason to stay.
    pub fn of(group: &VmGroup) -> Result<Self, Invalid> {
        let spec = &group.spec;
        let metadata = &group.metadata;
        let reading = Reading { is_deleted: metadata.deletion_timestamp.is_some() };
        let replicas = reading.within("replicas", spec.replicas, 0..=bounds::REPLICAS, "give 0 to 10000")?;
        let memory_gib = reading.within("memory", spec.memory, 1..=24560, "give 1 to 24560 GiB")?;
        let hardware = Hardware {
            cpus: reading.within("cpu", spec.cpu, 1..=768, "give 1 to 768")?,
            memory_mib: 1024 * u64::from(memory_gib),
        };
        reading.check_hosts(&spec.placement.hosts)?;
        reading.check_root_disk(spec)?;
        let adapters = reading.adapters(spec, replicas)?;
        let is_fixed = adapters.iter().any(Adapter::is_per_slot);
        let slots = if is_fixed { Slots::Fixed } else { Slots::Any };
        let desired = Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            marker_uid: marker_uid(group),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            replicas,
            hardware,
            revision: revision(spec),
            slots,
            adapters: adapters.into(),
            hostname: spec.guest.hostname.clone(),
            guest_network: spec.guest.network.unwrap_or_default(),
            power: match spec.power_state {
                PowerState::On => Power::On,
                PowerState::Off => Power::Off,
                PowerState::Suspended => Power::Suspended,
            },
            update: reading.update(spec, replicas, slots)?,
            scale_in: match spec.scale_in {
                ScaleInWord::Newest => ScaleIn::Newest,
                ScaleInWord::Oldest => ScaleIn::Oldest,
            },
            shutdown_grace: reading.seconds(
                "shutdown.graceSeconds",
                spec.shutdown.grace_seconds,
                0..=3600,
                "give 0 to 3600 seconds",
            )?,
            deletion: reading.is_deleted.then_some(match spec.deletion_policy {
                DeletionWord::Delete => DeletionPolicy::Delete,
                DeletionWord::PowerOff => DeletionPolicy::PowerOff,
                DeletionWord::Retain => DeletionPolicy::Retain,
            }),
            lost_after: Some(reading.seconds(
                "lostAfterSeconds",
                spec.lost_after_seconds,
                0..=2_592_000,
                "give 0 to 2592000 seconds",
            )?)
            .filter(|after| !after.is_zero()),
            paused: spec.paused,
        };
        reading.check_hostname(&desired)?;
        reading.check_metadata(spec)?;
        Ok(desired)
    }

    /// Everything that only a new machine can have, as one value, for the machine in a slot.
    #[must_use]
    pub fn revision_of(&self, slot: Slot) -> Revision {
        if self.adapters.iter().all(|adapter| adapter.address_of(slot).is_none()) {
            return self.revision;
        }
        let own = |adapter: &Adapter| adapter.address_of(slot).map_or("/-".to_owned(), |address| format!("/{address}"));
        let own: Vec<_> = self.adapters.iter().map(own).collect();
        let group = format!("{:016x}", self.revision.0);
        let parts: Vec<_> = [&group].into_iter().chain(&own).map(String::as_str).collect();
        Revision(names::hash(&parts))
    }

    /// The network adapters of the machine in a slot. `shifts` are the MAC addresses that are not as they are computed.
    #[must_use]
    pub fn adapters_of(&self, slot: Slot, shifts: &MacShifts) -> Vec<SlotAdapter<'_>> {
        let all = self.adapters.iter().enumerate();
        all.map(|(number, adapter)| adapter.of_slot(&self.marker_uid, slot, number, shifts)).collect()
    }

    /// What the guest of a machine is called, if its group says.
    #[must_use]
    pub fn hostname_of(&self, name: &str, slot: Slot) -> Option<String> {
        self.hostname.as_ref().map(|text| guest::fill(text, name, slot, self))
    }
}

/// A digest of everything that only a new machine can have. CPUs and memory are not in it.
///
/// A machine is replaced when this changes, so it must not change with a new version of Drover: fields that are added to the
/// resource are left out of its JSON while they have their default.
fn revision(spec: &VmGroupSpec) -> Revision {
    let networks: Vec<_> = spec.network_names().collect();
    // What is said and is the default is as good as what is not said.
    let guest =
        Guest { network: spec.guest.network.filter(|way| *way != GuestNetwork::default()), ..spec.guest.clone() };
    let made_from = (&spec.template, &spec.placement, &spec.clone, networks, guest, &spec.extra_config);
    // Writing plain data as JSON can't fail.
    let made_from = serde_json::to_string(&made_from).unwrap_or_default();
    let root_disk =
        (spec.root_disk != RootDisk::default()).then(|| serde_json::to_string(&spec.root_disk).unwrap_or_default());
    let has_addresses = spec.network_adapters.iter().any(|adapter| !adapter.addresses.is_empty());
    let own_mac = |adapter: &NetworkAdapter| has_addresses || adapter.mac == Some(MacAddresses::PerSlot);
    // Each slot has its own addresses, and the networks are said above.
    let more = |adapter: &NetworkAdapter| NetworkAdapter {
        network: String::new(),
        addresses: Vec::new(),
        mac: own_mac(adapter).then_some(MacAddresses::PerSlot),
        ..adapter.clone()
    };
    let more: Vec<_> = spec.network_adapters.iter().map(more).collect();
    let says_more = more.iter().any(|adapter| *adapter != NetworkAdapter::default());
    let adapters = says_more.then(|| serde_json::to_string(&more).unwrap_or_default());
    let parts = [Some(made_from), root_disk, adapters];
    let parts: Vec<_> = parts.iter().flatten().map(String::as_str).collect();
    Revision(names::hash(&parts))
}

/// Whether the part of a hostname before its first dot is nothing but digits, with the slot for one.
fn is_number(text: &str) -> bool {
    let first = text.split('.').next().unwrap_or_default().replace("{{slot}}", "0");
    first.bytes().all(|letter| letter.is_ascii_digit())
}

/// How numbers are read: beyond their bounds they make no sense, unless the group is being deleted. Then the nearest does.
#[derive(Clone, Copy)]
struct Reading {
    is_deleted: bool,
}

impl Reading {
    fn update(self, spec: &VmGroupSpec, replicas: u32, slots: Slots) -> Result<UpdatePolicy, Invalid> {
        let update = &spec.update;
        let max_unavailable = self.portion("update.maxUnavailable", &update.max_unavailable, replicas, Round::Down)?;
        let max_surge = self.portion("update.maxSurge", &update.max_surge, replicas, Round::Up)?;
        if slots == Slots::Fixed && max_surge > 0 && !self.is_deleted {
            let rule = "give 0, because two VMs can't have the same address";
            return Err(Invalid { field: "update.maxSurge", value: update.max_surge.to_string(), rule });
        }
        let (ready, deadline) = (update.min_ready_seconds, update.progress_deadline_seconds);
        Ok(UpdatePolicy {
            strategy: match update.strategy {
                StrategyWord::InPlaceFirst => Strategy::InPlaceFirst,
                StrategyWord::Replace => Strategy::Replace,
                StrategyWord::OnDelete => Strategy::OnDelete,
            },
            // A share of few machines may round to none, and then no update could ever begin.
            max_unavailable: if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable },
            max_surge,
            min_ready: self.seconds("update.minReadySeconds", ready, 0..=86400, "give 0 to 86400 seconds")?,
            progress_deadline: self.seconds(
                "update.progressDeadlineSeconds",
                deadline,
                1..=86400,
                "give 1 to 86400 seconds",
            )?,
        })
    }

    fn portion(self, field: &'static str, portion: &Portion, whole: u32, round: Round) -> Result<u32, Invalid> {
        let rule = "give a number from 0 to 10000, or a share such as 25%";
        let number = portion.of(whole, round).or(self.is_deleted.then_some(0));
        number.ok_or_else(|| Invalid { field, value: portion.to_string(), rule })
    }

    fn check_hosts(self, hosts: &[String]) -> Result<(), Invalid> {
        if hosts.len() <= bounds::HOSTS || self.is_deleted {
            return Ok(());
        }
        let rule = "name at most 64, or the cluster that they are in";
        Err(Invalid { field: "placement.hosts", value: format!("a list of {}", hosts.len()), rule })
    }

    fn check_root_disk(self, spec: &VmGroupSpec) -> Result<(), Invalid> {
        let rule = "give 1 to 63488 GiB";
        spec.root_disk
            .size_gib
            .map(|size| self.within("rootDisk.sizeGiB", size, 1..=bounds::DISK_GIB, rule))
            .transpose()?;
        if spec.root_disk == RootDisk::default() || spec.clone.mode == CloneMode::Full || self.is_deleted {
            return Ok(());
        }
        let rule = "a linked clone has the disk of the template's snapshot: leave it out, or set clone.mode to Full";
        Err(Invalid { field: "rootDisk", value: "given".to_owned(), rule })
    }

    fn adapters(self, spec: &VmGroupSpec, replicas: u32) -> Result<Vec<Adapter>, Invalid> {
        let adapters = match adapters::adapters(spec) {
            Ok(adapters) => adapters,
            // Its machines go, whatever they are called.
            Err(_) if self.is_deleted => Vec::new(),
            Err(BadAdapter { value, rule }) => return Err(Invalid { field: "networkAdapters", value, rule }),
        };
        let too_few = |adapter: &&Adapter| (1..replicas as usize).contains(&adapter.addresses.len());
        if let Some(adapter) = adapters.iter().find(too_few).filter(|_| !self.is_deleted) {
            let value = format!("given with {} addresses for {replicas} replicas", adapter.addresses.len());
            let rule = "add addresses, or lower replicas";
            return Err(Invalid { field: "networkAdapters", value, rule });
        }
        let both = !spec.networks.is_empty() && !adapters.is_empty() && !self.is_deleted;
        let rule = "give either networks or networkAdapters";
        if both {
            return Err(Invalid { field: "networkAdapters", value: "given together with networks".to_owned(), rule });
        }
        Ok(adapters)
    }

    /// The name of the machine in the last slot is as long as any.
    fn check_hostname(self, desired: &Desired) -> Result<(), Invalid> {
        let Some(text) = desired.hostname.as_ref().filter(|_| !self.is_deleted) else { return Ok(()) };
        let invalid = |rule| Err(Invalid { field: "guest.hostname", value: text.clone(), rule });
        let last = Slot(desired.replicas.saturating_sub(1));
        let name = names::member(&desired.name, &desired.marker_uid, last);
        if !guest::is_hostname(&guest::fill(text, &name, last, desired)) {
            return invalid("give letters, digits, dashes and dots, with {{slot}} or {{name}}, at most 63 in all");
        }
        if desired.guest_network == GuestNetwork::Customization && is_number(text) {
            return invalid("put a letter before its first dot: vSphere takes no number for a name");
        }
        if desired.replicas > 1 && !text.contains("{{slot}}") && !text.contains("{{name}}") {
            return invalid("put {{slot}} or {{name}} into it, or all VMs would be called the same");
        }
        Ok(())
    }

    /// What is in a Secret is checked when it is read.
    fn check_metadata(self, spec: &VmGroupSpec) -> Result<(), Invalid> {
        let inline = spec.guest.cloud_init.as_ref().and_then(|told| told.metadata.as_ref()?.inline.as_deref());
        match guest::can_be_told(inline, spec) {
            Err(bad) if !self.is_deleted => {
                let rule = match bad {
                    BadMetadata::Clash(..) => "take out what the spec sets beside it: the hostname, or the network",
                    BadMetadata::Unknown => "give a JSON object, or a YAML mapping whose keys begin their lines",
                };
                Err(Invalid { field: "guest.cloudInit.metadata", value: format!("not to be added to: {bad}"), rule })
            }
            _ => Ok(()),
        }
    }

    fn seconds(
        self,
        field: &'static str,
        value: i32,
        range: RangeInclusive<i32>,
        rule: &'static str,
    ) -> Result<Duration, Invalid> {
        Ok(Duration::from_secs(self.within(field, value, range, rule)?.into()))
    }

    /// A number in a range, which begins at 0 or above.
    fn within(
        self,
        field: &'static str,
        value: i32,
        range: RangeInclusive<i32>,
        rule: &'static str,
    ) -> Result<u32, Invalid> {
        let nearest = value.clamp(*range.start(), *range.end());
        if nearest != value && !self.is_deleted {
            return Err(Invalid { field, value: value.to_string(), rule });
        }
        Ok(nearest.unsigned_abs())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    fn group(spec: &serde_json::Value) -> VmGroup {
        let mut whole = json!({"cpu": 2, "memory": 1, "replicas": 3, "template": "vm-operator-template"});
        let fields = spec.as_object().cloned().unwrap_or_default();
        whole.as_object_mut().unwrap().extend(fields);
        let mut group = VmGroup::new("sample", serde_json::from_value(whole).unwrap());
        group.metadata.namespace = Some("ns".to_owned());
        group
    }

    pub(crate) fn desired(spec: &serde_json::Value) -> Desired {
        Desired::of(&group(spec)).unwrap()
    }

    #[test]
    fn the_seeds_manifest_means_what_it_always_did() {
        let desired = desired(&json!({}));
        assert_eq!((desired.replicas, desired.hardware), (3, Hardware { cpus: 2, memory_mib: 1024 }));
        assert_eq!((desired.power, desired.deletion, desired.paused), (Power::On, None, false));
        assert_eq!((desired.update.max_unavailable, desired.update.max_surge), (1, 0));
    }

    #[test]
    fn a_revision_changes_with_what_a_machine_is_made_from_and_with_nothing_else() {
        let first = desired(&json!({})).revision;
        assert_eq!(first, Revision(7_681_928_551_734_352_288), "a new version of Drover would replace every machine");
        for same in [
            json!({"cpu": 4}),
            json!({"memory": 9}),
            json!({"replicas": 1}),
            json!({"paused": true}),
            json!({"powerState": "Off"}),
            json!({"rootDisk": {}}),
            json!({"guest": {"network": "CloudInit"}}),
        ] {
            assert_eq!(desired(&same).revision, first, "{same}");
        }
        for other in [
            json!({"template": "another"}),
            json!({"networks": ["VM Network"]}),
            json!({"extraConfig": {"a": "b"}}),
            json!({"clone": {"mode": "Linked"}}),
            json!({"placement": {"datastore": "ds"}}),
            json!({"guest": {"cloudInit": {"userData": {"inline": "x"}}}}),
            json!({"rootDisk": {"sizeGiB": 40}}),
            json!({"rootDisk": {"provisioning": "Thin"}}),
            json!({"networkAdapters": [{"network": "lan"}]}),
            json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}]}),
            json!({"guest": {"hostname": "web-{{slot}}"}}),
            json!({"guest": {"network": "Customization"}}),
        ] {
            assert_ne!(desired(&other).revision, first, "{other}");
        }
    }

    #[test]
    fn another_address_is_another_revision_of_its_slot_alone() {
        let of = |addresses: serde_json::Value| {
            desired(&json!({"replicas": 2, "networkAdapters": [{"network": "lan", "addresses": addresses}]}))
        };
        let first = of(json!(["10.0.0.1/24", "10.0.0.2/24"]));
        let longer = of(json!(["10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"]));
        let other = of(json!(["10.0.0.1/24", "10.0.0.9/24"]));
        let revisions = |desired: &Desired| [0, 1].map(|slot| desired.revision_of(Slot(slot)));
        assert_eq!((first.slots, revisions(&first)), (Slots::Fixed, revisions(&longer)));
        assert_eq!(revisions(&first)[0], revisions(&other)[0]);
        assert_ne!(revisions(&first)[1], revisions(&other)[1]);
        // Which adapter has an address matters, and not whether a default is written out.
        let two = |first: serde_json::Value, second: serde_json::Value| {
            desired(&json!({"replicas": 1, "networkAdapters": [first, second]})).revision_of(Slot(0))
        };
        let (bare, with) = (json!({"network": "lan"}), json!({"network": "lan", "addresses": ["10.0.0.1/24"]}));
        assert_ne!(two(bare.clone(), with.clone()), two(with.clone(), bare.clone()));
        let written_out = json!({"network": "lan", "addresses": ["10.0.0.1/24"], "mac": "PerSlot"});
        assert_eq!(two(with.clone(), bare.clone()), two(written_out, bare));
        let as_networks = desired(&json!({"networks": ["lan"]})).revision;
        assert_eq!(desired(&json!({"networkAdapters": [{"network": "lan"}]})).revision, as_networks);
        assert_eq!(
            desired(&json!({"networkAdapters": [{"network": "lan", "mac": "Generated"}]})).revision,
            as_networks
        );
        let plain = desired(&json!({}));
        assert_eq!((plain.revision_of(Slot(7)), plain.slots), (plain.revision, Slots::Any));
        let per_slot = desired(&json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}]}));
        assert_eq!((per_slot.slots, per_slot.revision_of(Slot(7))), (Slots::Fixed, per_slot.revision));
    }

    #[test]
    fn shares_are_of_the_replicas_and_never_forbid_every_update() {
        let update = |replicas: i32, unavailable: &str, surge: &str| {
            let update =
                desired(&json!({"replicas": replicas, "update": {"maxUnavailable": unavailable, "maxSurge": surge}}))
                    .update;
            (update.max_unavailable, update.max_surge)
        };
        assert_eq!(update(10, "25%", "25%"), (2, 3));
        assert_eq!(update(3, "10%", "0%"), (1, 0));
        assert_eq!(update(0, "50%", "50%"), (1, 0));
    }

    #[test]
    fn a_group_that_is_being_deleted_says_what_becomes_of_its_machines() {
        let mut group = group(&json!({"deletionPolicy": "Retain"}));
        assert_eq!(Desired::of(&group).unwrap().deletion, None);
        group.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
        assert_eq!(Desired::of(&group).unwrap().deletion, Some(DeletionPolicy::Retain));
    }

    #[test]
    fn a_group_that_makes_no_sense_can_be_deleted_as_its_policy_says() {
        for senseless in [
            json!({"replicas": -1}),
            json!({"cpu": 0}),
            json!({"update": {"maxSurge": "lots"}}),
            json!({"lostAfterSeconds": -1}),
            json!({"shutdown": {"graceSeconds": -5}}),
        ] {
            let mut spec = senseless.clone();
            spec["deletionPolicy"] = json!("PowerOff");
            let mut group = group(&spec);
            assert!(Desired::of(&group).is_err(), "{senseless}");
            group.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            let end = Desired::of(&group).unwrap();
            assert_eq!((end.name.as_str(), end.deletion), ("sample", Some(DeletionPolicy::PowerOff)), "{senseless}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_field_and_rule() {
        for (spec, said) in [
            (json!({"replicas": -1}), "spec.replicas is -1: give 0 to 10000"),
            (json!({"replicas": i32::MAX}), "spec.replicas is 2147483647: give 0 to 10000"),
            (json!({"cpu": 0}), "spec.cpu is 0: give 1 to 768"),
            (json!({"memory": 24561}), "spec.memory is 24561: give 1 to 24560 GiB"),
            (
                json!({"placement": {"hosts": vec!["esxi"; 65]}}),
                "spec.placement.hosts is a list of 65: name at most 64, or the cluster that they are in",
            ),
            (
                json!({"update": {"maxSurge": 3_000_000_000_u32}}),
                "spec.update.maxSurge is 3000000000: give a number from 0 to 10000, or a share such as 25%",
            ),
            (
                json!({"update": {"maxSurge": "lots"}}),
                "spec.update.maxSurge is lots: give a number from 0 to 10000, or a share such as 25%",
            ),
            (json!({"rootDisk": {"sizeGiB": 0}}), "spec.rootDisk.sizeGiB is 0: give 1 to 63488 GiB"),
            (
                json!({"rootDisk": {"sizeGiB": 9}, "clone": {"mode": "Linked"}}),
                "spec.rootDisk is given: a linked clone has the disk of the template's snapshot: leave it out, or set clone.mode to Full",
            ),
            (
                json!({"networkAdapters": [{"network": "lan", "addresses": ["10.0.0.1/24"]}]}),
                "spec.networkAdapters is given with 1 addresses for 3 replicas: add addresses, or lower replicas",
            ),
            (
                json!({"networkAdapters": [{"network": "lan", "addresses": ["here"]}]}),
                "spec.networkAdapters is given with \"here\": give addresses with their prefix length, such as 10.0.0.10/24",
            ),
            (
                json!({"networkAdapters": [{"network": "lan"}], "networks": ["lan"]}),
                "spec.networkAdapters is given together with networks: give either networks or networkAdapters",
            ),
            (
                json!({"networkAdapters": [{"network": "lan", "mac": "PerSlot"}], "update": {"maxSurge": 1}}),
                "spec.update.maxSurge is 1: give 0, because two VMs can't have the same address",
            ),
            (
                json!({"guest": {"hostname": "web"}}),
                "spec.guest.hostname is web: put {{slot}} or {{name}} into it, or all VMs would be called the same",
            ),
            (
                json!({"guest": {"hostname": "{{slot}}-"}}),
                "spec.guest.hostname is {{slot}}-: give letters, digits, dashes and dots, with {{slot}} or {{name}}, at most 63 in all",
            ),
            (json!({"shutdown": {"graceSeconds": -5}}), "spec.shutdown.graceSeconds is -5: give 0 to 3600 seconds"),
        ] {
            let mut group = group(&spec);
            assert_eq!(Desired::of(&group).unwrap_err().to_string(), said);
            group.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
            assert_eq!(Desired::of(&group).map(|desired| desired.deletion), Ok(Some(DeletionPolicy::Delete)), "{spec}");
        }
    }
}
