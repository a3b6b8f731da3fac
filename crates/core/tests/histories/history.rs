//! One history: random events, promises checked after each, then quiet, in which everything has to come to rest.

use std::{collections::BTreeSet, time::Duration};

use drover_core::{
    Action, Plan,
    group::{DeletionPolicy, Desired, Hardware, Power, Revision, ScaleIn, Strategy, UpdatePolicy},
    names::{self, Slot},
    plan,
    plan::outlived_shutdowns,
};

use super::{
    chance::Chance,
    operator::{Memory, grace, timestamp, virtual_time},
    world::World,
};

/// What may happen in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Edits,
    Faults,
    Crashes,
    Drift,
}

struct History {
    kind: Kind,
    chance: Chance,
    desired: Desired,
    world: World,
    /// One operator, or two at once.
    operators: Vec<Memory>,
    /// What a slow mirror shows.
    stale: Option<World>,
    told: bool,
}

pub(crate) fn play(kind: Kind, seed: u64, told: bool) {
    let mut chance = Chance::from_seed(seed);
    let desired = first_desired(&mut chance);
    let mut history = History {
        kind,
        chance,
        desired,
        world: World::default(),
        operators: vec![Memory::default()],
        stale: None,
        told,
    };
    if kind == Kind::Drift {
        history.world.folder = true;
        history.world.stranger();
    }
    for _ in 0..40 {
        history.happen();
        history.step();
    }
    history.come_to_rest();
}

impl History {
    /// Something from outside happens, or nothing.
    fn happen(&mut self) {
        if self.chance.percent(25) {
            self.edit();
        }
        match self.kind {
            Kind::Faults => {
                self.stale = self.chance.percent(40).then(|| self.stale.take().unwrap_or_else(|| self.world.clone()));
            }
            Kind::Crashes if self.chance.percent(20) => {
                let index = usize::try_from(self.chance.below(self.operators.len() as u64)).unwrap();
                self.operators[index] = Memory::default();
                self.tell("crash");
            }
            Kind::Crashes if self.chance.percent(5) && self.operators.len() == 1 => {
                self.operators.push(Memory::default());
                self.tell("a second operator");
            }
            Kind::Drift if self.chance.percent(30) => self.drift(),
            Kind::Edits | Kind::Crashes | Kind::Drift => {}
        }
    }

    /// Time passes, and each operator plans and acts.
    fn step(&mut self) {
        let limit = self.world.now + 1 + i64::try_from(self.chance.below(6)).unwrap();
        let ended = self.world.advance(limit);
        for index in 0..self.operators.len() {
            self.operators[index].learn(&ended, self.world.now);
            self.operators[index].tidy(&self.world);
            let plan = self.plan(index);
            self.check_word(index, &plan);
            for action in &plan.actions {
                self.act(index, action);
            }
        }
        self.check_slots();
    }

    /// What is said to be as declared is so; and where nothing is done, something will tell when to plan again.
    fn check_word(&self, index: usize, plan: &Plan) {
        if self.stale.is_some() {
            return;
        }
        if plan.settled {
            self.check_end();
        } else if plan.actions.is_empty() && plan.wake.is_none() {
            let is_told = self.desired.paused || self.operators[index].is_told_of_more(&self.world);
            assert!(is_told, "nobody would plan again: {:?} with {:#?}", self.desired, self.world);
        }
    }

    fn plan(&mut self, index: usize) -> Plan {
        // A mirror that lags shows the past, but the clock is right.
        let seen = self.stale.as_ref().unwrap_or(&self.world);
        let observed = self.operators[index].observe(seen);
        let now = timestamp(self.world.now);
        for id in outlived_shutdowns(&self.desired, &observed, now) {
            self.operators[index].shutdown_since.remove(&id);
        }
        plan(&self.desired, &observed, now)
    }

    fn act(&mut self, index: usize, action: &Action) {
        self.tell(&format!("operator {index}: {action:?}"));
        if let Action::Clone(slot) = action {
            self.check_ceiling(*slot);
        }
        let before = self.available();
        let faults = if self.kind == Kind::Faults { 20 } else { 0 };
        self.operators[index].act(action, &self.desired, &mut self.world, &mut self.chance, faults);
        self.check_availability(action, before);
    }

    /// Never two machines for a slot.
    fn check_slots(&self) {
        let mut slots = BTreeSet::new();
        for (machine, slot, _) in self.world.members() {
            assert!(slots.insert(slot), "two machines for slot {slot}: {machine:?}");
        }
    }

