//! Each method that the crate has, called for real, with govc as the witness of what it did.
