//! What is decided of HostInfos and VMInfos: what is published, what is said of it, and when that is written.

pub mod figures;
pub mod publication;
pub mod status;
