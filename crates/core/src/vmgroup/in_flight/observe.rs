//! A group as it is: what vCenter shows of it, with what is under way for it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    slice,
    time::{Duration, Instant},
};

use drover_api::VmGroup;

use super::{InFlight, PATIENCE};
use crate::{
    Action, Subject, Timestamp,
    names::{self, Slot},
    vmgroup::{
        Folder, FolderId, Lookalikes, MachineId, Member, Observed, Power, Refusal,
        inventory::Inventory,
        membership::Matched,
        plan::outlived_shutdowns,
        record::{Record, Stage},
        view::View,
    },
};

/// A group is looked at more often than this.
const BETWEEN_LOOKS: Duration = Duration::from_mins(6);
/// How often a folder that seems empty and isn't is looked at before it is let be.
const LOOKS: u32 = 5;

/// A group as one sees it who knows nothing but what is written of it.
#[must_use]
pub fn observe_anew(group: &VmGroup, view: &View<'_, impl Inventory>, read: Instant, now: Timestamp) -> Observed {
    let mut in_flight = InFlight::default();
    // A record that makes no sense is the operator's to complain of.
    let _ = in_flight.record.take_up(group, read);
    in_flight.observe(view, replicas_before(group), now)
}

/// How many machines a group was said to have.
#[must_use]
pub(super) fn replicas_before(group: &VmGroup) -> u32 {
    let said = group.status.as_ref().and_then(|status| status.current_replicas);
    said.and_then(|count| u32::try_from(count).ok()).unwrap_or(0)
}

impl InFlight {
    /// The group as it is. `before` is how many machines it was said to have.
    pub fn observe(&mut self, view: &View<'_, impl Inventory>, before: u32, now: Timestamp) -> Observed {
        self.is_unseen = false;
        // What was begun before a restart may have ended before the first look, and its VM not be seen yet.
        let may_have_ended = self.looked.is_none() && self.record.now().is_some_and(Record::has_pending);
        if view.has_unknown_clones || may_have_ended {
            self.unknown = Some(now);
        }
        let last = self.looked.replace(now).unwrap_or(now);
        if now < last || now.duration_since(last) > BETWEEN_LOOKS.try_into().unwrap_or_default() {
            // The clock was set, and says nothing of how long anything has been missing, or has had to shut down.
            self.restart_clocks(now);
            self.shutdowns.values_mut().for_each(|since| *since = now);
        }
        let has_unknown_clones = self.may_be_cloned(now);
        if !has_unknown_clones {
            // A clock that was set back must not have it waited for a second time.
            (self.unanswered, self.unknown) = (None, None);
        }
        let is_recent = |since: &Timestamp| now.duration_since(*since).unsigned_abs() < PATIENCE;
        self.failed_clones.retain(|_, since| is_recent(since));
        let group_folder = view.group_folder();
        let folder = match group_folder.as_ref() {
            None => Folder::Absent,
            Some(folder) if view.inventory.is_occupied(folder) => Folder::Occupied,
            Some(_) if self.occupied >= LOOKS => Folder::OccupiedUnseen,
            Some(_) => Folder::Empty,
        };
        if folder != Folder::Absent && view.desired.deletion.is_none() {
            // Whoever made it, it is there.
            self.forget_failures_of(&Subject::Folder);
        }
        let Matched { found, held } = self.match_members(view, group_folder.as_ref(), before, has_unknown_clones, now);
        let members = found.members.iter().filter_map(|(slot, id)| view.member(id, *slot, group_folder.as_ref()));
        let mut members: Vec<_> = members.collect();
        self.tidy(folder, &members, now);
        let busy: BTreeSet<_> = self.under_way.iter().chain(self.done.keys()).map(Action::subject).collect();
        for member in &mut members {
            let subject = Subject::Machine(member.id.clone());
            member.busy = busy.contains(&subject);
            member.shutdown_since = self.shutdowns.get(&member.id).copied();
            member.refused = self.refused.get(&member.id).copied();
            member.not_before = self.waits.not_before(&subject);
        }
        let folder_waits = self.waits.not_before(&Subject::Folder).is_some_and(|time| time > now);
        let slot = |subject: &Subject| if let Subject::Slot(slot) = subject { Some(*slot) } else { None };
        let cloning: BTreeSet<Slot> = busy.iter().filter_map(slot).collect();
        let pending = self.record.membership.pending(&found);
        let unknown_clones = has_unknown_clones && !pending.is_empty();
        // In the group's own folder, their names let no second one in. In one that was before, they do.
        let may_be_elsewhere = self.record.now().is_some_and(|record| !record.left_folders().is_empty());
        // One that was given up and is there again takes its place back, unless the one that was to follow it is on its way after all.
        let may_be_back = |slot: &Slot| {
            let was_lost = self.record.now().is_some_and(|record| record.lost(*slot).is_some());
            was_lost && !found.returned.is_empty()
        };
        let has_failed = |slot: &Slot| may_be_elsewhere && self.failed_clones.contains_key(slot);
        let is_doubtful = |slot: &Slot| unknown_clones && (may_be_elsewhere || may_be_back(slot)) || has_failed(slot);
        let doubtful = pending.into_iter().filter(is_doubtful).collect();
        // What is on its way in or out of the folder has to be over before anything is decided by what is in it.
        let moves =
            |action: &Action| matches!(action, Action::Destroy(_) | Action::Clone(_) | Action::MoveIntoFolder(_));
        let folder_moves = view.desired.deletion.is_some() && self.under_way.iter().any(moves);
        let mut observed = Observed {
            folder: if folder_waits || folder_moves || busy.contains(&Subject::Folder) { Folder::Busy } else { folder },
            held: held.into_iter().filter(|(slot, _)| !cloning.contains(slot)).collect(),
            unmarked: found.unmarked,
            lookalikes: self.lookalikes.clone(),
            left_folders: self.left_folders(view, group_folder.as_ref(), &busy, now),
            left_folders_are_busy: self.may_use_left_folders(has_unknown_clones),
            is_stopped: false,
            members,
            cloning,
            unknown_clones,
            doubtful,
            failed: self.waits.waits().filter_map(|(subject, time)| Some((slot(subject)?, time))).collect(),
            room: view.room,
            reserved: BTreeSet::new(),
        };
        let outlived: HashSet<_> = outlived_shutdowns(view.desired, &observed, now).into_iter().collect();
        self.shutdowns.retain(|id, _| !outlived.contains(id));
        for member in observed.members.iter_mut().filter(|member| outlived.contains(&member.id)) {
            member.shutdown_since = None;
        }
        observed
    }

