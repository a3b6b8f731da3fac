//! What a namespace may use of a vCenter, where that is restricted.

use std::sync::Arc;

use drover_api::vcenter::Enforce;
use serde_json::{Map, Value, json};

use super::pattern::Pattern;

/// The name of the resource pool that a cluster has by itself.
const OWN_POOL: &str = "Resources";

/// The word of a group that names no resource pool: it means the only one that a cluster has by itself.
pub const LEFT_OPEN: &str = "";

/// Something that a group names in vCenter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// What VMs are cloned from.
    Template,
    /// What groups' folders are created in.
    Folder,
    /// What VMs are placed in, by its own resource pool.
    Cluster,
    /// What VMs are placed in.
    ResourcePool,
    /// Where disks are.
    Datastore,
    /// What network cards are on.
    Network,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Template, Self::Folder, Self::Cluster, Self::ResourcePool, Self::Datastore, Self::Network];

    /// The field of a group that names it.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Template => "spec.template",
            Self::Folder => "spec.placement.folder",
            Self::Cluster => "spec.placement.cluster",
            Self::ResourcePool => "spec.placement.resourcePool",
            Self::Datastore => "spec.placement.datastore",
            Self::Network => "spec.networks",
        }
    }

    /// What people call it.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::Folder => "folder",
            Self::Cluster => "cluster",
            Self::ResourcePool => "resource pool",
            Self::Datastore => "datastore",
            Self::Network => "network",
        }
    }

    /// The list of a VCenter's `spec.allow` that allows it.
    #[must_use]
    pub fn list(self) -> &'static str {
        match self {
            Self::Template => "templates",
            Self::Folder => "folders",
            Self::Cluster => "clusters",
            Self::ResourcePool => "resourcePools",
            Self::Datastore => "datastores",
            Self::Network => "networks",
        }
    }
}

/// What a namespace may use of a vCenter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    vcenter: String,
    namespace: String,
    enforce: Enforce,
    allowed: Vec<Allowed>,
    /// Whether hosts are published in the namespace.
    has_hosts: bool,
}

/// A VM that somebody wants to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The namespace whose group it is a VM of, if it is one's.
    pub owner: Option<&'a str>,
    /// Its path.
    pub path: &'a str,
    /// The path of the folder that it is in.
    pub folder: Option<&'a str>,
}

/// What an entry of `spec.allow` allows. Many rules share it.
pub type Allowed = Arc<[(Kind, Pattern)]>;

/// Why a word means nothing that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is nothing of that name that the namespace may use. Whether there is one that it may not use, is not for it to know.
    Nothing,
    /// There are several that it may use, at these paths.
    Several(Vec<String>),
}

impl Rules {
    /// The rules of a namespace that may use what fits these patterns.
    #[must_use]
    pub fn new(vcenter: &str, namespace: &str, enforce: Enforce, allowed: Vec<Allowed>) -> Self {
        Self { vcenter: vcenter.to_owned(), namespace: namespace.to_owned(), enforce, allowed, has_hosts: false }
    }

    /// The same for a namespace that hosts are published in: who has chosen it has all of them shown there.
    #[must_use]
    pub fn with_hosts(self, has_hosts: bool) -> Self {
        Self { has_hosts, ..self }
    }

    /// Whether all hosts are shown to the namespace.
    #[must_use]
    pub fn shows_all_hosts(&self) -> bool {
        self.has_hosts
    }

    /// Whether a VM is shown to the namespace. A VM of a group is shown to the group's own namespace alone, wherever it is.
    #[must_use]
    pub fn shows(&self, vm: Shown<'_>) -> bool {
        match vm.owner {
            Some(owner) => owner == self.namespace,
            None => {
                self.allows(Kind::Template, vm.path)
                    || vm.folder.is_some_and(|folder| self.allows(Kind::Folder, folder))
            }
        }
    }

