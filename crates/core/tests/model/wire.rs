//! What an operator asks of vCenter, and how that may go wrong.

use std::collections::BTreeSet;

use drover_core::{
    Action, Subject, Timestamp,
    names::{self, Slot},
    vmgroup::{
        FolderId, HotAdd, MachineId, Power,
        faults::{Failure, NextStep},
        identity::Made,
        in_flight::Failed,
        inventory::{Inventory, Marker},
        record::Incarnation,
    },
};

use super::{
    chance::Chance,
    machine::{Kind, Machine},
    mirror::Mirror,
    operator::{CLUSTER, Operator, Place},
    world::{Failing, Time, Work},
};

impl Operator {
    pub(crate) fn act(&mut self, action: &Action, folder: Option<&FolderId>, place: &mut Place<'_>) {
        self.in_flight.begin(action.clone());
        if place.is_cut_off {
            return self.fail(action, None, place);
        }
        if let Some(fault) = refused(action, place) {
            return self.fail(action, Some(fault), place);
        }
        let work = match self.work(action, folder, place) {
            Asked::Work(work) => work,
            // As in production: the last look is vCenter's own.
            Asked::Occupied => {
                return self.in_flight.folder_is_occupied(action, place.now(), place.chance.below(1 << 60));
            }
            Asked::Nothing => return self.in_flight.succeeded(action, None, place.now()),
        };
        let is_unanswered = place.happens("no answer", place.mishaps.unanswered);
        let fails = match () {
            () if place.happens("task fails", place.mishaps.failed) => Some(Failing::BeforeEffect),
            () if place.happens("task fails after its effect", place.mishaps.failed_after_effect) => {
                Some(Failing::AfterEffect)
            }
            () => None,
        };
        let is_at_once = matches!(work, Work::CreateFolder(_) | Work::Shutdown(..));
        let takes = match place.takes {
            _ if is_at_once => 0,
            Some(takes) => takes,
            None => 1 + Time::try_from(place.chance.below(8)).unwrap(),
        };
        let is_clone = matches!(work, Work::Clone(_));
        let task = place.world.submit(work, takes, fails);
        if is_clone && place.chance.percent(50) {
            place.world.show_early(task);
        }
        if is_unanswered {
            self.fail(action, None, place);
        } else if is_at_once {
            let now = place.world.now;
            for (ended, outcome) in place.world.advance(now) {
                if ended == task {
                    self.tasks.insert(task, action.clone());
                    self.learn(ended, outcome, place.now(), place.chance);
                }
            }
        } else {
            self.tasks.insert(task, action.clone());
        }
    }

    fn fail(&mut self, action: &Action, fault: Option<&str>, place: &mut Place<'_>) {
        let now = place.now();
        self.failed(action, fault, now, place.chance);
    }

    pub(crate) fn failed(
        &mut self,
        action: &Action,
        fault: Option<&str>,
        now: Timestamp,
        chance: &mut Chance,
    ) -> NextStep {
        let lineage: Vec<_> = fault.into_iter().collect();
        let failure = if lineage.is_empty() { Failure::NoAnswer } else { Failure::Fault(&lineage) };
        let why = Failed { failure, error: fault.unwrap_or("no answer"), taken_by: None, power: Power::On };
        self.in_flight.failed(action, &why, now, chance.below(1 << 60))
    }

    fn work(&self, action: &Action, folder: Option<&FolderId>, place: &mut Place<'_>) -> Asked {
        let desired = place.desired;
        if let Subject::Machine(id) = action.subject() {
            self.check_touched(action, &id, place);
        }
        Asked::Work(match action {
            Action::CreateFolder => Work::CreateFolder(names::folder(&desired.namespace, &desired.name)),
            Action::DestroyFolder | Action::DestroyLeftFolder(_) => {
                let id = if let Action::DestroyLeftFolder(id) = action { Some(id) } else { folder };
                let Some(id) = id.cloned() else { return Asked::Nothing };
                let watch = Mirror { world: place.world, since: 0, destroyed: &BTreeSet::new() };
                let is_hidden = |machine: &Machine| machine.is_hidden && machine.folder == id.0;
                if watch.is_occupied(&id) || place.world.machines.values().any(is_hidden) {
                    return Asked::Occupied;
                }
                Work::DestroyFolder(id)
            }
            Action::Clone(slot) => {
                let Some(folder) = folder else { return Asked::Nothing };
                Work::Clone(Box::new(self.clone_of(*slot, folder, place)))
            }
            Action::PowerOn(id) => Work::Power(id.clone(), Power::On),
            Action::PowerOff(id) => Work::Power(id.clone(), Power::Off),
            Action::Suspend(id) => Work::Power(id.clone(), Power::Suspended),
            Action::ShutdownGuest(id) => Work::Shutdown(id.clone(), place.chance.percent(70)),
            Action::Reconfigure(id, hardware) => Work::Reconfigure(id.clone(), *hardware),
            Action::Rename(id, name) => Work::Rename(id.clone(), name.clone()),
            Action::MoveIntoFolder(id) => match folder {
                Some(folder) => Work::Move(id.clone(), folder.clone()),
                None => return Asked::Nothing,
            },
            Action::Mark(..) => unreachable!("nothing of an earlier version is there"),
            Action::Destroy(id) => Work::Destroy(id.clone()),
        })
    }

