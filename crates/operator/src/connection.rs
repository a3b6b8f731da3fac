//! What it takes to talk to a vCenter: from the environment, as the seed operators take it, or from a VCenter and its Secret.

use std::env;

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_api::{VCenterSpec, vcenter::Tls};
use k8s_openapi::api::core::v1::Secret;
use vim25::{
    Client, Credentials, Endpoint, Settings, Trust,
    client::{BadEndpoint, BadThumbprint, BadTrust, Observer},
};

/// Where a vCenter is, who logs in, and which certificate is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    pub endpoint: Endpoint,
    pub credentials: Credentials,
    pub trust: Trust,
}

/// What is wrong with the environment, and what to set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadEnvironment {
    #[error("{0} is not set: with VC_HOST, VC_USER and VC_PASS are needed too (or their GOVMOMI_ names)")]
    Missing(&'static str),
    #[error("VC_HOST: {0}")]
    Host(#[from] BadEndpoint),
    #[error("VC_CA_FILE: {0}")]
    Trust(#[from] BadTrust),
}

/// Why a VCenter can't be connected to as it is declared, as a sentence that names the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDeclaration {
    #[error("spec.server: {0}")]
    Server(#[from] BadEndpoint),
    #[error("spec.tls.thumbprint: {0}")]
    Thumbprint(#[from] BadThumbprint),
    #[error("spec.tls.caBundle: {0}")]
    Bundle(#[from] BadTrust),
    #[error("spec.tls.caBundle: it is neither PEM text nor base64 of that")]
    NotPem,
    #[error("spec.credentialsSecretRef: the Secret {0} isn't there")]
    NoSecret(String),
    #[error("spec.credentialsSecretRef: the Secret {0} can't be read: {1}")]
    Unreadable(String, String),
    #[error("spec.credentialsSecretRef: the Secret {0} has no {1}")]
    NoKey(String, &'static str),
}

impl Connection {
    /// A client that has not said anything yet.
    pub(crate) fn client(&self, observer: Option<Observer>) -> Result<Client, BadTrust> {
        let user_agent = concat!("drover/", env!("CARGO_PKG_VERSION")).to_owned();
        let settings = Settings { trust: self.trust.clone(), user_agent, observer, ..Settings::default() };
        Client::new(self.endpoint.clone(), self.credentials.clone(), settings)
    }

    /// Whether two differ in nothing but who logs in.
    pub(crate) fn leads_where(&self, other: &Self) -> bool {
        self.endpoint == other.endpoint && self.trust == other.trust
    }

    /// The vCenter that the environment names, if it names one.
    pub(crate) fn of_environment(insecure: bool) -> Result<Option<Self>, BadEnvironment> {
        let Some(host) = either("VC_HOST", "GOVMOMI_URL") else { return Ok(None) };
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
        Ok(Some(Self { endpoint, credentials, trust }))
    }

    /// What a VCenter declares. `secret` is the one that it names.
    pub(crate) fn declared(spec: &VCenterSpec, secret: Option<&Secret>) -> Result<Self, BadDeclaration> {
        let endpoint = spec.server.parse()?;
        let trust = trust(&spec.tls)?;
        let reference = format!("{}/{}", spec.credentials_secret_ref.namespace, spec.credentials_secret_ref.name);
        let Some(secret) = secret else { return Err(BadDeclaration::NoSecret(reference)) };
        let get = |names: [&'static str; 3]| {
            let value = names.iter().find_map(|name| secret.data.as_ref()?.get(*name));
            let value = value.and_then(|bytes| String::from_utf8(bytes.0.clone()).ok());
            // Files that secrets are made from often end with a new line.
            value.map(|value| value.trim_end_matches(['\r', '\n']).to_owned()).filter(|value| !value.is_empty())
        };
        let user = get(["VC_USER", "username", "GOVMOMI_USERNAME"]).ok_or(BadDeclaration::NoKey(
            reference.clone(),
            "user: put it under VC_USER, username or GOVMOMI_USERNAME",
        ))?;
        let password = get(["VC_PASS", "password", "GOVMOMI_PASSWORD"])
            .ok_or(BadDeclaration::NoKey(reference, "password: put it under VC_PASS, password or GOVMOMI_PASSWORD"))?;
        Ok(Self { endpoint, credentials: Credentials::password(user, password), trust })
    }
}

fn trust(tls: &Tls) -> Result<Trust, BadDeclaration> {
    if tls.insecure {
        return Ok(Trust::Insecure);
    }
    if let Some(thumbprint) = &tls.thumbprint {
        return Ok(Trust::Thumbprint(thumbprint.parse()?));
    }
    let Some(bundle) = &tls.ca_bundle else { return Ok(Trust::System) };
    if bundle.contains("-----BEGIN") {
        return Ok(Trust::Authorities(bundle.clone().into_bytes()));
    }
    let plain: String = bundle.split_whitespace().collect();
    BASE64_STANDARD.decode(plain).map(Trust::Authorities).map_err(|_| BadDeclaration::NotPem)
}

fn either(first: &str, second: &str) -> Option<String> {
    let get = |name| env::var(name).ok().filter(|value| !value.is_empty());
    get(first).or_else(|| get(second))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use serde_json::json;

    use super::*;

    fn spec(more: &serde_json::Value) -> VCenterSpec {
        let mut spec = json!({"server": "vc.example.com", "credentialsSecretRef": {"namespace": "ops", "name": "lab"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    fn secret(pairs: &[(&str, &str)]) -> Secret {
        let data = pairs.iter().map(|(name, value)| ((*name).to_owned(), ByteString(value.as_bytes().to_vec())));
        Secret { data: Some(data.collect()), ..Secret::default() }
    }

    #[test]
    fn the_secret_may_use_any_of_the_names_that_people_know() {
        for (user, password) in
            [("VC_USER", "VC_PASS"), ("username", "password"), ("GOVMOMI_USERNAME", "GOVMOMI_PASSWORD")]
        {
            let secret = secret(&[(user, "me"), (password, "hush\n")]);
            let connection = Connection::declared(&spec(&json!({})), Some(&secret)).unwrap();
            assert_eq!(connection.credentials, Credentials::password("me", "hush"));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_field_and_without_the_password() {
        let good = secret(&[("username", "me"), ("password", "hush")]);
        for (more, secret, message) in [
            (json!({"server": "ftp://x"}), Some(&good), "spec.server: "),
            (json!({"tls": {"thumbprint": "zz"}}), Some(&good), "spec.tls.thumbprint: "),
            (json!({"tls": {"caBundle": "%%"}}), Some(&good), "spec.tls.caBundle: "),
            (json!({}), None, "spec.credentialsSecretRef: the Secret ops/lab isn't there"),
            (json!({}), Some(&secret(&[("password", "hush")])), "the Secret ops/lab has no user"),
            (json!({}), Some(&secret(&[("username", "me")])), "the Secret ops/lab has no password"),
        ] {
            let error = Connection::declared(&spec(&more), secret).unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn authorities_are_taken_as_text_and_in_base64() {
        let good = secret(&[("username", "me"), ("password", "hush")]);
        let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        for bundle in [pem.to_owned(), BASE64_STANDARD.encode(pem)] {
            let spec = spec(&json!({"tls": {"caBundle": bundle}}));
            let connection = Connection::declared(&spec, Some(&good)).unwrap();
            assert_eq!(connection.trust, Trust::Authorities(pem.as_bytes().to_vec()));
        }
    }
}
