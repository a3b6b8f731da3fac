//! A vCenter of the sandbox, with the means to look at it and to have it misbehave.

use std::{collections::BTreeMap, fs};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use crate::{Failure, Namespace, Program, Sandbox, http};

/// What an operator changes a VM or a folder with.
const CHANGES: [&str; 12] = [
    "CloneVM_Task",
    "CreateFolder",
    "Destroy_Task",
    "MoveIntoFolder_Task",
    "PowerOffVM_Task",
    "PowerOnVM_Task",
    "ReconfigVM_Task",
    "RegisterVM_Task",
    "Rename_Task",
    "ShutdownGuest",
    "SuspendVM_Task",
    "UnregisterVM",
];

/// How to reach and steer one vCenter.
#[derive(Clone, Debug)]
pub struct VCenter {
    /// Host and port.
    pub host: String,
    /// The administrator's name.
    pub user: String,
    /// The administrator's password, as it was when the sandbox came up.
    pub password: String,
    /// The certificate authority to trust.
    pub ca_file: String,
    govc: Program,
    control: String,
}

/// A rule that a vCenter misbehaves by, until it is taken away. It stays when this is dropped.
#[derive(Clone, Debug)]
pub struct Rule {
    vcenter: VCenter,
    id: u64,
    shown: String,
}

impl Rule {
    /// How many calls it has met so far.
    #[must_use]
    pub fn hits(&self) -> u64 {
        let rules = self.vcenter.control("GET", "/rules", &Value::Null).expect("rules can always be listed");
        let mut rules = rules.as_array().expect("rules are a list").iter();
        let rule = rules.find(|rule| rule["id"] == self.id);
        rule.unwrap_or_else(|| panic!("the rule {} was taken away", self.shown))["hits"]
            .as_u64()
            .expect("hits are counted")
    }

    /// Asserts that it has met a call.
    #[track_caller]
    pub fn assert_hit(&self) {
        assert!(self.hits() > 0, "no call has met the rule {}", self.shown);
    }

    /// Takes it away: calls that it holds go on. Returns how many it had met.
    #[track_caller]
    // Who has asked before need not again.
    #[allow(clippy::must_use_candidate)]
    pub fn remove(self) -> u64 {
        let hits = self.hits();
        let removed = self.vcenter.control("DELETE", &format!("/rules/{}", self.id), &Value::Null);
        removed.unwrap_or_else(|error| panic!("{error}"));
        hits
    }
}

/// How many machines there are in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineCounts {
    /// Powered on.
    pub powered_on: u64,
    /// On their way.
    pub cloning: u64,
}

/// A VM that was powered on or off.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerChange {
    /// Its moref.
    pub machine: String,
    /// On, or off.
    pub on: bool,
    /// When, by vCenter's clock, which is that of this machine: in seconds since 1970.
    pub at: f64,
}

/// A call to a VM, whatever came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    /// The SOAP method.
    pub method: String,
    /// The instance UUID of the VM, or nothing where it wasn't there.
    pub instance: String,
    /// When, as of [`PowerChange`].
    pub at: f64,
}

impl VCenter {
    /// The vCenter that the sandbox's environment describes under this number.
    pub(crate) fn from_environment(environment: &BTreeMap<String, String>, number: usize) -> Option<Self> {
        let prefix = if number == 1 { "VC".to_owned() } else { format!("VC{number}") };
        let (url, control) = match number {
            1 => ("GOVC_URL".to_owned(), "VCSIM_CONTROL".to_owned()),
            _ => (format!("{prefix}_GOVC_URL"), format!("{prefix}_CONTROL")),
        };
        let get = |name: &str| environment.get(name).cloned();
        let target = BTreeMap::from([("GOVC_URL".to_owned(), get(&url)?)]);
        Some(Self {
            host: get(&format!("{prefix}_HOST"))?,
            user: get(&format!("{prefix}_USER"))?,
            password: get(&format!("{prefix}_PASS"))?,
            ca_file: get(&format!("{prefix}_CA_FILE"))?,
            govc: Program::of_sandbox(&["govc"]).with(environment).with(&target),
            control: get(&control)?,
        })
    }

