//! One history: random events, promises checked after each, then quiet, in which everything has to come to rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Arguments,
};

use drover_core::vmgroup::{Desired, MachineId, Member, Room};

use super::{
    churn::Rest,
    edits::first_desired,
    model::{
        chance::Chance,
        operator::{Mishaps, Operator, Place, Reconciled},
        stored::Stored,
        world::{BASE, ELSEWHERE, Outcome, TaskId, Time, World, timestamp},
    },
    news::News,
    troubles::{TRIALS, Trial},
};

/// How long a VM that isn't seen is waited for.
pub(crate) const LOST_AFTER: Time = 300;

/// How often each thing has happened.
pub(crate) type Counts = BTreeMap<&'static str, u64>;

#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own, not a state in disguise")]
pub(crate) struct History<'a> {
    pub trials: BTreeSet<Trial>,
    pub chance: Chance,
    pub desired: Desired,
    pub stored: Stored,
    pub room: Option<Room>,
    pub marked: BTreeSet<String>,
    pub world: World,
    pub operators: Vec<Operator>,
    /// What a slow mirror shows.
    pub stale: Option<World>,
    pub news: News,
    /// The ends of tasks that are told later.
    pub late: Vec<(Time, TaskId, Outcome)>,
    /// Until when vCenter is away.
    pub away_until: Option<Time>,
    pub skew: Time,
    pub was_clock_set: bool,
    pub no_template: bool,
    /// The incidents that a person has said to go on after.
    pub released: Vec<String>,
    /// When an operator last saw everything as it was.
    pub looked: Time,
    /// The machines that were given up for lost, before another took their place.
    pub given_up: BTreeSet<MachineId>,
    pub is_quiet: bool,
    /// How much was done since something happened.
    pub effort: usize,
    /// How it was when it was last as declared.
    pub rest: Option<Rest>,
    pub told: bool,
    /// Whether clones may be on their way that nobody remembers.
    pub looks_again: bool,
    pub counts: &'a mut Counts,
}

pub(crate) fn play(seed: u64, told: bool, counts: &mut Counts) {
    let mut chance = Chance::from_seed(seed);
    // Most have some of all trials, and some have all.
    let share = if chance.percent(10) { 100 } else { 30 };
    let mut trials: BTreeSet<_> = TRIALS.into_iter().filter(|_| chance.percent(share)).collect();
    if share == 100 {
        *counts.entry("all kinds of trouble in one history").or_default() += 1;
    }
    if trials.is_superset(&BTreeSet::from([Trial::TwoOperators, Trial::LateNews])) {
        // Leases keep two from working at once. Where they do all the same, each sees what is so.
        trials.remove(chance.pick(&[Trial::TwoOperators, Trial::LateNews]).unwrap());
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
        news: News::default(),
        late: Vec::new(),
        away_until: None,
        skew: 0,
        was_clock_set: false,
        no_template: false,
        released: Vec::new(),
        looked: 0,
        given_up: BTreeSet::new(),
        is_quiet: false,
        effort: 0,
        rest: None,
        told,
        looks_again: false,
        counts,
    };
    history.world.folders.insert(BASE.to_owned(), ("base".to_owned(), "dc".to_owned()));
    history.world.folders.insert(ELSEWHERE.to_owned(), ("elsewhere".to_owned(), "dc".to_owned()));
    history.tell(format_args!("{:?}", history.trials));
    for _ in 0..40 {
        history.step();
    }
    history.come_to_rest();
}

