//! What vCenter tells of a machine for people to read, and that no plan is made from.

use std::convert::identity;

use drover_core::{Timestamp, vmgroup::adapters::Mac};
use smol_str::SmolStr;
use vim25::{
    ManagedObjectReference,
    props::virtual_machine as vm,
    types::{ObjectUpdate, PropertySpec, VirtualMachineSnapshotTree},
};

use super::{
    figures::Figures,
    property::{PropertyUpdate, Unreadable, Unset},
};

/// What people read of a machine. What is not known is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub guest: Option<SmolStr>,
    pub hardware_version: Option<SmolStr>,
    /// MHz.
    pub reserved_cpu: Option<i64>,
    /// MiB.
    pub reserved_memory: Option<i64>,
    pub config_file: Option<Box<str>>,
    pub uuid: Option<String>,
    pub host: Option<ManagedObjectReference>,
    pub datastores: Vec<ManagedObjectReference>,
    /// The vApp that it is in, instead of a folder.
    pub v_app: Option<ManagedObjectReference>,
    pub addresses: Vec<String>,
    pub guest_name: Option<Box<str>>,
    pub tools: Option<SmolStr>,
    pub tools_version: Option<SmolStr>,
    pub booted: Option<Timestamp>,
    /// When it was made. Not every vCenter knows.
    pub created: Option<Timestamp>,
    /// `None`: it has none.
    pub snapshots: Option<i64>,
    /// `None`: they have not been read. Nobody looks at them, and of most machines nobody does.
    pub figures: Option<Box<Figures>>,
    /// vCenter's own judgement: green, yellow, red or gray.
    pub health: Option<SmolStr>,
    /// What it waits for an answer to, and doesn't run until it has one.
    pub question: Option<Box<str>>,
    unreadable: Unreadable,
}

/// The properties that the facts are made from.
pub(crate) fn properties() -> PropertySpec {
    let mut all = configuration();
    let others = PropertySpec::of(&[
        &vm::RUNTIME_HOST,
        &vm::DATASTORE,
        &vm::PARENT_V_APP,
        &vm::GUEST_NET,
        &vm::GUEST_HOST_NAME,
        &vm::GUEST_TOOLS_VERSION_STATUS2,
        &vm::SUMMARY_RUNTIME_BOOT_TIME,
        &vm::SNAPSHOT,
        &vm::OVERALL_STATUS,
        &vm::RUNTIME_QUESTION,
    ]);
    all.path_set.extend(others.path_set);
    all
}

/// Those of them that not every vCenter tells changes of.
pub(crate) fn configuration() -> PropertySpec {
    PropertySpec::of(&[
        &vm::CONFIG_GUEST_ID,
        &vm::CONFIG_VERSION,
        &vm::CONFIG_CPU_ALLOCATION,
        &vm::CONFIG_MEMORY_ALLOCATION,
        &vm::CONFIG_FILES_VM_PATH_NAME,
        &vm::CONFIG_UUID,
        &vm::CONFIG_CREATE_DATE,
    ])
}

