//! Objects by their ids, found by their names, by what they are in or on and by the group that they are marked for, without a look at all
//! others.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    ops::{Deref, DerefMut},
};

use indexmap::IndexMap;
use smol_str::SmolStr;
use vim25::ManagedObjectReference;

use super::{
    machine::Machine,
    mirror::{Folder, GroupKey},
};

/// What an object is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Called(SmolStr),
    In(ManagedObjectReference),
    Marked(String),
    OwnedBy(GroupKey),
    On(ManagedObjectReference),
}

/// An object that is in something, and may be marked for a group.
pub(crate) trait Placed {
    fn name(&self) -> &str;

    fn parent(&self) -> Option<&ManagedObjectReference>;

    /// The UID of the group that its marker names.
    fn group(&self) -> Option<&str> {
        None
    }

    /// The namespace and name of that group.
    fn owner(&self) -> Option<&GroupKey> {
        None
    }

    /// The host that it is on.
    fn host(&self) -> Option<&ManagedObjectReference> {
        None
    }
}

impl Placed for Machine {
    fn name(&self) -> &str {
        &self.name
    }

    fn parent(&self) -> Option<&ManagedObjectReference> {
        self.parent.as_ref()
    }

    fn group(&self) -> Option<&str> {
        self.marker.as_ref().map(|marker| marker.group.as_str())
    }

    fn owner(&self) -> Option<&GroupKey> {
        self.marker.as_ref().map(|marker| &marker.owner)
    }

    fn host(&self) -> Option<&ManagedObjectReference> {
        self.facts.host.as_ref()
    }
}

impl Placed for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn parent(&self) -> Option<&ManagedObjectReference> {
        self.parent.as_ref()
    }
}

/// All objects of a type. They are read as those of a map, and changed by what keeps the index right.
#[derive(Debug)]
pub(crate) struct Indexed<T> {
    /// Side by side in memory: they are large, and a hash map would have room for half as many again between them.
    all: IndexMap<ManagedObjectReference, T>,
    index: HashMap<Key, Found>,
}

/// What is found by a key. Most names are those of one object.
#[derive(Debug)]
enum Found {
    One(ManagedObjectReference),
    Several(HashSet<ManagedObjectReference>),
}

impl Found {
    fn iter(&self) -> impl Iterator<Item = &ManagedObjectReference> {
        let (one, several) = match self {
            Self::One(id) => (Some(id), None),
            Self::Several(ids) => (None, Some(ids)),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn insert(&mut self, id: ManagedObjectReference) {
        match self {
            Self::One(other) if *other == id => {}
            Self::One(other) => *self = Self::Several(HashSet::from([other.clone(), id])),
            Self::Several(ids) => {
                ids.insert(id);
            }
        }
    }

    /// Removes one, and says whether that was the last.
    fn remove(&mut self, id: &ManagedObjectReference) -> bool {
        match self {
            Self::One(only) => only == id,
            Self::Several(ids) => {
                ids.remove(id);
                ids.is_empty()
            }
        }
    }
}

impl<T> Default for Indexed<T> {
    fn default() -> Self {
        Self { all: IndexMap::new(), index: HashMap::new() }
    }
}

impl<T> Deref for Indexed<T> {
    type Target = IndexMap<ManagedObjectReference, T>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl<T: Placed> Indexed<T> {
    /// The objects of this name.
    pub(crate) fn called<'a>(
        &'a self,
        name: &str,
    ) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        self.found_by(&Key::Called(name.into()))
    }

    /// The objects in another.
    pub(crate) fn inside<'a>(
        &'a self,
        parent: &ManagedObjectReference,
    ) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        self.found_by(&Key::In(parent.clone()))
    }

    /// The objects that are marked for the group with this UID.
    pub(crate) fn marked<'a>(
        &'a self,
        group: &str,
    ) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        self.found_by(&Key::Marked(group.to_owned()))
    }

    /// The objects that are marked for a group of this namespace and name, whatever its UID was.
    pub(crate) fn owned_by<'a>(
        &'a self,
        group: &GroupKey,
    ) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        self.found_by(&Key::OwnedBy(group.clone()))
    }

    /// The objects on a host.
    pub(crate) fn on<'a>(
        &'a self,
        host: &ManagedObjectReference,
    ) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        self.found_by(&Key::On(host.clone()))
    }

    fn found_by<'a>(&'a self, key: &Key) -> impl Iterator<Item = (&'a ManagedObjectReference, &'a T)> + use<'a, T> {
        let found = self.index.get(key).into_iter().flat_map(Found::iter);
        found.filter_map(|id| self.all.get_key_value(id))
    }

    pub(crate) fn insert(&mut self, id: ManagedObjectReference, object: T) {
        self.remove(&id);
        for key in keys(&object) {
            self.note(key, &id);
        }
        self.all.insert(id, object);
    }

    pub(crate) fn remove(&mut self, id: &ManagedObjectReference) -> Option<T> {
        let object = self.all.swap_remove(id)?;
        for key in keys(&object) {
            self.forget(&key, id);
        }
        Some(object)
    }

    /// The object to be changed, if it is there.
    pub(crate) fn change(&mut self, id: &ManagedObjectReference) -> Option<Changing<'_, T>> {
        let before = keys(self.all.get(id)?);
        Some(Changing { objects: self, id: id.clone(), before })
    }

    /// The object to be changed. If it isn't there, it is from now on.
    pub(crate) fn change_or(&mut self, id: &ManagedObjectReference, new: impl FnOnce() -> T) -> Changing<'_, T> {
        if !self.all.contains_key(id) {
            self.insert(id.clone(), new());
        }
        let before = self.all.get(id).map(keys).unwrap_or_default();
        Changing { objects: self, id: id.clone(), before }
    }

    /// An object, to be changed in what it is not found by.
    pub(crate) fn get_unplaced(&mut self, id: &ManagedObjectReference) -> Option<&mut T> {
        self.all.get_mut(id)
    }

    /// All objects, to be changed in what they are not found by.
    pub(crate) fn iter_unplaced(&mut self) -> impl Iterator<Item = (&ManagedObjectReference, &mut T)> {
        self.all.iter_mut()
    }

    fn note(&mut self, key: Key, id: &ManagedObjectReference) {
        match self.index.entry(key) {
            Entry::Occupied(found) => found.into_mut().insert(id.clone()),
            Entry::Vacant(nobody) => {
                nobody.insert(Found::One(id.clone()));
            }
        }
    }

    fn forget(&mut self, key: &Key, id: &ManagedObjectReference) {
        if self.index.get_mut(key).is_some_and(|found| found.remove(id)) {
            self.index.remove(key);
        }
    }
}