    /// Whether what isn't allowed is refused, and not only told of.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.enforce == Enforce::Enforce
    }

    /// Whether the namespace may use what is at a path. Who may use a cluster may use the cluster's own resource pool.
    #[must_use]
    pub fn allows(&self, kind: Kind, path: &str) -> bool {
        let is_listed = |kind: Kind, path: &str| {
            self.allowed.iter().flat_map(|entry| entry.iter()).any(|(of, pattern)| *of == kind && pattern.matches(path))
        };
        let owner = path.strip_suffix(OWN_POOL).and_then(|above| above.strip_suffix('/'));
        let owner = owner.filter(|above| above.split('/').all(|level| level != OWN_POOL));
        is_listed(kind, path)
            || kind == Kind::ResourcePool && owner.is_some_and(|cluster| is_listed(Kind::Cluster, cluster))
    }

    /// Of all that a word may mean, with their paths, the one that the namespace may use. What it may not use is as if it were not there.
    pub fn only<T>(&self, kind: Kind, mut found: Vec<(T, String)>) -> Result<T, Refused> {
        found.retain(|(_, path)| self.allows(kind, path));
        match found.pop() {
            None => Err(Refused::Nothing),
            Some((one, _)) if found.is_empty() => Ok(one),
            Some((_, path)) => {
                let mut paths: Vec<_> = found.into_iter().map(|(_, path)| path).chain([path]).collect();
                paths.sort();
                Err(Refused::Several(paths))
            }
        }
    }

    /// What is said of words that mean nothing which the namespace may use, with the entry of `spec.allow` that would allow them. It is in the
    /// words of the group alone, and so tells nothing of what there is.
    #[must_use]
    pub fn sentence(&self, datacenter: Option<&str>, refused: &[(Kind, &str)]) -> String {
        let Self { vcenter, namespace, .. } = self;
        let within = datacenter.map(|name| format!(" of datacenter {name:?}")).unwrap_or_default();
        let one = |(kind, word): &(Kind, &str)| {
            let (field, noun) = (kind.field(), kind.noun());
            if *word == LEFT_OPEN {
                return format!(
                    "{field}: it is left open, and namespace {namespace:?} may use no {noun} by default{within} in VCenter {vcenter:?}: \
                     name one that the namespace may use"
                );
            }
            format!("{field}: namespace {namespace:?} may use no {noun} {word:?}{within} in VCenter {vcenter:?}")
        };
        let said = refused.iter().map(one).collect::<Vec<_>>().join("; ");
        let labels = json!({"kubernetes.io/metadata.name": namespace});
        let mut entry = Map::from_iter([("namespaces".to_owned(), json!({"matchLabels": labels}))]);
        for (kind, word) in refused {
            let Some(path) = path_to_allow(word) else {
                return format!("{said}. Name it by its path, so that an administrator of the VCenter can allow it");
            };
            let list = entry.entry(kind.list()).or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.push(path.into());
            }
        }
        format!("{said}. To allow it, add to spec.allow of the VCenter: {}", Value::Object(entry))
    }
}