impl Facts {
    /// Takes up what vCenter told of a machine that it has this connection to. What of it can't be read is left out. Returns the MAC
    /// addresses of its cards that were given by hand, if its cards were told.
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate, connection: Option<&str>) -> Option<Vec<Mac>> {
        self.change_configuration(update);
        let unset = Unset::of(connection);
        self.change_place(update, unset);
        let macs = self.change_guest(update, unset);
        self.change_state(update, unset);
        macs
    }

    /// Since when a machine that is seen for the first time has been as it is. vCenter knows when it was started, and not since
    /// when its tools have run or since when it has had an address: what is so at first sight counts from the start too, because
    /// the operator wasn't there to see it, and a rollout that waited for it anew after each restart would stall.
    pub(super) fn up_since(&self, now: Timestamp) -> Timestamp {
        let Some(booted) = self.booted else { return now };
        // vCenter's clock may be ahead of ours.
        self.created.map_or(booted, |created| created.max(booted)).min(now)
    }

    /// Every machine has a configuration. vCenter unsets it while it can't be read.
    fn change_configuration(&mut self, update: &mut ObjectUpdate) {
        let (told, unset) = (&mut self.unreadable, Unset::Unknown);
        told.take(update, vm::CONFIG_GUEST_ID).renew(&mut self.guest, unset, Into::into);
        told.take(update, vm::CONFIG_VERSION).renew(&mut self.hardware_version, unset, Into::into);
        let cpu = told.take(update, vm::CONFIG_CPU_ALLOCATION).and_then(|cpu| cpu.reservation);
        cpu.renew(&mut self.reserved_cpu, unset, identity);
        let memory = told.take(update, vm::CONFIG_MEMORY_ALLOCATION).and_then(|memory| memory.reservation);
        memory.renew(&mut self.reserved_memory, unset, identity);
        told.take(update, vm::CONFIG_FILES_VM_PATH_NAME).renew(&mut self.config_file, unset, Into::into);
        told.take(update, vm::CONFIG_UUID).renew(&mut self.uuid, unset, identity);
        told.take(update, vm::CONFIG_CREATE_DATE).renew(&mut self.created, unset, identity);
    }

    fn change_place(&mut self, update: &mut ObjectUpdate, unset: Unset) {
        let told = &mut self.unreadable;
        told.take(update, vm::RUNTIME_HOST).renew(&mut self.host, unset, Into::into);
        told.take(update, vm::DATASTORE).renew_all(&mut self.datastores, unset, |datastore| [datastore.into()]);
        told.take(update, vm::PARENT_V_APP).renew(&mut self.v_app, unset, Into::into);
    }

    fn change_guest(&mut self, update: &mut ObjectUpdate, unset: Unset) -> Option<Vec<Mac>> {
        let told = &mut self.unreadable;
        let cards = told.take(update, vm::GUEST_NET);
        let macs = match &cards {
            // Of a machine that is off, some vCenters tell of no cards.
            PropertyUpdate::Is(cards) if !cards.is_empty() => {
                Some(cards.iter().filter_map(|card| card.mac_address.as_ref()?.parse().ok()).collect())
            }
            _ => None,
        };
        cards.renew_all(&mut self.addresses, unset, |card| card.ip_address);
        let name = told.take(update, vm::GUEST_HOST_NAME).and_then(|name| Some(name).filter(|name| !name.is_empty()));
        name.renew(&mut self.guest_name, unset, Into::into);
        told.take(update, vm::GUEST_TOOLS_VERSION_STATUS2).renew(&mut self.tools_version, unset, Into::into);
        macs
    }

    fn change_state(&mut self, update: &mut ObjectUpdate, unset: Unset) {
        let told = &mut self.unreadable;
        told.take(update, vm::SUMMARY_RUNTIME_BOOT_TIME).renew(&mut self.booted, unset, identity);
        let snapshots = told.take(update, vm::SNAPSHOT);
        snapshots.renew(&mut self.snapshots, unset, |snapshots| count(&snapshots.root_snapshot_list));
        told.take(update, vm::OVERALL_STATUS).renew(&mut self.health, unset, |health| health.to_string().into());
        told.take(update, vm::RUNTIME_QUESTION).renew(&mut self.question, unset, |question| question.text.into());
    }
}

/// How many snapshots there are in a tree.
fn count(trees: &[VirtualMachineSnapshotTree]) -> i64 {
    trees.iter().map(|tree| 1 + count(&tree.child_snapshot_list)).sum()
}

#[cfg(test)]
mod tests {
    use drover_core::vmgroup::Power;
    use vim25::{
        Any,
        types::{PropertyChange, VirtualMachineQuestionInfo},
    };

    use super::*;
    use crate::vcenter::{
        machine::Machine,
        mirror::{Consequences, Mirror},
    };

