//! The tasks of a vCenter: those that run, those that have ended, and whose they are.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use vim25::{
    Any, LocalizedMethodFault, ManagedObjectReference, Result,
    enums::TaskInfoState,
    props::task,
    types::{ObjectUpdate, PropertySpec, TaskInfo, TaskReasonUser},
};

use super::mirror::{Consequences, GroupKey};

/// All tasks that vCenter tells of.
#[derive(Debug, Default)]
pub(crate) struct TaskStates {
    ended: HashMap<ManagedObjectReference, Ended>,
    running: HashMap<ManagedObjectReference, Running>,
    /// Whose tasks they are that were submitted from here, until their end is taken up.
    submitters: HashMap<ManagedObjectReference, GroupKey>,
}

/// How a task ended.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Well, with what it has made, if anything.
    Done(Option<ManagedObjectReference>),
    Failed(LocalizedMethodFault),
    /// vCenter has dropped the task before its end was seen. What it did, the world shows.
    Unseen,
}

/// A task that runs.
#[derive(Clone, Debug)]
struct Running {
    /// Whether it brings VMs into a folder: it clones or moves.
    brings_vms: bool,
    /// The machine that it reconfigures, if it does.
    reconfigures: Option<ManagedObjectReference>,
    /// Who has asked for it.
    user: Option<String>,
}

/// What a task has destroyed, and how long that took.
pub(super) struct Destruction {
    pub object: ManagedObjectReference,
    pub took: Duration,
}

/// The properties of tasks.
pub(crate) fn properties() -> Vec<PropertySpec> {
    vec![PropertySpec::of(&[&task::INFO])]
}

impl Running {
    fn of(info: TaskInfo) -> Self {
        let user = info.reason.downcast_ref::<TaskReasonUser>().map(|reason| reason.user_name.clone());
        // vCenter says `Folder.moveInto`, simulators the name of the call.
        let brings_vms = ["VirtualMachine.clone", "Folder.moveInto"]
            .iter()
            .any(|beginning| info.description_id.starts_with(beginning));
        let is_reconfiguration = info.description_id == "VirtualMachine.reconfigure";
        let reconfigures = info.entity.filter(|_| is_reconfiguration).map(Into::into);
        Self { brings_vms, reconfigures, user }
    }

    fn is_clone_of(&self, user: &str) -> bool {
        self.brings_vms && self.is_of(user)
    }

    fn is_of(&self, user: &str) -> bool {
        self.user.as_ref().is_none_or(|other| other.eq_ignore_ascii_case(user))
    }
}

impl Destruction {
    fn of(info: &TaskInfo) -> Option<Self> {
        let object = info.entity.clone().filter(|_| info.description_id.ends_with(".destroy"))?.into();
        let begun = info.start_time.unwrap_or(info.queue_time);
        let took = info.complete_time.map(|end| end.duration_since(begun));
        Some(Self { object, took: took.and_then(|took| Duration::try_from(took).ok()).unwrap_or_default() })
    }
}

impl TaskStates {
    /// Takes up what is told of a task, and returns what it has destroyed, if it has.
    pub(super) fn change(&mut self, update: &mut ObjectUpdate, then: &mut Consequences) -> Result<Option<Destruction>> {
        let Some(Some(info)) = update.take(task::INFO)? else { return Ok(None) };
        let (ended, destruction) = match info.state {
            TaskInfoState::Success => {
                let destruction = Destruction::of(&info);
                let made = match info.result {
                    Some(Any::Reference(made)) => Some(made),
                    _ => None,
                };
                (Ended::Done(made), destruction)
            }
            TaskInfoState::Error => (Ended::Failed(info.error.unwrap_or_default()), None),
            _ => {
                let running = Running::of(info);
                if running.brings_vms && !self.running.contains_key(&update.obj) {
                    then.clones.push(update.obj.clone());
                }
                self.running.insert(update.obj.clone(), running);
                return Ok(None);
            }
        };
        self.running.remove(&update.obj);
        self.ended.insert(update.obj.clone(), ended);
        then.groups.extend(self.submitters.get(&update.obj).cloned());
        Ok(destruction)
    }

