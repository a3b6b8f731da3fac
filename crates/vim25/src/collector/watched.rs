//! One watch of the loop: how far it is set up, and what has been said of it.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{Update, WatchId, known::Known};
use crate::{
    Error,
    enums::ObjectUpdateKind,
    faults::ManagedObjectNotFound,
    refs::{PropertyFilterRef, ViewRef},
    types::{MissingObject, PropertyFilterUpdate},
};

/// How long to wait before a watch that can't be set up is tried again, at first and in the end.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) struct Watched {
    pub id: WatchId,
    pub known: Known,
    progress: Progress,
    /// What stands for the watch in vCenter, in this session.
    installed: Option<Installed>,
    retry: Retry,
}

/// How much of what a watch sees has been said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Nothing yet: it isn't set up.
    None,
    /// It is set up. An answer of which the rest is still to come began before that, and need not speak of it.
    SetUp,
    /// The answer under way began after it was set up, and has all of it.
    InAnswer,
    Synced,
}

pub(super) struct Installed {
    pub filter: PropertyFilterRef,
    pub view: Option<ViewRef>,
}

struct Retry {
    at: Instant,
    pause: Duration,
    /// Why it could not be set up, as it was last said.
    said: Option<String>,
}

impl Retry {
    fn at_once() -> Self {
        Self { at: Instant::now(), pause: FIRST_PAUSE, said: None }
    }
}

impl Watched {
    pub(super) fn new(id: WatchId) -> Self {
        let progress = Progress::None;
        Self { id, known: Known::default(), progress, installed: None, retry: Retry::at_once() }
    }

    /// The session is over, and what was set up in it.
    pub(super) fn reset(&mut self) {
        *self = Self { known: std::mem::take(&mut self.known), ..Self::new(self.id) };
    }

    /// When it is to be set up, unless it is.
    pub(super) fn due(&self) -> Option<Instant> {
        (self.progress == Progress::None).then_some(self.retry.at)
    }

    /// When it may be set up.
    pub(super) fn retry_at(&self) -> Instant {
        self.retry.at
    }

    /// Puts its set-up off, if it is not put off already.
    pub(super) fn gather(&mut self, until: Instant) {
        self.retry.at = self.retry.at.max(until);
    }

    /// It is set up in vCenter, where there is anything to set up, and everything is about to be reported from the beginning.
    pub(super) fn set_up(&mut self, installed: Option<Installed>) {
        self.known.begin();
        self.installed = installed;
        self.progress = Progress::SetUp;
    }

    /// It can't be set up, or works no more. Nothing is known to be gone by that. Returns what to say of it, unless it was said
    /// before.
    pub(super) fn fail(&mut self, error: Error) -> Option<Update> {
        let Retry { pause, said, .. } = &self.retry;
        let why = error.to_string();
        let is_news = said.as_ref() != Some(&why);
        let at = Instant::now() + *pause;
        self.retry = Retry { at, pause: (*pause * 2).min(LONGEST_PAUSE), said: Some(why) };
        self.progress = Progress::None;
        is_news.then(|| Update::Failed { watch: self.id, error: Arc::new(error) })
    }

    pub(super) fn is_installed(&self) -> bool {
        self.installed.is_some()
    }

    /// Hands over what stands for it in vCenter, to be removed.
    pub(super) fn take_installed(&mut self) -> Option<Installed> {
        self.installed.take()
    }

    pub(super) fn is_of(&self, filter: &PropertyFilterRef) -> bool {
        self.installed.as_ref().is_some_and(|installed| installed.filter == *filter)
    }

    /// Whether vCenter has something to say of it without any change.
    pub(super) fn is_behind(&self) -> bool {
        matches!(self.progress, Progress::SetUp | Progress::InAnswer)
    }

    /// vCenter is asked, and its answer will speak of all that is set up by now.
    pub(super) fn begin_answer(&mut self) {
        if self.progress == Progress::SetUp {
            self.progress = Progress::InAnswer;
        }
    }

    /// Turns what vCenter says of the watch into news.
    pub(super) fn take_up(&mut self, filter: PropertyFilterUpdate, updates: &mut Vec<Update>) {
        let watch = self.id;
        for mut update in filter.object_set {
            if update.kind == ObjectUpdateKind::Leave {
                if self.known.remove(&update.obj) {
                    updates.push(Update::Gone { watch, object: update.obj });
                }
            } else if self.known.news(&mut update) {
                updates.push(Update::Changed { watch, update });
            }
        }
        for missing in filter.missing_set {
            updates.extend(self.take_up_missing(missing));
        }
    }

