//! Many vCenters: which serves whom, sessions that hold, trust that is explicit.

mod cloud_init;
mod commands;
mod credentials;
mod environment;
mod fairness;
mod infos;
mod keys;
mod quotas;
mod reach;
mod rights;
mod serving;
mod sessions;
mod trust;

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use drover_e2e::{Operator, Sandbox, VCenter, eventually};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(2);
/// How many vCenters the tests take for themselves, and one that the environment names.
const VCENTERS: &str = "--vcenters=41";

/// Held by tests whose VCenters a `drover check` of another must not see, or log in to, and by each check.
fn unchecked() -> MutexGuard<'static, ()> {
    static CHECK: Mutex<()> = Mutex::new(());
    CHECK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One operator for all tests. Each takes vCenters of its own, and declares them under names of its own.
fn sandbox() -> &'static Sandbox {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    let sandbox = Sandbox::shared(&[VCENTERS, "--hosts=2"]);
    OPERATOR.get_or_init(|| {
        sandbox.install_kinds();
        Operator::start(sandbox, sandbox.vcenter()).unwrap()
    });
    sandbox
}

/// A VCenter that a test has declared.
struct Declared {
    name: String,
    vcenter: VCenter,
}

impl Declared {
    /// Declares a vCenter that no other test uses.
    fn new(name: &str, spec: &Value) -> Self {
        let declared = Self { name: name.to_owned(), vcenter: sandbox().own_vcenter() };
        declared.vcenter.declare(sandbox(), name, spec);
        declared
    }

    /// Declares one, and waits until Drover knows what is in it.
    fn connected(name: &str, spec: &Value) -> Self {
        let declared = Self::new(name, spec);
        declared.says("Connected", "True", "Connected", "");
        declared
    }

    fn get(&self) -> Value {
        sandbox().get(&format!("/apis/vm.codeconnect.vmworld.com/v1alpha1/vcenters/{}", self.name)).unwrap()
    }

    /// Edits its spec, and waits until the operator has seen that: what is asked of a group afterwards is asked of the VCenter as it is then.
    #[track_caller]
    fn patch(&self, spec: &Value) {
        let patch = json!({"spec": spec}).to_string();
        sandbox().kubectl().run(&["patch", "vc", &self.name, "--type=merge", "-p", &patch]).unwrap();
        eventually(sandbox(), SOON, &format!("{} is seen as it is", self.name), || {
            let vcenter = self.get();
            let is_seen = vcenter["status"]["observedGeneration"] == vcenter["metadata"]["generation"];
            if is_seen { Ok(()) } else { Err(vcenter.to_string()) }
        });
    }

    /// Waits for a condition, and returns its message.
    #[track_caller]
    fn says(&self, kind: &str, status: &str, reason: &str, words: &str) -> String {
        eventually(sandbox(), SOON, &format!("{}: {kind} {status} {reason} {words}", self.name), || {
            let status_now = self.get()["status"].clone();
            let mut conditions = status_now["conditions"].as_array().into_iter().flatten();
            let found = conditions.find(|condition| condition["type"] == kind).cloned().unwrap_or_default();
            let message = found["message"].as_str().unwrap_or_default();
            let is_so = found["status"] == status && found["reason"] == reason && message.contains(words);
            if is_so { Ok(message.to_owned()) } else { Err(status_now.to_string()) }
        })
    }

    /// How many events of a reason there are on it.
    fn events(&self, reason: &str) -> usize {
        let events = sandbox().get("/apis/events.k8s.io/v1/namespaces/default/events").unwrap();
        let is_it = |event: &&Value| event["regarding"]["name"] == self.name && event["reason"] == reason;
        events["items"].as_array().unwrap().iter().filter(is_it).count()
    }

    fn logins(&self) -> u64 {
        self.vcenter.calls("Login", "drover")
    }

    fn control(&self, method: &str, path: &str, body: &Value) {
        self.vcenter.control(method, path, body).unwrap();
    }
}

impl Drop for Declared {
    /// At the end of each test, all that Drover has written is searched for passwords.
    fn drop(&mut self) {
        if !thread::panicking() {
            sandbox().assert_nothing_tells(&[]);
        }
    }
}

#[test]
fn what_is_known_of_a_vcenter_is_shown() {
    let lab = Declared::connected("shown", &json!({"limits": {"operations": 5, "clonesPerHost": 2}}));
    lab.says("Authorized", "True", "PrivilegesGranted", "");
    let status = lab.get()["status"].clone();
    let about = lab.vcenter.govc(&["about", "-json"]).unwrap();
    let about: Value = serde_json::from_str(&about).unwrap();
    for (ours, theirs) in [("version", "version"), ("build", "build"), ("instanceUuid", "instanceUuid")] {
        assert_eq!(status[ours], about["about"][theirs], "{status}");
    }
    let count = |kind: &str| lab.vcenter.govc(&["find", "/", "-type", kind]).unwrap().lines().count();
    assert_eq!((status["machines"].clone(), status["hosts"].clone()), (json!(count("m")), json!(count("h"))));
    assert_eq!((status["queued"].clone(), status["underWay"].clone()), (json!(0), json!(0)));
    assert!(status["sessionSince"].is_string(), "{status}");
    let table = sandbox().kubectl().run(&["get", "vc", "shown"]).unwrap();
    for word in ["SERVER", "CONNECTED", "AUTHORIZED", "VERSION", "MACHINES", "QUEUE", &lab.vcenter.host] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

#[test]
fn a_declaration_that_makes_no_sense_is_refused_or_said_on_it() {
    let vcenter = sandbox().vcenter();
    let kubectl = sandbox().kubectl();
    for (spec, word) in [
        (json!({"server": "me:hush@vc"}), "put them into the Secret"),
        (json!({"server": "http://vc", "tls": {"insecure": false}}), "http:// sends the password in clear text"),
        (json!({"tls": {"insecure": true, "caBundle": "x"}}), "give one of caBundle, thumbprint and insecure"),
        (json!({"publish": {"hosts": true}}), "publish.namespace"),
        (json!({"limits": {"operations": 0}}), "spec.limits.operations"),
    ] {
        let mut manifest = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1",
            "kind": "VCenter",
            "metadata": {"name": "refused"},
            "spec": {"server": "vc", "credentialsSecretRef": {"namespace": "default", "name": "x"}},
        });
        manifest["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let refused = kubectl.run_with_input(&["apply", "-f", "-"], &manifest.to_string()).unwrap_err();
        assert!(refused.stderr.contains(word), "{refused}");
    }
    vcenter.declare(sandbox(), "senseless", &json!({"server": "ftp://vc"}));
    let senseless = Declared { name: "senseless".to_owned(), vcenter: vcenter.clone() };
    senseless.says("Connected", "False", "Invalid", "spec.server: ");
    senseless.patch(&json!({"server": vcenter.host, "tls": {"caBundle": "%%"}}));
    senseless.says("Connected", "False", "Invalid", "spec.tls.caBundle: ");
    senseless.patch(&json!({"tls": {"caBundle": null, "thumbprint": "z".repeat(64)}}));
    senseless.says("Connected", "False", "Invalid", "spec.tls.thumbprint: ");
    senseless.patch(&json!({"tls": {"thumbprint": null}, "credentialsSecretRef": {"name": "nobody"}}));
    senseless.says("Connected", "False", "Invalid", "the Secret default/nobody isn't there");
    kubectl.run(&["create", "secret", "generic", "nobody", "-n", "default", "--from-literal=username=x"]).unwrap();
    senseless.says("Connected", "False", "Invalid", "has no password");
    kubectl.run(&["delete", "vc", "senseless"]).unwrap();
}
