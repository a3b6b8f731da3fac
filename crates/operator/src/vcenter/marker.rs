//! The proof that a machine is Drover's: keys in its extraConfig, written when it is cloned and never changed.

use drover_core::{group::Revision, names::Slot};
use vim25::{Any, types::OptionValue};

/// What a machine's marker says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The UID of the group.
    pub group: String,
    /// Where the group is: its namespace and name.
    pub owner: (String, String),
    /// The machine's place in it.
    pub slot: Slot,
    /// What the machine was made from.
    pub revision: Revision,
    /// The Kubernetes cluster that the group is in.
    pub cluster: String,
}

const GROUP: &str = "drover.group";
const OWNER: &str = "drover.owner";
const SLOT: &str = "drover.slot";
const REVISION: &str = "drover.revision";
const CLUSTER: &str = "drover.cluster";

impl Marker {
    /// The keys to clone a machine with.
    pub(crate) fn write(&self) -> Vec<OptionValue> {
        let (namespace, name) = &self.owner;
        let pairs = [
            (GROUP, self.group.clone()),
            (OWNER, format!("{namespace}/{name}")),
            (SLOT, self.slot.to_string()),
            (REVISION, format!("{:016x}", self.revision.0)),
            (CLUSTER, self.cluster.clone()),
        ];
        pairs.map(|(key, value)| OptionValue { key: key.to_owned(), value: Some(Any::String(value)) }).into()
    }

    /// Reads the marker of a machine. One that is not whole is none: the machine is left alone.
    pub(crate) fn read(keys: &[OptionValue]) -> Option<Self> {
        let get = |wanted: &str| {
            let found = keys.iter().find(|option| option.key == wanted)?;
            match &found.value {
                Some(Any::String(text)) => Some(text.clone()),
                _ => None,
            }
        };
        let owner = get(OWNER)?;
        let (namespace, name) = owner.split_once('/')?;
        Some(Self {
            group: get(GROUP)?,
            owner: (namespace.to_owned(), name.to_owned()),
            slot: Slot(get(SLOT)?.parse().ok()?),
            revision: Revision(u64::from_str_radix(&get(REVISION)?, 16).ok()?),
            cluster: get(CLUSTER)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_a_part_of_it_is_no_marker() {
        let marker = Marker {
            group: "uid".to_owned(),
            owner: ("ns".to_owned(), "web".to_owned()),
            slot: Slot(7),
            revision: Revision(0xfeed),
            cluster: "cluster".to_owned(),
        };
        let keys = marker.write();
        assert_eq!(Marker::read(&keys), Some(marker));
        for missing in 0..keys.len() {
            let mut part = keys.clone();
            part.remove(missing);
            assert_eq!(Marker::read(&part), None);
        }
    }
}
