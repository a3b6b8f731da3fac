//! Whom to believe: which certificate makes a server the vCenter that was asked for.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};

use crate::Timestamp;

/// How a server's certificate is verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// By the authorities that the machine trusts.
    #[default]
    System,
    /// By the authorities in this PEM text alone.
    Authorities(Vec<u8>),
    /// By its SHA-256 thumbprint alone: name, expiry and issuer don't matter.
    Thumbprint(Thumbprint),
    /// Not at all. Anybody on the way can read the password.
    Insecure,
}

impl Trust {
    /// The authorities in a PEM file.
    pub fn in_file(path: impl AsRef<Path>) -> Result<Self, BadTrust> {
        let path = path.as_ref();
        let unreadable = |error: io::Error| BadTrust::File { path: path.to_owned(), reason: error.to_string() };
        Ok(Self::Authorities(std::fs::read(path).map_err(unreadable)?))
    }
}

/// The authorities could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadTrust {
    /// The PEM text has no certificate that could be read.
    #[error("the CA bundle has no certificate in PEM form: {0}")]
    Bundle(String),
    /// The file of authorities can't be read.
    #[error("reading the CA bundle {}: {reason}", .path.display())]
    File {
        /// Where it should be.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The machine has no store of authorities.
    #[error("this machine trusts no authority: give a CA bundle or a thumbprint ({0})")]
    System(String),
}

/// The SHA-256 digest of a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thumbprint([u8; 32]);

/// Text that is no thumbprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no SHA-256 thumbprint: write 32 bytes in hex, with or without colons")]
pub struct BadThumbprint(String);

impl Thumbprint {
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let digest = ring::digest::digest(&ring::digest::SHA256, certificate);
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest.as_ref());
        Self(bytes)
    }
}

impl FromStr for Thumbprint {
    type Err = BadThumbprint;

    fn from_str(text: &str) -> Result<Self, BadThumbprint> {
        let bad = || BadThumbprint(text.to_owned());
        let digits: String = text.trim().chars().filter(|c| *c != ':').collect();
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

/// `0A:1B:…`, as browsers and openssl show it.
impl fmt::Display for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if index == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Thumbprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Thumbprint({self})")
    }
}

/// The thumbprint of the last certificate that a server showed, so that a refusal can name it.
#[derive(Clone, Debug, Default)]
pub(super) struct Shown(Arc<Mutex<Option<Thumbprint>>>);

impl Shown {
    pub(super) fn get(&self) -> Option<Thumbprint> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, thumbprint: Thumbprint) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(thumbprint);
    }
}

/// A TLS configuration that trusts as told, and notes what the server shows.
pub(super) fn client_config(trust: &Trust) -> Result<(ClientConfig, Shown), BadTrust> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let shown = Shown::default();
    let check = match trust {
        Trust::System => Check::Chain(chain(system_roots()?, &provider).map_err(BadTrust::System)?),
        Trust::Authorities(pem) => Check::Chain(chain(bundle_roots(pem)?, &provider).map_err(BadTrust::Bundle)?),
        Trust::Thumbprint(thumbprint) => Check::Pinned(*thumbprint),
        Trust::Insecure => Check::Nothing,
    };
    let verifier = Arc::new(Verifier { check, provider: Arc::clone(&provider), shown: shown.clone() });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        // The provider is ring's default, which has what the default versions need.
        .expect("ring supports TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok((config, shown))
}

/// What is wrong with a certificate, for people.
pub(super) fn objection(problem: &CertificateError) -> String {
    match problem {
        CertificateError::ApplicationVerificationFailure => "it is not the one that is pinned".to_owned(),
        // A signature is bad where an authority was replaced by another of the same name, as by a new installation.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority that is trusted has signed it".to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => format!("it has expired on {}", day(*not_after)),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("it is not valid before {}", day(*not_before))
        }
        problem => problem.to_string(),
    }
}

fn day(time: UnixTime) -> String {
    let time = i64::try_from(time.as_secs()).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(|time| time.strftime("%F").to_string()).unwrap_or_default()
}

fn chain(roots: RootCertStore, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, String> {
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    verifier.build().map_err(|error| error.to_string())
}

fn system_roots() -> Result<RootCertStore, BadTrust> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(|| "none was found".to_owned(), ToString::to_string);
        return Err(BadTrust::System(reason));
    }
    Ok(roots)
}

fn bundle_roots(pem: &[u8]) -> Result<RootCertStore, BadTrust> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| BadTrust::Bundle(error.to_string()))?;
        roots.add(certificate).map_err(|error| BadTrust::Bundle(error.to_string()))?;
    }
    if roots.is_empty() { Err(BadTrust::Bundle("it is empty".to_owned())) } else { Ok(roots) }
}

#[derive(Debug)]
enum Check {
    Chain(Arc<WebPkiServerVerifier>),
    Pinned(Thumbprint),
    Nothing,
}

#[derive(Debug)]
struct Verifier {
    check: Check,
    provider: Arc<CryptoProvider>,
    shown: Shown,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let thumbprint = Thumbprint::of(end_entity);
        self.shown.set(thumbprint);
        match &self.check {
            Check::Chain(chain) => chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now),
            Check::Pinned(pinned) if *pinned != thumbprint => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            Check::Pinned(_) | Check::Nothing => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thumbprint_is_read_with_and_without_colons_and_shown_with_them() {
        let shown = (0..32).map(|n| format!("{n:02X}")).collect::<Vec<_>>().join(":");
        let thumbprint: Thumbprint = shown.parse().unwrap();
        assert_eq!(thumbprint.to_string(), shown);
        assert_eq!(shown.replace(':', "").to_lowercase().parse(), Ok(thumbprint));
        for bad in ["", "00:11", &shown[1..], &"z".repeat(64), &"é".repeat(32)] {
            bad.parse::<Thumbprint>().unwrap_err();
        }
    }

    #[test]
    fn a_bundle_that_is_not_there_is_named() {
        let error = Trust::in_file("/no/such/ca.pem").unwrap_err();
        assert!(error.to_string().starts_with("reading the CA bundle /no/such/ca.pem: "), "{error}");
    }

    #[test]
    fn a_bundle_without_a_certificate_is_refused() {
        for bad in ["", "hello", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = client_config(&Trust::Authorities(bad.into())).unwrap_err();
            assert!(error.to_string().starts_with("the CA bundle"), "{error}");
        }
    }
}
