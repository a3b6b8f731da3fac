//! Groups of one namespace that share a quota, planned against a model of vCenter with edits, late views, queues and crashes. A failure prints
//! the seed that plays it again: `HISTORY=<seed> cargo test -p drover-core --test quota`.

#[path = "model/chance.rs"]
mod chance;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use chance::Chance;
use drover_api::{vcenter::Quota as Declared, vmgroup::GuestNetwork};
use drover_core::{
    Action, Timestamp,
    names::{self, Slot},
    plan,
    tenancy::quota::{Amount, Quota, Reserved, grant},
    vmgroup::{
        Desired, Folder, Hardware, Held, HeldFor, HotAdd, MachineId, Member, Observed, Power, Revision, ScaleIn, Size,
        Slots, Strategy, UpdatePolicy,
        record::{Incarnation, Record, Stage},
    },
};

const GROUPS: usize = 6;
/// VMs, CPUs, and GiB of disks.
const LIMITS: (u64, u64, u64) = (9, 16, 40);

type Id = u64;

#[derive(Clone, Debug)]
struct Vm {
    group: usize,
    slot: Slot,
    incarnation: Incarnation,
    hardware: Hardware,
    /// Of its disks.
    storage_mib: u64,
    revision: Revision,
}

impl Vm {
    fn size(&self) -> Size {
        Size { hardware: self.hardware, storage_mib: self.storage_mib }
    }
}

/// What the disks of the template have that a revision is made from.
fn storage_of(revision: Revision) -> u64 {
    1024 * [3, 8][usize::try_from(revision.0).unwrap()]
}

fn size_of(spec: &Desired) -> Size {
    Size { hardware: spec.hardware, storage_mib: storage_of(spec.revision) }
}

#[derive(Clone, Debug)]
enum Task {
    Clone(Vm),
    Reconfigure(Id, Hardware),
    Destroy(Id),
}

/// What is true: vCenter, and what the API server has.
struct World {
    vms: BTreeMap<Id, Vm>,
    tasks: BTreeMap<Id, (usize, Action, Task)>,
    specs: Vec<Desired>,
    records: Vec<Record>,
    next: Id,
}

/// A group as the operator knows it. All of it is lost in a crash.
#[derive(Clone, Default)]
struct Memory {
    record: Record,
    queue: BTreeMap<Action, Task>,
    under_way: BTreeSet<Action>,
    /// Reconfigurations that have ended, and that the mirror doesn't show.
    done: BTreeMap<MachineId, Hardware>,
    held_back: usize,
}

struct Operator {
    mirror: BTreeMap<Id, Vm>,
    groups: Vec<Memory>,
    /// The tasks that it knows of.
    known: BTreeSet<Id>,
}

fn id_of(id: Id) -> MachineId {
    MachineId(format!("vm-{id}"))
}

fn number_of(id: &MachineId) -> Id {
    id.0.trim_start_matches("vm-").parse().unwrap()
}

fn spec(group: usize, chance: &mut Chance) -> Desired {
    let cpus = 1 << chance.below(3);
    Desired {
        uid: format!("uid-{group}"),
        marker_uid: format!("uid-{group}"),
        namespace: "ns".to_owned(),
        name: format!("group-{group}"),
        replicas: u32::try_from(chance.below(6)).unwrap(),
        hardware: Hardware { cpus, memory_mib: 1024 },
        revision: Revision(chance.below(2)),
        slots: Slots::Any,
        adapters: Arc::default(),
        hostname: None,
        guest_network: GuestNetwork::default(),
        power: Power::Off,
        update: UpdatePolicy {
            strategy: if chance.percent(30) { Strategy::Replace } else { Strategy::InPlaceFirst },
            max_unavailable: 1,
            max_surge: u32::try_from(chance.below(2)).unwrap(),
            min_ready: Duration::ZERO,
            progress_deadline: Duration::from_mins(10),
        },
        scale_in: ScaleIn::Newest,
        shutdown_grace: Duration::ZERO,
        deletion: None,
        lost_after: None,
        paused: false,
    }
}

fn limits() -> Quota {
    let number = |number| i64::try_from(number).ok();
    Quota::of(&Declared { vms: number(LIMITS.0), cpus: number(LIMITS.1), memory: None, storage: number(LIMITS.2) })
}

impl World {
    fn used(&self) -> Amount {
        self.vms.values().map(|vm| Amount::of(vm.size())).fold(Amount::default(), Amount::plus)
    }

