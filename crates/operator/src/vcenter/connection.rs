//! What it takes to talk to a vCenter: from the environment, as the seed operators take it, or from a VCenter and its Secret.

use std::env;

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_api::{
    VCenterSpec,
    vcenter::{SERVER_ANNOTATION, Tls},
};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
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
    #[error("{0} is set, but {1} is not: set it too")]
    Missing(&'static str, &'static str),
    #[error("{0}: {1}")]
    Host(&'static str, BadEndpoint),
    #[error("{0}: {1}")]
    Trust(&'static str, BadTrust),
    #[error("GOVC_INSECURE is {0:?}: give true or false")]
    Insecure(String),
    #[error("{0}: http:// sends the password in clear text: write https://, or use --insecure")]
    ClearText(&'static str),
}

/// The variables that name a vCenter, as one family of tools knows them.
struct Variables {
    host: &'static str,
    user: &'static str,
    password: &'static str,
    authorities: &'static str,
}

const SEED: Variables = Variables { host: "VC_HOST", user: "VC_USER", password: "VC_PASS", authorities: "VC_CA_FILE" };
const GOVMOMI: Variables = Variables {
    host: "GOVMOMI_URL",
    user: "GOVMOMI_USERNAME",
    password: "GOVMOMI_PASSWORD",
    authorities: "GOVMOMI_TLS_CA_CERTS",
};
const GOVC: Variables =
    Variables { host: "GOVC_URL", user: "GOVC_USERNAME", password: "GOVC_PASSWORD", authorities: "GOVC_TLS_CA_CERTS" };

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
    #[error("spec.server: http:// sends the password in clear text: write https://, or set spec.tls.insecure")]
    ClearText,
    #[error(
        "spec.server: give it with spec.credentialsSecretRef: only the VCenter \"default\" can take both from the operator's environment"
    )]
    Incomplete,
    #[error(
        "spec.server: the operator's environment names no vCenter: set VC_HOST, VC_USER and VC_PASS there, or give spec.server and \
         spec.credentialsSecretRef"
    )]
    NoEnvironment,
    #[error(
        "spec.tls: the environment's vCenter is verified as the environment says: by VC_CA_FILE, or not with --insecure"
    )]
    TrustOfEnvironment,
    #[error(
        "spec.credentialsSecretRef: the Secret {namespace}/{name} does not say which server it is for: kubectl -n {namespace} annotate \
         secret {name} {SERVER_ANNOTATION}={server}"
    )]
    NoServer { namespace: String, name: String, server: String },
    #[error(
        "spec.credentialsSecretRef: the Secret {0} is for another server than {1}, by its annotation {SERVER_ANNOTATION}: correct \
         spec.server, or the annotation"
    )]
    OtherServer(String, String),
    #[error(
        "spec.tls.insecure: the Secret {0} has the annotation {SERVER_ANNOTATION}, and is sent over verified TLS only: remove \
         spec.tls.insecure"
    )]
    Unverified(String),
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
        Self::of_variables(insecure, |name| env::var(name).ok())
    }

    /// What variables name. The first two families may be mixed, as the seed operators have them; a shell that is set up for govc has
    /// nothing to say of a vCenter that they name.
    fn of_variables(
        insecure: bool,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Option<Self>, BadEnvironment> {
        let get = |name| variable(name).filter(|value| !value.is_empty());
        let is_named = |family: &&Variables| get(family.host).is_some();
        let Some(family) = [&SEED, &GOVMOMI, &GOVC].into_iter().find(is_named) else { return Ok(None) };
        let is_govc = family.host == GOVC.host;
        let families = if is_govc { vec![&GOVC] } else { vec![&SEED, &GOVMOMI] };
        let first = |of: fn(&Variables) -> &'static str| families.iter().find_map(|family| get(of(family)));
        let host = get(family.host).unwrap_or_default();
        let endpoint: Endpoint = host.parse().map_err(|bad| BadEnvironment::Host(family.host, bad))?;
        let user = first(|family| family.user);
        let password = first(|family| family.password);
        let credentials = match (user, password, endpoint.credentials()) {
            (Some(user), Some(password), _) | (None, Some(password), Some(Credentials::Password { user, .. })) => {
                Credentials::password(user, password)
            }
            (None, None, Some(credentials)) => credentials,
            (None, ..) => return Err(BadEnvironment::Missing(family.host, family.user)),
            (_, None, _) => return Err(BadEnvironment::Missing(family.host, family.password)),
        };
        let insecure = insecure || (is_govc && get("GOVC_INSECURE").map_or(Ok(false), truth)?);
        let authorities = families.iter().find_map(|family| Some((family.authorities, get(family.authorities)?)));
        let trust = match authorities {
            _ if insecure => Trust::Insecure,
            Some((name, paths)) => in_files(&paths).map_err(|bad| BadEnvironment::Trust(name, bad))?,
            None => Trust::System,
        };
        if is_clear_text(&endpoint) && !insecure {
            return Err(BadEnvironment::ClearText(family.host));
        }
        Ok(Some(Self { endpoint, credentials, trust }))
    }

    /// The same, where a VCenter leaves it to the environment.
    pub(crate) fn left_to_environment<T>(spec: &VCenterSpec, environment: Option<T>) -> Result<T, BadDeclaration> {
        if !spec.tls.is_default() {
            return Err(BadDeclaration::TrustOfEnvironment);
        }
        environment.ok_or(BadDeclaration::NoEnvironment)
    }

    /// What a VCenter declares. `own` is the operator's own namespace, and `secret` the Secret that the VCenter names.
    pub(crate) fn declared(spec: &VCenterSpec, own: &str, secret: Option<&Secret>) -> Result<Self, BadDeclaration> {
        let (Some(server), Some(reference)) = (&spec.server, &spec.credentials_secret_ref) else {
            return Err(BadDeclaration::Incomplete);
        };
        let endpoint: Endpoint = server.parse()?;
        let trust = trust(&spec.tls)?;
        if is_clear_text(&endpoint) && trust != Trust::Insecure {
            return Err(BadDeclaration::ClearText);
        }
        let namespace = reference.namespace.as_deref().unwrap_or(own);
        let name = &reference.name;
        let reference = format!("{namespace}/{name}");
        let Some(secret) = secret else { return Err(BadDeclaration::NoSecret(reference)) };
        match secret.annotations().get(SERVER_ANNOTATION) {
            None if namespace == own => {}
            None => {
                let (namespace, name) = (namespace.to_owned(), name.clone());
                return Err(BadDeclaration::NoServer { namespace, name, server: endpoint.to_string() });
            }
            Some(server) if !names(server, &endpoint) => {
                return Err(BadDeclaration::OtherServer(reference, endpoint.to_string()));
            }
            // Without a certificate that is verified, a name says nothing of who answers.
            Some(_) if trust == Trust::Insecure => return Err(BadDeclaration::Unverified(reference)),
            Some(_) => {}
        }
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

fn is_clear_text(endpoint: &Endpoint) -> bool {
    endpoint.uri().scheme_str() == Some("http")
}

/// Whether text names the server of an endpoint, by host and port.
fn names(text: &str, endpoint: &Endpoint) -> bool {
    let of = |endpoint: &Endpoint| {
        let uri = endpoint.uri();
        let port = uri.port_u16().unwrap_or(if is_clear_text(endpoint) { 80 } else { 443 });
        (uri.host().unwrap_or_default().to_ascii_lowercase(), port)
    };
    text.parse().is_ok_and(|named| of(&named) == of(endpoint))
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

/// The authorities in some files, whose paths are separated as in PATH.
fn in_files(paths: &str) -> Result<Trust, BadTrust> {
    let mut all = Vec::new();
    for path in env::split_paths(paths).filter(|path| !path.as_os_str().is_empty()) {
        if let Trust::Authorities(text) = Trust::in_file(path)? {
            all.extend(text);
            all.push(b'\n');
        }
    }
    Ok(Trust::Authorities(all))
}

/// What govc takes for a bool.
fn truth(text: String) -> Result<bool, BadEnvironment> {
    match text.as_str() {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(BadEnvironment::Insecure(text)),
    }
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
            let connection = Connection::declared(&spec(&json!({})), "ops", Some(&secret)).unwrap();
            assert_eq!(connection.credentials, Credentials::password("me", "hush"));
        }
    }

    fn named(variables: &[(&str, &str)]) -> Result<Option<(String, String, Trust)>, String> {
        let get = |name: &'static str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let connection = Connection::of_variables(false, get).map_err(|bad| bad.to_string())?;
        Ok(connection.map(|it| {
            let Credentials::Password { user, .. } = it.credentials else { panic!("no password") };
            (it.endpoint.to_string(), user, it.trust)
        }))
    }

    #[test]
    fn the_environment_may_use_the_names_of_the_seeds_of_govmomi_or_of_govc_in_this_order() {
        let seed = [("VC_HOST", "a"), ("VC_USER", "u"), ("VC_PASS", "p")];
        let govmomi = [("GOVMOMI_URL", "b"), ("GOVMOMI_USERNAME", "v"), ("GOVMOMI_PASSWORD", "p")];
        let govc = [("GOVC_URL", "c"), ("GOVC_USERNAME", "w"), ("GOVC_PASSWORD", "p"), ("GOVC_INSECURE", "true")];
        let of = |host: &str, user: &str, trust| Ok(Some((host.to_owned(), user.to_owned(), trust)));
        let all = [&seed[..], &govmomi, &govc].concat();
        assert_eq!(named(&all), of("a", "u", Trust::System), "what is for govc has nothing to say here");
        assert_eq!(named(&all[3..]), of("b", "v", Trust::System));
        assert_eq!(named(&govc), of("c", "w", Trust::Insecure));
        assert_eq!(named(&[("VC_HOST", "a"), govmomi[1], govmomi[2]]), of("a", "v", Trust::System));
        assert_eq!(named(&[("GOVC_URL", "https://me:hush@c/sdk")]), of("c", "me", Trust::System));
        assert_eq!(named(&[("GOVC_URL", "me:hush@c"), ("GOVC_PASSWORD", "p")]), of("c", "me", Trust::System));
        assert_eq!(named(&[("VC_HOST", "")]), Ok(None));
        for (variables, why) in [
            (&[("GOVC_URL", "c"), ("VC_USER", "u")][..], "GOVC_URL is set, but GOVC_USERNAME is not: set it too"),
            (&seed[..2], "VC_HOST is set, but VC_PASS is not: set it too"),
            (
                &[govc[0], govc[1], govc[2], ("GOVC_INSECURE", "maybe")],
                "GOVC_INSECURE is \"maybe\": give true or false",
            ),
        ] {
            assert_eq!(named(variables), Err(why.to_owned()));
        }
        let missing = named(&[govc[0], govc[1], govc[2], ("GOVC_TLS_CA_CERTS", "/no/such/file")]).unwrap_err();
        assert!(missing.starts_with("GOVC_TLS_CA_CERTS: "), "{missing}");
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
            let error = Connection::declared(&spec(&more), "ops", secret).unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_secret_goes_to_the_server_that_it_names_and_without_a_name_to_any_from_the_own_namespace_only() {
        let declared = |own: &str, server: &str, named: Option<&str>, tls: serde_json::Value| {
            let mut secret = secret(&[("username", "me"), ("password", "hush")]);
            let annotations = named.map(|named| (SERVER_ANNOTATION.to_owned(), named.to_owned()));
            secret.metadata.annotations = Some(annotations.into_iter().collect());
            let spec = spec(&json!({"server": server, "tls": tls}));
            Connection::declared(&spec, own, Some(&secret)).map(|_| ()).map_err(|bad| bad.to_string())
        };
        let (checked, insecure) = (json!({}), json!({"insecure": true}));
        for (own, server, named, tls, problem) in [
            ("ops", "vc.example.com", None, &checked, None),
            ("ops", "vc.example.com", None, &insecure, None),
            (
                "drover",
                "vc.example.com",
                None,
                &checked,
                Some("annotate secret lab vm.codeconnect.vmworld.com/server=vc."),
            ),
            ("drover", "vc.example.com", None, &insecure, Some("kubectl -n ops annotate secret lab")),
            ("drover", "vc.example.com", Some("vc.example.com"), &checked, None),
            ("drover", "VC.example.com:443", Some("https://vc.example.com/sdk"), &checked, None),
            ("drover", "vc.example.com", Some("vc.example.com"), &insecure, Some("over verified TLS only")),
            ("drover", "http://vc.example.com", Some("http://vc.example.com"), &insecure, Some("verified TLS only")),
            ("drover", "vc.example.com:8443", Some("vc.example.com"), &checked, Some("is for another server")),
            ("drover", "vc.example.com.evil.org", Some("vc.example.com"), &checked, Some("is for another server")),
            ("drover", "vc.example.com", Some(""), &checked, Some("is for another server")),
            // Whoever annotates a Secret means it, wherever the Secret is.
            ("ops", "vc.example.com", Some("vc.example.com"), &checked, None),
            ("ops", "evil.org", Some("vc.example.com"), &checked, Some("is for another server than evil.org")),
            ("ops", "vc.example.com", Some("vc.example.com"), &insecure, Some("over verified TLS only")),
        ] {
            match (declared(own, server, named, tls.clone()), problem) {
                (Ok(()), None) => {}
                (Err(said), Some(words)) if said.contains(words) && !said.contains("hush") => {}
                (outcome, _) => panic!("{own} {server} {named:?} {tls}: {outcome:?}"),
            }
        }
    }

    #[test]
    fn a_vcenter_gives_both_server_and_secret_or_leaves_both_to_the_environment() {
        for missing in ["server", "credentialsSecretRef"] {
            let mut spec = json!({"server": "vc", "credentialsSecretRef": {"name": "lab"}});
            spec.as_object_mut().unwrap().remove(missing);
            let spec = serde_json::from_value(spec).unwrap();
            assert_eq!(Connection::declared(&spec, "ops", None).unwrap_err(), BadDeclaration::Incomplete, "{missing}");
            assert!(!spec.is_of_environment());
        }
        let spec: VCenterSpec = serde_json::from_value(json!({})).unwrap();
        assert!(spec.is_of_environment());
        assert_eq!(Connection::left_to_environment(&spec, Some("there")), Ok("there"));
        assert_eq!(Connection::left_to_environment(&spec, None::<()>), Err(BadDeclaration::NoEnvironment));
        // Who writes VCenters doesn't decide whom the environment's password is shown to.
        let spec: VCenterSpec = serde_json::from_value(json!({"tls": {"insecure": true}})).unwrap();
        assert_eq!(Connection::left_to_environment(&spec, Some("there")), Err(BadDeclaration::TrustOfEnvironment));
    }

    #[test]
    fn clear_text_is_sent_only_where_somebody_says_that_it_may_be() {
        let good = secret(&[("username", "me"), ("password", "hush")]);
        let declared = |tls| {
            let spec = spec(&json!({"server": " http://vc.example.com", "tls": tls}));
            Connection::declared(&spec, "ops", Some(&good)).map_err(|bad| bad.to_string())
        };
        for tls in [json!({}), json!({"thumbprint": "00".repeat(32)})] {
            assert!(declared(tls).unwrap_err().starts_with("spec.server: http:// sends the password in clear text"));
        }
        assert!(declared(json!({"insecure": true})).is_ok());

        let seed = [("VC_HOST", "http://a"), ("VC_USER", "u"), ("VC_PASS", "p")];
        let refused = named(&seed).unwrap_err();
        assert_eq!(refused, "VC_HOST: http:// sends the password in clear text: write https://, or use --insecure");
        let get = |name: &'static str| seed.iter().find(|(known, _)| *known == name).map(|(_, it)| (*it).to_owned());
        assert!(Connection::of_variables(true, get).unwrap().is_some());
        let govc = [("GOVC_URL", "http://u:p@c"), ("GOVC_INSECURE", "true")];
        assert_eq!(named(&govc), Ok(Some(("c".to_owned(), "u".to_owned(), Trust::Insecure))));
    }

    #[test]
    fn authorities_are_taken_as_text_and_in_base64() {
        let good = secret(&[("username", "me"), ("password", "hush")]);
        let pem = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
        for bundle in [pem.to_owned(), BASE64_STANDARD.encode(pem)] {
            let spec = spec(&json!({"tls": {"caBundle": bundle}}));
            let connection = Connection::declared(&spec, "ops", Some(&good)).unwrap();
            assert_eq!(connection.trust, Trust::Authorities(pem.as_bytes().to_vec()));
        }
    }
}