    /// Declares it as a VCenter, with what else its spec says, and its credentials as a Secret of the same name.
    pub fn declare(&self, sandbox: &Sandbox, name: &str, spec: &Value) {
        self.declare_secret(sandbox, name, &self.password);
        self.declare_with_secret_in("default", sandbox, name, spec);
    }

    /// The same with the Secret in a namespace, such as that of an operator which may read no others.
    pub fn declare_in(&self, namespace: &Namespace, sandbox: &Sandbox, name: &str, spec: &Value) {
        let secret = self.secret(&namespace.name, name, &self.password);
        namespace.declare(&secret).unwrap_or_else(|failure| panic!("{failure}"));
        self.declare_with_secret_in(&namespace.name, sandbox, name, spec);
    }

    fn declare_with_secret_in(&self, namespace: &str, sandbox: &Sandbox, name: &str, spec: &Value) {
        let bundle = fs::read_to_string(&self.ca_file).expect("the sandbox has written its authority");
        let mut vcenter = json!({
            "apiVersion": "vm.codeconnect.vmworld.com/v1alpha1",
            "kind": "VCenter",
            "metadata": {"name": name},
            "spec": {
                "server": self.host,
                "credentialsSecretRef": {"namespace": namespace, "name": name},
                "tls": {"caBundle": bundle},
            },
        });
        if let (Some(known), Some(more)) = (vcenter["spec"].as_object_mut(), spec.as_object()) {
            known.extend(more.clone());
        }
        sandbox.declare(&vcenter).unwrap_or_else(|failure| panic!("{failure}"));
    }

    /// Writes the Secret of a VCenter, with some password.
    pub fn declare_secret(&self, sandbox: &Sandbox, name: &str, password: &str) {
        let secret = self.secret("default", name, password);
        sandbox.declare(&secret).unwrap_or_else(|failure| panic!("{failure}"));
    }

