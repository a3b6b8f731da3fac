//! All vCenters, and the replicas that share them, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use drover_core::vcenter::assignment::assign;

use crate::{
    Course, Sizes,
    fair::{self, Namespace},
    figures::memory,
    group::Group,
    model::world::Time,
    vcenter::VCenter,
};

/// How long after a replica is lost its Leases have run out, and another has seen that: 15 seconds, and a look.
const LEASES_RUN_OUT: Time = 17;
/// How long after a replica is lost another is started in its place, and is given vCenters.
const REPLACED: Time = 90;
/// For how long a vCenter is away.
const AWAY: Time = 120;
/// Groups of a namespace, by how many VMs each has: every other namespace has three times as much as the one before it. They have 20 on
/// average.
const LARGE: [u32; 10] = [4, 5, 8, 8, 12, 15, 24, 44, 75, 105];
const SMALL: [u32; 10] = [1, 1, 2, 2, 4, 5, 8, 16, 25, 36];
const AVERAGE: u32 = 20;

pub(crate) struct Fleet {
    pub vcenters: Vec<VCenter>,
    replicas: BTreeSet<String>,
    /// Which groups are looked at when.
    agenda: BTreeMap<Time, BTreeSet<(usize, usize)>>,
    happenings: BTreeMap<Time, Vec<Happening>>,
    pub now: Time,
    /// How long each group would take in a fair share of its vCenter, by its UID.
    pub fair: BTreeMap<String, f64>,
    /// Memory that the lost replica had for its groups, in bytes, and for how many VMs.
    pub lost: (usize, u32),
    /// The seconds of all long polls: each replica follows each vCenter.
    pub polled: u64,
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    GoesAway(usize),
    ComesBack(usize),
    ReplicaIsLost,
    LeasesAreAssigned,
    ReplicaIsStarted,
}

