//! The share of a vCenter that a group should have: its hosts are divided evenly among the namespaces that want something, and the part of
//! each namespace among those of its groups that do.

use crate::{Sizes, vcenter::PLACES};

/// The groups of a namespace, by their UIDs, each with how many VMs it has still to get.
pub(crate) type Namespace = Vec<(String, f64)>;

/// When each group would have all its VMs, if what hosts do could be divided without end. The clone itself takes its time on top.
pub(crate) fn finishes(namespaces: &[Namespace], sizes: &Sizes) -> Vec<(String, f64)> {
    let mut waiting = namespaces.to_vec();
    let mut finishes = Vec::new();
    let mut now = 0.0;
    while !waiting.is_empty() {
        let share = rate(sizes) / count(waiting.len());
        let until_next = |groups: &Namespace| {
            let least = groups.iter().map(|(_, left)| *left).fold(f64::INFINITY, f64::min);
            least * count(groups.len()) / share
        };
        let step = waiting.iter().map(until_next).fold(f64::INFINITY, f64::min);
        now += step;
        for groups in &mut waiting {
            let made = step * share / count(groups.len());
            for (_, left) in groups.iter_mut() {
                *left -= made;
            }
            // What is left of one that is done is an error of rounding.
            let is_done = |(_, left): &(String, f64)| *left < 1e-6;
            finishes.extend(groups.iter().filter(|group| is_done(group)).map(|(uid, _)| (uid.clone(), now)));
            groups.retain(|group| !is_done(group));
        }
        waiting.retain(|groups| !groups.is_empty());
    }
    finishes
}

/// How many clones a second the hosts of a vCenter make.
#[allow(clippy::cast_precision_loss, reason = "these are small numbers")]
fn rate(sizes: &Sizes) -> f64 {
    f64::from(sizes.hosts) * PLACES as f64 / sizes.clone_seconds as f64
}

#[allow(clippy::cast_precision_loss, reason = "these are small numbers")]
fn count(number: usize) -> f64 {
    number as f64
}
