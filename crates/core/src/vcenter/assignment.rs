//! Which replica of the operator is to hold which lease: those of vCenters, and the one for what has no vCenter.

use std::collections::{BTreeMap, BTreeSet};

/// Who is to hold each lease, by the leases' names: `held` says who holds each now, if anybody does.
///
/// Each replica comes to the same answer from the same facts. No two members differ by more than one lease in the end, and nothing moves
/// that need not. A lease whose holder isn't a member stays with it until it runs out.
#[must_use]
pub fn assign(held: &BTreeMap<String, Option<String>>, members: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut of: BTreeMap<&str, BTreeSet<&str>> =
        members.iter().map(|member| (member.as_str(), BTreeSet::new())).collect();
    let mut assigned = BTreeMap::new();
    let mut free = Vec::new();
    for (lease, holder) in held {
        match holder {
            Some(holder) => match of.get_mut(holder.as_str()) {
                Some(leases) => drop(leases.insert(lease)),
                None => drop(assigned.insert(lease.clone(), holder.clone())),
            },
            None => free.push(lease.as_str()),
        }
    }
    for lease in free {
        if let Some(poorest) = poorest(&of)
            && let Some(leases) = of.get_mut(poorest)
        {
            leases.insert(lease);
        }
    }
    while let (Some(poorest), Some(richest)) = (poorest(&of), richest(&of)) {
        if of[richest].len() <= of[poorest].len() + 1 {
            break;
        }
        // The general lease is the first by name, and moves last.
        if let Some(lease) = of.get_mut(richest).and_then(BTreeSet::pop_last)
            && let Some(leases) = of.get_mut(poorest)
        {
            leases.insert(lease);
        }
    }
    for (member, leases) in of {
        assigned.extend(leases.into_iter().map(|lease| (lease.to_owned(), member.to_owned())));
    }
    assigned
}

/// Who has the fewest; of several, the first by name.
fn poorest<'a>(of: &BTreeMap<&'a str, BTreeSet<&str>>) -> Option<&'a str> {
    of.iter().min_by_key(|(member, leases)| (leases.len(), **member)).map(|(member, _)| *member)
}

/// Who has the most; of several, the last by name.
fn richest<'a>(of: &BTreeMap<&'a str, BTreeSet<&str>>) -> Option<&'a str> {
    of.iter().max_by_key(|(member, leases)| (leases.len(), **member)).map(|(member, _)| *member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(ToString::to_string).collect()
    }

    /// Leases `a`, `b`, …, of these holders; an empty one is none.
    fn held(holders: &[&str]) -> BTreeMap<String, Option<String>> {
        let names = ('a'..).map(String::from);
        names.zip(holders.iter().map(|holder| (!holder.is_empty()).then(|| (*holder).to_owned()))).collect()
    }

    fn assigned(holders: &[&str], of: &[&str]) -> Vec<String> {
        assign(&held(holders), &members(of)).into_values().collect()
    }

    #[test]
    fn free_leases_are_shared_evenly() {
        assert_eq!(assigned(&["", "", "", "", "", ""], &["x", "y"]), ["x", "y", "x", "y", "x", "y"]);
        assert_eq!(assigned(&["", "", ""], &["x"]), ["x", "x", "x"]);
        assert_eq!(assign(&held(&["", ""]), &members(&[])), BTreeMap::new());
    }

    #[test]
    fn a_free_lease_goes_to_who_has_fewest_and_nothing_else_moves() {
        assert_eq!(assigned(&["x", "x", "y", "", "z"], &["x", "y", "z"]), ["x", "x", "y", "y", "z"]);
        assert_eq!(assigned(&["x", "x", "y"], &["x", "y"]), ["x", "x", "y"]);
        assert_eq!(assigned(&["x", "x", "x", "y", "y", "z", "z"], &["x", "y", "z"]).len(), 7);
    }

    #[test]
    fn who_joins_gets_a_share_and_no_more_than_that_moves() {
        let before = ["x", "x", "x", "y", "y", "y"];
        let after = assigned(&before, &["x", "y", "z"]);
        assert_eq!(after, ["x", "x", "z", "y", "y", "z"]);
        assert_eq!(assigned(&["x"; 6], &["x", "y"]), ["x", "x", "x", "y", "y", "y"]);
        assert_eq!(assigned(&["x", "x"], &["x", "y", "z"]), ["x", "y"]);
    }

    #[test]
    fn what_somebody_holds_who_is_no_member_stays_until_it_runs_out() {
        assert_eq!(assigned(&["gone", "x", ""], &["x", "y"]), ["gone", "x", "y"]);
    }
}