    fn clone_of(&self, slot: Slot, folder: &FolderId, place: &mut Place<'_>) -> Machine {
        let (desired, chance) = (place.desired, &mut *place.chance);
        let entry = self.in_flight.record.now().and_then(|record| record.get(slot));
        let incarnation = entry.map_or(Incarnation::default(), |entry| entry.incarnation);
        let instance = names::instance(&desired.marker_uid, slot, incarnation);
        let is_on = desired.power == Power::On && chance.percent(100 - place.mishaps.left_off);
        Machine {
            marker: Some(Marker {
                group: desired.marker_uid.clone(),
                owner: (desired.namespace.clone(), desired.name.clone()),
                slot,
                revision: desired.revision_of(slot),
                cluster: CLUSTER.to_owned(),
                made: Some(Made { instance: instance.clone(), incarnation }),
                storage_mib: None,
            }),
            instance,
            created: place.world.now,
            name: names::member(&desired.name, &desired.marker_uid, slot),
            folder: folder.0.clone(),
            hardware: desired.hardware,
            hot_add: HotAdd { cpus: chance.percent(50), memory: chance.percent(50), ..Default::default() },
            refuses_hot_add: chance.percent(25),
            power: if is_on { Power::On } else { Power::Off },
            ready_at: 0,
            tools: chance.percent(50),
            off_at: None,
            being_made: false,
            kind: Kind::Own,
            is_template: false,
            is_hidden: false,
            disconnected: None,
            inaccessible: None,
            away: None,
        }
    }

    /// Nothing foreign, copied or given up is touched.
    fn check_touched(&self, action: &Action, id: &MachineId, place: &Place<'_>) {
        let Some(machine) = place.world.machines.get(id) else { return };
        let made = machine.marker.as_ref().and_then(|marker| Some((marker.slot, marker.made.as_ref()?.incarnation)));
        let is_own = machine.kind != Kind::Foreign;
        let Some((slot, incarnation)) = made.filter(|_| is_own) else {
            panic!("{action:?} touches a machine that isn't the group's: {machine:?}");
        };
        let seen = place.seen.unwrap_or(place.world);
        let is_read = |other: &Machine| other.inaccessible.is_none_or(|since| since > self.since);
        let is_shown = |other: &&Machine| other.instance == machine.instance && !other.is_hidden && is_read(other);
        let twins = seen.machines.values().filter(is_shown).count();
        assert!(twins < 2, "{action:?} touches one of two that could be the member: {machine:?}");
        let entry = self.in_flight.record.now().and_then(|record| record.get(slot));
        let is_its = entry.is_some_and(|entry| entry.incarnation == incarnation);
        assert!(is_its, "{action:?} touches a machine that was given up: {machine:?}, {entry:?}");
    }
}

enum Asked {
    Work(Work),
    Occupied,
    Nothing,
}

fn refused(action: &Action, place: &mut Place<'_>) -> Option<&'static str> {
    if place.mishaps.no_template && action.cloned_slot().is_some() && place.happens("clone without its template", 100) {
        return Some("ManagedObjectNotFound");
    }
    let faults =
        ["ResourceInUse", "NoDiskSpace", "InvalidArgument", "NotAuthenticated", "NoPermission", "HostConnectFault"];
    place.happens("call refused", place.mishaps.refused).then(|| *place.chance.pick(&faults).unwrap())
}
