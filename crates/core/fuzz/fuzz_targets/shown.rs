//! A vCenter that shows a few VMs in one folder, and a reconcile of a group on it.

use std::{collections::BTreeSet, time::Instant};

use drover_api::VmGroup;
use drover_core::{
    Action, Plan, Subject, Timestamp, Trouble, forecast,
    names,
    vmgroup::{
        Desired, FolderId, Hardware, HotAdd, MachineId, Observed, Power,
        in_flight::{InFlight, SourceState, plan_unless},
        inventory::{Folder, Inventory, Machine, Marker, Since},
        outcome::{Outcome, RESYNC},
        plan::{impact, trouble_with_unseen},
        report::Reporter,
        trouble::Obstacles,
        view::View,
    },
};

const BASE: &str = "group-base";
const FOLDER: &str = "group-own";
const CLUSTER: &str = "cluster";

/// What the vCenter shows: markers of VMs, each with the instance UUID that its VM has.
pub struct Shown {
    folder: String,
    machines: Vec<(String, Marker, String)>,
}

impl Shown {
    pub fn new(desired: &Desired, markers: Vec<(Marker, String)>) -> Self {
        let machines = markers.into_iter().enumerate();
        let machines = machines.map(|(number, (marker, instance))| (format!("vm-{number}"), marker, instance));
        Self { folder: names::folder(&desired.namespace, &desired.name), machines: machines.collect() }
    }

    fn machines(&self) -> impl Iterator<Item = Machine<'_>> {
        self.machines.iter().map(|(id, marker, instance)| Machine {
            id,
            name: id,
            folder: Some(FOLDER),
            marker: Some(marker),
            instance: Some(instance),
            is_template: false,
            unreachable_since: None,
            hardware: Hardware { cpus: 1, memory_mib: 1024 },
            storage_mib: marker.storage_mib,
            hot_add: HotAdd::default(),
            power: Power::On,
            tools_running: true,
            since: Since::default(),
            created: Timestamp::UNIX_EPOCH,
        })
    }
}

impl Inventory for Shown {
    fn machine(&self, id: &MachineId) -> Option<Machine<'_>> {
        self.machines().find(|machine| machine.id == id.0)
    }

    fn machines_marked(&self, group: &str) -> impl Iterator<Item = Machine<'_>> {
        self.machines().filter(move |machine| machine.marker.is_some_and(|marker| marker.group == group))
    }

    fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = Machine<'_>> {
        self.machines().filter(|_| folder.0 == FOLDER)
    }

    fn folder(&self, id: &FolderId) -> Option<Folder<'_>> {
        (id.0 == FOLDER).then_some(Folder { id: FOLDER, name: &self.folder })
    }

    fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = Folder<'_>> {
        (folder.0 == BASE).then_some(Folder { id: FOLDER, name: &self.folder }).into_iter()
    }

    fn is_proved_gone(&self, _: &MachineId) -> bool {
        false
    }

    fn path_of(&self, id: &MachineId) -> String {
        id.0.clone()
    }
}

/// All that a reconcile decides and says, twice: what the first has noted is there for the second.
pub fn reconcile(group: &VmGroup, desired: &Desired, shown: &Shown) {
    let (mut in_flight, mut reporter, read) = (InFlight::default(), Reporter::default(), Instant::now());
    for second in [1_800_000_000, 1_800_000_060] {
        let Ok(now) = Timestamp::from_second(second) else { return };
        let base = FolderId(BASE.to_owned());
        let view = View {
            desired,
            readiness: group.spec.readiness,
            inventory: shown,
            base: &base,
            cluster: CLUSTER,
            has_unknown_clones: false,
            marked: BTreeSet::new(),
            room: None,
        };
        let Ok(mut observed) = in_flight.look(group, &view, read, now) else { return };
        let incident = in_flight.judge_group(group, desired, &observed, &[], now);
        observed.is_stopped = incident.is_some();
        let plan = plan_unless(view.conflict().as_deref(), desired, &observed, now);
        check(desired, &observed, &plan, shown);
        in_flight.note_plan(desired, &plan, false, now);
        _ = in_flight.order(desired, &observed, &plan, SourceState::Known);
        _ = in_flight.record.to_write();
        _ = impact(desired, &observed, now).sentences();
        if desired.replicas < 50 && observed.held.len() < 50 {
            _ = forecast(desired, &observed, now);
        }
        let obstacles = Obstacles {
            incident: incident.as_ref().map(|incident| incident.sentence()),
            unseen: trouble_with_unseen(desired, &observed, now),
            failing: in_flight.problems(),
            needs_person: in_flight.needs_person(),
            ..Obstacles::default()
        };
        let incident = incident.map(|incident| incident.id);
        let outcome = Outcome { plan, observed: Some(observed), incident, ..Outcome::stuck(Trouble::None, RESYNC) };
        let outcome = Outcome { trouble: obstacles.gravest(), ..outcome };
        _ = reporter.report(group, desired, outcome, (now, read));
    }
}

/// Whatever is shown: nothing is done to a VM but one that says it is the group's and no copy, and no more VMs are made than there may be.
fn check(desired: &Desired, observed: &Observed, plan: &Plan, shown: &Shown) {
    for action in &plan.actions {
        let Subject::Machine(id) = action.subject() else { continue };
        let (_, marker, instance) = shown.machines.iter().find(|(other, ..)| *other == id.0).expect("it is shown");
        let is_copy = marker.made.as_ref().is_some_and(|made| made.instance != *instance);
        assert!(marker.group == desired.marker_uid && !is_copy, "{action:?} is done to another's {marker:?} of {instance}");
    }
    let clones: Vec<_> = plan.actions.iter().filter_map(Action::cloned_slot).collect();
    let mut slots: BTreeSet<_> = observed.members.iter().map(|member| member.slot).collect();
    slots.extend(&observed.cloning);
    slots.extend(&clones);
    let ceiling = desired.replicas as usize + desired.update.max_surge as usize;
    assert!(clones.is_empty() || slots.len() <= ceiling, "{clones:?} make {} where {ceiling} are the most", slots.len());
}
