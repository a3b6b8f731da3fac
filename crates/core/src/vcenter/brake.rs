//! When to stop: where many VMs are missing at once, or many would be destroyed for no reason that anybody gave, nothing is made or
//! destroyed until they are back, proved to be gone, or a person says to go on.
//!
//! A host that is removed, a permission that is taken away, a vCenter restored from a backup: each shows itself as VMs that are no
//! longer there. Making them anew would double them; that they are many is the only sign that something else has happened.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use crate::{
    Timestamp,
    names::{self, Slot},
};

/// VMs that go missing within this time of each other go missing together.
const TOGETHER: Duration = Duration::from_mins(5);

/// What a brake stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One group.
    Group,
    /// All groups of a vCenter.
    VCenter,
}

/// Why everything is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// VMs are missing, and nothing proves that they were destroyed.
    Missing,
    /// VMs that were up to date aren't any more, though nobody changed what they are to be made from.
    Outdated,
}

impl Cause {
    /// How the names of incidents begin, so that a name says what it is about.
    fn prefix(self, scope: Scope) -> &'static str {
        match (self, scope) {
            (Self::Missing, Scope::Group) => "vg-",
            (Self::Missing, Scope::VCenter) => "vc-",
            (Self::Outdated, _) => OUTDATED,
        }
    }
}

const OUTDATED: &str = "vr-";

/// Whether an incident of this name is about VMs that would be replaced for no known reason.
#[must_use]
pub fn is_of_outdated(incident: &str) -> bool {
    incident.starts_with(OUTDATED)
}

/// Something that stops everything until it is over or released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incident {
    /// What a person releases it by.
    pub id: String,
    /// Why.
    pub cause: Cause,
    /// How many VMs it is about.
    pub count: usize,
    /// Of how many.
    pub of: usize,
}

/// A VM that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing<'a> {
    /// The UID of its group.
    pub group: &'a str,
    /// Its slot.
    pub slot: Slot,
    /// Since when.
    pub since: Timestamp,
    /// From when on it counts.
    pub counts_from: Timestamp,
    /// Whether it was missing when its group was first looked at. Only such a VM can be of an incident from before.
    pub at_first: bool,
}

/// What a brake is judged by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses<'a> {
    /// What the scope is called, such that no other has the same name.
    pub name: &'a str,
    /// How many VMs there are by the record, those that are missing included.
    pub members: usize,
    /// Those that are missing, also those that don't count yet.
    pub missing: Vec<Missing<'a>>,
    /// How many would be replaced, though nobody changed what they are to be made from.
    pub unexplained: usize,
    /// The incidents that a person has said to go on after.
    pub released: Vec<&'a str>,
    /// The incident that was there when this was last written down.
    pub remembered: Option<&'a str>,
}

/// Whether something has to stop.
#[derive(Clone, Debug)]
pub struct Brake {
    scope: Scope,
    incident: Option<(String, Cause)>,
    /// The incident that ended last, or was released. It is not taken for one that still holds.
    over: Option<String>,
    /// The slots of each group whose VMs a person has said to go on without, until they are back.
    released: BTreeMap<String, BTreeSet<Slot>>,
    /// Whether they were released when this was last judged.
    is_released_now: bool,
    /// Whether the unexplained may be replaced, until there are none.
    is_explained: bool,
}

