//! Certificates that are good, and others.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use ring::digest::{SHA256, digest};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig, crypto,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};
use vim25::Thumbprint;

/// An authority of the test's own.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// What those who trust it are given.
    pub(crate) fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    /// A certificate for a name.
    pub(crate) fn certify(&self, name: &str) -> Certified {
        self.sign(&CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// A certificate that was good in another century.
    pub(crate) fn certify_in_the_past(&self, name: &str) -> Certified {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(1998, 1, 1);
        params.not_after = date_time_ymd(1999, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Certified { certificate: certificate.into(), key: key.into() }
    }
}

/// What a server shows, and the key that proves that it is its own.
pub(crate) struct Certified {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Certified {
    pub(crate) fn thumbprint(&self) -> Thumbprint {
        let digest = digest(&SHA256, &self.certificate);
        let bytes: Vec<_> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        bytes.join(":").parse().unwrap()
    }

    pub(crate) fn acceptor(self) -> TlsAcceptor {
        let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], self.key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}
