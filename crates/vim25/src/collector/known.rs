//! What the stream has already said of a watch, so that it says nothing twice.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::{
    Any, ManagedObjectReference,
    enums::{ObjectUpdateKind, PropertyChangeOp},
    types::{MissingProperty, ObjectUpdate, PropertyChange},
};

/// The objects of a watch, with what was last said of each.
#[derive(Debug, Default)]
pub struct Known {
    objects: HashMap<ManagedObjectReference, Object>,
    paths: Paths,
    /// The objects seen since the watch was set up anew; `None` once all of them have been.
    resync: Option<HashSet<ManagedObjectReference>>,
}

/// The paths of all properties, each once, by numbers: thousands of objects have the same.
#[derive(Debug, Default)]
struct Paths {
    numbers: HashMap<Arc<str>, u32>,
    paths: Vec<Arc<str>>,
}

impl Paths {
    fn number(&self, path: &str) -> Option<u32> {
        self.numbers.get(path).copied()
    }

    fn note(&mut self, path: &str) -> u32 {
        self.number(path).unwrap_or_else(|| {
            let number = u32::try_from(self.paths.len()).expect("no watch has so many properties");
            let path: Arc<str> = path.into();
            self.paths.push(Arc::clone(&path));
            self.numbers.insert(path, number);
            number
        })
    }

    fn get(&self, number: u32) -> &str {
        &self.paths[number as usize]
    }
}

#[derive(Debug, Default)]
struct Object {
    properties: Vec<Property>,
    /// The paths that can't be read, as they were last reported.
    missing: Vec<String>,
}

/// What was last said of a property. There are millions of them: they are kept small.
#[derive(Debug)]
struct Property {
    path: u32,
    value: Digest,
}

/// What stands for a value. Bytes, because a number would have room left beside it.
type Digest = [u8; 8];

/// It was said once, and can't be read any more. Whatever it turns out to be is news.
const UNREADABLE: Digest = [0; 8];

impl Known {
    /// The watch is set up anew: all its objects are about to be reported from the beginning.
    pub fn begin(&mut self) {
        self.resync = Some(HashSet::new());
    }

    /// All objects have been reported. Returns those that have vanished since the watch was last whole.
    pub fn complete(&mut self) -> Vec<ManagedObjectReference> {
        let Some(seen) = self.resync.take() else { return Vec::new() };
        let gone: Vec<_> = self.objects.keys().filter(|object| !seen.contains(object)).cloned().collect();
        for object in &gone {
            self.objects.remove(object);
        }
        gone
    }

    /// Forgets an object, and says whether it was known.
    pub fn remove(&mut self, object: &ManagedObjectReference) -> bool {
        self.objects.remove(object).is_some()
    }

    /// Forgets what was said of an object that is still there: all of it is news when it can be read again.
    pub fn forget_values(&mut self, object: &ManagedObjectReference) {
        if let Some(known) = self.objects.get_mut(object) {
            known.properties.iter_mut().for_each(|property| property.value = UNREADABLE);
        }
        if let Some(seen) = &mut self.resync {
            seen.insert(object.clone());
        }
    }

    /// Leaves in the update only what is new, and says whether that is anything. What can't be read is never said to be
    /// unset.
    pub fn news(&mut self, update: &mut ObjectUpdate) -> bool {
        if let Some(seen) = &mut self.resync {
            seen.insert(update.obj.clone());
        }
        let is_new = !self.objects.contains_key(&update.obj);
        let object = self.objects.entry(update.obj.clone()).or_default();
        let is_whole = update.kind == ObjectUpdateKind::Enter;
        update.change_set.retain(|change| change.val.is_some() || !is_missing(&update.missing_set, &change.name));
        if is_whole && !is_new {
            // It was reported before the watch was set up anew. What it has no longer isn't in the report.
            object.unset_the_rest(update, &self.paths);
            update.kind = ObjectUpdateKind::Modify;
        }
        let paths = &mut self.paths;
        if is_new {
            object.properties.reserve_exact(update.change_set.len());
        }
        update.change_set.retain(|change| object.note(change, paths));
        let more_is_missing = object.note_missing(&update.missing_set, is_whole, paths);
        is_new || !update.change_set.is_empty() || more_is_missing
    }
}

impl Object {
    fn unset_the_rest(&self, update: &mut ObjectUpdate, paths: &Paths) {
        let is_told = |path: &str| update.change_set.iter().any(|change| change.name == path);
        let unset = |path: &str| PropertyChange { name: path.to_owned(), op: PropertyChangeOp::Assign, val: None };
        let paths = self.properties.iter().map(|property| paths.get(property.path));
        let absent = paths.filter(|path| !is_told(path) && !is_missing(&update.missing_set, path));
        let absent: Vec<_> = absent.map(unset).collect();
        update.change_set.extend(absent);
    }

    /// Takes a change up, and says whether it changes anything.
    fn note(&mut self, change: &PropertyChange, paths: &mut Paths) -> bool {
        self.missing.retain(|missing| !covers(missing, &change.name));
        let path = paths.number(&change.name);
        let position = path.and_then(|path| self.properties.iter().position(|property| property.path == path));
        match (position, &change.val) {
            (Some(index), None) => {
                self.properties.swap_remove(index);
                true
            }
            (None, None) => false,
            (Some(index), Some(value)) => {
                let value = digest(value);
                std::mem::replace(&mut self.properties[index].value, value) != value
            }
            (None, Some(value)) => {
                self.properties.push(Property { path: paths.note(&change.name), value: digest(value) });
                true
            }
        }
    }

