//! What vCenter tells by itself: one property collector with one long poll, and a stream of what has changed.
//!
//! [`Collector::start`] gives a handle and a stream. The handle adds and removes watches while the loop runs. The stream
//! says what has changed since it last said something: where the session is lost, or vCenter was away, it says so, everything is
//! set up anew behind it and only the differences come out, with what has vanished meanwhile reported as gone.
//!
//! A vCenter that takes calls and answers none is noticed within a minute.

// Only the crate's own benchmark uses it from outside.
#[doc(hidden)]
pub mod known;
mod remote;
mod run;
mod tasks;
mod watched;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    Client, Error, ManagedObjectReference, Result,
    methods::CancelTask,
    refs::TaskRef,
    types::{
        AnySelectionSpec, MissingObject, ObjectSpec, ObjectUpdate, PropertyFilterSpec, PropertySpec, SelectionSpec,
        TaskInfo, TraversalSpec,
    },
};
use tasks::Listener;

/// Which objects to watch, and which of their properties.
#[derive(Clone, Debug, PartialEq)]
pub struct Watch {
    /// Which objects.
    pub scope: Scope,
    /// Which properties, by type: [`PropertySpec::of`] makes them.
    pub properties: Vec<PropertySpec>,
}

/// Which objects a watch is on.
#[derive(Clone, Debug, PartialEq)]
pub enum Scope {
    /// One object.
    Object(ManagedObjectReference),
    /// All objects in a container, of the types that properties are asked of.
    Container {
        /// A folder, datacenter, cluster or resource pool.
        root: ManagedObjectReference,
        /// Whether those in containers inside it count.
        recursive: bool,
    },
    /// The objects that a property of another object lists, such as `recentTask` of the task manager.
    Listed {
        /// The object that has the list.
        by: ManagedObjectReference,
        /// The property.
        path: String,
    },
}

/// Which watch an update is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WatchId(u64);

/// What the stream says.
#[derive(Debug)]
pub enum Event {
    /// What was said can't be relied on any more: the session is lost, or a poll has failed. It is said first, before
    /// anything that follows from it, also where a new session is to be had at once. All is set up anew, and each watch can
    /// be relied on again from its next [`Update::Synced`] on. Before its first, it can't either.
    Blind(Arc<Error>),
    /// vCenter can't be reached or refuses the login. It is tried again by itself; [`Event::Up`] follows. It is said again where
    /// something else is in the way than before.
    Down(Arc<Error>),
    /// vCenter answers again. The differences follow.
    Up,
    /// Something changed, in this order.
    Updates(Vec<Update>),
}

/// One change.
#[derive(Debug)]
pub enum Update {
    /// An object is new to the watch, or properties of it have changed.
    Changed {
        /// The watch.
        watch: WatchId,
        /// The object and its changes: [`ObjectUpdate::take`] takes typed values out. What can't be read, mostly for want of a
        /// privilege, is in its `missing_set` and never said to be unset.
        update: ObjectUpdate,
    },
    /// An object is gone from the watch: vCenter has said so, or didn't speak of it when it told all that the watch sees. No failure
    /// is ever told like this.
    Gone {
        /// The watch.
        watch: WatchId,
        /// The object.
        object: ManagedObjectReference,
    },
    /// An object can't be read, mostly for want of a privilege.
    Missing {
        /// The watch.
        watch: WatchId,
        /// The object and the reason.
        missing: MissingObject,
    },
    /// All that the watch sees at first, or after [`Event::Blind`] or [`Update::Failed`], has been said.
    Synced {
        /// The watch.
        watch: WatchId,
    },
    /// The watch can't be set up: its root is gone, a property doesn't exist, or vCenter refuses for another reason. What it
    /// saw is not known to be gone. It is tried again by itself, ever more seldom, up to twice a minute; [`Update::Synced`]
    /// follows when it works, and this again when something else is in the way.
    Failed {
        /// The watch.
        watch: WatchId,
        /// Why.
        error: Arc<Error>,
    },
}

/// The handle of a running loop. When it is dropped, the loop ends and the stream with it.
#[derive(Debug)]
pub struct Collector {
    client: Client,
    commands: mpsc::UnboundedSender<Command>,
    stop: watch::Sender<()>,
    next: AtomicU64,
}

/// The stream of what has changed.
#[derive(Debug)]
pub struct Updates(mpsc::Receiver<Event>);

