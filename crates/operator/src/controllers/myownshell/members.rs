//! The groups that there are and their machines, as their VMInfos tell them: what shells find, without knowing of any vCenter.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use drover_api::{VMInfo, VmGroup};
use drover_core::shell::{Machine, Machines};
use futures::{Stream, StreamExt, stream};
use kube::{ResourceExt, runtime::watcher::Event};

use crate::{controllers::info, kube::guard::Guarded};

/// A namespace, and a name in it.
pub(super) type Key = (String, String);

/// The groups and their machines.
#[derive(Default)]
pub(super) struct Members {
    indexes: Mutex<Indexes>,
    /// Whether they aren't read by this operator.
    are_unread: bool,
}

#[derive(Default)]
struct Indexes {
    /// The groups, by the UID of each.
    groups: Index<String>,
    machines: Index<Member>,
}

#[derive(Clone, Debug, PartialEq)]
struct Member {
    /// The name of its group, and the group's UID: another group of that name has machines of its own.
    group: String,
    uid: String,
    machine: Machine,
}

/// What a watch has told.
struct Index<T> {
    all: HashMap<Key, T>,
    /// What a watch that begins anew has told so far.
    coming: HashMap<Key, T>,
    is_filled: bool,
}

impl<T> Default for Index<T> {
    fn default() -> Self {
        Self { all: HashMap::new(), coming: HashMap::new(), is_filled: false }
    }
}

impl Members {
    /// Those of an operator that reads no groups.
    pub(super) fn unread() -> Self {
        Self { are_unread: true, ..Self::default() }
    }

    /// The machines of a group, in the order of their names. `None`: not all of them have been told yet.
    pub(super) fn of(&self, namespace: &str, group: &str) -> Option<Machines> {
        if self.are_unread {
            return Some(Machines::Unread);
        }
        let indexes = self.indexes();
        if !indexes.groups.is_filled || !indexes.machines.is_filled {
            return None;
        }
        let Some(uid) = indexes.groups.all.get(&(namespace.to_owned(), group.to_owned())) else {
            return Some(Machines::NoGroup);
        };
        let of_group =
            indexes.machines.all.iter().filter(|((place, _), member)| place == namespace && member.uid == *uid);
        let mut machines: Vec<_> = of_group.map(|(_, member)| member.machine.clone()).collect();
        machines.sort();
        Some(Machines::Of(machines))
    }

    /// Takes up what the watches of groups and VMInfos tell, and tells which group has become another.
    pub(super) fn follow(
        self: Arc<Self>,
        groups: impl Stream<Item = Event<Guarded<VmGroup>>> + Send + 'static,
        machines: impl Stream<Item = Event<Guarded<VMInfo>>> + Send + 'static,
    ) -> impl Stream<Item = Key> + Send + 'static {
        let members = Arc::clone(&self);
        let machines = machines.map(move |event| {
            let changed = members.indexes().machines.learn(event, |info| member(info.0.as_ref().ok()?));
            changed.into_iter().map(|((namespace, _), member)| (namespace, member.group)).collect::<Vec<_>>()
        });
        let groups = groups.map(move |event| {
            let changed = self.indexes().groups.learn(event, ResourceExt::uid);
            changed.into_iter().map(|(key, _)| key).collect()
        });
        stream::select(machines, groups).flat_map(stream::iter)
    }

    fn indexes(&self) -> MutexGuard<'_, Indexes> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The machine that a VMInfo was published for.
fn member(info: &VMInfo) -> Option<Member> {
    let group = info::group_of(info)?;
    let status = info.status.as_ref();
    let first = status.and_then(|status| status.ip_address.as_deref());
    let all = status.into_iter().flat_map(|status| &status.addresses).map(String::as_str);
    let machine = Machine::new(&info.name_any(), first.into_iter().chain(all));
    Some(Member { group: group.name.clone(), uid: group.uid.clone(), machine })
}

fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

