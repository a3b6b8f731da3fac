//! What says that a machine is Drover's: keys in its extraConfig, written when it is cloned. vCenter copies them into every clone and
//! backup of the machine, so they count only on the one whose instance UUID they name.

use drover_core::{
    names::Slot,
    vmgroup::{Revision, identity::Made, inventory::Marker, record::Incarnation},
};
use vim25::{
    Any, Property, Result, keyed,
    props::virtual_machine::CONFIG_EXTRA_CONFIG,
    refs::VirtualMachineRef,
    types::{ObjectUpdate, OptionValue},
};

const GROUP: &str = "drover.group";
const OWNER: &str = "drover.owner";
const SLOT: &str = "drover.slot";
const REVISION: &str = "drover.revision";
const CLUSTER: &str = "drover.cluster";
const INSTANCE: &str = "drover.instance";
const INCARNATION: &str = "drover.incarnation";
const DISKS: &str = "drover.disks";

/// All keys of a marker.
const KEYS: [&str; 8] = [GROUP, OWNER, SLOT, REVISION, CLUSTER, INSTANCE, INCARNATION, DISKS];

/// The same as properties of a machine: what else is in its extraConfig may be much, and is nobody's business.
pub(crate) const PROPERTIES: [Property<VirtualMachineRef, OptionValue>; 8] = [
    keyed!(CONFIG_EXTRA_CONFIG, GROUP),
    keyed!(CONFIG_EXTRA_CONFIG, OWNER),
    keyed!(CONFIG_EXTRA_CONFIG, SLOT),
    keyed!(CONFIG_EXTRA_CONFIG, REVISION),
    keyed!(CONFIG_EXTRA_CONFIG, CLUSTER),
    keyed!(CONFIG_EXTRA_CONFIG, INSTANCE),
    keyed!(CONFIG_EXTRA_CONFIG, INCARNATION),
    keyed!(CONFIG_EXTRA_CONFIG, DISKS),
];

/// The keys of a marker as vCenter has told them, one by one. Most machines have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keys(Option<Box<[Option<String>; KEYS.len()]>>);

impl Keys {
    /// Takes up what vCenter told. What is no longer there is taken for gone only where vCenter would show it.
    pub(crate) fn change(&mut self, update: &mut ObjectUpdate, would_show: bool) -> Result<()> {
        for (place, property) in PROPERTIES.into_iter().enumerate() {
            let Some(told) = update.take(property)? else { continue };
            match (told.and_then(|option| option.value), &mut self.0) {
                (Some(Any::String(value)), keys) => keys.get_or_insert_default()[place] = Some(value),
                (None, Some(keys)) if would_show => keys[place] = None,
                _ => {}
            }
        }
        if self.0.as_ref().is_some_and(|keys| keys.iter().all(Option::is_none)) {
            self.0 = None;
        }
        Ok(())
    }

    /// The marker that they make up. One that is not whole is none: the machine is left alone.
    pub(crate) fn marker(&self) -> Option<Marker> {
        let [group, owner, slot, revision, cluster, instance, incarnation, disks] = &**self.0.as_ref()?;
        let (namespace, name) = owner.as_ref()?.split_once('/')?;
        Some(Marker {
            group: group.clone()?,
            owner: (namespace.to_owned(), name.to_owned()),
            slot: Slot(slot.as_ref()?.parse().ok()?),
            revision: Revision(u64::from_str_radix(revision.as_ref()?, 16).ok()?),
            cluster: cluster.clone()?,
            made: made(instance.clone(), incarnation.as_deref()),
            storage_mib: disks.as_ref().and_then(|disks| disks.parse().ok()),
        })
    }
}

/// The keys to clone a machine with.
pub(crate) fn write(marker: &Marker) -> Vec<OptionValue> {
    let (namespace, name) = &marker.owner;
    let pairs = [
        (GROUP, marker.group.clone()),
        (OWNER, format!("{namespace}/{name}")),
        (SLOT, marker.slot.to_string()),
        (REVISION, format!("{:016x}", marker.revision.0)),
        (CLUSTER, marker.cluster.clone()),
    ];
    let mut keys: Vec<_> = pairs.map(|(key, value)| pair(key, value)).into();
    keys.extend(marker.made.iter().flat_map(named));
    keys.extend(marker.storage_mib.map(|disks| pair(DISKS, disks.to_string())));
    keys
}

/// The keys that name the machine a marker was written for.
pub(crate) fn named(made: &Made) -> [OptionValue; 2] {
    [pair(INSTANCE, made.instance.clone()), pair(INCARNATION, made.incarnation.to_string())]
}

fn made(instance: Option<String>, incarnation: Option<&str>) -> Option<Made> {
    Some(Made { instance: instance?.to_ascii_lowercase(), incarnation: Incarnation(incarnation?.parse().ok()?) })
}

fn pair(key: &str, value: String) -> OptionValue {
    OptionValue { key: key.to_owned(), value: Some(Any::String(value)) }
}

#[cfg(test)]
mod tests {
    use vim25::types::PropertyChange;

    use super::*;

    /// What vCenter tells of keys, by their places. `None`: that it isn't there.
    fn told(keys: &[(usize, Option<&OptionValue>)]) -> ObjectUpdate {
        let change = |(place, option): &(usize, Option<&OptionValue>)| PropertyChange {
            name: PROPERTIES[*place].path().to_owned(),
            val: option.map(|option| Any::object(option.clone())),
            ..PropertyChange::default()
        };
        ObjectUpdate { change_set: keys.iter().map(change).collect(), ..ObjectUpdate::default() }
    }

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

    fn keys() -> Keys {
        let written = write(&marker());
        let all: Vec<_> = written.iter().enumerate().map(|(place, option)| (place, Some(option))).collect();
        let mut keys = Keys::default();
        keys.change(&mut told(&all), true).unwrap();
        keys
    }

    #[test]
    fn what_is_written_is_read_back_and_a_part_of_it_is_no_marker() {
        let written = write(&marker());
        assert_eq!(written.iter().map(|key| key.key.as_str()).collect::<Vec<_>>(), KEYS);
        assert_eq!(keys().marker(), Some(marker()));
        for missing in 0..KEYS.len() {
            let mut part = keys();
            part.change(&mut told(&[(missing, None)]), true).unwrap();
            // What names the machine, and how large it is, is not in the markers of earlier versions.
            let expected = match missing {
                0..5 => None,
                5 | 6 => Some(Marker { made: None, ..marker() }),
                _ => Some(Marker { storage_mib: None, ..marker() }),
            };
            assert_eq!(part.marker(), expected);
        }
        assert_eq!(Keys::default().marker(), None);
    }

    #[test]
    fn what_vcenter_can_not_show_is_not_gone() {
        let mut unset = keys();
        let none: Vec<_> = (0..KEYS.len()).map(|place| (place, None)).collect();
        unset.change(&mut told(&none), false).unwrap();
        assert_eq!(unset.marker(), Some(marker()));
        unset.change(&mut told(&none), true).unwrap();
        assert_eq!(unset, Keys::default());
    }
}
