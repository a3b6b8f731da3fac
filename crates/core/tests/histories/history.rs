//! One history: random events, promises checked after each, then quiet, in which everything has to come to rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use drover_core::{
    Action, Subject,
    names::{self, Slot},
    vmgroup::{
        DeletionPolicy, Desired, Hardware, MachineId, Member, Power, Revision, Room, ScaleIn, Strategy, UpdatePolicy,
        inventory::Marker, record::Stage,
    },
};

use super::{
    chance::Chance,
    operator::{Mishaps, Operator, Place, Reconciled, Stored},
    world::{BASE, ELSEWHERE, Machine, Outcome, Task, TaskId, Time, Work, World, timestamp},
};

/// How long a VM that isn't seen is waited for.
const LOST_AFTER: Time = 300;

/// What may happen in a history. Each has some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trial {
    /// Calls are refused or unanswered, tasks fail before and after their effect, the template is gone for a while.
    Faults,
    /// The mirror shows the past; the ends of tasks are told late, or never.
    LateNews,
    /// Crashes, also between any two operations and around each write.
    Crashes,
    /// Another operator works beside the first.
    TwoOperators,
    /// vCenter is away for a while.
    Outages,
    /// People change, rename, move, power and destroy members.
    Drift,
    /// People rename, move and destroy the group's folder.
    Folders,
    /// Members are hidden, disconnected, unregistered and registered again.
    Disappearance,
    /// People copy members.
    Copies,
    /// The operator's clock is set.
    Clock,
    /// The group may have more now, and less then.
    Quota,
    /// Members are marked to go first.
    Marks,
}

const TRIALS: [Trial; 12] = [
    Trial::Faults,
    Trial::LateNews,
    Trial::Crashes,
    Trial::TwoOperators,
    Trial::Outages,
    Trial::Drift,
    Trial::Folders,
    Trial::Disappearance,
    Trial::Copies,
    Trial::Clock,
    Trial::Quota,
    Trial::Marks,
];

/// How often each thing has happened.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state in disguise")]
struct History<'a> {
    trials: BTreeSet<Trial>,
    chance: Chance,
    desired: Desired,
    stored: Stored,
    room: Option<Room>,
    marked: BTreeSet<String>,
    world: World,
    operators: Vec<Operator>,
    /// What a slow mirror shows.
    stale: Option<World>,
    /// The ends of tasks that are told later.
    late: Vec<(Time, TaskId, Outcome)>,
    /// Until when vCenter is away.
    away_until: Option<Time>,
    skew: Time,
    was_clock_set: bool,
    no_template: bool,
    /// The incidents that a person has said to go on after.
    released: Vec<String>,
    /// The machines that were given up for lost, before another took their place.
    given_up: BTreeSet<MachineId>,
    is_quiet: bool,
    told: bool,
    counts: &'a mut Counts,
}

pub(crate) fn play(seed: u64, told: bool, counts: &mut Counts) {
    let mut chance = Chance::from_seed(seed);
    let mut trials: BTreeSet<_> = TRIALS.into_iter().filter(|_| chance.percent(30)).collect();
    if trials.contains(&Trial::TwoOperators) {
        // Leases keep two from working at once. Where they do all the same, each sees what is so.
        trials.remove(&Trial::LateNews);
    }
    let desired = first_desired(&mut chance);
    let mut history = History {
        trials,
        chance,
        desired,
        stored: Stored::new(),
        room: None,
        marked: BTreeSet::new(),
        world: World::default(),
        operators: vec![Operator::start(0)],
        stale: None,
        late: Vec::new(),
        away_until: None,
        skew: 0,
        was_clock_set: false,
        no_template: false,
        released: Vec::new(),
        given_up: BTreeSet::new(),
        is_quiet: false,
        told,
        counts,
    };
    history.world.folders.insert(BASE.to_owned(), ("base".to_owned(), "dc".to_owned()));
    history.world.folders.insert(ELSEWHERE.to_owned(), ("elsewhere".to_owned(), "dc".to_owned()));
    history.tell(&format!("{:?}", history.trials));
    for _ in 0..40 {
        history.happen();
        history.step();
    }
    history.come_to_rest();
}

