//! Where the machines of a group are, and how they are made.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds;

/// Placement of VMs in a vCenter. Each value is a name or an inventory path. Default of each: spec.defaults of the VCenter, then
/// the only one in the vCenter.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Placement {
    /// Name or inventory path of the datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub datacenter: Option<String>,
    /// Name or inventory path of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub cluster: Option<String>,
    /// Name or inventory path of the resource pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub resource_pool: Option<String>,
    /// Name or inventory path of the datastore.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub datastore: Option<String>,
    /// Name or inventory path of the folder that the VmGroup's own folder is created in. Default: `vm-operator`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(min = 1, max = 1024))]
    pub folder: Option<String>,
    /// Names or inventory paths of the hosts that the VMs are spread over: at most 64. Default: DRS chooses the host; without
    /// DRS, the VMs are spread over all hosts of the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::HOSTS), inner(length(min = 1, max = 1024)))]
    pub hosts: Vec<String>,
}

impl Placement {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// This placement, with what it leaves open as another says. A cluster is no default beside a resource pool, nor the other
    /// way round: they say the same thing.
    #[must_use]
    pub fn or(&self, defaults: &Self) -> Self {
        let is_pooled = self.cluster.is_some() || self.resource_pool.is_some();
        let either = |own: &Option<String>, default: &Option<String>| own.clone().or_else(|| default.clone());
        Self {
            datacenter: either(&self.datacenter, &defaults.datacenter),
            cluster: if is_pooled { self.cluster.clone() } else { defaults.cluster.clone() },
            resource_pool: if is_pooled { self.resource_pool.clone() } else { defaults.resource_pool.clone() },
            datastore: either(&self.datastore, &defaults.datastore),
            folder: either(&self.folder, &defaults.folder),
            hosts: if self.hosts.is_empty() { defaults.hosts.clone() } else { self.hosts.clone() },
        }
    }
}

/// Cloning of the VMs.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CloneOptions {
    /// Mode of cloning. `Full` (default): the VM has copies of the template's disks, and does not need the template afterwards.
    /// `Linked`: the VM's disks hold only what differs from the template's snapshot; the template has to have a snapshot, and has
    /// to stay.
    pub mode: CloneMode,
}

/// Mode of cloning.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub enum CloneMode {
    /// A copy, which needs the template no more.
    #[default]
    Full,
    /// A disk that holds only what differs from the template's snapshot. The template has to have one.
    Linked,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(words: &str) -> Placement {
        let pairs = words.split_whitespace().filter_map(|pair| pair.split_once('='));
        let pairs = pairs.map(|(name, value)| (name.to_owned(), value.into()));
        serde_json::from_value(serde_json::Value::Object(pairs.collect())).unwrap()
    }

    #[test]
    fn what_a_group_leaves_open_is_as_its_vcenter_says() {
        let defaults = placement("datacenter=DC0 cluster=C0 datastore=fast folder=teams");
        for (own, expected) in [
            ("", "datacenter=DC0 cluster=C0 datastore=fast folder=teams"),
            ("folder=mine", "datacenter=DC0 cluster=C0 datastore=fast folder=mine"),
            ("resourcePool=small", "datacenter=DC0 resourcePool=small datastore=fast folder=teams"),
        ] {
            assert_eq!(placement(own).or(&defaults), placement(expected), "{own}");
        }
        let hosts =
            |hosts: &[&str]| Placement { hosts: hosts.iter().map(ToString::to_string).collect(), ..placement("") };
        assert_eq!(hosts(&[]).or(&hosts(&["a"])), hosts(&["a"]));
        assert_eq!(hosts(&["b"]).or(&hosts(&["a"])), hosts(&["b"]));
    }
}
