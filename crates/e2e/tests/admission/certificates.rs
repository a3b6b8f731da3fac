//! Certificates that somebody else keeps, as cert-manager does.

use std::{
    cell::Cell,
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    time::{Duration, Instant},
};

use base64::prelude::{BASE64_STANDARD, Engine};
use drover_e2e::{Group, Operator, SOON, Sandbox, eventually};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};

use crate::{CONFIGURATION, configure, free_port, said};

/// How long it takes at most until the operator shows a certificate that was put into its folder, and some.
const SHOWN: Duration = Duration::from_secs(7);
/// The same for the API server, once it is told whom to trust.
const TOLD: Duration = Duration::from_secs(3);

/// Who signs certificates.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut parameters = CertificateParams::default();
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(parameters, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A new certificate for the operator, and its key.
    pub(crate) fn issue(&self) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (parameters.signed_by(&key, &self.0).unwrap().pem(), key.serialize_pem())
    }
}

/// A folder as a kubelet mounts a Secret: whoever reads it finds all files of one version.
pub(crate) struct Mounted {
    dir: PathBuf,
    versions: Cell<usize>,
}

impl Mounted {
    pub(crate) fn new(sandbox: &Sandbox, files: &(String, String)) -> Self {
        let dir = sandbox.dir().join("certificates");
        fs::create_dir(&dir).unwrap();
        for name in ["tls.crt", "tls.key"] {
            symlink(format!("..data/{name}"), dir.join(name)).unwrap();
        }
        let mounted = Self { dir, versions: Cell::new(0) };
        mounted.put(files);
        mounted
    }

    fn put(&self, (certificate, key): &(String, String)) {
        let version = format!("..{}", self.versions.replace(self.versions.get() + 1));
        fs::create_dir(self.dir.join(&version)).unwrap();
        fs::write(self.dir.join(&version).join("tls.crt"), certificate).unwrap();
        fs::write(self.dir.join(&version).join("tls.key"), key).unwrap();
        symlink(version, self.dir.join("..next")).unwrap();
        fs::rename(self.dir.join("..next"), self.dir.join("..data")).unwrap();
    }

    /// Starts an operator that shows what is in it.
    pub(crate) fn start(&self, sandbox: &Sandbox, port: u16) -> Operator {
        let flags = [format!("--webhook-addr=127.0.0.1:{port}"), format!("--webhook-cert-dir={}", self.dir.display())];
        Operator::start_with(sandbox, sandbox.vcenter(), &flags.each_ref().map(String::as_str)).unwrap()
    }
}

/// Has the API server trust in these, and in nobody else.
pub(crate) fn trust(sandbox: &Sandbox, authorities: &[&Authority]) {
    let all: String = authorities.iter().map(|authority| authority.pem()).collect();
    change(sandbox, "clientConfig/caBundle", &json!(BASE64_STANDARD.encode(all)));
}

fn change(sandbox: &Sandbox, field: &str, value: &Value) {
    let patch = json!([{"op": "add", "path": format!("/webhooks/0/{field}"), "value": value}]).to_string();
    let flags = ["patch", "validatingwebhookconfiguration", "drover", "--type=json", "-p", &patch];
    sandbox.kubectl().run(&flags).unwrap();
}

/// Writes to a group all the time.
fn write(group: &Group, time: Duration, written: &mut usize) {
    let began = Instant::now();
    while began.elapsed() < time {
        *written += 1;
        let labels = json!({"metadata": {"labels": {"round": written.to_string()}}});
        let done = group.namespace.patch("vg", group.name(), &labels);
        done.unwrap_or_else(|failure| panic!("write {written}: {failure}"));
    }
}

#[test]
fn certificates_of_somebody_else_are_replaced_under_load_without_one_failed_request() {
    let sandbox = &Sandbox::start("mounted", &[]).unwrap();
    sandbox.install_kinds();
    let port = free_port();
    configure(sandbox, &[port]);
    let (first, second) = (Authority::new(), Authority::new());
    trust(sandbox, &[&first]);
    let folder = Mounted::new(sandbox, &first.issue());
    let operator = folder.start(sandbox, port);
    let group = Group::create(sandbox, "mounted", &json!({"replicas": 1}));
    group.runs_with(1);
    eventually(sandbox, SOON, "the API server is answered", || {
        let said = said(&group, "scale vg/mounted --replicas=0 --dry-run=server");
        if said.contains("Warning: destroys 1 VM") { Ok(()) } else { Err(said) }
    });
    assert_eq!(operator.ask("GET", "/readyz").unwrap().0, 200);

    // From now on, what the webhook doesn't answer is refused.
    change(sandbox, "failurePolicy", &json!("Fail"));
    let written = &mut 0;
    write(&group, TOLD, written);
    folder.put(&first.issue());
    write(&group, SHOWN, written);
    folder.put(&("no certificate".to_owned(), String::new()));
    write(&group, SHOWN, written);
    trust(sandbox, &[&first, &second]);
    write(&group, TOLD, written);
    folder.put(&second.issue());
    write(&group, SHOWN, written);
    trust(sandbox, &[&second]);
    write(&group, TOLD, written);
    assert!(*written > 100, "{written} writes");
    // That it was the new one, and that the operator leaves alone what it was not given to keep.
    let bundle = sandbox.get(CONFIGURATION).unwrap()["webhooks"][0]["clientConfig"]["caBundle"].clone();
    assert_eq!(bundle, BASE64_STANDARD.encode(second.pem()));
    trust(sandbox, &[&first]);
    eventually(sandbox, SOON, "the API server doesn't trust in it", || match group.patch(&json!({"replicas": 2})) {
        Err(refused) if refused.stderr.contains("certificate signed by unknown authority") => Ok(()),
        other => Err(format!("{other:?}")),
    });
}
