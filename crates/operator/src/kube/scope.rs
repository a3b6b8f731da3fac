//! What an operator looks after: which kinds, and in which namespaces.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource};

/// A controller, by the kind that it looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Controller {
    VmGroup,
    VCenter,
    HostInfo,
    VMInfo,
    MyOwnShell,
}

impl Controller {
    const ALL: [Self; 5] = [Self::VmGroup, Self::VCenter, Self::HostInfo, Self::VMInfo, Self::MyOwnShell];

    fn name(self) -> &'static str {
        match self {
            Self::VmGroup => "vmgroup",
            Self::VCenter => "vcenter",
            Self::HostInfo => "hostinfo",
            Self::VMInfo => "vminfo",
            Self::MyOwnShell => "myownshell",
        }
    }
}

/// The controllers that run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controllers(BTreeSet<Controller>);

/// Why a list of controllers makes no sense.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadControllers {
    #[error("there is no controller {0:?}: give some of vmgroup, vcenter, hostinfo, vminfo and myownshell, or *")]
    Unknown(String),
    #[error("no controller is left to run")]
    None,
}

impl Default for Controllers {
    fn default() -> Self {
        Self(Controller::ALL.into())
    }
}

impl FromStr for Controllers {
    type Err = BadControllers;

    /// Reads a list as kube-controller-manager does: `*` is all, and `-name` takes one away, wherever it stands.
    fn from_str(text: &str) -> Result<Self, BadControllers> {
        let (mut run, mut off) = (BTreeSet::new(), BTreeSet::new());
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word == "*" {
                run.extend(Controller::ALL);
                continue;
            }
            let (name, set) = word.strip_prefix('-').map_or((word, &mut run), |name| (name, &mut off));
            let found = Controller::ALL.into_iter().find(|one| name.eq_ignore_ascii_case(one.name()));
            set.insert(found.ok_or_else(|| BadControllers::Unknown(name.to_owned()))?);
        }
        run.retain(|one| !off.contains(one));
        if run.is_empty() { Err(BadControllers::None) } else { Ok(Self(run)) }
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|one| one.name()).collect::<Vec<_>>().join(","))
    }
}

/// The namespaces whose objects are read and served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    #[default]
    All,
    Only(Arc<[String]>),
}

impl Reach {
    /// Those that are listed. None listed: all.
    pub(crate) fn of(listed: &[String]) -> Self {
        let listed: BTreeSet<_> = listed.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
        if listed.is_empty() { Self::All } else { Self::Only(listed.into_iter().map(ToOwned::to_owned).collect()) }
    }

    /// Whether objects of a namespace are served.
    pub(crate) fn covers(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(listed) => listed.iter().any(|name| name == namespace),
        }
    }

    /// Where all objects of a kind are read that are served.
    pub(crate) fn apis<K>(&self, kube: &Client) -> Vec<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Self::All => vec![Api::all(kube.clone())],
            Self::Only(listed) => listed.iter().map(|name| Api::namespaced(kube.clone(), name)).collect(),
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(listed) => f.write_str(&listed.join(",")),
        }
    }
}

/// What an operator looks after.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    pub controllers: Controllers,
    pub reach: Reach,
    /// The operator's own namespace: its Leases are there, and the Secrets of VCenters that name no other.
    pub namespace: String,
}

impl Scope {
    pub(crate) fn runs(&self, controller: Controller) -> bool {
        self.controllers.0.contains(&controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_are_listed_as_kube_controller_manager_lists_them() {
        for (text, run) in [
            ("*", "vmgroup,vcenter,hostinfo,vminfo,myownshell"),
            ("vmgroup, VMInfo", "vmgroup,vminfo"),
            ("*,-myownshell", "vmgroup,vcenter,hostinfo,vminfo"),
            ("-vcenter,*", "vmgroup,hostinfo,vminfo,myownshell"),
        ] {
            assert_eq!(text.parse::<Controllers>().unwrap().to_string(), run, "{text}");
        }
        assert_eq!("vmgroups".parse::<Controllers>(), Err(BadControllers::Unknown("vmgroups".to_owned())));
        for nothing in ["", "-vmgroup", "vcenter,-vcenter"] {
            assert_eq!(nothing.parse::<Controllers>(), Err(BadControllers::None), "{nothing}");
        }
    }

    #[test]
    fn no_namespace_listed_is_all_of_them() {
        let only = Reach::of(&["b".to_owned(), " a ".to_owned(), "b".to_owned()]);
        assert_eq!(only, Reach::Only(["a".to_owned(), "b".to_owned()].into()));
        assert!(only.covers("a") && !only.covers("c"));
        assert!(Reach::of(&[]).covers("c") && Reach::of(&[String::new()]) == Reach::All);
    }
}