fn keys<T: Placed>(object: &T) -> Vec<Key> {
    let named = (!object.name().is_empty()).then(|| Key::Called(object.name().into()));
    let parent = object.parent().cloned().map(Key::In);
    let marked = object.group().map(|group| Key::Marked(group.to_owned()));
    let owner = object.owner().cloned().map(Key::OwnedBy);
    let host = object.host().cloned().map(Key::On);
    [named, parent, marked, owner, host].into_iter().flatten().collect()
}

/// An object that is being changed. The index is right again when this ends.
pub(crate) struct Changing<'a, T: Placed> {
    objects: &'a mut Indexed<T>,
    id: ManagedObjectReference,
    before: Vec<Key>,
}

impl<T: Placed> Deref for Changing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // It is there for as long as this borrows all of them.
        &self.objects.all[&self.id]
    }
}

impl<T: Placed> DerefMut for Changing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.objects.all.get_mut(&self.id).expect("it is there for as long as this borrows all of them")
    }
}

impl<T: Placed> Drop for Changing<'_, T> {
    fn drop(&mut self) {
        let Some(object) = self.objects.all.get(&self.id) else { return };
        let after = keys(object);
        for key in self.before.iter().filter(|key| !after.contains(key)) {
            self.objects.forget(key, &self.id);
        }
        for key in after.into_iter().filter(|key| !self.before.contains(key)) {
            self.objects.note(key, &self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(id: &str) -> ManagedObjectReference {
        ManagedObjectReference::new("Folder", id)
    }

    #[test]
    fn objects_are_found_where_they_are_and_nowhere_else() {
        let mut folders = Indexed::default();
        let new = |parent| Folder { name: "web".to_owned(), parent: Some(folder(parent)) };
        folders.insert(folder("f-1"), new("a"));
        folders.insert(folder("f-2"), new("a"));
        let inside = |folders: &Indexed<Folder>, parent| {
            let mut ids: Vec<_> = folders.inside(&folder(parent)).map(|(id, _)| id.value().to_owned()).collect();
            ids.sort();
            ids
        };
        assert_eq!(inside(&folders, "a"), ["f-1", "f-2"]);
        assert_eq!((folders.called("web").count(), folders.called("db").count()), (2, 0));
        folders.change(&folder("f-2")).unwrap().name = "db".to_owned();
        assert_eq!((folders.called("web").count(), folders.called("db").count()), (1, 1));
        folders.change(&folder("f-1")).unwrap().parent = Some(folder("b"));
        folders.insert(folder("f-2"), new("c"));
        assert_eq!((inside(&folders, "a"), inside(&folders, "b")), (vec![], vec!["f-1".to_owned()]));
        folders.change_or(&folder("f-3"), || new("c")).name.clear();
        assert_eq!(inside(&folders, "c"), ["f-2", "f-3"]);
        folders.remove(&folder("f-2"));
        folders.remove(&folder("f-3"));
        assert!(inside(&folders, "c").is_empty() && folders.change(&folder("f-3")).is_none());
        assert_eq!(folders.index.len(), 2, "nothing is kept of what is gone: {:?}", folders.index);
    }
}
