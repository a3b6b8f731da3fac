//! What an update says of a property that people read, value by value: an odd one must not keep the others from being read.

use std::collections::BTreeSet;

use tracing::warn;
use vim25::{FromAny, ManagedObject, Property, types::ObjectUpdate};

/// What an update says of a property.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PropertyUpdate<T> {
    /// Nothing, or nothing that can be read.
    Nothing,
    /// That it has no value.
    Unset,
    /// Its value.
    Is(T),
}

/// What it means that vCenter has unset a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unset {
    /// There is none.
    None,
    /// It can't be seen, and what was seen last stays.
    Unknown,
}

impl Unset {
    /// Of an object whose connection is in this state. While vCenter doesn't reach it, what is unset says nothing of it.
    pub(super) fn of(connection: Option<&str>) -> Self {
        if connection.is_none_or(|state| state == "connected") { Self::None } else { Self::Unknown }
    }
}

impl<T> PropertyUpdate<T> {
    /// The part of the value that matters.
    pub(super) fn and_then<U>(self, part: impl FnOnce(T) -> Option<U>) -> PropertyUpdate<U> {
        match self {
            Self::Nothing => PropertyUpdate::Nothing,
            Self::Unset => PropertyUpdate::Unset,
            Self::Is(value) => part(value).map_or(PropertyUpdate::Unset, PropertyUpdate::Is),
        }
    }

    /// Takes it up, read as it is to be known.
    pub(super) fn renew<U>(self, known: &mut Option<U>, unset: Unset, read: impl FnOnce(T) -> U) {
        match (self, unset) {
            (Self::Is(value), _) => *known = Some(read(value)),
            (Self::Unset, Unset::None) => *known = None,
            _ => {}
        }
    }

    /// What is known from now on, where no value is as good as an empty one. `None`: what was known before.
    pub(super) fn or_default(self) -> Option<T>
    where
        T: Default,
    {
        match self {
            Self::Nothing => None,
            Self::Unset => Some(T::default()),
            Self::Is(value) => Some(value),
        }
    }
}

impl<T> PropertyUpdate<Vec<T>> {
    /// Takes up all of it, each read as it is to be known.
    pub(super) fn renew_all<U, I: IntoIterator<Item = U>>(
        self,
        known: &mut Vec<U>,
        unset: Unset,
        read: impl Fn(T) -> I,
    ) {
        match (self, unset) {
            (Self::Is(values), _) => {
                *known = values.into_iter().flat_map(read).collect();
                // There are lists of one for each of many thousand objects.
                known.shrink_to_fit();
            }
            (Self::Unset, Unset::None) => known.clear(),
            _ => {}
        }
    }
}

/// The properties of an object whose values were not what the API declares. That is said once of each. Hardly any object has such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::box_collection,
    reason = "there is one for each of many thousand objects, and an empty set takes three words"
)]
pub(crate) struct Unreadable(Option<Box<BTreeSet<&'static str>>>);

impl Unreadable {
    pub(super) fn take<O: ManagedObject, T: FromAny>(
        &mut self,
        update: &mut ObjectUpdate,
        property: Property<O, T>,
    ) -> PropertyUpdate<T> {
        match update.take(property) {
            Ok(None) => PropertyUpdate::Nothing,
            Ok(Some(None)) => PropertyUpdate::Unset,
            Ok(Some(Some(value))) => PropertyUpdate::Is(value),
            Err(error) => {
                if self.0.get_or_insert_default().insert(property.path()) {
                    warn!(object = %update.obj, %error, "Value from vCenter not understood");
                }
                PropertyUpdate::Nothing
            }
        }
    }
}