    /// Never more than replicas + maxSurge. A name that is on its way already asks for no further machine.
    fn check_ceiling(&self, slot: Slot) {
        let mut slots: BTreeSet<_> =
            self.world.members().map(|(_, slot, _)| slot).chain(self.world.cloning()).collect();
        if slots.insert(slot) && self.stale.is_none() && self.operators.len() == 1 {
            let ceiling = self.desired.replicas + self.desired.update.max_surge;
            let unknown = self
                .world
                .cloning()
                .filter(|slot| !self.operators[0].clones.values().any(|known| known == slot))
                .count();
            assert!(slots.len() <= ceiling as usize + unknown, "{} machines where {ceiling} are the most", slots.len());
        }
    }

    /// Never fewer available than replicas − maxUnavailable, by our own doing. Those that are on their way down count as down.
    fn check_availability(&self, action: &Action, before: usize) {
        let takes_down =
            matches!(action, Action::PowerOff(_) | Action::ShutdownGuest(_) | Action::Suspend(_) | Action::Destroy(_));
        let is_checked = self.desired.deletion.is_none() && self.desired.power == Power::On && self.kind == Kind::Edits;
        let after = self.available();
        if takes_down && is_checked && after < before {
            let floor = self.desired.replicas.saturating_sub(self.desired.update.max_unavailable) as usize;
            assert!(after >= floor, "{action:?} leaves {after} available where {floor} are the fewest");
        }
    }

    /// The machines that are available and not being taken down.
    fn available(&self) -> usize {
        let going: BTreeSet<_> = self.world.going_down().collect();
        let min_ready = i64::try_from(self.desired.update.min_ready.as_secs()).unwrap();
        let is_available = |machine: &super::world::Machine| {
            let grace = i64::try_from(self.desired.shutdown_grace.as_secs()).unwrap();
            let within_grace = |memory: &Memory| {
                memory.shutdown_since.get(&machine.id).is_some_and(|since| since + grace > self.world.now)
            };
            let asked = machine.off_at.is_some() || self.operators.iter().any(within_grace);
            machine.power == Power::On
                && machine.ready_at + min_ready <= self.world.now
                && !asked
                && !going.contains(&machine.id)
        };
        self.world.members().filter(|(machine, ..)| is_available(machine)).count()
    }

    /// The user changes their mind.
    fn edit(&mut self) {
        let chance = &mut self.chance;
        let desired = &mut self.desired;
        match chance.below(if desired.deletion.is_some() { 0 } else { 9 }) {
            0 => desired.replicas = u32::try_from(chance.below(6)).unwrap(),
            1 | 2 => desired.revision = Revision(chance.below(3)),
            3 => desired.hardware = hardware(chance),
            4 => desired.update = update(chance),
            5 => desired.power = *chance.pick(&[Power::On, Power::On, Power::Off, Power::Suspended]).unwrap(),
            6 => desired.paused = chance.percent(30),
            7 => desired.scale_in = *chance.pick(&[ScaleIn::Newest, ScaleIn::Oldest]).unwrap(),
            _ if chance.percent(10) => {
                let policies =
                    [DeletionPolicy::Delete, DeletionPolicy::Delete, DeletionPolicy::PowerOff, DeletionPolicy::Retain];
                desired.deletion = Some(*chance.pick(&policies).unwrap());
            }
            _ => desired.shutdown_grace = grace(chance),
        }
        let edited = format!("edit: {:?}", self.desired);
        self.tell(&edited);
    }

    /// Somebody does something in vCenter.
    fn drift(&mut self) {
        let made = self.world.members().filter(|(machine, ..)| !machine.being_made);
        let members: Vec<_> = made.map(|(machine, ..)| machine.id.clone()).collect();
        let Some(id) = self.chance.pick(&members).cloned() else { return };
        let what = self.chance.below(6);
        self.tell(&format!("drift {what} of {id:?}"));
        let other_hardware = hardware(&mut self.chance);
        let Some(machine) = self.world.machines.get_mut(&id) else { return };
        match what {
            0 => machine.power = Power::Off,
            1 => machine.hardware = other_hardware,
            2 => machine.name = "renamed".to_owned() + &id.0,
            3 => machine.in_folder = false,
            4 => machine.power = Power::Suspended,
            _ => {
                self.world.machines.remove(&id);
            }
        }
    }