    #[test]
    fn snapshots_are_counted_with_those_that_build_on_them() {
        let tree = |children| VirtualMachineSnapshotTree { child_snapshot_list: children, ..Default::default() };
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[tree(vec![tree(vec![]), tree(vec![tree(vec![])])]), tree(vec![])]), 5);
    }

    /// When the first update comes.
    const START: i64 = 1_800_000_000;

    fn machine() -> ManagedObjectReference {
        ManagedObjectReference::new("VirtualMachine", "vm-1")
    }

    /// A machine as it is after these updates, each at a second of its own.
    fn told(updates: &[&[(&str, Any)]]) -> Machine {
        let mut mirror = Mirror::default();
        for (second, changes) in (START..).zip(updates) {
            let change_set = changes.iter().cloned().map(|(name, value)| PropertyChange {
                name: name.to_owned(),
                val: Some(value).filter(|value| *value != Any::Nil),
                ..PropertyChange::default()
            });
            let update = ObjectUpdate { obj: machine(), change_set: change_set.collect(), ..ObjectUpdate::default() };
            mirror.change(update, Timestamp::from_second(second).unwrap(), &mut Consequences::default()).unwrap();
        }
        mirror.machines.remove(&machine()).unwrap()
    }

    fn text(text: &str) -> Any {
        Any::String(text.to_owned())
    }

    #[test]
    fn an_odd_value_that_people_read_hides_neither_power_nor_hardware_nor_the_other_facts() {
        let machine = told(&[&[
            ("config.guestId", Any::Boolean(true)),
            ("snapshot", text("odd")),
            ("guest.net", Any::Int(1)),
            ("name", text("web")),
            ("config.uuid", text("4210")),
            ("guest.toolsVersionStatus2", text("guestToolsCurrent")),
            ("config.hardware.numCPU", Any::Int(4)),
            ("runtime.powerState", text("poweredOn")),
        ]]);
        assert_eq!((machine.name.as_str(), machine.power, machine.hardware.cpus), ("web", Power::On, 4));
        assert_eq!((machine.facts.guest, machine.facts.uuid.as_deref()), (None, Some("4210")));
        assert_eq!(machine.facts.tools_version.as_deref(), Some("guestToolsCurrent"));
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(START + second).unwrap()
    }

    fn date(second: i64) -> Any {
        Any::DateTime(at(second))
    }

    #[test]
    fn what_is_up_at_first_sight_has_been_so_since_it_was_started() {
        let up = |booted: i64, created: i64| {
            let machine = told(&[&[
                ("runtime.powerState", text("poweredOn")),
                ("guest.toolsRunningStatus", text("guestToolsRunning")),
                ("guest.ipAddress", text("10.0.0.7")),
                ("summary.runtime.bootTime", date(booted)),
                ("config.createDate", date(created)),
            ]]);
            assert_eq!((machine.since.on, machine.since.tools), (machine.since.address, machine.since.on));
            machine.since.on
        };
        assert_eq!(up(-500, -1000), Some(at(-500)));
        assert_eq!(up(-500, -100), Some(at(-100)), "no machine is older than it is");
        assert_eq!(up(60, -100), Some(at(0)), "vCenter's clock is ahead");
    }

    #[test]
    fn what_becomes_ready_later_counts_from_when_it_is_seen() {
        let machine = told(&[
            &[("runtime.powerState", text("poweredOff")), ("config.createDate", date(-1000))],
            &[("runtime.powerState", text("poweredOn")), ("summary.runtime.bootTime", date(-1))],
            &[("guest.toolsRunningStatus", text("guestToolsRunning"))],
            &[("guest.ipAddress", text("10.0.0.7"))],
        ]);
        assert_eq!((machine.since.on, machine.since.tools), (Some(at(1)), Some(at(2))));
        assert_eq!(machine.since.address, Some(at(3)));
    }

    #[test]
    fn a_machine_is_as_old_as_vcenter_says_and_else_as_its_first_sight() {
        let named: &[_] = &[("name", text("web"))];
        assert_eq!(told(&[&[("config.createDate", date(-1000))], named]).created, at(-1000));
        assert_eq!(told(&[named, named]).created, at(0));
    }

    #[test]
    fn what_was_seen_last_of_a_machine_that_vcenter_does_not_reach_stays() {
        let seen: &[_] = &[
            ("runtime.connectionState", text("connected")),
            ("config.guestId", text("otherGuest")),
            ("config.instanceUuid", text("5000")),
            ("config.createDate", date(-1000)),
            ("guest.hostName", text("web")),
            ("runtime.question", Any::object(VirtualMachineQuestionInfo::default())),
        ];
        let unset = |state: &str| -> Vec<(&str, Any)> {
            let unset = seen.iter().skip(1).map(|(name, _)| (*name, Any::Nil));
            std::iter::once(("runtime.connectionState", text(state))).chain(unset).collect()
        };
        let lost = told(&[seen, &unset("inaccessible")]);
        assert_eq!(lost.created, at(-1000));
        assert_eq!((lost.facts.guest.as_deref(), lost.instance.as_deref()), (Some("otherGuest"), Some("5000")));
        assert_eq!(lost.facts.guest_name.as_deref(), Some("web"));
        assert!(lost.facts.question.is_some() && lost.connection.as_deref() == Some("inaccessible"));
        let back = told(&[seen, &unset("connected")]);
        assert_eq!((back.facts.guest_name, back.facts.question), (None, None));
        assert_eq!(back.facts.guest.as_deref(), Some("otherGuest"), "there is no machine without a configuration");
    }
}