/// The pattern that allows what a word names, and nothing that the word doesn't say. None for an object's id, and for a word with stars:
/// who pastes it would allow more than was asked for.
fn path_to_allow(word: &str) -> Option<String> {
    if word.contains('*') || word.starts_with("moref:") {
        return None;
    }
    let word = if word == LEFT_OPEN { OWN_POOL } else { word };
    let pattern = match word.strip_suffix('/').unwrap_or(word) {
        path if path.starts_with('/') => path.to_owned(),
        path if path.contains('/') => format!("/*/{path}"),
        name => format!("/**/{}", name.replace('%', "%25").replace('\\', "%5c")),
    };
    Pattern::parse(&pattern).is_ok().then_some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(patterns: &[&str]) -> Rules {
        let allowed = patterns.iter().map(|pattern| (Kind::Template, Pattern::parse(pattern).unwrap()));
        Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.collect()])
    }

    fn found(paths: &[&'static str]) -> Vec<(&'static str, String)> {
        paths.iter().map(|path| (*path, (*path).to_owned())).collect()
    }

    #[test]
    fn a_name_means_the_only_one_that_may_be_used() {
        let rules = rules(&["/DC0/vm/team-a/**", "/DC0/vm/shared/web"]);
        let only = |paths: &[&'static str]| rules.only(Kind::Template, found(paths));
        assert_eq!(only(&["/DC0/vm/team-a/web", "/DC0/vm/team-b/web"]), Ok("/DC0/vm/team-a/web"));
        assert_eq!(only(&["/DC0/vm/team-b/web"]), Err(Refused::Nothing));
        assert_eq!(only(&[]), Err(Refused::Nothing), "as if it were not there");
        let several = vec!["/DC0/vm/shared/web".to_owned(), "/DC0/vm/team-a/web".to_owned()];
        let paths = ["/DC0/vm/team-a/web", "/DC0/vm/team-b/web", "/DC0/vm/shared/web"];
        assert_eq!(only(&paths), Err(Refused::Several(several)), "those of others are not listed");
    }

    #[test]
    fn a_list_allows_what_is_of_its_kind() {
        for listed in Kind::ALL {
            let allowed = [(listed, Pattern::parse("/DC0/**").unwrap())];
            let rules = Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.into()]);
            for kind in Kind::ALL {
                assert_eq!(rules.allows(kind, "/DC0/x/y"), kind == listed, "{kind:?} by {}", listed.list());
            }
        }
    }

    #[test]
    fn who_may_use_a_cluster_may_use_its_own_resource_pool_and_none_below() {
        let allowed = [(Kind::Cluster, Pattern::parse("/DC0/host/**").unwrap())];
        let rules = Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.into()]);
        for (path, is_so) in [
            ("/DC0/host/C0/Resources", true),
            ("/DC0/host/Resources of all/C0/Resources", true),
            ("/DC0/host/C0/myResources", false),
            ("/DC0/host/C0/Resources/small", false),
            ("/DC0/host/C0/Resources/small/Resources", false),
            ("/DC1/host/C0/Resources", false),
        ] {
            assert_eq!(rules.allows(Kind::ResourcePool, path), is_so, "{path}");
        }
    }

    #[test]
    fn all_that_is_refused_is_in_one_sentence_and_one_line_allows_it() {
        let words = ["web", "team", "C0", "small", "/DC0/datastore/fast", "lan"];
        let refused: Vec<_> = Kind::ALL.into_iter().zip(words).collect();
        let said = rules(&[]).sentence(Some("DC0"), &refused);
        for (kind, word) in refused {
            let (field, noun) = (kind.field(), kind.noun());
            let part = format!(
                r#"{field}: namespace "team-a" may use no {noun} {word:?} of datacenter "DC0" in VCenter "lab""#
            );
            assert!(said.contains(&part), "{said}");
        }
        let (_, line) = said.split_once("To allow it, add to spec.allow of the VCenter: ").unwrap();
        let line: drover_api::vcenter::Allowance = serde_json::from_str(line).unwrap();
        let expected = drover_api::vcenter::Allowance {
            namespaces: line.namespaces.clone(),
            templates: vec!["/**/web".to_owned()],
            folders: vec!["/**/team".to_owned()],
            clusters: vec!["/**/C0".to_owned()],
            resource_pools: vec!["/**/small".to_owned()],
            datastores: vec!["/DC0/datastore/fast".to_owned()],
            networks: vec!["/**/lan".to_owned()],
            extra_config: Vec::new(),
            quota: None,
        };
        assert_eq!(line, expected);
    }

    #[test]
    fn a_vm_is_shown_to_whom_it_is_or_who_may_use_it_or_what_it_is_in() {
        let patterns = [(Kind::Template, "/DC0/vm/golden/*"), (Kind::Folder, "/DC0/vm/team-a/**")];
        let allowed = patterns.map(|(kind, pattern)| (kind, Pattern::parse(pattern).unwrap()));
        let rules = Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.into()]);
        for (owner, folder, is_so) in [
            (None, "/DC0/vm/golden", true),
            (None, "/DC0/vm/team-a", true),
            (None, "/DC0/vm/team-a/deeper", true),
            (None, "/DC0/vm/team-b", false),
            (None, "/DC0/vm", false),
            (Some("team-a"), "/DC0/vm/anywhere", true),
            (Some("team-b"), "/DC0/vm/team-a", false),
            (Some("team-b"), "/DC0/vm/golden", false),
        ] {
            let path = format!("{folder}/web");
            let vm = Shown { owner, path: &path, folder: Some(folder) };
            assert_eq!(rules.shows(vm), is_so, "{vm:?}");
            assert_eq!(
                rules.shows(Shown { folder: None, ..vm }),
                is_so && !(owner.is_none() && folder.contains("team"))
            );
        }
    }

    #[test]
    fn who_is_allowed_nothing_may_use_nothing() {
        assert!(!rules(&[]).allows(Kind::Template, "/DC0/vm/web"));
        assert!(rules(&["/**"]).allows(Kind::Template, "/DC0/vm/web"));
    }

    #[test]
    fn the_line_to_add_is_in_the_users_own_words() {
        let said = |word| rules(&[]).sentence(None, &[(Kind::Template, word)]);
        let begin = r#"spec.template: namespace "team-a" may use no template "web" in VCenter "lab". "#;
        let line = r#"{"namespaces":{"matchLabels":{"kubernetes.io/metadata.name":"team-a"}},"templates":["/**/web"]}"#;
        assert_eq!(said("web"), format!("{begin}To allow it, add to spec.allow of the VCenter: {line}"));
        for (word, allowed) in [
            ("/DC0/vm/web", "/DC0/vm/web"),
            ("/DC0/vm/web/", "/DC0/vm/web"),
            ("vm/web", "/*/vm/web"),
            ("50%", "/**/50%25"),
            ("a\"b", "/**/a\\\"b"),
        ] {
            assert!(said(word).ends_with(&format!(r#""templates":["{allowed}"]}}"#)), "{}", said(word));
        }
        for word in ["*", "/**", "moref:vm-7", "/DC0//web", "/"] {
            let said = said(word);
            assert!(!said.contains("spec.allow") && said.contains("Name it by its path"), "{said}");
        }
    }

    #[test]
    fn who_leaves_the_resource_pool_open_is_told_to_name_one_or_has_a_line_that_allows_it() {
        let rules = |patterns: &[String]| {
            let allowed = patterns.iter().map(|pattern| (Kind::ResourcePool, Pattern::parse(pattern).unwrap()));
            Rules::new("lab", "team-a", Enforce::Enforce, vec![allowed.collect()])
        };
        let said = rules(&[]).sentence(Some("DC1"), &[(Kind::ResourcePool, LEFT_OPEN)]);
        let (what, line) = said.split_once(". To allow it, add to spec.allow of the VCenter: ").unwrap();
        assert_eq!(
            what,
            "spec.placement.resourcePool: it is left open, and namespace \"team-a\" may use no resource pool by default of datacenter \
             \"DC1\" in VCenter \"lab\": name one that the namespace may use"
        );
        let line: drover_api::vcenter::Allowance = serde_json::from_str(line).unwrap();
        let rules = rules(&line.resource_pools);
        assert!(rules.allows(Kind::ResourcePool, "/DC1/host/C1/Resources"));
        assert!(!rules.allows(Kind::ResourcePool, "/DC1/host/C1/Resources/small"));
    }

    #[test]
    fn what_the_line_allows_is_what_the_word_means() {
        for (word, path) in [("web", "/DC0/vm/web"), ("/DC0/vm/web", "/DC0/vm/web"), ("vm/web", "/DC0/vm/web")] {
            let pattern = path_to_allow(word).unwrap();
            assert!(rules(&[&pattern]).allows(Kind::Template, path), "{word}: {pattern}");
        }
    }
}
