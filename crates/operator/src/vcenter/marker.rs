//! What says that a machine is Drover's: keys in its extraConfig, written when it is cloned. vCenter copies them into every clone and
//! backup of the machine, so they count only on the one whose instance UUID they name.

use drover_core::vmgroup::{
    identity::Made,
    inventory::Marker,
    marker::{CLUSTER, DISKS, GROUP, INCARNATION, INSTANCE, OWNER, REVISION, SLOT, Values},
};
use vim25::{
    Any, Property, Result, keyed,
    props::virtual_machine::CONFIG_EXTRA_CONFIG,
    refs::VirtualMachineRef,
    types::{ObjectUpdate, OptionValue},
};

/// The keys of a marker as properties of a machine, in the order of their values. What else is in its extraConfig may be much, and is
/// nobody's business.
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
pub(crate) struct Keys(Option<Box<Values>>);

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
        Marker::read(self.0.as_ref()?)
    }
}

/// The keys to clone a machine with.
pub(crate) fn write(marker: &Marker) -> Vec<OptionValue> {
    marker.write().into_iter().map(pair).collect()
}

/// The keys that name the machine a marker was written for.
pub(crate) fn named(made: &Made) -> [OptionValue; 2] {
    made.write().map(pair)
}

fn pair((key, value): (&str, String)) -> OptionValue {
    OptionValue { key: key.to_owned(), value: Some(Any::String(value)) }
}

#[cfg(test)]
mod tests {
    use drover_core::{
        names::Slot,
        vmgroup::{Revision, marker::KEYS, record::Incarnation},
    };
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
    fn what_is_written_is_read_back_key_by_key() {
        let written = write(&marker());
        assert_eq!(written.iter().map(|key| key.key.as_str()).collect::<Vec<_>>(), KEYS);
        assert_eq!(keys().marker(), Some(marker()));
        let mut part = keys();
        part.change(&mut told(&[(0, None)]), true).unwrap();
        assert_eq!(part.marker(), None);
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