impl Fleet {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let mut fair = BTreeMap::new();
        let vcenter = |number: u32| {
            let groups = groups(sizes, number);
            fair.extend(fair::finishes(&namespaces(&groups), sizes));
            VCenter::new(sizes, groups, u64::from(number))
        };
        let vcenters: Vec<_> = (0..sizes.vcenters).map(vcenter).collect();
        let all = vcenters
            .iter()
            .enumerate()
            .flat_map(|(vcenter, it)| (0..it.groups.len()).map(move |group| (vcenter, group)));
        let agenda = BTreeMap::from([(0, all.collect())]);
        let replicas = (0..sizes.replicas).map(|number| format!("replica-{number}")).collect();
        let happenings = BTreeMap::new();
        let mut fleet = Self { vcenters, replicas, agenda, happenings, now: 0, fair, lost: (0, 0), polled: 0 };
        fleet.assign();
        if sizes.course == Course::Eventful {
            fleet.foresee(sizes.expected());
        }
        fleet
    }

    /// What goes wrong: every fifth vCenter is away for a while, at one time or another, and a replica is lost in the middle.
    fn foresee(&mut self, expected: Time) {
        for (number, vcenter) in (0..self.vcenters.len()).step_by(5).enumerate() {
            let at = expected / 4 + Time::try_from(number).unwrap() * expected / 25;
            self.happenings.entry(at).or_default().push(Happening::GoesAway(vcenter));
            self.happenings.entry(at + AWAY).or_default().push(Happening::ComesBack(vcenter));
        }
        let middle = expected / 2;
        self.happenings.entry(middle).or_default().push(Happening::ReplicaIsLost);
        self.happenings.entry(middle + LEASES_RUN_OUT).or_default().push(Happening::LeasesAreAssigned);
        self.happenings.entry(middle + REPLACED).or_default().push(Happening::ReplicaIsStarted);
    }

    /// Lets time pass until every group is as declared, and returns when that is.
    pub(crate) fn run(&mut self, latest: Time) -> Time {
        while self.vcenters.iter().flat_map(|vcenter| &vcenter.groups).any(|group| group.settled.is_none()) {
            let happening = self.happenings.first_key_value().map(|(time, _)| *time);
            let look = self.agenda.first_key_value().map(|(time, _)| *time);
            let next = happening.into_iter().chain(look).min().expect("a group that isn't as declared is looked at");
            self.now = next.max(self.now);
            assert!(self.now < latest, "after {latest} seconds, not all groups are as declared");
            for happening in self.happenings.remove(&next).unwrap_or_default() {
                self.happen(happening);
            }
            let due = self.agenda.remove(&next).unwrap_or_default();
            self.look(&due);
        }
        let settled = self.vcenters.iter().flat_map(|vcenter| &vcenter.groups).filter_map(|group| group.settled);
        settled.max().unwrap_or(0)
    }

    fn look(&mut self, due: &BTreeSet<(usize, usize)>) {
        let mut by_vcenter: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (vcenter, group) in due {
            by_vcenter.entry(*vcenter).or_default().insert(*group);
        }
        for (index, groups) in by_vcenter {
            let vcenter = &mut self.vcenters[index];
            // Where nobody can look, all groups are looked at as soon as somebody can.
            if vcenter.is_served() {
                let before = vcenter.told();
                for (time, group) in vcenter.step(&groups, self.now) {
                    self.agenda.entry(time).or_default().insert((index, group));
                }
                self.polled += (vcenter.told() - before) * self.replicas.len() as u64;
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::GoesAway(vcenter) => self.vcenters[vcenter].is_away = true,
            Happening::ComesBack(vcenter) => {
                self.vcenters[vcenter].come_back(self.now);
                self.look_at_all(vcenter);
            }
            Happening::ReplicaIsLost => self.lose_replica(),
            Happening::LeasesAreAssigned => self.assign(),
            Happening::ReplicaIsStarted => {
                self.replicas.insert(format!("replica-{}", self.replicas.len() + 1));
                self.assign();
            }
        }
    }

    /// The first replica is lost, with all that it knew. Its Leases have not run out yet.
    fn lose_replica(&mut self) {
        let Some(lost) = self.replicas.pop_first() else { return };
        let before = memory();
        let mut vms = 0;
        let mut groups = 0;
        for vcenter in self.vcenters.iter_mut().filter(|vcenter| vcenter.holder.as_ref() == Some(&lost)) {
            vcenter.holder = None;
            vcenter.lose_state(self.now);
            groups += vcenter.groups.len();
            vms += vcenter.groups.iter().map(|group| group.ground.desired.replicas).sum::<u32>();
        }
        let state = size_of::<crate::model::operator::Operator>() * groups;
        self.lost = (before.saturating_sub(memory()) + state, vms);
    }

    /// Has each vCenter worked in by the replica that is to, by the rule that replicas themselves go by.
    fn assign(&mut self) {
        let name = |index: usize| format!("vcenter-{index:04}");
        let held =
            self.vcenters.iter().enumerate().map(|(index, vcenter)| (name(index), vcenter.holder.clone())).collect();
        let assigned = assign(&held, &self.replicas);
        for index in 0..self.vcenters.len() {
            let vcenter = &mut self.vcenters[index];
            let holder = assigned.get(&name(index)).cloned();
            if vcenter.holder == holder {
                continue;
            }
            if vcenter.holder.is_some() {
                vcenter.lose_state(self.now);
            }
            vcenter.holder = holder;
            self.look_at_all(index);
        }
    }

    fn look_at_all(&mut self, vcenter: usize) {
        let all = (0..self.vcenters[vcenter].groups.len()).map(|group| (vcenter, group));
        self.agenda.entry(self.now).or_default().extend(all);
    }
}

fn groups(sizes: &Sizes, vcenter: u32) -> Vec<Group> {
    let group = |number: u32| {
        let namespace = number / 10;
        let pattern = if namespace.is_multiple_of(2) { LARGE } else { SMALL };
        let parts = match sizes.course {
            Course::Eventful => pattern[(number % 10) as usize],
            Course::Calm => AVERAGE,
        };
        let size = parts * sizes.vms / (AVERAGE * sizes.groups);
        let seed = u64::from(vcenter) << 32 | u64::from(number);
        let namespace = format!("team-{vcenter}-{namespace}");
        Group::new(&namespace, &format!("group-{number}"), size.max(1), seed, sizes.course)
    };
    (0..sizes.groups / sizes.vcenters).map(group).collect()
}

fn namespaces(groups: &[Group]) -> Vec<Namespace> {
    let mut all: BTreeMap<&str, Namespace> = BTreeMap::new();
    for desired in groups.iter().map(|group| &group.ground.desired) {
        let namespace = all.entry(&desired.namespace).or_default();
        namespace.push((desired.uid.clone(), f64::from(desired.replicas)));
    }
    all.into_values().collect()
}
