//! The certificate that something is served with: that in a folder, as it is now, or one that was made here.

use std::{
    error::Error,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
};
use tracing::{info, warn};

/// How often it is looked whether the files have changed, at most: when somebody comes.
const LOOK: Duration = Duration::from_secs(5);

/// What is shown to those who connect.
#[derive(Debug)]
pub(crate) struct Certificates {
    /// The folder, and the flag that names it.
    dir: Option<(PathBuf, &'static str)>,
    now: Mutex<Now>,
}

/// A certificate that was made here, and its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub certificate: CertificateDer<'static>,
    config: Arc<ServerConfig>,
}

#[derive(Debug)]
struct Now {
    files: Files,
    looked: Instant,
    config: Arc<ServerConfig>,
}

/// What stands in the files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Files {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadCertificate {
    #[error("{flag}: {path}: {source}")]
    Unreadable { flag: &'static str, path: String, source: io::Error },
    #[error("{flag}: {dir}: tls.crt and tls.key are no certificate with its key, in PEM: {why}")]
    Unusable { flag: &'static str, dir: String, why: String },
    #[error("a certificate could not be made: {0}")]
    Unmade(String),
}

impl Certificates {
    /// Those of the metrics: in a folder, or else one that is made now.
    pub(super) fn of_metrics(dir: Option<&Path>) -> Result<Self, BadCertificate> {
        match dir {
            Some(dir) => Self::open(dir, "--metrics-cert-dir"),
            None => Ok(Self::of_pair(Pair::make(vec!["drover".to_owned(), "localhost".to_owned()], None)?)),
        }
    }

    /// Those in a folder, which a flag names.
    pub(crate) fn open(dir: &Path, flag: &'static str) -> Result<Self, BadCertificate> {
        let files = Files::read(dir, flag)?;
        let config = files.config(dir, flag)?;
        let now = Now { files, looked: Instant::now(), config };
        Ok(Self { dir: Some((dir.to_owned(), flag)), now: Mutex::new(now) })
    }

    /// One that was made here.
    pub(crate) fn of_pair(pair: Pair) -> Self {
        let now = Now { files: Files::default(), looked: Instant::now(), config: pair.config };
        Self { dir: None, now: Mutex::new(now) }
    }

    /// Shows another one from now on, to those who connect.
    pub(crate) fn replace(&self, pair: &Pair) {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).config = Arc::clone(&pair.config);
    }

    /// What to show now. Files that make no sense, as may be so while they are written, change nothing.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config_at(Instant::now())
    }

    fn config_at(&self, instant: Instant) -> Arc<ServerConfig> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = instant.saturating_duration_since(now.looked) >= LOOK;
        if let Some((dir, flag)) = self.dir.as_ref().filter(|_| is_due) {
            now.looked = instant;
            let read = Files::read(dir, flag);
            match read.and_then(|files| if files == now.files { Ok(None) } else { files.used(dir, flag) }) {
                Ok(Some((files, config))) => {
                    info!(flag, "Certificate changed");
                    (now.files, now.config) = (files, config);
                }
                Ok(None) => {}
                Err(error) => {
                    warn!(%error, "New certificate not usable; the old one stays");
                }
            }
        }
        Arc::clone(&now.config)
    }
}

impl Pair {
    /// Makes one for these names, that is good until a day or for ever.
    pub(crate) fn make(names: Vec<String>, until: Option<(i32, u8, u8)>) -> Result<Self, BadCertificate> {
        let unmade = |error: &dyn Error| BadCertificate::Unmade(error.to_string());
        let mut parameters = CertificateParams::new(names).map_err(|error| unmade(&error))?;
        if let Some((year, month, day)) = until {
            parameters.not_after = rcgen::date_time_ymd(year, month, day);
        }
        let key = KeyPair::generate().map_err(|error| unmade(&error))?;
        let certificate = parameters.self_signed(&key).map_err(|error| unmade(&error))?.der().clone();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let config = config(vec![certificate.clone()], key.into()).map_err(|error| unmade(&error))?;
        Ok(Self { certificate, config })
    }
}

impl Files {
    fn read(dir: &Path, flag: &'static str) -> Result<Self, BadCertificate> {
        let read = |name| {
            let path = dir.join(name);
            let unreadable = |source| BadCertificate::Unreadable { flag, path: path.display().to_string(), source };
            fs::read(&path).map_err(unreadable)
        };
        Ok(Self { certificate: read("tls.crt")?, key: read("tls.key")? })
    }

    fn config(&self, dir: &Path, flag: &'static str) -> Result<Arc<ServerConfig>, BadCertificate> {
        let unusable = |why: String| BadCertificate::Unusable { flag, dir: dir.display().to_string(), why };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.certificate).collect();
        let chain = chain.map_err(|error| unusable(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| unusable(error.to_string()))?;
        config(chain, key).map_err(|error| unusable(error.to_string()))
    }

    fn used(self, dir: &Path, flag: &'static str) -> Result<Option<(Self, Arc<ServerConfig>)>, BadCertificate> {
        let config = self.config(dir, flag)?;
        Ok(Some((self, config)))
    }
}

fn config(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, rustls::Error> {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
pub(super) mod tests {
    use std::env;

    use base64::prelude::{BASE64_STANDARD, Engine};

    use super::*;

    fn pem(label: &str, der: &[u8]) -> String {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", BASE64_STANDARD.encode(der))
    }

    /// Whom the certificates are for.
    pub(crate) const NAME: &str = "metrics.drover-system.svc";

    /// A folder for certificates.
    pub(crate) fn folder(name: &str) -> PathBuf {
        let dir = env::temp_dir().join(format!("drover-certificates-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Writes a new certificate and its key.
    pub(crate) fn write(dir: &Path) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).unwrap();
        fs::write(dir.join("tls.crt"), pem("CERTIFICATE", made.cert.der())).unwrap();
        fs::write(dir.join("tls.key"), pem("PRIVATE KEY", &made.signing_key.serialize_der())).unwrap();
        made.cert.der().clone()
    }

    #[test]
    fn files_that_change_are_taken_up_once_they_make_sense() {
        let dir = folder("changed");
        let missing = Certificates::of_metrics(Some(&dir)).unwrap_err().to_string();
        assert!(missing.starts_with("--metrics-cert-dir: ") && missing.contains("tls.crt: "), "{missing}");
        write(&dir);
        let certificates = Certificates::of_metrics(Some(&dir)).unwrap();
        let began = Instant::now();
        let first = certificates.config();
        let at = |looks| certificates.config_at(began + looks * LOOK * 2);
        assert!(Arc::ptr_eq(&at(1), &first), "nothing has changed");
        let certificate = fs::read(dir.join("tls.crt")).unwrap();
        write(&dir);
        let key = fs::read(dir.join("tls.key")).unwrap();
        let whole = fs::read(dir.join("tls.crt")).unwrap();
        fs::write(dir.join("tls.crt"), &certificate).unwrap();
        assert!(Arc::ptr_eq(&at(2), &first), "the key is not the certificate's");
        fs::write(dir.join("tls.key"), b"").unwrap();
        assert!(Arc::ptr_eq(&at(3), &first), "there is no key");
        fs::write(dir.join("tls.crt"), &whole).unwrap();
        fs::write(dir.join("tls.key"), &key).unwrap();
        assert!(
            Arc::ptr_eq(&certificates.config_at(began + LOOK * 6 + LOOK / 2), &first),
            "it was looked a moment ago"
        );
        assert!(!Arc::ptr_eq(&at(4), &first));
        fs::remove_dir_all(&dir).unwrap();
    }
}
