//! Under which names the hosts of a vCenter are published.

use std::collections::{BTreeMap, BTreeSet};

use crate::names;

/// The names that the hosts of a vCenter get in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames {
    /// The name of each host's HostInfo. No two have the same.
    pub given: BTreeMap<String, String>,
    /// The hosts for which no name is left.
    pub left_out: BTreeSet<String>,
}

/// Names the HostInfos of hosts: as the host, else as the host and the vCenter, else with a hash of both.
///
/// A name that is `taken` by somebody else's HostInfo is not used. Where two hosts come to one name, the host that has it already
/// keeps it (`held`: names, and the host of each), else the host that is called exactly so gets it.
#[must_use]
pub fn host_names(
    hosts: &BTreeSet<String>,
    vcenter: &str,
    taken: &BTreeSet<String>,
    held: &BTreeMap<String, String>,
) -> HostNames {
    let mut names = HostNames { left_out: hosts.clone(), ..HostNames::default() };
    let mut used = taken.clone();
    for name_of in [first_choice, second_choice, last_choice] {
        let mut askers: Vec<(bool, bool, &String, String)> = names
            .left_out
            .iter()
            .map(|host| {
                let name = name_of(host, vcenter);
                (held.get(&name) != Some(host), name != *host, host, name)
            })
            .collect();
        askers.sort();
        let mut given = BTreeMap::new();
        for (.., host, name) in askers {
            if used.insert(name.clone()) {
                given.insert(host.clone(), name);
            }
        }
        names.left_out.retain(|host| !given.contains_key(host));
        names.given.extend(given);
    }
    names
}

fn first_choice(host: &str, _: &str) -> String {
    names::object(host)
}

fn second_choice(host: &str, vcenter: &str) -> String {
    names::object(&format!("{host}-{vcenter}"))
}

fn last_choice(host: &str, vcenter: &str) -> String {
    let letters = names::letters(names::hash(&[host, "/", vcenter]));
    names::object(&format!("{host}-{vcenter}-{letters}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn named(hosts: &[&str], taken: &[&str], held: &[(&str, &str)]) -> Vec<(String, String)> {
        let held = held.iter().map(|(name, host)| ((*name).to_owned(), (*host).to_owned())).collect();
        host_names(&set(hosts), "lab", &set(taken), &held).given.into_iter().collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(host, name)| ((*host).to_owned(), (*name).to_owned())).collect()
    }

    #[test]
    fn a_host_is_named_as_it_is_called_unless_somebody_has_that_name() {
        assert_eq!(named(&["esxi-1", "ESXi_2"], &[], &[]), pairs(&[("ESXi_2", "esxi-2"), ("esxi-1", "esxi-1")]));
        assert_eq!(named(&["esxi-1"], &["esxi-1"], &[]), pairs(&[("esxi-1", "esxi-1-lab")]));
    }

    #[test]
    fn hosts_whose_names_look_alike_have_names_of_their_own() {
        assert_eq!(named(&["A_B", "a-b"], &[], &[]), pairs(&[("A_B", "a-b-lab"), ("a-b", "a-b")]));
        // Whoever was there first keeps its name.
        assert_eq!(named(&["A_B", "a-b"], &[], &[("a-b", "A_B")]), pairs(&[("A_B", "a-b"), ("a-b", "a-b-lab")]));
        let three = named(&["A_B", "A-B", "a_b"], &[], &[]);
        assert_eq!(three.iter().map(|(_, name)| name).collect::<BTreeSet<_>>().len(), 3, "{three:?}");
        // A second choice takes nobody's first.
        let names = named(&["A_B", "a-b", "a-b-lab"], &[], &[]);
        assert!(names.contains(&("a-b-lab".to_owned(), "a-b-lab".to_owned())), "{names:?}");
    }

    #[test]
    fn a_host_is_left_out_when_all_its_names_are_taken() {
        let last = last_choice("esxi-1", "lab");
        let names = host_names(&set(&["esxi-1"]), "lab", &set(&["esxi-1", "esxi-1-lab", &last]), &BTreeMap::new());
        assert_eq!(names, HostNames { given: BTreeMap::new(), left_out: set(&["esxi-1"]) });
    }
}
