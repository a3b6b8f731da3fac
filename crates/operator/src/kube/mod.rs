//! What every controller shares of Kubernetes: watches, events, finalizers, statuses, leases, and which namespaces and kinds are served.

pub(crate) mod events;
pub(crate) mod finalizer;
pub(crate) mod guard;
pub(crate) mod leadership;
mod merged;
pub(crate) mod refusal;
pub(crate) mod scope;
pub(crate) mod shared_watch;
pub(crate) mod status;
