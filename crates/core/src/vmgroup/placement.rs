//! Which host a clone goes to.
//!
//! A group's VMs are spread evenly over the hosts that it can use. Between hosts that have equally many, the one with the
//! fewest clones before it is chosen, and between those a hash decides, so that groups don't all begin with the same host.

use std::{fmt, time::Duration};

use crate::{
    Timestamp,
    names::{self, Slot},
    vcenter::backoff::{Delays, Paces},
    vmgroup::faults::{NextStep, Remedy},
};

/// How long a host is avoided after a clone has failed on it: longer than the clone itself waits, or it would go there again.
pub const AVOIDED: Paces = Paces {
    soon: Delays { first: Duration::from_secs(10), factor: 2, limit: Duration::from_mins(5) },
    normal: Delays { first: Duration::from_mins(1), factor: 2, limit: Duration::from_mins(15) },
    long: Delays { first: Duration::from_mins(5), factor: 2, limit: Duration::from_mins(30) },
};

/// A host that a group's clones could go to, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate<H> {
    /// Which host.
    pub host: H,
    /// What people call it.
    pub name: String,
    /// Why it takes no VMs now, if it doesn't.
    pub obstacle: Option<Obstacle>,
    /// How many of the group's VMs are on it, or are being cloned to it.
    pub members: usize,
    /// How many clones of all groups it has before it, those under way included.
    pub load: usize,
    /// Until when it is avoided, because a clone has failed on it.
    pub failed_until: Option<Timestamp>,
}

/// Why a host takes no VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It is not in the inventory, or can't be seen.
    Missing,
    /// vCenter has lost it.
    NotResponding,
    /// Somebody has disconnected it.
    Disconnected,
    /// It is powered off, or in standby.
    PoweredOff,
    /// It is in maintenance mode.
    InMaintenance,
}

/// No host takes VMs now: why each of those that a group can use doesn't.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no host takes VMs now: {}", listed(.0))]
pub struct NoHost(Vec<(String, Obstacle)>);

/// The host for the VM of a slot, as an index into the candidates.
///
/// A host with an obstacle is never chosen. One on which a clone has just failed is chosen only if all others have obstacles or
/// have failed too: then it may not be the hosts' fault.
pub fn place<H>(candidates: &[Candidate<H>], group: &str, slot: Slot, now: Timestamp) -> Result<usize, NoHost> {
    let able = candidates.iter().enumerate().filter(|(_, candidate)| candidate.obstacle.is_none());
    let avoided = |candidate: &Candidate<H>| candidate.failed_until.is_some_and(|time| time > now);
    let draw = |candidate: &Candidate<H>| names::hash(&[group, "/", &slot.to_string(), "/", &candidate.name]);
    let best =
        able.min_by_key(|(_, candidate)| (avoided(candidate), candidate.members, candidate.load, draw(candidate)));
    best.map(|(index, _)| index).ok_or_else(|| no_host(candidates))
}

/// Whether a clone that was to go to a host would still be put there: nothing is in its way, and no clone has just failed on it.
#[must_use]
pub fn stays<H: PartialEq>(candidates: &[Candidate<H>], host: &H, now: Timestamp) -> bool {
    let is_fine = |candidate: &Candidate<H>| {
        candidate.obstacle.is_none() && candidate.failed_until.is_none_or(|time| time <= now)
    };
    candidates.iter().any(|candidate| candidate.host == *host && is_fine(candidate))
}

/// Whether the failure of a clone may be due to its host, so that the next one had better go elsewhere.
#[must_use]
pub fn blames_the_host(step: NextStep) -> bool {
    match step {
        NextStep::LookAgain | NextStep::BackOff | NextStep::AwaitRoom(_) | NextStep::AwaitUser(Remedy::Vcenter) => true,
        NextStep::Done
        | NextStep::LogIn
        | NextStep::AwaitVcenter
        | NextStep::AdoptOrConflict
        | NextStep::AwaitUser(Remedy::Secret | Remedy::Privileges | Remedy::Spec) => false,
    }
}

