//! What the examples share: a client for the vCenter that the environment names, arguments, and errors in one line.

use std::{env, fmt};

use vim25::{Client, Credentials, Settings, Trust};

/// Any error. A `main` that ends with it prints it as a sentence.
pub(crate) struct Failure(String);

impl<E: fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The vCenter of `VC_HOST`, `VC_USER` and `VC_PASS`, verified by `VC_CA_FILE` or by what the machine trusts.
pub(crate) fn client() -> Result<Client, Failure> {
    let variable = |name: &str| env::var(name).map_err(|_| format!("{name} is not set"));
    let endpoint = variable("VC_HOST")?.parse()?;
    let credentials = Credentials::password(variable("VC_USER")?, variable("VC_PASS")?);
    let trust = env::var_os("VC_CA_FILE").map_or(Ok(Trust::System), Trust::in_file)?;
    Ok(Client::new(endpoint, credentials, Settings { trust, ..Settings::default() })?)
}

/// The arguments, of which there have to be as many as are named.
#[allow(dead_code, reason = "not every example has arguments")]
pub(crate) fn arguments<const N: usize>(names: [&str; N]) -> Result<[String; N], Failure> {
    let given: Vec<_> = env::args().skip(1).collect();
    Ok(given.try_into().map_err(|_| format!("the arguments are {}", names.join(" and ")))?)
}
