//! What was changed in vCenter behind a group's back, and how long it takes until it is put right. For those who count it.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    time::Duration,
};

use crate::{
    Action, Subject, Timestamp, names,
    vmgroup::{Desired, Folder, Member, Observed, events::Facts},
};

/// In which way something is not as declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A VM is gone.
    Missing,
    /// The group's folder is gone.
    Folder,
    /// A VM was renamed.
    Name,
    /// A VM was moved out of the group's folder.
    Location,
    /// A VM has other CPUs or memory.
    Hardware,
    /// A VM is in another power state.
    Power,
    /// There is a VM too many.
    Unwanted,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Missing, Self::Folder, Self::Name, Self::Location, Self::Hardware, Self::Power, Self::Unwanted];

    /// The kind as one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Folder => "folder",
            Self::Name => "name",
            Self::Location => "location",
            Self::Hardware => "hardware",
            Self::Power => "power",
            Self::Unwanted => "unwanted",
        }
    }
}

/// The drift of one group that is being put right. It may be lost: then it is counted twice.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    generation: i64,
    /// Whether the group has been as declared at this generation. What is not so after that was changed in vCenter.
    was_settled: bool,
    open: BTreeMap<Subject, (BTreeSet<Kind>, Timestamp)>,
}

/// What came and went since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// What was found.
    pub found: Vec<Kind>,
    /// What was put right, and how long that took from when it was found.
    pub repaired: Vec<(Kind, Duration)>,
}

impl Drift {
    /// Takes up what is true now. Where nothing could be seen, nothing has changed.
    pub fn follow(&mut self, facts: &Facts<'_>, now: Timestamp) -> Changes {
        if self.generation != facts.generation {
            *self = Self { generation: facts.generation, ..Self::default() };
        }
        self.was_settled |= facts.was_settled;
        let mut changes = Changes::default();
        let Some(observed) = facts.observed else { return changes };
        self.close(facts.desired, observed, now, &mut changes);
        if self.was_settled && facts.desired.deletion.is_none() {
            for action in &facts.plan.actions {
                self.open(action, facts.desired, observed, now, &mut changes);
            }
        }
        changes
    }

    fn close(&mut self, desired: &Desired, observed: &Observed, now: Timestamp, changes: &mut Changes) {
        self.open.retain(|subject, (kinds, since)| match outcome(subject, kinds, desired, observed) {
            Outcome::Lasts => true,
            Outcome::Gone => false,
            Outcome::Repaired => {
                let took = Duration::try_from(now.duration_since(*since)).unwrap_or_default();
                changes.repaired.extend(kinds.iter().map(|kind| (*kind, took)));
                false
            }
        });
    }

    fn open(&mut self, action: &Action, desired: &Desired, observed: &Observed, now: Timestamp, changes: &mut Changes) {
        let subject = action.subject();
        let kinds = match &subject {
            Subject::Folder => BTreeSet::from([Kind::Folder]),
            Subject::Slot(_) => BTreeSet::from([Kind::Missing]),
            // It was left by what the spec says.
            Subject::LeftFolder(_) => return,
            // That is no change of anybody's.
            Subject::Machine(_) if matches!(action, Action::Mark(..)) => return,
            Subject::Machine(id) => match observed.members.iter().find(|member| member.id == *id) {
                // Its clone is brought up to what is declared.
                Some(member) if self.open.contains_key(&Subject::Slot(member.slot)) => return,
                Some(member) => {
                    let found = deviations(desired, member);
                    if found.is_empty() { BTreeSet::from([Kind::Unwanted]) } else { found }
                }
                None => return,
            },
        };
        // What has to be done on the way to it, such as a power cycle, is no drift of its own.
        if let Entry::Vacant(entry) = self.open.entry(subject) {
            changes.found.extend(&kinds);
            entry.insert((kinds, now));
        }
    }
}

enum Outcome {
    Lasts,
    Repaired,
    /// There is nothing left that could be put right.
    Gone,
}

fn outcome(subject: &Subject, kinds: &BTreeSet<Kind>, desired: &Desired, observed: &Observed) -> Outcome {
    let is_right = match subject {
        Subject::Folder | Subject::LeftFolder(_) => !matches!(observed.folder, Folder::Absent | Folder::Busy),
        Subject::Slot(slot) => {
            let member = observed.members.iter().find(|member| member.slot == *slot);
            member.is_some_and(|member| deviations(desired, member).is_empty())
        }
        Subject::Machine(id) => match observed.members.iter().find(|member| member.id == *id) {
            Some(member) => !kinds.contains(&Kind::Unwanted) && deviations(desired, member).is_empty(),
            None if kinds.contains(&Kind::Unwanted) => true,
            None => return Outcome::Gone,
        },
    };
    if is_right { Outcome::Repaired } else { Outcome::Lasts }
}

