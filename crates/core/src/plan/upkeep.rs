//! How each machine is: its name, place, hardware and power.

use super::{Action, Draft, census::Census};
use crate::group::{Member, Power, Strategy};

/// Puts right the first thing about a machine that isn't as declared. What needs the machine down for a while is paid from
/// the budget.
pub(super) fn maintain(census: &Census<'_>, member: &Member, budget: &mut usize, draft: &mut Draft) {
    if !may_act(census, member, draft) {
        return;
    }
    let name = census.name_of(member.slot);
    if member.name != name {
        draft.actions.push(Action::Rename(member.id.clone(), name));
    } else if !member.in_folder {
        draft.actions.push(Action::MoveIntoFolder(member.id.clone()));
    } else if needs_other_hardware(census, member) {
        change_hardware(census, member, budget, draft);
    } else if member.power != census.desired.power {
        change_power(census, member, draft);
    }
}

/// Takes a machine away: off first, then gone.
pub(super) fn remove(census: &Census<'_>, member: &Member, draft: &mut Draft) {
    if !may_act(census, member, draft) {
        return;
    }
    if member.power == Power::Off {
        draft.actions.push(Action::Destroy(member.id.clone()));
    } else {
        stop(census, member, draft);
    }
}

/// Brings a machine down, by its guest's own means where there are some and they take no longer than they may.
pub(super) fn stop(census: &Census<'_>, member: &Member, draft: &mut Draft) {
    if member.power == Power::On && member.guest_answers && !census.desired.shutdown_grace.is_zero() {
        match census.patience_ends(member) {
            None => return draft.actions.push(Action::ShutdownGuest(member.id.clone())),
            Some(time) if time > census.now => return,
            Some(_) => {}
        }
    }
    draft.actions.push(Action::PowerOff(member.id.clone()));
}

pub(super) fn may_act(census: &Census<'_>, member: &Member, draft: &mut Draft) -> bool {
    if let Some(time) = member.not_before {
        draft.wake_at(time);
    }
    census.is_idle(member)
}

/// A machine that is going to be replaced gets its hardware by that.
fn needs_other_hardware(census: &Census<'_>, member: &Member) -> bool {
    census.desired.update.strategy == Strategy::InPlaceFirst
        && !census.is_outdated(member)
        && member.hardware != census.desired.hardware
}

fn change_hardware(census: &Census<'_>, member: &Member, budget: &mut usize, draft: &mut Draft) {
    let hardware = census.desired.hardware;
    let can_now =
        member.power == Power::Off || member.power == Power::On && member.hot_add.allows(member.hardware, hardware);
    if can_now {
        draft.actions.push(Action::Reconfigure(member.id.clone(), hardware));
        return;
    }
    if census.is_standing(member) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
    }
    stop(census, member, draft);
}

fn change_power(census: &Census<'_>, member: &Member, draft: &mut Draft) {
    match (member.power, census.desired.power) {
        (_, Power::Off) => stop(census, member, draft),
        (Power::On, Power::Suspended) => draft.actions.push(Action::Suspend(member.id.clone())),
        // Only a running machine can be suspended.
        (_, Power::On | Power::Suspended) => draft.actions.push(Action::PowerOn(member.id.clone())),
    }
}
