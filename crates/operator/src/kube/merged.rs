//! Several watches on one kind, each on a namespace, told as one watch on all of them.
//!
//! A watch that begins anew lists only its own namespace. Told as it is, such a list would have the objects of all other namespaces
//! forgotten. So one list is told at the start, with what all watches have found; after that, what a new list brings is
//! told as changes, and what it lacks as deletions.

use std::{collections::HashMap, marker::PhantomData};

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Resource, ResourceExt,
    api::{ObjectMeta, PartialObjectMeta},
    runtime::watcher::Event,
};

use crate::kube::guard::{Guarded, Unreadable};

/// What a watch says: what it has seen, or that it may not look.
pub(crate) enum WatchItem<K> {
    Event(Event<K>),
    Forbidden,
}

/// What can be told of when no more than its name and UID are known.
pub(crate) trait Named: Resource<DynamicType = ()> {
    fn named(metadata: ObjectMeta) -> Self;
}

impl<K: Resource<DynamicType = ()>> Named for Guarded<K> {
    fn named(metadata: ObjectMeta) -> Self {
        Self(Err(Unreadable { metadata, why: "it was deleted".to_owned() }))
    }
}

impl<K: Resource<DynamicType = ()>> Named for PartialObjectMeta<K> {
    fn named(metadata: ObjectMeta) -> Self {
        Self { types: None, metadata, _phantom: PhantomData }
    }
}

impl Named for Lease {
    fn named(metadata: ObjectMeta) -> Self {
        Self { metadata, spec: None }
    }
}

/// Tells several watches as one.
pub(crate) fn merged<K, S>(watches: Vec<S>) -> impl Stream<Item = Event<K>> + Send + 'static
where
    K: Named + Send + 'static,
    S: Stream<Item = WatchItem<K>> + Send + 'static,
{
    let mut merge = Merge::new(watches.len());
    let tagged = watches.into_iter().enumerate().map(|(number, watch)| watch.map(move |said| (number, said)).boxed());
    stream::select_all(tagged).flat_map(move |(number, said)| stream::iter(merge.take(number, said)))
}

/// A namespace, and a name in it.
type Key = (Option<String>, String);

struct Merge<K> {
    watches: Vec<Watch<K>>,
    /// Whether the one list that there is has been told.
    is_listed: bool,
}

struct Watch<K> {
    /// What it has found, until the list is told.
    found: HashMap<Key, K>,
    /// The UIDs of what it has told of since.
    told: HashMap<Key, Option<String>>,
    /// Those of a list that has begun.
    coming: HashMap<Key, Option<String>>,
    /// Whether it has told what there is, or may not look: others don't wait for it.
    is_settled: bool,
}

impl<K> Default for Watch<K> {
    fn default() -> Self {
        Self { found: HashMap::new(), told: HashMap::new(), coming: HashMap::new(), is_settled: false }
    }
}

impl<K: Named> Merge<K> {
    fn new(watches: usize) -> Self {
        Self { watches: (0..watches).map(|_| Watch::default()).collect(), is_listed: false }
    }

    fn take(&mut self, number: usize, said: WatchItem<K>) -> Vec<Event<K>> {
        let watch = &mut self.watches[number];
        if self.is_listed {
            return match said {
                WatchItem::Event(event) => watch.change(event),
                WatchItem::Forbidden => Vec::new(),
            };
        }
        match said {
            WatchItem::Event(event) => watch.find(event),
            WatchItem::Forbidden => watch.is_settled = true,
        }
        if !self.watches.iter().all(|watch| watch.is_settled) {
            return Vec::new();
        }
        self.is_listed = true;
        let found = self.watches.iter_mut().flat_map(Watch::list);
        [Event::Init].into_iter().chain(found.map(Event::InitApply)).chain([Event::InitDone]).collect()
    }
}

impl<K: Named> Watch<K> {
    /// Before the list is told.
    fn find(&mut self, event: Event<K>) {
        match event {
            Event::Init => self.found.clear(),
            Event::InitApply(object) | Event::Apply(object) => drop(self.found.insert(key(&object), object)),
            Event::InitDone => self.is_settled = true,
            Event::Delete(object) => drop(self.found.remove(&key(&object))),
        }
    }

    fn list(&mut self) -> Vec<K> {
        self.told = self.found.iter().map(|(key, object)| (key.clone(), object.uid())).collect();
        std::mem::take(&mut self.found).into_values().collect()
    }

