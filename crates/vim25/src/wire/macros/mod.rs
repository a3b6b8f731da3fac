//! What the generated files say in one line for each type.

mod enumeration;
mod method;
mod object;
mod polymorphic;
mod reference;

pub(crate) use enumeration::enumeration;
pub(crate) use method::method;
pub(crate) use object::data_object;
pub(crate) use polymorphic::polymorphic;
pub(crate) use reference::reference;

/// How a list of the type stands in an `xsd:anyType`.
macro_rules! array_item {
    ($name:ty, $array:literal, $item:literal) => {
        impl $crate::any::ArrayItem for $name {
            const ARRAY: &'static str = $array;
            const ITEM: &'static str = $item;
        }
    };
}
pub(crate) use array_item;
