//! The tasks that are tracked, all in one list in vCenter: however many come at once, they cost a call or two.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{
    TASKS, Update,
    remote::{Remote, is_of_watch},
    watched::{Installed, Watched},
};
use crate::{
    Error, ManagedObjectReference, Result,
    enums::{ObjectUpdateKind, TaskInfoState},
    faults::ManagedObjectNotFound,
    methods::ModifyListView,
    props,
    refs::ListViewRef,
    types::{ObjectUpdate, PropertyFilterUpdate, TaskInfo},
};

/// Tasks seldom come alone. Those that come within this time are put on the list together.
const GATHER: Duration = Duration::from_millis(50);

/// Who is told of a task.
#[derive(Debug)]
pub(super) enum Listener {
    Stream,
    End(oneshot::Sender<Result<TaskInfo>>),
}

pub(super) struct Tasks {
    /// The list as a watch. Without a task there is nothing to set up for it.
    pub list: Watched,
    view: Option<ListViewRef>,
    /// Those whose end has not been told.
    open: HashMap<ManagedObjectReference, Vec<Listener>>,
    /// Those of them that are not on the list.
    unlisted: Vec<ManagedObjectReference>,
    /// Those that have ended and are on the list still, each with what was last said of it.
    ended: HashMap<ManagedObjectReference, ObjectUpdate>,
    /// When the list is to be changed.
    due: Option<Instant>,
    change: Option<Change>,
    /// What is to be told beside what vCenter tells by itself.
    pub news: Vec<Update>,
}

/// The change of the list that is under way, which ends with those that vCenter doesn't know.
type Change = Pin<Box<dyn Future<Output = Result<Vec<ManagedObjectReference>>> + Send>>;

