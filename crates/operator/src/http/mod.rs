//! What the operator serves: metrics, health and the admission webhook.

pub(crate) mod admission;
pub(crate) mod flags;
pub(crate) mod serve;