    /// Takes up which paths can't be read, and says whether that is news. A whole report has all of them.
    fn note_missing(&mut self, missing: &[MissingProperty], is_whole: bool, paths: &Paths) -> bool {
        let before = if is_whole { std::mem::take(&mut self.missing) } else { self.missing.clone() };
        for MissingProperty { path, .. } in missing {
            if !self.missing.contains(path) {
                self.missing.push(path.clone());
            }
            for property in self.properties.iter_mut().filter(|property| covers(path, paths.get(property.path))) {
                property.value = UNREADABLE;
            }
        }
        missing.iter().any(|missing| !before.contains(&missing.path))
    }
}

fn is_missing(missing: &[MissingProperty], path: &str) -> bool {
    missing.iter().any(|missing| covers(&missing.path, path))
}

/// Whether `path` is `whole`, or a part of it: `config` covers `config.extraConfig["a"]`.
fn covers(whole: &str, path: &str) -> bool {
    path.strip_prefix(whole).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Two values of the same digest are taken for the same: one in 2⁶⁴ changes would be missed.
fn digest(value: &Any) -> Digest {
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
    sponge.0.finish().max(1).to_ne_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fault, LocalizedMethodFault, faults::NoPermission};

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
        assert_eq!(known.complete(), []);

        known.begin();
        assert!(!known.news(&mut enter("same", &[("name", Some("a")), ("guest.ipAddress", Some("b"))])));
        let mut changed = enter("changed", &[("name", Some("z")), ("guest.ipAddress", Some("b"))]);
        assert!(known.news(&mut changed));
        assert_eq!(changed, update(ObjectUpdateKind::Modify, "changed", &[("name", Some("z"))]));
        let mut shrunk = enter("shrunk", &[("name", Some("a"))]);
        assert!(known.news(&mut shrunk));
        assert_eq!(shrunk, update(ObjectUpdateKind::Modify, "shrunk", &[("guest.ipAddress", None)]));
        assert!(known.news(&mut enter("new", &[("name", Some("a"))])));
        assert_eq!(known.complete(), [object("vanished")]);
        assert_eq!(known.complete(), [], "it is said once");
    }
    fn missing(mut update: ObjectUpdate, paths: &[&str]) -> ObjectUpdate {
        let fault =
            || LocalizedMethodFault { fault: Fault::new(NoPermission::default()), ..LocalizedMethodFault::default() };
        update.missing_set =
            paths.iter().map(|path| MissingProperty { path: (*path).to_owned(), fault: fault() }).collect();
        update
    }

    #[test]
    fn what_can_not_be_read_is_not_said_to_be_unset_and_is_news_when_it_can() {
        let whole = || enter("vm-1", &[("name", Some("a")), ("config.extraConfig[\"k\"]", Some("b"))]);
        for path in ["config", "config.extraConfig", "config.extraConfig[\"k\"]"] {
            let mut known = Known::default();
            assert!(known.news(&mut whole()));

            known.begin();
            let mut unreadable = missing(enter("vm-1", &[("name", Some("a"))]), &[path]);
            assert!(known.news(&mut unreadable), "that it can't be read is news");
            assert_eq!(unreadable.change_set, [], "{path}");
            assert_eq!(unreadable.missing_set.len(), 1, "whoever listens is told which");
            assert!(!known.news(&mut missing(enter("vm-1", &[("name", Some("a"))]), &[path])), "but only once");

            let mut again = whole();
            assert!(known.news(&mut again));
            assert_eq!(
                again,
                update(ObjectUpdateKind::Modify, "vm-1", &[("config.extraConfig[\"k\"]", Some("b"))]),
                "{path}: even where it is as it was"
            );
            assert!(known.news(&mut missing(enter("vm-1", &[("name", Some("a"))]), &[path])), "a second time");
        }
    }

    #[test]
    fn what_turns_out_to_be_unset_when_it_can_be_read_again_is_said_to_be() {
        let mut known = Known::default();
        assert!(known.news(&mut enter("vm-1", &[("name", Some("a")), ("config.uuid", Some("b"))])));
        assert!(known.news(&mut missing(update(ObjectUpdateKind::Modify, "vm-1", &[]), &["config.uuid"])));
        let mut unset = enter("vm-1", &[("name", Some("a"))]);
        assert!(known.news(&mut unset));
        assert_eq!(unset, update(ObjectUpdateKind::Modify, "vm-1", &[("config.uuid", None)]));
    }

    #[test]
    fn a_path_that_is_said_to_be_unset_because_it_can_not_be_read_is_not() {
        let mut known = Known::default();
        assert!(known.news(&mut enter("vm-1", &[("config.uuid", Some("b"))])));
        let mut told = missing(update(ObjectUpdateKind::Modify, "vm-1", &[("config.uuid", None)]), &["config.uuid"]);
        assert!(known.news(&mut told));
        assert_eq!(told.change_set, []);
    }

    #[test]
    fn a_path_covers_its_parts_and_no_namesakes() {
        assert!(covers("config", "config") && covers("config", "config.uuid") && covers("a.b", "a.b[\"k\"].c"));
        assert!(!covers("config", "configStatus") && !covers("config.uuid", "config"));
    }
}
