//! Groups that wait for something in the inventory: they are told when it may be there.

use std::collections::{BTreeSet, HashMap};

use vim25::ManagedObject;
use vim25::{ManagedObjectReference, inventory, refs::VirtualMachineRef};

use super::{
    inventory_path::canonical,
    mirror::{Consequences, GroupKey, Mirror},
};

/// A group that waits for something.
#[derive(Clone, Debug)]
pub(crate) struct Awaiting {
    pub key: GroupKey,
    pub uid: String,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// The names of groups' folders.
    folders: HashMap<String, Awaiting>,
    /// The groups that wait until what they name can be cloned, by UID.
    templates: HashMap<ManagedObjectReference, HashMap<String, GroupKey>>,
    /// The groups that name something that isn't there or can't be used, with the names of all that they name, by UID.
    names: HashMap<String, (GroupKey, BTreeSet<String>)>,
}

/// What became of an object that somebody may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is new, gone or another than it was. That concerns those who name it.
    Itself,
    /// It has another name or place, and with it all that is in it.
    Path,
}

impl Awaited {
    /// Has a group told of its folder.
    pub(crate) fn folder(&mut self, name: String, group: Awaiting) {
        self.folders.insert(name, group);
    }

    /// Has a group told when what it is to be cloned from is not what it is now.
    pub(crate) fn template(&mut self, template: &VirtualMachineRef, group: &Awaiting) {
        let waiting = self.templates.entry(template.reference().clone()).or_default();
        waiting.insert(group.uid.clone(), group.key.clone());
    }

    /// Has a group told when something may be there, or may be used, that it names by one of these words: names, paths or object ids.
    pub(crate) fn names<'a>(&mut self, group: &Awaiting, words: impl Iterator<Item = &'a str>) {
        let last = |word: &'a str| word.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        let names = words.map(last).flat_map(|name| [canonical(name), inventory::escape(name)]).collect();
        self.names.insert(group.uid.clone(), (group.key.clone(), names));
    }

    /// No group waits for anything that it names: another replica plans for them.
    pub(crate) fn forget_names(&mut self) {
        self.names.clear();
    }

    /// Whether any group waits for something that it names.
    pub(crate) fn is_any(&self) -> bool {
        !self.names.is_empty()
    }

    /// A group waits for nothing that it names.
    pub(crate) fn found(&mut self, uid: &str) {
        self.names.remove(uid);
    }

    /// Forgets the groups that are gone.
    pub(crate) fn retain_groups(&mut self, is_there: impl Fn(&str) -> bool) {
        self.folders.retain(|_, awaiting| is_there(&awaiting.uid));
        self.names.retain(|uid, _| is_there(uid));
        self.templates.retain(|_, waiting| {
            waiting.retain(|uid, _| is_there(uid));
            !waiting.is_empty()
        });
    }

    /// The group whose folder has this name.
    pub(crate) fn of_folder(&self, name: &str) -> Option<GroupKey> {
        self.folders.get(name).map(|awaiting| awaiting.key.clone())
    }

    /// Those that wait for a template, once.
    pub(crate) fn take_of_template(&mut self, template: &ManagedObjectReference) -> impl Iterator<Item = GroupKey> {
        self.templates.remove(template).into_iter().flat_map(HashMap::into_values)
    }

    /// Those that wait for something that has changed so, and was called so before it or is after it.
    pub(crate) fn of_names<'a>(&'a self, change: Change, names: [&str; 2]) -> impl Iterator<Item = GroupKey> + use<'a> {
        let names = names.map(ToOwned::to_owned);
        let concerns =
            move |wanted: &BTreeSet<String>| change == Change::Path || names.iter().any(|name| wanted.contains(name));
        self.names.values().filter(move |(_, wanted)| concerns(wanted)).map(|(key, _)| key.clone())
    }
}

impl Mirror {
    /// Tells those who wait for what has changed so.
    pub(super) fn tell_awaiting(&self, change: Change, names: [&str; 2], then: &mut Consequences) {
        then.groups.extend(self.awaited.of_names(change, names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_name_is_told_of_what_has_it_and_of_all_that_moves() {
        let mut awaited = Awaited::default();
        let group = |uid: &str| Awaiting { key: ("ns".to_owned(), uid.to_owned()), uid: uid.to_owned() };
        awaited.names(&group("web"), ["golden", "/DC0/vm/team", "moref:vm-7", "50%"].into_iter());
        awaited.names(&group("db"), ["silver"].into_iter());
        let told = |awaited: &Awaited, change, names| {
            let mut told: Vec<_> = awaited.of_names(change, names).map(|(_, name)| name).collect();
            told.sort();
            told.join(" ")
        };
        for name in ["golden", "team", "moref:vm-7", "50%25"] {
            assert_eq!(told(&awaited, Change::Itself, ["x", name]), "web", "{name}");
        }
        assert_eq!(told(&awaited, Change::Itself, ["DC0", "vm"]), "");
        assert_eq!(told(&awaited, Change::Path, ["DC0", "DC1"]), "db web");
        awaited.found("web");
        assert_eq!(told(&awaited, Change::Path, ["", ""]), "db");
        awaited.retain_groups(|_| false);
        assert_eq!(told(&awaited, Change::Path, ["", ""]), "");
    }
}