    /// Ends a task, and says how.
    fn end(&mut self, task: &Task) -> bool {
        match task {
            Task::Clone(vm) => {
                let is_free = !self.vms.values().any(|other| (other.group, other.slot) == (vm.group, vm.slot));
                if is_free {
                    self.next += 1;
                    self.vms.insert(self.next, vm.clone());
                }
                return is_free;
            }
            Task::Reconfigure(id, hardware) => {
                if let Some(vm) = self.vms.get_mut(id) {
                    vm.hardware = *hardware;
                }
            }
            Task::Destroy(id) => drop(self.vms.remove(id)),
        }
        true
    }
}

impl Operator {
    fn start(world: &World) -> Self {
        let groups = world.records.iter().map(|record| Memory { record: record.clone(), ..Memory::default() });
        Self { mirror: world.vms.clone(), groups: groups.collect(), known: BTreeSet::new() }
    }

    fn is_seen(&self, group: usize, slot: Slot, incarnation: Incarnation) -> bool {
        self.mirror.values().any(|vm| (vm.group, vm.slot, vm.incarnation) == (group, slot, incarnation))
    }

    fn reserved(&self, world: &World, group: usize, has_unknown: bool) -> Reserved {
        let memory = &self.groups[group];
        let begun = |slot| has_unknown || memory.under_way.contains(&Action::Clone(slot));
        let is_seen = |slot, incarnation| self.is_seen(group, slot, incarnation);
        Reserved::of(&memory.record, size_of(&world.specs[group]), is_seen, begun)
    }

    /// What a VM that is seen counts as, to one of the groups.
    fn counted(&self, id: Id, vm: &Vm, to: usize) -> Amount {
        let memory = &self.groups[vm.group];
        let reconfigures = |action: &&Action| matches!(action, Action::Reconfigure(of, _) if *of == id_of(id));
        let queued = memory.queue.keys().filter(|_| vm.group != to).filter(reconfigures);
        let under_way = memory.under_way.iter().filter(reconfigures).chain(queued);
        let becomes = under_way.filter_map(|action| match action {
            Action::Reconfigure(_, hardware) => Some(*hardware),
            _ => None,
        });
        let becomes = becomes.chain(memory.done.get(&id_of(id)).copied());
        let is_cloning = memory.under_way.contains(&Action::Clone(vm.slot));
        let becomes = becomes.chain(memory.record.asked().filter(|_| is_cloning).map(|asked| asked.hardware));
        Amount::of(Size { hardware: becomes.fold(vm.hardware, Hardware::most), ..vm.size() })
    }

    fn used(&self, world: &World, to: usize, has_unknown: bool) -> Amount {
        let seen = self.mirror.iter().map(|(id, vm)| self.counted(*id, vm, to));
        let reserved = (0..GROUPS).map(|group| self.reserved(world, group, has_unknown).amount());
        seen.chain(reserved).fold(Amount::default(), Amount::plus)
    }

    fn observe(&mut self, desired: &Desired, group: usize) -> Observed {
        let memory = &mut self.groups[group];
        let gone = memory.record.entries().filter_map(|(slot, entry)| match &entry.stage {
            Stage::Going(id) if !self.mirror.contains_key(&number_of(id)) => Some(slot),
            _ => None,
        });
        for slot in gone.collect::<Vec<_>>() {
            memory.record.remove(slot);
        }
        let mirror = &self.mirror;
        memory.done.retain(|id, hardware| mirror.get(&number_of(id)).is_some_and(|vm| vm.hardware != *hardware));
        let is_member =
            |vm: &Vm, record: &Record| record.get(vm.slot).is_some_and(|entry| entry.incarnation == vm.incarnation);
        let seen: Vec<_> = mirror
            .iter()
            .filter(|(_, vm)| vm.group == group && is_member(vm, &memory.record))
            .map(|(id, vm)| (*id, vm.clone()))
            .collect();
        for (_, vm) in &seen {
            if memory.record.get(vm.slot).is_some_and(|entry| entry.stage == Stage::Pending) {
                memory.record.see(vm.slot);
            }
        }
        let is_busy = |id: &MachineId| {
            let of = |action: &Action| matches!(action, Action::Reconfigure(on, _) | Action::Destroy(on) if on == id);
            memory.under_way.iter().any(of) || memory.done.contains_key(id)
        };
        let member = |(id, vm): &(Id, Vm)| Member {
            id: id_of(*id),
            slot: vm.slot,
            revision: vm.revision,
            created: Timestamp::UNIX_EPOCH,
            name: names::member(&desired.name, &desired.marker_uid, vm.slot),
            in_folder: true,
            hardware: vm.hardware,
            storage_mib: vm.storage_mib,
            hot_add: HotAdd::default(),
            refused: None,
            power: Power::Off,
            unreachable_since: None,
            ready_since: None,
            guest_answers: false,
            shutdown_since: None,
            busy: is_busy(&id_of(*id)),
            marked: false,
            not_before: None,
        };
        let members: Vec<_> = seen.iter().map(member).collect();
        let slots: BTreeSet<_> = members.iter().map(|member| member.slot).collect();
        let held =
            memory.record.entries().filter(|(slot, entry)| entry.stage != Stage::Pending && !slots.contains(slot));
        let held = held.map(|(slot, _)| (slot, Held { since: Timestamp::UNIX_EPOCH, why: HeldFor::Missing }));
        let cloning = memory.under_way.iter().filter_map(Action::cloned_slot);
        Observed {
            folder: Folder::Occupied,
            held: held.collect(),
            cloning: cloning.collect(),
            members,
            ..Observed::default()
        }
    }

