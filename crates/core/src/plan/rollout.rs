//! Who goes and who comes: scale-in, scale-out and replacement, within what may be missing and what may be too many.

use std::collections::BTreeSet;

use super::{Action, Draft, census::Census};
use crate::group::Member;

/// The machines that are to go now. Taking down one that stands is paid from the budget; any other costs nobody anything.
pub(super) fn leaving<'a>(census: &Census<'a>, budget: &mut usize) -> Vec<&'a Member> {
    let mut surplus = census.seen().saturating_sub(census.ceiling());
    let mut leaving = Vec::new();
    for member in census.in_leaving_order() {
        if surplus == 0 && !census.is_to_be_replaced(member) {
            continue;
        }
        if census.is_standing(member) {
            if *budget == 0 {
                continue;
            }
            *budget -= 1;
        }
        surplus = surplus.saturating_sub(1);
        leaving.push(member);
    }
    leaving
}

/// The most clones that one plan asks for. The next plan asks for more.
const MOST: usize = 10_000;

/// Clones into the lowest free slots. A slot whose clone has just failed keeps its place, and is tried when its time comes.
pub(super) fn clone_missing(census: &Census<'_>, draft: &mut Draft) {
    let missing = census.ceiling().saturating_sub(census.taken().len()).min(MOST);
    // A VM that was lost is replaced in its own place.
    let lost: BTreeSet<_> = census.lost_slots().collect();
    let free: Vec<_> = census.free_slots().filter(|slot| !lost.contains(slot)).take(missing).collect();
    draft.given_up.extend(lost.iter().skip(missing));
    for slot in lost.into_iter().chain(free).take(missing) {
        match census.observed.failed.get(&slot) {
            Some(time) if *time > census.now => draft.wake_at(*time),
            _ => draft.actions.push(Action::Clone(slot)),
        }
    }
}