impl Tasks {
    pub(super) fn new() -> Self {
        Self {
            list: Watched::new(TASKS),
            view: None,
            open: HashMap::new(),
            unlisted: Vec::new(),
            ended: HashMap::new(),
            due: None,
            change: None,
            news: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Follows a task from now on.
    pub(super) fn add(&mut self, task: ManagedObjectReference, listener: Listener) {
        if let Some(update) = self.ended.get(&task) {
            let update = update.clone();
            return tell(update, vec![listener], &mut self.news);
        }
        let until = Instant::now() + GATHER;
        if self.open.is_empty() && self.view.is_none() {
            self.list.gather(until);
        }
        let listeners = self.open.entry(task.clone()).or_default();
        if listeners.is_empty() {
            self.unlisted.push(task);
            self.due.get_or_insert(until);
        }
        // The stream tells once, however often that is asked for.
        if !(listener.is_stream() && listeners.iter().any(Listener::is_stream)) {
            listeners.push(listener);
        }
    }

    /// The session is over, and the list with it.
    pub(super) fn reset(&mut self) {
        self.list.reset();
        self.forget_list();
    }

    fn forget_list(&mut self) {
        self.view = None;
        self.change = None;
        self.ended.clear();
        self.due = None;
        self.unlisted = self.open.keys().cloned().collect();
    }

    /// When the list is to be set up, if it is.
    pub(super) fn set_up_due(&self) -> Option<Instant> {
        if self.view.is_none() && !self.open.is_empty() { Some(self.list.retry_at()) } else { self.list.due() }
    }

    /// When the list is to be changed, if it is and can be.
    pub(super) fn change_due(&self) -> Option<Instant> {
        self.due.filter(|_| self.view.is_some() && self.change.is_none())
    }

    /// Sets the list up, with all tasks that have not ended.
    pub(super) async fn set_up(&mut self, remote: &Arc<Remote>) -> Result<()> {
        if self.open.is_empty() {
            self.list.set_up(None);
            return Ok(());
        }
        let (view, installed) = match remote.set_up_list().await {
            Ok(made) => made,
            Err(error) if is_of_watch(&error) => {
                self.news.extend(self.list.fail(error));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.list.set_up(Some(installed));
        self.view = Some(view);
        // Before anything is read, so that all of them are in the first answer.
        let change = self.next_change().map(|change| async move { remote.modify_list(&change).await });
        match change {
            Some(change) => self.changed(change.await),
            None => Ok(()),
        }
    }

    /// Begins to change the list, where that is due.
    pub(super) fn begin_change(&mut self, remote: &Arc<Remote>) {
        if self.change_due().is_none_or(|due| due > Instant::now()) {
            return;
        }
        let remote = Arc::clone(remote);
        self.change =
            self.next_change().map(|change| -> Change { Box::pin(async move { remote.modify_list(&change).await }) });
    }

    /// The end of the change that is under way. Without one, it doesn't come.
    pub(super) async fn change_ended(&mut self) -> Result<Vec<ManagedObjectReference>> {
        let Some(change) = &mut self.change else { return std::future::pending().await };
        let outcome = change.await;
        self.change = None;
        outcome
    }

    /// Takes up how a change of the list ended.
    pub(super) fn changed(&mut self, outcome: Result<Vec<ManagedObjectReference>>) -> Result<()> {
        match outcome {
            Ok(unknown) => unknown.iter().for_each(|task| self.gone(task)),
            Err(error) if is_of_watch(&error) => {
                self.news.extend(self.list.fail(error));
                self.forget_list();
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether something stands in vCenter for a list that doesn't work.
    pub(super) fn has_leftover(&self) -> bool {
        self.view.is_none() && self.list.is_installed()
    }

    /// Hands over what stands for a list that doesn't work, to be removed.
    pub(super) fn take_leftover(&mut self) -> Option<Installed> {
        if self.has_leftover() { self.list.take_installed() } else { None }
    }

    fn next_change(&mut self) -> Option<ModifyListView> {
        let this = self.view.clone()?;
        self.due = None;
        let add = std::mem::take(&mut self.unlisted);
        let remove = self.ended.drain().map(|(task, _)| task).collect();
        Some(ModifyListView { this, add, remove })
    }

    /// vCenter doesn't know a task, so that its end can't be known.
    fn gone(&mut self, task: &ManagedObjectReference) {
        let Some(listeners) = self.open.remove(task) else { return };
        self.list.known.remove(task);
        for listener in listeners {
            match listener {
                Listener::Stream => self.news.push(Update::Gone { watch: TASKS, object: task.clone() }),
                // Nobody waits any more if the caller gave up.
                Listener::End(done) => _ = done.send(Err(Error::TaskGone { task: task.clone() })),
            }
        }
    }

    /// Turns what vCenter says of the list into news.
    pub(super) fn take_up(&mut self, filter: PropertyFilterUpdate, updates: &mut Vec<Update>) {
        for mut update in filter.object_set {
            if !self.open.contains_key(&update.obj) {
                // It has ended, and that was told.
                continue;
            }
            if update.kind == ObjectUpdateKind::Leave {
                self.gone(&update.obj);
            } else if self.list.known.news(&mut update) {
                self.told(update, updates);
            }
        }
        for missing in filter.missing_set {
            if missing.fault.fault.is::<ManagedObjectNotFound>() {
                self.gone(&missing.obj);
            } else if self.open.contains_key(&missing.obj) {
                updates.push(Update::Missing { watch: TASKS, missing });
            }
        }
        updates.append(&mut self.news);
    }

    fn told(&mut self, update: ObjectUpdate, updates: &mut Vec<Update>) {
        let task = update.obj.clone();
        if has_ended(&update) {
            let listeners = self.open.remove(&task).unwrap_or_default();
            self.list.known.remove(&task);
            self.ended.insert(task, update.clone());
            tell(update, listeners, updates);
        } else if self.open.get(&task).is_some_and(|listeners| listeners.iter().any(Listener::is_stream)) {
            updates.push(Update::Changed { watch: TASKS, update });
        }
    }

    /// An answer is over. Where it had the whole list, what it didn't speak of is gone.
    pub(super) fn end_answer(&mut self, updates: &mut Vec<Update>) {
        let mut told = Vec::new();
        self.list.end_answer(&mut told);
        for update in told {
            match update {
                Update::Gone { object, .. } => {
                    self.gone(&object);
                    updates.append(&mut self.news);
                }
                other => updates.push(other),
            }
        }
    }
}

impl Listener {
    fn is_stream(&self) -> bool {
        matches!(self, Self::Stream)
    }
}

/// Tells of a task's end.
fn tell(update: ObjectUpdate, listeners: Vec<Listener>, updates: &mut Vec<Update>) {
    let is_streamed = listeners.iter().any(Listener::is_stream);
    for listener in listeners {
        if let Listener::End(done) = listener {
            // Nobody waits any more if the caller gave up.
            let _ = done.send(outcome(update.clone()));
        }
    }
    if is_streamed {
        updates.push(Update::Changed { watch: TASKS, update });
    }
}

/// Whether nothing more is to come of a task. What can't be read doesn't get better.
fn has_ended(update: &ObjectUpdate) -> bool {
    let info = update.change_set.iter().rfind(|change| change.name == props::task::INFO.path());
    match info.and_then(|change| change.val.as_ref()) {
        Some(value) => value
            .downcast_ref::<TaskInfo>()
            .is_none_or(|info| matches!(info.state, TaskInfoState::Success | TaskInfoState::Error)),
        None => false,
    }
}

/// How a task ended.
fn outcome(mut update: ObjectUpdate) -> Result<TaskInfo> {
    let info = update.take(props::task::INFO)?.flatten().unwrap_or_default();
    match info.state {
        TaskInfoState::Error => Err(info.error.unwrap_or_default().into()),
        _ => Ok(info),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Any, Fault, LocalizedMethodFault,
        refs::TaskRef,
        types::{MissingObject, PropertyChange},
    };

    fn task(name: &str) -> ManagedObjectReference {
        TaskRef::new(name).into()
    }

    fn told(name: &str, state: TaskInfoState) -> PropertyFilterUpdate {
        let info = TaskInfo { task: TaskRef::new(name), state, ..TaskInfo::default() };
        let change =
            PropertyChange { name: "info".to_owned(), val: Some(Any::object(info)), ..PropertyChange::default() };
        let update = ObjectUpdate { obj: task(name), change_set: vec![change], ..ObjectUpdate::default() };
        PropertyFilterUpdate { object_set: vec![update], ..PropertyFilterUpdate::default() }
    }

    fn left(name: &str) -> PropertyFilterUpdate {
        let update = ObjectUpdate { obj: task(name), kind: ObjectUpdateKind::Leave, ..ObjectUpdate::default() };
        PropertyFilterUpdate { object_set: vec![update], ..PropertyFilterUpdate::default() }
    }

    fn take_up(tasks: &mut Tasks, filter: PropertyFilterUpdate) -> Vec<Update> {
        let mut updates = Vec::new();
        tasks.take_up(filter, &mut updates);
        updates
    }

    #[test]
    fn the_end_of_a_task_is_told_once_and_what_it_leaves_is_nothing() {
        let mut tasks = Tasks::new();
        tasks.add(task("a"), Listener::Stream);
        tasks.add(task("a"), Listener::Stream);
        for state in [TaskInfoState::Running, TaskInfoState::Success] {
            let updates = take_up(&mut tasks, told("a", state));
            assert!(matches!(updates[..], [Update::Changed { watch: TASKS, .. }]), "{updates:?}");
        }
        assert!(tasks.is_empty());
        assert!(take_up(&mut tasks, told("a", TaskInfoState::Success)).is_empty());
        assert!(take_up(&mut tasks, left("a")).is_empty());
    }

    #[test]
    fn a_task_that_is_tracked_after_its_end_is_told_of_while_it_is_on_the_list() {
        let mut tasks = Tasks::new();
        tasks.add(task("a"), Listener::Stream);
        take_up(&mut tasks, told("a", TaskInfoState::Success));
        tasks.add(task("a"), Listener::Stream);
        assert!(matches!(tasks.news[..], [Update::Changed { .. }]), "{:?}", tasks.news);
        let (done, mut end) = oneshot::channel();
        tasks.add(task("a"), Listener::End(done));
        assert_eq!(end.try_recv().unwrap().unwrap().state, TaskInfoState::Success);
    }

    #[test]
    fn whoever_waits_for_a_task_hears_its_end_and_the_stream_nothing() {
        let mut tasks = Tasks::new();
        let (done, mut end) = oneshot::channel();
        tasks.add(task("a"), Listener::End(done));
        assert!(take_up(&mut tasks, told("a", TaskInfoState::Running)).is_empty());
        assert!(take_up(&mut tasks, told("a", TaskInfoState::Error)).is_empty());
        assert!(matches!(end.try_recv(), Ok(Err(Error::Task(_)))));
    }

    #[test]
    fn a_task_that_vcenter_does_not_know_is_gone_and_so_is_one_that_leaves_before_its_end() {
        let missing = |name| PropertyFilterUpdate {
            missing_set: vec![MissingObject {
                obj: task(name),
                fault: LocalizedMethodFault {
                    fault: Fault::new(ManagedObjectNotFound::default()),
                    localized_message: None,
                },
            }],
            ..PropertyFilterUpdate::default()
        };
        for told in [left("a"), missing("a")] {
            let mut tasks = Tasks::new();
            tasks.add(task("a"), Listener::Stream);
            let (done, mut end) = oneshot::channel();
            tasks.add(task("a"), Listener::End(done));
            let updates = take_up(&mut tasks, told);
            assert!(matches!(&updates[..], [Update::Gone { watch: TASKS, object }] if *object == task("a")));
            assert!(matches!(end.try_recv(), Ok(Err(Error::TaskGone { .. }))));
            assert!(tasks.is_empty());
        }
    }

    #[test]
    fn in_a_new_session_the_list_has_what_has_not_ended() {
        let mut tasks = Tasks::new();
        tasks.view = Some(ListViewRef::new("view-1"));
        tasks.add(task("runs"), Listener::Stream);
        tasks.add(task("ends"), Listener::Stream);
        assert_eq!(tasks.next_change().map(|change| change.add.len()), Some(2), "both with one call");
        take_up(&mut tasks, told("ends", TaskInfoState::Success));
        tasks.add(task("comes"), Listener::Stream);
        let change = tasks.next_change().unwrap();
        assert_eq!((change.add, change.remove), (vec![task("comes")], vec![task("ends")]));

        tasks.reset();
        tasks.view = Some(ListViewRef::new("view-2"));
        let mut change = tasks.next_change().unwrap();
        change.add.sort();
        assert_eq!((change.add, change.remove), (vec![task("comes"), task("runs")], vec![]));
    }
}