impl Updates {
    /// The next event, or `None` once the collector has been dropped.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

#[derive(Debug)]
enum Command {
    Watch(WatchId, Watch),
    Unwatch(WatchId),
    Track(TaskRef, Listener),
}

/// How long vCenter holds a poll when nothing changes. It is also what keeps the session alive, and what notices that a vCenter
/// answers no more.
const POLL: Duration = Duration::from_secs(45);

const TASKS: WatchId = WatchId(0);

impl Collector {
    /// The watch on the tasks that are tracked.
    pub const TASKS: WatchId = TASKS;

    /// Starts the loop. It logs in by itself when there is something to watch.
    #[must_use]
    pub fn start(client: Client) -> (Self, Updates) {
        let (commands, orders) = mpsc::unbounded_channel();
        // A reader that falls behind holds the loop back, and vCenter collects the changes meanwhile.
        let (events, updates) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(());
        tokio::spawn(run::run(client.clone(), orders, events, stopped));
        (Self { client, commands, stop, next: AtomicU64::new(TASKS.0 + 1) }, Updates(updates))
    }

    /// Adds a watch. Its objects come through the stream, then [`Update::Synced`].
    pub fn watch(&self, watch: Watch) -> WatchId {
        let id = WatchId(self.next.fetch_add(1, Ordering::Relaxed));
        self.send(Command::Watch(id, watch));
        id
    }

    /// Removes a watch. What was on its way may still come.
    pub fn unwatch(&self, id: WatchId) {
        self.send(Command::Unwatch(id));
    }

    /// Has the stream tell of a task, under [`Collector::TASKS`]: its progress and its end, each with all of its `info`, in order with
    /// everything else. A task that vCenter doesn't know, or no longer, is told to be [`Update::Gone`]. After either, nothing
    /// more is told of it. All tasks share one list in vCenter, and those that come at once are put there with one call.
    pub fn track(&self, task: &TaskRef) {
        self.send(Command::Track(task.clone(), Listener::Stream));
    }

    /// Waits for the end of a task: its info, or [`Error::Task`] with the fault it failed with.
    pub async fn follow(&self, task: &TaskRef) -> Result<TaskInfo> {
        let (done, end) = oneshot::channel();
        self.send(Command::Track(task.clone(), Listener::End(done)));
        end.await.unwrap_or(Err(Error::CollectorEnded))
    }

    /// Asks vCenter to end a task. Whether it does is what [`Collector::follow`] tells.
    pub async fn cancel(&self, task: &TaskRef) -> Result<()> {
        self.client.call(&CancelTask { this: task.clone() }).await
    }

    /// Ends the loop and the stream, and returns when that is done: from then on it neither calls vCenter nor logs in. What it had set
    /// up in vCenter is removed, if vCenter answers within a few seconds.
    pub async fn stop(&self) {
        // It may have ended by itself, with the stream.
        let _ = self.stop.send(());
        self.commands.closed().await;
    }

    fn send(&self, command: Command) {
        // The loop ends only with this handle, or with the stream: then nobody is there to be told.
        let _ = self.commands.send(command);
    }
}

impl Watch {
    /// The filter for vCenter. A container needs its view.
    fn filter(&self, view: Option<&ManagedObjectReference>) -> PropertyFilterSpec {
        let object = match (&self.scope, view) {
            (Scope::Object(object), _) => ObjectSpec { obj: object.clone(), skip: None, select_set: Vec::new() },
            (Scope::Listed { by, path }, _) => through(by, path),
            (Scope::Container { .. }, Some(view)) => through(view, "view"),
            (Scope::Container { root, .. }, None) => ObjectSpec { obj: root.clone(), ..ObjectSpec::default() },
        };
        PropertyFilterSpec {
            prop_set: self.properties.clone(),
            object_set: vec![object],
            // One dead reference would otherwise fail the whole filter.
            report_missing_objects_in_results: Some(true),
        }
    }
}

/// Selects what a property lists, without the object that has the property.
fn through(owner: &ManagedObjectReference, path: &str) -> ObjectSpec {
    let traversal = TraversalSpec {
        base: SelectionSpec { name: None },
        type_: owner.type_name().to_owned(),
        path: path.to_owned(),
        skip: Some(false),
        select_set: Vec::new(),
    };
    let select_set = vec![AnySelectionSpec::TraversalSpec(Box::new(traversal))];
    ObjectSpec { obj: owner.clone(), skip: Some(true), select_set }
}
