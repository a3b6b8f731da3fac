//! A made-up group with as many members as are asked for, and a vCenter that shows them.

use std::{
    collections::{BTreeSet, HashMap},
    time::Instant,
};

use drover_api::{VmGroup, vmgroup::Readiness};
use drover_core::{
    Timestamp,
    names::{self, Incarnation, Slot},
    vmgroup::{
        Desired, FolderId, HotAdd, MachineId, Observed, Power,
        identity::Made,
        in_flight::InFlight,
        inventory::{Folder, Inventory, Machine, Marker, Since},
        record::Record,
        view::View,
    },
};
use serde_json::json;

const BASE: &str = "group-base";
const FOLDER: &str = "group-own";
const CLUSTER: &str = "cluster";
/// When the members became ready.
const READY: i64 = 1_800_000_000;

/// A group and its vCenter.
pub(crate) struct Site {
    pub group: VmGroup,
    pub desired: Desired,
    vcenter: VCenter,
}

/// A vCenter that has a folder with members in it, and finds each of them by its id at once.
struct VCenter {
    folder: String,
    machines: Vec<Shown>,
    by_id: HashMap<String, usize>,
}

struct Shown {
    id: String,
    name: String,
    instance: String,
    marker: Marker,
    power: Power,
}

/// The time at which all is decided: long after the members became ready.
pub(crate) fn now() -> Timestamp {
    at(READY + 86_400)
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("it is a time of this century")
}

impl Site {
    /// A group that has all that it declares, and is at rest.
    pub(crate) fn at_rest(members: u32) -> Self {
        Self::named("group", members)
    }

    /// The same, of this name.
    pub(crate) fn named(name: &str, members: u32) -> Self {
        let uid = format!("uid-of-{name}");
        let mut record = Record::default();
        record.reserve((0..members).map(Slot));
        (0..members).map(Slot).for_each(|slot| record.see(slot));
        record.use_folder(&FolderId(FOLDER.to_owned()));
        let group = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1", "kind": "VmGroup",
            "metadata": {"namespace": "ns", "name": name, "uid": uid, "generation": 1, "resourceVersion": "1"},
            "spec": {"cpu": 1, "memory": 1, "replicas": members, "template": "t"},
            "status": {"record": record.write(), "currentReplicas": members},
        });
        let group: VmGroup = serde_json::from_value(group).expect("it is a group");
        let desired = Desired::of(&group).expect("it makes sense");
        let machines = (0..members).map(Slot).map(|slot| Shown::member(&desired, slot)).collect();
        let vcenter = VCenter::with(names::folder(&desired.namespace, name), machines);
        Self { group, desired, vcenter }
    }

    /// The same, and every other member was made from something else than what is declared now.
    pub(crate) fn half_outdated(members: u32) -> Self {
        let mut site = Self::at_rest(members);
        for machine in site.vcenter.machines.iter_mut().step_by(2) {
            machine.marker.revision.0 ^= 1;
        }
        site
    }

    /// The same, and every other member is off that should run.
    pub(crate) fn half_off(members: u32) -> Self {
        let mut site = Self::at_rest(members);
        for machine in site.vcenter.machines.iter_mut().step_by(2) {
            machine.power = Power::Off;
        }
        site
    }

    /// A group that has nothing of all that it declares.
    pub(crate) fn empty(members: u32) -> Self {
        let mut site = Self::at_rest(members);
        site.vcenter = VCenter::with(site.vcenter.folder, Vec::new());
        site.group.status = None;
        site
    }

    /// Looks at the group.
    pub(crate) fn look(&self, in_flight: &mut InFlight, read: Instant) -> Observed {
        let base = FolderId(BASE.to_owned());
        let view = View {
            desired: &self.desired,
            readiness: Readiness::default(),
            inventory: &self.vcenter,
            base: &base,
            cluster: CLUSTER,
            has_unknown_clones: false,
            marked: BTreeSet::new(),
            room: None,
        };
        in_flight.look(&self.group, &view, read, now()).expect("the record makes sense")
    }

    /// The group as it is, and what is known of it after a first look.
    pub(crate) fn looked(&self) -> (InFlight, Observed) {
        let mut in_flight = InFlight::default();
        let observed = self.look(&mut in_flight, Instant::now());
        (in_flight, observed)
    }
}

impl Shown {
    fn member(desired: &Desired, slot: Slot) -> Self {
        let incarnation = Incarnation(1);
        let instance = names::instance(&desired.marker_uid, slot, incarnation);
        Self {
            id: format!("vm-{}", slot.0 + 1),
            name: names::member(&desired.name, &desired.marker_uid, slot),
            instance: instance.clone(),
            marker: Marker {
                group: desired.marker_uid.clone(),
                owner: (desired.namespace.clone(), desired.name.clone()),
                slot,
                revision: desired.revision,
                cluster: CLUSTER.to_owned(),
                made: Some(Made { instance, incarnation }),
                storage_mib: Some(40_960),
            },
            power: desired.power,
        }
    }

    fn shown(&self) -> Machine<'_> {
        let ready = (self.power == Power::On).then(|| at(READY));
        Machine {
            id: &self.id,
            name: &self.name,
            folder: Some(FOLDER),
            marker: Some(&self.marker),
            instance: Some(&self.instance),
            is_template: false,
            unreachable_since: None,
            hardware: drover_core::vmgroup::Hardware { cpus: 1, memory_mib: 1024 },
            storage_mib: Some(40_960),
            hot_add: HotAdd::default(),
            power: self.power,
            tools_running: true,
            since: Since { on: ready, tools: ready, address: ready },
            created: at(READY),
        }
    }
}

impl VCenter {
    fn with(folder: String, machines: Vec<Shown>) -> Self {
        let by_id = machines.iter().enumerate().map(|(index, machine)| (machine.id.clone(), index)).collect();
        Self { folder, machines, by_id }
    }

    fn own(&self) -> Folder<'_> {
        Folder { id: FOLDER, name: &self.folder }
    }
}

impl Inventory for VCenter {
    fn machine(&self, id: &MachineId) -> Option<Machine<'_>> {
        self.by_id.get(&id.0).map(|index| self.machines[*index].shown())
    }

    fn machines_marked(&self, group: &str) -> impl Iterator<Item = Machine<'_>> {
        self.machines.iter().filter(move |machine| machine.marker.group == group).map(Shown::shown)
    }

    fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = Machine<'_>> {
        self.machines.iter().filter(|_| folder.0 == FOLDER).map(Shown::shown)
    }

    fn folder(&self, id: &FolderId) -> Option<Folder<'_>> {
        Some(self.own()).filter(|folder| folder.id == id.0)
    }

    fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = Folder<'_>> {
        Some(self.own()).filter(|_| folder.0 == BASE).into_iter()
    }

    fn is_proved_gone(&self, _: &MachineId) -> bool {
        false
    }

    fn path_of(&self, id: &MachineId) -> String {
        id.0.clone()
    }
}
