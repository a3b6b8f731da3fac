//! How each machine is: its name, place, hardware and power.

use super::{Action, Draft, census::Census};
use crate::{
    Timestamp,
    vmgroup::{DeletionPolicy, Desired, MachineId, Member, Observed, Power, Refusal, Strategy},
};

/// The machines whose guests were asked to shut down for a reason that is no more, and have let their time pass: that they were
/// asked is to be forgotten, so that they are asked again before they are next powered off.
///
/// While its time runs, a guest may be on its way down, whether or not anybody still wants it to.
#[must_use]
pub fn outlived_shutdowns(desired: &Desired, observed: &Observed, now: Timestamp) -> Vec<MachineId> {
    let census = Census::take(desired, observed, now);
    let is_over = |member: &Member| census.patience_ends(member).is_some_and(|time| time <= now);
    let outlived = observed.members.iter().filter(|member| is_over(member) && !is_to_stop(&census, member));
    outlived.map(|member| member.id.clone()).collect()
}

/// Whether anything that is declared asks for a machine to go down, now or when its turn comes.
fn is_to_stop(census: &Census<'_>, member: &Member) -> bool {
    let desired = census.desired;
    match desired.deletion {
        Some(DeletionPolicy::Retain) => false,
        Some(DeletionPolicy::Delete | DeletionPolicy::PowerOff) => true,
        None if desired.paused => false,
        None => {
            // Of a surplus, those that were asked go first.
            census.surplus() > 0 && census.may_be_too_many(member)
                || census.may_be_replaced(member)
                || desired.power == Power::Off
                || needs_other_hardware(census, member) && !member.takes_running(desired.hardware)
        }
    }
}

