//! Histories of VMs that vanish from sight: hidden, taken away with their host, unregistered, destroyed, copied, brought back. Whatever
//! happens, no VM that may still be there is doubled before its time, nothing is destroyed that isn't a member, and nothing is made or
//! destroyed while too many are missing. A failure prints the seed that plays it again: `HISTORY=<seed> cargo test -p drover-core --test
//! disappearance`.

#[path = "model/chance.rs"]
mod chance;

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use chance::Chance;
use drover_api::vmgroup::GuestNetwork;
use drover_core::{
    Action, Timestamp,
    names::{self, Slot},
    plan,
    vcenter::brake::{Brake, Losses, Scope},
    vmgroup::{
        DeletionPolicy, Desired, Folder, Hardware, HotAdd, MachineId, Member, Observed, Power, Revision, ScaleIn,
        Slots, Strategy, UpdatePolicy,
        identity::{Claim, Made, Sighting},
        membership::Membership,
        record::{Incarnation, Record, Stage},
    },
};

const UID: &str = "uid";
const LOST_AFTER: i64 = 300;

#[derive(Clone, Debug)]
struct Vm {
    instance: String,
    slot: Slot,
    made: Made,
    /// Whether it is a copy that somebody made.
    is_copy: bool,
    /// Whether vCenter shows it.
    is_seen: bool,
    /// Whether its name is free meanwhile: it was removed with its host.
    is_unregistered: bool,
    since: i64,
    revision: Revision,
}

struct Play {
    chance: Chance,
    now: i64,
    next: u32,
    vms: BTreeMap<MachineId, Vm>,
    /// What tasks have destroyed.
    destroyed: BTreeSet<MachineId>,
    /// The same, while that has not been told yet.
    untold: Vec<MachineId>,
    /// Since when the VM of an incarnation has not been seen, though it may be there.
    away: BTreeMap<(Slot, Incarnation), i64>,
    desired: Desired,
    /// What is written down: it outlives the operator.
    written: Record,
    membership: Membership,
    brake: Brake,
    /// Whether the operator was ever killed: what somebody destroyed meanwhile, it can't know.
    was_killed: bool,
    /// What a person has said to go on after.
    released: Vec<String>,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

#[test]
fn what_is_not_seen_is_not_gone() {
    if let Ok(seed) = std::env::var("HISTORY") {
        return Play::new(seed.parse().expect("HISTORY is a number")).play();
    }
    for seed in 0..3000 {
        let played = catch_unwind(AssertUnwindSafe(|| Play::new(seed).play()));
        assert!(played.is_ok(), "history {seed} went wrong: HISTORY={seed} plays it again");
    }
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::from_seed(seed);
        let replicas = 1 + u32::try_from(chance.below(8)).unwrap();
        Self {
            chance,
            now: 0,
            next: 0,
            vms: BTreeMap::new(),
            destroyed: BTreeSet::new(),
            untold: Vec::new(),
            away: BTreeMap::new(),
            desired: desired(replicas),
            written: Record::default(),
            membership: Membership::default(),
            brake: Brake::new(Scope::Group),
            was_killed: false,
            released: Vec::new(),
        }
    }

    fn play(mut self) {
        for _ in 0..60 {
            self.now += 1 + i64::try_from(self.chance.below(120)).unwrap();
            self.happen();
            self.step();
        }
        self.come_to_rest();
    }