    /// Plans for a group as the operator does, and returns whether anything was ordered that wasn't.
    fn decide(&mut self, world: &mut World, group: usize, chance: &mut Chance) -> bool {
        let desired = world.specs[group].clone();
        let is_unknown = |id: &Id| !self.known.contains(id);
        let unknown: Vec<_> =
            world.tasks.iter().filter(|(id, _)| is_unknown(id)).map(|(_, (_, _, task))| task).collect();
        let has_unknown = unknown.iter().any(|task| matches!(task, Task::Clone(_)));
        let is_unsure = unknown.iter().any(|task| matches!(task, Task::Reconfigure(..)));
        let mut observed = self.observe(&desired, group);
        let own = self.reserved(world, group, has_unknown);
        let used = self.used(world, group, has_unknown);
        let (room, reserved) =
            grant(limits(), used, &own, storage_of(desired.revision), &desired, &observed, Timestamp::UNIX_EPOCH);
        observed.room = Some(room);
        observed.reserved = reserved;
        if is_unsure {
            observed.room = Some(drover_core::vmgroup::Room { clones: 0, replacements: false, growths: 0 });
            observed.reserved.clear();
        }
        let plan = plan(&desired, &observed, Timestamp::UNIX_EPOCH);
        let memory = &mut self.groups[group];
        memory.held_back = plan.held_back;
        let wanted: BTreeSet<_> = plan.actions.iter().cloned().collect();
        // What was queued for another spec is taken back, before it is said that less is asked for.
        memory.queue.retain(|action, task| {
            let is_as_declared = match task {
                Task::Clone(vm) => {
                    let entry = memory.record.get(vm.slot);
                    let is_same =
                        entry.is_some_and(|it| it.incarnation == vm.incarnation && it.stage == Stage::Pending);
                    is_same && vm.size() == size_of(&desired)
                }
                _ => true,
            };
            wanted.contains(action) && is_as_declared
        });
        for slot in own.free.iter().filter(|slot| !wanted.contains(&Action::Clone(**slot))) {
            memory.record.remove(*slot);
        }
        let own = self.reserved(world, group, has_unknown);
        let memory = &mut self.groups[group];
        let clones: Vec<_> = plan.actions.iter().filter_map(Action::cloned_slot).collect();
        memory.record.ask(own.asked(memory.record.asked(), size_of(&desired), !clones.is_empty()));
        memory.record.reserve(clones.iter().copied());
        for member in &observed.members {
            if wanted.contains(&Action::Destroy(member.id.clone())) {
                memory.record.condemn(member.slot, member.id.clone());
            }
        }
        if memory.record != world.records[group] {
            if chance.percent(20) {
                // It is planned again.
                return true;
            }
            world.records[group] = memory.record.clone();
        }
        let task = |action: &Action| match action {
            Action::Clone(slot) => Some(Task::Clone(Vm {
                group,
                slot: *slot,
                incarnation: memory.record.get(*slot)?.incarnation,
                hardware: desired.hardware,
                storage_mib: storage_of(desired.revision),
                revision: desired.revision,
            })),
            Action::Reconfigure(id, hardware) => Some(Task::Reconfigure(number_of(id), *hardware)),
            Action::Destroy(id) => Some(Task::Destroy(number_of(id))),
            _ => None,
        };
        let queue: BTreeMap<_, _> =
            plan.actions.iter().filter_map(|action| Some((action.clone(), task(action)?))).collect();
        let is_news = queue.keys().ne(memory.queue.keys());
        memory.queue = queue;
        is_news
    }