    /// The folders that members were moved out of, and that seem empty. One that isn't after all is let be. So is one that isn't
    /// called as the group's: after a restore, vCenter may have given its id to another.
    fn left_folders(
        &mut self,
        view: &View<'_, impl Inventory>,
        folder: Option<&FolderId>,
        busy: &BTreeSet<Subject>,
        now: Timestamp,
    ) -> Vec<FolderId> {
        let Some(record) = self.record.membership.record_mut() else { return Vec::new() };
        record.retain_folders(|id| view.inventory.folder(id).is_some() && folder != Some(id));
        let name = names::folder(&view.desired.namespace, &view.desired.name);
        let is_free = |id: &&FolderId| {
            let subject = Subject::LeftFolder((*id).clone());
            let waits = self.waits.not_before(&subject).is_some_and(|time| time > now);
            let is_groups = view.inventory.folder(id).is_some_and(|folder| folder.name == name);
            is_groups && !view.inventory.is_occupied(id) && !waits && !busy.contains(&subject)
        };
        record.left_folders().iter().filter(is_free).cloned().collect()
    }

    /// Whether a machine may be on its way into a folder that members were moved out of, or such a folder is being removed.
    fn may_use_left_folders(&self, has_unknown_clones: bool) -> bool {
        let uses = |action: &Action| {
            matches!(action, Action::MoveIntoFolder(_) | Action::Clone(_) | Action::DestroyLeftFolder(_))
        };
        let are_there = self.record.now().is_some_and(|record| !record.left_folders().is_empty());
        are_there && (has_unknown_clones || self.under_way.iter().chain(self.done.keys()).any(uses))
    }

    /// Says which machines are the group's, and which of them can't be seen.
    fn match_members(
        &mut self,
        view: &View<'_, impl Inventory>,
        folder: Option<&FolderId>,
        before: u32,
        has_unknown_clones: bool,
        now: Timestamp,
    ) -> Matched {
        let membership = &mut self.record.membership;
        let sightings = |record: &Record| view.sightings(folder, record);
        let sightings = sightings(membership.begin(sightings, before));
        let is_gone = |id: &MachineId| view.inventory.is_proved_gone(id);
        let pending = membership
            .record()
            .into_iter()
            .flat_map(Record::entries)
            .filter(|(_, entry)| entry.stage == Stage::Pending);
        // Which slots they are for, nobody knows.
        let unknown = pending.map(|(slot, _)| slot).filter(|_| has_unknown_clones);
        let cloning: BTreeSet<Slot> = self.under_way.iter().filter_map(Action::cloned_slot).chain(unknown).collect();
        let matched = membership.look(
            &view.desired.marker_uid,
            &sightings,
            &cloning,
            is_gone,
            |id| view.inventory.path_of(id),
            now,
        );
        if let (Some(record), Some(folder)) = (membership.record_mut(), folder) {
            record.use_folder(folder);
        }
        let names = |ids: &[MachineId]| ids.iter().map(|id| view.inventory.path_of(id)).collect();
        self.lookalikes = Lookalikes { copies: names(&matched.found.copies), returned: names(&matched.found.returned) };
        matched
    }

