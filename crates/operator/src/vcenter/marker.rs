//! What says that a machine is Drover's: keys in its extraConfig, written when it is cloned. vCenter copies them into every clone and
//! backup of the machine, so they count only on the one whose instance UUID they name.

use drover_core::{
    group::Revision,
    identity::{Claim, Made},
    names::Slot,
    record::Incarnation,
};
use vim25::{
    Any, Property, Result, keyed,
    props::virtual_machine::CONFIG_EXTRA_CONFIG,
    refs::VirtualMachineRef,
    types::{ObjectUpdate, OptionValue},
};

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
    /// The machine that it was written for. Markers of earlier versions don't say.
    pub made: Option<Made>,
}

const GROUP: &str = "drover.group";
const OWNER: &str = "drover.owner";
const SLOT: &str = "drover.slot";
const REVISION: &str = "drover.revision";
const CLUSTER: &str = "drover.cluster";
const INSTANCE: &str = "drover.instance";
const INCARNATION: &str = "drover.incarnation";

/// All keys of a marker.
const KEYS: [&str; 7] = [GROUP, OWNER, SLOT, REVISION, CLUSTER, INSTANCE, INCARNATION];

/// The same as properties of a machine: what else is in its extraConfig may be much, and is nobody's business.
pub(crate) const PROPERTIES: [Property<VirtualMachineRef, OptionValue>; 7] = [
    keyed!(CONFIG_EXTRA_CONFIG, GROUP),
    keyed!(CONFIG_EXTRA_CONFIG, OWNER),
    keyed!(CONFIG_EXTRA_CONFIG, SLOT),
    keyed!(CONFIG_EXTRA_CONFIG, REVISION),
    keyed!(CONFIG_EXTRA_CONFIG, CLUSTER),
    keyed!(CONFIG_EXTRA_CONFIG, INSTANCE),
    keyed!(CONFIG_EXTRA_CONFIG, INCARNATION),
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
        let [group, owner, slot, revision, cluster, instance, incarnation] = &**self.0.as_ref()?;
        let (namespace, name) = owner.as_ref()?.split_once('/')?;
        Some(Marker {
            group: group.clone()?,
            owner: (namespace.to_owned(), name.to_owned()),
            slot: Slot(slot.as_ref()?.parse().ok()?),
            revision: Revision(u64::from_str_radix(revision.as_ref()?, 16).ok()?),
            cluster: cluster.clone()?,
            made: made(instance.clone(), incarnation.as_deref()),
        })
    }
}

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
        let mut keys: Vec<_> = pairs.map(|(key, value)| pair(key, value)).into();
        keys.extend(self.made.iter().flat_map(named));
        keys
    }

    /// What it claims of its machine's place in its group.
    pub(crate) fn claim(&self) -> Claim {
        Claim { slot: self.slot, made: self.made.clone() }
    }
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
        }
    }

    fn keys() -> Keys {
        let written = marker().write();
        let all: Vec<_> = written.iter().enumerate().map(|(place, option)| (place, Some(option))).collect();
        let mut keys = Keys::default();
        keys.change(&mut told(&all), true).unwrap();
        keys
    }

    #[test]
    fn what_is_written_is_read_back_and_a_part_of_it_is_no_marker() {
        let written = marker().write();
        assert_eq!(written.iter().map(|key| key.key.as_str()).collect::<Vec<_>>(), KEYS);
        assert_eq!(keys().marker(), Some(marker()));
        for missing in 0..KEYS.len() {
            let mut part = keys();
            part.change(&mut told(&[(missing, None)]), true).unwrap();
            // What names the machine is not in the markers of earlier versions.
            let expected = (missing >= 5).then(|| Marker { made: None, ..marker() });
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