fn no_host<H>(candidates: &[Candidate<H>]) -> NoHost {
    NoHost(candidates.iter().filter_map(|candidate| Some((candidate.name.clone(), candidate.obstacle?))).collect())
}

fn listed(hosts: &[(String, Obstacle)]) -> String {
    if hosts.is_empty() {
        return "none can be seen".to_owned();
    }
    hosts.iter().map(|(name, obstacle)| format!("{name} {obstacle}")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "is not in the inventory",
            Self::NotResponding => "does not respond",
            Self::Disconnected => "is disconnected",
            Self::PoweredOff => "is not powered on",
            Self::InMaintenance => "is in maintenance mode",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{
        vcenter::backoff::{Backoff, Pace},
        vmgroup::faults::Shortage,
    };

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn hosts(number: usize) -> Vec<Candidate<usize>> {
        let candidate = |host| Candidate {
            host,
            name: format!("h{host}"),
            obstacle: None,
            members: 0,
            load: 0,
            failed_until: None,
        };
        (0..number).map(candidate).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Places so many VMs of a group one after the other.
    fn fill(candidates: &mut [Candidate<usize>], group: &str, number: u32) {
        for slot in 0..number {
            let chosen = place(candidates, group, Slot(slot), NOW).unwrap();
            candidates[chosen].members += 1;
            candidates[chosen].load += 1;
        }
    }

    #[test]
    fn members_are_spread_evenly_even_over_hosts_that_others_load() {
        let mut candidates = hosts(4);
        candidates[2].load = 100;
        fill(&mut candidates, "uid", 10);
        let mut members: Vec<_> = candidates.iter().map(|candidate| candidate.members).collect();
        assert_eq!(members[2], 2, "the loaded host has its share, and no more: {members:?}");
        members.sort_unstable();
        assert_eq!(members, [2, 2, 3, 3]);
    }

    #[test]
    fn a_new_member_goes_where_the_group_has_the_fewest() {
        let mut candidates = hosts(3);
        for (candidate, members) in candidates.iter_mut().zip([2, 1, 2]) {
            candidate.members = members;
        }
        assert_eq!(place(&candidates, "uid", Slot(7), NOW), Ok(1));
    }

    #[test]
    fn between_hosts_with_equally_many_members_the_least_loaded_is_chosen() {
        let mut candidates = hosts(3);
        for (candidate, load) in candidates.iter_mut().zip([3, 2, 1]) {
            candidate.load = load;
        }
        for slot in 0..20 {
            assert_eq!(place(&candidates, "uid", Slot(slot), NOW), Ok(2));
        }
    }

    #[test]
    fn groups_of_one_do_not_all_begin_with_the_same_host() {
        let candidates = hosts(4);
        let first = |group: u32| place(&candidates, &format!("uid-{group}"), Slot(0), NOW).unwrap();
        assert_eq!((0..40).map(first).collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(first(1), first(1), "and the same question has the same answer");
    }

    #[test]
    fn a_host_on_which_a_clone_failed_is_avoided_until_its_time_is_over() {
        let mut candidates = hosts(2);
        candidates[0].failed_until = Some(at(5));
        candidates[1].members = 9;
        assert_eq!(place(&candidates, "uid", Slot(0), NOW), Ok(1));
        assert_eq!(place(&candidates, "uid", Slot(0), at(5)), Ok(0));
        assert!(!stays(&candidates, &0, NOW) && stays(&candidates, &0, at(5)));
    }

    #[test]
    fn where_clones_have_failed_on_every_host_members_are_spread_all_the_same() {
        let mut candidates = hosts(3);
        for (candidate, seconds) in candidates.iter_mut().zip([30, 10, 20]) {
            candidate.failed_until = Some(at(seconds));
        }
        fill(&mut candidates, "uid", 6);
        assert!(candidates.iter().all(|candidate| candidate.members == 2), "{candidates:?}");
    }

    #[test]
    fn a_host_is_avoided_for_longer_than_a_clone_that_failed_on_it_waits() {
        let mut clones = Backoff::default();
        let mut failing = Backoff::new(AVOIDED);
        for (pace, draw) in [(Pace::Soon, 0), (Pace::Normal, 0), (Pace::Long, u64::MAX)] {
            let again = clones.failed(format!("{pace:?}"), NOW, draw, pace);
            assert!(failing.failed(format!("{pace:?}"), NOW, draw, pace) > again, "{pace:?}");
        }
    }

    #[test]
    fn where_no_host_takes_vms_each_is_named_with_its_reason() {
        let mut candidates = hosts(3);
        candidates[0].obstacle = Some(Obstacle::InMaintenance);
        candidates[1].obstacle = Some(Obstacle::Disconnected);
        assert_eq!(place(&candidates, "uid", Slot(0), NOW), Ok(2));
        candidates[2].obstacle = Some(Obstacle::NotResponding);
        let none = place(&candidates, "uid", Slot(0), NOW).unwrap_err();
        assert_eq!(
            none.to_string(),
            "no host takes VMs now: h0 is in maintenance mode, h1 is disconnected, h2 does not respond"
        );
        assert!(candidates.iter().all(|candidate| !stays(&candidates, &candidate.host, NOW)));
    }

    #[test]
    fn a_host_is_blamed_for_what_may_be_its_own_fault_and_not_for_what_the_user_wrote() {
        for step in [NextStep::LookAgain, NextStep::BackOff, NextStep::AwaitRoom(Shortage::Memory)] {
            assert!(blames_the_host(step), "{step:?}");
        }
        for step in [NextStep::AdoptOrConflict, NextStep::AwaitVcenter, NextStep::AwaitUser(Remedy::Spec)] {
            assert!(!blames_the_host(step), "{step:?}");
        }
    }

    /// Any number of hosts in any state: what is chosen is able, not avoided without need, and never has more members than
    /// another that could have been chosen.
    #[test]
    fn whatever_the_hosts_are_like_none_is_chosen_that_another_should_have_been_instead_of() {
        let mut seed = 1_u64;
        let mut below = |limit: u64| {
            seed = names::hash(&[&seed.to_string()]);
            usize::try_from(seed % limit).unwrap()
        };
        for _ in 0..20_000 {
            let mut candidates = hosts(below(6));
            for candidate in &mut candidates {
                let obstacles = [None, None, None, Some(Obstacle::InMaintenance), Some(Obstacle::PoweredOff)];
                candidate.obstacle = obstacles[below(5)];
                candidate.members = below(4);
                candidate.load = below(4);
                candidate.failed_until = [None, None, Some(at(0)), Some(at(5)), Some(at(9))][below(5)];
            }
            let slot = Slot(u32::try_from(below(1000)).unwrap());
            let able: Vec<_> = candidates.iter().filter(|candidate| candidate.obstacle.is_none()).collect();
            let Ok(index) = place(&candidates, "uid", slot, NOW) else {
                assert!(able.is_empty(), "{candidates:?}");
                continue;
            };
            let chosen = &candidates[index];
            assert_eq!(chosen.obstacle, None);
            let is_fine = |candidate: &&&Candidate<usize>| stays(&candidates, &candidate.host, NOW);
            let mut fine = able.iter().filter(is_fine).peekable();
            if fine.peek().is_some() {
                assert!(stays(&candidates, &chosen.host, NOW), "{index} of {candidates:?}");
                let least = fine.map(|candidate| (candidate.members, candidate.load)).min();
                assert_eq!(Some((chosen.members, chosen.load)), least, "{index} of {candidates:?}");
            }
        }
    }
}
