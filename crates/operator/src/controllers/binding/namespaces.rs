//! What the namespaces say, as their watch tells: whom a vCenter serves is a matter of that.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, ResourceExt,
    core::PartialObjectMeta,
    runtime::watcher::{Config, Event},
};
use tokio::sync::mpsc;

use super::Around;
use crate::{
    kube::{scope::Reach, shared_watch::told_by},
    loops::{Loops, Running},
    vcenter::Trigger,
};

/// How long the watch may take before it is worth a word.
const MOMENT: Duration = Duration::from_secs(5);

/// The namespaces that there are.
#[derive(Debug)]
pub(crate) struct Namespaces {
    index: Mutex<Index>,
    began: Instant,
    /// Whether they are read. If not, all are the same.
    are_followed: bool,
}

#[derive(Debug, Default)]
struct Index {
    all: BTreeMap<String, Around>,
    /// What a watch that begins anew has told so far.
    coming: BTreeMap<String, Around>,
    is_filled: bool,
}

impl Namespaces {
    /// Those of an operator that may not read them.
    pub(crate) fn unread() -> Arc<Self> {
        Arc::new(Self { index: Mutex::default(), began: Instant::now(), are_followed: false })
    }

    /// Begins to follow those that are served. Whatever is in a namespace that has become another is looked at again.
    pub(crate) fn follow(
        kube: &Client,
        reach: &Reach,
        loops: &Loops,
        triggers: mpsc::UnboundedSender<Trigger>,
    ) -> (Arc<Self>, Running) {
        let namespaces = Arc::new(Self { index: Mutex::default(), began: Instant::now(), are_followed: true });
        let all: Api<PartialObjectMeta<Namespace>> = Api::all(kube.clone());
        let events = told_by(match reach {
            Reach::All => vec![(all, Config::default())],
            Reach::Only(listed) => {
                let named = |name| Config::default().fields(&format!("metadata.name={name}"));
                listed.iter().map(|name| (all.clone(), named(name))).collect()
            }
        });
        let watch = {
            let namespaces = Arc::clone(&namespaces);
            loops.start("namespaces", |pulse| async move {
                let mut events = std::pin::pin!(events);
                while let Some(event) = pulse.wait(events.next()).await {
                    let changed = namespaces.index().learn(event);
                    for namespace in changed {
                        // The receiver lives as long as the operator.
                        let _ = triggers.send(Trigger::Namespace(namespace));
                    }
                }
            })
        };
        (namespaces, watch)
    }

    /// What a namespace says. `None`: it has not been read yet.
    pub(super) fn around(&self, namespace: &str) -> Option<Around> {
        if !self.are_followed {
            return Some(Around::default());
        }
        self.index().all.get(namespace).cloned()
    }

    /// Whether a namespace is being deleted, as far as is known. Nothing can be made in it any more.
    pub(crate) fn is_ending(&self, namespace: &str) -> bool {
        self.around(namespace).is_some_and(|around| around.is_ending())
    }

    /// Whether all that there were at first have been read.
    pub(super) fn are_read(&self) -> bool {
        !self.are_followed || self.index().is_filled
    }

    /// Whether their watch has only just begun.
    pub(super) fn are_new(&self) -> bool {
        self.began.elapsed() < MOMENT
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// Takes in what the watch tells, and returns the namespaces that are new, or others than they were.
    fn learn(&mut self, event: Event<PartialObjectMeta<Namespace>>) -> Vec<String> {
        match event {
            Event::Init => self.coming.clear(),
            Event::InitApply(namespace) => drop(self.coming.insert(namespace.name_any(), Around::of(&namespace))),
            Event::InitDone => {
                self.is_filled = true;
                let before = std::mem::replace(&mut self.all, std::mem::take(&mut self.coming));
                let changed = self.all.iter().filter(|(name, around)| before.get(*name) != Some(around));
                return changed.map(|(name, _)| name.clone()).collect();
            }
            Event::Apply(namespace) => {
                let (name, around) = (namespace.name_any(), Around::of(&namespace));
                if self.all.insert(name.clone(), around.clone()) != Some(around) {
                    return vec![name];
                }
            }
            Event::Delete(namespace) => drop(self.all.remove(&namespace.name_any())),
        }
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str, team: &str) -> PartialObjectMeta<Namespace> {
        let mut namespace = PartialObjectMeta::<Namespace>::default();
        namespace.metadata.name = Some(name.to_owned());
        namespace.labels_mut().insert("team".to_owned(), team.to_owned());
        namespace
    }

    #[test]
    fn what_is_new_or_another_than_it_was_is_told_also_after_a_watch_that_began_anew() {
        let mut index = Index::default();
        let none: [&str; 0] = [];
        assert_eq!(index.learn(Event::Init), none);
        assert_eq!(index.learn(Event::InitApply(namespace("a", "red"))), none);
        assert!(!index.is_filled && !index.all.contains_key("a"));
        assert_eq!(index.learn(Event::InitDone), ["a"]);
        assert_eq!(index.learn(Event::Apply(namespace("b", "red"))), ["b"]);
        assert_eq!(index.learn(Event::Apply(namespace("b", "red"))), none);
        assert_eq!(index.learn(Event::Apply(namespace("a", "blue"))), ["a"]);
        index.learn(Event::Init);
        index.learn(Event::InitApply(namespace("a", "blue")));
        assert!(index.all.contains_key("b"), "what was known stands until the watch has begun anew");
        index.learn(Event::InitApply(namespace("c", "red")));
        assert_eq!(index.learn(Event::InitDone), ["c"]);
        assert_eq!(index.all.keys().collect::<Vec<_>>(), ["a", "c"]);
        index.learn(Event::Delete(namespace("a", "blue")));
        assert!(!index.all.contains_key("a"));
    }
}
