//! Which certificates are believed.

use std::fs;

use rcgen::{CertificateParams, CertifiedIssuer, Issuer, KeyPair, date_time_ymd};
use serde_json::json;

use super::{Declared, sandbox};

/// The sandbox's own authority.
fn authority() -> Issuer<'static, KeyPair> {
    let pki = sandbox().dir().join("pki");
    let read = |name: &str| fs::read_to_string(pki.join(name)).unwrap();
    Issuer::from_ca_cert_pem(&read("ca.crt"), KeyPair::from_pem(&read("ca.key")).unwrap()).unwrap()
}

fn show(lab: &Declared, certificate: &str, key: &KeyPair) {
    lab.control("PUT", "/certificate", &json!({"certificate": certificate, "key": key.serialize_pem()}));
    // Those who are connected go on with what they have seen.
    lab.control("POST", "/outage", &json!({"for": "100ms"}));
}

fn thumbprint(message: &str) -> String {
    message.rsplit("thumbprint ").next().unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn a_certificate_that_is_expired_for_another_name_or_unknown_is_refused_until_it_is_pinned() {
    let lab = Declared::connected("trust", &json!({}));
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];

    let mut expired = CertificateParams::new(names.clone()).unwrap();
    expired.not_after = date_time_ymd(2024, 2, 29);
    show(&lab, &expired.signed_by(&key, &authority()).unwrap().pem(), &key);
    lab.says("Connected", "False", "CertificateUntrusted", "it has expired on 2024-02-29");

    let other = CertificateParams::new(vec!["elsewhere.example.com".to_owned()]).unwrap();
    show(&lab, &other.signed_by(&key, &authority()).unwrap().pem(), &key);
    lab.says("Connected", "False", "CertificateUntrusted", "not valid for name");

    let stranger = CertifiedIssuer::self_signed(CertificateParams::new(names).unwrap(), KeyPair::generate().unwrap());
    let stranger = stranger.unwrap();
    show(&lab, &stranger.pem(), stranger.key());
    let message = lab.says("Connected", "False", "CertificateUntrusted", "no authority that is trusted has signed it");
    assert!(message.contains("pin its SHA-256 thumbprint"), "{message}");
    let pinned = thumbprint(&message);
    lab.patch(&json!({"tls": {"caBundle": null, "thumbprint": pinned}}));
    lab.says("Connected", "True", "Connected", "");

    let another = CertifiedIssuer::self_signed(CertificateParams::default(), KeyPair::generate().unwrap()).unwrap();
    show(&lab, &another.pem(), another.key());
    lab.says("Connected", "False", "CertificateUntrusted", "it is not the one that is pinned");
    lab.patch(&json!({"tls": {"thumbprint": null, "insecure": true}}));
    lab.says("Connected", "True", "Connected", "");
}