impl History<'_> {
    pub(crate) fn has(&mut self, trial: Trial, percent: u64) -> bool {
        self.trials.contains(&trial) && self.chance.percent(percent)
    }

    pub(crate) fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
        self.effort = 0;
        self.tell(format_args!("{what}"));
    }

    pub(crate) fn clock(&self) -> Time {
        self.world.now + self.skew
    }

    /// Something happens, time passes, and each operator plans and acts.
    pub(crate) fn step(&mut self) {
        let is_late = self.trials.contains(&Trial::LateNews);
        let before = if is_late { self.world.machines.clone() } else { BTreeMap::new() };
        self.happen();
        // A mirror is not late for minutes: that is an outage.
        let is_told = self.stale.is_none() && self.news.is_all_told();
        let longest = match () {
            // Where that has to be, a plan has it looked at again in a second.
            () if self.looks_again => 1,
            () if is_told && self.chance.percent(10) => 400,
            () => 6,
        };
        let limit = self.world.now + 1 + i64::try_from(self.chance.below(longest)).unwrap();
        self.pass(limit);
        self.tend_twins();
        if is_late {
            self.tell_news(&before);
        }
        if self.is_away() {
            return;
        }
        for index in 0..self.operators.len() {
            self.reconcile(index);
        }
    }

    /// Whether vCenter is away. When it is back, all of it is read anew.
    pub(crate) fn is_away(&mut self) -> bool {
        let Some(until) = self.away_until else { return false };
        if self.world.now < until && !self.is_quiet {
            return true;
        }
        self.away_until = None;
        self.read_again();
        false
    }

    /// Time passes, and the ends of tasks are told.
    pub(crate) fn pass(&mut self, limit: Time) {
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
                () if self.has(Trial::LateNews, 20) => {
                    self.count("end of a task told twice");
                    self.late.push((
                        self.world.now + 1 + i64::try_from(self.chance.below(9)).unwrap(),
                        task,
                        outcome.clone(),
                    ));
                    self.world.now
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

    pub(crate) fn reconcile(&mut self, index: usize) -> Reconciled {
        let shown = self.stale.is_none().then(|| self.news.shown(&self.world)).flatten();
        let seen = self.stale.as_ref().or(shown.as_ref());
        let is_seen = seen.is_none();
        if is_seen {
            self.looked = self.world.now;
        }
        let is_exact = is_seen && self.operators.len() == 1 && self.late.is_empty();
        let known: BTreeSet<_> = self.operators[index].tasks.keys().copied().collect();
        let is_known = self.world.tasks.iter().all(|task| known.contains(&task.id));
        let before = self.world.clone();
        let mishaps = self.mishaps();
        let mut place = Place {
            desired: &self.desired,
            stored: &mut self.stored,
            world: &mut self.world,
            seen,
            room: self.room,
            marked: &self.marked,
            released: &self.released,
            skew: self.skew,
            mishaps,
            chance: &mut self.chance,
            others_are_cloned: false,
            takes: None,
            is_cut_off: false,
            met: 0,
            counts: self.counts,
        };
        let done = self.operators[index].reconcile(&mut place);
        if place.is_cut_off {
            self.begin_outage();
        }
        for action in &done.actions {
            self.tell(format_args!("operator {index}: {action:?}"));
        }
        if self.told && std::env::var_os("OBSERVED").is_some() {
            self.tell(format_args!("{:?}\n       {:?} {:?}", done.observed, done.plan, done.incident));
        }
        self.check_doubles();
        self.note_given_up(index);
        self.check_policy(&done);
        self.check_room(&done);
        self.check_plan(&done);
        // What a guest was asked before a crash, nobody knows.
        let is_asked =
            |member: &Member| before.machines.get(&member.id).is_some_and(|machine| machine.off_at.is_some());
        let knows_all = done.observed.members.iter().all(|member| !is_asked(member) || member.shutdown_since.is_some());
        if is_exact && is_known && knows_all {
            self.check_bounds(&before, &done);
        }
        if is_seen && !done.has_crashed {
            self.check_word(index, &done);
        }
        self.check_effort(&done);
        if is_known && self.operators.len() == 1 && !done.observed.unknown_clones {
            self.check_number(&before, &done);
        }
        if is_seen && self.operators.len() == 1 {
            self.check_rest(before, &done);
        } else {
            self.rest = None;
        }
        self.looks_again = done.observed.unknown_clones;
        if done.has_crashed {
            self.tell(format_args!("it crashes"));
            self.start(index);
        }
        done
    }

    /// An operator is started in the place of one that has crashed, and reads everything.
    pub(crate) fn start(&mut self, index: usize) {
        self.operators[index] = Operator::start(self.world.now);
        (self.stale, self.news) = (None, News::default());
    }

    pub(crate) fn mishaps(&self) -> Mishaps {
        let faults = u64::from(self.trials.contains(&Trial::Faults) && !self.is_quiet);
        let crash = u64::from(self.trials.contains(&Trial::Crashes) && !self.is_quiet);
        let outage = u64::from(self.trials.contains(&Trial::Outages) && !self.is_quiet);
        let queued = u64::from(self.trials.contains(&Trial::Queue) && !self.is_quiet);
        Mishaps {
            refused: 8 * faults,
            unanswered: 5 * faults,
            failed: 8 * faults,
            failed_after_effect: 5 * faults,
            crash: 4 * crash,
            queued: 15 * queued,
            outage: 4 * outage,
            left_off: 20,
            no_template: self.no_template,
        }
    }

    /// Prints what happens, where somebody reads it. Nothing is put into words where nobody does.
    pub(crate) fn tell(&self, what: Arguments<'_>) {
        if self.told {
            println!("{:>5}: {what}", self.world.now);
        }
    }
}