    fn secret(&self, namespace: &str, name: &str, password: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": namespace},
            "data": {"username": BASE64_STANDARD.encode(&self.user), "password": BASE64_STANDARD.encode(password)},
        })
    }

    /// govc, aimed at this vCenter.
    pub fn govc(&self, arguments: &[&str]) -> Result<String, Failure> {
        self.govc.run(arguments)
    }

    /// The same vCenter seen with other variables in govc's environment.
    #[must_use]
    pub fn seen_with(&self, environment: &BTreeMap<String, String>) -> Self {
        Self { govc: self.govc.clone().with(environment), ..self.clone() }
    }

    /// The inventory paths of all machines.
    #[must_use]
    pub fn machines(&self) -> Vec<String> {
        let found = self.govc(&["find", "/", "-type", "m"]).unwrap_or_else(|failure| panic!("{failure}"));
        found.lines().map(ToOwned::to_owned).collect()
    }

    /// How many machines there are in which state. It costs the vCenter next to nothing, and may be asked often.
    #[must_use]
    pub fn machine_counts(&self) -> MachineCounts {
        let counts = self.control("GET", "/machines", &Value::Null).expect("machines can always be counted");
        let count = |name: &str| counts[name].as_u64().expect("the control endpoint counts");
        MachineCounts { powered_on: count("poweredOn"), cloning: count("cloning") }
    }

    /// When machines were powered on and off since that was last forgotten, in this order.
    #[must_use]
    pub fn power_changes(&self) -> Vec<PowerChange> {
        let changes = self.control("GET", "/power", &Value::Null).expect("the history can always be read");
        let change = |change: &Value| PowerChange {
            machine: change["machine"].as_str().expect("a VM has a moref").to_owned(),
            on: change["on"].as_bool().expect("it is on or off"),
            at: change["at"].as_f64().expect("it was at some time"),
        };
        changes.as_array().expect("changes are a list").iter().map(change).collect()
    }

    /// Forgets when machines were powered on and off.
    pub fn forget_power_changes(&self) {
        self.control("DELETE", "/power", &Value::Null).expect("the history can always be forgotten");
    }

    /// All calls of clients whose name begins so to VMs, or that move VMs, since these were last asked for.
    #[must_use]
    pub fn take_touches(&self, client: &str) -> Vec<Touch> {
        let asked = self.control("GET", &format!("/touched?client={client}&forget=true"), &Value::Null);
        let touch = |touch: &Value| Touch {
            method: touch["method"].as_str().expect("a call has a method").to_owned(),
            instance: touch["instance"].as_str().unwrap_or_default().to_owned(),
            at: touch["at"].as_f64().expect("it was at some time"),
        };
        let touches = asked.expect("calls can always be read");
        touches.as_array().expect("calls are a list").iter().map(touch).collect()
    }

    /// How many sessions Drover has.
    #[must_use]
    #[track_caller]
    pub fn sessions(&self) -> usize {
        let all = self.govc(&["session.ls", "-json"]).unwrap_or_else(|failure| panic!("{failure}"));
        let all: Value = serde_json::from_str(&all).expect("govc prints JSON when asked to");
        let all = all["sessionList"].as_array().expect("sessions are a list");
        assert!(!all.is_empty(), "govc has one itself");
        all.iter().filter(|session| session["userAgent"].as_str().unwrap_or_default().starts_with("drover")).count()
    }

    /// How often a SOAP method was called by clients whose name begins so.
    #[must_use]
    pub fn calls(&self, method: &str, client: &str) -> u64 {
        self.counted(client)["methods"][method].as_u64().unwrap_or(0)
    }

    /// How many calls clients whose name begins so have made in all.
    #[must_use]
    pub fn all_calls(&self, client: &str) -> u64 {
        self.counted(client)["total"].as_u64().unwrap_or(0)
    }

    /// How many bytes of answers were sent to clients whose name begins so.
    #[must_use]
    pub fn bytes_sent(&self, client: &str) -> u64 {
        self.counted(client)["bytes"].as_u64().unwrap_or(0)
    }

    /// How often operators have changed something since calls were last counted from 0, by method.
    #[must_use]
    pub fn changes(&self) -> BTreeMap<&'static str, u64> {
        let counted = self.counted("drover");
        let count = |method: &'static str| (method, counted["methods"][method].as_u64().unwrap_or(0));
        CHANGES.map(count).into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Counts calls from 0 again.
    pub fn forget_calls(&self) {
        self.control("DELETE", "/calls", &Value::Null).expect("counts can always be reset");
    }

    fn counted(&self, client: &str) -> Value {
        self.control("GET", &format!("/calls?client={client}"), &Value::Null).expect("counts can always be read")
    }

    /// Gives the vCenter a rule to misbehave by. A test that would go well without the rule too asserts that it has met
    /// something.
    #[track_caller]
    // Where what the rule does is itself what is tested, nobody needs to ask it.
    #[allow(clippy::must_use_candidate)]
    pub fn rule(&self, rule: &Value) -> Rule {
        let added = self.control("POST", "/rules", rule);
        let added = added.unwrap_or_else(|error| panic!("the rule {rule} was refused: {error}"));
        Rule { vcenter: self.clone(), id: added["id"].as_u64().expect("a rule has a number"), shown: rule.to_string() }
    }

    /// Asks the control endpoint: `sandbox/README.md` lists what there is. A refusal is returned as its message.
    pub fn control(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let request = ureq::http::Request::builder().method(method).uri(format!("{}{path}", self.control));
        let request = request.body(body.to_string()).map_err(|error| error.to_string())?;
        let mut response = http::send(request).map_err(|error| error.to_string())?;
        let answer: Value = response.body_mut().read_json().map_err(|error| error.to_string())?;
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }
}