    /// Begins something that is queued.
    fn begin(&mut self, world: &mut World, chance: &mut Chance) {
        let queued: Vec<_> = (0..GROUPS)
            .flat_map(|group| self.groups[group].queue.keys().map(move |action| (group, action.clone())))
            .collect();
        let Some((group, action)) = chance.pick(&queued).cloned() else { return };
        let memory = &mut self.groups[group];
        let Some(task) = memory.queue.remove(&action) else { return };
        // A name that is being cloned is taken.
        let is_same = |other: &Vm, vm: &Vm| (other.group, other.slot) == (vm.group, vm.slot);
        let is_taken =
            |other: &Task| matches!((other, &task), (Task::Clone(other), Task::Clone(vm)) if is_same(other, vm));
        if world.tasks.values().any(|(_, _, other)| is_taken(other)) {
            return;
        }
        memory.under_way.insert(action.clone());
        world.next += 1;
        self.known.insert(world.next);
        world.tasks.insert(world.next, (group, action, task));
    }

    /// Ends a task that runs.
    fn end(&mut self, world: &mut World, chance: &mut Chance) {
        let running: Vec<_> = world.tasks.keys().copied().collect();
        let Some(id) = chance.pick(&running).copied() else { return };
        let Some((group, action, task)) = world.tasks.remove(&id) else { return };
        let is_done = !chance.percent(10) && world.end(&task);
        if !self.known.remove(&id) {
            // What nobody remembers is waited for until it shows.
            self.mirror = world.vms.clone();
            return;
        }
        let memory = &mut self.groups[group];
        memory.under_way.remove(&action);
        match (action, is_done) {
            (Action::Clone(slot), true) => memory.record.see(slot),
            (Action::Reconfigure(id, hardware), true) => drop(memory.done.insert(id, hardware)),
            _ => {}
        }
    }
}

fn is_within(Amount { vms, cpus, storage_mib, .. }: Amount) -> bool {
    vms <= LIMITS.0 && cpus <= LIMITS.1 && storage_mib <= LIMITS.2 * 1024
}

fn play(seed: u64) {
    let mut chance = Chance::from_seed(seed);
    let specs: Vec<_> = (0..GROUPS).map(|group| spec(group, &mut chance)).collect();
    let records = vec![Record::default(); GROUPS];
    let mut world = World { vms: BTreeMap::new(), tasks: BTreeMap::new(), specs, records, next: 0 };
    let mut operator = Operator::start(&world);
    for step in 0..400 {
        match chance.below(100) {
            0..=39 => {
                let group = usize::try_from(chance.below(GROUPS as u64)).unwrap();
                operator.decide(&mut world, group, &mut chance);
            }
            40..=59 => operator.begin(&mut world, &mut chance),
            60..=79 => operator.end(&mut world, &mut chance),
            80..=89 => operator.mirror = world.vms.clone(),
            90..=97 => {
                let group = usize::try_from(chance.below(GROUPS as u64)).unwrap();
                world.specs[group] = spec(group, &mut chance);
            }
            _ => operator = Operator::start(&world),
        }
        let used = world.used();
        assert!(is_within(used), "seed {seed}, step {step}: {used:?}");
    }
    rest(&mut world, &mut operator, &mut chance, seed);
}

/// Lets all that was begun come to its end, and looks whether anything waits that would fit.
fn rest(world: &mut World, operator: &mut Operator, chance: &mut Chance, seed: u64) {
    while !world.tasks.is_empty() {
        operator.end(world, chance);
    }
    operator.mirror = world.vms.clone();
    for _ in 0..300 {
        let mut is_news = false;
        let before = operator.used(world, GROUPS, false);
        for group in 0..GROUPS {
            is_news |= operator.decide(world, group, chance);
            while operator.groups.iter().any(|memory| !memory.queue.is_empty()) {
                is_news = true;
                operator.begin(world, chance);
            }
            while !world.tasks.is_empty() {
                operator.end(world, chance);
            }
            operator.mirror = world.vms.clone();
        }
        let used = world.used();
        assert!(is_within(used), "seed {seed}, at rest: {used:?}");
        // What is seen to be free, others are told of.
        if is_news || operator.used(world, GROUPS, false) != before {
            continue;
        }
        for (group, memory) in operator.groups.iter().enumerate() {
            let spec = &world.specs[group];
            let there = world.vms.values().filter(|vm| vm.group == group).count();
            let fits = is_within(used.plus(Amount::of(size_of(spec))));
            assert!(!fits || there >= spec.replicas as usize, "seed {seed}: group {group} has {there} of {spec:?}");
            let lacks = there < spec.replicas as usize;
            assert!(!lacks || memory.held_back > 0, "seed {seed}: group {group} waits, and doesn't say so");
        }
        return;
    }
    panic!("seed {seed} doesn't come to rest");
}

#[test]
fn groups_that_share_a_quota_never_exceed_it_and_nothing_waits_that_fits() {
    if let Ok(seed) = std::env::var("HISTORY") {
        return play(seed.parse().expect("HISTORY is a number"));
    }
    for seed in 0..3000 {
        play(seed);
    }
}
