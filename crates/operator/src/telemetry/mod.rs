//! What people see of the operator's work: logs, metrics and traces.

pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod traces;
