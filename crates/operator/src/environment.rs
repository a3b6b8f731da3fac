//! The vCenter that the environment names, as the seed operators take it.

use std::env;

use vim25::{Client, Credentials, Endpoint, Settings, Trust, client::Observer};

/// What is wrong with the environment, and what to set.
#[derive(Debug, thiserror::Error)]
pub enum BadEnvironment {
    #[error(
        "no vCenter is named: set VC_HOST, VC_USER and VC_PASS (or GOVMOMI_URL, GOVMOMI_USERNAME and GOVMOMI_PASSWORD)"
    )]
    NoHost,
    #[error("{0} is not set: with VC_HOST, VC_USER and VC_PASS are needed too (or their GOVMOMI_ names)")]
    Missing(&'static str),
    #[error("VC_HOST: {0}")]
    Host(#[from] vim25::client::BadEndpoint),
    #[error("VC_CA_FILE: {0}")]
    Trust(#[from] vim25::client::BadTrust),
}

/// A client for the vCenter of the environment. It has not said anything yet.
pub fn vcenter(insecure: bool, observer: Option<Observer>) -> Result<Client, BadEnvironment> {
    let host = either("VC_HOST", "GOVMOMI_URL").ok_or(BadEnvironment::NoHost)?;
    let endpoint: Endpoint = host.parse()?;
    let user = either("VC_USER", "GOVMOMI_USERNAME");
    let password = either("VC_PASS", "GOVMOMI_PASSWORD");
    let credentials = match (user, password, endpoint.credentials()) {
        (Some(user), Some(password), _) => Credentials::password(user, password),
        (None, None, Some(credentials)) => credentials,
        (None, ..) => return Err(BadEnvironment::Missing("VC_USER")),
        (_, None, _) => return Err(BadEnvironment::Missing("VC_PASS")),
    };
    let trust = match either("VC_CA_FILE", "GOVMOMI_TLS_CA_CERTS") {
        _ if insecure => Trust::Insecure,
        Some(path) => Trust::in_file(path)?,
        None => Trust::System,
    };
    let user_agent = concat!("drover/", env!("CARGO_PKG_VERSION")).to_owned();
    Ok(Client::new(endpoint, credentials, Settings { trust, user_agent, observer, ..Settings::default() })?)
}

fn either(first: &str, second: &str) -> Option<String> {
    let get = |name| env::var(name).ok().filter(|value| !value.is_empty());
    get(first).or_else(|| get(second))
}