    /// Forgets what is over.
    fn tidy(&mut self, folder: Folder, members: &[Member], now: Timestamp) {
        let by_id: HashMap<_, _> = members.iter().map(|member| (&member.id, member)).collect();
        let by_slot: HashMap<_, _> = members.iter().map(|member| (member.slot, member)).collect();
        // Of a large group, only the one that an action is about is looked at.
        let concerned = |action: &Action| match action.subject() {
            Subject::Machine(id) => by_id.get(&id).map_or(&[][..], |member| slice::from_ref(*member)),
            Subject::Slot(slot) => by_slot.get(&slot).map_or(&[][..], |member| slice::from_ref(*member)),
            Subject::Folder | Subject::LeftFolder(_) => &[],
        };
        self.done.retain(|action, since| {
            // A clock that was set back would have it waited for until it is as late again.
            let waits = *since <= now && now.duration_since(*since) < PATIENCE.try_into().unwrap_or_default();
            waits && !action.shows_in(folder, concerned(action))
        });
        let is_there = |id: &MachineId| by_id.contains_key(id);
        let is_open = |subject: &Subject| match subject {
            Subject::Folder | Subject::LeftFolder(_) => true,
            Subject::Slot(slot) => !by_slot.contains_key(slot),
            Subject::Machine(id) => is_there(id),
        };
        self.waits.retain(is_open);
        self.problems.retain(|subject, _| is_open(subject));
        self.for_people.retain(is_open);
        self.looks.retain(|subject, _| is_open(subject));
        let runs = |id: &MachineId| by_id.get(id).is_some_and(|member| member.power == Power::On);
        self.shutdowns.retain(|id, _| runs(id));
        self.refused.retain(|id, refusal| match refusal {
            // Once it is off, it is another matter.
            Refusal::WhileRunning(_) => runs(id),
            Refusal::Altogether(_) => is_there(id),
        });
    }
}

#[cfg(test)]
mod tests {
    use drover_api::vmgroup::Readiness;
    use serde_json::json;

    use super::*;
    use crate::{
        plan,
        vmgroup::{
            DeletionPolicy, Desired, HotAdd,
            desired::tests::desired,
            identity::Made,
            inventory::{self, Machine, Marker, Since},
            record::Incarnation,
        },
    };

    /// Folders by id, name and parent.
    struct Folders(Vec<(&'static str, String, &'static str)>);

    /// Some folders, with one machine that is in none of them.
    struct WithMachine<'a>(&'a Folders, Machine<'a>);

