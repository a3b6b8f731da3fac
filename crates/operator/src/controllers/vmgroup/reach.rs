//! What a group names, as far as its namespace may use it.

use drover_api::{VmGroupSpec, vmgroup::Placement};
use drover_core::tenancy::rules::{Kind, LEFT_OPEN, Refused, Rules};
use vim25::{
    ManagedObject, ManagedObjectReference,
    refs::{ClusterComputeResourceRef, DatacenterRef, FolderRef, NetworkRef},
};

use super::source::{Unusable, folder_name};
use crate::{
    controllers::binding::BoundVCenter,
    vcenter::{
        mirror::Mirror,
        source::{Base, Choice},
    },
};

/// Why a group may not use all that it names.
#[derive(Debug)]
pub(super) struct Refusal {
    pub why: String,
    /// Where its folder is, if it may use that.
    pub base: Option<Base>,
}

/// What a group means whose namespace may use some only. It is looked for in the mirror: so nothing is asked of vCenter for what is refused,
/// and what was moved or renamed is judged by where it is now.
///
/// What the vCenter has as defaults may be used as a whole: each of them is for the datacenter that is the default.
pub(super) fn choose(
    mirror: &Mirror,
    rules: &Rules,
    spec: &VmGroupSpec,
    defaults: &Placement,
) -> Result<Choice, Refusal> {
    let placement = &spec.placement;
    let datacenter = mirror.datacenter_called(placement.datacenter.as_deref());
    let is_home = mirror.datacenter_called(defaults.datacenter.as_deref()) == datacenter;
    let is_lost = placement.datacenter.is_some() && datacenter.is_none();
    let mut look =
        Look { mirror, rules, datacenter, is_lost, refused: Vec::new(), several: Vec::new(), listed: Vec::new() };
    let word = folder_name(placement);
    let has_default_folder = is_home && word == folder_name(defaults);
    let folder: Option<FolderRef> = look.up(Kind::Folder, word, has_default_folder);
    // Where nothing else says which datacenter is the default, it is that of the default folder.
    let is_home = is_home && (look.datacenter.is_some() || has_default_folder);
    let is_default = |word: &str, default: Option<&str>| is_home && Some(word) == default;
    let base = folder.and_then(|folder| {
        let datacenter = look.datacenter.clone().or_else(|| mirror.datacenter_of(folder.reference()))?;
        Some(Base { datacenter, folder })
    });
    // All the rest is looked for where the folder is.
    look.datacenter = base.as_ref().map(|base| base.datacenter.clone()).or(look.datacenter);
    let template = mirror.templates_called(look.datacenter.as_ref(), &spec.template);
    let template = look.only(Kind::Template, &spec.template, template, false);
    let pool = match (&placement.resource_pool, &placement.cluster) {
        (Some(word), _) => look.up(Kind::ResourcePool, word, is_default(word, defaults.resource_pool.as_deref())),
        (None, Some(word)) => {
            // Beside a resource pool, the default cluster is not used as a whole.
            let default = defaults.cluster.as_deref().filter(|_| defaults.resource_pool.is_none());
            let cluster: Option<ClusterComputeResourceRef> = look.up(Kind::Cluster, word, is_default(word, default));
            cluster.and_then(|cluster| {
                let pool = mirror.own_pool(cluster.reference());
                if pool.is_none() {
                    look.refuse(Kind::Cluster, word);
                }
                pool
            })
        }
        (None, None) => {
            let all = look.all("Resources");
            look.only(Kind::ResourcePool, LEFT_OPEN, all, is_home)
        }
    };
    let datastore = placement.datastore.as_deref();
    let datastore =
        datastore.map(|word| look.up(Kind::Datastore, word, is_default(word, defaults.datastore.as_deref())));
    let networks = spec.network_names().map(|word| look.up(Kind::Network, word, false)).collect::<Vec<_>>();
    let networks: Option<Vec<NetworkRef>> = networks.into_iter().collect();
    let chosen = (base.clone(), template, pool, datastore.map_or(Some(None), |found| found.map(Some)));
    match (chosen, networks) {
        ((Some(base), Some(template), Some(pool), Some(datastore)), Some(networks)) => {
            Ok(Choice { base, template, pool, datastore, networks, listed: look.listed })
        }
        _ => Err(Refusal { why: look.why(placement.datacenter.as_deref()), base }),
    }
}

/// What a group means, where others are refused.
pub(super) fn enforced(bound: &BoundVCenter, spec: &VmGroupSpec) -> Result<Option<Choice>, Unusable> {
    let rules = bound.rules.as_deref().filter(|rules| rules.is_enforced());
    let choice = rules.map(|rules| choose(&bound.live.mirror(), rules, spec, &bound.defaults));
    choice.transpose().map_err(|refusal| Unusable::NotAllowed(refusal.why))
}

