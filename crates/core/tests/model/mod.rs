//! A vCenter in virtual time, and an operator that keeps a group on it: the code that runs in production decides, looks and keeps what is in
//! flight, and only the wire is a model. The histories play one group on it at a time, and the simulation thousands side by side.

pub(crate) mod chance;
pub(crate) mod machine;
pub(crate) mod mirror;
pub(crate) mod operator;
pub(crate) mod stored;
pub(crate) mod wire;
pub(crate) mod world;
