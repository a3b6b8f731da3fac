//! HTTP to what stands on this machine.

use std::sync::LazyLock;

use ureq::{
    Agent, Body, Error,
    http::{Request, Response},
};

/// Sends a request. Connections stay open: tests look often. An answer is one, whatever its status says.
pub(crate) fn send(request: Request<String>) -> Result<Response<Body>, Error> {
    static AGENT: LazyLock<Agent> = LazyLock::new(|| {
        Agent::config_builder().http_status_as_error(false).allow_non_standard_methods(true).build().into()
    });
    AGENT.run(request)
}