    /// A task has left vCenter's list of recent ones. That list has an end, and what leaves it may well run: the end of our own is told of all
    /// the same.
    pub(super) fn leave_list(&mut self, task: &ManagedObjectReference) {
        if !self.is_ours(task) && !self.running.get(task).is_some_and(|running| running.brings_vms) {
            self.running.remove(task);
            self.ended.remove(task);
        }
    }

    /// vCenter doesn't know a task of ours any more. What it did, the world shows.
    pub(crate) fn end_unseen(&mut self, task: &ManagedObjectReference, then: &mut Consequences) {
        self.running.remove(task);
        if let Some(group) = self.submitters.get(task) {
            then.groups.insert(group.clone());
            self.ended.entry(task.clone()).or_insert(Ended::Unseen);
        }
    }

    /// Takes note of a task that was submitted from here.
    pub(crate) fn note_submitted(&mut self, task: &ManagedObjectReference, group: GroupKey) {
        self.submitters.insert(task.clone(), group);
    }

    /// Forgets which tasks were submitted from here.
    pub(crate) fn forget_submitters(&mut self) {
        self.submitters.clear();
    }

    /// Whether a task was submitted from here, and its end not taken up.
    pub(crate) fn is_ours(&self, task: &ManagedObjectReference) -> bool {
        self.submitters.contains_key(task)
    }

    pub(crate) fn has_ended(&self, task: &ManagedObjectReference) -> bool {
        self.ended.contains_key(task)
    }

    /// How a task ended, if it has. It is told once.
    pub(crate) fn end_of(&mut self, task: &ManagedObjectReference) -> Option<Ended> {
        let ended = self.ended.remove(task)?;
        self.submitters.remove(task);
        Some(ended)
    }

    pub(crate) fn is_running(&self, task: &ManagedObjectReference) -> bool {
        self.running.contains_key(task)
    }

    /// Whether any task that runs brings VMs into a folder, whoever has asked for it.
    pub(crate) fn bring_vms(&self) -> bool {
        self.running.values().any(|running| running.brings_vms)
    }

    /// Whether a clone runs that this user has asked for, and nobody here knows of.
    pub(crate) fn has_unknown_clone(&self, user: &str, is_known: impl Fn(&ManagedObjectReference) -> bool) -> bool {
        self.running.iter().any(|(task, running)| running.is_clone_of(user) && !is_known(task))
    }

    /// Whether a task that runs is a clone that this user has asked for.
    pub(crate) fn is_clone_of(&self, task: &ManagedObjectReference, user: &str) -> bool {
        self.running.get(task).is_some_and(|running| running.is_clone_of(user))
    }

    /// The clones that this user has asked for.
    pub(crate) fn clones_of(&self, user: &str) -> Vec<ManagedObjectReference> {
        let clones = self.running.iter().filter(|(_, running)| running.is_clone_of(user));
        clones.map(|(task, _)| task.clone()).collect()
    }

    /// The machines that this user has reconfigured by tasks that run, and that nobody here knows of.
    pub(crate) fn unknown_reconfigurations(
        &self,
        user: &str,
        is_known: impl Fn(&ManagedObjectReference) -> bool,
    ) -> HashSet<&ManagedObjectReference> {
        let unknown = self.running.iter().filter(|(task, running)| running.is_of(user) && !is_known(task));
        unknown.filter_map(|(_, running)| running.reconfigures.as_ref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use vim25::types::PropertyChange;

    use super::*;

    #[test]
    fn what_brings_vms_into_a_folder_is_known_by_the_words_of_every_vcenter() {
        let runs = |description: &str| {
            let mut tasks = TaskStates::default();
            let info = TaskInfo {
                state: TaskInfoState::Running,
                description_id: description.to_owned(),
                ..TaskInfo::default()
            };
            let val = Some(Any::object(info));
            let change = PropertyChange { name: "info".to_owned(), val, ..PropertyChange::default() };
            let obj = ManagedObjectReference::new("Task", "task-1");
            let mut update = ObjectUpdate { obj, change_set: vec![change], ..ObjectUpdate::default() };
            tasks.change(&mut update, &mut Consequences::default()).unwrap();
            tasks.has_unknown_clone("drover", |_| false)
        };
        for description in ["VirtualMachine.clone", "Folder.moveInto", "Folder.moveIntoFolder"] {
            assert!(runs(description), "{description}");
        }
        assert!(!runs("VirtualMachine.powerOn") && !runs("Folder.createVm"));
    }
}