/// A look at all that one group names.
struct Look<'a> {
    mirror: &'a Mirror,
    rules: &'a Rules,
    datacenter: Option<DatacenterRef>,
    /// Whether the group names a datacenter that isn't there: then nothing is.
    is_lost: bool,
    refused: Vec<(Kind, &'a str)>,
    several: Vec<String>,
    listed: Vec<(Kind, ManagedObjectReference)>,
}

impl<'a> Look<'a> {
    fn up<T: ManagedObject>(&mut self, kind: Kind, word: &'a str, is_default: bool) -> Option<T> {
        let all = self.all(word);
        self.only(kind, word, all, is_default)
    }

    fn all<T: ManagedObject>(&self, word: &str) -> Vec<(T, String)> {
        self.mirror.objects_called(self.datacenter.as_ref(), word)
    }

    /// The one that a group may use of all that its word may mean.
    fn only<T: ManagedObject>(
        &mut self,
        kind: Kind,
        word: &'a str,
        mut found: Vec<(T, String)>,
        is_default: bool,
    ) -> Option<T> {
        if self.is_lost {
            found.clear();
        }
        if is_default && found.len() == 1 {
            return found.pop().map(|(object, _)| object);
        }
        match self.rules.only(kind, found) {
            Ok(object) => {
                self.listed.push((kind, object.reference().clone()));
                return Some(object);
            }
            Err(Refused::Nothing) => self.refuse(kind, word),
            Err(Refused::Several(paths)) => {
                let word = if word == LEFT_OPEN { "*" } else { word };
                let (field, noun, count, paths) = (kind.field(), kind.noun(), paths.len(), paths.join(", "));
                self.several.push(format!("{field}: {count} {noun}s fit {word:?}: name one by its path: {paths}"));
            }
        }
        None
    }

    fn refuse(&mut self, kind: Kind, word: &'a str) {
        if !self.refused.contains(&(kind, word)) {
            self.refused.push((kind, word));
        }
    }

