//! What the stream has already said of a watch, so that it says nothing twice.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    Any, ManagedObjectReference,
    enums::{ObjectUpdateKind, PropertyChangeOp},
    types::{ObjectUpdate, PropertyChange},
};

/// The objects of a watch, each with a digest of every property's last value.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: HashMap<ManagedObjectReference, Vec<Digest>>,
    /// The objects seen since the watch was set up anew; `None` once all of them have been.
    resync: Option<HashSet<ManagedObjectReference>>,
}

#[derive(Debug)]
struct Digest {
    path: String,
    value: u64,
}

impl Known {
    /// The watch is set up anew: all its objects are about to be reported from the beginning.
    pub(super) fn begin(&mut self) {
        self.resync = Some(HashSet::new());
    }

    /// All objects have been reported. Returns those that have vanished, or `None` if that was known already.
    pub(super) fn complete(&mut self) -> Option<Vec<ManagedObjectReference>> {
        let seen = self.resync.take()?;
        let gone: Vec<_> = self.objects.keys().filter(|object| !seen.contains(object)).cloned().collect();
        for object in &gone {
            self.objects.remove(object);
        }
        Some(gone)
    }

    /// Whether no object is known.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Forgets an object, and says whether it was known.
    pub(super) fn remove(&mut self, object: &ManagedObjectReference) -> bool {
        self.objects.remove(object).is_some()
    }

    /// Forgets everything, and returns what was known.
    pub(super) fn clear(&mut self) -> Vec<ManagedObjectReference> {
        self.resync = None;
        self.objects.drain().map(|(object, _)| object).collect()
    }

    /// Leaves in the update only what is new, and says whether that is anything.
    pub(super) fn news(&mut self, update: &mut ObjectUpdate) -> bool {
        if let Some(seen) = &mut self.resync {
            seen.insert(update.obj.clone());
        }
        let is_new = !self.objects.contains_key(&update.obj);
        let digests = self.objects.entry(update.obj.clone()).or_default();
        if update.kind == ObjectUpdateKind::Enter && !is_new {
            // It was reported before the watch was set up anew. What it has no longer isn't in the report.
            unset_the_rest(digests, update);
            update.kind = ObjectUpdateKind::Modify;
        }
        update.change_set.retain(|change| note(digests, change));
        is_new || !update.change_set.is_empty() || !update.missing_set.is_empty()
    }
}

fn unset_the_rest(digests: &[Digest], update: &mut ObjectUpdate) {
    let unset = |path: &String| PropertyChange { name: path.clone(), op: PropertyChangeOp::Assign, val: None };
    let absent = digests.iter().map(|digest| &digest.path);
    let absent: Vec<_> =
        absent.filter(|path| update.change_set.iter().all(|change| change.name != **path)).map(unset).collect();
    update.change_set.extend(absent);
}

/// Takes a change up, and says whether it changes anything.
fn note(digests: &mut Vec<Digest>, change: &PropertyChange) -> bool {
    let position = digests.iter().position(|digest| digest.path == change.name);
    match (position, &change.val) {
        (Some(index), None) => {
            digests.swap_remove(index);
            true
        }
        (None, None) => false,
        (Some(index), Some(value)) => {
            let value = digest(value);
            std::mem::replace(&mut digests[index].value, value) != value
        }
        (None, Some(value)) => {
            digests.push(Digest { path: change.name.clone(), value: digest(value) });
            true
        }
    }
}

/// Two values of the same digest are taken for the same: one in 2⁶⁴ changes would be missed.
fn digest(value: &Any) -> u64 {
    struct Sponge(DefaultHasher);
    impl Write for Sponge {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            text.hash(&mut self.0);
            Ok(())
        }
    }
    let mut sponge = Sponge(DefaultHasher::new());
    // Neither formatting a value nor hashing can fail.
    let _ = write!(sponge, "{value:?}");
    sponge.0.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str) -> ManagedObjectReference {
        ManagedObjectReference::new("VirtualMachine", name)
    }

    fn update(kind: ObjectUpdateKind, name: &str, values: &[(&str, Option<&str>)]) -> ObjectUpdate {
        let change = |(path, value): &(&str, Option<&str>)| PropertyChange {
            name: (*path).to_owned(),
            op: PropertyChangeOp::Assign,
            val: value.map(|value| Any::String(value.to_owned())),
        };
        let change_set = values.iter().map(change).collect();
        ObjectUpdate { kind, obj: object(name), change_set, missing_set: Vec::new() }
    }

    fn enter(name: &str, values: &[(&str, Option<&str>)]) -> ObjectUpdate {
        update(ObjectUpdateKind::Enter, name, values)
    }

    #[test]
    fn the_same_value_is_news_only_once() {
        let mut known = Known::default();
        assert!(known.news(&mut enter("vm-1", &[("name", Some("a"))])));
        assert!(!known.news(&mut update(ObjectUpdateKind::Modify, "vm-1", &[("name", Some("a"))])));
        assert!(known.news(&mut update(ObjectUpdateKind::Modify, "vm-1", &[("name", Some("b"))])));
        assert!(known.news(&mut update(ObjectUpdateKind::Modify, "vm-1", &[("name", None)])));
        assert!(!known.news(&mut update(ObjectUpdateKind::Modify, "vm-1", &[("name", None)])));
    }

    #[test]
    fn an_object_without_properties_is_news_once_too() {
        let mut known = Known::default();
        assert!(known.news(&mut enter("vm-1", &[])));
        assert!(!known.news(&mut enter("vm-1", &[])));
    }

    #[test]
    fn after_a_new_set_up_only_the_differences_are_news() {
        let mut known = Known::default();
        known.begin();
        for name in ["same", "changed", "shrunk", "vanished"] {
            assert!(known.news(&mut enter(name, &[("name", Some("a")), ("guest.ipAddress", Some("b"))])));
        }
        assert_eq!(known.complete(), Some(vec![]));
        assert_eq!(known.complete(), None);

        known.begin();
        assert!(!known.news(&mut enter("same", &[("name", Some("a")), ("guest.ipAddress", Some("b"))])));
        let mut changed = enter("changed", &[("name", Some("z")), ("guest.ipAddress", Some("b"))]);
        assert!(known.news(&mut changed));
        assert_eq!(changed, update(ObjectUpdateKind::Modify, "changed", &[("name", Some("z"))]));
        let mut shrunk = enter("shrunk", &[("name", Some("a"))]);
        assert!(known.news(&mut shrunk));
        assert_eq!(shrunk, update(ObjectUpdateKind::Modify, "shrunk", &[("guest.ipAddress", None)]));
        assert!(known.news(&mut enter("new", &[("name", Some("a"))])));
        assert_eq!(known.complete(), Some(vec![object("vanished")]));
    }
}
