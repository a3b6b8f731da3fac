//! What is decided of vCenters: which of them serves whom, how much is done in one at once, and when everything in it has to stop.

pub mod backoff;
pub mod binding;
pub mod brake;
pub mod budget;
pub mod status;