    fn happen(&mut self) {
        let members: Vec<_> = self.vms.iter().filter(|(_, vm)| !vm.is_copy).map(|(id, _)| id.clone()).collect();
        let one = self.chance.pick(&members).cloned();
        match (self.chance.below(12), one) {
            (0, _) => self.desired.replicas = u32::try_from(self.chance.below(9)).unwrap(),
            (1, _) => self.desired.revision = Revision(self.chance.below(3)),
            // A permission is taken away, or given back.
            (2, Some(one)) => self.hide(&one),
            (3, _) => {
                let share = self.chance.below(100);
                for id in members {
                    if self.chance.percent(share) {
                        self.hide(&id);
                    }
                }
            }
            (4 | 5, _) => self.bring_back(),
            // Somebody destroys it in vCenter, and that is seen.
            (6, Some(one)) => {
                if let Some(vm) = self.vms.remove(&one) {
                    self.away.remove(&(vm.slot, vm.made.incarnation));
                }
                self.destroyed.insert(one);
            }
            // Somebody unregisters it: it never comes back, and nobody knows.
            (7, Some(one)) => self.hide_for_good(&one),
            (8, Some(one)) => self.copy(&one),
            // The operator is killed.
            (9, _) => {
                self.was_killed = true;
                self.membership = Membership::default();
                self.membership.set_record(self.written.clone());
                self.brake = Brake::new(Scope::Group);
                for since in self.away.values_mut() {
                    *since = self.now;
                }
            }
            (10, _) if self.chance.percent(20) => self.desired.deletion = Some(DeletionPolicy::Delete),
            _ => {}
        }
    }

    fn hide(&mut self, id: &MachineId) {
        let is_unregistered = self.chance.percent(50);
        if let Some(vm) = self.vms.get_mut(id).filter(|vm| vm.is_seen) {
            (vm.is_seen, vm.is_unregistered) = (false, is_unregistered);
            self.away.insert((vm.slot, vm.made.incarnation), self.now);
        }
    }

    fn hide_for_good(&mut self, id: &MachineId) {
        if let Some(vm) = self.vms.remove(id) {
            self.away.entry((vm.slot, vm.made.incarnation)).or_insert(self.now);
        }
    }

    /// All that were hidden are back, some under other ids, as when their host was removed and added again.
    fn bring_back(&mut self) {
        let hidden: Vec<_> = self.vms.iter().filter(|(_, vm)| !vm.is_seen).map(|(id, _)| id.clone()).collect();
        for id in hidden {
            let Some(mut vm) = self.vms.remove(&id) else { continue };
            // One whose name was given to another comes back under a name of its own.
            (vm.is_seen, vm.is_unregistered) = (true, false);
            self.away.remove(&(vm.slot, vm.made.incarnation));
            let id = if self.chance.percent(50) { self.id() } else { id };
            self.vms.insert(id, vm);
        }
    }

    fn copy(&mut self, id: &MachineId) {
        let original = self.vms[id].clone();
        let copy = self.id();
        let instance = format!("copy-{}", copy.0);
        self.vms.insert(copy, Vm { instance, is_copy: true, is_seen: true, ..original });
    }

    fn id(&mut self) -> MachineId {
        self.next += 1;
        MachineId(format!("vm-{}", self.next))
    }

    fn sightings(&self) -> Vec<Sighting> {
        let seen = self.vms.iter().filter(|(_, vm)| vm.is_seen);
        let sighting = |(id, vm): (&MachineId, &Vm)| Sighting {
            id: id.clone(),
            instance: Some(vm.instance.clone()),
            claim: Some(Claim { slot: vm.slot, made: Some(vm.made.clone()) }),
            in_place: None,
            is_template: false,
            is_legible: true,
        };
        seen.map(sighting).collect()
    }

    fn observe(&mut self) -> Observed {
        let sightings = self.sightings();
        let nothing_is_away = self.away.is_empty() && !self.was_killed;
        let destroyed = &self.destroyed;
        let matched = self.membership.look(
            UID,
            &sightings,
            &BTreeSet::new(),
            |id| destroyed.contains(id),
            |id| id.0.clone(),
            at(self.now),
        );
        let members = matched.found.members.iter().map(|(slot, id)| member(id, *slot, &self.vms[id])).collect();
        let (total, missing) = self.membership.losses(UID);
        let released = self.released.iter().map(String::as_str).collect();
        let losses = Losses { name: UID, members: total, missing, released, ..Losses::default() };
        let incident = self.brake.judge(&losses, at(self.now));
        assert!(incident.is_none() || !nothing_is_away, "what was asked for is no incident: {incident:?}");
        let folder = if self.vms.is_empty() { Folder::Empty } else { Folder::Occupied };
        Observed { folder, members, held: matched.held, is_stopped: incident.is_some(), ..Observed::default() }
    }