impl History<'_> {
    fn has(&mut self, trial: Trial, percent: u64) -> bool {
        self.trials.contains(&trial) && self.chance.percent(percent)
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        self.tell(what);
    }

    fn clock(&self) -> Time {
        self.world.now + self.skew
    }

    /// Things from outside happen, or none.
    fn happen(&mut self) {
        if self.chance.percent(25) {
            self.edit();
        }
        self.stale = if self.has(Trial::LateNews, 40) {
            self.count("mirror late");
            Some(self.stale.take().unwrap_or_else(|| self.world.clone()))
        } else {
            None
        };
        if self.has(Trial::Faults, 10) {
            self.no_template = !self.no_template;
            self.count("template gone or back");
        }
        if self.has(Trial::Crashes, 15) {
            let index = usize::try_from(self.chance.below(self.operators.len() as u64)).unwrap();
            self.operators[index] = Operator::start(self.world.now);
            self.count("crash at rest");
        }
        if self.operators.len() == 1 && self.has(Trial::TwoOperators, 10) {
            self.operators.push(Operator::start(self.world.now));
            self.count("second operator");
        }
        if self.away_until.is_none() && self.has(Trial::Outages, 10) {
            self.away_until = Some(self.world.now + 5 + i64::try_from(self.chance.below(120)).unwrap());
            self.count("outage");
        }
        if self.has(Trial::Drift, 30) {
            self.drift();
        }
        if self.has(Trial::Folders, 10) {
            self.meddle_with_folder();
        }
        if self.has(Trial::Disappearance, 25) {
            self.disappear();
        }
        if self.has(Trial::Copies, 15) {
            self.copy();
        }
        if self.has(Trial::Clock, 10) {
            self.skew = *self.chance.pick(&[0, 3600, -3600, 30]).unwrap();
            self.was_clock_set = true;
            self.count("clock set");
        }
        if self.has(Trial::Quota, 30) {
            self.room = room(&mut self.chance);
            self.count("quota");
        }
        if self.has(Trial::Marks, 20) {
            let slot = Slot(u32::try_from(self.chance.below(6)).unwrap());
            let name = names::member(&self.desired.name, &self.desired.marker_uid, slot);
            if !self.marked.remove(&name) {
                self.marked.insert(name);
            }
            self.count("mark");
        }
    }

    /// Time passes, and each operator plans and acts.
    fn step(&mut self) {
        // A mirror is not late for minutes: that is an outage.
        let longest = if self.stale.is_none() && self.chance.percent(10) { 400 } else { 6 };
        let limit = self.world.now + 1 + i64::try_from(self.chance.below(longest)).unwrap();
        self.pass(limit);
        if self.is_away() {
            return;
        }
        for index in 0..self.operators.len() {
            self.reconcile(index);
        }
    }

    /// Whether vCenter is away. When it is back, all of it is read anew.
    fn is_away(&mut self) -> bool {
        let Some(until) = self.away_until else { return false };
        if self.world.now < until && !self.is_quiet {
            return true;
        }
        self.away_until = None;
        self.stale = None;
        let now = timestamp(self.clock());
        for operator in &mut self.operators {
            operator.in_flight.vcenter_is_back();
            operator.in_flight.restart_clocks(now);
        }
        false
    }

    /// Time passes, and the ends of tasks are told.
    fn pass(&mut self, limit: Time) {
        let ended = self.world.advance(limit);
        self.check_doubles();
        for (task, outcome) in ended {
            let told_at = match () {
                () if self.away_until.is_some() => Time::MAX,
                () if self.is_quiet => self.world.now,
                () if self.has(Trial::LateNews, 15) => {
                    self.count("end of a task told late");
                    self.world.now + i64::try_from(self.chance.below(20)).unwrap()
                }
                () if self.has(Trial::LateNews, 10) => {
                    self.count("end of a task told to nobody");
                    Time::MAX
                }
                () => self.world.now,
            };
            self.late.push((told_at, task, outcome));
        }
        let (due, later): (Vec<_>, _) =
            std::mem::take(&mut self.late).into_iter().partition(|(at, ..)| *at <= self.world.now || *at == Time::MAX);
        self.late = later;
        let now = timestamp(self.clock());
        for (at, task, outcome) in due {
            for operator in &mut self.operators {
                if at == Time::MAX {
                    operator.lose(task, now);
                } else {
                    operator.learn(task, outcome.clone(), now, &mut self.chance);
                }
            }
        }
    }

    fn reconcile(&mut self, index: usize) -> Reconciled {
        let is_exact = self.stale.is_none() && self.operators.len() == 1 && self.late.is_empty();
        let known: BTreeSet<_> = self.operators[index].tasks.keys().copied().collect();
        let is_known = self.world.tasks.iter().all(|task| known.contains(&task.id));
        let before = self.world.clone();
        let mishaps = self.mishaps();
        let mut place = Place {
            desired: &self.desired,
            stored: &mut self.stored,
            world: &mut self.world,
            stale: self.stale.as_ref(),
            room: self.room,
            marked: &self.marked,
            released: &self.released,
            skew: self.skew,
            mishaps,
            chance: &mut self.chance,
            counts: self.counts,
        };
        let done = self.operators[index].reconcile(&mut place);
        for action in &done.actions {
            self.tell(&format!("operator {index}: {action:?}"));
        }
        if self.told && std::env::var_os("OBSERVED").is_some() {
            self.tell(&format!("{:?}\n       {:?} {:?}", done.observed, done.plan, done.incident));
        }
        self.check_doubles();
        self.note_given_up(index);
        self.check_policy(&done);
        self.check_room(&done);
        // What a guest was asked before a crash, nobody knows.
        let is_asked =
            |member: &Member| before.machines.get(&member.id).is_some_and(|machine| machine.off_at.is_some());
        let knows_all = done.observed.members.iter().all(|member| !is_asked(member) || member.shutdown_since.is_some());
        if is_exact && is_known && knows_all {
            self.check_bounds(&before, &done);
        }
        if self.stale.is_none() && !done.has_crashed {
            self.check_word(index, &done);
        }
        if done.has_crashed {
            self.tell("it crashes");
            self.operators[index] = Operator::start(self.world.now);
        }
        done
    }

    fn mishaps(&self) -> Mishaps {
        let faults = u64::from(self.trials.contains(&Trial::Faults) && !self.is_quiet);
        let crash = u64::from(self.trials.contains(&Trial::Crashes) && !self.is_quiet);
        Mishaps {
            refused: 8 * faults,
            unanswered: 5 * faults,
            failed: 8 * faults,
            failed_after_effect: 5 * faults,
            crash: 4 * crash,
            no_template: self.no_template,
        }
    }

    /// Never two machines for a slot, unless one had been out of sight for as long as was to be waited for.
    fn check_doubles(&mut self) {
        let everywhere = self.world.machines.iter().chain(&self.world.unregistered);
        let mut by_slot: BTreeMap<Slot, Vec<(&MachineId, &Machine)>> = BTreeMap::new();
        for (id, machine) in everywhere.filter(|(id, _)| !self.given_up.contains(id)) {
            if let Some(slot) = machine.slot() {
                by_slot.entry(slot).or_default().push((id, machine));
            }
        }
        let mut given_up = Vec::new();
        for (slot, mut machines) in by_slot.into_iter().filter(|(_, machines)| machines.len() > 1) {
            machines.sort_by_key(|(id, _)| (*id).clone());
            machines.pop();
            for (id, machine) in machines {
                // The last one's clone may have been asked for a moment before the first was back.
                let is_lost = machine.away.is_some_and(|(since, back)| {
                    let until = back.unwrap_or(self.world.now);
                    until >= self.world.now - 30 && until - since >= LOST_AFTER - 60
                });
                assert!(is_lost, "two machines for slot {slot} at {}: {id:?} {machine:?}", self.world.now);
                given_up.push(id.clone());
            }
        }
        if !given_up.is_empty() {
            self.count("given up and replaced");
        }
        self.given_up.extend(given_up);
    }

    /// A machine that is out of sight keeps its place in the record for as long as it is to be waited for.
    fn note_given_up(&mut self, index: usize) {
        let record = self.operators[index].in_flight.record.now();
        let is_recorded = |machine: &Machine| {
            let Some(slot) = machine.slot() else { return true };
            let made = machine.marker.as_ref().and_then(|marker| Some(marker.made.as_ref()?.incarnation));
            let entry = record.and_then(|record| record.get(slot));
            let lost = record.and_then(|record| record.lost(slot));
            entry.is_some_and(|entry| Some(entry.incarnation) == made) || lost.is_some() && lost == made
        };
        let everywhere = self.world.machines.iter().chain(&self.world.unregistered);
        let away = everywhere.filter_map(|(id, machine)| Some((id, machine, machine.away?.0, machine.away?.1)));
        let mut gone = Vec::new();
        for (id, machine, since, back) in
            away.filter(|(id, machine, ..)| machine.is_original() && !self.given_up.contains(*id))
        {
            if !is_recorded(machine) {
                let until = back.filter(|_| self.stale.is_none()).unwrap_or(self.world.now);
                let lasts = if until < self.world.now - 30 { 0 } else { until - since };
                assert!(lasts >= LOST_AFTER - 60, "{id:?} is given up after {lasts} s: {machine:?}");
                gone.push(id.clone());
            }
        }
        if !gone.is_empty() {
            self.count("given up");
        }
        self.given_up.extend(gone);
    }

    /// What a spec says that is not to be done is not done.
    fn check_policy(&self, done: &Reconciled) {
        let Desired { deletion, paused, .. } = self.desired;
        let actions = &done.actions;
        assert!(!(paused && deletion.is_none() && !actions.is_empty()), "paused, and {actions:?}");
        let destroys = |action: &Action| matches!(action, Action::Destroy(_) | Action::DestroyFolder);
        match deletion {
            Some(DeletionPolicy::Retain) => assert!(actions.is_empty(), "Retain, and {actions:?}"),
            Some(DeletionPolicy::PowerOff) => {
                let bad = |action: &Action| destroys(action) || action.cloned_slot().is_some();
                assert!(!actions.iter().any(bad), "PowerOff, and {actions:?}");
            }
            _ => {}
        }
        if done.incident.is_some() {
            assert!(!actions.iter().any(Action::makes_or_destroys), "stopped, and {actions:?}");
        }
        let is_rest = |action: &Action| deletion.is_none() && matches!(action, Action::DestroyLeftFolder(_));
        assert!(!done.plan.settled || actions.iter().all(is_rest), "settled, and {actions:?}");
    }

    /// Bounds that hold wherever all is known: the ceiling, the floor of availability, who goes, and why.
    fn check_bounds(&mut self, before: &World, done: &Reconciled) {
        if self.desired.deletion.is_some() {
            return;
        }
        let members: BTreeMap<_, _> = done.observed.members.iter().map(|member| (&member.id, member)).collect();
        let mut slots: BTreeSet<_> = done.observed.members.iter().map(|member| member.slot).collect();
        slots.extend(before.clones().filter_map(|(_, machine)| machine.slot()));
        let mut going: BTreeSet<_> = before.going_down().into_iter().cloned().collect();
        for action in &done.actions {
            if let Action::Clone(slot) = action
                && slots.insert(*slot)
            {
                let ceiling = self.desired.replicas + self.desired.update.max_surge;
                assert!(slots.len() <= ceiling as usize, "{} machines where {ceiling} are the most", slots.len());
            }
            let takes_down = matches!(
                action,
                Action::PowerOff(_) | Action::ShutdownGuest(_) | Action::Suspend(_) | Action::Destroy(_)
            );
            let Subject::Machine(id) = action.subject() else { continue };
            let Some(member) = members.get(&id).filter(|_| takes_down) else { continue };
            let was = self.available(before, &done.observed.members, &going);
            self.check_reason(action, member, done, &going);
            going.insert(id);
            let is = self.available(before, &done.observed.members, &going);
            let floor = self.desired.replicas.saturating_sub(self.desired.update.max_unavailable) as usize;
            // How long one has been ready, or asked to shut down, a clock that was set doesn't say.
            let takes_time = !self.desired.update.min_ready.is_zero() || !self.desired.shutdown_grace.is_zero();
            let is_clear = !(self.was_clock_set && takes_time);
            let is_bound = self.desired.power == Power::On && is < was && is_clear;
            assert!(!is_bound || is >= floor, "{action:?} leaves {is} available where {floor} are the fewest");
        }
    }

    /// Who goes, goes for a reason: there are too many, or it is to be replaced; and then in the order that is declared.
    fn check_reason(&self, action: &Action, member: &Member, done: &Reconciled, going: &BTreeSet<MachineId>) {
        let Desired { update, hardware, revision, replicas, power, .. } = &self.desired;
        let is_current = |member: &Member| member.revision == *revision && member.hardware == *hardware;
        let is_kept = match update.strategy {
            Strategy::OnDelete => true,
            // It is changed in place, where it may be down for that.
            Strategy::InPlaceFirst => {
                member.revision == *revision && (update.max_unavailable > 0 || is_current(member))
            }
            Strategy::Replace => is_current(member),
        };
        if !is_kept {
            return;
        }
        let slots: BTreeSet<_> =
            done.observed.members.iter().map(|member| member.slot).chain(done.observed.cloning.clone()).collect();
        let is_surplus = slots.len() > *replicas as usize;
        if matches!(action, Action::Destroy(_)) {
            assert!(is_surplus, "{member:?} is destroyed for nothing: {:?}", self.desired);
        }
        let is_well = |member: &Member| {
            is_current(member) && member.power == *power && member.unreachable_since.is_none() && !member.busy
        };
        let now = timestamp(self.clock());
        let is_available = member.ready_since.is_some_and(|since| since + update.min_ready <= now);
        let is_ready = is_available && member.shutdown_since.is_none();
        if *power != Power::On || !is_well(member) || member.marked || !is_ready {
            return;
        }
        // It goes because there are too many, and others would have to go before it.
        let goes_first = |other: &&Member| {
            let is_idle = other.not_before.is_none() && other.shutdown_since.is_none();
            let is_left = is_well(other) && !going.contains(&other.id) && is_idle;
            is_left && other.id != member.id && other.marked
        };
        let other = done.observed.members.iter().find(goes_first);
        assert!(other.is_none(), "{action:?} before {other:?}, which is marked to go first");
    }

    /// The machines that are available and not being taken down.
    fn available(&self, world: &World, members: &[Member], going: &BTreeSet<MachineId>) -> usize {
        let min_ready = i64::try_from(self.desired.update.min_ready.as_secs()).unwrap();
        let grace = i64::try_from(self.desired.shutdown_grace.as_secs()).unwrap();
        let now = timestamp(self.clock());
        let is_available = |member: &&Member| {
            let Some(machine) = world.machines.get(&member.id) else { return false };
            let within_grace = |since: &drover_core::Timestamp| now.duration_since(*since).as_secs() < grace;
            let is_asked = machine.off_at.is_some() || member.shutdown_since.as_ref().is_some_and(within_grace);
            machine.power == Power::On
                && machine.disconnected.is_none()
                && machine.ready_at + min_ready <= world.now
                && !is_asked
                && !member.busy
                && !going.contains(&member.id)
        };
        members.iter().filter(is_available).count()
    }

    /// Never more clones or growths than there is room for, and nothing taken down for another without.
    fn check_room(&self, done: &Reconciled) {
        let Some(room) = self.room else { return assert_eq!(done.plan.held_back, 0) };
        let (plan, observed) = (&done.plan, &done.observed);
        let count = |rule: &dyn Fn(&Action) -> bool| plan.actions.iter().filter(|action| rule(action)).count();
        let member = |action: &Action| match action.subject() {
            Subject::Machine(id) => observed.members.iter().find(|member| member.id == id),
            _ => None,
        };
        let clones = count(&|action| action.cloned_slot().is_some());
        assert!(clones <= room.clones as usize, "{clones} clones in {room:?}");
        let grows = |action: &Action| match (action, member(action)) {
            (Action::Reconfigure(_, to), Some(Member { hardware: from, .. })) => {
                to.cpus > from.cpus || to.memory_mib > from.memory_mib
            }
            _ => false,
        };
        assert!(count(&grows) <= room.growths as usize, "{:?} in {room:?}", plan.actions);
        // The rest is what other hardware, or being off, is declared for.
        let is_kept = |member: &Member| {
            member.hardware == self.desired.hardware
                && self.desired.power == Power::On
                && self.desired.deletion.is_none()
        };
        let goes = |action: &Action| {
            let is_end = matches!(action, Action::Destroy(_) | Action::PowerOff(_) | Action::ShutdownGuest(_));
            is_end && member(action).is_some_and(is_kept)
        };
        let seen: BTreeSet<_> =
            observed.members.iter().map(|member| member.slot).chain(observed.cloning.clone()).collect();
        let surplus = seen.len().saturating_sub(self.desired.replicas as usize);
        assert!(room.replacements || count(&goes) <= surplus, "{:?} in {room:?}: {observed:#?}", plan.actions);
    }

    /// What is said to be as declared is so; and where nothing is done, something will tell when to plan again.
    fn check_word(&self, index: usize, done: &Reconciled) {
        let plan = &done.plan;
        if plan.settled {
            return self.check_end();
        }
        if !plan.actions.is_empty() || plan.wake.is_some() || plan.held_back > 0 || self.desired.paused {
            return;
        }
        let operator = &self.operators[index];
        let is_told = !self.world.tasks.is_empty()
            || !operator.tasks.is_empty()
            || !self.late.is_empty()
            || operator.in_flight.wake(timestamp(self.clock())).is_some()
            || done.incident.is_some()
            || self.world.machines.values().any(|machine| {
                machine.ready_at > self.world.now
                    || machine.off_at.is_some()
                    || machine.is_hidden
                    || machine.disconnected.is_some()
            })
            || !done.observed.held.is_empty();
        assert!(is_told, "nobody would plan again: {:?} with {:#?}\n{:#?}", self.desired, self.world, done.observed);
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
        self.stored.note_edit();
        self.count("edit");
        self.tell(&format!("{:?}", self.desired));
    }

    /// A member that somebody finds in vCenter. One that the record doesn't know yet is not met by anybody in that second.
    fn somebodys_choice(&mut self) -> Option<MachineId> {
        let record = self.stored.record();
        let is_known = |marker: &Marker| {
            let entry = record.as_ref().and_then(|record| record.get(marker.slot));
            entry.is_some_and(|entry| entry.stage != Stage::Pending)
        };
        let made = self.world.members().filter(|(_, machine, marker)| !machine.being_made && is_known(marker));
        let ids: Vec<_> = made.map(|(id, ..)| id.clone()).collect();
        self.chance.pick(&ids).cloned()
    }

    /// Somebody changes a member.
    fn drift(&mut self) {
        let Some(id) = self.somebodys_choice() else { return };
        let other_hardware = hardware(&mut self.chance);
        let what = self.chance.below(6);
        if what == 5 {
            self.world.destroy(&id);
            return self.count("member destroyed");
        }
        let Some(machine) = self.world.machines.get_mut(&id) else { return };
        let drift = match what {
            0 => {
                machine.power = Power::Off;
                "member powered off"
            }
            1 => {
                machine.hardware = other_hardware;
                "member's hardware changed"
            }
            2 => {
                machine.name = format!("renamed-{}", id.0);
                "member renamed"
            }
            3 => {
                ELSEWHERE.clone_into(&mut machine.folder);
                "member moved away"
            }
            _ => {
                machine.power = Power::Suspended;
                "member suspended"
            }
        };
        self.count(drift);
    }

    /// Somebody does something to the group's folder.
    fn meddle_with_folder(&mut self) {
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let found = self.world.folders.iter().find(|(_, (own, parent))| *own == name && parent == BASE);
        let Some(id) = found.map(|(id, _)| id.clone()) else { return };
        let what = self.chance.below(3);
        let is_busy = self.world.clones().any(|(_, machine)| machine.folder == id)
            || self.world.machines.values().any(|machine| machine.folder == id && machine.being_made);
        match (what, self.world.folders.get_mut(&id)) {
            (0, Some(folder)) => {
                folder.0 = format!("renamed-{id}");
                self.count("folder renamed");
            }
            (1, Some(folder)) => {
                ELSEWHERE.clone_into(&mut folder.1);
                self.count("folder moved");
            }
            _ if !is_busy => {
                let inside: Vec<_> = self
                    .world
                    .machines
                    .iter()
                    .filter(|(_, machine)| machine.folder == id)
                    .map(|(id, _)| id.clone())
                    .collect();
                for machine in &inside {
                    self.world.destroy(machine);
                }
                self.world.folders.remove(&id);
                self.count("folder destroyed");
            }
            _ => {}
        }
    }

    /// Members go out of sight, or come back.
    fn disappear(&mut self) {
        let now = self.world.now;
        match self.chance.below(5) {
            0 => self.reappear(),
            what => {
                let Some(id) = self.somebodys_choice() else { return };
                let Some(machine) = self.world.machines.get_mut(&id) else { return };
                match what {
                    1 => {
                        machine.leave(now);
                        machine.is_hidden = true;
                        self.count("member hidden");
                    }
                    2 => {
                        // It is shown, and nothing is known of how it is.
                        machine.disconnected.get_or_insert(now);
                        self.count("member disconnected");
                    }
                    _ if self.world.tasks.is_empty() => {
                        machine.leave(now);
                        let machine = machine.clone();
                        self.world.machines.remove(&id);
                        self.world.unregistered.insert(id, machine);
                        self.count("member unregistered");
                    }
                    _ => {}
                }
            }
        }
    }

    /// All that was out of sight is back.
    fn reappear(&mut self) {
        let now = self.world.now;
        for machine in self.world.machines.values_mut() {
            machine.come_back(now);
            (machine.is_hidden, machine.disconnected) = (false, None);
        }
        let back = std::mem::take(&mut self.world.unregistered);
        for (id, mut machine) in back {
            let is_free = |name: &str| {
                !self.world.machines.values().any(|other| other.folder == machine.folder && other.name == name)
            };
            let goes = |task: &Task| matches!(&task.work, Work::DestroyFolder(folder) if folder.0 == machine.folder);
            let is_there = self.world.folders.contains_key(&machine.folder) && !self.world.tasks.iter().any(goes);
            if !is_there || !is_free(&machine.name) {
                (machine.folder, machine.name) = (ELSEWHERE.to_owned(), format!("back-{}", id.0));
            }
            machine.come_back(now);
            (machine.is_hidden, machine.disconnected) = (false, None);
            machine.power = Power::Off;
            self.world.machines.insert(id, machine);
        }
        self.count("all that were out of sight are back");
    }

    /// Somebody copies a member, marker and all.
    fn copy(&mut self) {
        let Some(id) = self.somebodys_choice() else { return };
        let Some(machine) = self.world.machines.get(&id) else { return };
        let copy = Machine {
            instance: format!("copy-{}-{}", id.0, self.world.now),
            name: format!("copy-{}-{}", id.0, self.world.now),
            is_hidden: false,
            disconnected: None,
            ..machine.clone()
        };
        self.world.add(copy);
        self.count("member copied");
    }

    /// Nothing more happens from outside. Everything has to end as declared, and then nothing more is done.
    fn come_to_rest(&mut self) {
        self.tell("quiet");
        self.is_quiet = true;
        if self.desired.paused {
            self.desired.paused = false;
            self.stored.note_edit();
        }
        (self.room, self.stale, self.skew, self.no_template) = (None, None, 0, false);
        self.reappear();
        let last = self.world.now + 8000;
        loop {
            let mut wake = None;
            let mut is_at_rest = true;
            let mut is_abandoned = self.desired.deletion == Some(DeletionPolicy::Delete);
            self.is_away();
            self.clear_up();
            for index in 0..self.operators.len() {
                let done = self.reconcile(index);
                is_at_rest &= done.plan.settled;
                is_abandoned &= done.observed.members.is_empty() && !done.observed.held.is_empty();
                wake = [wake, done.plan.wake, self.operators[index].in_flight.wake(timestamp(self.clock()))]
                    .into_iter()
                    .flatten()
                    .min();
                if let Some(incident) = done.incident
                    && !self.released.contains(&incident)
                {
                    self.count("incident released");
                    self.released.push(incident);
                    wake = Some(timestamp(self.clock() + 1));
                }
                assert!(
                    self.world.now < last,
                    "it never comes to rest: {:?} with {:#?}\n{:#?}\n{:#?}",
                    self.desired,
                    self.world,
                    done.plan,
                    done.observed,
                );
            }
            if is_at_rest && self.world.tasks.is_empty() {
                break;
            }
            if is_abandoned && self.world.now > last - 4000 {
                // What was destroyed while no operator ran is waited for, until the user says not to.
                return self.count("abandoned");
            }
            let wake = wake.map(|wake| wake.as_second() - timestamp(0).as_second());
            let limit = wake.unwrap_or(self.world.now + 60).max(self.world.now + 1);
            self.pass(limit);
        }
        self.check_end();
        self.check_no_churn();
    }

    /// A person moves machines away that were given up, and stand where others are to be.
    fn clear_up(&mut self) {
        let given_up = self.given_up.clone();
        for (id, machine) in self.world.machines.iter_mut().filter(|(id, _)| given_up.contains(id)) {
            ELSEWHERE.clone_into(&mut machine.folder);
            machine.name = format!("given-up-{}", id.0);
        }
    }

    /// Nothing is done to what is as declared, however long it is looked at.
    fn check_no_churn(&mut self) {
        // What may have been on its way before a crash is not, by then.
        self.world.now += 30;
        (0..self.operators.len()).for_each(|index| drop(self.reconcile(index)));
        let version = self.stored.group.metadata.resource_version.clone();
        for later in [1, 60, 3600] {
            self.world.now += later;
            for index in 0..self.operators.len() {
                let mut done = self.reconcile(index);
                done.actions.retain(|action| !matches!(action, Action::DestroyLeftFolder(_)));
                assert!(done.actions.is_empty() && done.plan.settled, "it was at rest, and {:?}", done.plan);
            }
        }
        let is_same = self.operators.len() > 1
            || self.trials.contains(&Trial::Folders)
            || version == self.stored.group.metadata.resource_version;
        assert!(is_same, "the record was written, and nothing had changed");
    }

    fn check_end(&self) {
        let is_lost = |machine: &Machine| matches!(machine.away, Some((since, None)) if self.world.now - since >= LOST_AFTER - 60);
        let own = self.world.members();
        let own = own.filter(|(id, machine, _)| !self.given_up.contains(*id) && !is_lost(machine));
        let members: Vec<_> = own.collect();
        let name = names::folder(&self.desired.namespace, &self.desired.name);
        let folder = self.world.folders.iter().find(|(_, (own, parent))| *own == name && parent == BASE);
        match self.desired.deletion {
            Some(DeletionPolicy::Delete) => {
                assert!(members.is_empty(), "{members:?}");
                let is_used = folder.is_some_and(|(id, _)| self.world.machines.values().any(|one| one.folder == *id));
                // One that seemed empty several times, and wasn't, is let be.
                let is_let_be = !self.given_up.is_empty();
                assert!(
                    folder.is_none() || is_used || is_let_be,
                    "the folder stays for strangers, and for nobody else"
                );
            }
            Some(DeletionPolicy::PowerOff) => {
                let is_off = |machine: &Machine| machine.power == Power::Off || machine.is_hidden;
                assert!(members.iter().all(|(_, machine, _)| is_off(machine)), "{members:?}");
            }
            Some(DeletionPolicy::Retain) => {}
            None => {
                assert_eq!(members.len(), self.desired.replicas as usize, "{members:#?}");
                for (_, machine, marker) in members {
                    let name = names::member(&self.desired.name, &self.desired.marker_uid, marker.slot);
                    let is_in_place = folder.is_some_and(|(id, _)| machine.folder == *id);
                    assert!(machine.power == self.desired.power && machine.name == name && is_in_place, "{machine:?}");
                    if self.desired.update.strategy != Strategy::OnDelete {
                        let made_of = (marker.revision, machine.hardware);
                        assert_eq!(made_of, (self.desired.revision, self.desired.hardware), "{machine:?}");
                    }
                }
            }
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
        marker_uid: "uid".to_owned(),
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
        lost_after: Some(Duration::from_secs(LOST_AFTER.unsigned_abs())),
        paused: false,
    }
}

/// A grace that is sometimes there.
fn grace(chance: &mut Chance) -> Duration {
    Duration::from_secs(if chance.percent(50) { 0 } else { 8 })
}

/// Some room, or as much as is declared.
fn room(chance: &mut Chance) -> Option<Room> {
    let some = Room {
        clones: u32::try_from(chance.below(3)).unwrap(),
        replacements: chance.percent(50),
        growths: u32::try_from(chance.below(3)).unwrap(),
    };
    *chance.pick(&[None, Some(Room::NONE), Some(some)]).unwrap()
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
