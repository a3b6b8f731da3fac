//! Who goes and who comes: scale-in, scale-out and replacement, within what may be missing and what may be too many.

use std::collections::BTreeSet;

use super::{Action, Draft, census::Census};
use crate::{names::Slot, vmgroup::Member};

/// Of the machines, in the order in which they go, those that are to go now. Taking down one that stands is paid from the budget; any other costs nobody anything.
pub(super) fn leaving<'a>(census: &Census<'_>, ordered: &[&'a Member], budget: &mut usize) -> Vec<&'a Member> {
    let mut surplus = census.surplus();
    let mut leaving = Vec::new();
    for member in ordered.iter().copied() {
        let is_too_many = surplus > 0 && census.may_be_too_many(member);
        if !is_too_many && !census.may_be_replaced(member) {
            continue;
        }
        if census.is_standing(member) {
            if *budget == 0 {
                continue;
            }
            *budget -= 1;
        }
        surplus = surplus.saturating_sub(usize::from(census.may_be_too_many(member)));
        leaving.push(member);
    }
    leaving
}

/// Clones are asked for in batches of this many: more than any vCenter takes at once, so that none is held up, and few enough that a
/// plan for a great group costs little.
const BATCH: usize = 1_000;

/// How many of the missing VMs to ask for now. With those that are there the sum is a whole number of batches: so each VM that comes
/// doesn't have one more asked for, which would be written down by itself.
fn soon(missing: usize, taken: usize) -> usize {
    missing.min(2 * BATCH - taken % BATCH)
}

/// Clones into the lowest free slots. A slot whose clone has just failed keeps its place, and is tried when its time comes.
pub(super) fn clone_missing(census: &Census<'_>, draft: &mut Draft) {
    let missing = census.missing();
    let soon = soon(missing, census.taken().len());
    // A VM that was lost is replaced in its own place, if the group still has that.
    let (lost, beyond): (BTreeSet<_>, BTreeSet<_>) = census.lost_slots().partition(|slot| census.has_slot(*slot));
    draft.given_up.extend(beyond);
    let free: Vec<_> = census.free_slots().filter(|slot| !lost.contains(slot)).take(soon).collect();
    draft.given_up.extend(lost.iter().skip(missing));
    let is_reserved = |slot: &Slot| census.observed.reserved.contains(slot);
    let mut room = census.room_for_clones();
    let reserved = lost.iter().chain(&free).take(soon).filter(|slot| is_reserved(slot)).count();
    draft.held_back += missing.saturating_sub(room.saturating_add(reserved));
    for slot in lost.into_iter().chain(free).take(soon) {
        if !is_reserved(&slot) {
            let Some(left) = room.checked_sub(1) else { continue };
            room = left;
        }
        match census.observed.failed.get(&slot) {
            Some(time) if *time > census.now => draft.wake_at(*time),
            _ => draft.actions.push(Action::Clone(slot)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::{
        Timestamp,
        vmgroup::{
            Desired, Folder, Held, HeldFor, Observed, Strategy, UpdatePolicy,
            desired::tests::desired,
            forecast::{forecast, foreseen},
            plan::{outdated, plan},
        },
    };

    fn clones(desired: &Desired, observed: &Observed, seconds: i64) -> Vec<Slot> {
        let now = Timestamp::from_second(seconds).unwrap();
        plan(desired, observed, now).actions.iter().filter_map(Action::cloned_slot).collect()
    }

    #[test]
    fn a_plan_asks_for_no_more_clones_than_can_begin_soon_whatever_is_declared() {
        let two_billion = Desired { replicas: u32::MAX, ..desired(&json!({})) };
        let empty = Observed { folder: Folder::Empty, ..Observed::default() };
        assert_eq!(clones(&two_billion, &empty, 0).len(), 2 * BATCH);
    }

    #[test]
    fn a_great_group_is_asked_for_batch_by_batch_and_is_whole_in_the_end() {
        let desired = desired(&json!({"replicas": 10_000}));
        let all = forecast(&desired, &Observed { folder: Folder::Empty, ..Observed::default() }, Timestamp::UNIX_EPOCH);
        let slots: Vec<_> = all.iter().filter_map(Action::cloned_slot).collect();
        assert_eq!(slots, (0..10_000).map(Slot).collect::<Vec<_>>());
        // Those that begin are followed by others when a whole batch has begun, and not before.
        let last_with = |begun: u32| {
            let cloning: BTreeSet<_> = (0..begun).map(Slot).collect();
            let observed = Observed { folder: Folder::Empty, cloning, ..Observed::default() };
            clones(&desired, &observed, 0).last().copied()
        };
        let (first, second) = (Some(Slot(1999)), Some(Slot(2999)));
        assert_eq!([0, 1, 640, 999, 1000, 1999].map(last_with), [first, first, first, first, second, second]);
    }

    #[test]
    fn a_group_with_addresses_that_is_scaled_in_loses_its_highest_slots_and_is_not_taken_for_one_that_is_outdated() {
        let adapters = json!([{"network": "lan", "mac": "PerSlot"}]);
        let of = |replicas: u32| desired(&json!({"replicas": replicas, "networkAdapters": adapters}));
        let mut observed = foreseen(&of(3), Timestamp::UNIX_EPOCH);
        let fewer = plan(&of(1), &observed, Timestamp::UNIX_EPOCH);
        let going = [1, 2].map(|slot| observed.members[slot].id.clone());
        assert!(going.iter().all(|id| fewer.actions.contains(&Action::PowerOff(id.clone()))), "{fewer:?}");
        assert!(outdated(&of(1), &observed, Timestamp::UNIX_EPOCH).is_empty());
        // Slots that are not from 0 on, as they may be before a group has addresses: each is replaced within what may be missing.
        observed.members[1].slot = Slot(7);
        observed.members[2].slot = Slot(9);
        let moved = plan(&of(3), &observed, Timestamp::UNIX_EPOCH);
        let is_off = |action: &&Action| matches!(action, Action::PowerOff(_));
        assert_eq!(moved.actions.iter().filter(is_off).count(), 1, "{moved:?}");
        let kept = Desired { update: UpdatePolicy { strategy: Strategy::OnDelete, ..of(3).update }, ..of(3) };
        let left = plan(&kept, &observed, Timestamp::UNIX_EPOCH);
        let touches = |action: &Action| matches!(action, Action::PowerOff(_) | Action::Clone(_) | Action::Destroy(_));
        assert!(!left.actions.iter().any(touches), "{left:?}");
    }

    #[test]
    fn a_lost_vm_beyond_the_batch_is_not_given_up_without_another_in_its_place() {
        let desired = desired(&json!({"replicas": 5000, "lostAfterSeconds": 300}));
        let held = Held { since: Timestamp::UNIX_EPOCH, why: HeldFor::Missing };
        let held = (0..5000).map(|slot| (Slot(slot), held.clone())).collect();
        let observed = Observed { folder: Folder::Occupied, held, ..Observed::default() };
        let plan = plan(&desired, &observed, Timestamp::from_second(100_000).unwrap());
        assert_eq!((plan.given_up, plan.actions.len()), (Vec::new(), 2 * BATCH));
    }
}