impl Brake {
    /// One that stops nothing yet.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        let released = BTreeMap::new();
        Self { scope, incident: None, over: None, released, is_released_now: false, is_explained: false }
    }

    /// Whether the last judgement was to go on because somebody said so.
    #[must_use]
    pub fn was_released(&self) -> bool {
        self.is_released_now || self.is_explained
    }

    /// Says whether to stop, and why.
    pub fn judge(&mut self, losses: &Losses<'_>, now: Timestamp) -> Option<Incident> {
        let allowance = allowance(losses.members);
        self.is_explained &= losses.unexplained > 0;
        let unexplained = if self.is_explained { 0 } else { losses.unexplained };
        self.is_released_now = false;
        self.forget_those_back(&losses.missing);
        let counts = |one: &&Missing<'_>| one.counts_from <= now && !self.is_released(one);
        let missing: Vec<_> = losses.missing.iter().filter(counts).collect();
        let latest = missing.iter().map(|one| one.since).max();
        let is_together = |one: &&&Missing<'_>| latest.is_some_and(|latest| is_within(one.since, latest));
        let together = missing.iter().filter(is_together).count();
        let cause = match &self.incident {
            // Once it holds, it holds for all that are missing, however long ago they went.
            Some((_, Cause::Missing)) if missing.len() > allowance => Some(Cause::Missing),
            _ if together > allowance => Some(Cause::Missing),
            _ if unexplained > allowance => Some(Cause::Outdated),
            _ => None,
        };
        let Some(cause) = cause else {
            self.over = self.incident.take().map(|(id, _)| id).or(self.over.take());
            return None;
        };
        let missing_at_first = missing.iter().filter(|one| one.at_first).count();
        let is_from_before = |id: &str| {
            let can_be = cause == Cause::Outdated || missing_at_first > allowance;
            can_be && id.starts_with(cause.prefix(self.scope)) && self.over.as_deref() != Some(id)
        };
        let id = match (&self.incident, losses.remembered) {
            (Some((id, before)), _) if *before == cause => id.clone(),
            (None, Some(id)) if is_from_before(id) => id.to_owned(),
            _ => {
                format!("{}{}", cause.prefix(self.scope), names::letters(names::hash(&[losses.name, &now.to_string()])))
            }
        };
        if losses.released.contains(&id.as_str()) {
            match cause {
                Cause::Missing => self.release(&losses.missing),
                Cause::Outdated => self.is_explained = true,
            }
            self.incident = None;
            self.over = Some(id);
            return None;
        }
        self.incident = Some((id.clone(), cause));
        let count = if cause == Cause::Missing { missing.len() } else { unexplained };
        Some(Incident { id, cause, count, of: losses.members })
    }

    /// Goes on without those that are missing now. By their names, because clocks are set, and start anew when vCenter was away.
    fn release(&mut self, missing: &[Missing<'_>]) {
        for one in missing {
            self.released.entry(one.group.to_owned()).or_default().insert(one.slot);
        }
        self.is_released_now = true;
    }

    fn is_released(&self, one: &Missing<'_>) -> bool {
        self.released.get(one.group).is_some_and(|slots| slots.contains(&one.slot))
    }

    /// One that is back counts when it goes missing again.
    fn forget_those_back(&mut self, missing: &[Missing<'_>]) {
        if self.released.is_empty() {
            return;
        }
        let mut still: BTreeMap<String, BTreeSet<Slot>> = BTreeMap::new();
        for one in missing.iter().filter(|one| self.is_released(one)) {
            still.entry(one.group.to_owned()).or_default().insert(one.slot);
        }
        self.released = still;
    }
}

/// How many of so many VMs may be missing without anything being made of it: one, or a fifth.
fn allowance(members: usize) -> usize {
    (members / 5).max(1)
}

fn is_within(earlier: Timestamp, later: Timestamp) -> bool {
    earlier.checked_add(TOGETHER).is_ok_and(|end| later <= end)
}

impl Incident {
    /// The incident for a person: what happened, what may be behind it, and what to do.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Self { id, cause, count, of } = self;
        let (what, why) = match cause {
            Cause::Missing => (
                format!("{count} of {of} VMs are missing at once, and nothing proves that they were destroyed"),
                "a host may have been removed, a permission taken away, or vCenter restored from a backup",
            ),
            Cause::Outdated => (
                format!(
                    "{count} of {of} VMs would be replaced, though the spec has not changed since they were up to date"
                ),
                "their markers may have been edited, or Drover was upgraded",
            ),
        };
        format!(
            "{what}: {why}. Nothing is cloned or destroyed until that is over. To go on all the same: drover release {id}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    /// A losses with VMs missing since these times, the first of them from slot 0.
    fn losses(members: usize, missing: &[i64]) -> Losses<'static> {
        let missing = (0..).map(Slot).zip(missing).map(|(slot, second)| Missing {
            group: "g",
            slot,
            since: at(*second),
            counts_from: at(*second),
            at_first: *second == 0,
        });
        Losses { name: "g", members, missing: missing.collect(), ..Losses::default() }
    }

    #[test]
    fn one_may_be_missing_or_a_fifth() {
        for (members, missing, holds) in [
            (1, 1, false),
            (3, 1, false),
            (3, 2, true),
            (10, 2, false),
            (10, 3, true),
            (100, 20, false),
            (100, 21, true),
        ] {
            let incident = Brake::new(Scope::Group).judge(&losses(members, &vec![0; missing]), at(1));
            assert_eq!(incident.is_some(), holds, "{missing} of {members}");
        }
    }

    #[test]
    fn those_that_go_one_by_one_over_an_hour_are_no_incident() {
        assert_eq!(Brake::new(Scope::Group).judge(&losses(10, &[0, 1000, 2000, 3000]), at(3001)), None);
        assert!(
            Brake::new(Scope::Group).judge(&losses(10, &[0, 100, 200, 3000]), at(3001)).is_none(),
            "only one is new"
        );
        assert!(Brake::new(Scope::Group).judge(&losses(10, &[2800, 2900, 3000]), at(3001)).is_some());
    }

    #[test]
    fn it_holds_until_they_are_back_however_long_that_takes() {
        let mut brake = Brake::new(Scope::VCenter);
        let first = brake.judge(&losses(10, &[0, 0, 0, 0]), at(1)).unwrap();
        let later = brake.judge(&losses(10, &[0, 0, 0, 0]), at(100_000)).unwrap();
        assert_eq!(first.id, later.id);
        assert!(brake.judge(&losses(10, &[0, 0, 0]), at(100_001)).is_some());
        assert_eq!(brake.judge(&losses(10, &[0, 0]), at(100_002)), None);
    }

    #[test]
    fn a_person_releases_the_incident_that_they_name_and_no_other() {
        let mut brake = Brake::new(Scope::Group);
        let id = brake.judge(&losses(3, &[0, 0]), at(1)).unwrap().id;
        assert!(brake.judge(&Losses { released: vec!["vg-another"], ..losses(3, &[0, 0]) }, at(2)).is_some());
        let released = |missing: &[i64]| Losses { released: vec![id.as_str()], ..losses(3, missing) };
        assert_eq!(brake.judge(&released(&[0, 0]), at(3)), None);
        assert!(brake.was_released());
        assert_eq!(brake.judge(&released(&[0, 0]), at(4)), None, "it stays released");
        assert!(!brake.was_released());
        let next = brake.judge(&released(&[0, 0, 10, 10]), at(11));
        assert!(next.is_some_and(|next| next.id != id && next.count == 2), "the next is another");
    }

    #[test]
    fn after_a_restart_the_incident_has_the_name_that_people_were_told() {
        let remembered = Losses { remembered: Some("vg-abcdefgh"), ..losses(3, &[0, 0]) };
        let incident = Brake::new(Scope::Group).judge(&remembered, at(50)).unwrap();
        assert_eq!(incident.id, "vg-abcdefgh");
        let other = Brake::new(Scope::VCenter).judge(&remembered, at(50)).unwrap();
        assert!(other.id.starts_with("vc-"), "that of a group is not the vCenter's");
    }

    #[test]
    fn an_incident_from_before_that_is_over_lends_its_name_to_no_later_one() {
        let released = |members, missing: &[i64]| Losses {
            remembered: Some("vc-before"),
            released: vec!["vc-before"],
            ..losses(members, missing)
        };
        // All are back when the operator starts.
        let mut brake = Brake::new(Scope::VCenter);
        assert_eq!(brake.judge(&released(40, &[]), at(0)), None);
        assert!(brake.judge(&released(40, &[900; 40]), at(901)).is_some(), "nobody has said to go on after this one");
        // They are still missing, and somebody has said to go on.
        let mut brake = Brake::new(Scope::VCenter);
        assert_eq!(brake.judge(&released(3, &[0, 0]), at(0)), None);
        assert_eq!(brake.judge(&released(3, &[]), at(10)), None);
        assert!(brake.judge(&released(40, &[900; 40]), at(901)).is_some(), "nor after this one");
        // It held, and they came back.
        let mut brake = Brake::new(Scope::VCenter);
        let held = Losses { released: Vec::new(), ..released(3, &[0, 0]) };
        assert_eq!(brake.judge(&held, at(0)).unwrap().id, "vc-before");
        assert_eq!(brake.judge(&released(3, &[]), at(10)), None);
        assert!(brake.judge(&released(40, &[900; 40]), at(901)).is_some(), "nor after this");
    }

    #[test]
    fn what_a_person_has_said_holds_whatever_the_clock_does() {
        let mut brake = Brake::new(Scope::Group);
        let id = brake.judge(&losses(3, &[0, 0]), at(1)).unwrap().id;
        let released = |missing: &[i64]| Losses { released: vec![id.as_str()], ..losses(3, missing) };
        assert_eq!(brake.judge(&released(&[0, 0]), at(1000)), None);
        let mut anew = released(&[1010, 1010]);
        anew.missing.iter_mut().for_each(|one| one.counts_from = at(1013));
        for second in [1010, 1013] {
            assert_eq!(brake.judge(&anew, at(second)), None, "they are missing still: vCenter was away");
        }
        assert_eq!(brake.judge(&released(&[]), at(1020)), None);
        assert!(brake.judge(&released(&[5, 5]), at(10)).is_some(), "the clock was set back, and they are missing anew");
    }

    #[test]
    fn replacing_many_for_no_reason_that_anybody_gave_is_an_incident() {
        let outdated = |unexplained| Losses { unexplained, ..losses(5, &[]) };
        let mut brake = Brake::new(Scope::Group);
        assert_eq!(brake.judge(&outdated(1), at(0)), None);
        let incident = brake.judge(&outdated(5), at(1)).unwrap();
        assert_eq!((incident.cause, incident.count), (Cause::Outdated, 5));
        assert!(is_of_outdated(&incident.id) && !is_of_outdated("vg-abcdefgh"));
        let go_on = Losses { released: vec![&incident.id], ..outdated(5) };
        assert_eq!(brake.judge(&go_on, at(2)), None);
        assert_eq!(brake.judge(&outdated(4), at(3)), None, "all of them may be replaced, one after the other");
    }
}