    fn take_up_missing(&mut self, missing: MissingObject) -> Option<Update> {
        let watch = self.id;
        if !missing.fault.fault.is::<ManagedObjectNotFound>() {
            // It is there all the same, and all of it is news when it can be read.
            self.known.forget_values(&missing.obj);
            return Some(Update::Missing { watch, missing });
        }
        let was_known = self.known.remove(&missing.obj);
        was_known.then_some(Update::Gone { watch, object: missing.obj })
    }

    /// An answer is over. If it had all that the watch sees, the watch is whole, and what the answer didn't speak of is gone.
    pub(super) fn end_answer(&mut self, updates: &mut Vec<Update>) {
        if self.progress != Progress::InAnswer {
            return;
        }
        let watch = self.id;
        updates.extend(self.known.complete().into_iter().map(|object| Update::Gone { watch, object }));
        updates.push(Update::Synced { watch });
        self.progress = Progress::Synced;
        self.retry = Retry::at_once();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Fault, LocalizedMethodFault, ManagedObjectReference, client::TransportError, faults::NoPermission,
        types::ObjectUpdate,
    };

    fn object(name: &str) -> ManagedObjectReference {
        ManagedObjectReference::new("VirtualMachine", name)
    }

    fn missing(name: &str, fault: Fault) -> MissingObject {
        MissingObject { obj: object(name), fault: LocalizedMethodFault { fault, localized_message: None } }
    }

    fn entering(names: &[&str]) -> PropertyFilterUpdate {
        let enter =
            |name: &&str| ObjectUpdate { obj: object(name), kind: ObjectUpdateKind::Enter, ..ObjectUpdate::default() };
        PropertyFilterUpdate { object_set: names.iter().map(enter).collect(), ..PropertyFilterUpdate::default() }
    }

    fn installed() -> Installed {
        Installed { filter: PropertyFilterRef::new("filter-1"), view: None }
    }

    fn broken(reason: &str) -> Error {
        TransportError::Broken { endpoint: "vc".to_owned(), reason: reason.to_owned() }.into()
    }

    #[test]
    fn an_object_that_can_not_be_read_is_told_with_its_reason_and_one_that_is_no_more_is_gone() {
        let mut watched = Watched::new(WatchId(7));
        let filter = PropertyFilterUpdate {
            missing_set: vec![
                missing("vm-1", Fault::new(NoPermission::default())),
                missing("vm-2", Fault::new(ManagedObjectNotFound::default())),
                missing("vm-3", Fault::new(ManagedObjectNotFound::default())),
            ],
            ..entering(&["vm-1", "vm-2"])
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

    #[test]
    fn a_failure_says_why_when_that_is_news_and_never_that_anything_is_gone() {
        let mut watched = Watched::new(WatchId(7));
        watched.set_up(Some(installed()));
        watched.begin_answer();
        let mut updates = Vec::new();
        watched.take_up(entering(&["stays", "goes"]), &mut updates);
        watched.end_answer(&mut updates);
        assert!(matches!(updates[..], [Update::Changed { .. }, Update::Changed { .. }, Update::Synced { .. }]));

        watched.reset();
        assert!(matches!(watched.fail(broken("a")), Some(Update::Failed { .. })));
        assert!(watched.fail(broken("a")).is_none(), "it was said");
        assert!(watched.fail(broken("b")).is_some(), "something else is in the way");

        watched.set_up(Some(installed()));
        watched.begin_answer();
        updates.clear();
        watched.take_up(entering(&["stays"]), &mut updates);
        watched.end_answer(&mut updates);
        let [Update::Gone { object: gone, .. }, Update::Synced { .. }] = &updates[..] else { panic!("{updates:?}") };
        assert_eq!(*gone, object("goes"), "what is seen to be missing is gone, after all the rest");
        assert!(watched.fail(broken("b")).is_some(), "after it has worked, the same failure is another");
    }

    #[tokio::test(start_paused = true)]
    async fn the_pauses_between_attempts_grow_up_to_half_a_minute() {
        let mut watched = Watched::new(WatchId(7));
        let pauses: Vec<_> = (0..9)
            .map(|_| {
                watched.fail(broken("a"));
                watched.due().unwrap() - Instant::now()
            })
            .collect();
        assert_eq!(pauses[..3], [500, 1000, 2000].map(Duration::from_millis));
        assert_eq!(pauses[8], Duration::from_secs(30));
    }

    #[test]
    fn the_rest_of_an_answer_that_began_before_the_watch_does_not_make_it_whole() {
        let mut watched = Watched::new(WatchId(7));
        let mut updates = Vec::new();
        watched.set_up(Some(installed()));
        watched.end_answer(&mut updates);
        assert!(updates.is_empty() && watched.is_behind(), "the answer under way was cut before");
        watched.begin_answer();
        watched.end_answer(&mut updates);
        assert!(matches!(updates[..], [Update::Synced { .. }]) && !watched.is_behind());
    }
}