    /// Nothing more happens from outside. Everything has to end as declared, and then nothing more is done.
    fn come_to_rest(&mut self) {
        self.desired.paused = false;
        self.stale = None;
        self.kind = if self.kind == Kind::Faults { Kind::Crashes } else { self.kind };
        self.tell("quiet");
        let last = self.world.now + 4000;
        loop {
            let plans: Vec<_> = (0..self.operators.len()).map(|index| self.plan(index)).collect();
            let at_rest =
                self.world.tasks.is_empty() && plans.iter().all(|plan| plan.actions.is_empty() && plan.settled);
            if at_rest {
                break;
            }
            assert!(
                self.world.now < last,
                "it never comes to rest: {:?} with {:#?}\n{plans:#?}",
                self.desired,
                self.world
            );
            let wake = plans.iter().filter_map(|plan| plan.wake).map(virtual_time).min();
            self.quiet_step(wake);
        }
        self.check_end();
    }

    fn quiet_step(&mut self, wake: Option<i64>) {
        let limit = wake.unwrap_or(self.world.now + 60).max(self.world.now + 1);
        let ended = self.world.advance(limit);
        for index in 0..self.operators.len() {
            self.operators[index].learn(&ended, self.world.now);
            self.operators[index].tidy(&self.world);
            for action in self.plan(index).actions {
                self.act(index, &action);
            }
        }
        self.check_slots();
    }

    fn check_end(&self) {
        let members: Vec<_> = self.world.members().collect();
        match self.desired.deletion {
            Some(DeletionPolicy::Delete) => {
                assert!(members.is_empty(), "{members:?}");
                let strangers = self.world.machines.values().any(|machine| machine.in_folder);
                assert_eq!(self.world.folder, strangers, "the folder stays for strangers, and for nobody else");
            }
            Some(DeletionPolicy::PowerOff) => assert!(members.iter().all(|(machine, ..)| machine.power == Power::Off)),
            Some(DeletionPolicy::Retain) => {}
            None => {
                assert_eq!(members.len(), self.desired.replicas as usize);
                for (machine, slot, revision) in members {
                    let name = names::member(&self.desired.name, &self.desired.uid, slot);
                    assert!(
                        machine.power == self.desired.power && machine.name == name && machine.in_folder,
                        "{machine:?}"
                    );
                    if self.desired.update.strategy != Strategy::OnDelete {
                        let made_of = (revision, machine.hardware);
                        assert_eq!(made_of, (self.desired.revision, self.desired.hardware), "{machine:?}");
                    }
                }
            }
        }
        if self.kind == Kind::Drift {
            assert!(
                self.world.machines.values().any(|machine| machine.marker.is_none()),
                "the stranger is still there"
            );
        }
    }

    fn tell(&self, what: &str) {
        if self.told {
            println!("{:>5}: {what}", self.world.now);
        }
    }
}

fn first_desired(chance: &mut Chance) -> Desired {
    Desired {
        uid: "uid".to_owned(),
        namespace: "ns".to_owned(),
        name: "group".to_owned(),
        replicas: u32::try_from(chance.below(6)).unwrap(),
        hardware: hardware(chance),
        revision: Revision(0),
        power: Power::On,
        update: update(chance),
        scale_in: ScaleIn::Newest,
        shutdown_grace: grace(chance),
        deletion: None,
        lost_after: Some(Duration::from_mins(5)),
        paused: false,
    }
}

fn hardware(chance: &mut Chance) -> Hardware {
    Hardware { cpus: 1 + u32::try_from(chance.below(3)).unwrap(), memory_mib: 1024 * (1 + chance.below(2)) }
}

fn update(chance: &mut Chance) -> UpdatePolicy {
    let strategies = [Strategy::InPlaceFirst, Strategy::InPlaceFirst, Strategy::Replace, Strategy::OnDelete];
    let max_unavailable = u32::try_from(chance.below(3)).unwrap();
    let max_surge = u32::try_from(chance.below(3)).unwrap();
    UpdatePolicy {
        strategy: *chance.pick(&strategies).unwrap(),
        // One of them has to allow something, or no update could ever begin.
        max_unavailable: if max_surge == 0 { max_unavailable.max(1) } else { max_unavailable },
        max_surge,
        min_ready: Duration::from_secs(if chance.percent(70) { 0 } else { 10 }),
        progress_deadline: Duration::from_mins(10),
    }
}