    /// Plans, and does what the plan says, with every promise checked.
    fn step(&mut self) -> bool {
        let observed = self.observe();
        let plan = plan(&self.desired, &observed, at(self.now));
        let clones = plan.actions.iter().filter_map(Action::cloned_slot);
        let clones: Vec<_> = clones.collect();
        for slot in &clones {
            self.check_clone(*slot, &observed);
        }
        let record = self.membership.record_mut().unwrap();
        plan.given_up.iter().for_each(|slot| record.remove(*slot));
        if plan.settled {
            record.retain_pending(|_| false);
        }
        record.reserve(clones.iter().copied());
        for action in &plan.actions {
            if let Action::Destroy(id) = action {
                record.condemn(self.vms[id].slot, id.clone());
            }
        }
        self.written = record.clone();
        for action in &plan.actions {
            match action {
                Action::Clone(slot) => self.clone_into(*slot),
                Action::Destroy(id) => self.destroy(id, &observed),
                Action::PowerOff(_) | Action::DestroyFolder => {}
                other => panic!("nothing asks for {other:?}"),
            }
        }
        // A VM is told to have left before the task is told to have ended that destroyed it.
        self.now += 1;
        self.observe();
        self.destroyed.extend(self.untold.drain(..));
        if plan.settled && self.desired.deletion.is_some() {
            let left: Vec<_> = self.vms.values().filter(|vm| self.is_on_record(vm)).collect();
            assert!(left.is_empty(), "the group's end was said, and {left:?} are still there");
        }
        plan.settled
    }

    /// Whether a VM is the one that the record has for its slot.
    fn is_on_record(&self, vm: &Vm) -> bool {
        let entry = self.written.get(vm.slot).filter(|_| !vm.is_copy && vm.instance == vm.made.instance);
        entry.is_some_and(|entry| entry.incarnation == vm.made.incarnation)
    }

    /// A slot gets another VM only when the one it had is proved gone, or has been missing for as long as that takes.
    fn check_clone(&self, slot: Slot, observed: &Observed) {
        assert!(!observed.is_stopped, "slot {slot} is cloned into while too many are missing");
        let was_seen = self.written.get(slot).is_some_and(|entry| entry.stage != Stage::Pending);
        for vm in self.vms.values().filter(|vm| vm.slot == slot && was_seen && self.is_on_record(vm)) {
            let since = self.away.get(&(slot, vm.made.incarnation));
            let waited = since.map(|since| self.now - since);
            assert!(waited.is_some_and(|waited| waited >= LOST_AFTER), "{vm:?} is doubled after {waited:?} s");
        }
    }

    fn clone_into(&mut self, slot: Slot) {
        let incarnation = self.written.get(slot).expect("what is cloned is written down first").incarnation;
        let made = Made { instance: names::instance(UID, slot, incarnation), incarnation };
        if self.vms.values().any(|vm| vm.slot == slot && !vm.is_copy && !vm.is_unregistered) {
            // vCenter lets one of a name into a folder, seen or not.
            return;
        }
        for twin in self.vms.values_mut().filter(|vm| vm.instance == made.instance) {
            // It was taken away before anybody had seen it. vCenter gives another UUID where two have the same.
            twin.instance.insert_str(0, "reassigned-");
        }
        let id = self.id();
        let (instance, revision) = (made.instance.clone(), self.desired.revision);
        let vm = Vm {
            instance,
            slot,
            made,
            is_copy: false,
            is_seen: true,
            is_unregistered: false,
            since: self.now,
            revision,
        };
        self.vms.insert(id.clone(), vm);
        if self.chance.percent(80) {
            // Otherwise the operator is killed before the clone has ended.
            self.membership.cloned(slot, id);
        }
    }

