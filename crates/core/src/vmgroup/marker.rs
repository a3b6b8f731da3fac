//! What says that a machine is Drover's: keys in its extraConfig, written when it is cloned, as text. vCenter copies them into every clone
//! and backup of the machine, and anybody who may change a VM may write them.

use crate::{
    names::Slot,
    vmgroup::{Revision, identity::Made, inventory::Marker, record::Incarnation},
};

/// The UID of the group.
pub const GROUP: &str = "drover.group";
/// The group's namespace and name.
pub const OWNER: &str = "drover.owner";
/// The machine's place in the group.
pub const SLOT: &str = "drover.slot";
/// What the machine was made from.
pub const REVISION: &str = "drover.revision";
/// The Kubernetes cluster that the group is in.
pub const CLUSTER: &str = "drover.cluster";
/// The instance UUID of the machine that the marker was written for.
pub const INSTANCE: &str = "drover.instance";
/// The incarnation of its slot that it is.
pub const INCARNATION: &str = "drover.incarnation";
/// Capacity of its disks, in MiB, when it was made.
pub const DISKS: &str = "drover.disks";

/// All keys of a marker.
pub const KEYS: [&str; 8] = [GROUP, OWNER, SLOT, REVISION, CLUSTER, INSTANCE, INCARNATION, DISKS];

/// The values of all keys, in the order of [`KEYS`], as far as they are there.
pub type Values = [Option<String>; KEYS.len()];

impl Marker {
    /// The marker that values make up. One that is not whole is none: the machine is left alone.
    #[must_use]
    pub fn read(values: &Values) -> Option<Self> {
        let [group, owner, slot, revision, cluster, instance, incarnation, disks] = values;
        let (namespace, name) = owner.as_ref()?.split_once('/')?;
        Some(Self {
            group: group.clone()?,
            owner: (namespace.to_owned(), name.to_owned()),
            slot: Slot(slot.as_ref()?.parse().ok()?),
            revision: Revision(u64::from_str_radix(revision.as_ref()?, 16).ok()?),
            cluster: cluster.clone()?,
            made: made(instance.as_deref(), incarnation.as_deref()),
            storage_mib: disks.as_ref().and_then(|disks| disks.parse().ok()),
        })
    }

    /// The keys to clone a machine with, and their values.
    #[must_use]
    pub fn write(&self) -> Vec<(&'static str, String)> {
        let (namespace, name) = &self.owner;
        let mut pairs = vec![
            (GROUP, self.group.clone()),
            (OWNER, format!("{namespace}/{name}")),
            (SLOT, self.slot.to_string()),
            (REVISION, format!("{:016x}", self.revision.0)),
            (CLUSTER, self.cluster.clone()),
        ];
        pairs.extend(self.made.iter().flat_map(Made::write));
        pairs.extend(self.storage_mib.map(|disks| (DISKS, disks.to_string())));
        pairs
    }
}

impl Made {
    /// The keys that name the machine a marker was written for, and their values.
    #[must_use]
    pub fn write(&self) -> [(&'static str, String); 2] {
        [(INSTANCE, self.instance.clone()), (INCARNATION, self.incarnation.to_string())]
    }
}

fn made(instance: Option<&str>, incarnation: Option<&str>) -> Option<Made> {
    Some(Made { instance: instance?.to_ascii_lowercase(), incarnation: Incarnation(incarnation?.parse().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> Marker {
        Marker {
            group: "uid".to_owned(),
            owner: ("ns".to_owned(), "web".to_owned()),
            slot: Slot(7),
            revision: Revision(0xfeed),
            cluster: "cluster".to_owned(),
            made: Some(Made { instance: "uuid".to_owned(), incarnation: Incarnation(3) }),
            storage_mib: Some(40960),
        }
    }

    fn values(marker: &Marker) -> Values {
        let written = marker.write();
        KEYS.map(|key| written.iter().find(|(other, _)| *other == key).map(|(_, value)| value.clone()))
    }

    #[test]
    fn what_is_written_is_read_back_and_a_part_of_it_is_no_marker() {
        assert_eq!(Marker::read(&values(&marker())), Some(marker()));
        for missing in 0..KEYS.len() {
            let mut part = values(&marker());
            part[missing] = None;
            // What names the machine, and how large it is, is not in the markers of earlier versions.
            let expected = match missing {
                0..5 => None,
                5 | 6 => Some(Marker { made: None, ..marker() }),
                _ => Some(Marker { storage_mib: None, ..marker() }),
            };
            assert_eq!(Marker::read(&part), expected);
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_marker() {
        for (place, value) in [(1, "web"), (2, "-1"), (2, "4294967296"), (2, ""), (3, "g"), (3, "10000000000000000")] {
            let mut odd = values(&marker());
            odd[place] = Some(value.to_owned());
            assert_eq!(Marker::read(&odd), None, "{} {value:?}", KEYS[place]);
        }
    }
}
