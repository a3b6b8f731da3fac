//! Where to serve, as flags say it.

use super::serve::{Address, BadAddress};

/// Whether, and where, to serve what is known of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Serve {
    Nowhere,
    At(Address),
}

/// An address, or Go's word for none.
pub(crate) fn where_to_serve(text: &str) -> Result<Serve, BadAddress> {
    match text {
        "0" => Ok(Serve::Nowhere),
        address => address.parse().map(Serve::At),
    }
}

/// What Go takes for a bool.
pub(crate) fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("it is neither true nor false"),
    }
}
