//! The crate's examples do what they say.