    /// After the list was told.
    fn change(&mut self, event: Event<K>) -> Vec<Event<K>> {
        match event {
            Event::Init => {
                self.coming.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                // Should the list break off, the next one tells whether it is there.
                self.told.insert(key(&object), object.uid());
                self.coming.insert(key(&object), object.uid());
                vec![Event::Apply(object)]
            }
            Event::InitDone => {
                let before = std::mem::replace(&mut self.told, std::mem::take(&mut self.coming));
                // One of the same name that was made meanwhile is another.
                let gone = before.into_iter().filter(|(key, uid)| self.told.get(key) != Some(uid));
                gone.map(|((namespace, name), uid)| {
                    let metadata = ObjectMeta { namespace, name: Some(name), uid, ..ObjectMeta::default() };
                    Event::Delete(K::named(metadata))
                })
                .collect()
            }
            Event::Apply(object) => {
                self.told.insert(key(&object), object.uid());
                vec![Event::Apply(object)]
            }
            Event::Delete(object) => {
                self.told.remove(&key(&object));
                vec![Event::Delete(object)]
            }
        }
    }
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace(), object.name_any())
}

#[cfg(test)]
mod tests {
    use drover_api::VmGroup;

    use super::*;

    type Object = PartialObjectMeta<VmGroup>;

    fn object(path: &str) -> Object {
        let (namespace, name) = path.split_once('/').unwrap();
        let (namespace, name, uid) = (Some(namespace.to_owned()), Some(name.to_owned()), Some(path.to_owned()));
        Object::named(ObjectMeta { namespace, name, uid, ..ObjectMeta::default() })
    }

    fn say(merge: &mut Merge<Object>, watch: usize, event: Event<Object>) -> Vec<String> {
        told(&merge.take(watch, WatchItem::Event(event)))
    }

    fn told(events: &[Event<Object>]) -> Vec<String> {
        let path = |object: &Object| object.uid().unwrap();
        events
            .iter()
            .map(|event| match event {
                Event::Init => "init".to_owned(),
                Event::InitApply(object) => path(object),
                Event::InitDone => "done".to_owned(),
                Event::Apply(object) => format!("+{}", path(object)),
                Event::Delete(object) => format!("-{}", path(object)),
            })
            .collect()
    }

    /// Two watches that have told what there is: a/x and b/y.
    fn listed() -> Merge<Object> {
        let mut merge = Merge::new(2);
        assert!(say(&mut merge, 0, Event::Init).is_empty());
        assert!(say(&mut merge, 1, Event::Init).is_empty());
        assert!(say(&mut merge, 0, Event::InitApply(object("a/x"))).is_empty());
        assert!(say(&mut merge, 0, Event::InitDone).is_empty(), "the other has not told what there is");
        assert!(say(&mut merge, 1, Event::InitApply(object("b/y"))).is_empty());
        assert_eq!(say(&mut merge, 1, Event::InitDone), ["init", "a/x", "b/y", "done"]);
        merge
    }

    #[test]
    fn a_list_of_one_namespace_has_nothing_of_another_forgotten() {
        let mut merge = listed();
        assert!(say(&mut merge, 0, Event::Init).is_empty());
        assert_eq!(say(&mut merge, 0, Event::InitApply(object("a/z"))), ["+a/z"]);
        assert_eq!(say(&mut merge, 0, Event::InitDone), ["-a/x"]);
        assert_eq!(say(&mut merge, 1, Event::Apply(object("b/w"))), ["+b/w"]);
        assert_eq!(say(&mut merge, 1, Event::Delete(object("b/y"))), ["-b/y"]);
        say(&mut merge, 1, Event::Init);
        assert_eq!(say(&mut merge, 1, Event::InitDone), ["-b/w"], "what was deleted before is not deleted again");
    }

    #[test]
    fn a_list_that_breaks_off_leaves_nothing_behind_and_changes_before_the_first_are_in_it() {
        let mut merge = listed();
        say(&mut merge, 0, Event::Init);
        assert_eq!(say(&mut merge, 0, Event::InitApply(object("a/z"))), ["+a/z"]);
        say(&mut merge, 0, Event::Init);
        assert_eq!(say(&mut merge, 0, Event::InitApply(object("a/x"))), ["+a/x"]);
        assert_eq!(say(&mut merge, 0, Event::InitDone), ["-a/z"], "it was told of by a list that came to no end");

        let mut merge = Merge::new(2);
        for event in [Event::Init, Event::InitApply(object("a/x")), Event::InitDone, Event::Delete(object("a/x"))] {
            assert!(say(&mut merge, 0, event).is_empty());
        }
        say(&mut merge, 0, Event::Apply(object("a/z")));
        assert_eq!(say(&mut merge, 1, Event::InitDone), ["init", "a/z", "done"]);
    }

    #[test]
    fn a_namespace_that_may_not_be_read_keeps_no_other_waiting_and_is_told_later() {
        let mut merge = Merge::new(2);
        say(&mut merge, 0, Event::InitApply(object("a/x")));
        say(&mut merge, 0, Event::InitDone);
        assert_eq!(told(&merge.take(1, WatchItem::Forbidden)), ["init", "a/x", "done"]);
        assert!(merge.take(1, WatchItem::Forbidden).is_empty());
        say(&mut merge, 1, Event::Init);
        assert_eq!(say(&mut merge, 1, Event::InitApply(object("b/y"))), ["+b/y"]);
        assert!(say(&mut merge, 1, Event::InitDone).is_empty());
    }
}