/// In which ways a VM is not as declared.
fn deviations(desired: &Desired, member: &Member) -> BTreeSet<Kind> {
    let found = [
        (Kind::Name, member.name != names::member(&desired.name, &desired.marker_uid, member.slot)),
        (Kind::Location, !member.in_folder),
        (Kind::Hardware, member.hardware != desired.hardware),
        (Kind::Power, member.power != desired.power),
    ];
    found.into_iter().filter_map(|(kind, is_so)| is_so.then_some(kind)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        Plan, Trouble,
        names::Slot,
        vmgroup::{Hardware, HotAdd, MachineId, Power, desired::tests::desired as spec, status::summarize},
    };

    fn desired() -> Desired {
        Desired { uid: "uid".to_owned(), marker_uid: "uid".to_owned(), ..spec(&json!({"cpu": 1, "replicas": 2})) }
    }

    fn member(slot: u32, power: Power, cpus: u32) -> Member {
        Member {
            id: MachineId(format!("vm-{slot}")),
            slot: Slot(slot),
            revision: desired().revision,
            created: Timestamp::UNIX_EPOCH,
            name: names::member("sample", "uid", Slot(slot)),
            in_folder: true,
            hardware: Hardware { cpus, memory_mib: 1024 },
            storage_mib: 0,
            hot_add: HotAdd::default(),
            refused: None,
            power,
            unreachable_since: None,
            ready_since: None,
            guest_answers: false,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        }
    }

    fn follow(
        drift: &mut Drift,
        (generation, was_settled): (i64, bool),
        members: Vec<Member>,
        actions: Vec<Action>,
        second: i64,
    ) -> Changes {
        let desired = desired();
        let plan = Plan { actions, ..Plan::default() };
        let summary = summarize(&desired, &plan, &Trouble::None);
        let observed = Some(&Observed { folder: Folder::Occupied, members, ..Observed::default() });
        let facts = Facts {
            desired: &desired,
            generation,
            was_settled,
            observed,
            plan: &plan,
            summary: &summary,
            obstacle_before: None,
        };
        drift.follow(&facts, Timestamp::from_second(second).unwrap())
    }

    fn id(slot: u32) -> MachineId {
        MachineId(format!("vm-{slot}"))
    }

    #[test]
    fn a_change_is_found_once_and_repaired_when_the_vm_is_as_declared_in_every_way() {
        let mut drift = Drift::default();
        let cycle = |drift: &mut Drift, power, cpus, actions, second| {
            follow(drift, (1, true), vec![member(0, power, cpus), member(1, Power::On, 1)], actions, second)
        };
        let found = cycle(&mut drift, Power::On, 7, vec![Action::PowerOff(id(0))], 10);
        assert_eq!(found, Changes { found: vec![Kind::Hardware], repaired: vec![] });
        let none = Changes::default();
        assert_eq!(cycle(&mut drift, Power::On, 7, vec![], 11), none, "it is being powered off");
        let on = vec![Action::PowerOn(id(0))];
        assert_eq!(cycle(&mut drift, Power::Off, 1, on, 12), none, "that it is off is no drift of its own");
        let repaired = cycle(&mut drift, Power::On, 1, vec![], 15);
        assert_eq!(repaired, Changes { found: vec![], repaired: vec![(Kind::Hardware, Duration::from_secs(5))] });
        assert_eq!(cycle(&mut drift, Power::On, 1, vec![], 16), none);
    }

    #[test]
    fn a_vm_that_is_gone_is_repaired_when_another_is_as_declared() {
        let mut drift = Drift::default();
        let clone = vec![Action::Clone(Slot(1))];
        let one = || member(0, Power::On, 1);
        assert_eq!(follow(&mut drift, (1, true), vec![one()], clone, 10).found, [Kind::Missing]);
        let on = vec![Action::PowerOn(id(1))];
        let changes = follow(&mut drift, (1, false), vec![one(), member(1, Power::Off, 1)], on, 20);
        assert_eq!(changes, Changes::default());
        let changes = follow(&mut drift, (1, false), vec![one(), member(1, Power::On, 1)], vec![], 30);
        assert_eq!(changes.repaired, [(Kind::Missing, Duration::from_secs(20))]);
    }

    #[test]
    fn what_a_spec_asks_for_is_no_drift() {
        let mut drift = Drift::default();
        let clones = vec![Action::Clone(Slot(0))];
        assert_eq!(follow(&mut drift, (1, false), vec![], clones.clone(), 10), Changes::default(), "it is being made");
        assert_eq!(follow(&mut drift, (1, true), vec![], clones.clone(), 11).found, [Kind::Missing]);
        assert_eq!(follow(&mut drift, (2, false), vec![], clones, 12), Changes::default(), "the spec is another");
    }

    #[test]
    fn a_vm_that_is_not_wanted_is_repaired_when_it_is_gone() {
        let mut drift = Drift::default();
        let destroy = vec![Action::Destroy(id(5))];
        assert_eq!(follow(&mut drift, (1, true), vec![member(5, Power::On, 1)], destroy, 0).found, [Kind::Unwanted]);
        let changes = follow(&mut drift, (1, true), vec![], vec![], 2);
        assert_eq!(changes.repaired, [(Kind::Unwanted, Duration::from_secs(2))]);
    }
}
