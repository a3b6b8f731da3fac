//! One watch of the loop: what has been said of it, and to whom.

use std::sync::Arc;

use super::{Scope, Sink, Update, Watch, WatchId, known::Known};
use crate::{
    Error, Result,
    enums::{ObjectUpdateKind, TaskInfoState},
    faults::ManagedObjectNotFound,
    props,
    refs::{ContainerViewRef, PropertyFilterRef},
    types::{MissingObject, ObjectUpdate, PropertyFilterUpdate, TaskInfo},
};

pub(super) struct Watched {
    id: WatchId,
    pub watch: Watch,
    /// Who is told. None any more, once the task that was waited for has ended.
    sink: Option<Sink>,
    known: Known,
    /// What stands for the watch in vCenter, in this session.
    pub installed: Option<Installed>,
}

pub(super) struct Installed {
    pub filter: PropertyFilterRef,
    pub view: Option<ContainerViewRef>,
}

impl Watched {
    pub(super) fn new(id: WatchId, watch: Watch, sink: Sink) -> Self {
        Self { id, watch, sink: Some(sink), known: Known::default(), installed: None }
    }

    /// The watch is about to be set up anew, and everything to be reported from the beginning.
    pub(super) fn begin(&mut self) {
        self.known.begin();
        self.installed = None;
    }

    /// Whether nobody is there to be told any more.
    pub(super) fn is_finished(&self) -> bool {
        self.sink.is_none()
    }

    /// Turns what vCenter says of the watch into news.
    pub(super) fn take_up(&mut self, filter: PropertyFilterUpdate, updates: &mut Vec<Update>) {
        for mut update in filter.object_set {
            if update.kind == ObjectUpdateKind::Leave {
                if self.known.remove(&update.obj) {
                    self.tell(Update::Gone { watch: self.id, object: update.obj }, updates);
                }
            } else if self.known.news(&mut update) {
                self.tell(Update::Changed { watch: self.id, update }, updates);
            }
        }
        for missing in filter.missing_set {
            self.take_up_missing(missing, updates);
        }
    }

    fn take_up_missing(&mut self, missing: MissingObject, updates: &mut Vec<Update>) {
        let was_known = self.known.remove(&missing.obj);
        if !missing.fault.fault.is::<ManagedObjectNotFound>() {
            self.tell(Update::Missing { watch: self.id, missing }, updates);
        } else if was_known {
            self.tell(Update::Gone { watch: self.id, object: missing.obj }, updates);
        }
    }

    /// vCenter has said all that it has to say for now.
    pub(super) fn complete(&mut self, updates: &mut Vec<Update>) {
        let Some(gone) = self.known.complete() else { return };
        for object in gone {
            self.tell(Update::Gone { watch: self.id, object }, updates);
        }
        if let (Scope::Object(object), true) = (&self.watch.scope, self.known.is_empty()) {
            // A task that isn't there will never end.
            let object = object.clone();
            self.tell_task(Update::Gone { watch: self.id, object });
        }
        self.tell(Update::Synced { watch: self.id }, updates);
    }

    /// The watch can't be set up.
    pub(super) fn fail(&mut self, error: Error, updates: &mut Vec<Update>) {
        for object in self.known.clear() {
            self.tell(Update::Gone { watch: self.id, object }, updates);
        }
        self.tell(Update::Failed { watch: self.id, error: Arc::new(error) }, updates);
    }

    /// Passes an update to whoever asked for the watch.
    fn tell(&mut self, update: Update, updates: &mut Vec<Update>) {
        match self.sink {
            Some(Sink::Stream) => updates.push(update),
            Some(Sink::Task(_)) => self.tell_task(update),
            None => {}
        }
    }

    /// Tells whoever waits for a task how it ended, if the update says that it has.
    fn tell_task(&mut self, update: Update) {
        if matches!(self.sink, Some(Sink::Task(_)))
            && let Some(outcome) = task_outcome(update)
            && let Some(Sink::Task(done)) = self.sink.take()
        {
            // Nobody waits any more if the caller gave up.
            let _ = done.send(outcome);
        }
    }
}

/// How a task ended, if the update says that it has.
fn task_outcome(update: Update) -> Option<Result<TaskInfo>> {
    match update {
        Update::Changed { mut update, .. } => match info(&mut update) {
            Ok(info) => info.and_then(ended),
            Err(error) => Some(Err(error)),
        },
        Update::Gone { object, .. } => Some(Err(Error::TaskGone { task: object })),
        Update::Missing { missing, .. } => Some(Err(missing.fault.into())),
        Update::Failed { error, .. } => Some(Err(Arc::try_unwrap(error).unwrap_or(Error::CollectorEnded))),
        Update::Synced { .. } => None,
    }
}

fn info(update: &mut ObjectUpdate) -> Result<Option<TaskInfo>> {
    Ok(update.take(props::task::INFO)?.flatten())
}

fn ended(info: TaskInfo) -> Option<Result<TaskInfo>> {
    match info.state {
        TaskInfoState::Success => Some(Ok(info)),
        TaskInfoState::Error => Some(Err(info.error.unwrap_or_default().into())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, LocalizedMethodFault, ManagedObjectReference, faults::NoPermission};

    fn object(name: &str) -> ManagedObjectReference {
        ManagedObjectReference::new("VirtualMachine", name)
    }

    fn missing(name: &str, fault: Fault) -> MissingObject {
        MissingObject { obj: object(name), fault: LocalizedMethodFault { fault, localized_message: None } }
    }

    #[test]
    fn an_object_that_can_not_be_read_is_told_with_its_reason_and_one_that_is_no_more_is_gone() {
        let watch = Watch { scope: Scope::Object(object("vm-1")), properties: Vec::new() };
        let mut watched = Watched::new(WatchId(7), watch, Sink::Stream);
        let enter = |name| ObjectUpdate { obj: object(name), kind: ObjectUpdateKind::Enter, ..ObjectUpdate::default() };
        let filter = PropertyFilterUpdate {
            object_set: vec![enter("vm-1"), enter("vm-2")],
            missing_set: vec![
                missing("vm-1", Fault::new(NoPermission::default())),
                missing("vm-2", Fault::new(ManagedObjectNotFound::default())),
                missing("vm-3", Fault::new(ManagedObjectNotFound::default())),
            ],
            ..PropertyFilterUpdate::default()
        };
        let mut updates = Vec::new();
        watched.take_up(filter, &mut updates);
        let [
            Update::Changed { .. },
            Update::Changed { .. },
            Update::Missing { missing, .. },
            Update::Gone { object: gone, .. },
        ] = &updates[..]
        else {
            panic!("{updates:?}")
        };
        assert!(missing.obj == object("vm-1") && missing.fault.fault.is::<NoPermission>());
        assert_eq!(*gone, object("vm-2"), "what was never told isn't told to be gone");
    }
}
