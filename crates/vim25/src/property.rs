//! Property paths that know the type of their value.

use std::marker::PhantomData;

use crate::any::{Any, FromAny};
use crate::reference::ManagedObject;
use crate::types::{DynamicProperty, ObjectContent, ObjectUpdate, PropertySpec};

/// The path of a property of `O`, whose value is a `T`.
///
/// The constants in [`props`](crate::props) are all there are; a path of one's own is made with [`Property::new`].
pub struct Property<O, T> {
    path: &'static str,
    types: PhantomData<fn(O) -> T>,
}

/// A property of `O`, whatever the type of its value.
pub trait PropertyPath<O>: Send + Sync {
    /// The path on the wire, such as `config.hardware.numCPU`.
    fn path(&self) -> &'static str;
}

/// A property's value was of another type.
#[derive(Debug, thiserror::Error)]
#[error("the property {path} of a {object} has a value of the type {found}, which is not what the API declares")]
pub struct PropertyError {
    /// The type of object.
    pub object: &'static str,
    /// The path.
    pub path: &'static str,
    /// The type of the value.
    pub found: String,
}

impl<O: ManagedObject, T: FromAny> Property<O, T> {
    /// A path whose value is known to be a `T`.
    #[must_use]
    pub const fn new(path: &'static str) -> Self {
        Self { path, types: PhantomData }
    }

    /// The path on the wire.
    #[must_use]
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// The type of object that has the property.
    #[must_use]
    pub const fn object(&self) -> &'static str {
        O::TYPE
    }

    /// Takes the typed value out of what a collector sent for this path.
    pub fn value(&self, any: Any) -> Result<T, PropertyError> {
        T::from_any(any).map_err(|any| PropertyError {
            object: O::TYPE,
            path: self.path,
            found: any.type_name().to_owned(),
        })
    }

    /// Takes the value of this property out of a list, or `None` if the list has none, or no longer.
    pub fn take(&self, properties: &mut [DynamicProperty]) -> Result<Option<T>, PropertyError> {
        let found = properties.iter_mut().find(|property| property.name == self.path);
        let value = found.map(|property| std::mem::take(&mut property.val)).filter(|value| *value != Any::Nil);
        value.map(|value| self.value(value)).transpose()
    }
}

impl<O: ManagedObject, T: FromAny> Property<O, Vec<T>>
where
    Vec<T>: FromAny,
{
    /// The element of the list that is at this path: [`keyed!`](crate::keyed) makes it.
    #[doc(hidden)]
    #[must_use]
    pub const fn element(&self, path: &'static str) -> Property<O, T> {
        Property::new(path)
    }
}

/// One element of a list, by its key: the property is the element, or unset where the list has none of that key. Only such an element
/// is then sent and told of, instead of the whole list.
///
/// ```
/// use vim25::{Property, keyed, props::virtual_machine::CONFIG_EXTRA_CONFIG, refs::VirtualMachineRef, types::OptionValue};
///
/// const KEY: &str = "drover.group";
/// const GROUP: Property<VirtualMachineRef, OptionValue> = keyed!(CONFIG_EXTRA_CONFIG, KEY);
/// assert_eq!(GROUP.path(), r#"config.extraConfig["drover.group"]"#);
/// ```
#[macro_export]
macro_rules! keyed {
    ($list:expr, $key:expr) => {{
        const LENGTH: usize = $list.path().len() + $key.len() + 4;
        const BYTES: [u8; LENGTH] = $crate::keyed_path($list.path(), $key);
        const PATH: &str = match ::core::str::from_utf8(&BYTES) {
            Ok(path) => path,
            Err(_) => panic!("two texts are text"),
        };
        $list.element(PATH)
    }};
}

/// `list["key"]`, which has 4 bytes more than list and key.
#[doc(hidden)]
#[must_use]
pub const fn keyed_path<const LENGTH: usize>(list: &str, key: &str) -> [u8; LENGTH] {
    let (list, key) = (list.as_bytes(), key.as_bytes());
    let mut path = [b'"'; LENGTH];
    let mut at = 0;
    while at < list.len() {
        path[at] = list[at];
        at += 1;
    }
    path[at] = b'[';
    let begin = at + 2;
    at = 0;
    while at < key.len() {
        assert!(key[at] != b'"', "a key in a path can't have quotes");
        path[begin + at] = key[at];
        at += 1;
    }
    path[LENGTH - 1] = b']';
    path
}

impl<O, T> PropertyPath<O> for Property<O, T> {
    fn path(&self) -> &'static str {
        self.path
    }
}

impl<O, T> Clone for Property<O, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O, T> Copy for Property<O, T> {}

impl<O, T> std::fmt::Debug for Property<O, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.path)
    }
}

impl PropertySpec {
    /// Asks for some properties of each `O`.
    #[must_use]
    pub fn of<O: ManagedObject>(paths: &[&dyn PropertyPath<O>]) -> Self {
        let path_set = paths.iter().map(|property| property.path().to_owned()).collect();
        Self { type_: O::TYPE.to_owned(), all: Some(false), path_set }
    }
}

impl ObjectContent {
    /// Takes a property's value, or `None` if it was not sent.
    pub fn take<O: ManagedObject, T: FromAny>(&mut self, property: Property<O, T>) -> Result<Option<T>, PropertyError> {
        property.take(&mut self.prop_set)
    }
}

impl ObjectUpdate {
    /// Takes what the update says of a property: `None` if it says nothing, `Some(None)` if the property is now unset.
    pub fn take<O: ManagedObject, T: FromAny>(
        &mut self,
        property: Property<O, T>,
    ) -> Result<Option<Option<T>>, PropertyError> {
        // The last change of a path is the one that holds.
        let found = self.change_set.iter_mut().rev().find(|change| change.name == property.path());
        found.map(|change| change.val.take().map(|any| property.value(any)).transpose()).transpose()
    }
}