impl<T: Clone + PartialEq> Index<T> {
    /// Takes in what a watch tells, and returns what is new, other than before, or gone.
    fn learn<K: ResourceExt>(&mut self, event: Event<K>, read: impl Fn(&K) -> Option<T>) -> Vec<(Key, T)> {
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply(object) => self.coming.extend(read(&object).map(|value| (key(&object), value))),
            Event::InitDone => {
                self.is_filled = true;
                let before = mem::replace(&mut self.all, mem::take(&mut self.coming));
                let gone = before.iter().filter(|(key, value)| self.all.get(*key) != Some(value));
                let new = self.all.iter().filter(|(key, value)| before.get(*key) != Some(value));
                return gone.chain(new).map(|(key, value)| (key.clone(), value.clone())).collect();
            }
            Event::Apply(object) => {
                let key = key(&object);
                // One that no longer says what it did is as good as gone.
                let Some(value) = read(&object) else { return self.all.remove_entry(&key).into_iter().collect() };
                let before = self.all.insert(key.clone(), value.clone());
                if before.as_ref() != Some(&value) {
                    return before.into_iter().chain([value]).map(|value| (key.clone(), value)).collect();
                }
            }
            Event::Delete(object) => return self.all.remove_entry(&key(&object)).into_iter().collect(),
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn info(name: &str, group: &str, status: &Value) -> VMInfo {
        owned(name, &json!([owner(group, "u")]), status)
    }

    fn owner(group: &str, uid: &str) -> Value {
        let version = "vm.codeconnect.vmworld.com/v1alpha1";
        json!({"apiVersion": version, "kind": "VmGroup", "name": group, "uid": uid, "controller": true})
    }

    fn owned(name: &str, owners: &Value, status: &Value) -> VMInfo {
        serde_json::from_value(json!({
            "apiVersion": "topology.corinternal.com/v1", "kind": "VMInfo",
            "metadata": {"name": name, "namespace": "n", "ownerReferences": owners},
            "spec": {"nodename": name}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_what_shells_would_see_is_a_change() {
        let mut index = Index::default();
        let key = |name: &str| ("n".to_owned(), name.to_owned());
        let keys = |changed: Vec<(Key, Member)>| changed.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(index.learn(Event::Init, member)), []);
        assert_eq!(keys(index.learn(Event::InitApply(info("a", "web", &json!({}))), member)), []);
        assert!(!index.is_filled);
        assert_eq!(keys(index.learn(Event::InitDone, member)), [key("a")]);
        let with_address =
            |use_: i64| Event::Apply(info("a", "web", &json!({"ipAddress": "10.0.0.1", "cpuUse": use_})));
        assert_eq!(keys(index.learn(with_address(1), member)), [key("a"), key("a")]);
        assert_eq!(keys(index.learn(with_address(2), member)), []);
        assert_eq!(keys(index.learn(Event::Init, member)), []);
        assert_eq!(index.all.len(), 1, "what was known stands until the watch has begun anew");
        assert_eq!(keys(index.learn(Event::InitDone, member)), [key("a")]);
        assert!(index.all.is_empty());
    }

    #[test]
    fn a_vminfo_that_is_taken_from_its_group_or_deleted_is_no_machine_of_it() {
        let mut index = Index::default();
        let key = ("n".to_owned(), "a".to_owned());
        let known = Event::Apply(info("a", "web", &json!({})));
        let stripped = || owned("a", &json!([]), &json!({}));
        for end in [Event::Apply(stripped()), Event::Delete(stripped())] {
            assert_eq!(index.learn(known.clone(), member).len(), 1);
            let gone = index.learn(end, member);
            assert_eq!((gone.len(), &gone[0].0, gone[0].1.group.as_str()), (1, &key, "web"));
            assert!(index.all.is_empty());
        }
        let mut loose = owner("web", "u");
        loose["controller"] = json!(false);
        assert!(index.learn(Event::Apply(owned("a", &json!([loose]), &json!({}))), member).is_empty());
    }

    #[test]
    fn machines_are_those_of_the_group_that_is_there_now() {
        let members = Members::default();
        let group = |uid: &str| -> Event<Guarded<VmGroup>> {
            let meta = json!({"metadata": {"name": "web", "namespace": "n", "uid": uid}, "spec": "can't be read"});
            Event::Apply(serde_json::from_value(meta).unwrap())
        };
        let learn = |event| members.indexes().groups.learn(event, ResourceExt::uid);
        learn(Event::Init);
        learn(Event::InitDone);
        members.indexes().machines.learn(Event::InitDone, member);
        members.indexes().machines.learn(Event::Apply(info("a", "web", &json!({}))), member);
        assert_eq!(members.of("n", "web"), Some(Machines::NoGroup));
        assert_eq!(learn(group("u")).len(), 1);
        assert_eq!(members.of("n", "web"), Some(Machines::Of(vec![Machine::new("a", [])])));
        assert_eq!(learn(group("v")).len(), 2, "it is another group");
        assert_eq!(members.of("n", "web"), Some(Machines::Of(Vec::new())));
        assert_eq!(members.of("m", "web"), Some(Machines::NoGroup));
    }
}
