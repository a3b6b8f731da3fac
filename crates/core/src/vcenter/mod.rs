//! What is decided of vCenters: which of them serves whom, which replica works in which, how much is done in one at once, and when everything in it has to stop.

pub mod assignment;
pub mod backoff;
pub mod binding;
pub mod brake;
pub mod budget;
pub mod status;