    /// What is said of it, with what would have to be allowed at the end.
    fn why(self, datacenter: Option<&str>) -> String {
        let mut all = self.several;
        if !self.refused.is_empty() {
            all.push(self.rules.sentence(datacenter, &self.refused));
        }
        all.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use drover_api::vcenter::Enforce;
    use drover_core::{Timestamp, tenancy::pattern::Pattern};
    use serde_json::{Value, json};

    use super::*;
    use crate::vcenter::{inventory_names::Place, machine::Machine, mirror::Folder};

    fn reference(path: &str) -> ManagedObjectReference {
        let kind = match path.split('/').collect::<Vec<_>>()[..] {
            ["", _] => "Datacenter",
            ["", _, "vm" | "host" | "datastore"] | ["", _, "vm", _] => "Folder",
            ["", _, "vm", ..] => "VirtualMachine",
            ["", _, "host", _] => "ClusterComputeResource",
            ["", _, "host", ..] => "ResourcePool",
            _ => "Datastore",
        };
        ManagedObjectReference::new(kind, path)
    }

    /// Two datacenters, of which one has the folder that is the usual one. Each object's id is its path.
    fn mirror() -> Mirror {
        let mut mirror = Mirror::default();
        for path in [
            "/DC0",
            "/DC0/vm",
            "/DC0/vm/vm-operator",
            "/DC0/vm/golden",
            "/DC0/vm/golden/web",
            "/DC0/host",
            "/DC0/host/C0",
            "/DC0/host/C0/Resources",
            "/DC0/host/C0/Resources/small",
            "/DC0/datastore",
            "/DC0/datastore/fast",
            "/DC1",
            "/DC1/vm",
            "/DC1/vm/one",
            "/DC1/vm/one/web",
            "/DC1/host",
            "/DC1/host/C1",
            "/DC1/host/C1/Resources",
        ] {
            let (object, (above, name)) = (reference(path), path.rsplit_once('/').unwrap());
            let (name, parent) = (name.to_owned(), (!above.is_empty()).then(|| reference(above)));
            match object.type_name() {
                "Folder" => mirror.folders.insert(object, Folder { name, parent }),
                "VirtualMachine" => {
                    let machine = Machine { name, parent, ..Machine::new(Timestamp::UNIX_EPOCH) };
                    mirror.machines.insert(object, machine);
                }
                _ => drop(mirror.places.insert(object, Place { name, parent, ..Place::default() })),
            }
        }
        mirror
    }

    /// What a group may use that is placed so, where these are the defaults: its folder, resource pool and datastore, or what it is refused.
    fn chosen(placement: &Value, defaults: &Value) -> Result<String, String> {
        let defaults: Placement = serde_json::from_value(defaults.clone()).unwrap();
        let spec = json!({"cpu": 1, "memory": 1, "replicas": 1, "template": "web", "placement": placement});
        let spec: VmGroupSpec = serde_json::from_value(spec).unwrap();
        let spec = super::super::source::with_defaults(&spec, &defaults);
        let lists = [(Kind::Template, "/*/vm/*/web"), (Kind::Folder, "/DC1/vm/one"), (Kind::ResourcePool, "/DC1/**")];
        let lists = lists.map(|(kind, pattern)| (kind, Pattern::parse(pattern).unwrap()));
        // Only who names a resource pool of the other datacenter may use it by the list.
        let lists = if placement["resourcePool"].is_null() { lists[..2].into() } else { lists[..].into() };
        let rules = Rules::new("lab", "team-a", Enforce::Enforce, vec![lists]);
        match choose(&mirror(), &rules, &spec, &defaults) {
            Err(refusal) => Err(refusal.why.split(". ").next().unwrap_or_default().to_owned()),
            Ok(choice) => {
                let datastore = choice.datastore.map(|it| format!(" {}", it.reference().value())).unwrap_or_default();
                Ok(format!("{} {}{datastore}", choice.base.folder.reference().value(), choice.pool.reference().value()))
            }
        }
    }

    fn refused(field: &str, noun: &str, word: &str, within: &str) -> String {
        format!(r#"spec.placement.{field}: namespace "team-a" may use no {noun} "{word}"{within} in VCenter "lab""#)
    }

    #[test]
    fn what_is_left_open_or_written_as_the_defaults_have_it_may_be_used() {
        let home = json!({"datacenter": "DC0"});
        let usual = "/DC0/vm/vm-operator /DC0/host/C0/Resources".to_owned();
        assert_eq!(chosen(&json!({}), &home), Ok(usual.clone()));
        assert_eq!(chosen(&json!({"datacenter": "DC0", "folder": "vm-operator"}), &home), Ok(usual.clone()));
        assert_eq!(chosen(&json!({}), &json!({})), Ok(usual), "the default folder says where all the rest is");
        let small = json!({"datacenter": "DC0", "cluster": "C0", "resourcePool": "small", "datastore": "fast"});
        let placed = "/DC0/vm/vm-operator /DC0/host/C0/Resources/small /DC0/datastore/fast".to_owned();
        assert_eq!(chosen(&json!({}), &small), Ok(placed.clone()));
        assert_eq!(chosen(&json!({"resourcePool": "small", "datastore": "fast"}), &small), Ok(placed));
    }

    #[test]
    fn what_goes_beyond_the_defaults_needs_an_entry() {
        let small = json!({"datacenter": "DC0", "cluster": "C0", "resourcePool": "small"});
        let whole = chosen(&json!({"cluster": "C0"}), &small);
        let within = r#" of datacenter "DC0""#;
        assert_eq!(whole, Err(refused("cluster", "cluster", "C0", within)), "only a part of it is the default");
        let other = chosen(&json!({"datastore": "fast"}), &json!({"datacenter": "DC0"}));
        assert_eq!(other, Err(refused("datastore", "datastore", "fast", within)));
        // An entry for a folder brings no resource pool with it, where nothing says that its datacenter is the default.
        let elsewhere = chosen(&json!({"folder": "one"}), &json!({}));
        let said = "spec.placement.resourcePool: it is left open, and namespace \"team-a\" may use no resource pool by default in VCenter \
                    \"lab\": name one that the namespace may use";
        assert_eq!(elsewhere, Err(said.to_owned()));
        let both = chosen(&json!({"folder": "one", "resourcePool": "/DC1/host/C1/Resources"}), &json!({}));
        assert_eq!(both, Ok("/DC1/vm/one /DC1/host/C1/Resources".to_owned()));
    }

    #[test]
    fn a_datacenter_that_is_not_there_reads_as_one_with_nothing_to_use() {
        let home = json!({"datacenter": "DC0"});
        let said = |datacenter: &str| chosen(&json!({"datacenter": datacenter, "folder": "x"}), &home).unwrap_err();
        assert!(
            said("DC1").starts_with(&refused("folder", "folder", "x", r#" of datacenter "DC1""#)),
            "{}",
            said("DC1")
        );
        let there = chosen(&json!({"datacenter": "DC0", "folder": "x"}), &json!({"datacenter": "DC1"})).unwrap_err();
        assert!(there.contains("may use no folder") && there.contains("may use no resource pool"), "{there}");
        let nowhere = said("nowhere");
        assert!(["folder", "template", "resource pool"].iter().all(|noun| nowhere.contains(&format!("no {noun} "))));
    }
}
