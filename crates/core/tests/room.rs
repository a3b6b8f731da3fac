//! A group that may not have all that it declares.

use std::{sync::Arc, time::Duration};

use drover_api::vmgroup::GuestNetwork;
use drover_core::{
    Action, Timestamp, forecast,
    names::{self, Slot},
    plan,
    vmgroup::{
        DeletionPolicy, Desired, Folder, Hardware, HotAdd, MachineId, Member, Observed, Power, Revision, Room, ScaleIn,
        Slots, Strategy, UpdatePolicy,
    },
};

const SMALL: Hardware = Hardware { cpus: 1, memory_mib: 1024 };
const LARGE: Hardware = Hardware { cpus: 2, memory_mib: 2048 };

fn desired(replicas: u32) -> Desired {
    Desired {
        uid: "uid".to_owned(),
        marker_uid: "uid".to_owned(),
        namespace: "ns".to_owned(),
        name: "web".to_owned(),
        replicas,
        hardware: SMALL,
        revision: Revision(0),
        slots: Slots::Any,
        adapters: Arc::default(),
        hostname: None,
        guest_network: GuestNetwork::default(),
        power: Power::On,
        update: UpdatePolicy {
            strategy: Strategy::InPlaceFirst,
            max_unavailable: 1,
            max_surge: 1,
            min_ready: Duration::ZERO,
            progress_deadline: Duration::from_mins(10),
        },
        scale_in: ScaleIn::Newest,
        shutdown_grace: Duration::ZERO,
        deletion: None,
        lost_after: None,
        paused: false,
    }
}

/// VMs that run, as `desired` declares them.
fn running(number: u32, room: Option<Room>) -> Observed {
    let member = |slot| Member {
        id: MachineId(format!("vm-{slot}")),
        slot: Slot(slot),
        revision: Revision(0),
        created: Timestamp::UNIX_EPOCH,
        name: names::member("web", "uid", Slot(slot)),
        in_folder: true,
        hardware: SMALL,
        storage_mib: 0,
        hot_add: HotAdd { cpus: true, memory: true, ..HotAdd::default() },
        refused: None,
        power: Power::On,
        unreachable_since: None,
        ready_since: Some(Timestamp::UNIX_EPOCH),
        guest_answers: false,
        shutdown_since: None,
        busy: false,
        marked: false,
        not_before: None,
    };
    Observed { folder: Folder::Occupied, members: (0..number).map(member).collect(), room, ..Observed::default() }
}

/// What is done, and how many VMs wait.
fn done(desired: &Desired, observed: &Observed) -> (Vec<Action>, usize) {
    let plan = plan(desired, observed, Timestamp::UNIX_EPOCH);
    assert!(plan.held_back == 0 || !plan.settled, "what waits for room is not as declared");
    (plan.actions, plan.held_back)
}

fn vm(slot: u32) -> MachineId {
    MachineId(format!("vm-{slot}"))
}

#[test]
fn a_group_without_room_only_shrinks() {
    let mut three = running(3, Some(Room::NONE));
    let edited = Desired { revision: Revision(1), ..desired(3) };
    assert_eq!(done(&desired(3), &three), (vec![], 0), "it is as declared");
    assert_eq!(done(&desired(5), &three), (vec![], 2), "none is cloned");
    assert_eq!(done(&edited, &three), (vec![], 3), "none is replaced, and none made before one goes");
    assert_eq!(done(&Desired { replicas: 2, ..edited.clone() }, &three), (vec![Action::PowerOff(vm(2))], 2));
    three.members[0].power = Power::Off;
    assert_eq!(done(&edited, &three).0, [Action::PowerOn(vm(0))], "what was to be replaced runs on");
    three.members[0].name = "renamed".to_owned();
    let name = names::member("web", "uid", Slot(0));
    assert_eq!(done(&edited, &three).0, [Action::Rename(vm(0), name)]);
    let gone = Desired { deletion: Some(DeletionPolicy::Delete), ..desired(3) };
    assert_eq!(
        done(&gone, &three),
        (vec![Action::Destroy(vm(0)), Action::PowerOff(vm(1)), Action::PowerOff(vm(2))], 0)
    );
}

