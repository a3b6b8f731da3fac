//! Which vCenters there are, and what they are to whom.

use std::collections::BTreeMap;

use drover_api::{VCenterSpec, vcenter::NAMESPACE_ANNOTATION, vmgroup::Placement};
use drover_core::home::{Candidate, Names, NoVCenter, Serves, Standing};
use kube::{
    ResourceExt,
    core::{Selector, SelectorExt},
};

use super::DEFAULT;
use crate::guard::Unreadable;

/// The vCenters that there are, by name.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    listed: BTreeMap<String, Listed>,
    /// Those that can't be read, and why.
    unreadable: BTreeMap<String, String>,
    environment: bool,
}

#[derive(Debug, PartialEq)]
struct Listed {
    selector: Option<Selector>,
    is_default: bool,
    defaults: Placement,
}

/// What came of a declaration.
pub(crate) struct Declared {
    /// Whether it serves others, or otherwise, than it did.
    pub is_news: bool,
    /// Why it makes no sense, if it makes none. Then it serves nobody.
    pub problem: Option<String>,
}

/// What a namespace says that matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    labels: BTreeMap<String, String>,
    annotation: Option<String>,
    is_ending: bool,
}

impl Around {
    pub(crate) fn of(namespace: &impl ResourceExt) -> Self {
        let annotation = namespace.annotations().get(NAMESPACE_ANNOTATION).cloned();
        let is_ending = namespace.meta().deletion_timestamp.is_some();
        Self { labels: namespace.labels().clone(), annotation, is_ending }
    }

    /// Whether the namespace is being deleted.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    pub(crate) fn names<'a>(&'a self, spec: Option<&'a str>) -> Names<'a> {
        Names { spec, annotation: self.annotation.as_deref() }
    }
}

impl Roster {
    /// Takes up what a VCenter declares.
    pub(crate) fn declare(&mut self, name: &str, spec: &VCenterSpec) -> Declared {
        let selector = spec.namespaces.clone().map(Selector::try_from).transpose();
        let listed = Listed {
            // What can't be read selects nothing.
            selector: selector.as_ref().map_or_else(|_| Some(nobody()), Clone::clone),
            is_default: spec.default,
            defaults: spec.defaults.clone(),
        };
        let is_news = self.unreadable.remove(name).is_some() | (self.listed.get(name) != Some(&listed));
        self.listed.insert(name.to_owned(), listed);
        Declared { is_news, problem: selector.err().map(|error| format!("spec.namespaces: {error}")) }
    }

    pub(crate) fn dismiss(&mut self, name: &str) {
        self.listed.remove(name);
        self.unreadable.remove(name);
    }

    /// Takes up that a VCenter can't be read. One that could be stays as it was.
    pub(crate) fn note_unreadable(&mut self, unreadable: &Unreadable) {
        let name = unreadable.metadata.name.clone().unwrap_or_default();
        if !self.listed.contains_key(&name) {
            self.unreadable.insert(name, unreadable.why.clone());
        }
    }

    /// Forgets those that can't be read and aren't there any more, and says whether there were any.
    pub(crate) fn retain_unreadable(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let before = self.unreadable.len();
        self.unreadable.retain(|name, _| is_there(name));
        self.unreadable.len() < before
    }

    /// Whether all can be read. Where one can't, nobody knows whom it serves, and whether it is the default.
    pub(crate) fn is_readable(&self) -> Result<(), NoVCenter> {
        let Some((name, why)) = self.unreadable.first_key_value() else { return Ok(()) };
        Err(NoVCenter::Unusable { name: name.clone(), why: format!("it can't be read: {why}") })
    }

    pub(crate) fn set_environment(&mut self) {
        self.environment = true;
    }

    /// Whether the environment gives one. A VCenter of its name takes its place.
    pub(crate) fn has_environment(&self) -> bool {
        self.environment && !self.listed.contains_key(DEFAULT)
    }

    pub(crate) fn defaults(&self, name: &str) -> Placement {
        self.listed.get(name).map(|listed| listed.defaults.clone()).unwrap_or_default()
    }

    /// What each is to a namespace.
    pub(crate) fn candidates(&self, around: &Around) -> Vec<Candidate<'_>> {
        let listed = self.listed.iter().map(|(name, listed)| Candidate {
            name,
            serves: match &listed.selector {
                None => Serves::Everybody,
                Some(selector) if selector.matches(&around.labels) => Serves::ThisNamespace,
                Some(_) => Serves::Others,
            },
            standing: if listed.is_default { Standing::Default } else { Standing::Plain },
        });
        let environment = Candidate { name: DEFAULT, serves: Serves::Everybody, standing: Standing::Environment };
        listed.chain(self.has_environment().then_some(environment)).collect()
    }
}

/// A selector that no labels match.
fn nobody() -> Selector {
    use kube::core::Expression::{DoesNotExist, Exists};
    [Exists(String::new()), DoesNotExist(String::new())].into_iter().collect()
}