    fn destroy(&mut self, id: &MachineId, observed: &Observed) {
        assert!(!observed.is_stopped, "{id:?} is destroyed while too many are missing");
        let vm = self.vms.remove(id).expect("what is destroyed is there");
        assert!(vm.is_seen && self.is_on_record(&vm), "{vm:?} is not the group's to destroy");
        self.untold.push(id.clone());
    }

    /// Everything hidden comes back, or a person says to go on; then all is as declared.
    fn come_to_rest(&mut self) {
        self.bring_back();
        self.observe();
        self.written = self.membership.record().unwrap().clone();
        // Those that came back after they were given up keep others from their names, until a person renames them.
        let is_stray: Vec<_> =
            self.vms.iter().filter(|(_, vm)| !self.is_on_record(vm)).map(|(id, _)| id.clone()).collect();
        for id in is_stray {
            self.vms.entry(id).and_modify(|vm| vm.is_unregistered = true);
        }
        // What never comes back keeps a group that is deleted: then it is given up.
        let last = self.now + 10_000;
        while !self.step() {
            if self.desired.deletion.is_some() && self.now > last - 5000 {
                return;
            }
            if self.now >= last {
                let observed = self.observe();
                let next = plan(&self.desired, &observed, at(self.now));
                panic!("it never comes to rest: {:?}\n{:?}\n{:?}\n{next:?}", self.desired, self.written, observed.held);
            }
            let observed = self.observe();
            if observed.is_stopped {
                let (total, missing) = self.membership.losses(UID);
                let losses = Losses { name: UID, members: total, missing, ..Losses::default() };
                let incident = self.brake.judge(&losses, at(self.now));
                self.released.extend(incident.map(|incident| incident.id));
            }
            self.now += 60;
        }
        self.written = self.membership.record().unwrap().clone();
        let members = self.vms.values().filter(|vm| self.is_on_record(vm));
        let expected = if self.desired.deletion.is_some() { 0 } else { self.desired.replicas as usize };
        assert_eq!(members.count(), expected);
    }
}

fn member(id: &MachineId, slot: Slot, vm: &Vm) -> Member {
    Member {
        id: id.clone(),
        slot,
        revision: vm.revision,
        created: at(vm.since),
        name: names::member("group", UID, slot),
        in_folder: true,
        hardware: Hardware { cpus: 1, memory_mib: 1024 },
        storage_mib: 0,
        hot_add: HotAdd::default(),
        refused: None,
        power: Power::Off,
        unreachable_since: None,
        ready_since: None,
        guest_answers: false,
        shutdown_since: None,
        busy: false,
        marked: false,
        not_before: None,
    }
}

fn desired(replicas: u32) -> Desired {
    Desired {
        uid: UID.to_owned(),
        marker_uid: UID.to_owned(),
        namespace: "ns".to_owned(),
        name: "group".to_owned(),
        replicas,
        hardware: Hardware { cpus: 1, memory_mib: 1024 },
        revision: Revision(0),
        slots: Slots::Any,
        adapters: Arc::default(),
        hostname: None,
        guest_network: GuestNetwork::default(),
        power: Power::Off,
        update: UpdatePolicy {
            strategy: Strategy::InPlaceFirst,
            max_unavailable: 1,
            max_surge: 0,
            min_ready: Duration::ZERO,
            progress_deadline: Duration::from_mins(10),
        },
        scale_in: ScaleIn::Newest,
        shutdown_grace: Duration::ZERO,
        deletion: None,
        lost_after: Some(Duration::from_secs(LOST_AFTER.unsigned_abs())),
        paused: false,
    }
}