#[test]
fn what_a_surge_has_made_takes_the_place_of_another_when_there_is_no_more_room() {
    let edited = Desired { revision: Revision(1), ..desired(3) };
    let mut four = running(4, Some(Room::NONE));
    four.members[3].revision = Revision(1);
    let (actions, held_back) = done(&edited, &four);
    assert_eq!((actions, held_back), (vec![Action::PowerOff(vm(2))], 2));
}

#[test]
fn no_folder_is_made_for_a_group_that_may_have_nothing() {
    let nothing = |room| Observed { room, ..Observed::default() };
    assert_eq!(done(&desired(2), &nothing(Some(Room::NONE))), (vec![], 2));
    assert_eq!(done(&desired(2), &nothing(None)), (vec![Action::CreateFolder], 0));
    // Its VMs were moved out of it, and belong there.
    let moved = Observed { folder: Folder::Absent, ..running(1, Some(Room::NONE)) };
    assert_eq!(done(&desired(1), &moved), (vec![Action::CreateFolder], 0));
}

#[test]
fn what_was_held_back_is_counted() {
    let some = |clones, replacements, growths| Some(Room { clones, replacements, growths });
    let clones = |slots: &[u32]| slots.iter().map(|slot| Action::Clone(Slot(*slot))).collect::<Vec<_>>();
    assert_eq!(done(&desired(5), &running(1, some(2, false, 0))), (clones(&[1, 2]), 2));
    assert_eq!(done(&desired(5), &running(1, some(9, false, 0))), (clones(&[1, 2, 3, 4]), 0));
    let larger = Desired { hardware: LARGE, ..desired(3) };
    let reconfigured =
        |slots: &[u32]| slots.iter().map(|slot| Action::Reconfigure(vm(*slot), LARGE)).collect::<Vec<_>>();
    assert_eq!(done(&larger, &running(3, some(0, false, 2))), (reconfigured(&[2, 1]), 1));
    assert_eq!(done(&larger, &running(3, some(0, false, 0))), (vec![], 3));
    assert_eq!(done(&larger, &running(3, Some(Room::NONE))).1, 0, "reach says where, and not how much");
    let mut large = running(3, some(0, false, 0));
    large.members.iter_mut().for_each(|member| (member.hardware, member.power) = (LARGE, Power::Off));
    let smaller = (0..3).rev().map(|slot| Action::Reconfigure(vm(slot), SMALL)).collect::<Vec<_>>();
    assert_eq!(done(&desired(3), &large), (smaller, 0), "less needs no room");
}

#[test]
fn a_vm_that_was_taken_down_to_grow_comes_up_again_when_there_is_no_room_for_it() {
    let mut observed = running(1, Some(Room { growths: 0, ..Room::NONE }));
    observed.members[0].power = Power::Off;
    assert_eq!(done(&Desired { hardware: LARGE, ..desired(1) }, &observed), (vec![Action::PowerOn(vm(0))], 1));
}

#[test]
fn a_forecast_makes_and_replaces_what_there_is_room_for() {
    let edited = Desired { revision: Revision(1), ..desired(3) };
    let clones = |desired: &Desired, room| {
        let actions = forecast(desired, &running(3, room), Timestamp::UNIX_EPOCH);
        actions.iter().filter(|action| action.cloned_slot().is_some()).count()
    };
    assert_eq!(clones(&edited, None), 3);
    assert_eq!(clones(&edited, Some(Room::NONE)), 0);
    assert_eq!(
        clones(&edited, Some(Room { clones: 0, replacements: true, growths: 0 })),
        3,
        "each in the place of one"
    );
    assert_eq!(clones(&desired(9), Some(Room { clones: 2, ..Room::NONE })), 2);
}