/// Puts right the first thing about a machine that isn't as declared. What needs the machine down for a while is paid from
/// the budget.
pub(super) fn maintain(census: &Census<'_>, member: &Member, budget: &mut usize, draft: &mut Draft) {
    draft.held_back += usize::from(census.waits_for_replacement(member));
    if !may_act(census, member, draft) {
        return;
    }
    let name = census.name_of(member.slot);
    if member.name != name {
        draft.actions.push(Action::Rename(member.id.clone(), name));
    } else if !member.in_folder {
        draft.actions.push(Action::MoveIntoFolder(member.id.clone()));
    } else if needs_other_hardware(census, member) && has_room_for_it(census, member, draft) {
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

/// A machine that is going to be replaced gets its hardware by that. One that was refused it even when it was off goes on with
/// what it has, and isn't taken down again for nothing.
pub(super) fn needs_other_hardware(census: &Census<'_>, member: &Member) -> bool {
    let hardware = census.desired.hardware;
    census.desired.update.strategy == Strategy::InPlaceFirst
        && !census.is_outdated(member)
        && member.hardware != hardware
        && member.refused != Some(Refusal::Altogether(hardware))
}

/// Whether a machine may have the hardware that is declared. One that was taken down for it, and may not, comes up again without.
fn has_room_for_it(census: &Census<'_>, member: &Member, draft: &mut Draft) -> bool {
    let has_room = draft.growths > 0 || !grows(census, member);
    draft.held_back += usize::from(!has_room && !census.waits_for_replacement(member));
    has_room
}

/// Whether the hardware that is declared is more than a machine has.
fn grows(census: &Census<'_>, member: &Member) -> bool {
    let (has, wanted) = (member.hardware, census.desired.hardware);
    wanted.cpus > has.cpus || wanted.memory_mib > has.memory_mib
}

fn change_hardware(census: &Census<'_>, member: &Member, budget: &mut usize, draft: &mut Draft) {
    let hardware = census.desired.hardware;
    let growth = u32::from(grows(census, member));
    let can_now = member.power == Power::Off || member.power == Power::On && member.takes_running(hardware);
    if can_now {
        draft.growths = draft.growths.saturating_sub(growth);
        draft.actions.push(Action::Reconfigure(member.id.clone(), hardware));
        return;
    }
    if census.is_standing(member) {
        if *budget == 0 {
            return;
        }
        *budget -= 1;
    }
    draft.growths = draft.growths.saturating_sub(growth);
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        names::{self, Slot},
        vmgroup::{Folder, Hardware, HotAdd, desired::tests::desired as spec, plan::plan},
    };

    const GRACE: i64 = 30;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn desired(fields: &Value) -> Desired {
        let mut whole = json!({"cpu": 1, "replicas": 3, "shutdown": {"graceSeconds": GRACE}});
        whole.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap());
        Desired { uid: "uid".to_owned(), marker_uid: "uid".to_owned(), ..spec(&whole) }
    }

    /// Machines that are up, can be given more CPUs, and whose guests answer.
    fn running(number: u32) -> Observed {
        let member = |slot| Member {
            unreachable_since: None,
            id: MachineId(format!("vm-{slot}")),
            slot: Slot(slot),
            revision: desired(&json!({})).revision,
            created: at(0),
            name: names::member("sample", "uid", Slot(slot)),
            in_folder: true,
            hardware: Hardware { cpus: 1, memory_mib: 1024 },
            storage_mib: 0,
            hot_add: HotAdd { cpus: true, ..HotAdd::default() },
            refused: None,
            power: Power::On,
            ready_since: Some(at(0)),
            guest_answers: true,
            shutdown_since: None,
            busy: false,
            marked: false,
            not_before: None,
        };
        Observed { folder: Folder::Occupied, members: (0..number).map(member).collect(), ..Observed::default() }
    }

    #[test]
    fn a_refused_hot_add_becomes_a_power_cycle_of_as_many_as_may_be_down() {
        let more = desired(&json!({"cpu": 2}));
        let mut observed = running(3);
        let reconfigured = plan(&more, &observed, at(9)).actions;
        assert!(reconfigured.iter().all(|action| matches!(action, Action::Reconfigure(..))), "{reconfigured:?}");
        for member in &mut observed.members {
            member.refused = Some(Refusal::WhileRunning(more.hardware));
        }
        let asked = plan(&more, &observed, at(9)).actions;
        assert!(matches!(&asked[..], [Action::ShutdownGuest(_)]), "{asked:?}");
        observed.members[0].power = Power::Off;
        let off = observed.members[0].id.clone();
        assert_eq!(plan(&more, &observed, at(9)).actions, [Action::Reconfigure(off, more.hardware)]);
    }

    #[test]
    fn what_was_refused_says_nothing_of_other_hardware() {
        let more = desired(&json!({"cpu": 4}));
        let mut observed = running(1);
        observed.members[0].refused = Some(Refusal::WhileRunning(Hardware { cpus: 2, memory_mib: 1024 }));
        let id = observed.members[0].id.clone();
        assert!(plan(&more, &observed, at(9)).actions.contains(&Action::Reconfigure(id, more.hardware)));
    }

    #[test]
    fn a_machine_that_must_not_go_down_is_replaced_when_its_hot_add_was_refused() {
        let more = desired(&json!({"cpu": 2, "update": {"maxUnavailable": 0, "maxSurge": 1}}));
        let mut observed = running(3);
        observed.members[1].refused = Some(Refusal::WhileRunning(more.hardware));
        assert!(plan(&more, &observed, at(9)).actions.contains(&Action::Clone(Slot(3))));
    }

    #[test]
    fn a_machine_that_takes_the_hardware_in_no_state_comes_up_again_with_what_it_has() {
        let more = desired(&json!({"cpu": 2}));
        let mut observed = running(1);
        observed.members[0].refused = Some(Refusal::Altogether(more.hardware));
        observed.members[0].power = Power::Off;
        let id = observed.members[0].id.clone();
        let started = plan(&more, &observed, at(9));
        assert!(started.actions.contains(&Action::PowerOn(id.clone())), "{started:?}");
        observed.members[0].power = Power::On;
        let next = plan(&more, &observed, at(9));
        assert!(!next.actions.iter().any(|action| action.subject() == crate::Subject::Machine(id.clone())), "{next:?}");
        assert!(!next.settled, "it isn't as declared");
    }

    #[test]
    fn a_cancelled_scale_in_forgets_who_was_asked_once_their_time_is_over() {
        let mut observed = running(3);
        observed.members[2].shutdown_since = Some(at(0));
        let asked = vec![observed.members[2].id.clone()];
        let (fewer, all) = (desired(&json!({"replicas": 2})), desired(&json!({})));
        assert!(outlived_shutdowns(&fewer, &observed, at(GRACE)).is_empty(), "it is still to go");
        assert!(outlived_shutdowns(&all, &observed, at(GRACE - 1)).is_empty(), "it may be on its way down");
        assert_eq!(outlived_shutdowns(&all, &observed, at(GRACE)), asked);
    }

    #[test]
    fn who_was_asked_is_remembered_for_as_long_as_there_is_a_reason() {
        let mut observed = running(3);
        observed.members[0].shutdown_since = Some(at(0));
        for (reason, is_one) in [
            (json!({"replicas": 0}), true),
            (json!({"powerState": "Off"}), true),
            (json!({"template": "another"}), true),
            (json!({"memory": 2}), true),
            (json!({"cpu": 2}), false),
            (json!({"powerState": "Off", "paused": true}), false),
        ] {
            let forgotten = outlived_shutdowns(&desired(&reason), &observed, at(GRACE));
            assert_eq!(forgotten.is_empty(), is_one, "{reason}");
        }
        for (policy, is_one) in
            [(DeletionPolicy::Delete, true), (DeletionPolicy::PowerOff, true), (DeletionPolicy::Retain, false)]
        {
            let going = Desired { deletion: Some(policy), ..desired(&json!({})) };
            assert_eq!(outlived_shutdowns(&going, &observed, at(GRACE)).is_empty(), is_one, "{policy:?}");
        }
    }
}