    impl Inventory for WithMachine<'_> {
        fn machine(&self, id: &MachineId) -> Option<Machine<'_>> {
            Some(self.1).filter(|machine| machine.id == id.0)
        }

        fn machines_marked(&self, _: &str) -> impl Iterator<Item = Machine<'_>> {
            std::iter::once(self.1)
        }

        fn machines_in(&self, folder: &FolderId) -> impl Iterator<Item = Machine<'_>> {
            self.0.machines_in(folder)
        }

        fn folder(&self, id: &FolderId) -> Option<inventory::Folder<'_>> {
            self.0.folder(id)
        }

        fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Folder<'_>> {
            self.0.folders_in(folder)
        }

        fn is_proved_gone(&self, _: &MachineId) -> bool {
            false
        }

        fn path_of(&self, id: &MachineId) -> String {
            id.0.clone()
        }
    }

    impl Inventory for Folders {
        fn machine(&self, _: &MachineId) -> Option<Machine<'_>> {
            None
        }

        fn machines_marked(&self, _: &str) -> impl Iterator<Item = Machine<'_>> {
            std::iter::empty()
        }

        fn machines_in(&self, _: &FolderId) -> impl Iterator<Item = Machine<'_>> {
            std::iter::empty()
        }

        fn folder(&self, id: &FolderId) -> Option<inventory::Folder<'_>> {
            let found = self.0.iter().find(|(own, ..)| *own == id.0);
            found.map(|(id, name, _)| inventory::Folder { id, name })
        }

        fn folders_in(&self, folder: &FolderId) -> impl Iterator<Item = inventory::Folder<'_>> {
            let inside = self.0.iter().filter(|(.., parent)| *parent == folder.0);
            inside.map(|(id, name, _)| inventory::Folder { id, name })
        }

        fn is_proved_gone(&self, _: &MachineId) -> bool {
            false
        }

        fn path_of(&self, id: &MachineId) -> String {
            id.0.clone()
        }
    }

    fn look(in_flight: &mut InFlight, inventory: &Folders, has_unknown_clones: bool) -> Observed {
        look_at(in_flight, inventory, has_unknown_clones, Timestamp::UNIX_EPOCH)
    }

    fn look_at(
        in_flight: &mut InFlight,
        inventory: &impl Inventory,
        has_unknown_clones: bool,
        now: Timestamp,
    ) -> Observed {
        let view = View {
            desired: &desired(&json!({})),
            readiness: Readiness::default(),
            inventory,
            base: &FolderId("base".to_owned()),
            cluster: "here",
            has_unknown_clones,
            marked: BTreeSet::new(),
            room: None,
        };
        in_flight.observe(&view, 0, now)
    }

    fn own() -> String {
        let desired = desired(&json!({}));
        names::folder(&desired.namespace, &desired.name)
    }

    /// What is known after a restart: a clone into slot 0 was begun, in a folder of this id.
    fn restarted(folder: &str) -> InFlight {
        let mut record = Record::default();
        record.use_folder(&FolderId(folder.to_owned()));
        record.reserve([Slot(0)]);
        let mut in_flight = InFlight::default();
        in_flight.record.membership.set_record(record);
        in_flight
    }

    #[test]
    fn a_clone_that_nobody_remembers_may_be_on_its_way_into_another_folder() {
        let same = Folders(vec![("f-1", own(), "base")]);
        let other = Folders(vec![("f-1", own(), "base-before"), ("f-2", own(), "base")]);
        let renamed = Folders(vec![("f-1", "renamed".to_owned(), "base"), ("f-2", own(), "base")]);
        let is_doubtful = |folders: &Folders, has_unknown_clones| {
            let mut in_flight = restarted("f-1");
            look(&mut in_flight, folders, has_unknown_clones);
            let later = Timestamp::UNIX_EPOCH + PATIENCE;
            look_at(&mut in_flight, folders, has_unknown_clones, later).doubtful.contains(&Slot(0))
        };
        assert!(!is_doubtful(&same, true), "its name lets no second one in");
        assert!(is_doubtful(&other, true) && is_doubtful(&renamed, true), "the name is free in the other folder");
        assert!(!is_doubtful(&other, false) && !is_doubtful(&renamed, false), "none is on its way");
    }

    #[test]
    fn a_clone_that_nobody_remembers_may_be_seen_to_end_before_its_vm_is() {
        let folders = Folders(vec![("f-1", own(), "base-before"), ("f-2", own(), "base")]);
        for is_seen_to_run in [true, false] {
            let mut in_flight = restarted("f-1");
            let mut is_doubtful = |second: i64, has_unknown_clones| {
                let now = Timestamp::from_second(second).unwrap();
                look_at(&mut in_flight, &folders, has_unknown_clones, now).doubtful.contains(&Slot(0))
            };
            assert!(is_doubtful(0, is_seen_to_run), "it runs, or has ended before the first look");
            assert!(is_doubtful(1, false), "its VM may be about to show");
            assert!(!is_doubtful(4, false), "nothing has come of it");
            assert!(!is_doubtful(1, false), "nor will it, wherever the clock is set");
        }
    }

    #[test]
    fn a_folder_that_vms_were_moved_out_of_stays_while_any_may_be_on_its_way_into_it() {
        let folders = Folders(vec![("f-1", own(), "base-before"), ("f-2", own(), "base")]);
        let going = Desired { deletion: Some(DeletionPolicy::Delete), ..desired(&json!({"replicas": 0})) };
        // Long enough after one another for what was begun before the first look to be over.
        let next = |in_flight: &mut InFlight, is_unknown| {
            look(in_flight, &folders, is_unknown);
            let later = Timestamp::UNIX_EPOCH + PATIENCE;
            let observed = Observed { folder: Folder::Absent, ..look_at(in_flight, &folders, is_unknown, later) };
            let plan = plan(&going, &observed, later);
            assert!(!plan.settled && (plan.wake.is_some() || !plan.actions.is_empty()), "{plan:?}");
            plan.actions
        };
        let mut in_flight = restarted("f-1");
        in_flight.begin(Action::MoveIntoFolder(MachineId("vm-1".to_owned())));
        assert_eq!(next(&mut in_flight, false), [], "it may be moved into the folder of before");
        assert_eq!(next(&mut restarted("f-1"), true), [], "so may what nobody remembers");
        in_flight.lost(&Action::MoveIntoFolder(MachineId("vm-1".to_owned())), Timestamp::UNIX_EPOCH);
        assert_eq!(next(&mut in_flight, false), [Action::DestroyLeftFolder(FolderId("f-1".to_owned()))]);
    }

    #[test]
    fn one_that_was_given_up_and_is_back_takes_its_place_again_and_nothing_is_cloned_there_meanwhile() {
        let group = desired(&json!({}));
        let instance = names::instance(&group.marker_uid, Slot(0), Incarnation(1));
        let marker = Marker {
            group: group.marker_uid.clone(),
            owner: (group.namespace.clone(), group.name.clone()),
            slot: Slot(0),
            revision: group.revision,
            cluster: "here".to_owned(),
            made: Some(Made { instance: instance.clone(), incarnation: Incarnation(1) }),
            storage_mib: None,
        };
        let machine = Machine {
            id: "vm-1",
            name: "elsewhere",
            folder: None,
            marker: Some(&marker),
            instance: Some(&instance),
            is_template: false,
            unreachable_since: None,
            hardware: group.hardware,
            storage_mib: None,
            hot_add: HotAdd::default(),
            power: Power::On,
            tools_running: false,
            since: Since::default(),
            created: Timestamp::UNIX_EPOCH,
        };
        let folders = Folders(vec![("f-1", own(), "base")]);
        let inventory = WithMachine(&folders, machine);
        let mut record = Record::default();
        record.use_folder(&FolderId("f-1".to_owned()));
        record.reserve([Slot(0)]);
        record.see(Slot(0));
        record.reserve([Slot(0)]);
        let mut in_flight = InFlight::default();
        in_flight.record.membership.set_record(record);
        let restarted = look_at(&mut in_flight, &inventory, false, Timestamp::UNIX_EPOCH);
        assert!(restarted.members.is_empty() && restarted.doubtful.contains(&Slot(0)), "{restarted:?}");
        let later = look_at(&mut in_flight, &inventory, false, Timestamp::UNIX_EPOCH + PATIENCE);
        assert!(later.members.len() == 1 && later.doubtful.is_empty(), "{later:?}");
    }

    #[test]
    fn a_clone_that_ended_without_a_word_keeps_its_place_until_its_vm_would_show() {
        let mut in_flight = restarted("f-1");
        let folders = Folders(vec![("f-1", own(), "base")]);
        let none = Desired { replicas: 0, ..desired(&json!({})) };
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        in_flight.begin(Action::Clone(Slot(0)));
        in_flight.lost(&Action::Clone(Slot(0)), at(0));
        let mut is_pending = |second: i64| {
            let observed = look_at(&mut in_flight, &folders, false, at(second));
            in_flight.give_up(&plan(&none, &observed, at(second)), false, at(second));
            in_flight.record.now().is_some_and(|record| record.get(Slot(0)).is_some())
        };
        assert!(is_pending(1), "its VM may show any moment");
        assert!(!is_pending(60), "it would have, by now");
    }

    #[test]
    fn a_clock_that_was_set_gives_no_vm_up() {
        let mut record = Record::default();
        record.reserve([Slot(0)]);
        record.see(Slot(0));
        let mut in_flight = InFlight::default();
        in_flight.record.membership.set_record(record);
        let folders = Folders(vec![("f-1", own(), "base")]);
        let held_since = |in_flight: &mut InFlight, second: i64| {
            look_at(in_flight, &folders, false, Timestamp::from_second(second).unwrap()).held[&Slot(0)]
                .since
                .as_second()
        };
        assert_eq!(held_since(&mut in_flight, 100), 100);
        assert_eq!(held_since(&mut in_flight, 400), 100, "it is looked at every five minutes at least");
        assert_eq!(held_since(&mut in_flight, 4000), 4000, "the clock was set forward");
        assert_eq!(held_since(&mut in_flight, 500), 500, "and back");
    }

    #[test]
    fn a_folder_is_only_the_groups_by_its_name_whatever_its_id() {
        let other = Folders(vec![("f-1", own(), "base-before"), ("f-2", own(), "base")]);
        let strangers = Folders(vec![("f-1", "strangers".to_owned(), "base"), ("f-2", own(), "base")]);
        let left = |folders: &Folders| look(&mut restarted("f-1"), folders, false).left_folders;
        assert_eq!(left(&other), [FolderId("f-1".to_owned())]);
        assert_eq!(left(&strangers), []);
    }
}
